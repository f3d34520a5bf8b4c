//! Stored tickets and their indexes. Only this file assigns ticket numbers.
//!
//! **Invariant:** the numbers of a tenant have no gaps and increase with the time of creation. Order by number is therefore
//! order by creation, and a creation time can be found by binary search over the numbers.

mod counts;
mod facets;
mod notes;
mod policies;
mod portable;

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
use tenantd_store::{
    Counts, Direction, Due, Flow, Key, KeyRange, Progress, Read, StoreError, Table, WriteTx, catalog, codec::Record,
};

use self::facets::{BY_ID, BY_TIMER};
pub(super) use self::portable::{Shapes, portable};
use super::model::{Status, Ticket, TicketRef};

/// The approximate size of the records on a page, in bytes. A page with larger records ends before its limit.
pub(crate) const PAGE_BYTES: usize = 8 << 20;

pub(super) type TicketKey = (TenantId, u64);

impl Record for Ticket {
    const VERSION: u8 = 1;

    fn take_key(&mut self, key: &[u8]) -> Option<()> {
        (self.tenant_id, self.number) = Key::from_bytes(key)?;
        Some(())
    }
}

pub(super) static TICKETS: Table<TicketKey, Ticket> =
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

/// The number of tickets of the tenant, which is also the highest number.
pub(super) fn total(tx: &impl Read, tenant: TenantId) -> Result<u64, StoreError> {
    Ok(NUMBERS.get(tx, &tenant)?.map_or(0, |last| last.number))
}

pub(super) fn newest_number(tx: &impl Read, tenant: TenantId) -> Result<u64, StoreError> {
    Ok(NUMBERS.get(tx, &tenant)?.map_or(0, |last| last.number))
}

/// The number and the creation time of the tenant's next ticket. The time is never before that of the previous ticket.
pub(super) fn next_number(tx: &impl Read, tenant: TenantId, now: Timestamp) -> Result<(u64, Timestamp), StoreError> {
    Ok(NUMBERS.get(tx, &tenant)?.map_or((1, now), |last| (last.number + 1, now.max(last.created_at))))
}

pub(super) fn get(tx: &impl Read, tenant: TenantId, number: u64) -> Result<Option<Ticket>, StoreError> {
    TICKETS.get(tx, &(tenant, number))
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
    Ok(found.into_iter().map(|(_, ticket)| ticket).collect())
}

/// The most recently changed unfinished ticket of the organization with this key.
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

/// Stores a new ticket with the number from [`next_number`].
pub(super) fn insert(tx: &mut WriteTx, ticket: &Ticket) -> Result<(), StoreError> {
    NUMBERS.put(tx, &ticket.tenant_id, &LastNumber { number: ticket.number, created_at: ticket.created_at })?;
    counts::moved(tx, ticket.tenant_id, None, Some(ticket))?;
    TICKETS.insert(tx, &(ticket.tenant_id, ticket.number), ticket)
}

pub(super) fn update(tx: &mut WriteTx, before: &Ticket, after: &Ticket) -> Result<(), StoreError> {
    counts::moved(tx, after.tenant_id, Some(before), Some(after))?;
    TICKETS.put(tx, &(after.tenant_id, after.number), after)
}

pub(super) fn index_children(tx: &mut WriteTx) -> Result<Progress, StoreError> {
    TICKETS.fill_some(tx, &BY_FACET, |ticket| ticket.parent.is_some())?;
    Ok(Progress::Done)
}

/// The number of unfinished tickets by status.
pub(super) fn backlog(tx: &impl Read, tenant: TenantId) -> Result<Vec<(Status, u64)>, StoreError> {
    let mut found = Vec::new();
    for status in Status::ALL.iter().copied().filter(|status| status.is_unfinished()) {
        let tickets = counts::counted(tx, tenant, &Facet::status(status))?;
        found.extend((tickets > 0).then_some((status, tickets)));
    }
    Ok(found)
}

/// Due tickets of all tenants, the longest overdue first, and when the next one is due.
pub(super) fn due(tx: &impl Read, reading: &Reading, limit: usize) -> Result<Due<TicketKey>, StoreError> {
    BY_TIMER.due(tx, reading, limit, |_| true)
}

/// The tenant's ticket with the earliest timer, if the timer is due at `now`.
pub(super) fn first_due(tx: &impl Read, tenant: TenantId, now: Timestamp) -> Result<Option<TicketKey>, StoreError> {
    Ok(BY_TIMER.due_on(tx, Timeline::of(tenant), now, 1, |key| key.0 == tenant)?.found.pop())
}

/// The first number whose ticket was created at or after `time`.
pub(super) fn first_created(tx: &impl Read, tenant: TenantId, time: Timestamp) -> Result<u64, StoreError> {
    let (mut low, mut high) = (1, total(tx, tenant)? + 1);
    while low < high {
        let middle = low.midpoint(high);
        let created_at = TICKETS.get(tx, &(tenant, middle))?.map(|ticket| ticket.created_at);
        if created_at.is_none_or(|created_at| created_at < time) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    Ok(low)
}

#[cfg(test)]
mod tests {
    use tenantd_base::id::{DeviceId, TicketId, UserId};
    use tenantd_store::{
        codec::assert_golden,
        events::{Actor, ActorKind},
    };

    use super::*;
    use crate::{
        model::{ExternalRef, FieldValue, Level, Priority, Resolution, ResolutionCode, Source, TicketLink, TicketType},
        sla::{Sla, SlaPolicy},
    };

    #[test]
    fn the_stored_form_is_unchanged() {
        let at = Timestamp::from_millis(1_767_225_600_000);
        let actor = Actor { kind: ActorKind::User, id: "usr_x".to_owned(), name: "Ada".to_owned() };
        let link = TicketLink { id: TicketId::from_bytes([9; 16]), number: 7 };
        let ticket = Ticket {
            tenant_id: TenantId::from_bytes([2; 16]),
            number: 1042,
            id: TicketId::from_bytes([1; 16]),
            subject: "Printer".to_owned(),
            description: Some("It jams.".to_owned()),
            kind: TicketType::Alert,
            status: Status::Resolved,
            priority: Priority::High,
            impact: Some(Level::High),
            urgency: Some(Level::Medium),
            source: Source::Email,
            queue: Some("field".to_owned()),
            category: Some("hardware".to_owned()),
            organization_id: OrganizationId::from_bytes([3; 16]),
            contact_id: Some(UserId::from_bytes([4; 16])),
            assignee_id: Some(UserId::from_bytes([5; 16])),
            device_ids: vec![DeviceId::from_bytes([6; 16])],
            tags: vec!["vip".to_owned()],
            custom_fields: [
                ("a".to_owned(), FieldValue::Text("x".to_owned())),
                ("b".to_owned(), FieldValue::Integer(-5)),
                ("c".to_owned(), FieldValue::Number(1.5)),
                ("d".to_owned(), FieldValue::Flag(true)),
            ]
            .into(),
            external_refs: vec![ExternalRef { system: "jira".to_owned(), id: "OPS-1".to_owned(), url: None }],
            dedup_key: Some("disk".to_owned()),
            occurrences: 3,
            parent: Some(link),
            merged_into: Some(link),
            sla: Sla::start(&SlaPolicy::standard("UTC"), Priority::High, at),
            resolution: Some(Resolution {
                code: ResolutionCode::Vendor,
                summary: "New drum.".to_owned(),
                resolved_by: actor.clone(),
                resolved_at: at,
            }),
            comment_count: 2,
            reopen_count: 1,
            time_spent_minutes: 30,
            due_at: Some(at.plus_days(1)),
            created_at: at,
            updated_at: at.plus_days(2),
            status_changed_at: at,
            first_responded_at: Some(at),
            resolved_at: Some(at),
            closed_at: None,
            created_by: actor,
            version: 9,
            last_seq: 300,
            timer_at: Some(at.plus_days(5)),
        };
        assert_golden("ticket", &ticket);
    }
}
