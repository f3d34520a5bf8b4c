//! Tenant API keys: created with scopes and an end, shown once, rotated with an overlap, revoked at once.
//!
//! The plaintext exists in the answer to a creation or rotation and nowhere else: the store has its SHA-256 only. **Boundary:**
//! `auth` asks [`ApiKeys::admit`] who presents a key.

mod admission;
mod api;
mod error;
mod listing;
mod model;
mod repo;
mod service;
mod upkeep;

use poem_openapi::OpenApi;

use crate::{
    kernel::{
        access::{Grants, TenantKind},
        clock::Clock,
        config,
        events::{Act, EventKind},
        portable::{Carrier, Portable},
        store::{Checked, Store, WriteTx},
        tasks::Tasks,
    },
    slices::platform::Tenants,
};

pub use admission::{Admitted, ApiKeys};
pub use error::ApiKeyError;
pub use model::{ApiKey, KeyRules, NewApiKey, Plaintext};

pub const EVENTS: &[&EventKind] =
    &[&service::CREATED, &service::UPDATED, &service::ROTATED, &service::REVOKED, &service::EXPIRING, &service::EXPIRED];

#[derive(Clone, Debug)]
pub struct ApiKeySlice {
    pub keys: ApiKeys,
    service: service::Service,
    store: Store,
    clock: Clock,
}

impl ApiKeySlice {
    pub fn new(store: Store, clock: Clock, settings: &config::ApiKeys) -> Self {
        let service = service::Service { rules: KeyRules::new(settings), describe: api::describe };
        Self { keys: ApiKeys::new(store.clone()), service, store, clock }
    }

    pub fn api(&self) -> impl OpenApi + use<> {
        let keys = api::KeysApi::new(self.service, self.store.clone());
        let key = api::KeyApi::new(self.service, self.store.clone());
        (keys, key)
    }

    /// What only the admin socket serves.
    pub fn admin_api(&self, tenants: Tenants) -> impl OpenApi + use<> {
        api::AdminKeysApi { service: self.service, store: self.store.clone(), tenants }
    }

    /// Creates a key in the caller's transaction, for `act.tenant_id`. `held` is what the giver may give.
    pub fn create(
        &self,
        tx: &mut WriteTx,
        act: &mut Act,
        held: Grants,
        tenant_kind: TenantKind,
        new: &NewApiKey,
    ) -> Result<(ApiKey, Plaintext), ApiKeyError> {
        self.service.create(tx, act, service::Giver { grants: held, tenant_kind }, new)
    }

    pub fn spawn(&self, tasks: &mut Tasks) {
        tasks.spawn(upkeep::UsageWriter { store: self.store.clone(), keys: self.keys.clone() });
        tasks.spawn(upkeep::KeyCalendar { store: self.store.clone(), clock: self.clock.clone(), service: self.service });
    }

    /// What of a tenant's keys goes along to another installation. Digests are all that there is of a key, so it works there too.
    pub fn portable() -> Vec<Box<dyn Portable>> {
        vec![Carrier::plain("api_key", &repo::KEYS), Carrier::plain("api_key_count", &repo::COUNTS)]
    }

    pub fn tables() -> Vec<&'static dyn Checked> {
        vec![&repo::KEYS, &repo::COUNTS]
    }
}
