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

use tenantd_api_keys::{Admitted, ApiKeys};
use tenantd_base::{
    access::{Grants, Identity, Principal, Reach, TenantKind},
    clock::Timestamp,
    clocks::Reading,
    id::{TenantId, UserId},
    secrets::{Secret, digest},
};
use tenantd_directory::{self as directory, User};
use tenantd_http::credentials::{AuthError, Authenticator};
use tenantd_platform::{Tenant, TenantStatus, Tenants};
use tenantd_store::{Store, StoreError, VersionedCache, catalog};

use super::{
    holders::{Block, CredentialRights, Rights, of_account},
    model::{Session, SessionRules},
    repo::{self, TokenDigest},
};

const CACHED_SESSIONS: u64 = 20_000;
const CACHED_PERSONS: u64 = 20_000;

pub struct SliceAuthenticator {
    store: Store,
    rules: SessionRules,
    tenants: Tenants,
    keys: ApiKeys,
    sessions: VersionedCache<TokenDigest, Option<CachedSession>, 6>,
    rights: CredentialRights,
    /// What people give to their personal keys.
    persons: VersionedCache<(TenantId, UserId), Rights, 6>,
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
    pub(super) fn new(store: Store, rules: SessionRules, keys: ApiKeys, rights: CredentialRights) -> Self {
        let tables = [
            catalog::SESSIONS,
            catalog::USERS,
            catalog::ROLES,
            catalog::SIGN_IN_POLICIES,
            catalog::PORTAL_ACCESS,
            catalog::PORTAL_SETTINGS,
        ];
        let sessions = VersionedCache::new(tables, CACHED_SESSIONS);
        let given = [
            catalog::USERS,
            catalog::ROLES,
            catalog::SIGN_IN_POLICIES,
            catalog::CREDENTIALS,
            catalog::FACTORS,
            catalog::IDENTITY_PROVIDERS,
        ];
        let persons = VersionedCache::new(given, CACHED_PERSONS);
        Self { store, rules, tenants: rights.tenants.clone(), keys, sessions, rights, persons, seen: Mutex::default() }
    }

    /// Returns the tenant, if its credentials work now.
    pub(super) fn active_tenant(&self, id: TenantId, now: Timestamp) -> Result<Arc<Option<Tenant>>, AuthError> {
        let tenant = self.tenants.cached(id)?;
        match tenant.as_ref() {
            None => Err(AuthError::Invalid("The tenant of this credential no longer exists.")),
            Some(known) if known.is_over(now) => Err(AuthError::TenantClosed("This evaluation has ended.")),
            Some(known) => match known.status {
                TenantStatus::Active | TenantStatus::Filling => Ok(tenant.clone()),
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
            let policy = repo::factors::policy_of(tx, session.tenant_id)?;
            Ok::<_, StoreError>(user.map(|user| (session, user, policy)))
        })?;
        let Some((session, user, policy)) = found else { return Ok(None) };
        let tenant = self.tenants.cached(session.tenant_id)?;
        let Some(tenant) = tenant.as_ref() else { return Ok(None) };
        let Some(role) = user.role() else {
            let has_access = self.store.read(|tx| repo::portal::has_access(tx, &user))?;
            let principal = contact(tenant, &session, user).filter(|_| has_access);
            return Ok(principal.map(|principal| self.cached(token, session, principal)));
        };
        let (authority, labels) =
            self.store.read(|tx| Ok::<_, StoreError>((of_account(tx, &user, tenant.kind)?, directory::user_labels(tx, &user)?)))?;
        let Ok(authority) = authority else { return Ok(None) };
        let reach = user.reach();
        let email = user.email.unwrap_or_default();
        let lacks_factor = policy.is_lacking(role, &session.methods);
        let identity = Identity::User {
            id: user.id,
            session_id: session.id,
            email,
            name: user.name,
            role,
            role_name: labels.role.map(|role| role.name),
            proven_at: session.proven_at,
            lacks_factor,
        };
        let principal = Principal {
            tenant_id: tenant.id,
            tenant_name: tenant.name.clone(),
            tenant_kind: tenant.kind,
            identity,
            grants: if lacks_factor { Grants::NONE } else { authority.scopes() },
            reach,
            networks: None,
            until: None,
            superseded: false,
        };
        Ok(Some(self.cached(token, session, principal)))
    }

    fn cached(&self, token: &TokenDigest, session: Session, principal: Principal) -> CachedSession {
        let stored = session.last_seen_at.as_millis();
        let new = || LastSeen { at: Arc::new(AtomicI64::new(stored)), written: stored };
        let last_seen = self.seen().entry(*token).or_insert_with(new).at.clone();
        CachedSession { session, principal: Arc::new(principal), last_seen }
    }

    /// Returns the identity of a personal key with the rights that its person has now.
    fn for_person(
        &self,
        admitted: &Admitted,
        person: UserId,
        (name, kind): (&str, TenantKind),
        now: Timestamp,
    ) -> Result<Arc<Principal>, AuthError> {
        let tenant = admitted.tenant_id();
        let given = self
            .persons
            .get(&self.store, (tenant, person), || self.store.read(|tx| self.rights.for_keys_of(tx, tenant, person, kind, now)))?;
        match given.as_ref() {
            // What was read earlier may have ended since.
            Ok(given) if given.until().is_none_or(|until| now < until) => Ok(admitted.principal_of_person(name, kind, given)),
            Err(Block::PersonalKeysForbidden) => Err(AuthError::PersonalKeysForbidden),
            Ok(_) | Err(_) => Err(AuthError::PersonBlocked),
        }
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

/// The identity of a contact: no scopes, and no record outside of their organization. `None` without an organization.
fn contact(tenant: &Tenant, session: &Session, user: User) -> Option<Principal> {
    let organization_id = user.organization_id()?;
    let identity = Identity::Contact {
        id: user.id,
        session_id: session.id,
        email: user.email.unwrap_or_default(),
        name: user.name,
        organization_id,
        proven_at: session.proven_at,
    };
    Some(Principal {
        tenant_id: tenant.id,
        tenant_name: tenant.name.clone(),
        tenant_kind: tenant.kind,
        identity,
        grants: Grants::NONE,
        reach: Reach::new(vec![organization_id]),
        networks: None,
        until: None,
        superseded: false,
    })
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
        match admitted.person() {
            Some(person) => self.for_person(&admitted, person, (&tenant.name, tenant.kind), clocks.of(admitted.tenant_id())),
            None => Ok(admitted.principal(&tenant.name, tenant.kind)),
        }
    }

    fn check_room(&self, tenant: TenantId) -> Result<(), AuthError> {
        let known = self.tenants.cached(tenant)?;
        if known.as_ref().as_ref().is_some_and(|tenant| tenant.status == TenantStatus::Filling) {
            return Err(AuthError::BeingFilled);
        }
        let most = self.tenants.evaluation_events();
        let events = self.store.read(|tx| self.tenants.events_of(tx, tenant))?;
        if events < most { Ok(()) } else { Err(AuthError::NoRoom { most }) }
    }
}
