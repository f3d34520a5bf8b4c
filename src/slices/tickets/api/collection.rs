//! `/api/psa/tickets`: lists and creates tickets, and changes tickets that the query or the body names. Creations and changes
//! take one ticket or several.

use std::sync::Arc;

use poem::Request;
use poem_openapi::{Object, OpenApi};
use serde_json::Value;

use tenantd_base::{
    access::Reach,
    id::{OrganizationId, TenantId, UserId},
};
use tenantd_http::{
    acts,
    answer_cache::AnswerCache,
    bulk::refuse_one,
    context::header,
    export::RowFormat,
    idempotency::IdempotencyKey,
    input::{Filter, Lenient},
    need::{Allowed, TicketsRead, TicketsWrite},
    outgoing::{ListOrStream, Streams},
    page::PageRequest,
    precondition::IfMatch,
    problem::{Code, Problem},
    reply::{Changed, Rendered, Settled},
    wire::{Item, ItemProblem, OneOrMany},
};
use tenantd_store::{
    Key, Read, Store, StoreError, WriteTx,
    catalog::{self, TableName},
    events::Act,
};

use super::{
    super::{
        error::TicketError,
        labels::Labels,
        listing,
        model::{self, TicketRef},
        service::{NewTicket, Plan, Service},
    },
    Area,
    bodies::{CreateTicket, CreateTickets, TicketResult, TicketResults, UpdateTicket, UpdateTickets},
    bulk::{Budget, BulkError},
    export,
    filters::{CountsBy, ListTickets, TicketFormat, TicketSort},
    record::{self, TicketDryRun, TicketView},
    wire::{Ticket, TicketCount, TicketCounts, TicketList},
};

/// The tables that a ticket in a response is built from.
pub(super) const SOURCE_TABLES: [TableName; 5] =
    [catalog::TICKETS, catalog::SLA_POLICIES, catalog::ORGANIZATIONS, catalog::USERS, catalog::DEVICES];

/// The maximum number of values that are counted per field.
const MAX_COUNTS: usize = 1_000;

#[derive(Debug, Object)]
struct TicketTarget {
    /// The ticket to change, unless the body names it: `T-1042`, `1042` or its id.
    id: Option<TicketRef>,
    /// Validates the request and returns the result without changing anything.
    dry_run: Option<bool>,
}

pub(crate) struct TicketsApi {
    pub(crate) service: Arc<Service>,
    pub(crate) store: Store,
    pub(crate) exports: Streams,
    pages: AnswerCache<Rendered, 5>,
}

impl TicketsApi {
    pub(crate) fn new(service: Arc<Service>, store: Store, exports: Streams) -> Self {
        Self { service, store, exports, pages: AnswerCache::new(SOURCE_TABLES) }
    }
}

type CreateBody = OneOrMany<CreateTicket, CreateTickets>;
type UpdateBody = OneOrMany<UpdateTicket, UpdateTickets>;
pub(super) type TicketAnswer = OneOrMany<Ticket, TicketResults>;

impl TicketsApi {
    async fn page(&self, auth: &Allowed<TicketsRead>, query: &ListTickets) -> Result<Rendered, Problem> {
        let request = PageRequest::new(&auth.context, &query.page)?;
        let mut wanted = query.query(&auth.principal, TicketSort::UpdatedAtDescending)?;
        let counts_by = query.counts_by.clone().unwrap_or_default();
        let (after, limit) = (request.after.clone(), request.limit);
        let (is_exact, most) = (request.include_total, query.count_up_to.map(|most| most as usize));
        let (now, reach) = (auth.context.now, auth.principal.reach.clone());
        let read = self.store.scan_for(auth.principal.tenant_id, move |tx| {
            wanted.drop_hidden_parents(tx, &reach)?;
            let page = listing::list(tx, &wanted, after.as_deref(), limit)?;
            let total = match most {
                _ if is_exact => Some(listing::Total { count: listing::total(tx, &wanted)?, is_minimum: false }),
                Some(most) => Some(listing::total_within(tx, &wanted, most)?),
                None => None,
            };
            let counts = if counts_by.is_empty() { None } else { Some(counts(tx, &wanted, &counts_by)?) };
            let labels = Labels::of_tickets(tx, wanted.tenant_id, &reach, &page.tickets)?;
            let data: Vec<Ticket> = page.tickets.into_iter().map(|ticket| Ticket::new(ticket, &labels, now)).collect();
            Ok::<_, StoreError>((data, page.last, total, counts))
        });
        let (data, last, total, counts) = read.await?;
        let total_is_minimum = total.filter(|_| query.count_up_to.is_some()).map(|total| total.is_minimum);
        let page = request.page(last, total.map(|total| total.count));
        Ok(Rendered::page(&TicketList { data, page: page.clone(), total_is_minimum, counts }, &page))
    }
}

#[OpenApi(prefix_path = "/api/psa/tickets", tag = "Area::Tickets")]
impl TicketsApi {
    /// List tickets
    ///
    /// Returns the tickets of the tenant that match all filters. A page can contain fewer tickets than `limit`, or none,
    /// although more tickets follow, because a page ends at about 8 MiB. The last page has no `next_cursor`.
    ///
    /// `format=csv`, `format=ndjson`, or an `Accept` header with only `text/csv` or `application/x-ndjson` streams all
    /// tickets instead. The last line of an NDJSON stream is `{"_end":true,"count":…}`, which shows that the stream is
    /// complete. You cannot combine a stream with `limit`, `cursor`, `include_total`, `count_up_to` or `counts_by`.
    #[oai(path = "/", method = "get", operation_id = "list_tickets")]
    async fn list_tickets(
        &self,
        auth: Allowed<TicketsRead>,
        request: &Request,
        query: Filter<ListTickets>,
    ) -> Result<ListOrStream<TicketList>, Problem> {
        let format = match query.0.format {
            Some(TicketFormat::Json) => None,
            Some(TicketFormat::Csv) => Some(RowFormat::Csv),
            Some(TicketFormat::Ndjson) => Some(RowFormat::Ndjson),
            None => RowFormat::accepted(header(request.headers(), "accept").unwrap_or_default()),
        };
        let now = auth.context.now;
        if let Some(format) = format {
            let counts = [("counts_by", query.0.counts_by.is_some()), ("count_up_to", query.0.count_up_to.is_some())];
            let counts: Vec<&str> = counts.into_iter().filter(|(_, is_set)| *is_set).map(|(name, _)| name).collect();
            query.0.page.refuse_for_stream(&counts)?;
            let wanted = query.0.query(&auth.principal, TicketSort::Number)?;
            acts::export_started(&self.store, &auth, "tickets", format.media_type()).await?;
            return Ok(ListOrStream::Stream(export::start(
                &self.exports,
                self.store.clone(),
                wanted,
                (auth.principal.reach.clone(), now),
                format,
            )?));
        }
        let page = self.pages.get_for(&self.store, &auth.principal, &auth.context, self.page(&auth, &query.0)).await?;
        Ok(ListOrStream::rendered(page))
    }

    /// Create tickets
    ///
    /// Creates one ticket, or up to 100 tickets in `tickets`. Several tickets are created all or none, unless `atomic` is
    /// false. If an open ticket of the same organization has the same `dedup_key`, the request returns that ticket with
    /// status 200 and `deduplicated` instead of creating one. The clocks of the service levels start immediately.
    ///
    /// A request for several tickets can read and write up to 4 MiB of records. Beyond that limit the request fails with
    /// status 413. With `atomic` false, only the remaining tickets fail.
    #[oai(path = "/", method = "post", operation_id = "create_tickets")]
    async fn create_tickets(
        &self,
        auth: Allowed<TicketsWrite>,
        query: Filter<TicketDryRun>,
        idempotency_key: IdempotencyKey,
        body: Lenient<CreateBody>,
    ) -> Result<Settled<TicketAnswer>, Problem> {
        let intent = auth.context.intent(&auth.principal);
        let service = self.service.clone();
        let creation = Creation::from(body.0);
        if query.0.dry_run.unwrap_or(false) {
            return self
                .store
                .scan_for(auth.principal.tenant_id, move |tx| {
                    Ok(creation.rehearse(&service, tx, &mut intent.begin())?.answer(true))
                })
                .await
                .map_err(|error: BulkError| error.into());
        }
        idempotency_key.run(intent, move |tx, act| Ok::<_, BulkError>(creation.perform(&service, tx, act)?.answer(false))).await
    }

    /// Change tickets
    ///
    /// Applies a JSON merge patch (RFC 7396) to the ticket in `?id=` or `id`. With `ids` and `patch`, it changes up to 100
    /// tickets, all or none; such a request takes neither `?id=` nor `If-Match`. It can read and write up to 4 MiB of
    /// records. Beyond that limit it fails with status 413.
    ///
    /// If the ticket cannot change from its current status to the new one, the request returns a conflict that lists the
    /// allowed statuses.
    #[oai(path = "/", method = "patch", operation_id = "update_tickets")]
    async fn update_tickets(
        &self,
        auth: Allowed<TicketsWrite>,
        query: Filter<TicketTarget>,
        if_match: IfMatch,
        body: Lenient<UpdateBody>,
    ) -> Result<Changed<TicketAnswer>, Problem> {
        let dry_run = query.0.dry_run.unwrap_or(false);
        match body.0 {
            OneOrMany::One(one) => {
                let (named, also) = record::name(query.0.id, one.id)?;
                let shown = record::update(&self.service, &self.store, &auth, (named, also), if_match, one.patch, dry_run).await?;
                Ok(Changed::shaped(&shown.json, Some(shown.version)))
            }
            OneOrMany::Many(many) => {
                refuse_one(query.0.id.is_some(), if_match.is_given())?;
                let results = record::update_many(&self.service, &self.store, &auth, many, dry_run).await?;
                Ok(Changed::shaped(&results, None))
            }
        }
    }
}

/// What to create.
enum Creation {
    One(Box<NewTicket>),
    Many { tickets: Vec<Item<NewTicket>>, atomic: bool },
}

impl From<CreateBody> for Creation {
    fn from(body: CreateBody) -> Self {
        match body {
            OneOrMany::One(one) => Self::One(Box::new(one.into())),
            OneOrMany::Many(many) => {
                let tickets = many.tickets.into_iter().map(|ticket| ticket.map(Into::into)).collect();
                Self::Many { atomic: many.atomic.unwrap_or(true), tickets }
            }
        }
    }
}

/// What was created, or would be in a dry run.
enum Creations {
    One(Box<TicketView>),
    Many(Vec<Result<TicketView, Failure>>),
}

/// Why one of several tickets was not created.
enum Failure {
    /// The fields are invalid. The value is the problem that the HTTP layer has already produced.
    Refused(Value),
    Failed(BulkError),
}

impl Creation {
    fn budget(&self) -> Budget {
        match self {
            Self::One(_) => Budget::of_one(),
            Self::Many { .. } => Budget::of_many(),
        }
    }

    fn perform(&self, service: &Service, tx: &mut WriteTx, act: &mut Act) -> Result<Creations, BulkError> {
        let mut budget = self.budget();
        let mut create = |new: &NewTicket| -> Result<TicketView, BulkError> {
            let plan = budget.plan(&*tx, |view| service.plan_create(view, act, new))?;
            let deduplicated = plan.deduplicated;
            let committed = service.commit(tx, act, plan)?;
            let shown = if deduplicated {
                TicketView::new(tx, act, committed.ticket, true)
            } else {
                TicketView::committed(tx, act, committed)
            };
            Ok(shown?)
        };
        self.each(&mut create)
    }

    /// Checks each ticket separately against the current state of the store.
    fn rehearse(&self, service: &Service, tx: &impl Read, act: &mut Act) -> Result<Creations, BulkError> {
        let mut budget = self.budget();
        let mut create = |new: &NewTicket| -> Result<TicketView, BulkError> {
            let Plan { after, deduplicated, .. } = budget.plan(tx, |view| service.plan_create(view, act, new))?;
            Ok(TicketView::new(tx, act, after, deduplicated)?)
        };
        self.each(&mut create)
    }

    fn each(&self, create: &mut dyn FnMut(&NewTicket) -> Result<TicketView, BulkError>) -> Result<Creations, BulkError> {
        match self {
            Self::One(new) => Ok(Creations::One(Box::new(create(new)?))),
            Self::Many { tickets, atomic } => {
                let mut done = Vec::with_capacity(tickets.len());
                let mut failed = Vec::new();
                for (index, new) in tickets.iter().enumerate() {
                    let outcome = match new {
                        Item::Valid(new) => create(new),
                        Item::Refused(problem) => {
                            done.push(Err(Failure::Refused(problem.clone())));
                            continue;
                        }
                    };
                    match outcome {
                        Err(BulkError::Ticket(TicketError::Store(error))) => return Err(error.into()),
                        Err(error @ BulkError::TooLarge(_)) if *atomic => return Err(error),
                        Err(BulkError::Ticket(error)) if *atomic => failed.push((index, error)),
                        outcome => done.push(outcome.map_err(Failure::Failed)),
                    }
                }
                if failed.is_empty() {
                    Ok(Creations::Many(done))
                } else {
                    Err(TicketError::Bulk { member: "tickets", items: failed }.into())
                }
            }
        }
    }
}

impl Creations {
    fn answer(self, dry_run: bool) -> Settled<TicketAnswer> {
        match self {
            Self::One(shown) if dry_run || shown.deduplicated => Settled::kept(&shown.json, Some(shown.version)),
            Self::One(shown) => {
                let location = record::path(&shown.id.to_string());
                Settled::created(&shown.json, Some((shown.version, &location)))
            }
            Self::Many(outcomes) => {
                let created = outcomes.iter().any(|outcome| outcome.as_ref().is_ok_and(|shown| !shown.deduplicated));
                let results = results(outcomes);
                if created && !dry_run { Settled::created(&results, None) } else { Settled::kept(&results, None) }
            }
        }
    }
}

fn results(outcomes: Vec<Result<TicketView, Failure>>) -> TicketResults {
    let result = |(index, outcome): (usize, Result<TicketView, Failure>)| match outcome {
        Ok(shown) => {
            let status = if shown.deduplicated { 200 } else { 201 };
            TicketResult { index, status, ticket: Some(shown.json), error: None }
        }
        Err(Failure::Refused(problem)) => {
            let status = Code::ValidationFailed.status().as_u16();
            TicketResult { index, status, ticket: None, error: Some(ItemProblem(problem)) }
        }
        Err(Failure::Failed(error)) => record::failed_result(index, error),
    };
    let results: Vec<TicketResult> = outcomes.into_iter().enumerate().map(result).collect();
    record::summed(results)
}

fn counts(tx: &impl Read, query: &listing::TicketQuery, by: &[CountsBy]) -> Result<TicketCounts, StoreError> {
    let fields: Vec<_> = by.iter().map(|by| by.field()).collect();
    let mut counts = TicketCounts::default();
    for (by, values) in by.iter().zip(listing::counts(tx, query, &fields)?) {
        let mut shown = Vec::with_capacity(values.len().min(MAX_COUNTS));
        for (value, count) in values.into_iter().take(MAX_COUNTS) {
            let (value, name) = counted_value(tx, query.tenant_id, *by, &value)?;
            shown.push(TicketCount { value, name, count });
        }
        match by {
            CountsBy::Status => counts.status = Some(shown),
            CountsBy::Priority => counts.priority = Some(shown),
            CountsBy::Assignee => counts.assignee = Some(shown),
            CountsBy::Organization => counts.organization = Some(shown),
        }
    }
    Ok(counts)
}

/// A value in the form that the filter takes, and its name if the value is an id.
fn counted_value(tx: &impl Read, tenant: TenantId, by: CountsBy, value: &[u8]) -> Result<(String, Option<String>), StoreError> {
    let mut labels = Labels::default();
    let word = |name: Option<&'static str>| (name.unwrap_or_default().to_owned(), None);
    let code = usize::from(value.first().copied().unwrap_or_default());
    Ok(match by {
        CountsBy::Status => word(model::Status::ALL.get(code).map(|status| status.name())),
        CountsBy::Priority => word(model::Priority::ALL.get(code).map(|priority| priority.name())),
        CountsBy::Assignee => match Option::<UserId>::from_bytes(value).flatten() {
            Some(id) => {
                labels.add_person(tx, tenant, &Reach::Everything, id)?;
                (id.to_string(), Some(labels.person(id).name))
            }
            None => ("none".to_owned(), None),
        },
        CountsBy::Organization => match <OrganizationId as Key>::from_bytes(value) {
            Some(id) => {
                labels.add_organization(tx, tenant, id)?;
                (id.to_string(), Some(labels.organization(id)))
            }
            None => word(None),
        },
    })
}
