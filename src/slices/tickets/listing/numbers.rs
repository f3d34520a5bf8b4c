//! The numbers of all tickets that match a query, read from the indexes alone. For exact counts of many tickets: an index entry is
//! read many times faster than its ticket.

use std::{collections::BTreeSet, ops::Bound};

use tenantd_base::{clock::Timestamp, id::TenantId};
use tenantd_store::{Direction, Flow, Key, KeyRange, Read, StoreError};

use super::{plan::created_between, query::TicketQuery};
use crate::repo::{BY_DUE, BY_FACET, BY_SEQ, BY_UPDATE, BY_WORD, Facet, TicketIndex};

const WORD_BITS: u64 = 64;

/// A set of ticket numbers, with one bit for each possible one.
#[derive(Debug)]
pub(super) struct NumberSet {
    /// The possible numbers. The end is exclusive.
    range: (u64, u64),
    words: Vec<u64>,
}

impl NumberSet {
    fn new((first, end): (u64, u64)) -> Self {
        let words = end.saturating_sub(first).div_ceil(WORD_BITS);
        Self { range: (first, end), words: vec![0; usize::try_from(words).unwrap_or_default()] }
    }

    /// The word and the bit of a number.
    fn place(&self, number: u64) -> Option<(usize, u64)> {
        let at = number.checked_sub(self.range.0).filter(|_| number < self.range.1)?;
        Some((usize::try_from(at / WORD_BITS).ok()?, 1 << (at % WORD_BITS)))
    }

    fn insert(&mut self, number: u64) {
        if let Some((place, bit)) = self.place(number)
            && let Some(word) = self.words.get_mut(place)
        {
            *word |= bit;
        }
    }

    fn contains(&self, number: u64) -> bool {
        self.place(number).is_some_and(|(place, bit)| self.words.get(place).is_some_and(|word| word & bit != 0))
    }

    fn keep_common(&mut self, other: &Self) {
        for (word, other) in self.words.iter_mut().zip(&other.words) {
            *word &= other;
        }
    }

    fn is_empty(&self) -> bool {
        self.words.iter().all(|word| *word == 0)
    }

    pub(super) fn len(&self) -> u64 {
        self.words.iter().map(|word| u64::from(word.count_ones())).sum()
    }

    #[cfg(test)]
    pub(super) fn numbers(&self) -> Vec<u64> {
        (self.range.0..self.range.1).filter(|number| self.contains(*number)).collect()
    }

    /// How many of the numbers have this value of a field.
    pub(super) fn count(&self, tx: &impl Read, tenant: TenantId, facet: &Facet) -> Result<u64, StoreError> {
        let mut count = 0;
        BY_FACET.scan(tx, &KeyRange::prefix(&facet.prefix(tenant)), Direction::Forward, |key, _| {
            count += u64::from(self.contains(key.1));
            Ok(Flow::Continue)
        })?;
        Ok(count)
    }
}

/// The numbers of all tickets that match. The work grows with the index entries of the filters, and stops when nothing is left.
pub(super) fn matching(tx: &impl Read, query: &TicketQuery) -> Result<NumberSet, StoreError> {
    let range = created_between(tx, query)?;
    let mut matching: Option<NumberSet> = None;
    for (index, ranges) in filters(query) {
        let mut found = NumberSet::new(range);
        for range in ranges.iter().filter(|range| !is_empty(range)) {
            index.scan(tx, range, Direction::Forward, |key, _| {
                found.insert(key.1);
                Ok(Flow::Continue)
            })?;
        }
        if let Some(matching) = &matching {
            found.keep_common(matching);
        }
        if found.is_empty() {
            return Ok(found);
        }
        matching = Some(found);
    }
    Ok(matching.unwrap_or_else(|| {
        let mut all = NumberSet::new(range);
        (range.0..range.1).for_each(|number| all.insert(number));
        all
    }))
}

/// The index entries of each filter but the creation time. A ticket matches if it has one of the entries of every filter.
pub(super) fn filters(query: &TicketQuery) -> Vec<(&'static TicketIndex, Vec<KeyRange>)> {
    let tenant = query.tenant_id;
    // A value that a request repeats is read once.
    let of_facets = |facets: Vec<Facet>| {
        let prefixes: BTreeSet<Vec<u8>> = facets.iter().map(|facet| facet.prefix(tenant)).collect();
        prefixes.iter().map(|prefix| KeyRange::prefix(prefix)).collect()
    };
    let mut filters: Vec<(&'static TicketIndex, Vec<KeyRange>)> =
        query.facets().into_iter().map(|facets| (&BY_FACET, of_facets(facets))).collect();
    filters.extend(query.words.iter().map(|word| (&BY_WORD, vec![beginning_with(tenant, word)])));
    filters.extend(query.since_seq.map(|seq| (&BY_SEQ, vec![changed_since(tenant, seq)])));
    filters.extend(query.due_before.map(|time| (&BY_DUE, vec![due_before(tenant, time)])));
    if query.updated_after.is_some() || query.updated_before.is_some() {
        filters.push((&BY_UPDATE, vec![updated_between(tenant, query.updated_after, query.updated_before)]));
    }
    filters
}

/// The entries of words with this beginning.
pub(super) fn beginning_with(tenant: TenantId, word: &str) -> KeyRange {
    let mut prefix = tenant.to_bytes();
    prefix.extend_from_slice(word.as_bytes());
    KeyRange::prefix(&prefix)
}

/// The entries of tickets that changed after this position of the log.
pub(super) fn changed_since(tenant: TenantId, seq: u64) -> KeyRange {
    let mut range = KeyRange::prefix(&tenant.to_bytes());
    range.start = KeyRange::prefix(&(tenant, seq.saturating_add(1)).to_bytes()).start;
    range
}

/// The entries of tickets that are due before this time.
pub(super) fn due_before(tenant: TenantId, time: Timestamp) -> KeyRange {
    let mut range = KeyRange::prefix(&(tenant, 0_u8).to_bytes());
    range.end = Bound::Excluded((tenant, 0_u8, time).to_bytes());
    range
}

fn updated_between(tenant: TenantId, after: Option<Timestamp>, before: Option<Timestamp>) -> KeyRange {
    let mut range = KeyRange::prefix(&tenant.to_bytes());
    if let Some(time) = after {
        let next = Timestamp::from_millis(time.as_millis().saturating_add(1));
        range.start = Bound::Included((tenant, next).to_bytes());
    }
    if let Some(time) = before {
        range.end = Bound::Excluded((tenant, time).to_bytes());
    }
    range
}

/// Whether the bounds of a range have crossed. The storage engine rejects such ranges.
pub(super) fn is_empty(range: &KeyRange) -> bool {
    match (&range.start, &range.end) {
        (Bound::Excluded(start) | Bound::Included(start), Bound::Excluded(end)) => start >= end,
        _ => false,
    }
}
