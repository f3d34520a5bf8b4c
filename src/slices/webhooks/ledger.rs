//! Stored deliveries: the record of each delivery, the queue of due attempts, the deliveries that ordering holds back, and the
//! counts of an endpoint.
//!
//! Keys contain the event's position in the log (`seq`), so deliveries are removed together with the events. Callers see the
//! event's number instead. **Invariant:** a waiting delivery has exactly one row in `due`, at its `next_attempt_at`, or none while
//! an earlier delivery of its resource holds it back. `pending` of the endpoint's state counts the waiting deliveries. Only this
//! module changes either of them.

use serde::{Deserialize, Serialize};

use tenantd_base::{
    clock::Timestamp,
    id::{TenantId, WebhookId},
};
use tenantd_store::{
    Counts, Direction, Flow, Key, KeyRange, Read, ReadTx, RowsOfSegments, SegmentedTable, StoreError, Table, WriteTx, catalog,
    codec::{Record, decode_fields, encode_fields},
    segment_of,
    usage::CountedSegments,
};

use super::{
    delivery::{Delivery, DeliveryStatus, Trigger},
    model::DisabledReason,
    repo::{self, EndpointKey, STATES},
    stats::{self, Figures},
};

impl Record for Delivery {
    const VERSION: u8 = 2;

    /// Version 1 had no event number, because the number was the event's position in the log: [`numbered`] fills it in.
    fn upgrade(version: u8, fields: &[u8]) -> Result<Self, String> {
        if version != 1 {
            return Err(format!("format version {version} is not known to this release"));
        }
        decode_fields(&[fields, &encode_fields(&0_u64)?].concat())
    }
}

type DeliveryKey = (TenantId, WebhookId, u64);
type DueKey = (TenantId, WebhookId, Timestamp, u64);
type HeldKey = (TenantId, WebhookId, String, u64);

/// A row whose existence is its only information.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Mark;

impl Record for Mark {
    const VERSION: u8 = 1;
}

static DELIVERIES: SegmentedTable = SegmentedTable::new(catalog::WEBHOOK_DELIVERIES).counting(Counts::Bytes);
pub(super) static COUNTED_DELIVERIES: CountedSegments = DELIVERIES.counted();
pub(super) static DELIVERIES_OF_TENANTS: RowsOfSegments = RowsOfSegments(&DELIVERIES);
pub(super) static DUE: Table<DueKey, Mark> = Table::new(catalog::WEBHOOK_DUE, &[]);
pub(super) static HELD: Table<HeldKey, Mark> = Table::new(catalog::WEBHOOK_HELD, &[]);

fn delivery_key(endpoint: EndpointKey, seq: u64) -> DeliveryKey {
    (endpoint.0, endpoint.1, seq)
}

/// Fills in the event number. For events of earlier releases it equals their position.
fn numbered(seq: u64, delivery: Delivery) -> Delivery {
    let number = if delivery.number == 0 { seq } else { delivery.number };
    Delivery { number, ..delivery }
}

pub(super) fn get(tx: &impl Read, endpoint: EndpointKey, seq: u64) -> Result<Option<Delivery>, StoreError> {
    let found: Option<Delivery> = DELIVERIES.get(tx, segment_of(seq), &delivery_key(endpoint, seq))?;
    Ok(found.map(|delivery| numbered(seq, delivery)))
}

pub(super) fn put(tx: &mut WriteTx, endpoint: EndpointKey, seq: u64, delivery: &Delivery) -> Result<(), StoreError> {
    DELIVERIES.put(tx, segment_of(seq), &delivery_key(endpoint, seq), delivery)
}

/// By how much a change from `before` to `after` changes the number of waiting deliveries: 1, 0 or -1.
fn pending_change(before: Option<&Delivery>, after: &Delivery) -> i64 {
    let waits = |delivery: &Delivery| i64::from(!delivery.status.is_settled());
    waits(after) - before.map_or(0, waits)
}

fn parked_change(before: Option<&Delivery>, after: &Delivery) -> i64 {
    // A requested redelivery goes behind new events, so it does not count as a backlog.
    let parked = |delivery: &Delivery| {
        let untried = delivery.status == DeliveryStatus::Pending && delivery.attempt_count == 0;
        i64::from(untried && delivery.trigger == Trigger::Auto)
    };
    parked(after) - before.map_or(0, parked)
}

/// Changes to the counts of one endpoint, collected over a transaction.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counted {
    pub(super) pending: i64,
    pub(super) parked: i64,
}

/// Stores a delivery in its new state and updates its rows in `due` and `held`. `before` is the delivery as it is stored now.
pub(super) fn replace(
    tx: &mut WriteTx,
    endpoint: EndpointKey,
    seq: u64,
    before: Option<&Delivery>,
    after: &Delivery,
    counted: &mut Counted,
) -> Result<(), StoreError> {
    counted.pending += pending_change(before, after);
    counted.parked += parked_change(before, after);
    let was_due = before.and_then(|delivery| delivery.next_attempt_at);
    if was_due != after.next_attempt_at {
        if let Some(at) = was_due {
            DUE.remove(tx, &(endpoint.0, endpoint.1, at, seq))?;
        }
        if let Some(at) = after.next_attempt_at {
            DUE.put(tx, &(endpoint.0, endpoint.1, at, seq), &Mark)?;
        }
    }
    put(tx, endpoint, seq, after)?;
    if let Some(resource) = &after.resource {
        hold(tx, endpoint, resource, seq, after.status.is_settled())?;
    }
    Ok(())
}

/// Maintains the queue of a resource: an unsettled delivery joins it; a settled one leaves it and makes the next one due.
fn hold(tx: &mut WriteTx, endpoint: EndpointKey, resource: &str, seq: u64, settled: bool) -> Result<(), StoreError> {
    let key = (endpoint.0, endpoint.1, resource.to_owned(), seq);
    if !settled {
        let first = first_held(tx, endpoint, resource)?;
        HELD.put(tx, &key, &Mark)?;
        // A delivery that was in progress while later ones were stored, or that is requested again, goes in front of them.
        return first.filter(|first| *first > seq).map_or(Ok(()), |first| hold_off(tx, endpoint, first));
    }
    if HELD.remove(tx, &key)?.is_none() {
        return Ok(());
    }
    let Some(next) = first_held(tx, endpoint, resource)? else { return Ok(()) };
    let Some(mut delivery) = get(tx, endpoint, next)? else { return Ok(()) };
    if delivery.next_attempt_at.is_none() && !delivery.status.is_settled() {
        let at = delivery.event_at;
        delivery.next_attempt_at = Some(at);
        DUE.put(tx, &(endpoint.0, endpoint.1, at, next), &Mark)?;
        put(tx, endpoint, next, &delivery)?;
    }
    Ok(())
}

/// Makes a delivery wait for an earlier one.
fn hold_off(tx: &mut WriteTx, endpoint: EndpointKey, seq: u64) -> Result<(), StoreError> {
    let Some(mut delivery) = get(tx, endpoint, seq)? else { return Ok(()) };
    if let Some(at) = delivery.next_attempt_at.take() {
        DUE.remove(tx, &(endpoint.0, endpoint.1, at, seq))?;
        put(tx, endpoint, seq, &delivery)?;
    }
    Ok(())
}

/// The first unsettled event of the resource.
pub(super) fn first_held(tx: &impl Read, endpoint: EndpointKey, resource: &str) -> Result<Option<u64>, StoreError> {
    let prefix = (endpoint.0, endpoint.1, resource.to_owned()).to_bytes();
    let first = HELD.list(tx, &KeyRange::prefix(&prefix), 1)?;
    Ok(first.first().map(|((_, _, _, seq), _)| *seq))
}

/// Writes the changed counts into the endpoint's state and applies `update` to it.
pub(super) fn settle_counts(
    tx: &mut WriteTx,
    endpoint: EndpointKey,
    counted: Counted,
    update: impl FnOnce(&mut repo::EndpointState),
) -> Result<repo::EndpointState, StoreError> {
    let mut state = repo::state(tx, endpoint)?;
    state.pending = state.pending.saturating_add_signed(counted.pending);
    state.parked = state.parked.saturating_add_signed(counted.parked);
    update(&mut state);
    STATES.put(tx, &endpoint, &state)?;
    Ok(state)
}

/// The due deliveries of an endpoint up to `now`, earliest first, at most `limit`.
pub(super) fn due(
    tx: &impl Read,
    endpoint: EndpointKey,
    now: Timestamp,
    limit: usize,
) -> Result<Vec<(Timestamp, u64)>, StoreError> {
    let mut found = Vec::new();
    DUE.scan(tx, &KeyRange::prefix(&endpoint.to_bytes()), Direction::Forward, |(_, _, at, seq), _| {
        if at > now {
            return Ok(Flow::Stop);
        }
        found.push((at, seq));
        Ok(if found.len() < limit { Flow::Continue } else { Flow::Stop })
    })?;
    Ok(found)
}

/// The endpoint's next due delivery.
pub(super) fn next_due(tx: &impl Read, endpoint: EndpointKey) -> Result<Option<(Timestamp, u64)>, StoreError> {
    let first = DUE.list(tx, &KeyRange::prefix(&endpoint.to_bytes()), 1)?;
    Ok(first.first().map(|((_, _, at, seq), _)| (*at, *seq)))
}

/// Deliveries that still wait although their event, before `first_kept`, was removed: at most `limit`.
pub(super) fn waiting_without_event(
    tx: &impl Read,
    endpoint: EndpointKey,
    first_kept: u64,
    limit: usize,
) -> Result<Vec<(Timestamp, u64)>, StoreError> {
    let mut found = Vec::new();
    DUE.scan(tx, &KeyRange::prefix(&endpoint.to_bytes()), Direction::Forward, |(_, _, at, seq), _| {
        if seq < first_kept {
            found.push((at, seq));
        }
        Ok(if found.len() < limit { Flow::Continue } else { Flow::Stop })
    })?;
    Ok(found)
}

/// Gives up at most `limit` waiting deliveries of the endpoint, earliest due first. Returns how many it found.
pub(super) fn give_up(
    tx: &mut WriteTx,
    endpoint: EndpointKey,
    status: DeliveryStatus,
    reason: Option<DisabledReason>,
    now: Timestamp,
    limit: usize,
) -> Result<u64, StoreError> {
    let rows = DUE.list(tx, &KeyRange::prefix(&endpoint.to_bytes()), limit)?;
    let rows: Vec<(Timestamp, u64)> = rows.into_iter().map(|((_, _, at, seq), _)| (at, seq)).collect();
    give_up_these(tx, endpoint, &rows, (status, reason), now)?;
    Ok(rows.len() as u64)
}

/// Gives up the deliveries of those rows that have not changed since they were read.
pub(super) fn give_up_these(
    tx: &mut WriteTx,
    endpoint: EndpointKey,
    rows: &[(Timestamp, u64)],
    (status, reason): (DeliveryStatus, Option<DisabledReason>),
    now: Timestamp,
) -> Result<(), StoreError> {
    if rows.is_empty() {
        return Ok(());
    }
    let (mut counted, mut figures) = (Counted::default(), Figures::default());
    for (at, seq) in rows {
        match get(tx, endpoint, *seq)? {
            Some(before) if before.next_attempt_at == Some(*at) => {
                let mut after = before.clone();
                after.give_up(status, reason, now);
                replace(tx, endpoint, *seq, Some(&before), &after, &mut counted)?;
                figures.count(&after, false);
            }
            found => {
                if DUE.remove(tx, &(endpoint.0, endpoint.1, *at, *seq))?.is_some() && found.is_none() {
                    counted.pending -= 1;
                }
            }
        }
    }
    settle_counts(tx, endpoint, counted, |_| {})?;
    stats::add(tx, endpoint, now, &figures)
}

/// Removes the waiting deliveries of a deleted endpoint: at most `limit` rows. Returns whether none are left.
pub(super) fn forget(tx: &mut WriteTx, endpoint: EndpointKey, limit: usize) -> Result<bool, StoreError> {
    let prefix = KeyRange::prefix(&endpoint.to_bytes());
    let due = DUE.list(tx, &prefix, limit)?;
    for (key, _) in &due {
        DUE.remove(tx, key)?;
    }
    let held = HELD.list(tx, &prefix, limit)?;
    for (key, _) in &held {
        HELD.remove(tx, key)?;
    }
    if due.len() == limit || held.len() == limit {
        return Ok(false);
    }
    STATES.remove(tx, &endpoint)?;
    Ok(true)
}

/// Schedules another attempt of a delivery: immediately, or after the earlier deliveries of its resource. `fresh` is used if the
/// delivery does not exist yet.
pub(super) fn request_attempt(
    tx: &mut WriteTx,
    endpoint: EndpointKey,
    seq: u64,
    fresh: &Delivery,
    (trigger, now): (Trigger, Timestamp),
    counted: &mut Counted,
) -> Result<Delivery, StoreError> {
    let before = get(tx, endpoint, seq)?;
    let mut after = before.clone().unwrap_or_else(|| fresh.clone());
    after.request_attempt(trigger, now);
    // The endpoint may have turned ordering on after the delivery was created.
    after.resource = after.resource.or_else(|| fresh.resource.clone());
    if let Some(resource) = &after.resource
        && first_held(tx, endpoint, resource)?.is_some_and(|first| first < seq)
    {
        after.next_attempt_at = None;
    }
    replace(tx, endpoint, seq, before.as_ref(), &after, counted)?;
    Ok(after)
}

/// Visits an endpoint's deliveries from newest to oldest, starting before the event at position `before`.
pub(super) fn walk_back(
    tx: &ReadTx,
    endpoint: EndpointKey,
    before: Option<u64>,
    mut visit: impl FnMut(Delivery) -> Result<Flow, StoreError>,
) -> Result<(), StoreError> {
    let mut segments = DELIVERIES.segments(tx)?;
    segments.sort_unstable_by(|left, right| right.cmp(left));
    let mut range = KeyRange::prefix(&endpoint.to_bytes());
    if let Some(before) = before {
        range = range.after(&delivery_key(endpoint, before).to_bytes(), Direction::Backward);
    }
    let mut flow = Flow::Continue;
    for segment in segments.into_iter().filter(|segment| before.is_none_or(|before| *segment <= segment_of(before))) {
        DELIVERIES.walk(tx, segment, &range, Direction::Backward, |(_, _, seq): DeliveryKey, delivery: Delivery| {
            flow = visit(numbered(seq, delivery))?;
            Ok(flow)
        })?;
        if flow == Flow::Stop {
            break;
        }
    }
    Ok(())
}

/// Segments of deliveries whose events were removed.
pub(super) fn segments_without_events(tx: &ReadTx, first_kept: u64) -> Result<Vec<u64>, StoreError> {
    let mut segments = DELIVERIES.segments(tx)?;
    segments.retain(|segment| *segment < segment_of(first_kept));
    Ok(segments)
}

pub(super) fn drop_segment(tx: &mut WriteTx, segment: u64) -> Result<(), StoreError> {
    DELIVERIES.drop_segment(tx, segment)
}

/// When the first delivery after `now` is due.
pub(super) fn due_after(tx: &impl Read, endpoint: EndpointKey, now: Timestamp) -> Result<Option<Timestamp>, StoreError> {
    let mut range = KeyRange::prefix(&endpoint.to_bytes());
    range.start = std::ops::Bound::Included((endpoint.0, endpoint.1, now + std::time::Duration::from_millis(1)).to_bytes());
    let first = DUE.list(tx, &range, 1)?;
    Ok(first.first().map(|((_, _, at, _), _)| *at))
}

#[cfg(test)]
mod tests {
    use tenantd_base::{entropy::Entropy, id::EventId};
    use tenantd_store::codec::assert_golden;

    use super::*;
    use crate::{
        delivery::{AttemptError, Sent, decide},
        schedule::RetrySchedule,
    };

    #[test]
    fn stored_forms_match_their_golden_files() {
        let at = Timestamp::from_millis(1_767_225_600_000);
        let mut delivery = Delivery::new((EventId::from_bytes([1; 16]), 300), "ticket.created", at, Some("tkt_x".to_owned()));
        let sent = Sent {
            remote_ip: Some("203.0.113.7".parse().unwrap()),
            result: Ok(503),
            body: b"busy".to_vec(),
            retry_after: Some("60".to_owned()),
            ..Sent::failed(at, AttemptError::Reset)
        };
        let verdict = decide(&sent, RetrySchedule::Standard, 1, at, &mut Entropy::from_seed(1));
        delivery.record(sent, Trigger::Auto, verdict, at);
        assert_golden("webhook_delivery", &delivery);
        assert_golden("webhook_mark", &Mark);
    }
}
