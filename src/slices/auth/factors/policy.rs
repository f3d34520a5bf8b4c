//! Changes who needs a second factor, and whether people may have personal keys. The policy counts from the next request on: a session
//! that lacks a factor is limited until its person adds or proves one.

use serde_json::json;

use tenantd_base::{
    access::{Grants, Scope, StaffRole},
    fault::Fault,
    id::RoleId,
    versions::ExpectedVersion,
};
use tenantd_directory as directory;
use tenantd_store::{
    Read, WriteTx,
    events::{self, Act, Changes, Describe, Draft, EventKind},
};

use super::super::{
    accounts::Manager,
    error::AuthError,
    model::{PersonalKeys, SignInPolicy},
    repo::factors::{POLICIES, policy_of},
};

pub(crate) static POLICY_UPDATED: EventKind = EventKind {
    name: "sign_in_policy.updated",
    summary: "The sign-in policy of the tenant was changed.",
    subject: "sign_in_policy",
    schema: "SignInPolicy",
    reads: Grants::of(&[Scope::UsersRead]),
    has_changes: true,
};

/// The policy that a caller asks for.
#[derive(Clone, Debug)]
pub(crate) struct NewPolicy {
    pub(crate) required_for: Vec<StaffRole>,
    pub(crate) with_sso: bool,
    /// `None` keeps what the policy says.
    pub(crate) personal_keys: Option<PersonalKeys>,
}

pub(crate) fn replace_policy(
    tx: &mut WriteTx,
    act: &mut Act,
    manager: &Manager,
    expected: &ExpectedVersion,
    new: &NewPolicy,
) -> Result<SignInPolicy, AuthError> {
    let manager = &manager.now(tx, act)?;
    manager.check_every_account()?;
    check_roles(tx, act, manager, &new.required_for)?;
    let before = policy_of(tx, act.tenant_id)?;
    expected.check(before.version)?;
    let mut required_for = new.required_for.clone();
    required_for.sort_unstable();
    required_for.dedup();
    let personal_keys = new.personal_keys.unwrap_or(before.personal_keys);
    let after = SignInPolicy { required_for, with_sso: new.with_sso, version: before.version, personal_keys };
    if after == before { Ok(before) } else { store(tx, act, &before, after) }
}

/// Removes a role that no longer exists from the policy.
pub(crate) fn forget_role(tx: &mut WriteTx, act: &mut Act, id: RoleId) -> Result<(), AuthError> {
    let before = policy_of(tx, act.tenant_id)?;
    let mut after = before.clone();
    after.required_for.retain(|role| *role != StaffRole::Custom(id));
    if after == before { Ok(()) } else { store(tx, act, &before, after).map(drop) }
}

fn store(tx: &mut WriteTx, act: &mut Act, before: &SignInPolicy, after: SignInPolicy) -> Result<SignInPolicy, AuthError> {
    let after = SignInPolicy { version: before.version + 1, ..after };
    POLICIES.put(tx, &act.tenant_id, &after)?;
    let fields = |policy: &SignInPolicy| {
        let SignInPolicy { required_for, with_sso, personal_keys, version: _ } = policy;
        json!({"required_for": required_for, "with_sso": with_sso, "personal_keys": personal_keys.name()})
    };
    let changes = Changes::between(&fields(before), &fields(&after));
    let (shown, id) = (after.describe(())?, act.tenant_id.to_string());
    events::append(tx, act, &Draft::new(&POLICY_UPDATED, id, after.version, &shown).with_changes(Some(&changes)))?;
    Ok(after)
}

/// Checks that people of the tenant can have these roles. A typing error would protect nobody.
fn check_roles(tx: &impl Read, act: &Act, manager: &Manager, roles: &[StaffRole]) -> Result<(), AuthError> {
    let mut faults = Vec::new();
    for (place, role) in roles.iter().enumerate() {
        let is_known = match role {
            StaffRole::BuiltIn(_) => true,
            StaffRole::Custom(id) => directory::role(tx, act.tenant_id, *id)?.is_some(),
        };
        let (code, message) = if !is_known {
            ("unknown_reference", format!("the role {role} does not exist"))
        } else if manager.check_place(*role).is_err() {
            ("role_mismatch", format!("nobody in this tenant can have the role {role}"))
        } else {
            continue;
        };
        faults.push(Fault::new(format!("/second_factor/required_for/{place}"), code, message));
    }
    if faults.is_empty() { Ok(()) } else { Err(AuthError::Invalid(faults)) }
}
