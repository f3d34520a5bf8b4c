//! Creates, changes and removes people. The `auth` slice owns their passwords and sessions, and combines these use cases with its
//! own.

use serde_json::{json, value::RawValue};

use tenantd_base::{
    access::{Grants, Reach, Role, Scope, StaffRole},
    change::Change,
    clock::Timestamp,
    id::{OrganizationId, TenantId, UserId},
    versions::ExpectedVersion,
};
use tenantd_store::{
    Direction, Flow, Key, KeyRange, Read, StoreError, WriteTx,
    events::{Act, Changes, Describe, EventKind},
};

use super::{
    super::{
        error::{DirectoryError, RoleError},
        model::{ContactChange, LinkedIdentity, NewUser, Standing, User, UserLabels, UserStatus, normalize_email},
        repo::{organizations, users as repo},
    },
    Directory, announce,
    roles::{check_role, role_label},
};

pub(crate) static USER_CREATED: EventKind = EventKind {
    name: "user.created",
    summary: "A user was created.",
    subject: "user",
    schema: "User",
    reads: Grants::of(&[Scope::UsersRead]),
    has_changes: false,
};
pub(crate) static USER_UPDATED: EventKind =
    EventKind { name: "user.updated", summary: "A user or their password was changed.", has_changes: true, ..USER_CREATED };
pub(crate) static USER_REMOVED: EventKind = EventKind { name: "user.removed", summary: "A user was removed.", ..USER_CREATED };

/// A change to a user.
#[derive(Clone, Debug, Default)]
pub struct UserChange {
    pub name: Option<String>,
    pub email: Option<String>,
    pub role: Option<StaffRole>,
    pub organization_id: Change<OrganizationId>,
    /// The organizations that a member of staff is limited to.
    pub organization_ids: Change<Vec<OrganizationId>>,
    pub status: Option<UserStatus>,
    pub external_id: Change<String>,
}

impl Directory {
    pub fn create_user(&self, tx: &mut WriteTx, act: &mut Act, new: &NewUser) -> Result<User, DirectoryError> {
        let email = new.email.as_deref().map(normalize_email).transpose();
        let (email, ()) = DirectoryError::both(email, check_standing(tx, act, None, &new.standing))?;
        let user = User {
            id: UserId::new(act.now, &mut act.entropy),
            tenant_id: act.tenant_id,
            external_id: new.external_id.clone(),
            email,
            name: new.name.clone(),
            standing: in_order(new.standing.clone()),
            status: UserStatus::Active,
            created_at: act.now,
            updated_at: act.now,
            last_login_at: None,
            sso: None,
            version: 1,
        };
        check_names(tx, None, &user)?;
        repo::put(tx, &user)?;
        organizations::move_member(tx, act.tenant_id, None, user.organization_id(), |members| &mut members.contacts)?;
        self.announce_user(tx, act, &USER_CREATED, &user, None)?;
        Ok(user)
    }

    /// Creates a contact in the caller's transaction.
    pub fn create_contact(
        &self,
        tx: &mut WriteTx,
        act: &mut Act,
        name: &str,
        email: Option<&str>,
        organization_id: Option<OrganizationId>,
    ) -> Result<User, DirectoryError> {
        let standing = Standing::Contact { organization_id };
        let new = NewUser { external_id: None, email: email.map(str::to_owned), name: name.to_owned(), standing };
        self.create_user(tx, act, &new)
    }

    pub fn update_user(
        &self,
        tx: &mut WriteTx,
        act: &mut Act,
        id: UserId,
        expected: &ExpectedVersion,
        change: &UserChange,
    ) -> Result<User, DirectoryError> {
        let before = repo::get(tx, act.tenant_id, id)?.ok_or(DirectoryError::NotFound)?;
        expected.check(before.version)?;
        let mut after = before.clone();
        if let Some(name) = &change.name {
            after.name.clone_from(name);
        }
        if let Some(email) = &change.email {
            after.email = Some(normalize_email(email)?);
        }
        after.external_id = change.external_id.clone().apply(after.external_id);
        after.status = change.status.unwrap_or(after.status);
        after.standing = in_order(changed_standing(after.standing, change)?);
        let is_operator = |user: &User| user.role().is_some_and(|role| role.is(Role::Operator));
        if is_operator(&after) != is_operator(&before) {
            return Err(DirectoryError::RoleMismatch);
        }
        if after.standing != before.standing && after.role().is_some() {
            check_staff(tx, act.tenant_id, Some(&before), &after.standing)?;
        }
        Ok(self.change_user(tx, act, &before, after)?.unwrap_or(before))
    }

    pub(crate) fn update_contact(
        &self,
        tx: &mut WriteTx,
        act: &mut Act,
        id: UserId,
        expected: &ExpectedVersion,
        change: &ContactChange,
    ) -> Result<User, DirectoryError> {
        let before = find_contact(tx, act.tenant_id, &act.reach, id)?;
        expected.check(before.version)?;
        let mut after = before.clone();
        after.name = change.name.clone().unwrap_or(after.name);
        let organization_id = change.organization_id.clone().apply(before.organization_id());
        after.standing = Standing::Contact { organization_id };
        let email = change.email.clone().try_map(|email| normalize_email(&email));
        let (email, ()) = DirectoryError::both(email, check_standing(tx, act, Some(&before), &after.standing))?;
        after.email = email.apply(after.email);
        after.status = change.status.unwrap_or(after.status);
        after.external_id = change.external_id.clone().apply(after.external_id);
        Ok(self.change_user(tx, act, &before, after)?.unwrap_or(before))
    }

    /// Stores the changes in `after`. Returns `None` if nothing differs.
    pub(crate) fn change_user(
        &self,
        tx: &mut WriteTx,
        act: &mut Act,
        before: &User,
        mut after: User,
    ) -> Result<Option<User>, DirectoryError> {
        if after == *before {
            return Ok(None);
        }
        if before.is_active_admin() && !after.is_active_admin() {
            check_other_admin(tx, before)?;
        }
        check_names(tx, Some(before), &after)?;
        check_organization(tx, act.tenant_id, before.organization_id(), after.organization_id())?;
        after.updated_at = act.now;
        after.version += 1;
        repo::put(tx, &after)?;
        if after.role().is_none() {
            (self.contact_changed)(tx, before, &after)?;
        }
        let (from, to) = (before.organization_id(), after.organization_id());
        organizations::move_member(tx, act.tenant_id, from, to, |members| &mut members.contacts)?;
        self.announce_user(tx, act, &USER_UPDATED, &after, Some(changes(before, &after)))?;
        Ok(Some(after))
    }

    /// Records a change of the user outside their record, such as a new password.
    pub fn touch_user(&self, tx: &mut WriteTx, act: &mut Act, mut user: User) -> Result<User, DirectoryError> {
        user.updated_at = act.now;
        user.version += 1;
        repo::put(tx, &user)?;
        self.announce_user(tx, act, &USER_UPDATED, &user, None)?;
        Ok(user)
    }

    /// Records a sign-in. This is not a change of the record, so the version stays the same.
    pub fn note_login(&self, tx: &mut WriteTx, mut user: User, at: Timestamp) -> Result<User, DirectoryError> {
        user.last_login_at = Some(at);
        repo::put(tx, &user)?;
        Ok(user)
    }

    /// Links a staff member to an account at an identity provider, or removes the link.
    pub fn link_user(
        &self,
        tx: &mut WriteTx,
        act: &mut Act,
        before: &User,
        identity: Option<LinkedIdentity>,
    ) -> Result<User, DirectoryError> {
        let after = User { sso: identity, ..before.clone() };
        Ok(self.change_user(tx, act, before, after)?.unwrap_or_else(|| before.clone()))
    }

    /// Removes a user and returns the removed record.
    pub fn remove_user(
        &self,
        tx: &mut WriteTx,
        act: &mut Act,
        id: UserId,
        expected: &ExpectedVersion,
    ) -> Result<User, DirectoryError> {
        let user = repo::get(tx, act.tenant_id, id)?.ok_or(DirectoryError::NotFound)?;
        expected.check(user.version)?;
        if user.is_active_admin() {
            check_other_admin(tx, &user)?;
        }
        repo::remove(tx, (user.tenant_id, id))?;
        organizations::move_member(tx, act.tenant_id, user.organization_id(), None, |members| &mut members.contacts)?;
        self.announce_user(tx, act, &USER_REMOVED, &user, None)?;
        Ok(user)
    }

    /// The wire form of the user, for events and responses.
    pub fn show_user(&self, tx: &impl Read, user: &User) -> Result<Box<RawValue>, DirectoryError> {
        Ok(user.describe(&user_labels(tx, user)?)?)
    }

    fn announce_user(
        &self,
        tx: &mut WriteTx,
        act: &mut Act,
        kind: &'static EventKind,
        user: &User,
        changes: Option<Changes>,
    ) -> Result<(), DirectoryError> {
        let shown = self.show_user(tx, user)?;
        announce(tx, act, kind, (user.id.to_string(), user.version), &shown, changes)
    }
}

/// The contact, if they are within reach. Staff are not contacts.
pub(crate) fn find_contact(tx: &impl Read, tenant: TenantId, reach: &Reach, id: UserId) -> Result<User, DirectoryError> {
    let found = repo::get(tx, tenant, id)?.filter(|user| user.role().is_none() && reach.covers(user.organization_id()));
    found.ok_or(DirectoryError::NotFound)
}

/// The names that the record of a user refers to. Removed organizations have none.
pub fn user_labels(tx: &impl Read, user: &User) -> Result<UserLabels, StoreError> {
    let organization = |id: OrganizationId| super::super::organization(tx, user.tenant_id, id);
    let mut labels = UserLabels {
        organization: user.organization_id().map(organization).transpose()?.flatten(),
        role: user.role().and_then(StaffRole::custom).map(|id| role_label(tx, user.tenant_id, id)).transpose()?.flatten(),
        organizations: None,
    };
    if let Standing::Staff { organization_ids: Some(ids), .. } = &user.standing {
        let found: Result<Vec<_>, _> = ids.iter().map(|id| organization(*id)).collect();
        labels.organizations = Some(found?.into_iter().flatten().collect());
    }
    Ok(labels)
}

fn changed_standing(standing: Standing, change: &UserChange) -> Result<Standing, DirectoryError> {
    match standing {
        Standing::Staff { .. } if change.organization_id != Change::Keep => Err(DirectoryError::StaffOrganization),
        Standing::Staff { role, organization_ids } => Ok(Standing::Staff {
            role: change.role.unwrap_or(role),
            organization_ids: change.organization_ids.clone().apply(organization_ids),
        }),
        Standing::Contact { .. } if change.role.is_some() => Err(DirectoryError::ContactRole),
        Standing::Contact { .. } if change.organization_ids != Change::Keep => Err(RoleError::ContactLimits.into()),
        Standing::Contact { organization_id } => {
            Ok(Standing::Contact { organization_id: change.organization_id.clone().apply(organization_id) })
        }
    }
}

/// Sorts the organizations of a member of staff, as lookups need it.
fn in_order(mut standing: Standing) -> Standing {
    if let Standing::Staff { organization_ids: Some(ids), .. } = &mut standing {
        ids.sort_unstable();
        ids.dedup();
    }
    standing
}

/// Checks that a new role and new organizations of a member of staff exist.
fn check_staff(tx: &impl Read, tenant: TenantId, before: Option<&User>, standing: &Standing) -> Result<(), DirectoryError> {
    let Standing::Staff { role, organization_ids } = standing else { return Ok(()) };
    if role.is(Role::Operator) && organization_ids.is_some() {
        return Err(RoleError::OperatorLimits.into());
    }
    if before.is_none_or(|before| before.role() != Some(*role)) {
        check_role(tx, tenant, *role)?;
    }
    let reach = before.map(User::reach);
    let known = |id: &OrganizationId| matches!(&reach, Some(Reach::Organizations(_)) if reach.as_ref().is_some_and(|reach| reach.covers(Some(*id))));
    for id in organization_ids.iter().flatten().filter(|id| !known(id)) {
        check_organization(tx, tenant, None, Some(*id)).map_err(|error| match error {
            DirectoryError::UnknownOrganization => RoleError::UnknownLimit(*id).into(),
            error => error,
        })?;
    }
    Ok(())
}

/// Checks that what the standing refers to exists, and within reach if it is a contact.
fn check_standing(tx: &impl Read, act: &Act, before: Option<&User>, standing: &Standing) -> Result<(), DirectoryError> {
    match standing {
        Standing::Staff { .. } => check_staff(tx, act.tenant_id, before, standing),
        Standing::Contact { organization_id } if act.reach.covers(*organization_id) => {
            check_organization(tx, act.tenant_id, before.and_then(User::organization_id), *organization_id)
        }
        Standing::Contact { .. } => Err(DirectoryError::UnknownOrganization),
    }
}

/// Checks that a new organization exists.
fn check_organization(
    tx: &impl Read,
    tenant: TenantId,
    before: Option<OrganizationId>,
    after: Option<OrganizationId>,
) -> Result<(), DirectoryError> {
    match after.filter(|id| before != Some(*id)) {
        Some(id) if organizations::get(tx, tenant, id)?.is_none() => Err(DirectoryError::UnknownOrganization),
        _ => Ok(()),
    }
}

/// Checks that the email address and external ID are unique.
fn check_names(tx: &impl Read, before: Option<&User>, user: &User) -> Result<(), DirectoryError> {
    let other = |found: Option<UserId>| found.is_some_and(|id| id != user.id);
    let staff = user.role().is_some();
    if staff && user.email.is_none() {
        return Err(DirectoryError::EmailMissing);
    }
    if let Some(email) = user.email.as_ref().filter(|_| before.is_none_or(|before| before.email != user.email))
        && other(repo::find_email(tx, user.tenant_id, email)?.map(|user| user.id))
    {
        return Err(DirectoryError::EmailTaken);
    }
    if let Some(external_id) =
        user.external_id.as_ref().filter(|_| before.is_none_or(|before| before.external_id != user.external_id))
        && other(repo::find_external(tx, user.tenant_id, external_id)?)
    {
        return Err(DirectoryError::ExternalIdTaken);
    }
    Ok(())
}

/// Whether any staff member of the tenant matches.
fn any_staff(tx: &impl Read, tenant: TenantId, wanted: impl Fn(&User) -> bool) -> Result<bool, StoreError> {
    let mut found = false;
    repo::STAFF.scan(tx, &KeyRange::prefix(&tenant.to_bytes()), Direction::Forward, |(tenant, id), _| {
        found = repo::get(tx, tenant, id)?.is_some_and(|user| wanted(&user));
        Ok(if found { Flow::Stop } else { Flow::Continue })
    })?;
    Ok(found)
}

fn check_other_admin(tx: &impl Read, user: &User) -> Result<(), DirectoryError> {
    let other = any_staff(tx, user.tenant_id, |other| other.id != user.id && other.is_active_admin())?;
    if other { Ok(()) } else { Err(DirectoryError::LastAdmin) }
}

fn limits(user: &User) -> Option<&[OrganizationId]> {
    match &user.standing {
        Standing::Staff { organization_ids, .. } => organization_ids.as_deref(),
        Standing::Contact { .. } => None,
    }
}

fn changes(before: &User, after: &User) -> Changes {
    let fields = |user: &User| {
        json!({
            "name": user.name,
            "email": user.email,
            "role": user.role(),
            "organization_ids": limits(user),
            "organization_id": user.organization_id(),
            "status": if user.status == UserStatus::Active { "active" } else { "disabled" },
            "external_id": user.external_id,
            "sso": user.sso,
        })
    };
    Changes::between(&fields(before), &fields(after))
}
