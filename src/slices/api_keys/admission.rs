//! Authenticates API keys. Lookups are cached until a key changes. Uses are counted in memory, and `upkeep` stores them at most
//! once a minute.

use std::{
    collections::HashMap,
    net::IpAddr,
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicI64, AtomicU64, Ordering},
    },
};

use tenantd_base::{
    access::{Grants, Identity, Principal, Reach, TenantKind},
    authority::{Authority, Within},
    clock::Timestamp,
    clocks::Reading,
    id::{TenantId, UserId},
    secrets::Secret,
};
use tenantd_http::credentials::AuthError;
use tenantd_store::{Store, StoreError, VersionedCache, catalog};

use super::{
    model::{ApiKey, KeyBlock, recognize},
    repo::{self, KeyKey},
};

const CACHED_KEYS: u64 = 50_000;

/// Uses of a key that are not stored yet.
#[derive(Debug, Default)]
struct UsageCounter {
    count: AtomicU64,
    last_at: AtomicI64,
    last_ip: Mutex<Option<IpAddr>>,
}

/// Uses of one key to store.
#[derive(Clone, Copy, Debug)]
pub(super) struct UsageDelta {
    pub(super) key: KeyKey,
    pub(super) count: u64,
    pub(super) last_at: Timestamp,
    pub(super) last_ip: Option<IpAddr>,
}

/// Which secret of a key was presented.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SecretAge {
    Current,
    /// The secret before the last rotation. It works until `end`.
    Previous {
        end: Timestamp,
    },
    /// A secret that no longer works.
    Retired,
}

impl SecretAge {
    fn of(key: &ApiKey, digest: &[u8; 32]) -> Self {
        match key.previous {
            _ if key.digest == *digest => Self::Current,
            Some((previous, end)) if previous == *digest => Self::Previous { end },
            _ => Self::Retired,
        }
    }
}

#[derive(Debug)]
struct CachedKey {
    key: ApiKey,
    secret: SecretAge,
    uses: Arc<UsageCounter>,
    /// The identity, built once the tenant is known.
    principal: OnceLock<Arc<Principal>>,
}

impl CachedKey {
    /// Returns when the presented secret stops working.
    fn ends_at(&self) -> Timestamp {
        match self.secret {
            SecretAge::Previous { end } => end.min(self.key.expires_at),
            SecretAge::Current | SecretAge::Retired => self.key.expires_at,
        }
    }

    /// Whether the presented secret was replaced while the key itself still works.
    fn is_superseded(&self, now: Timestamp) -> bool {
        match self.secret {
            SecretAge::Current => false,
            SecretAge::Previous { end } => now >= end && now < self.key.expires_at,
            SecretAge::Retired => true,
        }
    }
}

/// Authenticates requests with the API keys of the installation.
#[derive(Clone, Debug)]
pub struct ApiKeys {
    store: Store,
    /// By digest of the secret. The cache also depends on tenants, because the identity contains the tenant's name.
    known: Arc<VersionedCache<[u8; 32], Option<Arc<CachedKey>>, 2>>,
    uses: Arc<Mutex<HashMap<KeyKey, Arc<UsageCounter>>>>,
}

/// A key that is valid now.
#[derive(Debug)]
pub struct Admitted {
    known: Arc<CachedKey>,
}

impl ApiKeys {
    pub(super) fn new(store: Store) -> Self {
        let known = Arc::new(VersionedCache::new([catalog::API_KEYS, catalog::TENANTS], CACHED_KEYS));
        Self { store, known, uses: Arc::default() }
    }

    fn uses(&self) -> MutexGuard<'_, HashMap<KeyKey, Arc<UsageCounter>>> {
        self.uses.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn load(&self, digest: &[u8; 32]) -> Result<Option<Arc<CachedKey>>, StoreError> {
        let found = self.store.read(|tx| repo::find_digest(tx, digest))?;
        Ok(found.map(|key| {
            let uses = self.uses().entry((key.tenant_id, key.id)).or_default().clone();
            Arc::new(CachedKey { secret: SecretAge::of(&key, digest), key, uses, principal: OnceLock::new() })
        }))
    }

    /// Checks a presented key and counts its use.
    pub fn admit(&self, presented: &Secret, client: Option<IpAddr>, reading: &Reading) -> Result<Admitted, AuthError> {
        let digest = recognize(presented).map_err(AuthError::Invalid)?;
        let known = self.known.get(&self.store, digest, || self.load(&digest))?;
        let known =
            known.as_ref().clone().ok_or(AuthError::Invalid("This API key does not exist. Check the key, or create a new one."))?;
        let CachedKey { key, uses, .. } = known.as_ref();
        let now = reading.of(key.tenant_id);
        if known.is_superseded(now) {
            return Err(AuthError::KeyRevoked);
        }
        match key.block(now) {
            Some(KeyBlock::Revoked) => return Err(AuthError::KeyRevoked),
            Some(KeyBlock::Expired) => return Err(AuthError::KeyExpired),
            Some(KeyBlock::Disabled) => return Err(AuthError::KeyDisabled),
            None => {}
        }
        if !key.allows_address(client) {
            return Err(AuthError::AddressNotAllowed);
        }
        uses.count.fetch_add(1, Ordering::Relaxed);
        uses.last_at.fetch_max(now.as_millis(), Ordering::Relaxed);
        if let Ok(mut last_ip) = uses.last_ip.try_lock() {
            *last_ip = client;
        }
        Ok(Admitted { known })
    }

    /// Returns the uses since the last call, and resets the counters.
    pub(super) fn take_uses(&self) -> Vec<UsageDelta> {
        let mut taken = Vec::new();
        for (key, uses) in self.uses().iter() {
            let count = uses.count.swap(0, Ordering::Relaxed);
            if count > 0 {
                let last_ip = *uses.last_ip.lock().unwrap_or_else(PoisonError::into_inner);
                let last_at = Timestamp::from_millis(uses.last_at.load(Ordering::Relaxed));
                taken.push(UsageDelta { key: *key, count, last_at, last_ip });
            }
        }
        taken
    }

    /// Drops the counters of keys that no longer exist.
    pub(super) fn forget(&self, keys: &[KeyKey]) {
        let mut uses = self.uses();
        for key in keys {
            uses.remove(key);
        }
    }
}

impl Admitted {
    pub fn tenant_id(&self) -> TenantId {
        self.known.key.tenant_id
    }

    /// The person that a personal key acts for.
    pub fn person(&self) -> Option<UserId> {
        self.known.key.person
    }

    /// The identity of a personal key, whose person has these rights now. It has only what both have.
    pub fn principal_of_person(&self, tenant_name: &str, tenant_kind: TenantKind, person: &Authority) -> Arc<Principal> {
        let own = self.principal(tenant_name, tenant_kind);
        let both = own.authority().meet(person);
        let reach = match both.organizations() {
            Within::All => Reach::Everything,
            Within::Only(ids) => Reach::Organizations(ids.iter().copied().collect()),
        };
        Arc::new(Principal { grants: both.scopes(), reach, until: both.until(), ..own.as_ref().clone() })
    }

    /// The identity of a key that acts by itself.
    pub fn principal(&self, tenant_name: &str, tenant_kind: TenantKind) -> Arc<Principal> {
        let build = || {
            let key = &self.known.key;
            let grants = key.request_scopes(tenant_kind);
            let superseded = self.known.secret != SecretAge::Current;
            Arc::new(Principal {
                tenant_id: key.tenant_id,
                tenant_name: tenant_name.to_owned(),
                tenant_kind,
                identity: Identity::ApiKey { id: key.id, name: key.name.clone() },
                grants: if superseded { grants.without(Grants::OVER_CREDENTIALS) } else { grants },
                reach: key.reach(),
                networks: (!key.allowed_ips.is_empty()).then(|| key.allowed_ips.as_slice().into()),
                until: Some(self.known.ends_at()),
                superseded,
            })
        };
        self.known.principal.get_or_init(build).clone()
    }
}
