//! Tickets: found by number, subject, description, comments, tags and external identifiers.

use tenantd_base::id::{TenantId, TicketId};
use tenantd_store::{ReadTx, StoreError};
use tenantd_tickets::{self as tickets, Status, Ticket};

use super::{
    super::{
        model::{Attribute, Document, Kind, RecordId, State},
        text,
    },
    After, Scanned, Source, joined, scanned,
};

pub(super) struct Tickets;

/// The maximum number of comments per ticket that are searched, the oldest first.
const COMMENTS: usize = 50;

fn state(status: Status) -> State {
    match status {
        Status::New => State::New,
        Status::Open => State::Open,
        Status::InProgress => State::InProgress,
        Status::WaitingCustomer => State::WaitingCustomer,
        Status::WaitingVendor => State::WaitingVendor,
        Status::Scheduled => State::Scheduled,
        Status::OnHold => State::OnHold,
        Status::Resolved => State::Resolved,
        Status::Closed => State::Closed,
        Status::Cancelled => State::Cancelled,
        Status::Merged => State::Merged,
    }
}

fn document(tx: &ReadTx, ticket: Ticket) -> Result<Document, StoreError> {
    let comments = if ticket.comment_count == 0 { Vec::new() } else { tickets::comment_texts(tx, &ticket, COMMENTS)? };
    let reference = ticket.reference();
    let mut texts: Vec<(&'static str, String)> = Vec::new();
    texts.extend(ticket.description.map(|text| ("description", text)));
    texts.extend(ticket.resolution.map(|resolution| ("resolution", resolution.summary)));
    texts.extend(ticket.category.map(|category| ("category", category)));
    texts.extend(ticket.queue.map(|queue| ("queue", queue)));
    texts.extend(ticket.tags.iter().map(|tag| ("tag", tag.clone())));
    texts.extend(comments.into_iter().map(|text| ("comment", text)));
    let mut identifiers = vec![("number", reference.clone()), ("number", ticket.number.to_string())];
    identifiers.extend(ticket.external_refs.into_iter().map(|other| ("external_ref", other.id)));
    identifiers.extend(ticket.dedup_key.map(|key| ("dedup_key", key)));
    let mut attributes: Vec<_> = ticket.tags.iter().map(|tag| (Attribute::Tag, text::fold(tag))).collect();
    attributes.extend(ticket.assignee_id.map(|id| (Attribute::Assignee, id.to_string())));
    attributes.push((Attribute::Priority, ticket.priority.name().to_owned()));
    attributes.push((Attribute::Number, ticket.number.to_string()));
    Ok(Document {
        tenant_id: ticket.tenant_id,
        kind: Kind::Ticket,
        id: *ticket.id.as_bytes(),
        shown_id: ticket.id.to_string(),
        name: ticket.subject,
        subtitle: joined([Some(reference.as_str()), Some(ticket.priority.name())]),
        texts,
        identifiers,
        attributes,
        software: Vec::new(),
        organization_id: Some(ticket.organization_id),
        state: Some(state(ticket.status)),
        updated_at: ticket.updated_at,
    })
}

impl Source for Tickets {
    fn kind(&self) -> Kind {
        Kind::Ticket
    }

    fn subject(&self) -> &'static str {
        "ticket"
    }

    fn read_id(&self, text: &str) -> Option<RecordId> {
        text.parse::<TicketId>().ok().map(|id| *id.as_bytes())
    }

    fn load(&self, tx: &ReadTx, tenant: TenantId, id: RecordId) -> Result<Option<Document>, StoreError> {
        tickets::ticket(tx, tenant, TicketId::from_bytes(id))?.map(|ticket| document(tx, ticket)).transpose()
    }

    fn scan(&self, tx: &ReadTx, after: Option<After>, limit: usize) -> Result<Scanned, StoreError> {
        let after = after.map(|(tenant, number)| (tenant, u64::try_from(number).unwrap_or(u64::MAX)));
        let records = tickets::tickets_after(tx, after, limit)?;
        scanned(records, limit, |one| (one.tenant_id, u128::from(one.number)), |one| document(tx, one).map(Some))
    }
}
