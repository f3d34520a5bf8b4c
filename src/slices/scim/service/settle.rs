//! Gives people the roles that their groups have. A few people get theirs in the transaction of the change. More of them wait in a
//! table, and get theirs in steps: before the request is answered, or from the task if the server stops meanwhile.

use std::collections::BTreeSet;

use tenantd_auth::AuthError;
use tenantd_base::id::{TenantId, UserId};
use tenantd_directory::DirectoryError;
use tenantd_store::{Key, KeyRange, Read, StoreError, WriteTx, events::Act};

use super::{
    super::{
        error::ScimError,
        model::{Pending, RoleRules},
        repo,
    },
    Service, rules, staff,
};

/// How many people get their role in one transaction.
pub(crate) const CHUNK: usize = 100;

/// The next tenant after one of them in which people wait for a role.
pub(crate) fn waiting(tx: &impl Read, after: Option<TenantId>) -> Result<Option<TenantId>, StoreError> {
    let after = after.map(|tenant| (tenant, UserId::from_bytes([u8::MAX; 16])));
    Ok(repo::PENDING.list_after(tx, after.as_ref(), 1)?.first().map(|((tenant, _), _)| *tenant))
}

/// Whether people of a tenant wait for a role.
pub(crate) fn has_waiting(tx: &impl Read, tenant: TenantId) -> Result<bool, StoreError> {
    Ok(!repo::PENDING.list(tx, &KeyRange::prefix(&tenant.to_bytes()), 1)?.is_empty())
}

impl Service {
    /// Gives roles after people joined or left a group. Fails if one of a few people must keep their role: the client then learns it.
    pub(super) fn settle_members(&self, tx: &mut WriteTx, act: &mut Act, people: &BTreeSet<UserId>) -> Result<(), ScimError> {
        if people.len() > CHUNK {
            for user in people {
                repo::PENDING.put(tx, &(act.tenant_id, *user), &Pending { after: None })?;
            }
            return Ok(());
        }
        let rules = repo::rules(tx, act.tenant_id)?;
        for user in people {
            self.settle_person(tx, act, &rules, *user).map_err(ScimError::of_account)?;
        }
        Ok(())
    }

    /// Gives roles to some of those who wait. Returns whether others wait.
    pub(crate) fn settle_some(&self, tx: &mut WriteTx, act: &mut Act) -> Result<bool, ScimError> {
        let tenant = act.tenant_id;
        let rules = repo::rules(tx, tenant)?;
        let (mut people, mut left) = (Vec::new(), CHUNK);
        let everybody = repo::everybody(tenant);
        if let Some(Pending { after }) = repo::PENDING.get(tx, &everybody)? {
            people = repo::people_after(tx, tenant, after, CHUNK)?;
            left -= people.len();
            if left == 0 {
                repo::PENDING.put(tx, &everybody, &Pending { after: people.last().copied() })?;
            } else {
                repo::PENDING.remove(tx, &everybody)?;
            }
        }
        for ((_, user), _) in repo::PENDING.list(tx, &KeyRange::prefix(&tenant.to_bytes()), left)? {
            if (tenant, user) != everybody {
                repo::PENDING.remove(tx, &(tenant, user))?;
                people.push(user);
            }
        }
        for user in people {
            match self.settle_person(tx, act, &rules, user) {
                Ok(()) => {}
                Err(error) if keeps_role(&error) => {
                    tracing::warn!(%tenant, %user, reason = %error, "a provisioned person keeps their role");
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(has_waiting(tx, tenant)?)
    }

    fn settle_person(&self, tx: &mut WriteTx, act: &mut Act, rules: &RoleRules, id: UserId) -> Result<(), AuthError> {
        let key = (act.tenant_id, id);
        let (Some(user), Some(mut profile)) = (staff(tx, act.tenant_id, id)?, repo::profile(tx, key)?) else { return Ok(()) };
        let given = match rules::given_to(tx, rules, act.tenant_id, id)? {
            Some(given) => given,
            None if profile.ruled => rules.default_standing(tx, act.tenant_id)?,
            // Provisioning did not give the role of this account, so it does not take it away.
            None => return Ok(()),
        };
        let (role, organizations) = given;
        self.users.assign_standing(tx, act, &user, role, organizations.as_deref())?;
        if !profile.ruled {
            profile.ruled = true;
            repo::PROFILES.put(tx, &key, &profile)?;
        }
        Ok(())
    }
}

/// Whether somebody keeps their role because the tenant needs them, or because a role has no place left.
fn keeps_role(error: &AuthError) -> bool {
    matches!(
        error,
        AuthError::BreakGlassKept
            | AuthError::LastBreakGlass
            | AuthError::Directory(DirectoryError::LastAdmin | DirectoryError::Role(_) | DirectoryError::RoleMismatch)
    )
}
