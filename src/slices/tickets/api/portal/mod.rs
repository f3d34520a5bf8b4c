//! `/api/portal/tickets`: a contact works on their own tickets.

mod wire;

use std::sync::Arc;

use poem_openapi::{Object, OpenApi, Tags, param::Path};

use tenantd_http::{
    idempotency::IdempotencyKey,
    input::{Filter, Lenient},
    need::{Allowed, ContactOnly},
    page::{PageRequest, UncountedPageQuery},
    precondition::{IfMatch, IfNoneMatch},
    problem::{Code, Problem},
    reply::{Changed, Created, Found, Listed},
};
use tenantd_store::{Key, Read, Store, WriteTx, events::Act};

use super::super::{
    error::TicketError,
    listing,
    model::{Status, StatusCategory, Ticket, TicketRef},
    service::{NewPortalTicket, Plan, PortalContact, Service, public_comments},
};
pub(super) use wire::{CreatePortalComment, CreatePortalTicket, PortalComment, PortalTicket};

#[derive(Tags)]
enum Area {
    /// The tickets of a contact who signs in to the portal.
    Portal,
}

#[derive(Debug, Object)]
struct ListPortalTickets {
    /// Returns tickets in one of these categories.
    #[oai(validator(min_items = 1, max_items = 3))]
    status_category: Option<Vec<StatusCategory>>,
    #[oai(flatten)]
    page: UncountedPageQuery,
}

impl ListPortalTickets {
    fn statuses(&self) -> Option<Vec<Status>> {
        let categories = self.status_category.as_ref()?;
        Some(categories.iter().flat_map(|category| category.statuses()).collect())
    }
}

#[derive(Debug, Object)]
struct ListPortalComments {
    #[oai(flatten)]
    page: UncountedPageQuery,
}

pub(crate) struct PortalApi {
    pub(crate) service: Arc<Service>,
    pub(crate) store: Store,
}

/// The contact who sends the request.
fn contact(auth: &Allowed<ContactOnly>) -> Result<PortalContact, Problem> {
    PortalContact::of(&auth.principal).ok_or_else(|| Problem::plain(Code::ContactRequired))
}

/// An own ticket, if its visible state is the expected one.
fn expected(tx: &impl Read, contact: &PortalContact, id: TicketRef, if_match: &IfMatch) -> Result<Ticket, TicketError> {
    let ticket = contact.find(tx, id)?;
    if if_match.is_given() {
        if_match.check(PortalTicket::look_up(tx, ticket.clone())?.visible_version()?)?;
    }
    Ok(ticket)
}

impl PortalApi {
    /// Changes an own ticket, and returns it.
    async fn change(
        &self,
        auth: &Allowed<ContactOnly>,
        id: TicketRef,
        (if_match, idempotency_key): (IfMatch, IdempotencyKey),
        plan: impl Fn(&Service, &WriteTx, &Act, &PortalContact, Ticket) -> Result<Plan, TicketError> + Send + 'static,
    ) -> Result<Changed<PortalTicket>, Problem> {
        let (contact, service) = (contact(auth)?, self.service.clone());
        idempotency_key
            .run(auth.context.intent(&auth.principal), move |tx, act| {
                let ticket = expected(tx, &contact, id, &if_match)?;
                let plan = plan(&service, tx, act, &contact, ticket)?;
                let ticket = service.commit(tx, act, plan)?.ticket;
                let shown = PortalTicket::look_up(tx, ticket)?;
                Ok::<_, TicketError>(Changed::new(&shown, shown.visible_version()?))
            })
            .await
    }
}

#[OpenApi(prefix_path = "/api/portal/tickets", tag = "Area::Portal")]
impl PortalApi {
    /// List your tickets
    ///
    /// Returns the tickets that you are the contact of, in your organization, the newest first.
    #[oai(path = "/", method = "get", operation_id = "list_portal_tickets")]
    async fn list_portal_tickets(
        &self,
        auth: Allowed<ContactOnly>,
        query: Filter<ListPortalTickets>,
    ) -> Result<Listed<PortalTicket>, Problem> {
        let wanted = contact(&auth)?.query(query.0.statuses());
        let request = PageRequest::new(&auth.context, &query.0.page.into())?;
        let (after, limit) = (request.after.clone(), request.limit);
        let read = self.store.scan_for(auth.principal.tenant_id, move |tx| {
            let page = listing::list(tx, &wanted, after.as_deref(), limit)?;
            let mut data = Vec::with_capacity(page.tickets.len());
            for ticket in page.tickets {
                data.push(PortalTicket::look_up(tx, ticket)?);
            }
            Ok::<_, TicketError>((data, page.last))
        });
        let (data, last) = read.await?;
        Ok(Listed::new(&data, &request.page(last, None)))
    }

    /// Create a ticket for yourself
    ///
    /// Creates a ticket of your organization, with you as its contact and `portal` as its source. You can create 20 in an hour.
    #[oai(path = "/", method = "post", operation_id = "create_portal_ticket")]
    async fn create_portal_ticket(
        &self,
        auth: Allowed<ContactOnly>,
        idempotency_key: IdempotencyKey,
        body: Lenient<CreatePortalTicket>,
    ) -> Result<Created<PortalTicket>, Problem> {
        let (contact, service, new) = (contact(&auth)?, self.service.clone(), NewPortalTicket::from(body.0));
        idempotency_key
            .run(auth.context.intent(&auth.principal), move |tx, act| {
                let plan = service.plan_portal_ticket(tx, act, &contact, &new)?;
                let ticket = service.commit(tx, act, plan)?.ticket;
                let shown = PortalTicket::look_up(tx, ticket)?;
                Ok::<_, TicketError>(Created::new(&shown, shown.visible_version()?, &shown.path()))
            })
            .await
    }

    /// Read one of your tickets
    ///
    /// Returns the ticket by its id or its number. A ticket that you are not the contact of is not found.
    #[oai(path = "/:id", method = "get", operation_id = "read_portal_ticket")]
    async fn read_portal_ticket(
        &self,
        auth: Allowed<ContactOnly>,
        id: Path<TicketRef>,
        if_none_match: IfNoneMatch,
    ) -> Result<Found<PortalTicket>, Problem> {
        let contact = contact(&auth)?;
        let (shown, version) = self.store.read(|tx| {
            let shown = PortalTicket::look_up(tx, contact.find(tx, id.0)?)?;
            let version = shown.visible_version()?;
            Ok::<_, TicketError>((shown, version))
        })?;
        Ok(if if_none_match.knows(version) { Found::not_modified(version) } else { Found::new(&shown, version) })
    }

    /// List the comments of your ticket
    ///
    /// Returns the public comments of the ticket, the oldest first.
    #[oai(path = "/:id/comments", method = "get", operation_id = "list_portal_comments")]
    async fn list_portal_comments(
        &self,
        auth: Allowed<ContactOnly>,
        id: Path<TicketRef>,
        query: Filter<ListPortalComments>,
    ) -> Result<Listed<PortalComment>, Problem> {
        let contact = contact(&auth)?;
        let request = PageRequest::new(&auth.context, &query.0.page.into())?;
        let (after, limit) = (request.after.as_deref().and_then(Key::from_bytes), request.limit);
        let read = self.store.scan_for(auth.principal.tenant_id, move |tx| {
            let (comments, last) = public_comments(tx, &contact.find(tx, id.0)?, after, limit)?;
            let mut data = Vec::with_capacity(comments.len());
            for comment in comments {
                data.push(PortalComment::look_up(tx, &contact, comment)?);
            }
            Ok::<_, TicketError>((data, last))
        });
        let (data, last) = read.await?;
        Ok(Listed::new(&data, &request.page(last.map(|id| id.to_bytes()), None)))
    }

    /// Answer on your ticket
    ///
    /// Adds a public comment. A ticket that is resolved or waits for you is reopened. You can add 60 comments to a ticket in an hour.
    #[oai(path = "/:id/comments", method = "post", operation_id = "create_portal_comment")]
    async fn create_portal_comment(
        &self,
        auth: Allowed<ContactOnly>,
        id: Path<TicketRef>,
        if_match: IfMatch,
        idempotency_key: IdempotencyKey,
        body: Lenient<CreatePortalComment>,
    ) -> Result<Created<PortalComment>, Problem> {
        let (contact, service, body) = (contact(&auth)?, self.service.clone(), body.0.body);
        idempotency_key
            .run(auth.context.intent(&auth.principal), move |tx, act| {
                let ticket = expected(tx, &contact, id.0, &if_match)?;
                let plan = service.plan_portal_comment(tx, act, &contact, ticket, &body)?;
                let added = plan.comment.clone();
                let ticket = service.commit(tx, act, plan)?.ticket;
                let ticket = PortalTicket::look_up(tx, ticket)?;
                let shown = added.map(|comment| PortalComment::look_up(tx, &contact, comment)).transpose()?;
                let location = format!("{}/comments", ticket.path());
                Ok::<_, TicketError>(Created::shaped(&shown, ticket.visible_version()?, &location))
            })
            .await
    }

    /// Close your ticket
    ///
    /// An unfinished ticket becomes `resolved`: you can still reopen it until it is closed. A resolved ticket becomes `closed`.
    #[oai(path = "/:id/close", method = "post", operation_id = "close_portal_ticket")]
    async fn close_portal_ticket(
        &self,
        auth: Allowed<ContactOnly>,
        id: Path<TicketRef>,
        if_match: IfMatch,
        idempotency_key: IdempotencyKey,
    ) -> Result<Changed<PortalTicket>, Problem> {
        let plan = |service: &Service, tx: &WriteTx, act: &Act, contact: &PortalContact, ticket| {
            service.plan_portal_close(tx, act, contact, ticket)
        };
        self.change(&auth, id.0, (if_match, idempotency_key), plan).await
    }

    /// Reopen your ticket
    ///
    /// A resolved ticket becomes `open`. A closed ticket stays closed: create another one.
    #[oai(path = "/:id/reopen", method = "post", operation_id = "reopen_portal_ticket")]
    async fn reopen_portal_ticket(
        &self,
        auth: Allowed<ContactOnly>,
        id: Path<TicketRef>,
        if_match: IfMatch,
        idempotency_key: IdempotencyKey,
    ) -> Result<Changed<PortalTicket>, Problem> {
        let plan = |service: &Service, tx: &WriteTx, act: &Act, contact: &PortalContact, ticket| {
            service.plan_portal_reopen(tx, act, contact, ticket)
        };
        self.change(&auth, id.0, (if_match, idempotency_key), plan).await
    }
}
