//! Creates, changes and removes custom roles. The `auth` slice checks that the caller covers them, and reduces the rights of their
//! members.

use serde_json::json;

use tenantd_base::{
    access::{Generation, Grants, Scope, StaffRole, TenantKind},
    authority::{Authority, Within},
    id::{RoleId, TenantId},
    letters::{fold, is_unseen},
    versions::ExpectedVersion,
};
use tenantd_store::{
    Read, StoreError, WriteTx,
    events::{Act, Changes, Describe, EventKind},
};

use super::{
    super::{
        error::{DirectoryError, RoleError},
        model::{CustomRole, MAX_MEMBERS, MAX_ROLES, NewRole, RoleChange, RoleLabel, Standing, User},
        repo::roles as repo,
    },
    Directory, announce,
};

/// The names of the built-in roles, as the API and the console show them.
const BUILT_IN_NAMES: [&str; 5] = ["admin", "administrator", "technician", "viewer", "operator"];

pub(crate) static ROLE_CREATED: EventKind = EventKind {
    name: "role.created",
    summary: "A custom role was created.",
    subject: "role",
    schema: "CustomRole",
    reads: Grants::of(&[Scope::UsersRead]),
    has_changes: false,
};
pub(crate) static ROLE_UPDATED: EventKind =
    EventKind { name: "role.updated", summary: "A custom role was changed.", has_changes: true, ..ROLE_CREATED };
pub(crate) static ROLE_REMOVED: EventKind =
    EventKind { name: "role.removed", summary: "A custom role was removed.", ..ROLE_CREATED };

/// The scopes of a role. A custom role that does not exist grants nothing.
pub fn role_grants(tx: &impl Read, tenant: TenantId, role: StaffRole, kind: TenantKind) -> Result<Grants, StoreError> {
    match role {
        StaffRole::BuiltIn(role) => Ok(role.grants_in(kind)),
        StaffRole::Custom(id) => Ok(repo::get(tx, tenant, id)?.map_or(Grants::NONE, |role| role.grants())),
    }
}

/// What a member of staff may do in a tenant of this kind; `None` for contacts.
pub fn staff_authority(tx: &impl Read, user: &User, kind: TenantKind) -> Result<Option<Authority>, StoreError> {
    standing_authority(tx, user.tenant_id, &user.standing, kind)
}

/// What a person with this standing may do in a tenant of this kind; `None` for contacts.
pub fn standing_authority(
    tx: &impl Read,
    tenant: TenantId,
    standing: &Standing,
    kind: TenantKind,
) -> Result<Option<Authority>, StoreError> {
    let Standing::Staff { role, organization_ids } = standing else { return Ok(None) };
    let grants = role_grants(tx, tenant, *role, kind)?;
    let within = organization_ids.as_ref().map_or(Within::All, |ids| Within::Only(ids.iter().copied().collect()));
    Ok(Some(Authority::new(tenant, grants).with_organizations(within)))
}

/// The name of a custom role, if the tenant has it.
pub(crate) fn role_label(tx: &impl Read, tenant: TenantId, id: RoleId) -> Result<Option<RoleLabel>, StoreError> {
    Ok(repo::get(tx, tenant, id)?.map(|role| RoleLabel { id, name: role.name }))
}

/// Checks that a role exists and can have one more member.
pub(crate) fn check_role(tx: &impl Read, tenant: TenantId, role: StaffRole) -> Result<(), DirectoryError> {
    let Some(id) = role.custom() else { return Ok(()) };
    if repo::get(tx, tenant, id)?.is_none() {
        return Err(RoleError::Unknown.into());
    }
    let members = repo::members(tx, (tenant, id), MAX_MEMBERS)?.len();
    if members < MAX_MEMBERS { Ok(()) } else { Err(RoleError::Full { most: MAX_MEMBERS }.into()) }
}

impl Directory {
    pub fn create_role(&self, tx: &mut WriteTx, act: &mut Act, new: &NewRole) -> Result<CustomRole, DirectoryError> {
        if repo::list(tx, act.tenant_id, MAX_ROLES)?.len() == MAX_ROLES {
            return Err(RoleError::TooMany { most: MAX_ROLES }.into());
        }
        check_name(tx, act.tenant_id, &new.name, None)?;
        let role = CustomRole {
            tenant_id: act.tenant_id,
            id: RoleId::new(act.now, &mut act.entropy),
            name: new.name.clone(),
            description: new.description.clone(),
            scopes: new.scopes.clone(),
            generation: Generation::CURRENT,
            created_at: act.now,
            updated_at: act.now,
            version: 1,
        };
        repo::put(tx, &role)?;
        announce_role(tx, act, &ROLE_CREATED, &role, None)?;
        Ok(role)
    }

    /// Changes a role and returns it before and after. New scopes give wildcards the meaning of this release.
    pub fn update_role(
        &self,
        tx: &mut WriteTx,
        act: &mut Act,
        id: RoleId,
        expected: &ExpectedVersion,
        change: &RoleChange,
    ) -> Result<(CustomRole, CustomRole), DirectoryError> {
        let before = repo::get(tx, act.tenant_id, id)?.ok_or(DirectoryError::NotFound)?;
        expected.check(before.version)?;
        let mut after = before.clone();
        after.name = change.name.clone().unwrap_or(after.name);
        after.description = change.description.clone().apply(after.description);
        if let Some(scopes) = change.scopes.as_ref().filter(|scopes| **scopes != before.scopes) {
            after.scopes.clone_from(scopes);
            after.generation = Generation::CURRENT;
        }
        if after == before {
            return Ok((before, after));
        }
        if after.name != before.name {
            check_name(tx, act.tenant_id, &after.name, Some(id))?;
        }
        after.updated_at = act.now;
        after.version += 1;
        repo::put(tx, &after)?;
        announce_role(tx, act, &ROLE_UPDATED, &after, Some(changes(&before, &after)))?;
        Ok((before, after))
    }

    /// Removes a role that nobody has. `rules` is how many rules of other slices give it.
    pub fn remove_role(
        &self,
        tx: &mut WriteTx,
        act: &mut Act,
        id: RoleId,
        expected: &ExpectedVersion,
        rules: u64,
    ) -> Result<(), DirectoryError> {
        let role = repo::get(tx, act.tenant_id, id)?.ok_or(DirectoryError::NotFound)?;
        expected.check(role.version)?;
        let users = repo::members(tx, (act.tenant_id, id), MAX_MEMBERS)?.len() as u64;
        if users > 0 || rules > 0 {
            return Err(RoleError::InUse { users, rules }.into());
        }
        repo::remove(tx, (act.tenant_id, id))?;
        announce_role(tx, act, &ROLE_REMOVED, &role, None)
    }
}

/// Checks that people cannot confuse the name with that of another role.
fn check_name(tx: &impl Read, tenant: TenantId, name: &str, own: Option<RoleId>) -> Result<(), DirectoryError> {
    let wanted = as_read(name);
    if BUILT_IN_NAMES.contains(&wanted.as_str()) {
        return Err(RoleError::BuiltInName.into());
    }
    let is_taken = repo::list(tx, tenant, MAX_ROLES)?.iter().any(|role| Some(role.id) != own && as_read(&role.name) == wanted);
    if is_taken { Err(RoleError::NameTaken.into()) } else { Ok(()) }
}

/// A name as people read it: without case, accents, characters that nobody sees, and repeated spaces.
fn as_read(name: &str) -> String {
    let seen = |word: &str| word.chars().filter(|letter| !is_unseen(*letter)).collect::<String>();
    let words: Vec<String> = name.split_whitespace().map(seen).filter(|word| !word.is_empty()).collect();
    fold(&words.join(" "))
}

fn announce_role(
    tx: &mut WriteTx,
    act: &mut Act,
    kind: &'static EventKind,
    role: &CustomRole,
    changes: Option<Changes>,
) -> Result<(), DirectoryError> {
    let shown = role.describe(())?;
    announce(tx, act, kind, (role.id.to_string(), role.version), &shown, changes)
}

fn changes(before: &CustomRole, after: &CustomRole) -> Changes {
    let fields = |role: &CustomRole| json!({"name": role.name, "description": role.description, "scopes": role.scopes});
    Changes::between(&fields(before), &fields(after))
}

#[cfg(test)]
mod tests {
    use tenantd_base::access::Role;

    use super::*;

    #[test]
    fn names_that_look_alike_are_the_same() {
        for name in ["help desk", "Help Desk", "  Help \t Desk ", "Help\u{a0}Desk", "He\u{200b}lp D\u{e9}sk"] {
            assert_eq!(as_read(name), "help desk", "{name:?}");
        }
        assert_ne!(as_read("Helpdesk"), as_read("Help desk"));
    }

    #[test]
    fn the_words_of_all_built_in_roles_are_reserved() {
        for role in Role::ALL {
            assert!(BUILT_IN_NAMES.contains(&role.name()), "{}", role.name());
        }
    }
}
