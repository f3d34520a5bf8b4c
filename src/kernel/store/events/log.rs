//! The log's tables: append in the caller's transaction, read in order.

use serde::{Deserialize, Serialize};

use tenantd_base::{
    clock::Timestamp,
    id::{EventId, TenantId},
};

use super::{
    act::Act,
    envelope::{self, Draft},
    feed::{self, Sequence},
};
use crate::{
    Counts, Flow, Key, KeyRange, Read, SegmentedTable, StoreError, Table, WriteTx, catalog,
    changes::Changes,
    codec::{self, Record},
    end_of_segment, segment_of,
    usage::{self, CountedSegments},
};

/// A stored event: the fields that readers filter by, and the body as it is sent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventRecord {
    pub id: EventId,
    pub tenant_id: TenantId,
    pub kind: String,
    pub at: Timestamp,
    #[serde(with = "codec::bytes")]
    pub body: Vec<u8>,
    /// When the event was imported from another installation, where it already had its effects.
    pub imported_at: Option<Timestamp>,
    /// Its number in the tenant's sequence, which is the `seq` in the body.
    pub number: u64,
}

impl Record for EventRecord {
    const VERSION: u8 = 3;

    /// Version 1 had no import time. Version 2 had no number, because the number was the place in the log; [`Event::stored`]
    /// fills it in.
    fn upgrade(version: u8, fields: &[u8]) -> Result<Self, String> {
        let (not_imported, as_place) = (codec::encode_fields(&None::<Timestamp>)?, codec::encode_fields(&0_u64)?);
        match version {
            1 => codec::decode_fields(&[fields, &not_imported, &as_place].concat()),
            2 => codec::decode_fields(&[fields, &as_place].concat()),
            _ => Err(format!("format version {version} is not known to this release")),
        }
    }
}

impl EventRecord {
    /// When the event arrived in this log.
    pub(super) fn arrived_at(&self) -> Timestamp {
        self.imported_at.unwrap_or(self.at)
    }
}

impl EventRecord {
    /// What remains of an event whose tenant is removed: its place, its id and its time. The log has no gaps, and retention needs
    /// the time.
    pub(super) fn erased(self) -> Self {
        Self {
            id: self.id,
            tenant_id: TenantId::from_bytes([0; 16]),
            kind: String::new(),
            at: self.at,
            body: Vec::new(),
            imported_at: self.imported_at,
            number: 0,
        }
    }

    /// Whether its tenant was removed. Readers skip it.
    pub fn is_erased(&self) -> bool {
        self.kind.is_empty()
    }
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Position(u64);

impl Record for Position {
    const VERSION: u8 = 1;
}

/// An event with its place in the log of the installation, which tenants do not see.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    pub seq: u64,
    pub record: EventRecord,
}

impl Event {
    /// An event as read from the store. For events of earlier releases, the place is the number.
    pub(super) fn stored(seq: u64, record: EventRecord) -> Self {
        let number = if record.number == 0 { seq } else { record.number };
        Self { seq, record: EventRecord { number, ..record } }
    }

    /// Whether the event was imported. It is shown, but has no effects here.
    pub const fn is_imported(&self) -> bool {
        self.record.imported_at.is_some()
    }
}

pub(super) static HEAD: Table<u8, Position> = Table::new(catalog::EVENT_HEAD, &[]);
const LAST: u8 = 0;
const FIRST_KEPT: u8 = 1;

/// How many numbers each tenant's sequence skips if it is unknown how many events are lost. A journal cannot hold more events.
const UNKNOWN_LOSS: u64 = 1_000_000;

/// Events and feed entries share this table, because a commit pays for every table that it touches.
pub(super) static EVENTS: SegmentedTable = SegmentedTable::new(catalog::EVENTS);

/// How events count for their tenants. Feed entries do not count.
pub(super) static COUNTED: CountedSegments = CountedSegments {
    table: catalog::EVENTS,
    counts: Counts::Bytes,
    tenant_of: |key, stored| {
        let (EVENT_ROW, _) = EventKey::from_bytes(key)? else { return None };
        let event: EventRecord = codec::decode(catalog::EVENTS.name(), key, stored).ok()?;
        (!event.is_erased()).then_some(event.tenant_id)
    },
};

/// The first byte of an event's key. Keys of feed entries start with [`feed::TENANT_ROW`].
pub(super) const EVENT_ROW: u8 = 0;

type EventKey = (u8, u64);

/// Returns the place of the newest event. Zero if there is none.
pub fn head(tx: &impl Read) -> Result<u64, StoreError> {
    Ok(HEAD.get(tx, &LAST)?.map_or(0, |position| position.0))
}

/// Returns the place of the oldest kept event.
pub fn first_kept(tx: &impl Read) -> Result<u64, StoreError> {
    Ok(HEAD.get(tx, &FIRST_KEPT)?.map_or(1, |position| position.0))
}

/// Returns the place of the newest event after a set of changes, if they append any.
pub(crate) fn log_end_in(changes: &Changes) -> Option<u64> {
    let key = LAST.to_bytes();
    let stored = changes.put_under(catalog::EVENT_HEAD.into(), &key)?;
    codec::decode::<Position>(catalog::EVENT_HEAD.name(), &key, stored).ok().map(|position| position.0)
}

/// Returns the events that a set of changes appends, in order.
pub(crate) fn events_in(changes: &Changes) -> Vec<Event> {
    let rows = changes.tables().filter(|(raw, _)| raw.table == catalog::EVENTS).flat_map(|(_, table)| &table.entries);
    let event = |(key, change): (&Vec<u8>, &Option<Vec<u8>>)| {
        let (EVENT_ROW, seq) = EventKey::from_bytes(key)? else { return None };
        let record: EventRecord = codec::decode(catalog::EVENTS.name(), key, change.as_deref()?).ok()?;
        (!record.is_erased()).then(|| Event::stored(seq, record))
    };
    rows.filter_map(event).collect()
}

/// Fills the gap of lost events: readers of the log find erased events in their places, and no later event gets a number that a
/// lost one may have had. `through` is the place of the last lost event, if it is known. Returns how many places were filled.
pub(crate) fn fill_lost_places(tx: &mut WriteTx, through: Option<u64>, now: Timestamp) -> Result<u64, StoreError> {
    let (first, last) = (head(tx)? + 1, through.unwrap_or_default());
    for seq in first..=last {
        let id = EventId::from_bytes([0; 16]);
        let tenant_id = TenantId::from_bytes([0; 16]);
        let lost = EventRecord { id, tenant_id, kind: String::new(), at: now, body: Vec::new(), imported_at: None, number: 0 };
        EVENTS.put(tx, segment_of(seq), &(EVENT_ROW, seq), &lost)?;
        HEAD.put(tx, &LAST, &Position(seq))?;
    }
    let lost = (last + 1).saturating_sub(first);
    feed::skip_numbers(tx, through.map_or(UNKNOWN_LOSS, |_| lost))?;
    Ok(lost)
}

pub(super) fn drop_segment(tx: &mut WriteTx, segment: u64) -> Result<(), StoreError> {
    feed::remove_segment(tx, segment)?;
    EVENTS.drop_segment(tx, segment)?;
    HEAD.put(tx, &FIRST_KEPT, &Position(end_of_segment(segment)))
}

/// Advances the end of the log as if there were more events. A segment has more events than a test can write.
#[cfg(test)]
pub(super) fn skip_to(tx: &mut WriteTx, seq: u64) -> Result<(), StoreError> {
    HEAD.put(tx, &LAST, &Position(seq))
}

/// Appends the event to the log, in the transaction of the change that it describes. Returns its number in the tenant's sequence.
pub fn append(tx: &mut WriteTx, act: &mut Act, draft: &Draft<'_>) -> Result<u64, StoreError> {
    let before = feed::sequence(tx, act.tenant_id)?;
    let (id, number) = (EventId::new(act.now, &mut act.entropy), before.last + 1);
    let body = envelope::render(act, id, number, draft).map_err(StoreError::engine)?;
    let kind = draft.kind.name.to_owned();
    put_last(tx, before, &EventRecord { id, tenant_id: act.tenant_id, kind, at: act.now, body, imported_at: None, number })?;
    usage::note_event(tx, act.tenant_id, act.now, act.allowance);
    Ok(number)
}

fn put_last(tx: &mut WriteTx, before: Sequence, record: &EventRecord) -> Result<(), StoreError> {
    let seq = head(tx)? + 1;
    EVENTS.insert_for(tx, record.tenant_id, segment_of(seq), &(EVENT_ROW, seq), record)?;
    feed::put_next(tx, record.tenant_id, before, seq)?;
    HEAD.put(tx, &LAST, &Position(seq))
}

/// Appends an event of another installation, where it had a different number. Returns its number here.
pub fn append_imported(tx: &mut WriteTx, mut record: EventRecord, now: Timestamp) -> Result<u64, StoreError> {
    let before = feed::sequence(tx, record.tenant_id)?;
    let number = before.last + 1;
    let misplaced = || StoreError::damaged(catalog::EVENTS.name(), record.id.as_bytes(), "the body is not that of this event");
    record.body = renumbered_body(&record, number).ok_or_else(misplaced)?;
    (record.imported_at, record.number) = (Some(now), number);
    put_last(tx, before, &record)?;
    Ok(number)
}

/// Returns the body of an event with another number.
pub fn renumbered_body(record: &EventRecord, to: u64) -> Option<Vec<u8>> {
    envelope::renumbered(record, record.number, to)
}

/// The size at which a batch is full, in bytes. Handling one batch delays all writes.
const BATCH_BYTES: usize = 512 << 10;

/// Returns the events after `after`, in order: at most `limit`, about [`BATCH_BYTES`], all of one segment. Some may be
/// [erased](EventRecord::is_erased).
pub fn read_batch(tx: &impl Read, after: u64, limit: usize) -> Result<Vec<Event>, StoreError> {
    // Readers call this until nothing is left, and this check is cheaper than a search.
    if after >= head(tx)? {
        return Ok(Vec::new());
    }
    let next = (after + 1).max(first_kept(tx)?);
    let range = KeyRange {
        start: std::ops::Bound::Included((EVENT_ROW, next).to_bytes()),
        end: KeyRange::prefix(&EVENT_ROW.to_bytes()).end,
    };
    let (mut events, mut bytes) = (Vec::new(), 0);
    EVENTS.scan(tx, segment_of(next), &range, |(_, seq): EventKey, record: EventRecord| {
        bytes += record.body.len();
        events.push(Event::stored(seq, record));
        Ok(if events.len() < limit && bytes < BATCH_BYTES { Flow::Continue } else { Flow::Stop })
    })?;
    Ok(events)
}

/// Returns an event by its place, if it is kept.
pub fn read_one(tx: &impl Read, seq: u64) -> Result<Option<Event>, StoreError> {
    let record: Option<EventRecord> = EVENTS.get(tx, segment_of(seq), &(EVENT_ROW, seq))?;
    Ok(record.filter(|record| !record.is_erased()).map(|record| Event::stored(seq, record)))
}

/// Whether a segment is full and all of its events are older than the retention period. The time of each event counts, not its
/// position: the past of an evaluation tenant is written later, between current events. Events of a tenant whose own clock is
/// ahead may be in the future. They count only if the segment has no others.
pub(super) fn is_older(tx: &impl Read, segment: u64, kept_from: Timestamp, now: Timestamp) -> Result<bool, StoreError> {
    let last: Option<EventRecord> = EVENTS.get(tx, segment, &(EVENT_ROW, end_of_segment(segment) - 1))?;
    if last.is_none() {
        return Ok(false);
    }
    let (mut old, mut young) = (false, false);
    EVENTS.scan(tx, segment, &KeyRange::prefix(&EVENT_ROW.to_bytes()), |_: EventKey, event: EventRecord| {
        let at = event.arrived_at();
        let is_ahead = event.tenant_id.has_own_clock() && at > now;
        old |= at < kept_from;
        young |= at >= kept_from && !is_ahead;
        Ok(if young { Flow::Stop } else { Flow::Continue })
    })?;
    Ok(old && !young)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::assert_golden;

    #[test]
    fn the_stored_forms_match_the_golden_files() {
        assert_golden("event_position", &Position(300));
        let event = EventRecord {
            id: EventId::from_bytes([1; 16]),
            tenant_id: TenantId::from_bytes([2; 16]),
            kind: "api_key.created".to_owned(),
            at: Timestamp::from_millis(1_767_225_600_000),
            body: b"{}".to_vec(),
            imported_at: Some(Timestamp::from_millis(1_767_312_000_000)),
            number: 300,
        };
        assert_golden("event", &event);
    }
}
