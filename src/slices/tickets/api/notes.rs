//! `/api/psa/tickets/{id}/comments` and `/time-entries`.

use std::sync::Arc;

use poem_openapi::{Object, OpenApi, param::Path};

use tenantd_http::{
    idempotency::IdempotencyKey,
    input::{Filter, Lenient},
    need::{Allowed, TicketsRead, TicketsWrite},
    page::{PageQuery, PageRequest},
    precondition::IfMatch,
    problem::Problem,
    reply::{Created, Listed},
};
use tenantd_store::{Key, Store};

use super::{
    super::{
        error::TicketError,
        labels::Labels,
        model::TicketRef,
        repo,
        service::{NewComment, NewTimeEntry, Service, plan_time_entry, target},
    },
    Area,
    bodies::{CreateComment, CreateTimeEntry},
    record,
    vocabulary::NoteOrder,
    wire::{TicketComment, TicketTimeEntry},
};

#[derive(Debug, Object)]
struct ListComments {
    /// The order of the comments. Defaults to `asc`, the oldest first.
    order: Option<NoteOrder>,
    #[oai(flatten)]
    page: PageQuery,
}

pub(crate) struct NotesApi {
    pub(crate) service: Arc<Service>,
    pub(crate) store: Store,
}

#[OpenApi(prefix_path = "/api/psa/tickets", tag = "Area::Tickets")]
impl NotesApi {
    /// List the comments of a ticket
    ///
    /// Returns the internal and public comments of a ticket, the oldest first unless you set `order`.
    #[oai(path = "/:id/comments", method = "get", operation_id = "list_ticket_comments")]
    async fn list_ticket_comments(
        &self,
        auth: Allowed<TicketsRead>,
        id: Path<TicketRef>,
        query: Filter<ListComments>,
    ) -> Result<Listed<TicketComment>, Problem> {
        let request = PageRequest::new(&auth.context, &query.0.page)?;
        let direction = query.0.order.unwrap_or(NoteOrder::Asc).direction();
        let tenant = auth.principal.tenant_id;
        let after = request.after.as_deref().and_then(Key::from_bytes);
        let (comments, last, total, labels) = self.store.read(|tx| {
            let ticket = record::find(tx, &auth.principal, id.0)?;
            let (comments, last) = repo::comments(tx, (tenant, ticket.number), after, request.limit, direction)?;
            let labels = Labels::of_comments(tx, tenant, &auth.principal.reach, &comments)?;
            Ok::<_, TicketError>((comments, last, ticket.comment_count, labels))
        })?;
        let data: Vec<_> = comments.into_iter().map(|comment| TicketComment::new(comment, &labels)).collect();
        let page = request.page(last.map(|id| id.to_bytes()), request.include_total.then_some(total));
        Ok(Listed::new(&data, &page))
    }

    /// Comment on a ticket
    ///
    /// Adds a comment to a ticket. The first public comment by staff or by an API key counts as the first response. A public
    /// comment by a contact reopens a ticket that is resolved or waits for the customer.
    #[oai(path = "/:id/comments", method = "post", operation_id = "create_ticket_comment")]
    async fn create_ticket_comment(
        &self,
        auth: Allowed<TicketsWrite>,
        id: Path<TicketRef>,
        if_match: IfMatch,
        idempotency_key: IdempotencyKey,
        body: Lenient<CreateComment>,
    ) -> Result<Created<TicketComment>, Problem> {
        let (service, new) = (self.service.clone(), NewComment::from(body.0));
        idempotency_key
            .run(auth.context.intent(&auth.principal), move |tx, act| {
                let ticket = target(tx, act, id.0, None)?;
                if_match.check(ticket.version)?;
                let plan = service.plan_comment(tx, act, ticket, &new)?;
                let comment = plan.comment.clone().into_iter().collect::<Vec<_>>();
                let ticket = service.commit(tx, act, plan)?.ticket;
                let labels = Labels::of_comments(tx, act.tenant_id, &act.reach, &comment)?;
                let shown = comment.into_iter().map(|comment| TicketComment::new(comment, &labels)).next();
                let location = format!("{}/comments", record::path(&ticket.id.to_string()));
                Ok::<_, TicketError>(Created::shaped(&shown, ticket.version, &location))
            })
            .await
    }

    /// List the time entries of a ticket
    ///
    /// Returns the time entries of a ticket in the order of their creation.
    #[oai(path = "/:id/time-entries", method = "get", operation_id = "list_ticket_time_entries")]
    async fn list_ticket_time_entries(
        &self,
        auth: Allowed<TicketsRead>,
        id: Path<TicketRef>,
        query: Filter<PageQuery>,
    ) -> Result<Listed<TicketTimeEntry>, Problem> {
        let request = PageRequest::new(&auth.context, &query.0)?;
        let tenant = auth.principal.tenant_id;
        let after = request.after.as_deref().and_then(Key::from_bytes);
        let (entries, last, total) = self.store.read(|tx| {
            let ticket = record::find(tx, &auth.principal, id.0)?;
            let key = (tenant, ticket.number);
            let (entries, last) = repo::time_entries(tx, key, after, request.limit)?;
            let total = if request.include_total { Some(repo::time_entry_count(tx, key)?) } else { None };
            Ok::<_, TicketError>((entries, last, total))
        })?;
        let data: Vec<TicketTimeEntry> = entries.into_iter().map(Into::into).collect();
        Ok(Listed::new(&data, &request.page(last.map(|id| id.to_bytes()), total)))
    }

    /// Add a time entry to a ticket
    ///
    /// Records time spent on a ticket and adds it to the ticket's `time_spent_minutes`.
    #[oai(path = "/:id/time-entries", method = "post", operation_id = "create_ticket_time_entry")]
    async fn create_ticket_time_entry(
        &self,
        auth: Allowed<TicketsWrite>,
        id: Path<TicketRef>,
        if_match: IfMatch,
        idempotency_key: IdempotencyKey,
        body: Lenient<CreateTimeEntry>,
    ) -> Result<Created<TicketTimeEntry>, Problem> {
        let (service, new) = (self.service.clone(), NewTimeEntry::from(body.0));
        idempotency_key
            .run(auth.context.intent(&auth.principal), move |tx, act| {
                let ticket = target(tx, act, id.0, None)?;
                if_match.check(ticket.version)?;
                let plan = plan_time_entry(act, ticket, &new);
                let entry = plan.time_entry.clone().map(TicketTimeEntry::from);
                let ticket = service.commit(tx, act, plan)?.ticket;
                let location = format!("{}/time-entries", record::path(&ticket.id.to_string()));
                Ok::<_, TicketError>(Created::shaped(&entry, ticket.version, &location))
            })
            .await
    }
}
