//! Clouds: providers with sealed credentials, their VMs, and the creation of new VMs.
//!
//! **Boundary:** every call to a cloud goes through an adapter, and so through the kernel's egress.
//!
//! **Invariant:** a request waits for a cloud only in a verification and in a dry run. An order is stored before it is sent. It is
//! sent again only after the cloud was asked whether it has carried out the order.

mod adapters;
mod api;
mod dependents;
mod error;
mod evaluation;
mod fleet;
mod found;
mod model;
mod provision;
mod repo;
mod service;
mod steps;
mod sync;
mod worker;

use std::{sync::Arc, time::Duration};

use poem_openapi::OpenApi;

use tenantd_base::{
    access::TenantKind,
    clocks::Clocks,
    config,
    id::{CloudProviderId, TenantId},
    secrets::Sealer,
};
use tenantd_egress::{Audience, Egress};
use tenantd_platform::Tenants;
use tenantd_store::{Checked, SealedTable, Store, events::EventKind, portable::Portable, steps::StepEntry, tasks::Tasks};

pub use error::CloudError;
pub use found::{ProviderLabel, VmLabel, provider, providers_after, vm, vms_after, vms_by_state, vms_of};

use adapters::{Access, Adapter, Adapters, Client, ClientParts};
use fleet::Fleets;
use model::{Credential, ProviderConfig, ProviderKind};
use service::Service;
use worker::Worker;

pub const EVENTS: &[&EventKind] = &[
    &service::PROVIDER_CREATED,
    &service::PROVIDER_UPDATED,
    &service::PROVIDER_DELETED,
    &service::PROVIDER_VERIFIED,
    &service::PROVIDER_NOT_VERIFIED,
    &service::VM_PROVISIONING,
    &service::VM_CREATED,
    &service::VM_PROVISION_FAILED,
    &service::VM_STATE_CHANGED,
    &service::VM_UPDATED,
    &service::VM_REMOVED,
];

/// The state that handlers and background tasks share.
#[derive(Debug)]
struct Core {
    store: Store,
    clocks: Clocks,
    service: Service,
    egress: Egress,
    tenants: Tenants,
    adapters: Adapters,
    fleets: Fleets,
    default_interval_seconds: u32,
}

impl Core {
    fn audience(&self, tenant: TenantId) -> Audience {
        let tenant = self.tenants.cached(tenant).ok();
        let kind = tenant.as_ref().and_then(|tenant| tenant.as_ref().as_ref().map(|tenant| tenant.kind));
        Audience { allow_loopback: kind == Some(TenantKind::Evaluation) }
    }

    /// The adapter of a kind, and an access whose calls all end within `time`.
    fn access(
        &self,
        tenant_id: TenantId,
        provider_id: Option<CloudProviderId>,
        (kind, config, credential): (ProviderKind, ProviderConfig, Credential),
        time: Duration,
    ) -> (&dyn Adapter, Access) {
        let adapter = self.adapters.get(kind);
        let parts = ClientParts {
            egress: self.egress.clone(),
            clock: self.clocks.installation().clone(),
            audience: self.audience(tenant_id),
            ca_pem: config.ca_certificate_pem.as_deref().map(Arc::from),
            pinned_certificate: config.tls_fingerprint,
        };
        (adapter, Access { tenant_id, provider_id, config, credential, client: Client::new(parts, time) })
    }
}

#[derive(Clone, Debug)]
pub struct Clouds {
    core: Arc<Core>,
}

impl Clouds {
    pub fn new(store: Store, clocks: Clocks, settings: &config::Cloud, sealer: Sealer, egress: Egress, tenants: Tenants) -> Self {
        let service = Service { sealer, max_providers: settings.max_providers };
        Self {
            core: Arc::new(Core {
                adapters: Adapters::new(store.clone(), clocks.clone()),
                fleets: Fleets::new(),
                default_interval_seconds: settings.sync_interval_seconds,
                store,
                clocks,
                service,
                egress,
                tenants,
            }),
        }
    }

    pub fn api(&self) -> impl OpenApi + use<> {
        let core = || self.core.clone();
        (
            api::ProvidersApi { core: core() },
            api::ProviderApi { core: core() },
            api::VmsApi { core: core() },
            api::OperationsApi { core: core() },
        )
    }

    pub fn spawn(&self, tasks: &mut Tasks) {
        let (core, store, clocks) = (&self.core, &self.core.store, &self.core.clocks);
        tasks.spawn(Worker::new(sync::Syncs(core.clone()), store.clone(), clocks.clone()));
        tasks.spawn(Worker::new(provision::Provisions(core.clone()), store.clone(), clocks.clone()));
    }

    /// The workflow steps of this slice.
    pub fn steps(&self) -> Vec<StepEntry> {
        let core = || self.core.clone();
        vec![
            StepEntry::local(steps::ProvisionVm(core())),
            StepEntry::remote(steps::VerifyProvider(core())),
            StepEntry::remote(steps::WaitForVm(core())),
        ]
    }

    /// The records that move with a tenant to another installation. Operations that have not ended stay where they are.
    pub fn portable(&self) -> Result<Vec<Box<dyn Portable>>, String> {
        let core = &self.core;
        Ok(repo::portable::portable(api::import_rules(core.service.max_providers as u64, core.egress.clone())?))
    }

    pub fn tables() -> Vec<&'static dyn Checked> {
        vec![
            &repo::providers::PROVIDERS,
            &repo::providers::SYNCS,
            &repo::vms::VMS,
            &repo::operations::OPERATIONS,
            &adapters::SIMULATED_VMS,
        ]
    }

    /// The tables with secrets that are sealed under the installation key.
    pub fn sealed_tables() -> Vec<&'static dyn SealedTable> {
        vec![&repo::providers::PROVIDERS, &repo::operations::OPERATIONS]
    }
}
