//! Sorted pages of records. A page in creation order scans a bounded part of the table. The other orders have no index: a page
//! scans all records and keeps the positions of as many as it returns.
//!
//! **Invariant:** records with equal values are ordered by their IDs, so pages neither repeat nor skip a record.

use std::collections::BTreeSet;

use tenantd_store::{Direction, Flow, Read, StoreError};

/// The maximum cost of a page in creation order; see [`Listing::walk`].
const MAX_PAGE_COST: u64 = 100_000;
/// The approximate maximum size of the records on a page.
const PAGE_BYTES: usize = 8 << 20;

pub(crate) type RecordId = [u8; 16];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SortField {
    CreatedAt,
    UpdatedAt,
    Name,
    LastSeenAt,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Order {
    pub(crate) field: SortField,
    pub(crate) direction: Direction,
}

/// A record that a scan visits: its ID, the cost of visiting it, and the record if it matches.
pub(crate) type ScannedRecord<T> = (RecordId, u64, Option<T>);

/// Records that can be listed.
pub(crate) trait Listing {
    type Record;

    /// Visits the records after an ID, in creation order.
    fn walk(
        &self,
        tx: &impl Read,
        after: Option<RecordId>,
        direction: Direction,
        visit: impl FnMut(ScannedRecord<Self::Record>) -> Result<Flow, StoreError>,
    ) -> Result<(), StoreError>;

    fn get(&self, tx: &impl Read, id: RecordId) -> Result<Option<Self::Record>, StoreError>;

    /// The sort value of the record. Creation order needs none, because IDs sort in that order.
    fn value(record: &Self::Record, field: SortField) -> Vec<u8>;

    /// The approximate size of the record in bytes.
    fn bytes(record: &Self::Record) -> usize;
}

/// A part of a list.
#[derive(Debug)]
pub(crate) struct Page<T> {
    pub(crate) records: Vec<T>,
    /// The position from which the list continues, or `None` at its end.
    pub(crate) last: Option<Vec<u8>>,
}

/// The position of a record in an order.
type Place = (Vec<u8>, RecordId);

fn read_place(bytes: &[u8]) -> Option<Place> {
    let (value, id) = bytes.split_last_chunk::<16>()?;
    Some((value.to_vec(), *id))
}

fn write_place((value, id): &Place) -> Vec<u8> {
    [value.as_slice(), id].concat()
}

/// The records after a position, at most `limit`.
pub(crate) fn page<L: Listing>(
    tx: &impl Read,
    listing: &L,
    order: Order,
    after: Option<&[u8]>,
    limit: usize,
) -> Result<Page<L::Record>, StoreError> {
    let after = after.and_then(read_place);
    if order.field == SortField::CreatedAt {
        return by_creation(tx, listing, order.direction, after, limit);
    }
    let (places, more) = places(tx, listing, order, after.as_ref(), limit)?;
    let mut page = Page { records: Vec::with_capacity(places.len()), last: None };
    let (mut bytes, mut last) = (0, None);
    for place in places {
        let Some(record) = listing.get(tx, place.1)? else { continue };
        bytes += L::bytes(&record);
        if bytes > PAGE_BYTES && !page.records.is_empty() {
            page.last = last;
            return Ok(page);
        }
        page.records.push(record);
        last = Some(write_place(&place));
    }
    page.last = last.filter(|_| more);
    Ok(page)
}

fn by_creation<L: Listing>(
    tx: &impl Read,
    listing: &L,
    direction: Direction,
    after: Option<Place>,
    limit: usize,
) -> Result<Page<L::Record>, StoreError> {
    let mut page = Page { records: Vec::with_capacity(limit.min(200)), last: None };
    let mut position = after.map(|(_, id)| id);
    let (mut spent, mut bytes) = (0, 0);
    listing.walk(tx, position, direction, |(id, cost, record)| {
        let here = position.map(|id| write_place(&(Vec::new(), id)));
        if spent >= MAX_PAGE_COST {
            page.last = here;
            return Ok(Flow::Stop);
        }
        spent += cost;
        if let Some(record) = record {
            bytes += L::bytes(&record);
            let is_large = bytes > PAGE_BYTES && !page.records.is_empty();
            if is_large || page.records.len() == limit {
                page.last = here;
                return Ok(Flow::Stop);
            }
            page.records.push(record);
        }
        position = Some(id);
        Ok(Flow::Continue)
    })?;
    Ok(page)
}

/// The positions of the next records in an order, at most `limit`, and whether there are more.
fn places<L: Listing>(
    tx: &impl Read,
    listing: &L,
    order: Order,
    after: Option<&Place>,
    limit: usize,
) -> Result<(Vec<Place>, bool), StoreError> {
    let mut nearest = BTreeSet::new();
    let mut more = false;
    listing.walk(tx, None, Direction::Forward, |(id, _, record)| {
        let Some(record) = record else { return Ok(Flow::Continue) };
        let place = (L::value(&record, order.field), id);
        let is_behind = after.is_none_or(|after| match order.direction {
            Direction::Forward => place > *after,
            Direction::Backward => place < *after,
        });
        if is_behind {
            nearest.insert(place);
            if nearest.len() > limit {
                more = true;
                match order.direction {
                    Direction::Forward => nearest.pop_last(),
                    Direction::Backward => nearest.pop_first(),
                };
            }
        }
        Ok(Flow::Continue)
    })?;
    let mut places: Vec<Place> = nearest.into_iter().collect();
    if order.direction == Direction::Backward {
        places.reverse();
    }
    Ok((places, more))
}

/// The positions of a part of a list, for callers that read the records later. Larger than a page, because each part scans all
/// records.
pub(crate) fn slice<L: Listing>(
    tx: &impl Read,
    listing: &L,
    order: Order,
    after: Option<&[u8]>,
    limit: usize,
) -> Result<(Vec<RecordId>, Option<Vec<u8>>), StoreError> {
    let after = after.and_then(read_place);
    let (places, more) = places(tx, listing, order, after.as_ref(), limit)?;
    let last = places.last().filter(|_| more).map(write_place);
    Ok((places.into_iter().map(|(_, id)| id).collect(), last))
}

/// The exact number of matching records.
pub(crate) fn total<L: Listing>(tx: &impl Read, listing: &L) -> Result<u64, StoreError> {
    let mut total = 0;
    listing.walk(tx, None, Direction::Forward, |(_, _, record)| {
        total += u64::from(record.is_some());
        Ok(Flow::Continue)
    })?;
    Ok(total)
}
