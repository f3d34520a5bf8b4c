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

use tenantd_base::{
    access::TenantKind,
    authority::Authority,
    clock::Timestamp,
    clocks::Clocks,
    config,
    id::{ApiKeyId, TenantId},
};
use tenantd_platform::Tenants;
use tenantd_store::{
    Checked, Read, Store, StoreError, WriteTx, catalog,
    events::{Act, EventKind},
    holders::Holders,
    portable::Portable,
    tasks::{Alarm, Tasks},
};

pub use admission::{Admitted, ApiKeys};
pub use error::ApiKeyError;
pub use model::{ApiKey, KeptSecret, KeyRules, NewApiKey, Origin, Pause, PauseReason, Plaintext};
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

/// Whether the tenant has a key with this id, also one that was revoked.
pub fn exists(tx: &impl Read, tenant: TenantId, id: ApiKeyId) -> Result<bool, StoreError> {
    Ok(repo::get(tx, tenant, id)?.is_some())
}

#[derive(Clone, Debug)]
pub struct ApiKeySlice {
    pub keys: ApiKeys,
    service: service::Service,
    store: Store,
    clocks: Clocks,
}

impl ApiKeySlice {
    pub fn new(store: Store, clocks: Clocks, settings: &config::ApiKeys, upgrade: config::Upgrade) -> Self {
        let service = service::Service { rules: KeyRules::new(settings, upgrade) };
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

    /// Looks once at each key that an older release has stored, before any is used. How many lack an owner who covers them.
    pub async fn adopt(&self, tenants: &Tenants, holders: &Holders) -> Result<u64, StoreError> {
        const AT_ONCE: usize = 256;
        let mut found = self.store.read(repo::not_checked)?;
        let mut legacy = 0;
        for keys in found.chunks_mut(AT_ONCE) {
            for key in keys.iter_mut().filter(|key| key.origin == Origin::Unchecked) {
                let now = self.clocks.now(key.tenant_id);
                key.origin = self.store.read(|tx| owners::origin_of(tx, key, (tenants, holders), now))?;
                legacy += u64::from(key.origin != Origin::Checked);
            }
            // The grace may be another since the last start.
            let (rules, keys) = (self.service.rules, keys.to_vec());
            self.store.write(move |tx| keys.iter().try_for_each(|key| repo::put(tx, key, true, &rules))).await?;
        }
        Ok(legacy)
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
