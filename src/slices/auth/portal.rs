//! Who may sign in to the portal: staff turn it on, and contacts get access one by one.
//!
//! **Invariant:** a contact signs in only while the portal is on, they are active, they have an organization, and their address is the
//! one that the access was given for. All of this is checked for every request. A change of the contact that ends their access, such as a
//! move to another organization, also removes the password, the sessions, the factors and the links ([`contact_changed`]), so that undoing
//! it does not return the access. [`Users::end_stale_access`] announces the end later. **Invariant:** no session and no link outlives the
//! portal: turning it off removes them.

use serde_json::json;

use tenantd_api_keys as api_keys;
use tenantd_base::{
    access::{Grants, Scope, TenantKind},
    authority::{Authority, Within},
    clock::Timestamp,
    id::UserId,
    versions::ExpectedVersion,
};
use tenantd_directory::{self as directory, User};
use tenantd_store::{
    Read, StoreError, WriteTx,
    events::{self, Act, Actor, ActorKind, Changes, Describe, Draft, EventKind},
};

use super::{
    accounts::{Manager, PasswordToken, issue},
    error::{AuthError, PortalError},
    model::{PortalAccess, PortalSettings},
    repo::{
        self, CREDENTIALS, UserKey,
        portal::{ACCESS, SETTINGS, end_open_sign_ins, settings_of},
    },
    service::Users,
};

pub(super) static SETTINGS_UPDATED: EventKind = EventKind {
    name: "portal.settings_updated",
    summary: "The portal for contacts was turned on or off.",
    subject: "portal_settings",
    schema: "PortalSettings",
    reads: Grants::of(&[Scope::UsersRead]),
    has_changes: true,
};
pub(super) static ACCESS_GIVEN: EventKind = EventKind {
    name: "portal.access_given",
    summary: "A contact got access to the portal, or a new link to set their password.",
    subject: "user",
    schema: "User",
    reads: Grants::of(&[Scope::UsersRead]),
    has_changes: false,
};
pub(super) static ACCESS_REMOVED: EventKind = EventKind {
    name: "portal.access_removed",
    summary: "A contact lost access to the portal. It also ends if the contact is disabled, or gets another address or organization.",
    ..ACCESS_GIVEN
};

/// The access of a contact, as it is shown.
#[derive(Clone, Debug)]
pub(super) struct AccessState {
    pub(super) user: User,
    /// `None` if the contact has no access, or if it does not count any more.
    pub(super) access: Option<PortalAccess>,
    pub(super) has_password: bool,
}

/// What a caller needs to let contacts sign in. Anyone with the link of a contact reads and answers their tickets.
const OPENS_PORTAL: Grants = Grants::of(&[Scope::DirectoryWrite, Scope::TicketsRead, Scope::TicketsWrite]);

/// The rights that a caller needs to let this contact sign in, as an authority that can be compared. A contact without an
/// organization cannot sign in.
pub(super) fn contact_authority(user: &User) -> Option<Authority> {
    let only = Within::Only([user.organization_id()?].into());
    Some(Authority::new(user.tenant_id, OPENS_PORTAL).with_organizations(only))
}

/// Turns the portal on or off. Turning it on lets all contacts with access sign in, so the caller needs the rights that giving the
/// access needs.
pub(super) fn replace_settings(
    tx: &mut WriteTx,
    act: &mut Act,
    manager: &Manager,
    expected: &ExpectedVersion,
    enabled: bool,
) -> Result<PortalSettings, AuthError> {
    let before = settings_of(tx, act.tenant_id)?;
    expected.check(before.version)?;
    if manager.tenant_kind() == TenantKind::Platform {
        return Err(PortalError::NotHere.into());
    }
    if enabled && !before.enabled {
        manager.check_change(None, Some(&Authority::new(act.tenant_id, OPENS_PORTAL)), true)?;
    }
    turn(tx, act, before, enabled)
}

/// Stores whether the portal is on. When it is turned off, the sessions and the links of contacts end, so that turning it on again does
/// not revive them.
fn turn(tx: &mut WriteTx, act: &mut Act, before: PortalSettings, enabled: bool) -> Result<PortalSettings, AuthError> {
    if before.enabled == enabled {
        return Ok(before);
    }
    let after = PortalSettings { enabled, version: before.version + 1 };
    SETTINGS.put(tx, &act.tenant_id, &after)?;
    if !enabled {
        end_open_sign_ins(tx, act.tenant_id)?;
    }
    let fields = |settings: &PortalSettings| json!({"enabled": settings.enabled});
    let changes = Changes::between(&fields(&before), &fields(&after));
    let (shown, id) = (after.describe(())?, act.tenant_id.to_string());
    events::append(tx, act, &Draft::new(&SETTINGS_UPDATED, id, after.version, &shown).with_changes(Some(&changes)))?;
    Ok(after)
}

/// The contact with this id, if the caller reaches them.
fn contact(tx: &impl Read, act: &Act, id: UserId) -> Result<User, AuthError> {
    let is_seen = |user: &User| user.role().is_none() && act.reach.covers(user.organization_id());
    directory::user(tx, act.tenant_id, id)?.filter(is_seen).ok_or(AuthError::NotFound)
}

/// The access of a contact of the act's tenant.
pub(super) fn access_state(tx: &impl Read, act: &Act, id: UserId) -> Result<AccessState, AuthError> {
    let user = contact(tx, act, id)?;
    let key = (user.tenant_id, user.id);
    let access = ACCESS.get(tx, &key)?.filter(|access| access.counts_for(&user));
    let has_password = access.is_some() && CREDENTIALS.get(tx, &key)?.is_some();
    Ok(AccessState { user, access, has_password })
}

/// Access for the current address of a contact.
fn new_access(act: &Act, user: &User) -> Result<PortalAccess, PortalError> {
    let email = user.email.clone().ok_or(PortalError::NoAddress)?;
    Ok(PortalAccess { email, given_at: act.now, given_by: act.actor.clone(), ended: false })
}

impl Users {
    /// Gives a contact access, or a new link if they have access. Returns the token with which they set their password.
    pub(super) fn give_access(
        &self,
        tx: &mut WriteTx,
        act: &mut Act,
        manager: &Manager,
        id: UserId,
    ) -> Result<(AccessState, PasswordToken), AuthError> {
        let AccessState { user, access, .. } = access_state(tx, act, id)?;
        if is_personal(tx, act)? {
            return Err(PortalError::PersonalKey.into());
        }
        if !settings_of(tx, act.tenant_id)?.enabled {
            return Err(PortalError::Off.into());
        }
        let given = new_access(act, &user)?;
        let authority = contact_authority(&user).ok_or(PortalError::NoOrganization)?;
        if !given.counts_for(&user) {
            return Err(PortalError::Disabled.into());
        }
        manager.check_change(None, Some(&authority), true)?;
        if access.is_none() {
            // What an earlier access has left must not count for the new one.
            self.clear_access(tx, &user)?;
            ACCESS.put(tx, &(user.tenant_id, user.id), &given)?;
        }
        let token = issue(tx, act, &user)?;
        self.announce_access(tx, act, &ACCESS_GIVEN, &user)?;
        Ok((access_state(tx, act, user.id)?, token))
    }

    /// Turns the portal on and gives a contact access without a link, for sample data. Nobody can sign in until staff issue a link.
    pub fn open_sample_portal(&self, tx: &mut WriteTx, act: &mut Act, id: UserId) -> Result<(), AuthError> {
        let before = settings_of(tx, act.tenant_id)?;
        turn(tx, act, before, true)?;
        let user = contact(tx, act, id)?;
        ACCESS.put(tx, &(user.tenant_id, user.id), &new_access(act, &user)?)?;
        self.announce_access(tx, act, &ACCESS_GIVEN, &user)
    }

    /// Takes the access of a contact away, and ends their sessions and links. Has no effect without access.
    pub(super) fn remove_access(&self, tx: &mut WriteTx, act: &mut Act, id: UserId) -> Result<(), AuthError> {
        let user = contact(tx, act, id)?;
        self.end_access_of(tx, act, &user)
    }

    fn end_access_of(&self, tx: &mut WriteTx, act: &mut Act, user: &User) -> Result<(), AuthError> {
        if ACCESS.get(tx, &(user.tenant_id, user.id))?.is_none() {
            return Ok(());
        }
        self.clear_access(tx, user)?;
        self.announce_access(tx, act, &ACCESS_REMOVED, user)
    }

    /// Removes everything with which the contact could sign in.
    fn clear_access(&self, tx: &mut WriteTx, user: &User) -> Result<(), AuthError> {
        clear_rows(tx, (user.tenant_id, user.id))?;
        self.end_access(tx, user)
    }

    fn announce_access(&self, tx: &mut WriteTx, act: &mut Act, kind: &'static EventKind, user: &User) -> Result<(), AuthError> {
        let shown = self.directory.show_user(tx, user)?;
        events::append(tx, act, &Draft::new(kind, user.id.to_string(), user.version, &shown))?;
        Ok(())
    }

    /// Removes access that does not count any more. The contact was removed, disabled, or got another address or organization.
    pub(super) fn end_stale_access(&self, tx: &mut WriteTx, key: UserKey, now: Timestamp) -> Result<(), AuthError> {
        let user = directory::user(tx, key.0, key.1)?;
        match (ACCESS.get(tx, &key)?, user) {
            (Some(access), Some(user)) if !access.counts_for(&user) => {
                // A tenant that is being prepared or removed gets no events.
                if !self.tenant(key.0)?.is_some_and(|tenant| tenant.status.is_settled()) {
                    return Ok(());
                }
                let intent = self.tenants.guarding_intent(key.0, now, Actor::system("portal"));
                self.end_access_of(tx, &mut intent.begin(), &user)
            }
            (Some(_), None) => Ok(clear_rows(tx, key)?),
            _ => Ok(()),
        }
    }
}

/// Whether the caller is a personal key, which gives nobody access: its links would not work.
fn is_personal(tx: &impl Read, act: &Act) -> Result<bool, StoreError> {
    let key = (act.actor.kind == ActorKind::ApiKey).then(|| act.actor.id.parse().ok()).flatten();
    let key = key.map(|id| api_keys::find(tx, act.tenant_id, id)).transpose()?.flatten();
    Ok(key.is_some_and(|key| key.person.is_some()))
}

/// Removes what a contact signs in with when a change of the contact ends their access. The record stays, so that
/// [`Users::end_stale_access`] can announce it. In another organization the contact would see tickets of another customer.
pub fn contact_changed(tx: &mut WriteTx, before: &User, after: &User) -> Result<(), StoreError> {
    let key = (after.tenant_id, after.id);
    let is_moved = before.organization_id() != after.organization_id();
    let ends = |access: &PortalAccess| !access.ended && (is_moved || !access.counts_for(after));
    let Some(access) = ACCESS.get(tx, &key)?.filter(ends) else { return Ok(()) };
    clear_rows(tx, key)?;
    ACCESS.put(tx, &key, &PortalAccess { ended: true, ..access })
}

/// Removes the access of a user with their password, factors, sessions and links.
pub(super) fn clear_rows(tx: &mut WriteTx, key: UserKey) -> Result<(), StoreError> {
    ACCESS.remove(tx, &key)?;
    CREDENTIALS.remove(tx, &key)?;
    repo::remove_sessions_of(tx, key)?;
    repo::remove_password_tokens_of(tx, key)?;
    repo::remove_sign_in_links_of(tx, key)?;
    repo::factors::remove_of(tx, key)?;
    repo::clear_failures(tx, key)
}

/// Returns contacts after a position whose access does not count any more, and the position of the last one that was examined.
/// `None` at the end.
pub(super) fn stale_access(
    tx: &impl Read,
    after: Option<UserKey>,
    limit: usize,
) -> Result<(Vec<UserKey>, Option<UserKey>), StoreError> {
    let page = ACCESS.list_after(tx, after.as_ref(), limit)?;
    let last = page.last().filter(|_| page.len() == limit).map(|(key, _)| *key);
    let mut stale = Vec::new();
    for (key, access) in page {
        let counts = directory::user(tx, key.0, key.1)?.is_some_and(|user| access.counts_for(&user));
        stale.extend((!counts).then_some(key));
    }
    Ok((stale, last))
}
