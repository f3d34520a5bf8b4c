//! Authenticates every credential. It caches results until a record changes, and uses point reads otherwise. `upkeep` stores the
//! times of use in batches.

use std::{
    collections::HashMap,
    net::IpAddr,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicI64, Ordering},
    },
};

use tenantd_api_keys::ApiKeys;
use tenantd_base::{
    access::{Identity, Principal, Reach},
    clock::Timestamp,
    clocks::Reading,
    id::TenantId,
    secrets::{Secret, digest},
};
use tenantd_directory::{self as directory, UserStatus};
use tenantd_http::credentials::{AuthError, Authenticator};
use tenantd_platform::{Tenant, TenantStatus, Tenants};
use tenantd_store::{Store, StoreError, VersionedCache, catalog};

use super::{
    model::{Session, SessionRules},
    repo::{self, TokenDigest},
};

const CACHED_SESSIONS: u64 = 20_000;

pub struct SliceAuthenticator {
    store: Store,
    rules: SessionRules,
    tenants: Tenants,
    keys: ApiKeys,
    sessions: VersionedCache<TokenDigest, Option<CachedSession>, 2>,
    /// When cached sessions were last used.
    seen: Mutex<HashMap<TokenDigest, LastSeen>>,
}

struct LastSeen {
    at: Arc<AtomicI64>,
    /// The time that is stored.
    written: i64,
}

impl std::fmt::Debug for SliceAuthenticator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SliceAuthenticator")
    }
}

/// A session and the identity of its user.
struct CachedSession {
    session: Session,
    principal: Arc<Principal>,
    last_seen: Arc<AtomicI64>,
}

impl SliceAuthenticator {
    pub(super) fn new(store: Store, rules: SessionRules, tenants: Tenants, keys: ApiKeys) -> Self {
        let sessions = VersionedCache::new([catalog::SESSIONS, catalog::USERS], CACHED_SESSIONS);
        Self { store, rules, tenants, keys, sessions, seen: Mutex::default() }
    }

    fn active_tenant(&self, id: TenantId, now: Timestamp) -> Result<Arc<Option<Tenant>>, AuthError> {
        let tenant = self.tenants.cached(id)?;
        match tenant.as_ref() {
            None => Err(AuthError::Invalid("The tenant of this credential no longer exists.")),
            Some(known) if known.is_over(now) => Err(AuthError::TenantClosed("This evaluation has ended.")),
            Some(known) => match known.status {
                TenantStatus::Active => Ok(tenant.clone()),
                TenantStatus::Suspended => Err(AuthError::TenantSuspended),
                TenantStatus::Preparing => Err(AuthError::TenantClosed("The tenant is still being prepared. Retry in a moment.")),
                TenantStatus::Deleting => Err(AuthError::Invalid("The tenant of this credential no longer exists.")),
            },
        }
    }

    fn load_session(&self, token: &TokenDigest) -> Result<Option<CachedSession>, StoreError> {
        let found = self.store.read(|tx| {
            let Some(session) = repo::get_session(tx, token)? else { return Ok(None) };
            let user = directory::user(tx, session.tenant_id, session.user_id)?;
            Ok::<_, StoreError>(user.map(|user| (session, user)))
        })?;
        let Some((session, user)) = found.filter(|(_, user)| user.status == UserStatus::Active) else { return Ok(None) };
        let tenant = self.tenants.cached(session.tenant_id)?;
        let (Some(tenant), Some(role)) = (tenant.as_ref(), user.role()) else { return Ok(None) };
        let email = user.email.unwrap_or_default();
        let identity = Identity::User { id: user.id, session_id: session.id, email, name: user.name, role };
        let principal = Principal {
            tenant_id: tenant.id,
            tenant_name: tenant.name.clone(),
            tenant_kind: tenant.kind,
            identity,
            grants: role.grants_in(tenant.kind),
            reach: Reach::Everything,
            networks: None,
            until: None,
            superseded: false,
        };
        let stored = session.last_seen_at.as_millis();
        let new = || LastSeen { at: Arc::new(AtomicI64::new(stored)), written: stored };
        let last_seen = self.seen().entry(*token).or_insert_with(new).at.clone();
        Ok(Some(CachedSession { session, principal: Arc::new(principal), last_seen }))
    }

    fn seen(&self) -> std::sync::MutexGuard<'_, HashMap<TokenDigest, LastSeen>> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the sessions used since the last call, with the time of their last use.
    pub(super) fn take_seen(&self) -> Vec<(TokenDigest, Timestamp)> {
        let mut taken = Vec::new();
        for (token, seen) in self.seen().iter_mut() {
            let at = seen.at.load(Ordering::Relaxed);
            if at > seen.written {
                seen.written = at;
                taken.push((*token, Timestamp::from_millis(at)));
            }
        }
        taken
    }

    /// Drops sessions that have ended from memory.
    pub(super) fn forget(&self, tokens: &[TokenDigest]) {
        let mut seen = self.seen();
        for token in tokens {
            seen.remove(token);
        }
    }
}

impl Authenticator for SliceAuthenticator {
    fn session(&self, token: &Secret, now: Timestamp) -> Result<Arc<Principal>, AuthError> {
        let token = digest(token.expose().as_bytes());
        let known = self.sessions.get(&self.store, token, || self.load_session(&token))?;
        let Some(known) = known.as_ref() else { return Err(AuthError::SessionExpired) };
        let last_seen = Timestamp::from_millis(known.last_seen.load(Ordering::Relaxed));
        if self.rules.is_over(&known.session, last_seen, now) {
            return Err(AuthError::SessionExpired);
        }
        known.last_seen.fetch_max(now.as_millis(), Ordering::Relaxed);
        self.active_tenant(known.principal.tenant_id, now)?;
        Ok(known.principal.clone())
    }

    fn api_key(&self, key: &Secret, client: Option<IpAddr>, clocks: &Reading) -> Result<Arc<Principal>, AuthError> {
        let admitted = self.keys.admit(key, client, clocks)?;
        let tenant = self.active_tenant(admitted.tenant_id(), clocks.installation())?;
        let Some(tenant) = tenant.as_ref() else {
            return Err(AuthError::Invalid("The tenant of this credential no longer exists."));
        };
        Ok(admitted.principal(&tenant.name, tenant.kind))
    }

    fn check_room(&self, tenant: TenantId) -> Result<(), AuthError> {
        let most = self.tenants.evaluation_events();
        let events = self.store.read(|tx| self.tenants.events_of(tx, tenant))?;
        if events < most { Ok(()) } else { Err(AuthError::NoRoom { most }) }
    }
}
