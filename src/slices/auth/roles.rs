//! Custom roles: the use cases of the directory, with checks of the caller's rights.
//!
//! **Invariant:** a caller that creates or renames a role, or adds scopes to one, holds all of its scopes. Removing scopes does not
//! require that.
//! A caller that gives a role to a user must cover it too (`accounts.rs`).

use tenantd_api_keys::{PauseReason, scope_faults};
use tenantd_base::{
    access::{Grants, Role, Scope, TenantKind},
    authority::Authority,
    fault::Fault,
    id::RoleId,
    versions::ExpectedVersion,
};
use tenantd_directory::{self as directory, CustomRole, NewRole, RoleChange, staff_authority};
use tenantd_store::{WriteTx, events::Act};

use super::{accounts::Manager, error::AuthError, factors::forget_role, openers::ProviderLink, service::Users};

/// Checks that the scopes exist, and that a role of a tenant can have them.
fn check_scopes(scopes: &[String]) -> Result<(), AuthError> {
    let mut faults = scope_faults(scopes);
    let named = scopes.iter().filter(|scope| !scope.starts_with('*')).map(String::as_str);
    let beyond: Vec<_> = Grants::from_patterns(named).without(Role::Admin.grants()).iter().map(Scope::name).collect();
    if !beyond.is_empty() {
        let message = format!("no role of a tenant can have the scopes of the operator; remove {}", beyond.join(", "));
        faults.push(Fault::new("/scopes", "not_allowed", message));
    }
    if faults.is_empty() { Ok(()) } else { Err(AuthError::Invalid(faults)) }
}

fn authority_of(role: &CustomRole) -> Authority {
    Authority::new(role.tenant_id, role.grants())
}

impl Users {
    pub(super) fn create_role(
        &self,
        tx: &mut WriteTx,
        act: &mut Act,
        manager: &Manager,
        new: &NewRole,
    ) -> Result<CustomRole, AuthError> {
        let manager = &manager.now(tx, act)?;
        if manager.tenant_kind() == TenantKind::Platform {
            return Err(AuthError::NoRolesHere);
        }
        check_scopes(&new.scopes)?;
        let role = self.directory.create_role(tx, act, new)?;
        manager.check_change(None, Some(&authority_of(&role)), true)?;
        Ok(role)
    }

    /// Changes a role for all of its members. If it loses scopes, their API keys that it no longer covers are paused. If it gains some,
    /// accounts that were opened by somebody without them are closed.
    pub(super) fn update_role(
        &self,
        tx: &mut WriteTx,
        act: &mut Act,
        manager: &Manager,
        id: RoleId,
        expected: &ExpectedVersion,
        change: &RoleChange,
    ) -> Result<CustomRole, AuthError> {
        let manager = &manager.now(tx, act)?;
        check_scopes(change.scopes.as_deref().unwrap_or_default())?;
        let (before, after) = self.directory.update_role(tx, act, id, expected, change)?;
        let (had, has) = (authority_of(&before), authority_of(&after));
        // A new name or description could make somebody give the role by mistake.
        let relabels = after.name != before.name || after.description != before.description;
        manager.check_change(Some(&had), Some(&has), relabels)?;
        if has == had {
            return Ok(after);
        }
        for member in directory::role_members(tx, act.tenant_id, id)? {
            let Some(user) = directory::user(tx, act.tenant_id, member)? else { continue };
            let user = self.settle_openers(tx, act, user, manager.tenant_kind(), ProviderLink::Ends)?;
            let Some(kept) = staff_authority(tx, &user, manager.tenant_kind())?.filter(|_| !has.covers(&had)) else { continue };
            self.owners.pause_keys_of(tx, act, member, PauseReason::Demoted, Some((&kept, manager.tenant_kind())))?;
        }
        Ok(after)
    }

    /// Removes a role that nobody has and that no rule gives, also from the sign-in policy.
    pub(super) fn remove_role(
        &self,
        tx: &mut WriteTx,
        act: &mut Act,
        id: RoleId,
        expected: &ExpectedVersion,
    ) -> Result<(), AuthError> {
        let rules = (self.role_rules)(tx, act.tenant_id, id)?;
        self.directory.remove_role(tx, act, id, expected, rules)?;
        forget_role(tx, act, id)
    }
}
