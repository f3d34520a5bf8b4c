//! Tickets as they are stored, with all that they are found by. Numbers are given here, and nowhere else.
//!
//! **Invariant:** numbers of a tenant have no gaps and grow with the time of creation, so that an order by number is the order by
//! creation and a time can be looked up among numbers.

mod counts;
mod facets;
mod notes;
mod policies;
mod portable;
mod record;

pub(super) use counts::{COUNTS, count, counted, values};
pub(super) use facets::{BY_DUE, BY_FACET, BY_SEQ, BY_UPDATE, BY_WORD, Facet, Field, TicketIndex};
pub(super) use notes::{
    COMMENTS, HISTORY, TIME_ENTRIES, comments, history, note_event, put_comment, put_time_entry, time_entries, time_entry_count,
};
pub(super) use policies::{POLICIES, policy, put_policy};

use serde::{Deserialize, Serialize};

use tenantd_base::{
    clock::Timestamp,
    clocks::{Reading, Timeline},
    id::{OrganizationId, TenantId},
};
use tenantd_store::{Counts, Direction, Due, Flow, Key, KeyRange, Read, StoreError, Table, WriteTx, catalog, codec::Record};

pub(super) use self::portable::{Shapes, portable};
use self::{
    facets::{BY_ID, BY_TIMER},
    record::{TicketRecord, to_model, to_record},
};
use super::model::{Status, Ticket, TicketRef};

/// About how many bytes of records a page has. One with records that are larger ends before its limit.
pub(crate) const PAGE_BYTES: usize = 8 << 20;

pub(super) type TicketKey = (TenantId, u64);

pub(super) static TICKETS: Table<TicketKey, TicketRecord> =
    Table::new(catalog::TICKETS, &[&BY_ID, &BY_FACET, &BY_UPDATE, &BY_DUE, &BY_SEQ, &BY_WORD, &BY_TIMER]).counting(Counts::Records);

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct LastNumber {
    number: u64,
    created_at: Timestamp,
}

impl Record for LastNumber {
    const VERSION: u8 = 1;
}

pub(super) static NUMBERS: Table<TenantId, LastNumber> = Table::new(catalog::TICKET_NUMBERS, &[]);

/// How many tickets the tenant has: also its highest number.
pub(super) fn total(tx: &impl Read, tenant: TenantId) -> Result<u64, StoreError> {
    Ok(NUMBERS.get(tx, &tenant)?.map_or(0, |last| last.number))
}

/// The number and the time of creation of the tenant's next ticket. The time is never before that of the ticket before it.
pub(super) fn next_number(tx: &impl Read, tenant: TenantId, now: Timestamp) -> Result<(u64, Timestamp), StoreError> {
    Ok(NUMBERS.get(tx, &tenant)?.map_or((1, now), |last| (last.number + 1, now.max(last.created_at))))
}

pub(super) fn get(tx: &impl Read, tenant: TenantId, number: u64) -> Result<Option<Ticket>, StoreError> {
    let key = (tenant, number);
    Ok(TICKETS.get(tx, &key)?.map(|record| to_model(key, record)))
}

pub(super) fn find(tx: &impl Read, tenant: TenantId, wanted: TicketRef) -> Result<Option<Ticket>, StoreError> {
    let number = match wanted {
        TicketRef::Number(number) => Some(number),
        TicketRef::Id(id) => BY_ID.find(tx, &(tenant, id).to_bytes())?.map(|(_, number)| number),
    };
    number.map_or(Ok(None), |number| get(tx, tenant, number))
}

pub(super) fn list_after(tx: &impl Read, after: Option<TicketKey>, limit: usize) -> Result<Vec<Ticket>, StoreError> {
    let found = TICKETS.list_after(tx, after.as_ref(), limit)?;
    Ok(found.into_iter().map(|(key, record)| to_model(key, record)).collect())
}

/// The unfinished ticket of the organization with this key that changed last.
pub(super) fn find_unfinished(
    tx: &impl Read,
    tenant: TenantId,
    organization: OrganizationId,
    dedup_key: &str,
) -> Result<Option<Ticket>, StoreError> {
    let range = KeyRange::prefix(&Facet::unfinished(organization, dedup_key).prefix(tenant));
    let mut number = None;
    BY_FACET.scan(tx, &range, Direction::Backward, |key, _| {
        number = Some(key.1);
        Ok(Flow::Stop)
    })?;
    number.map_or(Ok(None), |number| get(tx, tenant, number))
}

/// Stores a new ticket under the number that [`next_number`] gave.
pub(super) fn insert(tx: &mut WriteTx, ticket: &Ticket, timer_at: Option<Timestamp>) -> Result<(), StoreError> {
    let record = to_record(ticket, timer_at);
    NUMBERS.put(tx, &ticket.tenant_id, &LastNumber { number: ticket.number, created_at: ticket.created_at })?;
    counts::moved(tx, ticket.tenant_id, None, Some(&record))?;
    TICKETS.insert(tx, &(ticket.tenant_id, ticket.number), &record)
}

pub(super) fn update(tx: &mut WriteTx, before: &Ticket, after: &Ticket, timer_at: Option<Timestamp>) -> Result<(), StoreError> {
    let record = to_record(after, timer_at);
    counts::moved(tx, after.tenant_id, Some(&to_record(before, None)), Some(&record))?;
    TICKETS.put(tx, &(after.tenant_id, after.number), &record)
}

/// How many tickets are not finished, by status.
pub(super) fn backlog(tx: &impl Read, tenant: TenantId) -> Result<Vec<(Status, u64)>, StoreError> {
    let mut found = Vec::new();
    for status in Status::ALL.iter().copied().filter(|status| status.is_unfinished()) {
        let tickets = counts::counted(tx, tenant, &Facet::status(status))?;
        found.extend((tickets > 0).then_some((status, tickets)));
    }
    Ok(found)
}

/// Tickets of any tenant whose time has come, the longest overdue first, and when the next does.
pub(super) fn due(tx: &impl Read, reading: &Reading, limit: usize) -> Result<Due<TicketKey>, StoreError> {
    BY_TIMER.due(tx, reading, limit, |_| true)
}

/// The ticket of this tenant whose time came first, if it has come by `now`.
pub(super) fn first_due(tx: &impl Read, tenant: TenantId, now: Timestamp) -> Result<Option<TicketKey>, StoreError> {
    Ok(BY_TIMER.due_on(tx, Timeline::of(tenant), now, 1, |key| key.0 == tenant)?.found.pop())
}

/// The first number whose ticket was created at `time` or later.
pub(super) fn first_created(tx: &impl Read, tenant: TenantId, time: Timestamp) -> Result<u64, StoreError> {
    let (mut low, mut high) = (1, total(tx, tenant)? + 1);
    while low < high {
        let middle = low.midpoint(high);
        let created_at = TICKETS.get(tx, &(tenant, middle))?.map(|record| record.created_at);
        if created_at.is_none_or(|created_at| created_at < time) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    Ok(low)
}
