//! Attempts that a crash interrupts.
//!
//! An attempt that takes longer than [`NOTED_AFTER`] gets a row while it is in progress. The commit of its result removes the row.
//! Rows found at startup are therefore interrupted attempts: tenantd lists them as interrupted and makes them again. Nothing waits
//! for these rows, and most attempts finish before they need one. Writing a row before each attempt would add a commit to the path
//! of every delivery.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use tenantd_base::{
    clock::Timestamp,
    clocks::Reading,
    id::{TenantId, WebhookId},
};
use tenantd_store::{KeyRange, Read, StoreError, Table, WriteTx, catalog, codec::Record, events};

use super::{
    delivery::{Delivery, Trigger},
    ledger::{self, Counted},
    repo::{self, EndpointKey},
};

/// How long an attempt may take without a row. A crash never hides an attempt that took longer.
pub(super) const NOTED_AFTER: Duration = Duration::from_millis(100);

/// An attempt in progress.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct UnderWay {
    pub(super) started_at: Timestamp,
    pub(super) trigger: Trigger,
    /// The resource that the event is about, if the endpoint keeps the order.
    pub(super) resource: Option<String>,
}

impl Record for UnderWay {
    const VERSION: u8 = 1;
}

pub(super) static UNDER_WAY: Table<(TenantId, WebhookId, u64), UnderWay> = Table::new(catalog::WEBHOOK_UNDER_WAY, &[]);

pub(super) fn note(tx: &mut WriteTx, endpoint: EndpointKey, seq: u64, attempt: &UnderWay) -> Result<(), StoreError> {
    UNDER_WAY.put(tx, &(endpoint.0, endpoint.1, seq), attempt)
}

/// Removes the row of an attempt whose result is stored.
pub(super) fn ended(tx: &mut WriteTx, endpoint: EndpointKey, seq: u64) -> Result<(), StoreError> {
    UNDER_WAY.remove(tx, &(endpoint.0, endpoint.1, seq)).map(drop)
}

/// Whether the previous run of the server left unfinished attempts.
pub(super) fn has_any(tx: &impl Read) -> Result<bool, StoreError> {
    Ok(!UNDER_WAY.list(tx, &KeyRange::ALL, 1)?.is_empty())
}

/// Records the attempts that the previous run left unfinished, and makes them due. Returns how many it found.
pub(super) fn recover(tx: &mut WriteTx, clocks: &Reading) -> Result<usize, StoreError> {
    // There are at most as many rows as concurrent attempts.
    let found = UNDER_WAY.list(tx, &KeyRange::ALL, usize::MAX)?;
    for ((tenant, webhook, seq), attempt) in &found {
        let endpoint = (*tenant, *webhook);
        ended(tx, endpoint, *seq)?;
        let Some(event) = events::read_one(tx, *seq)? else { continue };
        let before = ledger::get(tx, endpoint, *seq)?;
        if repo::get(tx, endpoint)?.is_none() || before.as_ref().is_some_and(|delivery| delivery.status.is_settled()) {
            continue;
        }
        let (id, resource) = ((event.record.id, event.record.number), attempt.resource.clone());
        let fresh = || Delivery::new(id, &event.record.kind, event.record.at, resource);
        let mut after = before.clone().unwrap_or_else(fresh);
        after.interrupt(attempt.started_at, attempt.trigger, clocks.of(*tenant));
        let mut counted = Counted::default();
        ledger::replace(tx, endpoint, *seq, before.as_ref(), &after, &mut counted)?;
        ledger::settle_counts(tx, endpoint, counted, |_| {})?;
    }
    Ok(found.len())
}

#[cfg(test)]
mod tests {
    use tenantd_store::codec::assert_golden;

    use super::*;

    #[test]
    fn the_stored_form_matches_its_golden_file() {
        let started_at = Timestamp::from_millis(1_767_225_600_000);
        assert_golden("webhook_under_way", &UnderWay { started_at, trigger: Trigger::Manual, resource: Some("tkt_x".to_owned()) });
    }
}
