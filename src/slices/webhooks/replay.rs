//! Replays: sending past events to an endpoint again, as an operation with progress. The request stores the replay. The dispatcher
//! then reads the log in bounded steps and makes deliveries due. A step commits together with its progress, so a restart continues
//! where it stopped.
//!
//! A replay sends only events that both the endpoint's owner and the user or key that requested it may read at that time.

use serde::{Deserialize, Serialize};

use tenantd_base::{
    clock::Timestamp,
    clocks::Reading,
    fault::Fault,
    id::{OperationId, TenantId, WebhookId},
    vocabulary::vocabulary,
};
use tenantd_store::{
    Direction, Flow, Key, KeyRange, Read, ReadTx, Store, StoreError, Table, WriteTx, catalog,
    codec::{Record, decode_fields, encode_fields},
    events::{self, Act, Actor, Event, FeedQuery},
};

use super::{
    delivery::{Delivery, DeliveryStatus, Trigger},
    error::WebhookError,
    ledger::{self, Counted},
    model::DisabledReason,
    repo::EndpointKey,
    subscriptions::Subscriptions,
};

/// Events per step.
const STEP: usize = 256;
/// How many replays of one endpoint may be in progress, and how many finished ones stay readable.
const MAX_OPEN: usize = 4;
const MAX_ENDED: usize = 20;

vocabulary! {
    /// Which events to send again. `Failed`: given up (exhausted, aborted or expired). `Missing`: never sent (skipped, or older
    /// than the endpoint).
    Only:
    Failed "failed", Missing "missing", All "all",
}

vocabulary! {
    ReplayStatus:
    Queued "queued", Running "running", Succeeded "succeeded",
    /// The endpoint was deleted during the replay.
    Cancelled "cancelled",
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Replay {
    /// Numbers of the tenant's events.
    pub(super) from_seq: u64,
    pub(super) to_seq: u64,
    /// Excludes events before `since`, and events from `until` on.
    pub(super) since: Option<Timestamp>,
    pub(super) until: Option<Timestamp>,
    pub(super) only: Only,
    pub(super) status: ReplayStatus,
    /// The last examined event.
    pub(super) position: u64,
    pub(super) queued: u64,
    pub(super) created_at: Timestamp,
    pub(super) updated_at: Timestamp,
    /// `None` for replays that were created before this was recorded.
    pub(super) asked_by: Option<Actor>,
}

impl Record for Replay {
    const VERSION: u8 = 2;

    /// Version 1 had no `asked_by`.
    fn upgrade(version: u8, fields: &[u8]) -> Result<Self, String> {
        if version != 1 {
            return Err(format!("format version {version} is not known to this release"));
        }
        decode_fields(&[fields, &encode_fields(&None::<Actor>)?].concat())
    }
}

type ReplayKey = (TenantId, WebhookId, OperationId);

pub(super) static REPLAYS: Table<ReplayKey, Replay> = Table::new(catalog::WEBHOOK_REPLAYS, &[]);

impl Replay {
    fn is_open(&self) -> bool {
        matches!(self.status, ReplayStatus::Queued | ReplayStatus::Running)
    }

    /// How much of the range was examined, in percent.
    pub(super) fn progress(&self) -> u64 {
        if !self.is_open() {
            return 100;
        }
        let whole = (self.to_seq + 1).saturating_sub(self.from_seq).max(1);
        let done = (self.position + 1).saturating_sub(self.from_seq).min(whole);
        done * 100 / whole
    }

    fn covers(&self, at: Timestamp) -> bool {
        self.since.is_none_or(|since| at >= since) && self.until.is_none_or(|until| at < until)
    }

    fn wants(&self, delivery: Option<&Delivery>) -> bool {
        let status = delivery.map(|delivery| delivery.status);
        let failed = matches!(status, Some(DeliveryStatus::Exhausted | DeliveryStatus::Aborted | DeliveryStatus::Expired));
        let missing = matches!(status, None | Some(DeliveryStatus::Skipped));
        match self.only {
            Only::Failed => failed,
            Only::Missing => missing,
            Only::All => failed || missing || status == Some(DeliveryStatus::Delivered),
        }
    }
}

/// The parameters of a new replay.
#[derive(Clone, Copy, Debug)]
pub(super) struct NewReplay {
    pub(super) from_seq: Option<u64>,
    pub(super) since: Option<Timestamp>,
    pub(super) to_seq: Option<u64>,
    pub(super) until: Option<Timestamp>,
    pub(super) only: Only,
}

/// Stores a new replay in the caller's transaction.
pub(super) fn create(
    tx: &mut WriteTx,
    act: &mut Act,
    endpoint: EndpointKey,
    new: NewReplay,
) -> Result<(OperationId, Replay), WebhookError> {
    let known = REPLAYS.list(tx, &KeyRange::prefix(&endpoint.to_bytes()), MAX_OPEN + MAX_ENDED)?;
    if known.iter().filter(|(_, replay)| replay.is_open()).count() >= MAX_OPEN {
        return Err(WebhookError::TooManyReplays { most: MAX_OPEN });
    }
    let ended: Vec<ReplayKey> = known.iter().filter(|(_, replay)| !replay.is_open()).map(|(key, _)| *key).collect();
    for key in ended.iter().take(ended.len().saturating_sub(MAX_ENDED - 1)) {
        REPLAYS.remove(tx, key)?;
    }
    let kept = events::sequence(tx, endpoint.0)?;
    let from_seq = new.from_seq.unwrap_or(1).max(kept.removed + 1);
    let to_seq = new.to_seq.unwrap_or(u64::MAX).min(kept.last);
    let backwards = matches!((new.since, new.until), (Some(since), Some(until)) if since >= until);
    if from_seq > to_seq || backwards {
        let message = "the range contains no events; events past their retention are removed";
        return Err(WebhookError::Invalid(vec![Fault::new("", "empty_range", message)]));
    }
    let id = OperationId::new(act.now, &mut act.entropy);
    let replay = Replay {
        from_seq,
        to_seq,
        since: new.since,
        until: new.until,
        only: new.only,
        status: ReplayStatus::Queued,
        position: from_seq - 1,
        queued: 0,
        created_at: act.now,
        updated_at: act.now,
        asked_by: Some(act.actor.clone()),
    };
    REPLAYS.put(tx, &(endpoint.0, endpoint.1, id), &replay)?;
    Ok((id, replay))
}

/// How many deliveries are examined to count the missed events.
const MAX_COUNTED: u64 = 5_000;

/// The events that were skipped while an endpoint was disabled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Missed {
    pub(super) events: u64,
    /// Whether there are more deliveries than were examined.
    pub(super) more: bool,
    /// When the first of them happened.
    pub(super) since: Timestamp,
    pub(super) from_seq: u64,
    pub(super) to_seq: u64,
}

/// Counts the events that were skipped while the endpoint was disabled and have not been sent since.
pub(super) fn missed(tx: &ReadTx, endpoint: EndpointKey) -> Result<Option<Missed>, StoreError> {
    let (mut missed, mut examined): (Option<Missed>, u64) = (None, 0);
    ledger::walk_back(tx, endpoint, None, |delivery| {
        if examined == MAX_COUNTED {
            missed = missed.map(|missed| Missed { more: true, ..missed });
            return Ok(Flow::Stop);
        }
        examined += 1;
        // Events that the owner may not read would be skipped again.
        if delivery.status == DeliveryStatus::Skipped && delivery.skipped_reason != Some(DisabledReason::NotReadable) {
            let (since, from_seq) = (delivery.event_at, delivery.number);
            let newer = missed.unwrap_or(Missed { events: 0, more: false, since, from_seq, to_seq: delivery.number });
            missed = Some(Missed { events: newer.events + 1, since, from_seq, ..newer });
        }
        Ok(Flow::Continue)
    })?;
    Ok(missed)
}

pub(super) fn get(tx: &impl Read, endpoint: EndpointKey, id: OperationId) -> Result<Replay, WebhookError> {
    REPLAYS.get(tx, &(endpoint.0, endpoint.1, id))?.ok_or(WebhookError::NoOperation)
}

fn first_open(tx: &impl Read) -> Result<Option<(ReplayKey, Replay)>, StoreError> {
    let mut open = None;
    REPLAYS.scan(tx, &KeyRange::ALL, Direction::Forward, |key, replay| {
        if !replay.is_open() {
            return Ok(Flow::Continue);
        }
        open = Some((key, replay));
        Ok(Flow::Stop)
    })?;
    Ok(open)
}

/// Runs the next step of a replay. Returns the endpoint of the replay, or `None` if there is no open replay.
pub(super) async fn step(
    store: &Store,
    subscriptions: &Subscriptions,
    clocks: &Reading,
) -> Result<Option<EndpointKey>, WebhookError> {
    let Some((key, replay)) = store.read(first_open)? else { return Ok(None) };
    let (endpoint, now) = ((key.0, key.1), clocks.of(key.0));
    let Some(target) = subscriptions.target(endpoint)? else {
        let ended = Replay { status: ReplayStatus::Cancelled, updated_at: now, ..replay };
        store.write(move |tx| REPLAYS.put(tx, &key, &ended)).await?;
        return Ok(Some(endpoint));
    };
    let query = FeedQuery { tenant_id: endpoint.0, after: replay.position, patterns: Vec::new(), readable: None, limit: STEP };
    let page = store.scan(move |tx| events::read_feed(tx, &query)).await.map_err(|error: StoreError| WebhookError::from(error))?;
    let ended = page.events.is_empty() && !page.more || page.next_after >= replay.to_seq;
    let mut wanted: Vec<(u64, Delivery)> = Vec::new();
    let covered =
        |event: &&Event| event.record.number <= replay.to_seq && replay.covers(event.record.at) && target.wants_replayed(event);
    for event in page.events.iter().filter(covered) {
        let kind = &event.record.kind;
        let asker_reads = replay.asked_by.as_ref().map_or(Ok(true), |asker| subscriptions.reads(endpoint.0, asker, kind))?;
        if asker_reads && subscriptions.may_read(&target, kind)? {
            let resource = target.ordered_by(&event.record.body);
            let id = (event.record.id, event.record.number);
            wanted.push((event.seq, Delivery::new(id, kind, event.record.at, resource)));
        }
    }
    store
        .write(move |tx| {
            let (mut counted, mut next) = (Counted::default(), replay.clone());
            for (seq, fresh) in &wanted {
                let before = ledger::get(tx, endpoint, *seq)?;
                if replay.wants(before.as_ref()) {
                    ledger::request_attempt(tx, endpoint, *seq, fresh, (Trigger::Replay, now), &mut counted)?;
                    next.queued += 1;
                }
            }
            ledger::settle_counts(tx, endpoint, counted, |_| {})?;
            next.position = page.next_after.min(replay.to_seq);
            next.status = if ended { ReplayStatus::Succeeded } else { ReplayStatus::Running };
            next.updated_at = now;
            REPLAYS.put(tx, &key, &next)
        })
        .await?;
    Ok(Some(endpoint))
}

#[cfg(test)]
mod tests {
    use tenantd_store::codec::assert_golden;

    use super::*;

    #[test]
    fn the_stored_form_matches_its_golden_file() {
        let at = Timestamp::from_millis(1_767_225_600_000);
        let replay = Replay {
            from_seq: 11,
            to_seq: 20,
            since: None,
            until: Some(at),
            only: Only::Missing,
            status: ReplayStatus::Running,
            position: 15,
            queued: 3,
            created_at: at,
            updated_at: at,
            asked_by: Some(Actor::system("replays")),
        };
        assert_golden("webhook_replay", &replay);
        assert_eq!(replay.progress(), 50);
        assert_eq!(Replay { status: ReplayStatus::Succeeded, ..replay }.progress(), 100);
    }
}
