//! Workflows of the story: a few that come with the binary, and runs of them if wanted, which the engine carries out.

use serde_json::json;

use super::{
    SampleError, Stage,
    people::{Cast, Player},
};
use crate::kernel::clock::Timestamp;

/// Starters that go by events of the story's tickets and devices.
const WATCHING: [&str; 3] = ["escalate-sla-breach", "follow-up-resolved", "new-device-checklist"];
/// How many people are taken on in the story, each by a run; and how many leave, which an administrator has still to agree to.
const ONBOARDED: usize = 5;
const LEAVING: usize = 2;

pub(super) async fn install(stage: &Stage, runs: bool, cast: &Cast, now: Timestamp) -> Result<(), SampleError> {
    let intent = stage.intent("workflows", 0, now, cast.actor(Player::Staff(1)));
    let workflows = stage.parts.workflows.clone();
    let people: Vec<(String, String)> = cast
        .customers
        .iter()
        .filter_map(|customer| Some((customer.contacts.first()?.name.clone(), customer.id.to_string())))
        .collect();
    stage
        .parts
        .store
        .write(move |tx| {
            let mut act = intent.begin();
            for starter in WATCHING {
                workflows.install(tx, &mut act, starter, &json!({}))?;
            }
            let onboard = workflows.install(tx, &mut act, "onboard-user", &json!({}))?;
            let offboard = workflows.install(tx, &mut act, "offboard-user", &json!({}))?;
            for (place, (name, organization)) in people.iter().take(if runs { ONBOARDED + LEAVING } else { 0 }).enumerate() {
                let workflow = if place < ONBOARDED { &onboard } else { &offboard };
                workflows.start(tx, &mut act, workflow, json!({"name": name, "organization_id": organization}))?;
            }
            Ok::<_, SampleError>(())
        })
        .await?;
    stage.parts.workflows.wake();
    Ok(())
}
