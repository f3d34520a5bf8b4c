//! Enforced single sign-on: what it means for passwords, when it can be turned on, what it ends, and how the operator turns it off.
//!
//! **Invariant:** a provider is enforced only if an active administrator can still sign in without it when it fails, and only as
//! the provider that somebody has signed in through.

use tenantd_auth::{AuthError, PasswordAccess, Users};
use tenantd_base::{
    clock::Timestamp,
    fault::Fault,
    id::{IdentityProviderId, TenantId},
};
use tenantd_directory::{self as directory, User, UserStatus};
use tenantd_store::{Read, StoreError, WriteTx, events::Act};

use super::{
    error::SsoError,
    model::{self, Enforcement, IdentityProvider},
    repo::{self, history},
    service::{self, Service},
};

/// How a user can sign in without a provider. Providers are for staff: a contact signs in to the portal with a password.
pub(super) fn password_access(tx: &impl Read, user: &User) -> Result<PasswordAccess, StoreError> {
    if user.role().is_none() {
        return Ok(PasswordAccess::Free);
    }
    Ok(model::password_access(&repo::list(tx, user.tenant_id)?, user.id, user.email.as_deref()))
}

/// Whether any provider of the tenant enforces single sign-on.
pub(super) fn is_enforced(tx: &WriteTx, tenant: TenantId) -> Result<bool, StoreError> {
    Ok(repo::list(tx, tenant)?.iter().any(IdentityProvider::is_enforced))
}

/// Whether a member of staff can sign in through the provider that they are linked to.
pub(super) fn has_link(tx: &impl Read, user: &User) -> Result<bool, StoreError> {
    let Some(link) = &user.sso else { return Ok(false) };
    let found = repo::get(tx, (user.tenant_id, link.identity_provider_id))?;
    Ok(found.is_some_and(|provider| provider.enabled && provider.issuer == link.issuer && provider.has_proven_domain()))
}

/// What prevents the rules of a provider, which is already stored in this transaction.
pub(super) fn faults(
    tx: &WriteTx,
    users: &Users,
    now: Timestamp,
    before: Option<&IdentityProvider>,
    after: &IdentityProvider,
) -> Result<Vec<Fault>, SsoError> {
    let rules = &after.rules;
    let known = before.map(|before| &before.rules);
    let begins = after.is_enforced() && known.is_none_or(|known| known.enforcement != rules.enforcement);
    let is_same_list = known.is_some_and(|known| known.break_glass_user_ids == rules.break_glass_user_ids);
    let is_same_reach = is_same_list && before.is_some_and(|before| before.domains == after.domains);
    let mut faults = Vec::new();
    if begins {
        faults.extend(not_ready(tx, after)?);
    }
    if begins || !is_same_list {
        faults.extend(bad_accounts(tx, users, now, after)?);
    }
    if after.is_enforced() && (begins || !is_same_reach) && !users.has_way_in(tx, after.tenant_id, now)? {
        let message =
            "nobody could sign in if the provider failed: list an active administrator who has a password that works, or a passkey";
        faults.push(Fault::new("/break_glass_user_ids", "required", message));
    }
    Ok(faults)
}

/// Why the provider cannot be the only way to sign in yet.
fn not_ready(tx: &WriteTx, provider: &IdentityProvider) -> Result<Option<Fault>, StoreError> {
    let message = if !provider.enabled {
        "enable the provider before you enforce it"
    } else if !provider.has_proven_domain() {
        "prove a domain of the provider before you enforce it"
    } else if !history::has_worked(tx, (provider.tenant_id, provider.id))? {
        "nobody has signed in through the provider yet: sign in through it, or make a test sign-in, before you enforce it"
    } else {
        return Ok(None);
    };
    Ok(Some(Fault::new("/enforcement", "not_allowed", message)))
}

fn bad_accounts(tx: &WriteTx, users: &Users, now: Timestamp, provider: &IdentityProvider) -> Result<Vec<Fault>, StoreError> {
    let mut faults = Vec::new();
    for (place, id) in provider.rules.break_glass_user_ids.iter().enumerate() {
        let is_active = |user: &User| user.role().is_some() && user.status == UserStatus::Active;
        let user = directory::user(tx, provider.tenant_id, *id)?.filter(is_active);
        let is_usable = match user {
            Some(user) => users.has_credential(tx, &user, now)?,
            None => false,
        };
        if !is_usable {
            let message = "must be an active member of staff who has a password that works, or a passkey";
            faults.push(Fault::new(format!("/break_glass_user_ids/{place}"), "not_allowed", message));
        }
    }
    Ok(faults)
}

/// Checks that a provider stays the one that was enforced. A disabled one stays enforced too: it may have been disabled because it
/// cannot be trusted, and passwords must not become enough then.
pub(super) fn check_same(
    tx: &WriteTx,
    users: &Users,
    now: Timestamp,
    before: &IdentityProvider,
    after: &IdentityProvider,
) -> Result<(), SsoError> {
    if !before.is_enforced() || !after.is_enforced() {
        return Ok(());
    }
    let is_same_client = after.issuer == before.issuer && after.client_id == before.client_id;
    if !is_same_client || (before.has_proven_domain() && !after.has_proven_domain()) {
        return Err(SsoError::EnforcedIdentity);
    }
    let ends = before.enabled && !after.enabled;
    if ends && !users.has_way_in(tx, after.tenant_id, now)? { Err(AuthError::LastBreakGlass.into()) } else { Ok(()) }
}

/// Checks that the provider leaves an administrator who can sign in, and ends the sessions that it no longer permits.
pub(super) fn take_effect(tx: &mut WriteTx, act: &mut Act, users: &Users, provider: &IdentityProvider) -> Result<(), SsoError> {
    if provider.is_enforced() {
        if !users.has_way_in(tx, provider.tenant_id, act.guard_time())? {
            return Err(AuthError::LastBreakGlass.into());
        }
        users.end_sessions_without_provider(tx, act)?;
    }
    Ok(())
}

impl Service {
    /// Lifts the enforcement of the named provider, or of all providers of the act's tenant. Returns those that it was lifted from.
    pub(super) fn relax(
        tx: &mut WriteTx,
        act: &mut Act,
        named: Option<IdentityProviderId>,
    ) -> Result<Vec<IdentityProvider>, SsoError> {
        let mut relaxed = repo::list(tx, act.tenant_id)?;
        if let Some(id) = named {
            relaxed.retain(|provider| provider.id == id);
            if relaxed.is_empty() {
                return Err(SsoError::NotFound);
            }
        }
        relaxed.retain(IdentityProvider::is_enforced);
        for provider in &mut relaxed {
            let before = provider.clone();
            provider.rules.enforcement = Enforcement::Off;
            provider.updated_at = act.now;
            provider.version += 1;
            repo::put(tx, provider)?;
            service::announce_update(tx, act, &before, provider)?;
        }
        Ok(relaxed)
    }
}
