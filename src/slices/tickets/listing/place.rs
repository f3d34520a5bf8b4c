//! The place of a ticket in an order. **Invariant:** it depends on the sort and the ticket alone, and not on the way by which a page was
//! found: a cursor goes on also when the next page is found by another way.

use std::cmp::Ordering;

use tenantd_store::{Direction, Key};

use crate::model::Ticket;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SortField {
    UpdatedAt,
    /// By number too: numbers are given in the order of creation.
    CreatedAt,
    /// The most urgent first; within one the one that changed longest ago.
    Priority,
    /// Those without a due time come last, in both directions.
    DueAt,
}

/// What the orders go by: a coarse part, a time, and the number that makes it unique.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) group: u8,
    /// A time as its key has it.
    pub(super) at: [u8; 8],
    pub(super) number: u64,
}

impl Place {
    pub(super) fn of_number(number: u64) -> Self {
        Self { group: 0, at: [0; 8], number }
    }

    pub(super) fn of(ticket: &Ticket, sort: SortField) -> Self {
        let (group, time) = match sort {
            SortField::UpdatedAt => (0, Some(ticket.updated_at)),
            SortField::CreatedAt => (0, None),
            SortField::Priority => (ticket.priority.code(), Some(ticket.updated_at)),
            SortField::DueAt => (u8::from(ticket.due_at.is_none()), Some(ticket.due_at.unwrap_or(super::plan::UNDATED))),
        };
        let at = time.and_then(|time| time.to_bytes().first_chunk().copied()).unwrap_or_default();
        Self { group, at, number: ticket.number }
    }

    pub(super) fn to_bytes(self) -> Vec<u8> {
        (self.group, self.at, self.number).to_bytes()
    }

    pub(super) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        <(u8, [u8; 8], u64)>::from_bytes(bytes).map(|(group, at, number)| Self { group, at, number })
    }

    pub(super) fn compare(&self, other: &Self, sort: SortField, direction: Direction) -> Ordering {
        let groups = compare_groups(self.group, other.group, sort, direction);
        let within = (self.at, self.number).cmp(&(other.at, other.number));
        groups.then(if direction == Direction::Forward { within } else { within.reverse() })
    }
}

pub(super) fn compare_groups(left: u8, right: u8, sort: SortField, direction: Direction) -> Ordering {
    let order = left.cmp(&right);
    if sort == SortField::Priority && direction == Direction::Backward { order.reverse() } else { order }
}
