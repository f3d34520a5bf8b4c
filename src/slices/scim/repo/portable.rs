//! Exports and imports groups, profiles, memberships and role rules. A file that nobody vouches for must not decide who gets which
//! role, so its rules are left out.

use serde_json::Value;

use tenantd_base::access::{Role, StaffRole};
use tenantd_directory as directory;
use tenantd_store::{
    WriteTx,
    portable::{Arrival, Carrier, PortError, Portable, refuse_orphans},
};

use super::{
    super::model::{Group, MAX_GROUPS, MAX_LIMITS, MAX_MEMBERS, MAX_RULES, Person, Profile, RoleRules},
    GROUPS, MEMBERS, MemberKey, PROFILES, PersonKey, RULES, group, put_group, queue_everybody,
};

/// `fields` checks a group against the limits of the API.
pub(crate) fn portable(fields: impl Fn(&Value) -> Result<(), String> + Send + Sync + 'static) -> Vec<Box<dyn Portable>> {
    let profiles = Carrier::turning(
        "provisioned",
        &PROFILES,
        |_, key, profile| Ok(Some((key, profile))),
        // A file can have the name of an account as it was when provisioning took the account over.
        |_: &mut Arrival, key, profile: Profile| Ok(Some((key, profile.cleaned()))),
    );
    let profiles = profiles.examined(|_, _, profile| check_profile(profile)).kept_by(|tx, key, profile| {
        check_staff(tx, *key)?;
        Ok(PROFILES.put(tx, key, profile)?)
    });
    let groups = Carrier::plain("provisioned_group", &GROUPS, |_, _, _| Ok(()));
    // The members of the group follow, and are counted again.
    let groups = groups.within(fields).at_most(MAX_GROUPS as u64).kept_by(|tx, key, group| {
        let group = Group { tenant_id: key.0, id: key.1, member_count: 0, ..group.clone() };
        Ok(put_group(tx, &group)?)
    });
    let members = Carrier::plain("provisioned_member", &MEMBERS, |_, _, _| Ok(()));
    let members = members.kept_by(|tx, key, member| {
        let (tenant, group_id, user) = *key;
        check_staff(tx, (tenant, user))?;
        let none = || PortError::Wrong(format!("the group {group_id} of a member is not in the file"));
        let mut group = group(tx, (tenant, group_id))?.ok_or_else(none)?;
        group.member_count += 1;
        if group.member_count as usize > MAX_MEMBERS {
            return Err(PortError::Wrong(format!("the group {group_id} has too many members")));
        }
        put_group(tx, &group)?;
        Ok(MEMBERS.put(tx, key, member)?)
    });
    let members = members.verified_by(|tx, arrival| {
        let exists = |key: &PersonKey| Ok(PROFILES.get(tx, key)?.is_some());
        refuse_orphans(
            tx,
            arrival.tenant,
            ("provisioned_member", &MEMBERS),
            |(tenant, _, user): &MemberKey| (*tenant, *user),
            exists,
        )
    });
    let rules = Carrier::turning(
        "provisioning_rules",
        &RULES,
        |_, key, rules| Ok(Some((key, rules))),
        |arrival: &mut Arrival, key, rules: RoleRules| {
            if !arrival.is_verified() {
                arrival.switch_off("provisioning rules", "roles of groups");
                return Ok(None);
            }
            Ok(Some((key, rules)))
        },
    );
    let rules = rules.examined(|_, _, rules| check_rules(rules)).kept_by(|tx, tenant, rules| {
        for rule in &rules.rules {
            if group(tx, (*tenant, rule.group_id))?.is_none() {
                return Err(PortError::Wrong(format!("the group {} of a rule is not in the file", rule.group_id)));
            }
        }
        RULES.put(tx, tenant, rules)?;
        // The file does not have the roles that were still to be given when it was made.
        Ok(queue_everybody(tx, *tenant)?)
    });
    vec![profiles.boxed(), groups.boxed(), members.boxed(), rules.boxed()]
}

/// Profiles and memberships are those of staff.
fn check_staff(tx: &WriteTx, (tenant, user): PersonKey) -> Result<(), PortError> {
    match directory::user(tx, tenant, user)?.filter(|user| user.role().is_some()) {
        Some(_) => Ok(()),
        None => Err(PortError::Wrong(format!("the user {user} of a provisioned person is not in the file, or is no staff"))),
    }
}

/// Checks the texts of a profile as the protocol does.
fn check_profile(profile: &Profile) -> Result<(), PortError> {
    let person = Person {
        user_name: profile.user_name.clone().unwrap_or_else(|| "address".to_owned()),
        external_id: profile.external_id.clone(),
        formatted: profile.formatted.clone(),
        given_name: profile.given_name.clone(),
        family_name: profile.family_name.clone(),
        display_name: profile.display_name.clone(),
        emails: profile.emails.clone(),
        active: true,
        locale: profile.locale.clone(),
        timezone: profile.timezone.clone(),
    };
    let read = Person::read(&person.to_value(), true).map_err(|error| PortError::Wrong(error.to_string()))?;
    if read == person { Ok(()) } else { Err(PortError::wrong("its texts are not in their normal form")) }
}

fn check_rules(rules: &RoleRules) -> Result<(), PortError> {
    let mut lists = rules.rules.iter().map(|rule| &rule.organization_ids).chain([&rules.default_organization_ids]);
    let fits = |ids: &Option<Vec<_>>| ids.as_ref().is_none_or(|ids| ids.len() <= MAX_LIMITS);
    if rules.rules.len() > MAX_RULES || !lists.all(fits) {
        return Err(PortError::wrong("there are too many rules or organizations"));
    }
    let is_operator = |(_, role): (String, StaffRole)| role.is(Role::Operator);
    if rules.roles().any(is_operator) {
        return Err(PortError::wrong("operator is a role of the platform tenant"));
    }
    Ok(())
}
