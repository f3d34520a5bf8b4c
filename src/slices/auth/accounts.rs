//! User management for administrators: the directory's use cases, together with each user's credentials and sessions.
//!
//! An administrator never learns a password. They get a token that works once within three days, and the person sets the password
//! with it. **Invariant:** a caller that creates, changes or gains access to an account covers it before and after the change.
//! Reducing or removing an account does not require that.

use std::time::Duration;

use tenantd_api_keys::{self as api_keys, ApiKey, PauseReason};
use tenantd_base::{
    access::{Grants, Principal, Role, Scope, StaffRole, TenantKind},
    authority::Authority,
    clock::Timestamp,
    id::{TenantId, UserId},
    secrets::{PasswordHash, Secret, digest},
    versions::ExpectedVersion,
};
use tenantd_directory::{
    self as directory, DirectoryError, NewUser, Standing, User, UserChange, UserStatus, staff_authority, standing_authority,
};
use tenantd_store::{
    Read, WriteTx,
    events::{self, Act, Actor, ActorKind, Draft},
};

use super::{
    error::{AuthError, FactorError},
    factors::{check_proven, is_required},
    model::Session,
    openers::{Opener, ProviderLink, note_opener, redirects, strongest},
    own_account::Own,
    portal::contact_authority,
    repo::{self, IssueContext, PasswordTokenRecord, TokenDigest},
    service::{SESSIONS_ENDED, Users, new_token},
    ways_in::WaysIn,
};

const TOKEN_LIFE: Duration = Duration::from_hours(72);

/// A token for setting a password. The plaintext exists only here; the store has its digest.
#[derive(Clone, Debug)]
pub(super) struct PasswordToken {
    pub(super) token: Secret,
    pub(super) expires_at: Timestamp,
}

/// The caller that manages users.
#[derive(Clone, Debug)]
pub struct Manager {
    authority: Authority,
    tenant_kind: TenantKind,
}

impl Manager {
    /// An account does not expire, so the expiry of the manager's credential does not count.
    pub fn of(principal: &Principal) -> Self {
        Self { authority: principal.authority().with_until(None), tenant_kind: principal.tenant_kind }
    }

    /// The caller with the rights that they still have. They may have lost some since the request was authenticated.
    pub fn now(&self, tx: &impl Read, act: &Act) -> Result<Self, AuthError> {
        let rights = api_keys::rights_now(tx, act, self.tenant_kind)?.with_until(None);
        Ok(Self { authority: self.authority.meet(&rights), tenant_kind: self.tenant_kind })
    }

    /// A caller that controls how people authenticate can access every account, so they must cover the most powerful role.
    pub fn check_every_account(&self) -> Result<(), AuthError> {
        let account = strongest(self.authority.tenant_id(), self.tenant_kind);
        self.check_change(Some(&account), Some(&account), true)
    }

    pub fn tenant_kind(&self) -> TenantKind {
        self.tenant_kind
    }

    /// The manager as somebody who opens an account.
    fn opener(&self, act: &Act) -> Opener {
        Opener { actor: act.actor.clone(), authority: self.authority.clone(), kind: self.tenant_kind }
    }

    fn is_platform(&self) -> bool {
        self.tenant_kind == TenantKind::Platform
    }

    /// Checks that the role fits the tenant: operators belong to the platform tenant, all other roles to other tenants.
    pub fn check_place(&self, role: StaffRole) -> Result<(), AuthError> {
        if role.is(Role::Operator) == self.is_platform() { Ok(()) } else { Err(DirectoryError::RoleMismatch.into()) }
    }

    /// Checks that the caller may do something that could let them act through this account. A contact has no rights.
    fn check_act_through(&self, tx: &impl Read, user: &User) -> Result<(), AuthError> {
        let account = self.authority_of(tx, &user.standing)?;
        self.check_change(account.as_ref(), account.as_ref(), true)
    }

    /// The rights of an account of the caller's tenant: the scopes of its role, over its organizations, from any network. An operator
    /// counts as in the platform tenant, so that nobody else covers the role.
    fn authority_of(&self, tx: &impl Read, standing: &Standing) -> Result<Option<Authority>, AuthError> {
        Ok(standing_authority(tx, self.authority.tenant_id(), standing, TenantKind::Platform)?)
    }

    pub(super) fn check_change(
        &self,
        before: Option<&Authority>,
        after: Option<&Authority>,
        acts_through: bool,
    ) -> Result<(), AuthError> {
        Ok(self.authority.may_change(before, after, acts_through)?)
    }
}

impl Users {
    /// Ends all sessions of a user.
    pub(super) fn end_sessions(&self, tx: &mut WriteTx, act: &mut Act, id: UserId) -> Result<(), AuthError> {
        let user = account(tx, act, id)?;
        repo::remove_sessions_of(tx, (user.tenant_id, user.id))?;
        let shown = self.directory.show_user(tx, &user)?;
        events::append(tx, act, &Draft::new(&SESSIONS_ENDED, user.id.to_string(), user.version, &shown))?;
        Ok(())
    }

    /// Creates a user. A member of staff gets a token to set their password, unless they must sign in through a provider.
    pub(super) fn create_account(
        &self,
        tx: &mut WriteTx,
        act: &mut Act,
        manager: &Manager,
        new: &NewUser,
    ) -> Result<(User, Option<PasswordToken>), AuthError> {
        let manager = &manager.now(tx, act)?;
        if let Standing::Staff { role, .. } = new.standing {
            manager.check_change(None, manager.authority_of(tx, &new.standing)?.as_ref(), true)?;
            manager.check_place(role)?;
        }
        let user = self.directory.create_user(tx, act, new)?;
        note_opener(tx, &user, &manager.opener(act), true, act.now)?;
        let sets_password = user.role().is_some() && self.required_sign_on(tx, &user)?.is_none();
        let token = if sets_password { Some(issue(tx, act, &user)?) } else { None };
        Ok((user, token))
    }

    pub(super) fn update_account(
        &self,
        tx: &mut WriteTx,
        act: &mut Act,
        manager: &Manager,
        id: UserId,
        expected: &ExpectedVersion,
        change: &UserChange,
    ) -> Result<User, AuthError> {
        let manager = &manager.now(tx, act)?;
        let before = account(tx, act, id)?;
        let had = manager.authority_of(tx, &before.standing)?;
        let has = manager.authority_of(tx, &intended(&before.standing, change))?;
        manager.check_change(had.as_ref(), has.as_ref(), opens_account(&before, change))?;
        if redirects(&before, change) && before.role().is_some() {
            manager.check_every_account()?;
        }
        self.change_account(tx, act, &before, (expected, change), manager.tenant_kind)
    }

    /// Changes an account together with what depends on it: sessions, links and keys.
    pub(super) fn change_account(
        &self,
        tx: &mut WriteTx,
        act: &mut Act,
        before: &User,
        (expected, change): (&ExpectedVersion, &UserChange),
        kind: TenantKind,
    ) -> Result<User, AuthError> {
        let (id, now) = (before.id, act.guard_time());
        let only = self.only_ways_in(tx, before, now)?;
        let user = self.directory.update_user(tx, act, id, expected, change)?;
        if user.status == UserStatus::Disabled && before.status == UserStatus::Active {
            repo::remove_sessions_of(tx, (user.tenant_id, id))?;
            repo::remove_password_tokens_of(tx, (user.tenant_id, id))?;
            repo::remove_sign_in_links_of(tx, (user.tenant_id, id))?;
            self.owners.pause_keys_of(tx, act, id, PauseReason::Disabled, None)?;
        }
        if user.status == UserStatus::Active && before.status == UserStatus::Disabled {
            self.owners.resume_personal_keys(tx, act, id)?;
        }
        self.settle_role(tx, act, before, &user, kind)?;
        let user =
            if user.standing == before.standing { user } else { self.settle_openers(tx, act, user, kind, ProviderLink::Ends)? };
        only.check_kept(self.ways_in(tx, &user, now)?)?;
        if user.email != before.email {
            // A link that was issued for the old address must not work for the changed account.
            repo::remove_password_tokens_of(tx, (user.tenant_id, id))?;
            repo::remove_sign_in_links_of(tx, (user.tenant_id, id))?;
            // The new address may belong to a domain whose people must sign in through a provider.
            self.end_sessions_of_refused(tx, act, &user)?;
        }
        Ok(user)
    }

    /// Removes a user with their credentials and personal keys, and pauses the keys that they own.
    pub(super) fn remove_account(
        &self,
        tx: &mut WriteTx,
        act: &mut Act,
        id: UserId,
        expected: &ExpectedVersion,
    ) -> Result<User, AuthError> {
        let only = self.only_ways_in(tx, &account(tx, act, id)?, act.guard_time())?;
        let user = self.directory.remove_user(tx, act, id, expected)?;
        only.check_kept(WaysIn::default())?;
        let key = (user.tenant_id, id);
        (self.person_removed)(tx, act, id)?;
        repo::remove_sessions_of(tx, key)?;
        repo::remove_password_tokens_of(tx, key)?;
        repo::remove_sign_in_links_of(tx, key)?;
        repo::preferences::remove_of(tx, key)?;
        repo::factors::remove_of(tx, key)?;
        repo::CREDENTIALS.remove(tx, &key)?;
        repo::OPENERS.remove(tx, &key)?;
        repo::portal::ACCESS.remove(tx, &key)?;
        self.owners.pause_keys_of(tx, act, id, PauseReason::Removed, None)?;
        Ok(user)
    }

    /// Removes the link between a user and their identity at the provider. The next sign-on matches by e-mail address again. If the
    /// user has no other way to sign in, their personal keys end, so that a new link does not revive them.
    pub(super) fn unlink_account(&self, tx: &mut WriteTx, act: &mut Act, manager: &Manager, id: UserId) -> Result<User, AuthError> {
        let user = account(tx, act, id)?;
        manager.now(tx, act)?.check_every_account()?;
        repo::remove_sessions_of(tx, (user.tenant_id, id))?;
        let has_way_in = self.required_sign_on(tx, &user)?.is_none() && repo::factors::has_own_way_in(tx, (user.tenant_id, id))?;
        if user.sso.is_some() && !has_way_in {
            self.owners.revoke_personal_keys(tx, act, id)?;
        }
        Ok(self.directory.link_user(tx, act, &user, None)?)
    }

    /// Removes all second factors of a user and ends their sessions. Their password alone then signs in, so this opens the account.
    /// For the own account, the rules of removing own factors apply. `own` is the session of the request.
    pub(super) fn reset_account_factors(
        &self,
        tx: &mut WriteTx,
        act: &mut Act,
        manager: &Manager,
        own: Option<Own>,
        id: UserId,
    ) -> Result<(), AuthError> {
        let user = account(tx, act, id)?;
        let manager = manager.now(tx, act)?;
        manager.check_act_through(tx, &user)?;
        note_opener(tx, &user, &manager.opener(act), false, act.now)?;
        let is_own = check_own_factor(tx, act, own, &user)?;
        if is_own && is_required(tx, &user)? {
            return Err(FactorError::OwnFactorsRequired.into());
        }
        self.reset_factors(tx, act, &user)
    }

    /// Issues a new token. The old password works until a new one is set. For the own account, it is a way to change the own password.
    pub(super) fn issue_password_token(
        &self,
        tx: &mut WriteTx,
        act: &mut Act,
        manager: &Manager,
        own: Option<Own>,
        id: UserId,
    ) -> Result<(User, PasswordToken), AuthError> {
        let user = account(tx, act, id)?;
        user.role().ok_or(AuthError::NotStaff)?;
        let manager = manager.now(tx, act)?;
        manager.check_act_through(tx, &user)?;
        note_opener(tx, &user, &manager.opener(act), false, act.now)?;
        check_own_factor(tx, act, own, &user)?;
        if let Some(required) = self.required_sign_on(tx, &user)? {
            return Err(AuthError::SingleSignOnRequired(Box::new(required)));
        }
        let token = issue(tx, act, &user)?;
        Ok((self.directory.touch_user(tx, act, user)?, token))
    }

    /// Ends the password, the sessions and the links of a user, and issues a token for a new password.
    pub(super) fn reset_with_token(
        &self,
        tx: &mut WriteTx,
        act: &mut Act,
        email: &str,
        tenant: Option<TenantId>,
    ) -> Result<(User, PasswordToken), AuthError> {
        let user = self.find_staff(tx, email, tenant)?;
        self.tenants.enter(act, user.tenant_id);
        repo::CREDENTIALS.remove(tx, &(user.tenant_id, user.id))?;
        self.end_access(tx, &user)?;
        let token = issue(tx, act, &user)?;
        Ok((self.directory.touch_user(tx, act, user)?, token))
    }

    /// Checks that the token can set a password now.
    pub fn check_password_token(&self, token: &Secret, now: Timestamp) -> Result<(), AuthError> {
        let token = digest(token.expose().as_bytes());
        self.store.read(|tx| self.usable(tx, &token, now)).map(drop)
    }

    /// Sets a password with a token, which then stops working.
    pub async fn redeem_password_token(&self, token: &Secret, password: Secret, now: Timestamp) -> Result<(), AuthError> {
        let token = digest(token.expose().as_bytes());
        // Hashing is expensive, so check the token first.
        let user = self.store.read(|tx| self.usable(tx, &token, now))?;
        let intent = self.tenants.guarding_intent(user.tenant_id, now, Actor::system("password token"));
        let context = self.password_context(&user)?;
        let password = self.hash_password(password, &context, &intent).await?;
        let users = self.clone();
        self.store.write(move |tx| users.redeem(tx, &mut intent.begin(), &token, &password)).await
    }

    fn redeem(&self, tx: &mut WriteTx, act: &mut Act, token: &TokenDigest, password: &PasswordHash) -> Result<(), AuthError> {
        let user = self.usable(tx, token, act.guard_time())?;
        if let Some(required) = self.required_sign_on(tx, &user)? {
            return Err(AuthError::SingleSignOnRequired(Box::new(required)));
        }
        act.actor = super::service::actor_of(&user);
        self.set_password(tx, act, user, password).map(drop)
    }

    /// Returns the user who may set their password with the token now. The account must not have changed since the token was issued, and
    /// the issuer must still cover it and manage users.
    fn usable(&self, tx: &impl Read, token: &TokenDigest, now: Timestamp) -> Result<User, AuthError> {
        let record = repo::PASSWORD_TOKENS.get(tx, token)?.filter(|record| now < record.expires_at).ok_or(AuthError::BadToken)?;
        let PasswordTokenRecord { tenant_id, user_id, issued, .. } = record;
        let IssueContext { role, email, by } = issued.ok_or(AuthError::BadToken)?;
        let unchanged = |user: &User| user.status == UserStatus::Active && user.role() == role && user.email == email;
        let user = directory::user(tx, tenant_id, user_id)?.filter(unchanged).ok_or(AuthError::BadToken)?;
        let kind = self.tenants.cached(tenant_id)?.as_ref().as_ref().map(|tenant| tenant.kind).ok_or(AuthError::BadToken)?;
        let issuer = authority_now(tx, tenant_id, kind, &by, now)?.ok_or(AuthError::BadToken)?;
        let issuer = issuer.with_until(None);
        let account = match user.role() {
            Some(_) if issuer.scopes().covers(Grants::of(&[Scope::UsersWrite])) => staff_authority(tx, &user, kind)?,
            None if repo::portal::has_access(tx, &user)? => contact_authority(&user),
            _ => None,
        };
        if !account.is_some_and(|account| issuer.covers(&account)) {
            return Err(AuthError::BadToken);
        }
        Ok(user)
    }
}

/// Returns the current authority of an actor in a tenant. Returns `None` if the actor no longer exists or is disabled.
fn authority_now(
    tx: &impl Read,
    tenant: TenantId,
    kind: TenantKind,
    actor: &Actor,
    now: Timestamp,
) -> Result<Option<Authority>, AuthError> {
    match actor.kind {
        ActorKind::System => Ok(Some(Authority::everything(tenant))),
        ActorKind::Workflow | ActorKind::Agent => Ok(None),
        ActorKind::User => {
            let Ok(id) = actor.id.parse() else { return Ok(None) };
            let user = directory::user(tx, tenant, id)?.filter(|user| user.status == UserStatus::Active);
            Ok(user.map(|user| staff_authority(tx, &user, kind)).transpose()?.flatten())
        }
        ActorKind::ApiKey => {
            let Ok(id) = actor.id.parse() else { return Ok(None) };
            // A personal key changes no accounts.
            let works = |key: &ApiKey| key.person.is_none() && key.block(now).is_none();
            Ok(api_keys::find(tx, tenant, id)?.filter(works).map(|key| key.authority(kind)))
        }
    }
}

/// The standing after a change, before the directory has checked it.
fn intended(before: &Standing, change: &UserChange) -> Standing {
    let (role, organization_ids) = match before {
        Standing::Staff { role, organization_ids } => (Some(*role), organization_ids.clone()),
        Standing::Contact { .. } => (None, None),
    };
    match change.role.or(role) {
        Some(role) => Standing::Staff { role, organization_ids: change.organization_ids.clone().apply(organization_ids) },
        None => before.clone(),
    }
}

/// Whether a change could give another person access to the account. Enabling reopens a disabled account.
fn opens_account(before: &User, change: &UserChange) -> bool {
    redirects(before, change) || (change.status == Some(UserStatus::Active) && before.status != UserStatus::Active)
}

/// Checks a caller who changes how they sign in themselves, with a session or with a key. Returns whether they do. Their keys have
/// proven no factor.
fn check_own_factor(tx: &impl Read, act: &Act, own: Option<Own>, user: &User) -> Result<bool, AuthError> {
    if let Some(own) = own.filter(|own| own.is(user)) {
        check_proven(tx, own.key(), own.session)?;
        return Ok(true);
    }
    let is_own_key =
        act.actor.kind == ActorKind::ApiKey && api_keys::person_behind(tx, act.tenant_id, &act.actor)? == Some(user.id);
    if is_own_key && !repo::factors::factors_of(tx, (user.tenant_id, user.id))?.is_empty() {
        return Err(FactorError::FactorToProve.into());
    }
    Ok(is_own_key)
}

fn account(tx: &impl Read, act: &Act, id: UserId) -> Result<User, AuthError> {
    directory::user(tx, act.tenant_id, id)?.ok_or(AuthError::NotFound)
}

/// Returns the sessions of a user after a position, each with its own position.
pub(super) fn sessions(
    tx: &impl Read,
    user: &User,
    after: Option<&[u8]>,
    limit: usize,
) -> Result<Vec<(Session, TokenDigest)>, AuthError> {
    Ok(repo::sessions_of(tx, (user.tenant_id, user.id), after, limit)?)
}

/// Issues a token and removes all earlier tokens of the user.
pub(super) fn issue(tx: &mut WriteTx, act: &mut Act, user: &User) -> Result<PasswordToken, AuthError> {
    repo::remove_password_tokens_of(tx, (user.tenant_id, user.id))?;
    let (token, expires_at) = (new_token(act), act.guard_time() + TOKEN_LIFE);
    let issued = IssueContext { role: user.role(), email: user.email.clone(), by: act.actor.clone() };
    let record = PasswordTokenRecord { tenant_id: user.tenant_id, user_id: user.id, expires_at, issued: Some(issued) };
    repo::PASSWORD_TOKENS.put(tx, &digest(token.expose().as_bytes()), &record)?;
    Ok(PasswordToken { token, expires_at: act.now + TOKEN_LIFE })
}
