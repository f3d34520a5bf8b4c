//! The installation and its tenants: created, suspended and resumed by the operator, and the feed of a tenant's events.
//!
//! A tenant's own content is never read here. **Boundary:** `auth` asks [`Tenants`] whether a tenant may act.

mod activity;
mod api;
mod error;
mod model;
mod reload;
mod repo;
mod rotation;
mod service;

use std::sync::{Arc, OnceLock};

use poem_openapi::OpenApi;
use serde_json::{Map, Value};

use crate::kernel::{
    clock::Clock,
    events::{ConsumerTask, EventKind, Kinds},
    store::{Checked, Rotation, Store},
    tasks::Tasks,
};

pub use activity::TenantActivity;
pub use error::TenantError;
pub use model::{NewTenant, Tenant, TenantStatus};
pub use reload::{Reload, ReloadRequests, Reloaded};
pub use service::Tenants;

use rotation::KeyRotation;

pub const EVENTS: &[&EventKind] = &[&service::CREATED, &service::SUSPENDED, &service::RESUMED];

/// The slice, ready to be put together with the others.
#[derive(Clone, Debug)]
pub struct Platform {
    pub tenants: Tenants,
    store: Store,
    clock: Clock,
    document: Arc<OnceLock<Arc<Value>>>,
    reload: Reload,
    keys: KeyRotation,
}

impl Platform {
    pub fn new(store: Store, clock: Clock, reload: Reload, rotation: Rotation) -> Self {
        let (tenants, keys) = (Tenants::new(store.clone(), api::describe), KeyRotation::new(rotation));
        Self { tenants, store, clock, document: Arc::default(), reload, keys }
    }

    /// Hands in the published document once it is made.
    pub fn set_document(&self, document: Arc<Value>) {
        // A second document would be a mistake of the composition root; the first one stays.
        drop(self.document.set(document));
    }

    pub fn api(&self, kinds: &Kinds) -> impl OpenApi + use<> {
        let events = api::EventsApi {
            store: self.store.clone(),
            clock: self.clock.clone(),
            kinds: Arc::new(kinds.clone()),
            document: self.document.clone(),
        };
        (api::TenantsApi { tenants: self.tenants.clone(), store: self.store.clone() }, events)
    }

    /// The schemas of an event of these kinds.
    pub fn event_schemas(kinds: &Kinds) -> Map<String, Value> {
        api::event_schemas(kinds)
    }

    /// What only the admin socket serves. `checked` are the tables of all slices.
    pub fn admin_api(&self, checked: Vec<&'static dyn Checked>) -> impl OpenApi + use<> {
        let (store, reload, keys) = (self.store.clone(), self.reload.clone(), self.keys.clone());
        let support = api::SupportApi { store: store.clone() };
        (api::MaintenanceApi { store, checked, reload, keys }, api::KeyRotationApi { keys: self.keys.clone() }, support)
    }

    pub const CONSUMERS: &'static [&'static str] = &[activity::NAME];

    pub fn spawn(&self, tasks: &mut Tasks) {
        tasks.spawn(ConsumerTask::new(self.store.clone(), activity::ActivityCounter));
        tasks.spawn(self.keys.clone());
    }

    pub fn tables() -> Vec<&'static dyn Checked> {
        vec![&repo::TENANTS, &activity::ACTIVITY]
    }
}
