//! The changes to deliveries since the last commit, and the one transaction that writes them all: the deliveries, the due queue,
//! the states and metrics of the endpoints, and the cursor in the log.
//!
//! **Invariant:** the cursor passes an event only in the transaction that stores its results, or later.

use std::collections::HashMap;

use tenantd_base::{clock::Timestamp, clocks::Reading, telemetry::Usage};
use tenantd_store::{
    WriteTx,
    events::{self, Actor, Intent},
};

use super::super::{
    delivery::{Delivery, DeliveryStatus, Trigger},
    error::WebhookError,
    health::Health,
    interrupted,
    ledger::{self, Counted},
    model::{DisabledReason, EndpointStatus},
    repo::{self, EndpointKey, EndpointState},
    service::Service,
    stats::{self, Figures},
};

/// The name of the dispatcher's cursor in the log.
pub const CURSOR: &str = "webhooks";

/// A change to a delivery.
#[derive(Debug)]
pub(super) struct Settlement {
    pub(super) endpoint: EndpointKey,
    pub(super) seq: u64,
    pub(super) delivery: Delivery,
    pub(super) kind: SettlementKind,
    /// The endpoint's health after the change.
    pub(super) health: Option<Health>,
    /// Why the change disables the endpoint, and the intent that does it.
    pub(super) disables: Option<(DisabledReason, Intent)>,
    /// Whether the store has a row for the attempt in progress.
    pub(super) noted: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SettlementKind {
    /// An attempt of an event that came directly from the log.
    First,
    /// An attempt of a stored delivery that was due at this time.
    Late { due_at: Option<Timestamp> },
    /// Stored to wait; `behind` an earlier delivery of its resource.
    Parked { behind: bool },
    /// Stored as skipped.
    Skipped,
}

#[derive(Debug, Default)]
pub(super) struct Batch {
    pub(super) settlements: Vec<Settlement>,
    pub(super) cursor: Option<u64>,
    /// The clocks when the batch was created.
    pub(super) clocks: Option<Reading>,
}

impl Batch {
    /// The current time of the endpoint's tenant.
    fn now(&self, endpoint: EndpointKey) -> Option<Timestamp> {
        self.clocks.as_ref().map(|clocks| clocks.of(endpoint.0))
    }

    /// Counts the attempts for their tenants after the batch is stored.
    pub(super) fn count(&self, usage: &Usage) {
        let Some(clocks) = &self.clocks else { return };
        for settlement in &self.settlements {
            if matches!(settlement.kind, SettlementKind::First | SettlementKind::Late { .. }) {
                let delivered = settlement.delivery.status == DeliveryStatus::Delivered;
                let (tenant, _) = settlement.endpoint;
                usage.delivery(tenant, delivered, clocks.of(tenant).since(settlement.delivery.event_at));
            }
        }
    }
}

/// The stored state of an endpoint after a commit.
#[derive(Clone, Copy, Debug)]
pub(super) struct Committed {
    pub(super) endpoint: EndpointKey,
    /// `None` if the endpoint no longer exists.
    pub(super) state: Option<EndpointState>,
}

#[derive(Default)]
struct Change {
    counted: Counted,
    health: Option<Health>,
    figures: Figures,
    /// `None` if the endpoint no longer exists.
    status: Option<EndpointStatus>,
}

/// Writes a batch.
pub(super) fn write(tx: &mut WriteTx, batch: &Batch) -> Result<Vec<Committed>, WebhookError> {
    let mut changes: HashMap<EndpointKey, Change> = HashMap::new();
    for settlement in &batch.settlements {
        let endpoint = settlement.endpoint;
        let change = match changes.entry(endpoint) {
            std::collections::hash_map::Entry::Occupied(found) => found.into_mut(),
            std::collections::hash_map::Entry::Vacant(place) => {
                let status = repo::get(tx, endpoint)?.map(|endpoint| endpoint.status);
                place.insert(Change { status, ..Change::default() })
            }
        };
        if settlement.noted {
            interrupted::ended(tx, endpoint, settlement.seq)?;
        }
        let Some(status) = change.status else { continue };
        let attempted = matches!(settlement.kind, SettlementKind::First | SettlementKind::Late { .. });
        let skipped = skip_at_disabled(settlement, status, batch.now(endpoint));
        let as_it_is = (&settlement.delivery, settlement.kind);
        let (delivery, kind) = skipped.as_ref().map_or(as_it_is, |(delivery, kind)| (delivery, *kind));
        store_delivery(tx, (endpoint, settlement.seq), delivery, kind, &mut change.counted)?;
        change.figures.count(delivery, attempted);
        change.health = settlement.health.or(change.health);
        if let Some((reason, intent)) = &settlement.disables {
            Service::disable(tx, &mut intent.begin(), endpoint.1, *reason)?;
            change.status = Some(EndpointStatus::Disabled(*reason));
        }
    }
    let mut committed = Vec::with_capacity(changes.len());
    for (endpoint, change) in changes {
        if change.status.is_none() {
            committed.push(Committed { endpoint, state: None });
            continue;
        }
        let state = ledger::settle_counts(tx, endpoint, change.counted, |state| {
            if let Some(health) = change.health {
                state.health = health;
            }
        })?;
        if let (Some(now), true) = (batch.now(endpoint), change.figures != Figures::default()) {
            stats::add(tx, endpoint, now, &change.figures)?;
        }
        committed.push(Committed { endpoint, state: Some(state) });
    }
    if let Some(cursor) = batch.cursor {
        events::set_cursor(tx, CURSOR, cursor)?;
    }
    Ok(committed)
}

/// Skips deliveries that were in progress or about to be stored when the endpoint was disabled: nothing waits for a disabled
/// endpoint.
fn skip_at_disabled(settlement: &Settlement, status: EndpointStatus, now: Option<Timestamp>) -> Option<(Delivery, SettlementKind)> {
    let (EndpointStatus::Disabled(reason), Some(now)) = (status, now) else { return None };
    if settlement.delivery.status.is_settled() {
        return None;
    }
    let mut delivery = settlement.delivery.clone();
    delivery.give_up(DeliveryStatus::Skipped, Some(reason), now);
    let kind = match settlement.kind {
        SettlementKind::Parked { .. } => SettlementKind::Skipped,
        other => other,
    };
    Some((delivery, kind))
}

fn store_delivery(
    tx: &mut WriteTx,
    (endpoint, seq): (EndpointKey, u64),
    delivery: &Delivery,
    kind: SettlementKind,
    counted: &mut Counted,
) -> Result<(), WebhookError> {
    match kind {
        SettlementKind::First => ledger::replace(tx, endpoint, seq, None, delivery, counted)?,
        SettlementKind::Skipped => {
            let before = ledger::get(tx, endpoint, seq)?;
            ledger::replace(tx, endpoint, seq, before.as_ref(), delivery, counted)?;
        }
        SettlementKind::Parked { behind } => {
            let mut after = delivery.clone();
            // The earlier delivery may have been settled in the meantime.
            let waits = behind
                && match &after.resource {
                    Some(resource) => ledger::first_held(tx, endpoint, resource)?.is_some_and(|first| first < seq),
                    None => false,
                };
            after.next_attempt_at = (!waits).then_some(after.event_at);
            ledger::replace(tx, endpoint, seq, None, &after, counted)?;
        }
        SettlementKind::Late { due_at } => {
            let before = ledger::get(tx, endpoint, seq)?;
            let mut after = delivery.clone();
            let asked_again = before.as_ref().is_some_and(|before| {
                before.next_attempt_at.is_some()
                    && before.next_attempt_at != due_at
                    && matches!(before.trigger, Trigger::Manual | Trigger::Replay)
            });
            if let (true, false, Some(before)) = (asked_again, after.status.is_settled(), &before) {
                // A caller requested another attempt while this one was in progress: it is the next attempt.
                after.next_attempt_at = before.next_attempt_at;
                after.trigger = before.trigger;
                after.round = 0;
            }
            ledger::replace(tx, endpoint, seq, before.as_ref(), &after, counted)?;
        }
    }
    Ok(())
}

/// The actor that disables an endpoint because of its receiver's responses.
pub(super) fn disabling_intent(endpoint: EndpointKey, now: Timestamp) -> Intent {
    Intent::new(endpoint.0, now, Actor::system("Webhook dispatch"))
}
