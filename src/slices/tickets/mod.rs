//! Tickets and what is promised for them: created by people, keys and alerts, moved through their states, commented on, closed by time.
//!
//! **Boundary:** organizations, people and devices are the directory's; a ticket holds their ids and looks up their names when it is
//! shown. **Invariant:** the state of a ticket's promises is stored and changes by its own timers, so that it can be filtered by and is
//! never out of date.

mod api;
mod error;
mod labels;
mod listing;
mod model;
mod repo;
mod service;
mod sla;
mod upkeep;

use std::sync::Arc;

use poem_openapi::OpenApi;

use crate::kernel::{
    clock::Clock,
    config,
    events::EventKind,
    store::{Checked, Store},
    tasks::Tasks,
};

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
    clock: Clock,
}

impl Tickets {
    pub fn new(store: Store, clock: Clock, settings: &config::Tickets) -> Self {
        Self { service: Arc::new(service::Service::new(settings, api::DESCRIBE)), store, clock }
    }

    pub fn api(&self) -> impl OpenApi + use<> {
        let (service, store) = (&self.service, &self.store);
        (
            api::TicketsApi { service: service.clone(), store: store.clone() },
            api::TicketApi { service: service.clone(), store: store.clone() },
            api::NotesApi { service: service.clone(), store: store.clone() },
            api::HistoryApi { store: store.clone() },
            api::SlaApi { service: service.clone(), store: store.clone() },
        )
    }

    pub fn spawn(&self, tasks: &mut Tasks) {
        tasks.spawn(upkeep::TicketTimers::new(self.store.clone(), self.clock.clone(), self.service.clone()));
    }

    pub fn tables() -> Vec<&'static dyn Checked> {
        vec![&repo::TICKETS, &repo::NUMBERS, &repo::COUNTS, &repo::COMMENTS, &repo::TIME_ENTRIES, &repo::HISTORY, &repo::POLICIES]
    }
}
