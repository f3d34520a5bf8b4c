//! Workflows of the story: a few that come with the binary, and runs of them if wanted, which the engine carries out.

use serde_json::json;

use tenantd_base::clock::Timestamp;

use super::{
    SampleError, Stage,
    people::{Cast, Player},
};

/// Starters that go by events of the story's tickets and devices.
const WATCHING: [&str; 3] = ["escalate-sla-breach", "follow-up-resolved", "new-device-checklist"];
/// How many people are taken on in the story, each by a run; and how many leave, which an administrator has still to agree to.
const ONBOARDED: usize = 5;
const LEAVING: usize = 2;

pub(super) async fn install(stage: &Stage, runs: bool, cast: &Cast, now: Timestamp) -> Result<(), SampleError> {
    let workflows = stage.parts.workflows.clone();
    let intent = |act: &str, number: u64| stage.intent(act, number, now, cast.actor(Player::Staff(1)));
    let people: Vec<(String, String)> = cast
        .customers
        .iter()
        .filter_map(|customer| Some((customer.contacts.first()?.name.clone(), customer.id.to_string())))
        .collect();
    for (number, starter) in (0..).zip(WATCHING) {
        workflows.install(intent("watch", number), starter, &json!({})).await?;
    }
    let onboard = workflows.install(intent("onboard", 0), "onboard-user", &json!({})).await?;
    let offboard = workflows.install(intent("offboard", 0), "offboard-user", &json!({})).await?;
    for (number, (name, organization)) in (0..).zip(people.iter().take(if runs { ONBOARDED + LEAVING } else { 0 })) {
        let workflow = if number < ONBOARDED as u64 { &onboard } else { &offboard };
        let inputs = json!({"name": name, "organization_id": organization});
        workflows.start(intent("run", number), workflow.clone(), inputs).await?;
    }
    stage.parts.workflows.wake(stage.tenant);
    Ok(())
}
