//! Lists deliveries from newest to oldest, filtered and paginated, in bounded time.

use tenantd_base::clock::Timestamp;
use tenantd_store::{
    Flow, ReadTx, StoreError,
    events::{self, EventPattern},
};

use super::{
    delivery::{Delivery, DeliveryStatus},
    ledger,
    repo::EndpointKey,
};

/// How many deliveries one call examines before it returns what it has.
const MAX_EXAMINED: usize = 5_000;

#[derive(Clone, Debug)]
pub(super) struct DeliveryQuery {
    /// Empty means any status.
    pub(super) statuses: Vec<DeliveryStatus>,
    pub(super) patterns: Vec<EventPattern>,
    pub(super) since: Option<Timestamp>,
    pub(super) until: Option<Timestamp>,
}

impl DeliveryQuery {
    fn matches(&self, delivery: &Delivery) -> bool {
        (self.statuses.is_empty() || self.statuses.contains(&delivery.status))
            && (self.patterns.is_empty() || self.patterns.iter().any(|pattern| pattern.matches(&delivery.kind)))
            && self.since.is_none_or(|since| delivery.event_at >= since)
            && self.until.is_none_or(|until| delivery.event_at < until)
    }
}

pub(super) struct DeliveryPage {
    pub(super) deliveries: Vec<Delivery>,
    /// The number of the last examined event, if there are more.
    pub(super) last: Option<u64>,
    pub(super) total: Option<u64>,
}

pub(super) fn list(
    tx: &ReadTx,
    endpoint: EndpointKey,
    query: &DeliveryQuery,
    before: Option<u64>,
    limit: usize,
    count: bool,
) -> Result<DeliveryPage, StoreError> {
    let mut page = DeliveryPage { deliveries: Vec::new(), last: None, total: None };
    let (mut examined, mut position) = (0, None);
    // If the event at the cursor was removed, all older ones were removed too.
    let before = before.map(|number| events::place_of(tx, endpoint.0, number)).transpose()?.map(Option::unwrap_or_default);
    ledger::walk_back(tx, endpoint, before, |delivery| {
        let matches = query.matches(&delivery);
        if (matches && page.deliveries.len() == limit) || examined == MAX_EXAMINED {
            page.last = position;
            return Ok(Flow::Stop);
        }
        examined += 1;
        position = Some(delivery.number);
        if matches {
            page.deliveries.push(delivery);
        }
        Ok(Flow::Continue)
    })?;
    if count {
        let mut total = 0;
        ledger::walk_back(tx, endpoint, None, |delivery| {
            total += u64::from(query.matches(&delivery));
            Ok(Flow::Continue)
        })?;
        page.total = Some(total);
    }
    Ok(page)
}
