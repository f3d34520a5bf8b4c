//! The log consumer that updates the roll-ups. One table maps event kinds to what they count for.
//!
//! The cursor commits together with the values, so every event counts once. Kinds are matched by name; a kind that no slice emits
//! has no effect.

use std::time::Duration;

use serde::Deserialize;

use tenantd_base::{
    clock::{Clock, Timestamp},
    id::TenantId,
};
use tenantd_store::{
    StoreError, WriteTx,
    events::{Consumer, Event},
};

use super::{
    model::{Changes, Series},
    repo, upkeep,
};

/// The name of the consumer's cursor.
pub(super) const NAME: &str = "analytics";

/// What an event counts for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Effect {
    TicketCreated,
    /// A comment, which counts if it is the first response.
    TicketAnswered,
    /// A change, which counts if it sets the time of the first response.
    TicketChanged,
    TicketResolved,
    RunStarted,
    /// With the outcome.
    RunEnded(&'static str),
    /// A VM that was ordered. A discovered VM does not count.
    VmCreated,
    /// One occurrence in this group.
    One(Series, &'static str),
}

const EFFECTS: &[(&str, Effect)] = &[
    ("ticket.created", Effect::TicketCreated),
    ("ticket.commented", Effect::TicketAnswered),
    ("ticket.updated", Effect::TicketChanged),
    ("ticket.resolved", Effect::TicketResolved),
    ("ticket.reopened", Effect::One(Series::TicketsReopened, "")),
    ("workflow.run.started", Effect::RunStarted),
    ("workflow.run.succeeded", Effect::RunEnded("succeeded")),
    ("workflow.run.failed", Effect::RunEnded("failed")),
    ("workflow.run.cancelled", Effect::RunEnded("cancelled")),
    ("workflow.run.timed_out", Effect::RunEnded("timed_out")),
    ("vm.created", Effect::VmCreated),
    ("vm.provision_failed", Effect::One(Series::Provisions, "failed")),
    ("backup.job.succeeded", Effect::One(Series::BackupJobs, "succeeded")),
    ("backup.job.failed", Effect::One(Series::BackupJobs, "failed")),
    ("backup.job.missed", Effect::One(Series::BackupJobs, "missed")),
    ("backup.rpo_breached", Effect::One(Series::RpoBreaches, "")),
];

/// The parts of an event's body that are counted.
#[derive(Deserialize)]
struct Body {
    data: Data,
}

#[derive(Deserialize)]
struct Data {
    ticket: Option<TicketFacts>,
    run: Option<RunFacts>,
    vm: Option<VmFacts>,
    changes: Option<TicketChanges>,
}

#[derive(Deserialize)]
struct TicketFacts {
    priority: String,
    organization: OrganizationFacts,
    created_at: Timestamp,
    first_responded_at: Option<Timestamp>,
    sla: SlaFacts,
}

#[derive(Deserialize)]
struct OrganizationFacts {
    id: String,
}

#[derive(Deserialize)]
struct SlaFacts {
    first_response: ClockFacts,
    resolution: ClockFacts,
}

#[derive(Deserialize)]
struct ClockFacts {
    breached: bool,
}

#[derive(Deserialize)]
struct TicketChanges {
    first_responded_at: Option<serde::de::IgnoredAny>,
}

#[derive(Deserialize)]
struct RunFacts {
    workflow: WorkflowFacts,
    created_at: Timestamp,
}

#[derive(Deserialize)]
struct WorkflowFacts {
    key: String,
}

#[derive(Deserialize)]
struct VmFacts {
    operation_id: Option<serde::de::IgnoredAny>,
}

/// Adds an event to the changes.
pub(super) fn count(changes: &mut Changes, event: &Event) {
    let record = &event.record;
    let Some((_, effect)) = EFFECTS.iter().find(|(kind, _)| *kind == record.kind) else { return };
    if let Effect::One(series, group) = effect {
        return changes.count(record.tenant_id, *series, group, record.at);
    }
    match serde_json::from_slice::<Body>(&record.body) {
        Ok(body) => count_facts(changes, *effect, record.tenant_id, record.at, &body.data),
        // Do not fail: a stuck consumer would stop all metrics, and retention could never shorten the log.
        Err(error) => {
            tracing::error!(seq = event.seq, kind = record.kind, %error, "cannot count an event for analytics; skipping it");
        }
    }
}

fn count_facts(changes: &mut Changes, effect: Effect, tenant: TenantId, at: Timestamp, data: &Data) {
    if let Some(ticket) = &data.ticket {
        let priority = ticket.priority.as_str();
        let age = at.since(ticket.created_at).as_secs();
        let changed = data.changes.as_ref().is_some_and(|changes| changes.first_responded_at.is_some());
        match effect {
            Effect::TicketCreated => {
                changes.count(tenant, Series::TicketsCreated, priority, at);
                changes.count(tenant, Series::TicketsCreatedByOrganization, &ticket.organization.id, at);
            }
            // The comment is the first response if the ticket was first answered at the time of this event.
            Effect::TicketAnswered if ticket.first_responded_at == Some(at) => {
                changes.spread(tenant, Series::FirstResponse, priority, at, age);
            }
            Effect::TicketChanged if changed => changes.spread(tenant, Series::FirstResponse, priority, at, age),
            Effect::TicketResolved => {
                changes.count(tenant, Series::TicketsResolved, priority, at);
                changes.count(tenant, Series::TicketsResolvedByOrganization, &ticket.organization.id, at);
                changes.spread(tenant, Series::Resolution, priority, at, age);
                if !ticket.sla.first_response.breached && !ticket.sla.resolution.breached {
                    changes.count(tenant, Series::SlaMet, priority, at);
                }
            }
            _ => {}
        }
    }
    if let Some(run) = &data.run {
        match effect {
            Effect::RunStarted => {
                changes.count(tenant, Series::RunsStarted, "", at);
                changes.count(tenant, Series::RunsStartedByWorkflow, &run.workflow.key, at);
            }
            Effect::RunEnded(outcome) => {
                let millis = u64::try_from(at.since(run.created_at).as_millis()).unwrap_or(u64::MAX);
                changes.count(tenant, Series::RunsEnded, outcome, at);
                changes.spread(tenant, Series::RunDuration, "", at, millis);
            }
            _ => {}
        }
    }
    if effect == Effect::VmCreated && data.vm.as_ref().is_some_and(|vm| vm.operation_id.is_some()) {
        changes.count(tenant, Series::Provisions, "succeeded", at);
    }
}

#[derive(Debug)]
pub(super) struct RollUps {
    /// Determines which hours have already been folded into days. Query results do not depend on it.
    pub(super) clock: Clock,
}

impl Consumer for RollUps {
    fn name(&self) -> &'static str {
        NAME
    }

    fn gathers(&self) -> Duration {
        Duration::from_secs(1)
    }

    fn handle(&self, tx: &mut WriteTx, events: &[Event]) -> Result<(), StoreError> {
        let now = self.clock.now();
        let mut changes = Changes::at(now);
        for event in events {
            count(&mut changes, event);
        }
        repo::add(tx, &changes, upkeep::first_hour(now))
    }
}
