//! The place of a ticket in an order. **Invariant:** a place depends only on the sort field and the ticket, not on the plan
//! that found it. A cursor therefore stays valid if the next page uses a different plan.

use std::cmp::Ordering;

use tenantd_store::{Direction, Key};

use crate::model::Ticket;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SortField {
    UpdatedAt,
    /// Ordered by number, because numbers are assigned in the order of creation.
    CreatedAt,
    /// The most urgent first. Within a priority, the ticket that changed longest ago comes first.
    Priority,
    /// Tickets without a due time come last in both directions.
    DueAt,
}

/// The sort key: a group, a time, and the number that makes it unique.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) group: u8,
    /// A time in key form.
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
