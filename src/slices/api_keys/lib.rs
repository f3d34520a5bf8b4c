//! API keys of tenants. A key has scopes and an expiry, is shown once, rotates with an overlap, and is revoked immediately.
//!
//! The plaintext exists only in the response to a creation or rotation; the store contains its SHA-256 only. **Boundary:** `auth`
//! calls [`ApiKeys::admit`] to authenticate a presented key.

mod admission;
mod api;
mod error;
mod listing;
mod model;
mod owners;
mod personal;
mod repo;
mod secret_holders;
mod service;
mod upkeep;

use poem_openapi::OpenApi;

use tenantd_base::{
    access::TenantKind,
    authority::Authority,
    clocks::Clocks,
    config,
    id::{ApiKeyId, TenantId},
};
use tenantd_platform::Tenants;
use tenantd_store::{
    Checked, Flow, Read, Store, StoreError, WriteTx, catalog,
    events::{Act, EventKind},
    holders::Holders,
    portable::Portable,
    tasks::{Alarm, Tasks},
};

pub use admission::{Admitted, ApiKeys};
pub use error::ApiKeyError;
pub use model::{ApiKey, KeyBlock, KeyRules, NewApiKey, Origin, Pause, PauseReason, Plaintext, StoredSecret, scope_faults};
pub use owners::{KeyOwners, person_behind, rights_now};
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

/// Returns a key of the tenant, also one that has ended. What it may do now depends on [`ApiKey::block`], and on its person if it is
/// personal.
pub fn find(tx: &impl Read, tenant: TenantId, id: ApiKeyId) -> Result<Option<ApiKey>, StoreError> {
    repo::get(tx, tenant, id)
}

/// Visits the keys of a tenant after a position, which is the id of a key as bytes, in the order of their creation.
pub fn scan(
    tx: &impl Read,
    tenant: TenantId,
    after: Option<&[u8]>,
    visit: impl FnMut(ApiKey) -> Result<Flow, StoreError>,
) -> Result<(), StoreError> {
    repo::scan(tx, tenant, after, visit)
}

/// Whether the people of a tenant may have personal keys.
pub type PersonalAllowed = fn(&WriteTx, TenantId) -> Result<bool, StoreError>;

/// Whether the tenant has a key with this id. Includes revoked keys.
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
    pub fn new(
        store: Store,
        clocks: Clocks,
        settings: &config::ApiKeys,
        upgrade: config::Upgrade,
        personal_allowed: PersonalAllowed,
    ) -> Self {
        let service = service::Service { rules: KeyRules::new(settings, upgrade), personal_allowed };
        Self { keys: ApiKeys::new(store.clone()), service, store, clocks }
    }

    pub fn owners(&self) -> KeyOwners {
        KeyOwners { service: self.service }
    }

    pub fn api(&self) -> impl OpenApi + use<> {
        let keys = api::KeysApi::new(self.service, self.store.clone());
        let key = api::KeyApi::new(self.service, self.store.clone());
        let own = api::OwnKeysApi { service: self.service, store: self.store.clone() };
        (keys, key, own)
    }

    /// The operations that only the admin socket serves.
    pub fn admin_api(&self, tenants: Tenants) -> impl OpenApi + use<> {
        api::AdminKeysApi { service: self.service, store: self.store.clone(), tenants }
    }

    /// Creates the key that was handed to a visitor of the evaluation tenant `act.tenant_id`, in the caller's transaction. It can
    /// have every scope of a tenant, and lives for the maximum time that the operator allows.
    pub fn create_for_visitor(
        &self,
        tx: &mut WriteTx,
        act: &mut Act,
        new: &NewApiKey,
        secret: StoredSecret,
    ) -> Result<ApiKey, ApiKeyError> {
        let caller = service::Caller { authority: Authority::everything(act.tenant_id), tenant_kind: TenantKind::Evaluation };
        let new = NewApiKey { expires_days: Some(self.service.rules.max_days), ..new.clone() };
        self.service.create_with(tx, act, &caller, &new, secret)
    }

    pub fn spawn(&self, tasks: &mut Tasks) {
        tasks.spawn(upkeep::UsageWriter { store: self.store.clone(), keys: self.keys.clone() });
        let alarm = Alarm::new(self.store.clone(), self.clocks.clone(), &[catalog::API_KEYS_BY_DUE]);
        tasks.spawn(upkeep::KeyCalendar { store: self.store.clone(), alarm, service: self.service });
    }

    /// Checks each key that an older release stored, before any key is used. Returns the number of keys whose owner does not cover
    /// them.
    pub async fn adopt(&self, tenants: &Tenants, holders: &Holders) -> Result<u64, StoreError> {
        const AT_ONCE: usize = 256;
        let mut found = self.store.read(repo::list_unchecked)?;
        let mut legacy = 0;
        for keys in found.chunks_mut(AT_ONCE) {
            for key in keys.iter_mut().filter(|key| key.origin == Origin::Unchecked) {
                let now = self.clocks.now(key.tenant_id);
                key.origin = self.store.read(|tx| owners::origin_of(tx, key, (tenants, holders), now))?;
                legacy += u64::from(key.origin != Origin::Checked);
            }
            // The grace period may have changed since the last start.
            let (rules, keys) = (self.service.rules, keys.to_vec());
            self.store.write(move |tx| keys.iter().try_for_each(|key| repo::put(tx, key, true, &rules))).await?;
        }
        Ok(legacy)
    }

    /// The tables that move with a tenant to another installation. A moved key keeps working, because only its digest is stored.
    pub fn portable(&self) -> Result<Vec<Box<dyn Portable>>, String> {
        let fields = api::key_fields()?;
        Ok(repo::portable::portable(self.service.rules, move |record| fields.check(record)))
    }

    pub fn tables() -> Vec<&'static dyn Checked> {
        vec![&repo::KEYS, &repo::COUNTS]
    }
}
