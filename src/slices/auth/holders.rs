//! Returns the current rights of users and keys, for background work that acts on their behalf.
//!
//! An identity provider does not report when a person leaves. So if a user can sign in only through a provider, nothing acts for
//! them once the provider is disabled, or [`LAPSES_AFTER`] after their last sign-in.

use std::time::Duration;

use tenantd_api_keys as api_keys;
use tenantd_base::{
    access::{Grants, TenantKind},
    authority::Authority,
    clock::Timestamp,
    id::{IdentityProviderId, TenantId},
};
use tenantd_directory::{self as directory, User, UserStatus};
use tenantd_platform::Tenants;
use tenantd_store::{
    ReadTx, StoreError,
    events::{Actor, ActorKind},
    holders::HolderRights,
};

use super::repo;

/// How long the last sign-in of a user without a password counts.
const LAPSES_AFTER: Duration = Duration::from_hours(90 * 24);

/// Returns whether an identity provider of a tenant exists and is enabled.
pub type ProviderIsOn = fn(&ReadTx, TenantId, IdentityProviderId) -> Result<bool, StoreError>;

/// Determines the rights of users and keys of all tenants.
#[derive(Clone, Debug)]
pub struct CredentialRights {
    pub tenants: Tenants,
    pub provider_is_on: ProviderIsOn,
}

impl CredentialRights {
    /// Returns the rights of a user, if they could sign in now.
    fn of_person(&self, tx: &ReadTx, user: &User, kind: TenantKind, now: Timestamp) -> Result<Option<Authority>, StoreError> {
        let role = user.role().filter(|_| user.status == UserStatus::Active);
        let Some(rights) = role.map(|role| Authority::new(user.tenant_id, role.grants_in(kind))) else { return Ok(None) };
        let Some(link) = &user.sso else { return Ok(Some(rights)) };
        if repo::CREDENTIALS.get(tx, &(user.tenant_id, user.id))?.is_some() {
            return Ok(Some(rights));
        }
        let until = user.last_login_at.unwrap_or(link.linked_at) + LAPSES_AFTER;
        let counts = now < until && (self.provider_is_on)(tx, user.tenant_id, link.identity_provider_id)?;
        Ok(counts.then(|| rights.with_until(Some(until))))
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
                user.map(|user| self.of_person(tx, &user, known.kind, now)).transpose()?.flatten()
            }
            ActorKind::ApiKey => match holder.id.parse() {
                Ok(id) => api_keys::authority_of(tx, tenant, id, known.kind, now)?,
                Err(_) => None,
            },
            // tenantd itself, and the operator on this machine.
            ActorKind::System => Some(Authority::everything(tenant)),
            ActorKind::Workflow | ActorKind::Agent => None,
        };
        Ok(found.unwrap_or_else(none))
    }
}
