//! Walks several index ranges at once, in the order of the query. The ranges of a group are merged; groups follow each other.

use std::{collections::VecDeque, ops::Bound};

use tenantd_base::clock::Timestamp;
use tenantd_store::{Direction, Flow, Key, KeyRange, Read, StoreError};

use super::{
    numbers::is_empty,
    place::{Place, SortField, compare_groups},
    plan::Plan,
    query::TicketQuery,
};
use crate::repo::TicketIndex;

/// The number of entries in the first and in the largest fetch.
const FIRST_CHUNK: usize = 64;
const LARGEST_CHUNK: usize = 1024;

/// An index range, or without an index the ticket numbers themselves.
pub(super) struct Lane {
    index: Option<&'static TicketIndex>,
    group: u8,
    prefix: Vec<u8>,
    position: Option<Place>,
    chunk: usize,
    fetched: VecDeque<Place>,
    over: bool,
}

impl Lane {
    pub(super) fn new(index: &'static TicketIndex, group: u8, prefix: Vec<u8>) -> Self {
        Self { index: Some(index), group, prefix, position: None, chunk: FIRST_CHUNK, fetched: VecDeque::new(), over: false }
    }

    pub(super) fn numbers() -> Self {
        Self {
            index: None,
            group: 0,
            prefix: Vec::new(),
            position: None,
            chunk: FIRST_CHUNK,
            fetched: VecDeque::new(),
            over: false,
        }
    }

    /// The next place of this lane, without consuming it.
    fn peek(&mut self, tx: &impl Read, query: &TicketQuery, plan: &Plan) -> Result<Option<Place>, StoreError> {
        if self.fetched.is_empty() && !self.over {
            match self.index {
                Some(index) => self.fetch(tx, index, query)?,
                None => self.count(query.direction, plan.numbers),
            }
            self.over = self.fetched.len() < self.chunk;
            self.position = self.fetched.back().copied().or(self.position);
            self.chunk = (self.chunk * 2).min(LARGEST_CHUNK);
        }
        Ok(self.fetched.front().copied())
    }

    fn fetch(&mut self, tx: &impl Read, index: &TicketIndex, query: &TicketQuery) -> Result<(), StoreError> {
        let mut range = KeyRange::prefix(&self.prefix);
        let (after, before) = match query.sort {
            SortField::UpdatedAt | SortField::Priority => (query.updated_after, query.updated_before),
            SortField::DueAt => (None, query.due_before.filter(|_| self.group == 0)),
            SortField::CreatedAt => (None, None),
        };
        let at = |time: Timestamp| [self.prefix.as_slice(), &time.to_bytes()].concat();
        if let Some(time) = after {
            range.start = Bound::Included(at(time));
        }
        if let Some(time) = before {
            range.end = Bound::Excluded(at(time));
        }
        if let Some(place) = self.position {
            let mut entry = [self.prefix.as_slice(), &place.at].concat();
            (query.tenant_id, place.number).write(&mut entry);
            let edge = Bound::Excluded(entry);
            match query.direction {
                Direction::Forward if is_further(&edge, &range.start, true) => range.start = edge,
                Direction::Backward if is_further(&edge, &range.end, false) => range.end = edge,
                Direction::Forward | Direction::Backward => {}
            }
        }
        let (group, length, chunk) = (self.group, self.prefix.len(), self.chunk);
        if is_empty(&range) {
            return Ok(());
        }
        let fetched = &mut self.fetched;
        index.scan(tx, &range, query.direction, |(_, number), entry| {
            let at = entry.get(length..).and_then(|rest| rest.first_chunk().copied()).unwrap_or_default();
            fetched.push_back(Place { group, at, number });
            Ok(if fetched.len() < chunk { Flow::Continue } else { Flow::Stop })
        })
    }

    fn count(&mut self, direction: Direction, (first, end): (u64, u64)) {
        let position = self.position.map(|place| place.number);
        match direction {
            Direction::Forward => {
                let from = position.map_or(first, |number| first.max(number.saturating_add(1)));
                self.fetched.extend((from..end).take(self.chunk).map(Place::of_number));
            }
            Direction::Backward => {
                let to = position.map_or(end, |number| end.min(number));
                self.fetched.extend((first..to).rev().take(self.chunk).map(Place::of_number));
            }
        }
    }
}

/// Whether the first bound is stricter than the second, at the start or the end of a range.
fn is_further(edge: &Bound<Vec<u8>>, than: &Bound<Vec<u8>>, start: bool) -> bool {
    let (Bound::Excluded(edge), Bound::Included(than) | Bound::Excluded(than)) = (edge, than) else { return true };
    if start { edge >= than } else { edge <= than }
}

pub(super) struct Walk {
    /// The remaining lanes, in the order of their groups.
    lanes: VecDeque<Lane>,
}

impl Walk {
    pub(super) fn new(mut lanes: Vec<Lane>, query: &TicketQuery, after: Option<Place>) -> Self {
        lanes.sort_by(|left, right| compare_groups(left.group, right.group, query.sort, query.direction));
        if let Some(after) = after {
            lanes.retain(|lane| compare_groups(lane.group, after.group, query.sort, query.direction).is_ge());
            for lane in lanes.iter_mut().filter(|lane| lane.group == after.group) {
                lane.position = Some(after);
            }
        }
        Self { lanes: lanes.into() }
    }

    pub(super) fn next(&mut self, tx: &impl Read, query: &TicketQuery, plan: &Plan) -> Result<Option<Place>, StoreError> {
        loop {
            let Some(group) = self.lanes.front().map(|lane| lane.group) else { return Ok(None) };
            let mut first: Option<Place> = None;
            for lane in self.lanes.iter_mut().take_while(|lane| lane.group == group) {
                if let Some(place) = lane.peek(tx, query, plan)?
                    && first.is_none_or(|first| place.compare(&first, query.sort, query.direction).is_lt())
                {
                    first = Some(place);
                }
            }
            let Some(first) = first else {
                self.lanes.retain(|lane| lane.group != group);
                continue;
            };
            // A ticket with two of the values is in two lanes.
            for lane in self.lanes.iter_mut().take_while(|lane| lane.group == group) {
                if lane.fetched.front() == Some(&first) {
                    lane.fetched.pop_front();
                }
            }
            return Ok(Some(first));
        }
    }
}
