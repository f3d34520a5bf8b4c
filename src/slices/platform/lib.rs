//! The installation and its tenants: the operator creates, suspends and resumes tenants. Also serves the event feed of a tenant.
//!
//! This slice never reads a tenant's content. **Boundary:** `auth` asks [`Tenants`] whether a tenant may act.

mod activity;
mod api;
mod clock_keeper;
mod error;
mod evaluation;
mod lifecycle;
mod model;
mod reload;
mod repo;
mod rotation;
mod service;

use std::sync::{Arc, OnceLock, atomic::AtomicU64};

use poem_openapi::OpenApi;
use serde_json::{Map, Value};

use tenantd_base::{clock::Timestamp, clocks::Clocks, config};
use tenantd_store::{
    Checked, Rotation, Store, TenantRows,
    catalog::{self, TableName},
    events::{ConsumerTask, EventKind, Kinds},
    portable::Portable,
    tasks::Tasks,
};

pub use activity::TenantActivity;
pub use error::TenantError;
pub use evaluation::{Evaluation, GeneratorFuture, SampleGenerator, SampleSpec, StoredCredentials, VisitorCredentials};
pub use model::{NewTenant, Tenant, TenantStatus};
pub use reload::{Reload, ReloadReply, ReloadRequests};
pub use repo::{index_expiries, tenant_ids};
pub use service::{Tenants, platform_tenant};

use rotation::KeyRotation;

pub const EVENTS: &[&EventKind] = &[
    &service::CREATED,
    &service::SUSPENDED,
    &service::RESUMED,
    &service::CLOCK_ADVANCED,
    &service::EMPTIED,
    &service::READY,
    &service::EXPIRED,
    &service::DELETION_STARTED,
    &service::DELETED,
];

/// The platform slice, for the composition root.
#[derive(Clone, Debug)]
pub struct Platform {
    pub tenants: Tenants,
    store: Store,
    clocks: Clocks,
    document: Arc<OnceLock<Arc<Value>>>,
    generator: Arc<OnceLock<Arc<dyn SampleGenerator>>>,
    reload: Reload,
    keys: KeyRotation,
}

impl Platform {
    pub fn new(store: Store, clocks: Clocks, reload: Reload, limits: &config::Limits, rotation: Rotation) -> Self {
        let tenants = Tenants::new(store.clone(), clocks.clone(), limits.evaluation_events);
        let keys = KeyRotation::new(rotation);
        Self { tenants, store, clocks, document: Arc::default(), generator: Arc::default(), reload, keys }
    }

    /// Sets the generator of sample data, once all slices exist.
    pub fn set_sample_generator(&self, generator: Arc<dyn SampleGenerator>) {
        // Only a mistake in the composition root could set it twice. The first one stays.
        drop(self.generator.set(generator));
    }

    /// Generates the credentials of the visitor of a new evaluation tenant.
    pub async fn admit(&self, slug: &str, now: Timestamp) -> Result<(VisitorCredentials, StoredCredentials), TenantError> {
        admit(&self.generator, slug, now).await
    }

    /// Sets the OpenAPI document once it is built.
    pub fn set_document(&self, document: Arc<Value>) {
        // Only a mistake in the composition root could set it twice. The first one stays.
        drop(self.document.set(document));
    }

    pub fn api(&self, kinds: &Kinds) -> impl OpenApi + use<> {
        let events = api::EventsApi {
            store: self.store.clone(),
            clock: self.clocks.installation().clone(),
            kinds: Arc::new(kinds.clone()),
            document: self.document.clone(),
            catalog: OnceLock::new(),
        };
        let evaluations = api::EvaluationsApi { tenants: self.tenants.clone(), generator: self.generator.clone() };
        (api::TenantsApi { tenants: self.tenants.clone(), store: self.store.clone() }, evaluations, events)
    }

    /// The schemas of an event, for these kinds.
    pub fn event_schemas(kinds: &Kinds) -> Map<String, Value> {
        api::event_schemas(kinds)
    }

    /// The schema of `data` for a kind, as in the OpenAPI document.
    pub fn event_data_schema(kinds: &Kinds, kind: &EventKind) -> Value {
        api::data_schema(kinds, kind, "")
    }

    /// The schema name of the envelope: everything in a delivered event except its `type` and `data`.
    pub const EVENT_ENVELOPE: &'static str = api::ENVELOPE;

    /// The operations that only the admin socket serves. `checked` are the tables of all slices.
    pub fn admin_api(&self, checked: Vec<&'static dyn Checked>) -> impl OpenApi + use<> {
        let (store, reload) = (self.store.clone(), self.reload.clone());
        let support = api::SupportApi { store: store.clone() };
        (api::MaintenanceApi { store, checked, reload }, api::KeyRotationApi { keys: self.keys.clone() }, support)
    }

    pub const CONSUMERS: &'static [&'static str] = &[activity::NAME];

    /// `rows` are the rows of tenants in all tables except [`Self::own_tables`].
    pub fn spawn(&self, tasks: &mut Tasks, rows: Vec<&'static dyn TenantRows>) {
        tasks.spawn(ConsumerTask::new(self.store.clone(), activity::ActivityCounter));
        tasks.spawn(self.keys.clone());
        tasks.spawn(clock_keeper::ClockKeeper::new(self.store.clone(), self.tenants.clone()));
        tasks.spawn(lifecycle::Lifecycle {
            store: self.store.clone(),
            clock: self.clocks.installation().clone(),
            tenants: self.tenants.clone(),
            rows: rows.into(),
            generator: self.generator.clone(),
            seen_version: AtomicU64::default(),
        });
    }

    /// The tenant's own record, which an export writes after all its data.
    pub fn portable() -> Result<Vec<Box<dyn Portable>>, String> {
        let fields = api::tenant_fields()?;
        Ok(vec![repo::portable::activity(), repo::portable::tenant(move |record| fields.check(record))])
    }

    pub fn tables() -> Vec<&'static dyn Checked> {
        vec![&repo::TENANTS, &repo::LIFECYCLE_JOBS, &repo::EVALUATIONS, &activity::ACTIVITY]
    }

    /// The tables about a tenant as a whole. The removal deletes their rows last.
    pub fn own_tables() -> [TableName; 6] {
        [
            catalog::TENANTS,
            catalog::TENANTS_BY_SLUG,
            catalog::TENANTS_BY_EXPIRY,
            catalog::TENANT_ERRANDS,
            catalog::EVALUATIONS,
            catalog::TENANT_QUOTAS,
        ]
    }
}

async fn admit(
    generator: &OnceLock<Arc<dyn SampleGenerator>>,
    slug: &str,
    now: Timestamp,
) -> Result<(VisitorCredentials, StoredCredentials), TenantError> {
    let unready = || TenantError::NotNow("The server is still starting. Retry in a moment.");
    generator.get().ok_or_else(unready)?.admit(slug.to_owned(), now).await
}
