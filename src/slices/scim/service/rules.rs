//! The rules that turn groups into roles.
//!
//! **Invariant:** rules decide who administers the tenant, so only somebody who covers an administrator can change them.

use serde_json::json;

use tenantd_auth::Manager;
use tenantd_base::{
    access::{Grants, Role, Scope, StaffRole},
    fault::Fault,
    id::{GroupId, OrganizationId, TenantId, UserId},
    versions::ExpectedVersion,
};
use tenantd_directory as directory;
use tenantd_store::{
    Read, StoreError, WriteTx,
    events::{self, Act, Changes, Describe, Draft, EventKind},
};

use super::{
    super::{
        error::ScimError,
        model::{MAX_LIMITS, MAX_RULES, RoleRule, RoleRules},
        repo,
    },
    Service,
};

pub(crate) static RULES_UPDATED: EventKind = EventKind {
    name: "provisioning_rules.updated",
    summary: "The roles that groups of an identity provider give were changed.",
    subject: "provisioning_rules",
    schema: "RoleRules",
    reads: Grants::of(&[Scope::UsersRead]),
    has_changes: true,
};

/// The rules that a caller asks for.
#[derive(Clone, Debug)]
pub(crate) struct NewRules {
    pub(crate) rules: Vec<RoleRule>,
    pub(crate) default_role: StaffRole,
    pub(crate) default_organization_ids: Option<Vec<OrganizationId>>,
}

/// A role, and the organizations that it reaches; `None` for the whole tenant.
pub(crate) type Given = (StaffRole, Option<Vec<OrganizationId>>);

impl RoleRules {
    /// What a person in these groups gets from the rules; `None` if no rule is about them.
    pub(crate) fn matched(&self, tx: &impl Read, tenant: TenantId, groups: &[GroupId]) -> Result<Option<Given>, StoreError> {
        let Some(rule) = self.rules.iter().find(|rule| groups.contains(&rule.group_id)) else { return Ok(None) };
        given(tx, tenant, rule.role, rule.organization_ids.as_deref()).map(Some)
    }

    /// What everybody else gets.
    pub(crate) fn default_standing(&self, tx: &impl Read, tenant: TenantId) -> Result<Given, StoreError> {
        given(tx, tenant, self.default_role, self.default_organization_ids.as_deref())
    }
}

/// What a rule gives. A role that no longer exists gives no record: another rule could give more than this one ever did.
fn given(tx: &impl Read, tenant: TenantId, role: StaffRole, ids: Option<&[OrganizationId]>) -> Result<Given, StoreError> {
    if !exists(tx, tenant, role)? {
        return Ok((Role::Viewer.into(), Some(Vec::new())));
    }
    Ok((role, known(tx, tenant, ids)?))
}

fn exists(tx: &impl Read, tenant: TenantId, role: StaffRole) -> Result<bool, StoreError> {
    role.custom().map_or(Ok(true), |id| Ok(directory::role(tx, tenant, id)?.is_some()))
}

/// The organizations that still exist, in order. Without any, the person reaches nothing.
fn known(tx: &impl Read, tenant: TenantId, ids: Option<&[OrganizationId]>) -> Result<Option<Vec<OrganizationId>>, StoreError> {
    let Some(ids) = ids else { return Ok(None) };
    let mut found = Vec::new();
    for id in ids {
        found.extend(directory::organization(tx, tenant, *id)?.map(|organization| organization.id));
    }
    found.sort_unstable();
    found.dedup();
    Ok(Some(found))
}

impl Service {
    pub(crate) fn replace_rules(
        tx: &mut WriteTx,
        act: &mut Act,
        manager: &Manager,
        expected: &ExpectedVersion,
        new: &NewRules,
    ) -> Result<RoleRules, ScimError> {
        let manager = &manager.now(tx, act)?;
        manager.check_every_account()?;
        let before = repo::rules(tx, act.tenant_id)?;
        expected.check(before.version)?;
        let NewRules { rules, default_role, default_organization_ids } = new.clone();
        let after = RoleRules { rules, default_role, default_organization_ids, version: before.version };
        check(tx, act.tenant_id, manager, &after)?;
        if after == before {
            return Ok(before);
        }
        let after = store(tx, act, &before, after)?;
        repo::queue_everybody(tx, act.tenant_id)?;
        Ok(after)
    }
}

/// Removes the rules for a group. Returns whether there were any.
pub(super) fn forget_group(tx: &mut WriteTx, act: &mut Act, group: GroupId) -> Result<bool, ScimError> {
    let before = repo::rules(tx, act.tenant_id)?;
    if !before.names(group) {
        return Ok(false);
    }
    let mut after = before.clone();
    after.rules.retain(|rule| rule.group_id != group);
    store(tx, act, &before, after)?;
    Ok(true)
}

fn store(tx: &mut WriteTx, act: &mut Act, before: &RoleRules, after: RoleRules) -> Result<RoleRules, ScimError> {
    let after = RoleRules { version: before.version + 1, ..after };
    repo::RULES.put(tx, &act.tenant_id, &after)?;
    let fields = |rules: &RoleRules| {
        let RoleRules { rules, default_role, default_organization_ids, version: _ } = rules;
        json!({"rules": rules, "default_role": default_role, "default_organization_ids": default_organization_ids})
    };
    let changes = Changes::between(&fields(before), &fields(&after));
    let (shown, id) = (after.describe(())?, act.tenant_id.to_string());
    events::append(tx, act, &Draft::new(&RULES_UPDATED, id, after.version, &shown).with_changes(Some(&changes)))?;
    Ok(after)
}

/// Checks that the groups, roles and organizations exist, and that the roles fit the tenant.
fn check(tx: &impl Read, tenant: TenantId, manager: &Manager, rules: &RoleRules) -> Result<(), ScimError> {
    let mut faults = Vec::new();
    if rules.rules.len() > MAX_RULES {
        faults.push(Fault::new("/rules", "too_many", format!("there can be at most {MAX_RULES} rules")));
    }
    for (place, rule) in rules.rules.iter().enumerate() {
        let pointer = format!("/rules/{place}/group_id");
        if repo::group(tx, (tenant, rule.group_id))?.is_none() {
            faults.push(Fault::new(pointer, "not_found", format!("group {} does not exist", rule.group_id)));
        } else if rules.rules.iter().take(place).any(|other| other.group_id == rule.group_id) {
            faults.push(Fault::new(pointer, "duplicate", "another rule is about the same group; only the first one would count"));
        }
    }
    for (pointer, role) in rules.roles() {
        if manager.check_place(role).is_err() {
            faults.push(Fault::new(pointer, "role_mismatch", format!("nobody in this tenant can have the role {role}")));
        } else if !exists(tx, tenant, role)? {
            faults.push(Fault::new(pointer, "not_found", format!("role {role} does not exist")));
        }
    }
    let lists = rules.rules.iter().map(|rule| &rule.organization_ids).chain([&rules.default_organization_ids]);
    if lists.flatten().any(|ids| ids.len() > MAX_LIMITS) {
        faults.push(Fault::new("/rules", "too_many", format!("a rule can name at most {MAX_LIMITS} organizations")));
        return Err(ScimError::Invalid(faults));
    }
    for (pointer, id) in rules.organizations() {
        if directory::organization(tx, tenant, id)?.is_none() {
            faults.push(Fault::new(pointer, "not_found", format!("organization {id} does not exist")));
        }
    }
    if faults.is_empty() { Ok(()) } else { Err(ScimError::Invalid(faults)) }
}

/// What a person gets from the rules, and whether a rule is about them.
pub(super) fn given_to(tx: &impl Read, rules: &RoleRules, tenant: TenantId, user: UserId) -> Result<Option<Given>, StoreError> {
    rules.matched(tx, tenant, &repo::groups_of(tx, (tenant, user))?)
}
