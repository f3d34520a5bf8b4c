//! Chooses how a query is answered: which index to walk, which entries to skip, and what to sort in memory.
//!
//! The index of every filter has the default order, so for that order the plan walks the most selective filter. Other orders
//! are walked along their own index. Selective filters are first collected as sets of numbers, so that entries that cannot
//! match are skipped without reading the ticket. If very few tickets are left, they are read and sorted at once.

use tenantd_base::clock::Timestamp;
use tenantd_store::{Direction, Flow, Key, KeyRange, Read, StoreError};

use super::{
    Effort,
    numbers::{beginning_with, changed_since, due_before},
    place::{Place, SortField},
    query::TicketQuery,
    walk::{Lane, Walk},
};
use crate::{
    model::Priority,
    repo::{self, BY_DUE, BY_FACET, BY_SEQ, BY_UPDATE, BY_WORD, Facet, TicketIndex},
};

/// The time in the index for tickets without a due time.
pub(super) const UNDATED: Timestamp = Timestamp::EPOCH;

/// The number of entries after which the density of a filter is known.
const SAMPLE: usize = 500;
/// A filter is dense if it matches at least one in this many tickets. Then a walk costs less than collecting all matches.
const DENSE: u64 = 8;

/// Sorted numbers without duplicates.
type Numbers = Vec<u64>;

pub(super) struct Plan {
    /// The filter values to walk along in the default order: those of the most selective filter.
    driver: Option<Vec<Facet>>,
    /// The matches of the other filters, if they are few.
    sets: Vec<Numbers>,
    /// The position of the smallest set, if it is worth starting from.
    few: Option<usize>,
    /// The range of numbers that matches the creation times. The end is exclusive.
    pub(super) numbers: (u64, u64),
    effort: Effort,
}

/// Where the tickets of a page come from.
pub(super) enum Source {
    Walk(Walk),
    Numbers(std::vec::IntoIter<u64>),
    /// Places without the tickets, which are large. A page reads only the tickets that it has room for.
    Sorted(std::vec::IntoIter<Place>),
}

impl Plan {
    pub(super) fn new(tx: &impl Read, query: &TicketQuery, effort: Effort) -> Result<Self, StoreError> {
        let numbers = created_between(tx, query)?;
        let mut plan = Self { driver: None, sets: Vec::new(), few: None, numbers, effort };
        let mut least = u64::MAX;
        for facets in query.facets() {
            let mut sum = 0;
            for facet in &facets {
                sum += repo::count(tx, query.tenant_id, facet)?.unwrap_or(1);
            }
            if plan.driver.is_none() || sum < least {
                (least, plan.driver) = (sum, Some(facets));
            }
        }
        let own_order = query.sort == SortField::UpdatedAt;
        if let Some(driver) = plan.driver.as_ref().filter(|_| !own_order && least <= effort.set as u64) {
            let prefixes: Vec<Vec<u8>> = driver.iter().map(|facet| facet.prefix(query.tenant_id)).collect();
            let ranges: Vec<KeyRange> = prefixes.iter().map(|prefix| KeyRange::prefix(prefix)).collect();
            plan.collect(tx, &BY_FACET, &ranges)?;
        }
        for word in &query.words {
            plan.collect(tx, &BY_WORD, &[beginning_with(query.tenant_id, word)])?;
        }
        if let Some(seq) = query.since_seq {
            plan.collect(tx, &BY_SEQ, &[changed_since(query.tenant_id, seq)])?;
        }
        if let Some(time) = query.due_before.filter(|_| query.sort != SortField::DueAt) {
            plan.collect(tx, &BY_DUE, &[due_before(query.tenant_id, time)])?;
        }
        let by_creation = query.created_after.is_some() || query.created_before.is_some();
        if by_creation && plan.numbers.1.saturating_sub(plan.numbers.0) <= effort.sorted as u64 {
            plan.add((plan.numbers.0..plan.numbers.1).collect());
        }
        if own_order && plan.few().is_some_and(|few| least <= few.len() as u64) {
            // The filter matches even fewer tickets, and is already sorted.
            plan.few = None;
        }
        Ok(plan)
    }

    /// Collects the matches of the ranges into a set. Gives up if there are too many, or if they are so dense that a walk
    /// finds enough anyway.
    fn collect(&mut self, tx: &impl Read, index: &TicketIndex, ranges: &[KeyRange]) -> Result<(), StoreError> {
        let most = self.effort.set;
        let mut found = Vec::new();
        let (mut lowest, mut highest, mut given_up) = (u64::MAX, 0, false);
        for range in ranges {
            index.scan(tx, range, Direction::Forward, |key, _| {
                found.push(key.1);
                (lowest, highest) = (lowest.min(key.1), highest.max(key.1));
                let dense = found.len() == SAMPLE && (highest - lowest) / DENSE < SAMPLE as u64;
                given_up |= dense || found.len() > most;
                Ok(if given_up { Flow::Stop } else { Flow::Continue })
            })?;
        }
        if !given_up {
            found.sort_unstable();
            found.dedup();
            self.add(found);
        }
        Ok(())
    }

    fn add(&mut self, found: Numbers) {
        if self.few().is_none_or(|few| found.len() < few.len()) {
            self.few = Some(self.sets.len());
        }
        self.sets.push(found);
    }

    fn few(&self) -> Option<&Numbers> {
        self.few.and_then(|place| self.sets.get(place))
    }

    /// Whether the sets allow the ticket with this number to match.
    pub(super) fn admits(&self, number: u64) -> bool {
        (self.numbers.0..self.numbers.1).contains(&number) && self.sets.iter().all(|set| set.binary_search(&number).is_ok())
    }

    pub(super) fn open(&self, tx: &impl Read, query: &TicketQuery, after: Option<Place>) -> Result<Source, StoreError> {
        match self.few() {
            Some(few) if query.sort == SortField::CreatedAt => {
                let forward = query.direction == Direction::Forward;
                let behind =
                    |number: &u64| after.is_none_or(|after| if forward { *number > after.number } else { *number < after.number });
                let mut numbers: Numbers = few.iter().copied().filter(behind).collect();
                if !forward {
                    numbers.reverse();
                }
                Ok(Source::Numbers(numbers.into_iter()))
            }
            Some(few) if few.len() <= self.effort.sorted => self.sorted(tx, query, few, after),
            _ => Ok(Source::Walk(Walk::new(self.lanes(query), query, after))),
        }
    }

    fn sorted(&self, tx: &impl Read, query: &TicketQuery, few: &[u64], after: Option<Place>) -> Result<Source, StoreError> {
        let mut places = Vec::with_capacity(few.len());
        for number in few.iter().copied().filter(|number| self.admits(*number)) {
            if let Some(ticket) = repo::get(tx, query.tenant_id, number)?.filter(|ticket| query.matches(ticket)) {
                let place = Place::of(&ticket, query.sort);
                if after.is_none_or(|after| after.compare(&place, query.sort, query.direction).is_lt()) {
                    places.push(place);
                }
            }
        }
        places.sort_by(|left, right| left.compare(right, query.sort, query.direction));
        Ok(Source::Sorted(places.into_iter()))
    }

    /// The index ranges that together contain all possible matches.
    fn lanes(&self, query: &TicketQuery) -> Vec<Lane> {
        let tenant = query.tenant_id;
        match query.sort {
            SortField::CreatedAt => vec![Lane::numbers()],
            SortField::UpdatedAt => match &self.driver {
                Some(facets) => facets.iter().map(|facet| Lane::new(&BY_FACET, 0, facet.prefix(tenant))).collect(),
                None => vec![Lane::new(&BY_UPDATE, 0, tenant.to_bytes())],
            },
            SortField::Priority => {
                let wanted = |priority: &&Priority| query.priorities.is_empty() || query.priorities.contains(priority);
                let lane = |priority: &Priority| Lane::new(&BY_FACET, priority.code(), Facet::priority(*priority).prefix(tenant));
                Priority::ALL.iter().filter(wanted).map(lane).collect()
            }
            SortField::DueAt => {
                let groups: &[u8] = if query.due_before.is_some() { &[0] } else { &[0, 1] };
                groups.iter().map(|group| Lane::new(&BY_DUE, *group, (tenant, *group).to_bytes())).collect()
            }
        }
    }
}

/// The range of ticket numbers for the creation times of the query.
pub(super) fn created_between(tx: &impl Read, query: &TicketQuery) -> Result<(u64, u64), StoreError> {
    let next = |time: Timestamp| Timestamp::from_millis(time.as_millis().saturating_add(1));
    let first = match query.created_after {
        Some(time) => repo::first_created(tx, query.tenant_id, next(time))?,
        None => 1,
    };
    let end = match query.created_before {
        Some(time) => repo::first_created(tx, query.tenant_id, time)?,
        None => repo::total(tx, query.tenant_id)? + 1,
    };
    Ok((first, end.max(first)))
}
