//! Tickets and their service levels: created by people, keys and alerts, moved through their statuses, commented on, and
//! closed after a time.
//!
//! **Boundary:** organizations, people and devices belong to the directory. A ticket stores their ids and looks up their
//! names when it is shown. **Invariant:** the state of a ticket's service levels is stored and changed by its own timers. So
//! it can be filtered by, and is never out of date.

mod api;
mod dependents;
mod error;
mod labels;
mod listing;
mod model;
mod repo;
mod service;
mod sla;
mod steps;
mod upkeep;

use std::sync::Arc;

use poem_openapi::OpenApi;

use tenantd_base::{
    clocks::Clocks,
    config,
    id::{TenantId, TicketId},
};
use tenantd_http::outgoing::Streams;
use tenantd_store::{
    Checked, Direction, Progress, Read, Store, StoreError, WriteTx,
    events::{Act, EventKind, Member},
    portable::Portable,
    steps::StepEntry,
    tasks::Tasks,
};

pub use error::TicketError;
pub use model::{Priority, ResolutionCode, Source, Status, Ticket, TicketRef, TicketType, Visibility};
pub use service::{NewComment, NewTicket, NewTimeEntry, TicketChange};

/// Additional members of event data, next to the ticket.
pub const EVENT_MEMBERS: &[Member] = &[Member { kind: "ticket.commented", name: "comment", schema: "TicketComment" }];

pub const EVENTS: &[&EventKind] = &[
    &service::CREATED,
    &service::UPDATED,
    &service::COMMENTED,
    &service::RESOLVED,
    &service::CLOSED,
    &service::REOPENED,
    &service::SLA_AT_RISK,
    &service::SLA_BREACHED,
    &service::SLA_UPDATED,
];

#[derive(Clone, Debug)]
pub struct Tickets {
    service: Arc<service::Service>,
    store: Store,
    clocks: Clocks,
    exports: Streams,
}

impl Tickets {
    pub fn new(store: Store, clocks: Clocks, settings: &config::Tickets, limits: &config::Limits) -> Self {
        let service = Arc::new(service::Service::new(settings));
        let exports = Streams::new("exports", limits, &store);
        Self { service, store, clocks, exports }
    }

    pub fn api(&self) -> impl OpenApi + use<> {
        let (service, store) = (&self.service, &self.store);
        (
            api::TicketsApi::new(service.clone(), store.clone(), self.exports.clone()),
            api::TicketApi::new(service.clone(), store.clone()),
            api::NotesApi { service: service.clone(), store: store.clone() },
            api::HistoryApi { store: store.clone() },
            api::PortalApi { service: service.clone(), store: store.clone() },
            api::SlaApi { service: service.clone(), store: store.clone() },
        )
    }

    pub fn spawn(&self, tasks: &mut Tasks) {
        tasks.spawn(upkeep::TicketTimers::new(self.store.clone(), self.clocks.clone(), self.service.clone()));
    }

    /// The workflow steps that tickets provide.
    pub fn steps(&self) -> Vec<StepEntry> {
        vec![
            StepEntry::local(steps::CreateTicket(self.clone())),
            StepEntry::local(steps::UpdateTicket(self.clone())),
            StepEntry::local(steps::CommentOnTicket(self.clone())),
        ]
    }

    /// The ticket records of a tenant that move to another installation.
    pub fn portable() -> Result<Vec<Box<dyn Portable>>, String> {
        Ok(repo::portable(api::shapes()?))
    }

    pub fn tables() -> Vec<&'static dyn Checked> {
        vec![&repo::TICKETS, &repo::NUMBERS, &repo::COUNTS, &repo::COMMENTS, &repo::TIME_ENTRIES, &repo::HISTORY, &repo::POLICIES]
    }
}

/// Makes children that were stored before lists could filter by parent findable.
pub fn index_children(tx: &mut WriteTx) -> Result<Progress, StoreError> {
    repo::index_children(tx)
}

/// The number of unfinished tickets of the tenant by status. Omits statuses without tickets.
pub fn backlog(tx: &impl Read, tenant: TenantId) -> Result<Vec<(Status, u64)>, StoreError> {
    repo::backlog(tx, tenant)
}

/// The number of the tenant's newest ticket, or 0 if it has none.
pub fn newest_number(tx: &impl Read, tenant: TenantId) -> Result<u64, StoreError> {
    repo::newest_number(tx, tenant)
}

/// A ticket of the tenant.
pub fn ticket(tx: &impl Read, tenant: TenantId, id: TicketId) -> Result<Option<Ticket>, StoreError> {
    repo::find(tx, tenant, TicketRef::Id(id))
}

/// The id of the ticket with this reference, such as `T-1042`.
pub fn id_by_name(tx: &impl Read, tenant: TenantId, name: &str) -> Result<Option<TicketId>, StoreError> {
    let Ok(wanted) = name.parse() else { return Ok(None) };
    Ok(repo::find(tx, tenant, wanted)?.map(|ticket| ticket.id))
}

/// Tickets of all tenants that follow `after`, ordered by tenant and number.
pub fn tickets_after(tx: &impl Read, after: Option<(TenantId, u64)>, limit: usize) -> Result<Vec<Ticket>, StoreError> {
    repo::list_after(tx, after, limit)
}

/// The texts of the first comments on a ticket.
pub fn comment_texts(tx: &impl Read, ticket: &Ticket, limit: usize) -> Result<Vec<String>, StoreError> {
    let (comments, _) = repo::comments(tx, (ticket.tenant_id, ticket.number), None, limit, Direction::Forward)?;
    Ok(comments.into_iter().map(|comment| comment.body).collect())
}

/// The use cases, for callers that combine them with their own.
impl Tickets {
    pub fn create(&self, tx: &mut WriteTx, act: &mut Act, new: &NewTicket) -> Result<Ticket, TicketError> {
        let plan = self.service.plan_create(tx, act, new)?;
        Ok(self.service.commit(tx, act, plan)?.ticket)
    }

    pub fn change(&self, tx: &mut WriteTx, act: &mut Act, ticket: TicketRef, change: &TicketChange) -> Result<Ticket, TicketError> {
        let before = service::target(tx, act, ticket, None)?;
        let plan = self.service.plan_change(tx, act, before, change)?;
        Ok(self.service.commit(tx, act, plan)?.ticket)
    }

    pub fn comment(&self, tx: &mut WriteTx, act: &mut Act, ticket: TicketRef, new: &NewComment) -> Result<Ticket, TicketError> {
        let before = service::target(tx, act, ticket, None)?;
        let plan = self.service.plan_comment(tx, act, before, new)?;
        Ok(self.service.commit(tx, act, plan)?.ticket)
    }

    pub fn log_time(&self, tx: &mut WriteTx, act: &mut Act, ticket: TicketRef, new: &NewTimeEntry) -> Result<Ticket, TicketError> {
        let before = service::target(tx, act, ticket, None)?;
        let plan = service::plan_time_entry(act, before, new);
        Ok(self.service.commit(tx, act, plan)?.ticket)
    }

    /// Performs all timer actions that are due by now, each at its own time, the earliest first.
    pub fn run_due_timers(&self, tx: &mut WriteTx, act: &mut Act) -> Result<(), TicketError> {
        upkeep::run_due_timers(&self.service, tx, act)
    }
}
