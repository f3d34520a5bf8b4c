//! The installation and its tenants: created, suspended and resumed by the operator, and the feed of a tenant's events.
//!
//! A tenant's own content is never read here. **Boundary:** `auth` asks [`Tenants`] whether a tenant may act.

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
pub use evaluation::{Access, Admission, Evaluation, Story, Storyteller, Telling};
pub use model::{NewTenant, Tenant, TenantStatus};
pub use reload::{Reload, ReloadRequests, Reloaded};
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

/// The slice, ready to be put together with the others.
#[derive(Clone, Debug)]
pub struct Platform {
    pub tenants: Tenants,
    store: Store,
    clocks: Clocks,
    document: Arc<OnceLock<Arc<Value>>>,
    storyteller: Arc<OnceLock<Arc<dyn Storyteller>>>,
    reload: Reload,
    keys: KeyRotation,
}

impl Platform {
    pub fn new(store: Store, clocks: Clocks, reload: Reload, limits: &config::Limits, rotation: Rotation) -> Self {
        let tenants = Tenants::new(store.clone(), clocks.clone(), limits.evaluation_events);
        let keys = KeyRotation::new(rotation);
        Self { tenants, store, clocks, document: Arc::default(), storyteller: Arc::default(), reload, keys }
    }

    /// Hands in whoever fills evaluation tenants, once all that they can hold is there.
    pub fn set_storyteller(&self, storyteller: Arc<dyn Storyteller>) {
        // A second one would be a mistake of the composition root; the first one stays.
        drop(self.storyteller.set(storyteller));
    }

    /// Makes what a visitor of a new evaluation tenant gets in with.
    pub async fn admit(&self, slug: &str, now: Timestamp) -> Result<(Access, Admission), TenantError> {
        admit(&self.storyteller, slug, now).await
    }

    /// Hands in the published document once it is made.
    pub fn set_document(&self, document: Arc<Value>) {
        // A second document would be a mistake of the composition root; the first one stays.
        drop(self.document.set(document));
    }

    pub fn api(&self, kinds: &Kinds) -> impl OpenApi + use<> {
        let events = api::EventsApi {
            store: self.store.clone(),
            clock: self.clocks.installation().clone(),
            kinds: Arc::new(kinds.clone()),
            document: self.document.clone(),
        };
        let evaluations = api::EvaluationsApi { tenants: self.tenants.clone(), storyteller: self.storyteller.clone() };
        (api::TenantsApi { tenants: self.tenants.clone(), store: self.store.clone() }, evaluations, events)
    }

    /// The schemas of an event of these kinds.
    pub fn event_schemas(kinds: &Kinds) -> Map<String, Value> {
        api::event_schemas(kinds)
    }

    /// The schema of `data` of a kind, as the published document has it.
    pub fn event_data_schema(kinds: &Kinds, kind: &EventKind) -> Value {
        api::data_schema(kinds, kind, "")
    }

    /// The name of the schema of what a delivered event has around its `type` and its `data`.
    pub const EVENT_ENVELOPE: &'static str = api::ENVELOPE;

    /// What only the admin socket serves. `checked` are the tables of all slices.
    pub fn admin_api(&self, checked: Vec<&'static dyn Checked>) -> impl OpenApi + use<> {
        let (store, reload) = (self.store.clone(), self.reload.clone());
        let support = api::SupportApi { store: store.clone() };
        (api::MaintenanceApi { store, checked, reload }, api::KeyRotationApi { keys: self.keys.clone() }, support)
    }

    pub const CONSUMERS: &'static [&'static str] = &[activity::NAME];

    /// `rows` is everything that tenants have anywhere, but for what [`Self::own_tables`] names.
    pub fn spawn(&self, tasks: &mut Tasks, rows: Vec<&'static dyn TenantRows>) {
        tasks.spawn(ConsumerTask::new(self.store.clone(), activity::ActivityCounter));
        tasks.spawn(self.keys.clone());
        tasks.spawn(clock_keeper::ClockKeeper::new(self.store.clone(), self.tenants.clone()));
        tasks.spawn(lifecycle::Lifecycle {
            store: self.store.clone(),
            clock: self.clocks.installation().clone(),
            tenants: self.tenants.clone(),
            rows: rows.into(),
            storyteller: self.storyteller.clone(),
            seen: AtomicU64::default(),
        });
    }

    /// A tenant's own record, which goes along to another installation behind all that it has.
    pub fn portable() -> Result<Vec<Box<dyn Portable>>, String> {
        let fields = api::tenant_fields()?;
        Ok(vec![repo::portable::activity(), repo::portable::tenant(move |record| fields.check(record))])
    }

    pub fn tables() -> Vec<&'static dyn Checked> {
        vec![&repo::TENANTS, &repo::ERRANDS, &repo::EVALUATIONS, &activity::ACTIVITY]
    }

    /// What is said of a tenant as a whole: it goes at the end of its removal, and by that alone.
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
    storyteller: &OnceLock<Arc<dyn Storyteller>>,
    slug: &str,
    now: Timestamp,
) -> Result<(Access, Admission), TenantError> {
    let unready = || TenantError::Filling("the server is still starting".to_owned());
    storyteller.get().ok_or_else(unready)?.admit(slug.to_owned(), now).await
}
