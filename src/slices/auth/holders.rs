//! What people and keys may do now, for those who act for them later.

use crate::{
    kernel::{
        access::Grants,
        authority::Authority,
        clock::Timestamp,
        events::{Actor, ActorKind},
        holders::HolderRights,
        id::TenantId,
        store::{ReadTx, StoreError},
    },
    slices::{
        api_keys,
        directory::{self, UserStatus},
        platform::Tenants,
    },
};

/// The rights of the people and keys of all tenants.
#[derive(Clone, Debug)]
pub struct CredentialRights {
    pub tenants: Tenants,
}

impl HolderRights for CredentialRights {
    fn authority(&self, tx: &ReadTx, tenant: TenantId, holder: &Actor, now: Timestamp) -> Result<Authority, StoreError> {
        let none = || Authority::new(tenant, Grants::NONE);
        let known = self.tenants.cached(tenant)?;
        let Some(known) = known.as_ref() else { return Ok(none()) };
        let found = match holder.kind {
            ActorKind::User => {
                let user = holder.id.parse().ok().map(|id| directory::user(tx, tenant, id)).transpose()?.flatten();
                let role = user.filter(|user| user.status == UserStatus::Active).and_then(|user| user.role());
                role.map(|role| Authority::new(tenant, role.grants_in(known.kind)))
            }
            ActorKind::ApiKey => match holder.id.parse() {
                Ok(id) => api_keys::authority_of(tx, tenant, id, known.kind, now)?,
                Err(_) => None,
            },
            // tenantd itself, and its operator on this machine.
            ActorKind::System => Some(Authority::everything(tenant)),
            ActorKind::Workflow | ActorKind::Agent => None,
        };
        Ok(found.unwrap_or_else(none))
    }
}
