//! Single sign-on: the tenants' identity providers, and signing in through them with OpenID Connect.
//!
//! **Boundary:** `auth` owns sessions, passwords and the events of signing in; the directory owns the users. This slice identifies
//! a user and passes the user to `auth`. Only `transport.rs` sends HTTP requests to providers.

mod api;
mod discovery;
mod error;
mod exchange;
mod flow;
mod lookups;
mod model;
mod repo;
mod service;
mod ticket;
mod token;
mod transport;
mod trial;
mod upkeep;

use poem_openapi::OpenApi;

use tenantd_auth::Auth;
use tenantd_base::{
    clock::Clock,
    id::{IdentityProviderId, TenantId},
    secrets::Sealer,
};
use tenantd_directory::Directory;
use tenantd_egress::Egress;
use tenantd_http::pages::Notice;
use tenantd_platform::Tenants;
use tenantd_store::{Checked, ReadTx, SealedTable, Store, StoreError, events::EventKind, portable::Portable, tasks::Tasks};

pub use error::SsoError;

pub const EVENTS: &[&EventKind] =
    &[&service::CREATED, &service::UPDATED, &service::DOMAIN_PROVEN, &service::DOMAIN_APPROVED, &service::DELETED];

/// Whether an identity provider exists and is enabled.
pub fn provider_is_on(tx: &ReadTx, tenant: TenantId, id: IdentityProviderId) -> Result<bool, StoreError> {
    Ok(repo::get(tx, (tenant, id))?.is_some_and(|provider| provider.enabled))
}

#[derive(Clone, Debug)]
pub struct SingleSignOn {
    service: service::Service,
    sign_on: flow::SignOn,
    lookups: lookups::Lookups,
    store: Store,
    clock: Clock,
}

impl SingleSignOn {
    pub fn new(
        store: Store,
        clock: Clock,
        sealer: Sealer,
        egress: Egress,
        tenants: Tenants,
        auth: Auth,
        directory: Directory,
    ) -> Self {
        let sign_on = flow::SignOn {
            store: store.clone(),
            sealer: sealer.clone(),
            egress,
            tenants,
            users: auth.users,
            directory,
            discovery: discovery::Discovery::new(),
            tickets: ticket::Tickets { sealer: sealer.clone() },
        };
        Self { service: service::Service { sealer }, sign_on, lookups: lookups::Lookups::default(), store, clock }
    }

    /// `notice` shows the outcome of a test sign-in.
    pub fn api(&self, notice: Notice) -> impl OpenApi + use<> {
        let state = api::ApiState {
            service: self.service.clone(),
            store: self.store.clone(),
            egress: self.sign_on.egress.clone(),
            lookups: self.lookups.clone(),
            sign_on: self.sign_on.clone(),
            clock: self.clock.clone(),
        };
        let sign_on = api::SignOnApi { sign_on: self.sign_on.clone(), clock: self.clock.clone(), notice };
        (api::ProvidersApi(state.clone()), api::ProviderApi(state.clone()), api::TrialApi(state), sign_on)
    }

    /// The API that only the admin socket serves.
    pub fn admin_api(&self, tenants: Tenants) -> impl OpenApi + use<> {
        api::AdminDomainsApi { store: self.store.clone(), tenants }
    }

    pub fn spawn(&self, tasks: &mut Tasks) {
        tasks.spawn(upkeep::SignOnUpkeep { store: self.store.clone(), clock: self.clock.clone() });
    }

    /// The records that move with a tenant to another installation.
    pub fn portable(&self) -> Result<Vec<Box<dyn Portable>>, String> {
        let fields = api::provider_fields()?;
        Ok(vec![repo::portable::providers(self.sign_on.egress.clone(), move |record| fields.check(record))])
    }

    pub fn tables() -> Vec<&'static dyn Checked> {
        vec![&repo::PROVIDERS, &repo::SPENT, &repo::history::HISTORY]
    }

    /// The tables with secrets that are sealed under the installation key.
    pub fn sealed_tables() -> Vec<&'static dyn SealedTable> {
        vec![&repo::PROVIDERS]
    }
}
