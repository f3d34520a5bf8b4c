//! `/api/psa/tickets/{id}`: reads and changes one ticket. Also contains the changes by `/api/psa/tickets`.

use std::{collections::BTreeSet, sync::Arc};

use poem_openapi::{Object, OpenApi, param::Path};
use serde_json::value::to_raw_value;

use tenantd_base::{
    access::{Principal, Reach},
    fault::Fault,
    id::TicketId,
};
use tenantd_http::{
    answer_cache::AnswerCache,
    bulk,
    input::{Filter, Lenient},
    need::{Allowed, TicketsRead, TicketsWrite},
    precondition::{IfMatch, IfNoneMatch},
    problem::{FieldError, Problem},
    reply::{Changed, Found},
    wire::ItemProblem,
};
use tenantd_store::{Read, Store, events::Act};

use super::{
    super::{
        error::TicketError,
        model::{self, TicketRef, reference},
        service::{self, Committed, Service, TicketChange},
    },
    Area,
    bodies::{TicketPatch, TicketResult, TicketResults, UpdateTicket, UpdateTickets},
    bulk::{Budget, BulkError},
    collection::SOURCE_TABLES,
    wire::{Ticket, TicketJson},
};

pub(super) fn path(id: &str) -> String {
    format!("/api/psa/tickets/{id}")
}

/// A ticket in the form of a response, and whether it existed before the request.
pub(super) struct TicketView {
    pub(super) id: TicketId,
    pub(super) version: u64,
    pub(super) deduplicated: bool,
    pub(super) json: TicketJson,
}

impl TicketView {
    pub(super) fn new(tx: &impl Read, act: &Act, ticket: model::Ticket, deduplicated: bool) -> Result<Self, TicketError> {
        let ticket = Ticket { deduplicated: deduplicated.then_some(true), ..Ticket::look_up(tx, &act.reach, ticket, act.now)? };
        Ok(Self { id: ticket.id, version: ticket.version, deduplicated, json: TicketJson(to_raw_value(&ticket)?) })
    }

    /// Reuses the form that the event shows, unless the caller may see less.
    pub(super) fn committed(tx: &impl Read, act: &Act, Committed { ticket, shown }: Committed) -> Result<Self, TicketError> {
        if act.reach != Reach::Everything {
            return Self::new(tx, act, ticket, false);
        }
        Ok(Self { id: ticket.id, version: ticket.version, deduplicated: false, json: TicketJson(shown) })
    }
}

#[derive(Debug, Object)]
pub(super) struct TicketDryRun {
    /// Validates the request and returns the result without changing anything.
    pub(super) dry_run: Option<bool>,
}

pub(crate) struct TicketApi {
    pub(crate) service: Arc<Service>,
    pub(crate) store: Store,
    /// Responses, with the version of the ticket.
    records: AnswerCache<(u64, Found<Ticket>), 5>,
}

impl TicketApi {
    pub(crate) fn new(service: Arc<Service>, store: Store) -> Self {
        Self { service, store, records: AnswerCache::new(SOURCE_TABLES) }
    }
}

#[OpenApi(prefix_path = "/api/psa/tickets", tag = "Area::Tickets")]
impl TicketApi {
    /// Read a ticket
    ///
    /// Returns a ticket by its id or its number: `T-1042` and `1042` name the same ticket.
    #[oai(path = "/:id", method = "get", operation_id = "read_ticket")]
    async fn read_ticket(
        &self,
        auth: Allowed<TicketsRead>,
        id: Path<TicketRef>,
        if_none_match: IfNoneMatch,
    ) -> Result<Found<Ticket>, Problem> {
        let render = async {
            let ticket = self.store.read(|tx| {
                let ticket = find(tx, &auth.principal, id.0)?;
                Ok::<_, TicketError>(Ticket::look_up(tx, &auth.principal.reach, ticket, auth.context.now)?)
            })?;
            Ok((ticket.version, Found::new(&ticket, ticket.version)))
        };
        let (version, found) = self.records.get_for(&self.store, &auth.principal, &auth.context, render).await?;
        Ok(if if_none_match.knows(version) { Found::not_modified(version) } else { found })
    }

    /// Change a ticket by its path
    ///
    /// Applies a JSON merge patch (RFC 7396), as `?id=` on the collection does. Fields that are absent from the body keep
    /// their value.
    #[oai(path = "/:id", method = "patch", operation_id = "update_ticket_by_id")]
    async fn update_ticket_by_id(
        &self,
        auth: Allowed<TicketsWrite>,
        id: Path<TicketRef>,
        query: Filter<TicketDryRun>,
        if_match: IfMatch,
        body: Lenient<UpdateTicket>,
    ) -> Result<Changed<Ticket>, Problem> {
        let dry_run = query.0.dry_run.unwrap_or(false);
        let target = (id.0, body.0.id);
        let shown = update(&self.service, &self.store, &auth, target, if_match, body.0.patch, dry_run).await?;
        Ok(Changed::shaped(&shown.json, Some(shown.version)))
    }
}

/// The ticket that a request names, and the second name if it names the ticket twice.
pub(super) fn name(in_query: Option<TicketRef>, in_body: Option<TicketRef>) -> Result<(TicketRef, Option<TicketRef>), Problem> {
    match (in_query, in_body) {
        (Some(named), also) => Ok((named, also)),
        (None, Some(named)) => Ok((named, None)),
        (None, None) => {
            let error = FieldError::parameter("id", "required", "name the ticket with ?id= or with id in the body");
            Err(Problem::invalid(vec![error]))
        }
    }
}

pub(super) async fn update(
    service: &Arc<Service>,
    store: &Store,
    auth: &Allowed<TicketsWrite>,
    (named, also): (TicketRef, Option<TicketRef>),
    if_match: IfMatch,
    patch: TicketPatch,
    dry_run: bool,
) -> Result<TicketView, Problem> {
    let (service, change) = (service.clone(), TicketChange::from(patch));
    let intent = auth.context.intent(&auth.principal);
    let shown = if dry_run {
        let rehearse = move |tx: &tenantd_store::ReadTx| {
            let act = intent.begin();
            let before = service::target(tx, &act, named, also)?;
            if_match.check(before.version)?;
            TicketView::new(tx, &act, service.plan_change(tx, &act, before, &change)?.after, false)
        };
        store.scan_for(auth.principal.tenant_id, rehearse).await
    } else {
        let perform = move |tx: &mut tenantd_store::WriteTx| {
            let mut act = intent.begin();
            let before = service::target(tx, &act, named, also)?;
            if_match.check(before.version)?;
            let plan = service.plan_change(tx, &act, before, &change)?;
            let committed = service.commit(tx, &mut act, plan)?;
            TicketView::committed(tx, &act, committed)
        };
        store.write(perform).await
    };
    shown.map_err(|error: TicketError| Problem::from(error))
}

/// Changes all of the tickets or none.
pub(super) async fn update_many(
    service: &Arc<Service>,
    store: &Store,
    auth: &Allowed<TicketsWrite>,
    body: UpdateTickets,
    dry_run: bool,
) -> Result<TicketResults, Problem> {
    let UpdateTickets { ids, patch } = body;
    let (service, change) = (service.clone(), TicketChange::from(patch));
    let intent = auth.context.intent(&auth.principal);
    let tickets = if dry_run {
        let rehearse = move |tx: &tenantd_store::ReadTx| {
            let (act, mut named, mut budget) = (intent.begin(), BTreeSet::new(), Budget::of_many());
            each(&ids, |id| {
                let plan = budget.plan(tx, |view| {
                    let before = find_once(view, &act, id, &mut named)?;
                    service.plan_change(view, &act, before, &change)
                })?;
                Ok(TicketView::new(tx, &act, plan.after, false)?)
            })
        };
        store.scan_for(auth.principal.tenant_id, rehearse).await
    } else {
        let perform = move |tx: &mut tenantd_store::WriteTx| {
            let (mut act, mut named, mut budget) = (intent.begin(), BTreeSet::new(), Budget::of_many());
            each(&ids, |id| {
                let plan = budget.plan(&*tx, |view| {
                    let before = find_once(view, &act, id, &mut named)?;
                    service.plan_change(view, &act, before, &change)
                })?;
                let committed = service.commit(tx, &mut act, plan)?;
                Ok(TicketView::committed(tx, &act, committed)?)
            })
        };
        store.write(perform).await
    };
    let tickets = tickets.map_err(|error: BulkError| Problem::from(error))?;
    let result = |(index, shown): (usize, TicketView)| TicketResult { index, status: 200, ticket: Some(shown.json), error: None };
    Ok(summed(tickets.into_iter().enumerate().map(result).collect()))
}

/// Finds a ticket that is not in `named` yet. A ticket has several names, so duplicates show only after the lookup.
fn find_once(tx: &impl Read, act: &Act, id: TicketRef, named: &mut BTreeSet<u64>) -> Result<model::Ticket, TicketError> {
    let ticket = service::target(tx, act, id, None)?;
    if named.insert(ticket.number) {
        Ok(ticket)
    } else {
        Err(TicketError::Invalid(vec![Fault::new("", "repeated", format!("{} is named more than once", reference(ticket.number)))]))
    }
}

fn each(
    ids: &[TicketRef],
    mut change: impl FnMut(TicketRef) -> Result<TicketView, BulkError>,
) -> Result<Vec<TicketView>, BulkError> {
    let (mut changed, mut failed) = (Vec::with_capacity(ids.len()), Vec::new());
    for (index, id) in ids.iter().enumerate() {
        match change(*id) {
            Ok(shown) => changed.push(shown),
            Err(BulkError::Ticket(TicketError::Store(error))) => return Err(error.into()),
            Err(BulkError::Ticket(error)) => failed.push((index, error)),
            Err(error @ BulkError::TooLarge(_)) => return Err(error),
        }
    }
    if failed.is_empty() { Ok(changed) } else { Err(TicketError::Bulk { member: "ids", items: failed }.into()) }
}

pub(super) fn failed_result(index: usize, error: BulkError) -> TicketResult {
    let (status, error) = bulk::failure(index, &Problem::from(error));
    TicketResult { index, status, ticket: None, error: Some(ItemProblem(error)) }
}

pub(super) fn summed(results: Vec<TicketResult>) -> TicketResults {
    let succeeded = results.iter().filter(|result| result.ticket.is_some()).count();
    TicketResults { failed: results.len() - succeeded, succeeded, results }
}

/// The ticket in the path of a sub-resource.
pub(super) fn find(tx: &impl Read, principal: &Principal, id: TicketRef) -> Result<model::Ticket, TicketError> {
    service::find(tx, principal.tenant_id, &principal.reach, id)?.ok_or(TicketError::NotFound)
}
