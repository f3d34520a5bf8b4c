//! Shows how much of their quotas tenants use, to the tenant and to the operator, who can set limits per tenant. An event warns a
//! tenant that is close to a limit.
//!
//! **Boundary:** the store counts and refuses ([`tenantd_store::usage`]). This slice reads and reports.

mod api;
mod model;
mod repo;
mod service;
mod watch;

use poem_openapi::OpenApi;

use tenantd_base::{clock::Timestamp, clocks::Clocks, id::TenantId};
use tenantd_platform::Tenants;
use tenantd_store::{
    Checked, ReadTx, Store, StoreError,
    events::{ConsumerTask, EventKind},
    tasks::Tasks,
};

pub use model::Standing;
pub use service::QuotaError;

use service::Service;

pub const EVENTS: &[&EventKind] = &[&service::WARNING, &service::REACHED, &service::CHANGED];

#[derive(Clone, Debug)]
pub struct TenantQuotas {
    store: Store,
    clocks: Clocks,
    service: Service,
}

impl TenantQuotas {
    pub fn new(store: Store, clocks: Clocks, tenants: Tenants) -> Self {
        let service = Service { tenants, defaults: store.default_quotas() };
        Self { store, clocks, service }
    }

    pub fn api(&self) -> impl OpenApi + use<> {
        let (store, service) = (self.store.clone(), self.service.clone());
        (
            api::QuotasApi { store: store.clone(), service: service.clone() },
            api::TenantQuotasApi { store, service, clocks: self.clocks.clone() },
        )
    }

    pub fn spawn(&self, tasks: &mut Tasks) {
        let watch = watch::QuotaWatch { clocks: self.clocks.clone(), service: self.service.clone() };
        tasks.spawn(ConsumerTask::new(self.store.clone(), watch));
    }

    /// Returns the current use and the limit of each quota of a tenant.
    pub fn standings(&self, tx: &ReadTx, tenant: TenantId, now: Timestamp) -> Result<Vec<Standing>, StoreError> {
        self.service.standings(tx, tenant, now)
    }

    /// The log consumers of this slice.
    pub const CONSUMERS: &'static [&'static str] = &[watch::NAME];

    pub fn tables() -> Vec<&'static dyn Checked> {
        vec![&repo::WARNINGS]
    }
}
