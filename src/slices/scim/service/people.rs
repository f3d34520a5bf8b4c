//! People: creates, changes and removes accounts as a client of the protocol asks for.

use tenantd_base::{
    change::Change,
    id::{TenantId, UserId},
    secrets::digest,
    versions::ExpectedVersion,
};
use tenantd_directory::{self as directory, NewUser, Standing, User, UserChange, UserStatus};
use tenantd_store::{Read, StoreError, WriteTx, events::Act};

use super::{
    super::{
        error::ScimError,
        model::{Group, Person, Profile},
        repo,
    },
    Service, staff,
};

/// An account with its profile, if provisioning manages it.
pub(crate) type Account = (User, Option<Profile>);

impl Service {
    pub(crate) fn create_person(&self, tx: &mut WriteTx, act: &mut Act, person: &Person) -> Result<Account, ScimError> {
        self.users.check_provisioner(tx, act)?;
        let email = person.address()?;
        check_user_name(tx, act.tenant_id, None, &person.user_name)?;
        check_no_contact(tx, act.tenant_id, &email)?;
        let rules = repo::rules(tx, act.tenant_id)?;
        let (role, organization_ids) = rules.default_standing(tx, act.tenant_id)?;
        let standing = Standing::Staff { role, organization_ids };
        let new = NewUser { external_id: None, email: Some(email.clone()), name: person.name(), standing };
        let mut user = self.users.create_provisioned(tx, act, &new).map_err(ScimError::of_account)?;
        let profile = person.profile(&email, true, act.now);
        repo::PROFILES.put(tx, &(act.tenant_id, user.id), &profile)?;
        if !person.active {
            let change = UserChange { status: Some(UserStatus::Disabled), ..UserChange::default() };
            user = self.users.update_provisioned(tx, act, &user, &ExpectedVersion::Any, &change).map_err(ScimError::of_account)?;
        }
        Ok((user, Some(profile)))
    }

    /// Changes an account to what `change` makes of it. An account that provisioning did not manage is managed from now on.
    pub(crate) fn update_person(
        &self,
        tx: &mut WriteTx,
        act: &mut Act,
        id: UserId,
        expected: &ExpectedVersion,
        change: impl Fn(&Person) -> Result<Person, ScimError>,
    ) -> Result<Account, ScimError> {
        self.users.check_provisioner(tx, act)?;
        let user = staff(tx, act.tenant_id, id)?.ok_or(ScimError::NotFound)?;
        check_version(tx, &user, expected)?;
        let old = repo::profile(tx, (act.tenant_id, id))?;
        let before = Person::of(&user, old.as_ref());
        let mut after = change(&before)?;
        after.follow_user_name(&before);
        let email = after.address()?;
        if after.user_name != before.user_name {
            check_user_name(tx, act.tenant_id, Some(id), &after.user_name)?;
        }
        if user.email.as_ref() != Some(&email) {
            check_no_contact(tx, act.tenant_id, &email)?;
        }
        let status = if after.active { UserStatus::Active } else { UserStatus::Disabled };
        let change = UserChange {
            name: (after.name() != before.name()).then(|| after.name()),
            email: (user.email.as_ref() != Some(&email)).then(|| email.clone()),
            status: (status != user.status).then_some(status),
            organization_id: Change::Keep,
            ..UserChange::default()
        };
        let changed =
            self.users.update_provisioned(tx, act, &user, &ExpectedVersion::Any, &change).map_err(ScimError::of_account)?;
        let (ruled, since) = old.as_ref().map_or((false, act.now), |profile| (profile.ruled, profile.since));
        let profile = after.profile(&email, ruled, since);
        if old.as_ref() == Some(&profile) {
            return Ok((changed, Some(profile)));
        }
        repo::PROFILES.put(tx, &(act.tenant_id, id), &profile)?;
        let is_shown = changed.version == user.version && after != before;
        let changed =
            if is_shown { self.users.touch_provisioned(tx, act, changed).map_err(ScimError::of_account)? } else { changed };
        Ok((changed, Some(profile)))
    }

    /// Removes a managed account with its sessions and credentials.
    pub(crate) fn remove_person(
        &self,
        tx: &mut WriteTx,
        act: &mut Act,
        id: UserId,
        expected: &ExpectedVersion,
    ) -> Result<(), ScimError> {
        self.users.check_provisioner(tx, act)?;
        let user = staff(tx, act.tenant_id, id)?.ok_or(ScimError::NotFound)?;
        check_version(tx, &user, expected)?;
        if repo::profile(tx, (act.tenant_id, id))?.is_none() {
            return Err(ScimError::NotManaged);
        }
        self.users.remove_provisioned(tx, act, id, &ExpectedVersion::Any).map_err(ScimError::of_account)
    }
}

/// A member of staff with their profile.
pub(crate) fn person(tx: &impl Read, tenant: TenantId, id: UserId) -> Result<Option<Account>, StoreError> {
    let Some(user) = staff(tx, tenant, id)? else { return Ok(None) };
    let profile = repo::profile(tx, (tenant, id))?;
    Ok(Some((user, profile)))
}

/// The groups of a person.
pub(crate) fn groups_of(tx: &impl Read, tenant: TenantId, user: UserId) -> Result<Vec<Group>, StoreError> {
    let found = repo::groups_of(tx, (tenant, user))?.into_iter().filter_map(|id| repo::group(tx, (tenant, id)).transpose());
    found.collect()
}

/// The version that clients see. A client also sees the groups of a person, which change without the account. So for a person in
/// groups it is no count, but a digest of the version of the account and of these groups.
pub(crate) fn shown_version(user: &User, groups: &[Group]) -> u64 {
    if groups.is_empty() {
        return user.version;
    }
    let mut seen = user.version.to_be_bytes().to_vec();
    for group in groups {
        seen.extend_from_slice(group.id.as_bytes());
        seen.extend_from_slice(&(group.display_name.len() as u64).to_be_bytes());
        seen.extend_from_slice(group.display_name.as_bytes());
    }
    // A tag has at most 19 digits.
    digest(&seen).iter().take(8).fold(0_u64, |number, byte| (number << 8) | u64::from(*byte)) >> 1
}

/// Checks that a client has seen the person as they are now, with their groups.
fn check_version(tx: &impl Read, user: &User, expected: &ExpectedVersion) -> Result<(), ScimError> {
    if expected.is_given() {
        expected.check(shown_version(user, &groups_of(tx, user.tenant_id, user.id)?))?;
    }
    Ok(())
}

/// The people who may have this user name: those whose profile has it, and the owner of the address.
pub(crate) fn people_named(tx: &impl Read, tenant: TenantId, name: &str) -> Result<Vec<UserId>, StoreError> {
    let mut found = repo::by_user_name(tx, tenant, name)?;
    found.extend(directory::person_by_email(tx, tenant, name)?.map(|label| label.id));
    found.sort_unstable();
    found.dedup();
    Ok(found)
}

/// Checks that nobody else has this user name. The address of another person counts, also if they have another user name.
fn check_user_name(tx: &impl Read, tenant: TenantId, own: Option<UserId>, name: &str) -> Result<(), ScimError> {
    check_no_contact(tx, tenant, name)?;
    let is_taken = people_named(tx, tenant, name)?.into_iter().any(|id| Some(id) != own);
    if is_taken { Err(ScimError::taken()) } else { Ok(()) }
}

/// Checks that no contact has this address. The client cannot see contacts, so it would find nobody to change.
fn check_no_contact(tx: &impl Read, tenant: TenantId, address: &str) -> Result<(), ScimError> {
    let Some(person) = directory::person_by_email(tx, tenant, address)? else { return Ok(()) };
    if staff(tx, tenant, person.id)?.is_some() { Ok(()) } else { Err(ScimError::taken_by_contact(person.id)) }
}
