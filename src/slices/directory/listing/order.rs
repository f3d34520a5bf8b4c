//! Pages of records in an order. The order by creation is a walk along the table, and a page of it is bounded work. There is no index for the
//! other orders: a page of one looks at every record, and keeps the places of as many as it returns.
//!
//! **Invariant:** records with the same value are ordered by their ids, so pages neither repeat nor skip a record.

use std::collections::BTreeSet;

use tenantd_store::{Direction, Flow, Read, StoreError};

/// What a page in the order of creation may cost; see [`Listing::walk`].
const EFFORT: u64 = 100_000;
/// About how many bytes of records a page has.
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

/// A record that a walk passes: its id, what it has cost to look at, and the record if it matches.
pub(crate) type Passed<T> = (RecordId, u64, Option<T>);

/// Records that can be listed.
pub(crate) trait Listing {
    type Record;

    /// Passes the records behind an id, in the order of their creation.
    fn walk(
        &self,
        tx: &impl Read,
        after: Option<RecordId>,
        direction: Direction,
        visit: impl FnMut(Passed<Self::Record>) -> Result<Flow, StoreError>,
    ) -> Result<(), StoreError>;

    fn get(&self, tx: &impl Read, id: RecordId) -> Result<Option<Self::Record>, StoreError>;

    /// What the record is ordered by. Only the order by creation needs no value: ids are in it.
    fn value(record: &Self::Record, field: SortField) -> Vec<u8>;

    /// About how many bytes the record has.
    fn bytes(record: &Self::Record) -> usize;
}

/// A part of a list.
#[derive(Debug)]
pub(crate) struct Page<T> {
    pub(crate) records: Vec<T>,
    /// Where the list goes on, unless it is over.
    pub(crate) last: Option<Vec<u8>>,
}

/// Where a record stands in an order.
type Place = (Vec<u8>, RecordId);

fn read_place(bytes: &[u8]) -> Option<Place> {
    let (value, id) = bytes.split_last_chunk::<16>()?;
    Some((value.to_vec(), *id))
}

fn write_place((value, id): &Place) -> Vec<u8> {
    [value.as_slice(), id].concat()
}

/// The records behind a position, at most `limit`.
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
        if spent >= EFFORT {
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

/// The places of the next records in an order, at most `limit`, and whether there are more.
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

/// The places of a part of a list, for those who read its records later. Larger than a page, since each part looks at every record.
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

/// How many records match, exactly.
pub(crate) fn total<L: Listing>(tx: &impl Read, listing: &L) -> Result<u64, StoreError> {
    let mut total = 0;
    listing.walk(tx, None, Direction::Forward, |(_, _, record)| {
        total += u64::from(record.is_some());
        Ok(Flow::Continue)
    })?;
    Ok(total)
}
