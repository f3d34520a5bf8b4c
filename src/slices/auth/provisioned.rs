//! Accounts that another system provisions, such as the SCIM client of an identity provider. The caller is a key, which counts as an
//! administrator, so it covers every account of its tenant except operators.
//!
//! **Invariant:** provisioning never disables, removes or demotes the last administrator who can sign in, or a break-glass account.

use tenantd_api_keys as api_keys;
use tenantd_base::{
    access::{Grants, Scope, StaffRole, TenantKind},
    authority::Lacking,
    change::Change,
    id::{OrganizationId, TenantId, UserId},
    versions::ExpectedVersion,
};
use tenantd_directory::{self as directory, NewUser, Standing, User, UserChange, UserStatus};
use tenantd_store::{Read, WriteTx, events::Act};

use super::{error::AuthError, service::Users, sign_on::PasswordAccess, ways_in::WaysIn};

impl Users {
    /// Checks that the caller may provision people now. They may have lost the right since the request was authenticated.
    pub fn check_provisioner(&self, tx: &impl Read, act: &Act) -> Result<(), AuthError> {
        let kind = self.kind_of(act.tenant_id)?;
        if kind == TenantKind::Platform {
            return Err(AuthError::NotProvisioned);
        }
        let held = api_keys::rights_now(tx, act, kind)?.scopes();
        let needed = Grants::of(&[Scope::ProvisioningWrite]);
        if held.covers(needed) { Ok(()) } else { Err(Lacking::scopes(needed).into()) }
    }

    fn kind_of(&self, tenant: TenantId) -> Result<TenantKind, AuthError> {
        Ok(self.tenant(tenant)?.map_or(TenantKind::Standard, |tenant| tenant.kind))
    }

    /// Creates a member of staff without a password. They sign in through a provider, or an administrator gives them a link.
    pub fn create_provisioned(&self, tx: &mut WriteTx, act: &mut Act, new: &NewUser) -> Result<User, AuthError> {
        Ok(self.directory.create_user(tx, act, new)?)
    }

    pub fn update_provisioned(
        &self,
        tx: &mut WriteTx,
        act: &mut Act,
        before: &User,
        expected: &ExpectedVersion,
        change: &UserChange,
    ) -> Result<User, AuthError> {
        let disables = change.status == Some(UserStatus::Disabled) && before.status == UserStatus::Active;
        let moves = change.email.as_ref().is_some_and(|email| before.email.as_ref() != Some(email));
        if (disables || moves) && self.is_break_glass(tx, before)? {
            return Err(AuthError::BreakGlassKept);
        }
        let kind = self.kind_of(before.tenant_id)?;
        self.change_account(tx, act, before, (expected, change), kind)
    }

    /// Records a change of the account outside its record.
    pub fn touch_provisioned(&self, tx: &mut WriteTx, act: &mut Act, user: User) -> Result<User, AuthError> {
        Ok(self.directory.touch_user(tx, act, user)?)
    }

    pub fn remove_provisioned(
        &self,
        tx: &mut WriteTx,
        act: &mut Act,
        id: UserId,
        expected: &ExpectedVersion,
    ) -> Result<(), AuthError> {
        let user = directory::user(tx, act.tenant_id, id)?.ok_or(AuthError::NotFound)?;
        if self.is_break_glass(tx, &user)? {
            return Err(AuthError::BreakGlassKept);
        }
        self.remove_account(tx, act, id, expected).map(drop)
    }

    /// Gives an account the role and the organizations that its groups give. Has written nothing if it fails because somebody keeps
    /// their role.
    pub fn assign_standing(
        &self,
        tx: &mut WriteTx,
        act: &mut Act,
        user: &User,
        role: StaffRole,
        organizations: Option<&[OrganizationId]>,
    ) -> Result<User, AuthError> {
        let organization_ids = organizations.map(<[OrganizationId]>::to_vec);
        if user.standing == (Standing::Staff { role, organization_ids: organization_ids.clone() }) {
            return Ok(user.clone());
        }
        if self.is_break_glass(tx, user)? {
            return Err(AuthError::BreakGlassKept);
        }
        // Nothing is written before, so a caller can go on with other accounts.
        self.only_ways_in(tx, user, act.guard_time())?.check_kept(WaysIn::default())?;
        let organization_ids = organization_ids.map_or(Change::Clear, Change::Set);
        let change = UserChange { role: Some(role), organization_ids, ..UserChange::default() };
        let kind = self.kind_of(user.tenant_id)?;
        self.change_account(tx, act, user, (&ExpectedVersion::Any, &change), kind)
    }

    fn is_break_glass(&self, tx: &WriteTx, user: &User) -> Result<bool, AuthError> {
        Ok((self.sign_on_rules.access)(tx, user)? == PasswordAccess::BreakGlass)
    }
}
