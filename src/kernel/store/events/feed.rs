//! A tenant's own sequence of events: their numbers, and the feed that leads from a number to its event.
//!
//! Numbers start at 1 and have no gaps, except for numbers that a repair skipped because their events may be lost. Stores of
//! earlier releases numbered all events of the installation together. There a tenant's numbers continue above the newest place of
//! that time, so that cursors stored by clients stay valid. The entry of an event is in the same segment as the event. A row for
//! each tenant and segment contains the first number in that segment, so a reader finds its segment without reading those in
//! which the tenant has no events. **Invariant:** the numbers of a tenant grow with their places.

use serde::{Deserialize, Serialize};

use tenantd_base::id::TenantId;

use super::{
    kind::{EventPattern, Readable},
    log::{self, EVENT_ROW, EVENTS, Event, EventRecord},
};
use crate::{
    Direction, Flow, Key, KeyRange, Read, ReadTx, StoreError, Table, TenantRow, TenantRows, WriteTx,
    catalog::{self, TableName},
    codec::{self, Record},
    segment_of,
};

/// The first byte of an entry's key. It sorts after the keys of events.
pub(super) const TENANT_ROW: u8 = 1;

/// Tenant and number.
type TenantKey = (u8, TenantId, u64);

/// An entry of a tenant's feed, which leads to an event.
#[derive(Debug, Serialize, Deserialize)]
struct TenantEntry {
    /// The place of the event in the log. Zero means that the place is the number.
    seq: u64,
}

impl Record for TenantEntry {
    const VERSION: u8 = 2;

    /// In version 1 the number was the place.
    fn upgrade(version: u8, fields: &[u8]) -> Result<Self, String> {
        if version != 1 {
            return Err(format!("format version {version} is not known to this release"));
        }
        codec::decode_fields::<()>(fields).map(|()| Self { seq: 0 })
    }
}

impl TenantEntry {
    const fn place(&self, number: u64) -> u64 {
        if self.seq == 0 { number } else { self.seq }
    }
}

/// The range of a tenant's event numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sequence {
    /// The last assigned number. Zero if there is none.
    pub last: u64,
    /// The highest number whose event retention has removed. Zero if it has removed none.
    pub removed: u64,
    /// The number of the first event in the newest segment, as in [`SEGMENTS`].
    first: u64,
}

impl Record for Sequence {
    const VERSION: u8 = 1;
}

pub(super) static SEQUENCES: Table<TenantId, Sequence> = Table::new(catalog::EVENT_SEQUENCES, &[]);

/// A segment of the log in which a tenant has events.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Segment(u64);

impl Record for Segment {
    const VERSION: u8 = 1;
}

/// Tenant and the number of its first event in the segment → the segment.
pub(super) static SEGMENTS: Table<(TenantId, u64), Segment> = Table::new(catalog::EVENT_SEGMENTS, &[]);

pub fn sequence(tx: &impl Read, tenant: TenantId) -> Result<Sequence, StoreError> {
    Ok(SEQUENCES.get(tx, &tenant)?.unwrap_or_default())
}

/// Returns the number of the tenant's newest event. Later events have higher numbers.
pub fn last_number(tx: &impl Read, tenant: TenantId) -> Result<u64, StoreError> {
    Ok(sequence(tx, tenant)?.last)
}

/// Records that the tenant's next event is at `seq` in the log.
pub(super) fn put_next(tx: &mut WriteTx, tenant: TenantId, before: Sequence, seq: u64) -> Result<(), StoreError> {
    let (segment, number) = (segment_of(seq), before.last + 1);
    EVENTS.put(tx, segment, &(TENANT_ROW, tenant, number), &TenantEntry { seq })?;
    let newest = SEGMENTS.get(tx, &(tenant, before.first))?;
    let first = if newest.is_some_and(|newest| newest.0 == segment) { before.first } else { number };
    if first == number {
        SEGMENTS.put(tx, &(tenant, number), &Segment(segment))?;
    }
    SEQUENCES.put(tx, &tenant, &Sequence { last: number, first, ..before })
}

/// Skips this many numbers of every tenant, because events with some of them are lost.
pub(super) fn skip_numbers(tx: &mut WriteTx, numbers: u64) -> Result<(), StoreError> {
    for (tenant, before) in SEQUENCES.list(tx, &KeyRange::ALL, usize::MAX)? {
        SEQUENCES.put(tx, &tenant, &Sequence { last: before.last + numbers, ..before })?;
    }
    Ok(())
}

/// The number of a tenant's first event in a segment, and the segment.
type Begins = (u64, u64);

fn begins(tx: &impl Read, range: &KeyRange, direction: Direction) -> Result<Option<Begins>, StoreError> {
    let mut found = None;
    SEGMENTS.scan(tx, range, direction, |(_, first), segment| {
        found = Some((first, segment.0));
        Ok(Flow::Stop)
    })?;
    Ok(found)
}

/// The newest segment whose first number is below `number`.
fn segment_below(tx: &impl Read, tenant: TenantId, number: u64) -> Result<Option<Begins>, StoreError> {
    let range = KeyRange::prefix(&tenant.to_bytes()).after(&(tenant, number).to_bytes(), Direction::Backward);
    begins(tx, &range, Direction::Backward)
}

/// The oldest segment whose first number is above `number`.
fn segment_above(tx: &impl Read, tenant: TenantId, number: u64) -> Result<Option<Begins>, StoreError> {
    let range = KeyRange::prefix(&tenant.to_bytes()).after(&(tenant, number).to_bytes(), Direction::Forward);
    begins(tx, &range, Direction::Forward)
}

/// The key range of a tenant's entries in any segment.
fn entries(tenant: TenantId) -> KeyRange {
    KeyRange::prefix(&(TENANT_ROW, tenant).to_bytes())
}

/// Returns the place in the log of the tenant's event with this number, if it is kept.
pub fn place_of(tx: &impl Read, tenant: TenantId, number: u64) -> Result<Option<u64>, StoreError> {
    let Some((_, segment)) = segment_below(tx, tenant, number.saturating_add(1))? else { return Ok(None) };
    let entry: Option<TenantEntry> = EVENTS.get(tx, segment, &(TENANT_ROW, tenant, number))?;
    Ok(entry.map(|entry| entry.place(number)))
}

/// Returns the tenant's event with this number, if it is kept.
pub fn read_numbered(tx: &impl Read, tenant: TenantId, number: u64) -> Result<Option<Event>, StoreError> {
    place_of(tx, tenant, number)?.map_or(Ok(None), |seq| log::read_one(tx, seq))
}

/// Returns the number of the tenant's newest event up to a place in the log: how far a reader of the log at that place has read
/// the tenant's events.
pub fn number_at(tx: &impl Read, tenant: TenantId, seq: u64) -> Result<u64, StoreError> {
    let (own, mut found, mut behind) = (sequence(tx, tenant)?, None, false);
    let mut number = u64::MAX;
    while let Some((first, segment)) = segment_below(tx, tenant, number)? {
        number = first;
        if segment > segment_of(seq) {
            behind = true;
            continue;
        }
        EVENTS.walk(tx, segment, &entries(tenant), Direction::Backward, |(_, _, number): TenantKey, entry: TenantEntry| {
            if entry.place(number) <= seq {
                found = Some(number);
                return Ok(Flow::Stop);
            }
            behind = true;
            Ok(Flow::Continue)
        })?;
        if found.is_some() {
            break;
        }
    }
    // Numbers assigned before the tenant had its own sequence may be above its newest event.
    Ok(if behind { found.unwrap_or(own.removed) } else { own.last })
}

/// Visits the numbers and places of a tenant's events after `after`, in order.
pub fn scan_tenant(
    tx: &impl Read,
    tenant: TenantId,
    after: u64,
    mut visit: impl FnMut(u64, u64) -> Result<Flow, StoreError>,
) -> Result<(), StoreError> {
    let range = entries(tenant).after(&(TENANT_ROW, tenant, after).to_bytes(), Direction::Forward);
    let mut next = match segment_below(tx, tenant, after.saturating_add(2))? {
        Some(begins) => Some(begins),
        None => segment_above(tx, tenant, after)?,
    };
    let mut flow = Flow::Continue;
    while let Some((first, segment)) = next {
        EVENTS.scan(tx, segment, &range, |(_, _, number): TenantKey, entry: TenantEntry| {
            flow = visit(number, entry.place(number))?;
            Ok(flow)
        })?;
        if flow == Flow::Stop {
            break;
        }
        next = segment_above(tx, tenant, first)?;
    }
    Ok(())
}

/// Visits the numbers and places of a tenant's events below `before`, the newest first.
fn scan_tenant_back(
    tx: &impl Read,
    tenant: TenantId,
    before: u64,
    mut visit: impl FnMut(u64, u64) -> Result<Flow, StoreError>,
) -> Result<(), StoreError> {
    let range = entries(tenant).after(&(TENANT_ROW, tenant, before).to_bytes(), Direction::Backward);
    let (mut next, mut flow) = (segment_below(tx, tenant, before)?, Flow::Continue);
    while let Some((first, segment)) = next {
        EVENTS.walk(tx, segment, &range, Direction::Backward, |(_, _, number): TenantKey, entry: TenantEntry| {
            flow = visit(number, entry.place(number))?;
            Ok(flow)
        })?;
        if flow == Flow::Stop {
            break;
        }
        next = segment_below(tx, tenant, first)?;
    }
    Ok(())
}

/// The tenants that have events in a segment, each with the number of its first event there.
fn tenants_in(tx: &impl Read, segment: u64) -> Result<Vec<(TenantId, u64)>, StoreError> {
    let (mut tenants, mut range) = (Vec::new(), KeyRange::prefix(&TENANT_ROW.to_bytes()));
    loop {
        let mut found = None;
        EVENTS.scan(tx, segment, &range, |(_, tenant, number): TenantKey, _: TenantEntry| {
            found = Some((tenant, number));
            Ok(Flow::Stop)
        })?;
        let Some((tenant, number)) = found else { return Ok(tenants) };
        tenants.push((tenant, number));
        range = range.after(&(TENANT_ROW, tenant, u64::MAX).to_bytes(), Direction::Forward);
    }
}

/// Removes the index rows of the oldest segment when retention drops it, and records the numbers removed from each tenant.
pub(super) fn remove_segment(tx: &mut WriteTx, segment: u64) -> Result<(), StoreError> {
    for (tenant, first) in tenants_in(tx, segment)? {
        let mut newest = first;
        EVENTS.walk(tx, segment, &entries(tenant), Direction::Backward, |(_, _, number): TenantKey, _: TenantEntry| {
            newest = number;
            Ok(Flow::Stop)
        })?;
        if let Some(before) = SEQUENCES.get(tx, &tenant)? {
            SEQUENCES.put(tx, &tenant, &Sequence { removed: newest, ..before })?;
        }
        SEGMENTS.remove(tx, &(tenant, first))?;
    }
    Ok(())
}

/// Gives each tenant its own sequence, in a store whose events were numbered together. Until now a number was a place in the log,
/// and clients may have seen any place up to the newest one. So every tenant's numbers continue above it.
pub fn number_tenants(tx: &mut WriteTx, tenants: &[TenantId]) -> Result<(), StoreError> {
    let (head, first_kept) = (log::head(tx)?, log::first_kept(tx)?);
    let start = Sequence { last: head, removed: first_kept.saturating_sub(1), first: 0 };
    for tenant in tenants {
        SEQUENCES.put(tx, tenant, &start)?;
    }
    for segment in segment_of(first_kept)..=segment_of(head) {
        for (tenant, first) in tenants_in(tx, segment)? {
            SEQUENCES.put(tx, &tenant, &Sequence { first, ..start })?;
            SEGMENTS.put(tx, &(tenant, first), &Segment(segment))?;
        }
    }
    Ok(())
}

/// The events of tenants and the entries of their feeds.
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
            let entry_key = TenantKey::from_bytes(key).ok_or_else(unreadable)?;
            let Some(entry) = EVENTS.get::<TenantEntry>(tx, segment, &entry_key)? else { continue };
            let seq = entry.place(entry_key.2);
            if let Some(event) = EVENTS.get::<EventRecord>(tx, segment, &(EVENT_ROW, seq))? {
                EVENTS.put(tx, segment, &(EVENT_ROW, seq), &event.erased())?;
            }
            EVENTS.remove_row(tx, segment, key.clone());
        }
        Ok(())
    }
}

#[derive(Clone, Debug)]
pub struct FeedQuery {
    pub tenant_id: TenantId,
    /// Only events with higher numbers.
    pub after: u64,
    /// Empty for every kind.
    pub patterns: Vec<EventPattern>,
    /// The kinds that the reader may see. `None` for tenantd itself.
    pub readable: Option<Readable>,
    pub limit: usize,
}

/// A page of a tenant's feed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FeedPage {
    pub events: Vec<Event>,
    /// The position from which the next call continues.
    pub next_after: u64,
    /// Whether there may be more events already.
    pub more: bool,
    /// Whether retention has removed events of the tenant that the caller has not seen.
    pub truncated: bool,
}

/// How many events one call examines before it returns what it has found.
pub(super) const MAX_EXAMINED: usize = 5_000;

/// The size at which a page of a feed is full, in bytes.
pub const FEED_BYTES: usize = 8 << 20;

/// Reads a tenant's events in order, in bounded time and at most about [`FEED_BYTES`]. Events that do not match the patterns
/// still advance `next_after`.
pub fn read_feed(tx: &impl Read, query: &FeedQuery) -> Result<FeedPage, StoreError> {
    let own = sequence(tx, query.tenant_id)?;
    let (next_after, truncated) = (query.after.max(own.removed), query.after < own.removed);
    let mut page = FeedPage { events: Vec::new(), next_after, more: false, truncated };
    let mut found = Vec::new();
    scan_tenant(tx, query.tenant_id, next_after, |number, seq| {
        found.push((number, seq));
        Ok(if found.len() > MAX_EXAMINED { Flow::Stop } else { Flow::Continue })
    })?;
    page.take(tx, query, found)?;
    if !page.more {
        page.next_after = page.next_after.max(own.last);
    }
    Ok(page)
}

/// Like [`read_feed`], from the newest event back. The query's `after` is the number that the events are below, or 0 for the
/// newest.
pub fn read_feed_back(tx: &impl Read, query: &FeedQuery) -> Result<FeedPage, StoreError> {
    let own = sequence(tx, query.tenant_id)?;
    let below = own.last + 1;
    let before = if query.after == 0 { below } else { query.after.min(below) };
    let mut page = FeedPage { events: Vec::new(), next_after: before, more: false, truncated: false };
    let mut found = Vec::new();
    scan_tenant_back(tx, query.tenant_id, before, |number, seq| {
        found.push((number, seq));
        Ok(if found.len() > MAX_EXAMINED { Flow::Stop } else { Flow::Continue })
    })?;
    page.take(tx, query, found)?;
    page.truncated = !page.more && own.removed > 0;
    Ok(page)
}

impl FeedPage {
    /// Takes the events that match the query, until the page is full. `found` is in page order. If it has one more entry than can
    /// be examined, there are more events.
    fn take(&mut self, tx: &impl Read, query: &FeedQuery, found: Vec<(u64, u64)>) -> Result<(), StoreError> {
        let mut bytes = 0;
        for (examined, (number, seq)) in found.into_iter().enumerate() {
            if self.events.len() == query.limit || examined == MAX_EXAMINED || bytes >= FEED_BYTES {
                self.more = true;
                return Ok(());
            }
            self.next_after = number;
            let Some(event) = log::read_one(tx, seq)? else { continue };
            let kind = &event.record.kind;
            let wanted = query.patterns.is_empty() || query.patterns.iter().any(|pattern| pattern.matches(kind));
            if wanted && query.readable.as_ref().is_none_or(|readable| readable.has(kind)) {
                bytes += event.record.body.len();
                self.events.push(event);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
