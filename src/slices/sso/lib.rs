//! Single sign-on: the tenants' identity providers, and signing in through them with OpenID Connect.
//!
//! **Boundary:** `auth` owns sessions, passwords and the events of signing in; the directory owns the users. This slice identifies
//! a user and passes the user to `auth`. Only `transport.rs` sends HTTP requests to providers.

mod api;
mod discovery;
mod enforcement;
mod error;
mod exchange;
mod flow;
mod groups;
mod logout;
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

use tenantd_auth::{Auth, PasswordAccess};
use tenantd_base::{
    clock::Clock,
    id::{IdentityProviderId, TenantId},
    secrets::Sealer,
};
use tenantd_directory::{Directory, User};
use tenantd_egress::Egress;
use tenantd_http::pages::Notice;
use tenantd_platform::Tenants;
use tenantd_store::{
    Checked, Read, ReadTx, SealedTable, Store, StoreError, WriteTx, events::EventKind, portable::Portable, tasks::Tasks,
};

pub use error::SsoError;

pub const EVENTS: &[&EventKind] =
    &[&service::CREATED, &service::UPDATED, &service::DOMAIN_PROVEN, &service::DOMAIN_APPROVED, &service::DELETED];

/// How a member of staff can sign in without a provider.
pub fn password_access<R: Read>(tx: &R, user: &User) -> Result<PasswordAccess, StoreError> {
    enforcement::password_access(tx, user)
}

/// Whether any provider of the tenant enforces single sign-on.
pub fn is_enforced(tx: &WriteTx, tenant: TenantId) -> Result<bool, StoreError> {
    enforcement::is_enforced(tx, tenant)
}

/// Whether a member of staff is linked to a provider that they can sign in through now.
pub fn has_link(tx: &WriteTx, user: &User) -> Result<bool, StoreError> {
    enforcement::has_link(tx, user)
}

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
            users: auth.users.clone(),
            directory,
            discovery: discovery::Discovery::new(),
            tickets: ticket::Tickets { sealer: sealer.clone() },
        };
        Self {
            service: service::Service { sealer, users: auth.users },
            sign_on,
            lookups: lookups::Lookups::default(),
            store,
            clock,
        }
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
        let sign_off = api::SignOffApi { sign_on: self.sign_on.clone(), clock: self.clock.clone() };
        (api::ProvidersApi(state.clone()), api::ProviderApi(state.clone()), api::TrialApi(state), sign_on, sign_off)
    }

    /// The API that only the admin socket serves.
    pub fn admin_api(&self, tenants: Tenants) -> impl OpenApi + use<> {
        let domains = api::AdminDomainsApi { service: self.service.clone(), store: self.store.clone(), tenants: tenants.clone() };
        (domains, api::AdminRelaxApi { store: self.store.clone(), tenants })
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
