//! The log's tables: appending in the caller's transaction, reading in order, and a tenant's own feed.

use serde::{Deserialize, Serialize};

use super::{
    act::Act,
    envelope::{self, Draft},
    kind::{EventPattern, Readable},
};
use crate::kernel::{
    clock::Timestamp,
    id::{EventId, TenantId},
    store::{
        Counts, Direction, Flow, Key, KeyRange, Read, ReadTx, SegmentedTable, StoreError, Table, TenantRow, TenantRows, WriteTx,
        catalog::{self, TableName},
        codec::{self, Record},
        end_of_segment, segment_of,
        usage::{self, CountedSegments},
    },
};

/// An event as it is stored: what readers filter by, and the body as it is sent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventRecord {
    pub id: EventId,
    pub tenant_id: TenantId,
    pub kind: String,
    pub at: Timestamp,
    #[serde(with = "codec::bytes")]
    pub body: Vec<u8>,
    /// When the event came from another installation, where it has had its effects already.
    pub imported_at: Option<Timestamp>,
}

impl Record for EventRecord {
    const VERSION: u8 = 2;

    /// Version 1 ended before the time of the import, which there was none of.
    fn upgrade(version: u8, fields: &[u8]) -> Result<Self, String> {
        if version != 1 {
            return Err(format!("format version {version} is not known to this release"));
        }
        codec::decode_fields(&[fields, &codec::encode_fields(&None::<Timestamp>)?].concat())
    }
}

impl EventRecord {
    /// Since when this log has it.
    pub(super) fn arrived_at(&self) -> Timestamp {
        self.imported_at.unwrap_or(self.at)
    }
}

impl EventRecord {
    /// What stays of an event whose tenant is gone: its place, its id and its time. Numbers have no gaps, and retention goes by time.
    fn erased(self) -> Self {
        Self {
            id: self.id,
            tenant_id: TenantId::from_bytes([0; 16]),
            kind: String::new(),
            at: self.at,
            body: Vec::new(),
            imported_at: self.imported_at,
        }
    }

    /// Whether it was an event of a tenant that is gone. Readers pass over it.
    pub fn is_erased(&self) -> bool {
        self.kind.is_empty()
    }
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Position(u64);

impl Record for Position {
    const VERSION: u8 = 1;
}

/// An event with its place in the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    pub seq: u64,
    pub record: EventRecord,
}

impl Event {
    /// Whether it is history from elsewhere: it is shown, and nothing follows from it.
    pub const fn is_imported(&self) -> bool {
        self.record.imported_at.is_some()
    }
}

pub(super) static HEAD: Table<u8, Position> = Table::new(catalog::EVENT_HEAD, &[]);
const LAST: u8 = 0;
const FIRST_KEPT: u8 = 1;

/// Events and the entries of the tenants' feeds share the table: a commit pays for every table that it touches.
static EVENTS: SegmentedTable = SegmentedTable::new(catalog::EVENTS);

/// How events count for their tenants. The entries of feeds do not.
pub(super) static COUNTED: CountedSegments = CountedSegments {
    table: catalog::EVENTS,
    counts: Counts::Bytes,
    tenant_of: |key, stored| {
        let (EVENT_ROW, _) = EventKey::from_bytes(key)? else { return None };
        let event: EventRecord = codec::decode(catalog::EVENTS.name(), key, stored).ok()?;
        (!event.is_erased()).then_some(event.tenant_id)
    },
};

const EVENT_ROW: u8 = 0;
const TENANT_ROW: u8 = 1;

type EventKey = (u8, u64);
type TenantKey = (u8, TenantId, u64);

/// The entry that leads a tenant's feed to an event.
#[derive(Debug, Serialize, Deserialize)]
struct TenantEntry;

impl Record for TenantEntry {
    const VERSION: u8 = 1;
}

/// The sequence number of the newest event; zero while there is none.
pub fn head(tx: &impl Read) -> Result<u64, StoreError> {
    Ok(HEAD.get(tx, &LAST)?.map_or(0, |position| position.0))
}

/// The sequence number of the oldest event that retention has left.
pub fn first_kept(tx: &impl Read) -> Result<u64, StoreError> {
    Ok(HEAD.get(tx, &FIRST_KEPT)?.map_or(1, |position| position.0))
}

pub(super) fn drop_segment(tx: &mut WriteTx, segment: u64) -> Result<(), StoreError> {
    EVENTS.drop_segment(tx, segment)?;
    HEAD.put(tx, &FIRST_KEPT, &Position(end_of_segment(segment)))
}

/// Appends the event to the log, in the transaction of the change that it tells of. Its sequence number.
pub fn append(tx: &mut WriteTx, act: &mut Act, draft: &Draft<'_>) -> Result<u64, StoreError> {
    let seq = head(tx)? + 1;
    let id = EventId::new(act.now, &mut act.entropy);
    let body = envelope::render(act, id, seq, draft).map_err(StoreError::engine)?;
    let record =
        EventRecord { id, tenant_id: act.tenant_id, kind: draft.kind.name.to_owned(), at: act.now, body, imported_at: None };
    put_last(tx, seq, &record)?;
    usage::note_event(tx, act.tenant_id, act.now, act.allowance);
    Ok(seq)
}

fn put_last(tx: &mut WriteTx, seq: u64, record: &EventRecord) -> Result<(), StoreError> {
    EVENTS.insert_for(tx, record.tenant_id, segment_of(seq), &(EVENT_ROW, seq), record)?;
    EVENTS.put(tx, segment_of(seq), &(TENANT_ROW, record.tenant_id, seq), &TenantEntry)?;
    HEAD.put(tx, &LAST, &Position(seq))
}

/// Appends an event of another installation, whose body says that it is at place `from`. Its sequence number here.
pub fn bring_in(tx: &mut WriteTx, mut record: EventRecord, from: u64, now: Timestamp) -> Result<u64, StoreError> {
    let seq = head(tx)? + 1;
    let misplaced = || StoreError::damaged(catalog::EVENTS.name(), &from.to_be_bytes(), "the body is not that of this event");
    record.body = envelope::moved(&record, from, seq).ok_or_else(misplaced)?;
    record.imported_at = Some(now);
    put_last(tx, seq, &record)?;
    Ok(seq)
}

/// The body of an event as it reads at another place.
pub fn moved_body(event: &Event, to: u64) -> Option<Vec<u8>> {
    envelope::moved(&event.record, event.seq, to)
}

/// Walks the places of a tenant's events behind `after`, in order.
pub fn scan_tenant(
    tx: &impl Read,
    tenant: TenantId,
    after: u64,
    mut visit: impl FnMut(u64) -> Result<Flow, StoreError>,
) -> Result<(), StoreError> {
    let (next, head) = ((after + 1).max(first_kept(tx)?), head(tx)?);
    let prefix = KeyRange::prefix(&(TENANT_ROW, tenant).to_bytes());
    let range = prefix.after(&(TENANT_ROW, tenant, next - 1).to_bytes(), Direction::Forward);
    let mut flow = Flow::Continue;
    for segment in segment_of(next)..=segment_of(head) {
        EVENTS.scan(tx, segment, &range, |(_, _, seq): TenantKey, _: TenantEntry| {
            flow = visit(seq)?;
            Ok(flow)
        })?;
        if flow == Flow::Stop {
            break;
        }
    }
    Ok(())
}

/// The bytes after which a batch is full. What a consumer does with one holds up all writes.
const BATCH_BYTES: usize = 512 << 10;

/// The events after `after`, in order: at most `limit`, about [`BATCH_BYTES`], all of one segment. Some may be
/// [erased](EventRecord::is_erased).
pub fn read_batch(tx: &impl Read, after: u64, limit: usize) -> Result<Vec<Event>, StoreError> {
    // Readers ask until nothing is left, and to see that takes less than to look for it.
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
        events.push(Event { seq, record });
        Ok(if events.len() < limit && bytes < BATCH_BYTES { Flow::Continue } else { Flow::Stop })
    })?;
    Ok(events)
}

/// One event by its place, while it is kept.
pub fn read_one(tx: &impl Read, seq: u64) -> Result<Option<Event>, StoreError> {
    let record: Option<EventRecord> = EVENTS.get(tx, segment_of(seq), &(EVENT_ROW, seq))?;
    Ok(record.filter(|record| !record.is_erased()).map(|record| Event { seq, record }))
}

/// The events of tenants, and the entries of their feeds.
#[derive(Debug)]
pub struct TenantEvents;

impl TenantRows for TenantEvents {
    fn tables(&self) -> Vec<TableName> {
        vec![EVENTS.name()]
    }

    fn find(&self, tx: &ReadTx, tenant: TenantId, most: usize) -> Result<Vec<TenantRow>, StoreError> {
        EVENTS.rows_under(tx, &(TENANT_ROW, tenant).to_bytes(), most)
    }

    fn remove(&self, tx: &mut WriteTx, _tenant: TenantId, rows: &[TenantRow]) -> Result<(), StoreError> {
        for TenantRow { segment, key } in rows {
            let segment = segment.unwrap_or_default();
            let unreadable = || StoreError::damaged(EVENTS.name().name(), key, "the key cannot be read");
            let (_, _, seq) = TenantKey::from_bytes(key).ok_or_else(unreadable)?;
            if let Some(event) = EVENTS.get::<EventRecord>(tx, segment, &(EVENT_ROW, seq))? {
                EVENTS.put(tx, segment, &(EVENT_ROW, seq), &event.erased())?;
            }
            EVENTS.remove_row(tx, segment, key.clone());
        }
        Ok(())
    }
}

/// Whether a segment is full and all that happened in it was before the time up to which events are kept. Not the order of the log counts
/// here but the time of each: the story of an evaluation tenant is told after the event, among what happens now. A tenant whose own clock
/// is ahead tells times that have not come; they count only where there is nothing else.
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

#[derive(Clone, Debug)]
pub struct FeedQuery {
    pub tenant_id: TenantId,
    /// Events after this one.
    pub after: u64,
    /// Empty: every kind.
    pub patterns: Vec<EventPattern>,
    /// What the reader may see; `None` for tenantd itself.
    pub readable: Option<Readable>,
    pub limit: usize,
}

/// A part of a tenant's feed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FeedPage {
    pub events: Vec<Event>,
    /// Where the next call goes on.
    pub next_after: u64,
    /// Whether more may be there already.
    pub more: bool,
    /// Whether retention has removed events that the caller has not seen.
    pub truncated: bool,
}

/// How many events one call looks at before it answers with what it has.
pub(super) const MAX_EXAMINED: usize = 5_000;

/// The bytes after which a part of a feed is full.
pub(super) const FEED_BYTES: usize = 8 << 20;

/// Reads a tenant's events in order, in bounded time and about [`FEED_BYTES`]: what does not match the patterns still moves `next_after`
/// on.
pub fn read_feed(tx: &impl Read, query: &FeedQuery) -> Result<FeedPage, StoreError> {
    let (head, first) = (head(tx)?, first_kept(tx)?);
    let truncated = query.after + 1 < first;
    let mut page = FeedPage { events: Vec::new(), next_after: query.after.max(first - 1), more: false, truncated };
    let (mut examined, mut bytes) = (0, 0);
    while page.next_after < head {
        let segment = segment_of(page.next_after + 1);
        let mut seqs = Vec::new();
        let prefix = (TENANT_ROW, query.tenant_id).to_bytes();
        let seen = (TENANT_ROW, query.tenant_id, page.next_after).to_bytes();
        let range = KeyRange::prefix(&prefix).after(&seen, Direction::Forward);
        EVENTS.scan(tx, segment, &range, |(_, _, seq): TenantKey, _: TenantEntry| {
            seqs.push(seq);
            Ok(if seqs.len() < MAX_EXAMINED { Flow::Continue } else { Flow::Stop })
        })?;
        let whole = seqs.len() < MAX_EXAMINED;
        for seq in seqs {
            if page.events.len() == query.limit || examined == MAX_EXAMINED || bytes >= FEED_BYTES {
                page.more = true;
                return Ok(page);
            }
            examined += 1;
            page.next_after = seq;
            let Some(record) = EVENTS.get::<EventRecord>(tx, segment, &(EVENT_ROW, seq))? else { continue };
            let wanted = query.patterns.is_empty() || query.patterns.iter().any(|pattern| pattern.matches(&record.kind));
            if wanted && query.readable.as_ref().is_none_or(|readable| readable.has(&record.kind)) {
                bytes += record.body.len();
                page.events.push(Event { seq, record });
            }
        }
        if !whole {
            page.more = true;
            return Ok(page);
        }
        page.next_after = (end_of_segment(segment) - 1).min(head).max(page.next_after);
    }
    Ok(page)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::store::codec::assert_golden;

    #[test]
    fn the_stored_forms_are_those_that_were_written_down() {
        assert_golden("event_position", &Position(300));
        assert_golden("event_by_tenant", &TenantEntry);
        let event = EventRecord {
            id: EventId::from_bytes([1; 16]),
            tenant_id: TenantId::from_bytes([2; 16]),
            kind: "api_key.created".to_owned(),
            at: Timestamp::from_millis(1_767_225_600_000),
            body: b"{}".to_vec(),
            imported_at: Some(Timestamp::from_millis(1_767_312_000_000)),
        };
        assert_golden("event", &event);
    }
}
