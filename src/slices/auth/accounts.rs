//! User management for administrators: the directory's use cases, together with each user's credentials and sessions.
//!
//! An administrator never learns a password. They get a token that works once within three days, and the person sets the password
//! with it. **Invariant:** a caller that creates, changes or gains access to an account covers it before and after the change.
//! Reducing or removing an account does not require that.

use std::time::Duration;

use tenantd_api_keys::{self as api_keys, PauseReason};
use tenantd_base::{
    access::{Principal, Role, TenantKind},
    authority::Authority,
    change::Change,
    clock::Timestamp,
    id::{TenantId, UserId},
    secrets::{PasswordHash, Secret, digest},
    versions::ExpectedVersion,
};
use tenantd_directory::{self as directory, DirectoryError, NewUser, Standing, User, UserChange, UserStatus, normalize_email};
use tenantd_store::{
    Read, WriteTx,
    events::{self, Act, Actor, ActorKind, Draft},
};

use super::{
    error::AuthError,
    model::Session,
    repo::{self, IssueContext, PasswordTokenRecord, TokenDigest},
    service::{SESSIONS_ENDED, Users, new_token},
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

    /// A caller that controls how people authenticate can access every account, so they must cover the most powerful role.
    pub fn check_every_account(&self) -> Result<(), AuthError> {
        self.check_act_through(Some(if self.is_platform() { Role::Operator } else { Role::Admin }))
    }

    pub fn tenant_kind(&self) -> TenantKind {
        self.tenant_kind
    }

    fn is_platform(&self) -> bool {
        self.tenant_kind == TenantKind::Platform
    }

    /// Checks that the role fits the tenant: operators belong to the platform tenant, all other roles to other tenants.
    pub fn check_place(&self, role: Role) -> Result<(), AuthError> {
        if (role == Role::Operator) == self.is_platform() { Ok(()) } else { Err(DirectoryError::RoleMismatch.into()) }
    }

    /// Checks that the caller may do something that could let them act through an account with this role. A contact has no role.
    fn check_act_through(&self, role: Option<Role>) -> Result<(), AuthError> {
        self.check_change(role, role, true)
    }

    fn check_change(&self, before: Option<Role>, after: Option<Role>, acts_through: bool) -> Result<(), AuthError> {
        let account = |role: Option<Role>| role.map(|role| account_authority(self.authority.tenant_id(), role));
        Ok(self.authority.may_change(account(before).as_ref(), account(after).as_ref(), acts_through)?)
    }
}

/// Returns the authority of an account with this role: all scopes of the role, over the whole tenant, from any network.
fn account_authority(tenant: TenantId, role: Role) -> Authority {
    Authority::new(tenant, role.grants())
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

    /// Creates a user. A member of staff gets a token to set their password.
    pub(super) fn create_account(
        &self,
        tx: &mut WriteTx,
        act: &mut Act,
        manager: &Manager,
        new: &NewUser,
    ) -> Result<(User, Option<PasswordToken>), AuthError> {
        if let Standing::Staff { role } = new.standing {
            manager.check_change(None, Some(role), true)?;
            manager.check_place(role)?;
        }
        let user = self.directory.create_user(tx, act, new)?;
        let token = if user.role().is_some() { Some(issue(tx, act, &user)?) } else { None };
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
        let before = account(tx, act, id)?;
        manager.check_change(before.role(), change.role.or(before.role()), opens_account(&before, change))?;
        let user = self.directory.update_user(tx, act, id, expected, change)?;
        if user.status == UserStatus::Disabled && before.status == UserStatus::Active {
            repo::remove_sessions_of(tx, (user.tenant_id, id))?;
            repo::remove_password_tokens_of(tx, (user.tenant_id, id))?;
            repo::remove_sign_in_links_of(tx, (user.tenant_id, id))?;
            self.owners.pause_keys_of(tx, act, id, PauseReason::Disabled, None)?;
        }
        if let Some(role) = user.role().filter(|role| before.role() != Some(*role)) {
            let kept = account_authority(user.tenant_id, role);
            self.owners.pause_keys_of(tx, act, id, PauseReason::Demoted, Some((&kept, manager.tenant_kind)))?;
        }
        if user.role() != before.role() || user.email != before.email {
            // A link that was issued for the old role or address must not work for the changed account.
            repo::remove_password_tokens_of(tx, (user.tenant_id, id))?;
            repo::remove_sign_in_links_of(tx, (user.tenant_id, id))?;
        }
        Ok(user)
    }

    /// Removes a user with their credentials, and pauses the keys that they own.
    pub(super) fn remove_account(
        &self,
        tx: &mut WriteTx,
        act: &mut Act,
        id: UserId,
        expected: &ExpectedVersion,
    ) -> Result<User, AuthError> {
        account(tx, act, id)?;
        let user = self.directory.remove_user(tx, act, id, expected)?;
        let key = (user.tenant_id, id);
        repo::remove_sessions_of(tx, key)?;
        repo::remove_password_tokens_of(tx, key)?;
        repo::remove_sign_in_links_of(tx, key)?;
        repo::preferences::remove_of(tx, key)?;
        repo::CREDENTIALS.remove(tx, &key)?;
        self.owners.pause_keys_of(tx, act, id, PauseReason::Removed, None)?;
        Ok(user)
    }

    /// Removes the link between a user and their identity at the provider. The next sign-on matches by e-mail address again.
    pub(super) fn unlink_account(&self, tx: &mut WriteTx, act: &mut Act, manager: &Manager, id: UserId) -> Result<User, AuthError> {
        let user = account(tx, act, id)?;
        manager.check_act_through(user.role())?;
        repo::remove_sessions_of(tx, (user.tenant_id, id))?;
        Ok(self.directory.link_user(tx, act, &user, None)?)
    }

    /// Issues a new token. The old password works until a new one is set.
    pub(super) fn issue_password_token(
        &self,
        tx: &mut WriteTx,
        act: &mut Act,
        manager: &Manager,
        id: UserId,
    ) -> Result<(User, PasswordToken), AuthError> {
        let user = account(tx, act, id)?;
        let role = user.role().ok_or(AuthError::NotStaff)?;
        manager.check_act_through(Some(role))?;
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
        let password = self.hash_password(password, &intent).await?;
        let users = self.clone();
        self.store.write(move |tx| users.redeem(tx, &mut intent.begin(), &token, &password)).await
    }

    fn redeem(&self, tx: &mut WriteTx, act: &mut Act, token: &TokenDigest, password: &PasswordHash) -> Result<(), AuthError> {
        let user = self.usable(tx, token, act.guard_time())?;
        act.actor = super::service::actor_of(&user);
        self.set_password(tx, act, user, password).map(drop)
    }

    /// Returns the user who may set their password with the token now. The account must not have changed since the token was
    /// issued, and the issuer must still cover it.
    fn usable(&self, tx: &impl Read, token: &TokenDigest, now: Timestamp) -> Result<User, AuthError> {
        let record = repo::PASSWORD_TOKENS.get(tx, token)?.filter(|record| now < record.expires_at).ok_or(AuthError::BadToken)?;
        let PasswordTokenRecord { tenant_id, user_id, issued, .. } = record;
        let IssueContext { role, email, by } = issued.ok_or(AuthError::BadToken)?;
        let unchanged = |user: &User| user.status == UserStatus::Active && user.role() == Some(role) && user.email == email;
        let user = directory::user(tx, tenant_id, user_id)?.filter(unchanged).ok_or(AuthError::BadToken)?;
        let issuer = self.authority_now(tx, tenant_id, &by, now)?.ok_or(AuthError::BadToken)?;
        if issuer.with_until(None).covers(&account_authority(tenant_id, role)) { Ok(user) } else { Err(AuthError::BadToken) }
    }

    /// Returns the current authority of an actor in a tenant. Returns `None` if the actor no longer exists or is disabled.
    fn authority_now(
        &self,
        tx: &impl Read,
        tenant: TenantId,
        actor: &Actor,
        now: Timestamp,
    ) -> Result<Option<Authority>, AuthError> {
        match actor.kind {
            ActorKind::System => Ok(Some(Authority::everything(tenant))),
            ActorKind::Workflow | ActorKind::Agent => Ok(None),
            ActorKind::User => {
                let Ok(id) = actor.id.parse() else { return Ok(None) };
                let user = directory::user(tx, tenant, id)?.filter(|user| user.status == UserStatus::Active);
                Ok(user.and_then(|user| user.role()).map(|role| account_authority(tenant, role)))
            }
            ActorKind::ApiKey => {
                let tenant_record = self.tenants.cached(tenant)?;
                let (Ok(id), Some(known)) = (actor.id.parse(), tenant_record.as_ref()) else { return Ok(None) };
                Ok(api_keys::authority_of(tx, tenant, id, known.kind, now)?)
            }
        }
    }
}

/// Whether a change could give another person access to the account: a new address receives sign-ons and links, a new external id
/// redirects imports, and enabling reopens a disabled account.
fn opens_account(before: &User, change: &UserChange) -> bool {
    let moves = change.email.as_ref().is_some_and(|email| normalize_email(email).ok() != before.email);
    let renamed = change.external_id != Change::Keep && change.external_id.clone().apply(None) != before.external_id;
    let opened = change.status == Some(UserStatus::Active) && before.status != UserStatus::Active;
    moves || renamed || opened
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
fn issue(tx: &mut WriteTx, act: &mut Act, user: &User) -> Result<PasswordToken, AuthError> {
    let role = user.role().ok_or(AuthError::NotStaff)?;
    repo::remove_password_tokens_of(tx, (user.tenant_id, user.id))?;
    let (token, expires_at) = (new_token(act), act.guard_time() + TOKEN_LIFE);
    let issued = IssueContext { role, email: user.email.clone(), by: act.actor.clone() };
    let record = PasswordTokenRecord { tenant_id: user.tenant_id, user_id: user.id, expires_at, issued: Some(issued) };
    repo::PASSWORD_TOKENS.put(tx, &digest(token.expose().as_bytes()), &record)?;
    Ok(PasswordToken { token, expires_at: act.now + TOKEN_LIFE })
}
