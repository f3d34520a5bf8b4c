//! Changes who needs a second factor, and whether people may have personal keys. The policy counts from the next request on: a session
//! that lacks a factor is limited until its person adds or proves one.

use serde_json::json;

use tenantd_base::{
    access::{Grants, Scope, StaffRole},
    fault::Fault,
    versions::ExpectedVersion,
};
use tenantd_store::{
    WriteTx,
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
    check_places(manager, &new.required_for)?;
    let before = policy_of(tx, act.tenant_id)?;
    expected.check(before.version)?;
    let mut required_for = new.required_for.clone();
    required_for.sort_unstable();
    required_for.dedup();
    let personal_keys = new.personal_keys.unwrap_or(before.personal_keys);
    let after = SignInPolicy { required_for, with_sso: new.with_sso, version: before.version, personal_keys };
    if after == before {
        return Ok(before);
    }
    let after = SignInPolicy { version: before.version + 1, ..after };
    POLICIES.put(tx, &act.tenant_id, &after)?;
    let fields = |policy: &SignInPolicy| {
        let SignInPolicy { required_for, with_sso, personal_keys, version: _ } = policy;
        json!({"required_for": required_for, "with_sso": with_sso, "personal_keys": personal_keys.name()})
    };
    let changes = Changes::between(&fields(&before), &fields(&after));
    let (shown, id) = (after.describe(())?, act.tenant_id.to_string());
    events::append(tx, act, &Draft::new(&POLICY_UPDATED, id, after.version, &shown).with_changes(Some(&changes)))?;
    Ok(after)
}

/// A role that nobody in the tenant can have would be a mistake.
fn check_places(manager: &Manager, roles: &[StaffRole]) -> Result<(), AuthError> {
    let wrong = roles.iter().enumerate().filter(|(_, role)| manager.check_place(**role).is_err());
    let fault = |(place, role): (usize, &StaffRole)| {
        let message = format!("nobody in this tenant can have the role {role}");
        Fault::new(format!("/second_factor/required_for/{place}"), "role_mismatch", message)
    };
    let faults: Vec<Fault> = wrong.map(fault).collect();
    if faults.is_empty() { Ok(()) } else { Err(AuthError::Invalid(faults)) }
}
