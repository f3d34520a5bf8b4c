//! Determines the current rights of users and keys: for sessions, for personal keys, for background work that acts on their behalf, and
//! for administrators who ask. Nothing else decides it.
//!
//! An identity provider does not report when a person leaves. So if a user can sign in only through a provider, because they have neither
//! a password nor a passkey or may not use them, nothing acts for them before their first sign-in, once the provider is disabled, or
//! [`LAPSES_AFTER`] after their last sign-in. Nothing acts either for a user who has signed in before and has no way to do so any more.
//! Removing or replacing a link that was the only way in also revokes the personal keys, so that a new link does not revive them.

use std::time::Duration;

use tenantd_api_keys::{self as api_keys, ApiKey, KeyBlock};
use tenantd_base::{
    access::{Grants, TenantKind},
    authority::Authority,
    clock::Timestamp,
    id::{IdentityProviderId, TenantId, UserId},
};
use tenantd_directory::{self as directory, User, UserStatus};
use tenantd_platform::Tenants;
use tenantd_store::{
    Read, ReadTx, StoreError,
    events::{Actor, ActorKind},
    holders::HolderRights,
};

use super::{model::PersonalKeys, repo, sign_on::PasswordAccess};

/// How long the last sign-in of a user without a password counts.
const LAPSES_AFTER: Duration = Duration::from_hours(90 * 24);

/// Returns whether an identity provider of a tenant exists and is enabled.
pub type ProviderIsOn = fn(&ReadTx, TenantId, IdentityProviderId) -> Result<bool, StoreError>;

/// Why a user or a key has no rights now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Block {
    /// Contacts do not sign in.
    Contact,
    UserDisabled,
    /// The user must sign in through a provider, and never has.
    NeverSignedIn,
    /// The user can sign in only through a provider that is disabled or gone.
    ProviderOff,
    /// The user can sign in only through a provider, and has not for a long time.
    SignOnLapsed,
    /// The user has signed in before, and has neither a password nor a passkey nor a provider now.
    NoWayIn,
    Key(KeyBlock),
    /// The person of a personal key no longer exists.
    PersonRemoved,
    /// The sign-in policy forbids personal keys.
    PersonalKeysForbidden,
}

/// Rights, or why there are none.
pub(super) type Rights = Result<Authority, Block>;

/// Determines the rights of users and keys of all tenants.
#[derive(Clone, Debug)]
pub struct CredentialRights {
    pub tenants: Tenants,
    pub provider_is_on: ProviderIsOn,
    pub password_access: fn(&ReadTx, &User) -> Result<PasswordAccess, StoreError>,
}

/// Returns the rights of an account, which are those of its sessions.
pub(super) fn of_account(tx: &impl Read, user: &User, kind: TenantKind) -> Result<Rights, StoreError> {
    if user.status != UserStatus::Active {
        return Ok(Err(Block::UserDisabled));
    }
    Ok(directory::staff_authority(tx, user, kind)?.ok_or(Block::Contact))
}

impl CredentialRights {
    /// Returns the rights of a user, if they could sign in now.
    pub(super) fn of_person(&self, tx: &ReadTx, user: &User, kind: TenantKind, now: Timestamp) -> Result<Rights, StoreError> {
        let rights = match of_account(tx, user, kind)? {
            Ok(rights) => rights,
            Err(block) => return Ok(Err(block)),
        };
        let needs_provider = matches!((self.password_access)(tx, user)?, PasswordAccess::Refused(_));
        let has_own_way = repo::factors::has_own_way_in(tx, (user.tenant_id, user.id))?;
        if has_own_way && !needs_provider {
            return Ok(Ok(rights));
        }
        let Some(link) = &user.sso else {
            return Ok(match (needs_provider, user.last_login_at) {
                (true, _) => Err(Block::NeverSignedIn),
                (false, Some(_)) => Err(Block::NoWayIn),
                // Sample data has people who never sign in and whose workflows run.
                (false, None) => Ok(rights),
            });
        };
        if !(self.provider_is_on)(tx, user.tenant_id, link.identity_provider_id)? {
            return Ok(Err(Block::ProviderOff));
        }
        let until = user.last_login_at.unwrap_or(link.linked_at) + LAPSES_AFTER;
        Ok(if now < until { Ok(rights.with_until(Some(until))) } else { Err(Block::SignOnLapsed) })
    }

    /// Returns what a person gives to their personal keys.
    pub(super) fn for_keys_of(
        &self,
        tx: &ReadTx,
        tenant: TenantId,
        person: UserId,
        kind: TenantKind,
        now: Timestamp,
    ) -> Result<Rights, StoreError> {
        if repo::factors::policy_of(tx, tenant)?.personal_keys == PersonalKeys::Forbidden {
            return Ok(Err(Block::PersonalKeysForbidden));
        }
        match directory::user(tx, tenant, person)? {
            Some(user) => self.of_person(tx, &user, kind, now),
            None => Ok(Err(Block::PersonRemoved)),
        }
    }

    /// Returns the rights of a key. A personal key has only what its person has too.
    pub(super) fn of_key(&self, tx: &ReadTx, key: &ApiKey, kind: TenantKind, now: Timestamp) -> Result<Rights, StoreError> {
        if let Some(block) = key.block(now) {
            return Ok(Err(Block::Key(block)));
        }
        let own = key.authority(kind);
        let Some(person) = key.person else { return Ok(Ok(own)) };
        Ok(self.for_keys_of(tx, key.tenant_id, person, kind, now)?.map(|rights| own.meet(&rights)))
    }
}

impl HolderRights for CredentialRights {
    fn authority(&self, tx: &ReadTx, tenant: TenantId, holder: &Actor, now: Timestamp) -> Result<Authority, StoreError> {
        let none = || Authority::new(tenant, Grants::NONE);
        let known = self.tenants.cached(tenant)?;
        let Some(known) = known.as_ref() else { return Ok(none()) };
        let found = match holder.kind {
            ActorKind::User => {
                let user = holder.id.parse().ok().map(|id| directory::user(tx, tenant, id)).transpose()?.flatten();
                user.map(|user| self.of_person(tx, &user, known.kind, now)).transpose()?.and_then(Result::ok)
            }
            ActorKind::ApiKey => {
                let key = holder.id.parse().ok().map(|id| api_keys::find(tx, tenant, id)).transpose()?.flatten();
                key.map(|key| self.of_key(tx, &key, known.kind, now)).transpose()?.and_then(Result::ok)
            }
            // tenantd itself, and the operator on this machine.
            ActorKind::System => Some(Authority::everything(tenant)),
            ActorKind::Workflow | ActorKind::Agent => None,
        };
        Ok(found.unwrap_or_else(none))
    }
}
