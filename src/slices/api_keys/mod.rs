//! Tenant API keys: created with scopes and an end, shown once, rotated with an overlap, revoked at once.
//!
//! The plaintext exists in the answer to a creation or rotation and nowhere else: the store has its SHA-256 only. **Boundary:**
//! `auth` asks [`ApiKeys::admit`] who presents a key.

mod admission;
mod api;
mod error;
mod listing;
mod model;
mod owners;
mod repo;
mod service;
mod upkeep;

use poem_openapi::OpenApi;

use crate::{
    kernel::{
        access::TenantKind,
        authority::Authority,
        clock::Timestamp,
        clocks::Clocks,
        config,
        events::{Act, EventKind},
        id::{ApiKeyId, TenantId},
        portable::Portable,
        store::{Checked, Read, Store, StoreError, WriteTx, catalog},
        tasks::{Alarm, Tasks},
    },
    slices::platform::Tenants,
};

pub use admission::{Admitted, ApiKeys};
pub use error::ApiKeyError;
pub use model::{ApiKey, KeptSecret, KeyRules, NewApiKey, Pause, PauseReason, Plaintext};
pub use owners::{KeyOwners, person_behind};
pub use repo::index_owners;

pub const EVENTS: &[&EventKind] = &[
    &service::CREATED,
    &service::UPDATED,
    &service::ROTATED,
    &service::PAUSED,
    &service::REVOKED,
    &service::EXPIRING,
    &service::EXPIRED,
];

/// What a key may do now; `None` once it is gone, has ended or is disabled.
pub fn authority_of(
    tx: &impl Read,
    tenant: TenantId,
    id: ApiKeyId,
    tenant_kind: TenantKind,
    now: Timestamp,
) -> Result<Option<Authority>, StoreError> {
    let works = |key: &ApiKey| key.is_live() && key.enabled && now < key.expires_at;
    Ok(repo::get(tx, tenant, id)?.filter(works).map(|key| key.authority(tenant_kind)))
}

#[derive(Clone, Debug)]
pub struct ApiKeySlice {
    pub keys: ApiKeys,
    service: service::Service,
    store: Store,
    clocks: Clocks,
}

impl ApiKeySlice {
    pub fn new(store: Store, clocks: Clocks, settings: &config::ApiKeys) -> Self {
        let service = service::Service { rules: KeyRules::new(settings), describe: api::describe };
        Self { keys: ApiKeys::new(store.clone()), service, store, clocks }
    }

    pub fn owners(&self) -> KeyOwners {
        KeyOwners { service: self.service }
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

    /// Creates a key in the caller's transaction, for `act.tenant_id`, with whatever it asks for.
    pub fn create(
        &self,
        tx: &mut WriteTx,
        act: &mut Act,
        tenant_kind: TenantKind,
        new: &NewApiKey,
    ) -> Result<(ApiKey, Plaintext), ApiKeyError> {
        self.service.create(tx, act, &service::Giver { authority: Authority::everything(act.tenant_id), tenant_kind }, new)
    }

    /// Creates the key that a visitor of an evaluation tenant has been handed, with everything that a tenant can give, for as long as the
    /// operator allows.
    pub fn create_for_visitor(
        &self,
        tx: &mut WriteTx,
        act: &mut Act,
        new: &NewApiKey,
        secret: KeptSecret,
    ) -> Result<ApiKey, ApiKeyError> {
        let giver = service::Giver { authority: Authority::everything(act.tenant_id), tenant_kind: TenantKind::Evaluation };
        let new = NewApiKey { expires_days: Some(self.service.rules.max_days), ..new.clone() };
        self.service.create_with(tx, act, &giver, &new, secret)
    }

    pub fn spawn(&self, tasks: &mut Tasks) {
        tasks.spawn(upkeep::UsageWriter { store: self.store.clone(), keys: self.keys.clone() });
        let alarm = Alarm::new(self.store.clone(), self.clocks.clone(), &[catalog::API_KEYS_BY_DUE]);
        tasks.spawn(upkeep::KeyCalendar { store: self.store.clone(), alarm, service: self.service });
    }

    /// What of a tenant's keys goes along to another installation. Digests are all that there is of a key, so it works there too.
    pub fn portable(&self) -> Result<Vec<Box<dyn Portable>>, String> {
        let fields = api::key_fields()?;
        Ok(repo::portable::portable(self.service.rules, move |record| fields.check(record)))
    }

    pub fn tables() -> Vec<&'static dyn Checked> {
        vec![&repo::KEYS, &repo::COUNTS]
    }
}
