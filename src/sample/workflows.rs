//! Installs some of the starter workflows, and starts runs if requested. The engine executes them.

use serde_json::json;

use tenantd_base::clock::Timestamp;

use super::{
    SampleContext, SampleError,
    people::{Author, Participants},
};

/// The starters that are triggered by events of tickets and devices.
const EVENT_STARTERS: [&str; 3] = ["escalate-sla-breach", "follow-up-resolved", "new-device-checklist"];
/// The number of onboarding runs, and of offboarding runs that wait for the approval of an administrator.
const ONBOARDED: usize = 5;
const OFFBOARDED: usize = 2;

pub(super) async fn install(
    context: &SampleContext,
    runs: bool,
    participants: &Participants,
    now: Timestamp,
) -> Result<(), SampleError> {
    let workflows = context.parts.workflows.clone();
    let intent = |act: &str, number: u64| context.intent(act, number, now, participants.actor(Author::Staff(1)));
    let people: Vec<(String, String)> = participants
        .customers
        .iter()
        .filter_map(|customer| Some((customer.contacts.first()?.name.clone(), customer.id.to_string())))
        .collect();
    for (number, starter) in (0..).zip(EVENT_STARTERS) {
        workflows.install(intent("watch", number), starter, &json!({})).await?;
    }
    let onboard = workflows.install(intent("onboard", 0), "onboard-user", &json!({})).await?;
    let offboard = workflows.install(intent("offboard", 0), "offboard-user", &json!({})).await?;
    for (number, (name, organization)) in (0..).zip(people.iter().take(if runs { ONBOARDED + OFFBOARDED } else { 0 })) {
        let workflow = if number < ONBOARDED as u64 { &onboard } else { &offboard };
        let inputs = json!({"name": name, "organization_id": organization});
        workflows.start(intent("run", number), workflow.clone(), inputs).await?;
    }
    context.parts.workflows.wake(context.tenant);
    Ok(())
}
