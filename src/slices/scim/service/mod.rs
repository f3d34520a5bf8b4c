//! The use cases of provisioning. Every method runs in the caller's transaction: it checks, writes and appends the event.
//!
//! **Invariant:** provisioning changes only staff of its tenant, never contacts. It removes only people that it manages: those that it
//! created, changed or put into a group.

mod groups;
mod people;
mod rules;
mod settle;

use tenantd_auth::Users;
use tenantd_base::id::{RoleId, TenantId, UserId};
use tenantd_directory::{self as directory, User};
use tenantd_store::{Read, StoreError, WriteTx, events::Act};

use super::repo;

pub(super) use groups::{GROUP_CREATED, GROUP_REMOVED, GROUP_UPDATED, MEMBERS};
pub(super) use people::{Account, groups_of, people_named, person, shown_version};
pub(super) use rules::{NewRules, RULES_UPDATED};
pub(super) use settle::{CHUNK, has_waiting, waiting};

#[derive(Clone, Debug)]
pub(super) struct Service {
    pub(super) users: Users,
}

/// A member of staff. Contacts do not exist for provisioning.
pub(super) fn staff(tx: &impl Read, tenant: TenantId, id: UserId) -> Result<Option<User>, StoreError> {
    Ok(directory::user(tx, tenant, id)?.filter(|user| user.role().is_some()))
}

/// Counts the rules that give a custom role.
pub fn role_rules(tx: &WriteTx, tenant: TenantId, role: RoleId) -> Result<u64, StoreError> {
    Ok(repo::rules(tx, tenant)?.count_giving(role))
}

/// Removes what provisioning knows about a person whose account is removed.
pub fn person_removed(tx: &mut WriteTx, act: &Act, user: UserId) -> Result<(), StoreError> {
    let key = (act.tenant_id, user);
    for id in repo::groups_of(tx, key)? {
        repo::MEMBERS.remove(tx, &(act.tenant_id, id, user))?;
        if let Some(mut group) = repo::group(tx, (act.tenant_id, id))? {
            group.member_count = group.member_count.saturating_sub(1);
            group.updated_at = act.now;
            group.version += 1;
            repo::put_group(tx, &group)?;
        }
    }
    repo::PENDING.remove(tx, &key)?;
    repo::PROFILES.remove(tx, &key)?;
    Ok(())
}
