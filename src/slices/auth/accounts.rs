//! Users as administrators manage them: the directory's use cases, together with what signing in has of each user.
//!
//! A password is never known to an administrator: they get a token that works once and for three days, and the person sets the password
//! with it. **Invariant:** nobody makes, changes or gets into an account that may do more than they may themselves.

use std::time::Duration;

use super::{
    error::AuthError,
    model::Session,
    repo::{self, PasswordTokenRecord, TokenDigest},
    service::{SESSIONS_ENDED, Users, new_token},
};
use crate::{
    kernel::{
        access::{Grants, Principal, Role, Scope, TenantKind},
        clock::Timestamp,
        events::{self, Act, Actor, Draft, Intent},
        http::precondition::IfMatch,
        id::UserId,
        secrets::{PasswordHash, Secret, digest},
        store::{Read, WriteTx},
    },
    slices::directory::{self, DirectoryError, NewUser, Standing, User, UserChange, UserStatus},
};

const TOKEN_LIFE: Duration = Duration::from_hours(72);

/// A token for setting a password: the only time it is seen.
#[derive(Clone, Debug)]
pub(super) struct PasswordToken {
    pub(super) token: Secret,
    pub(super) expires_at: Timestamp,
}

/// Who manages users: they cannot give what they do not have.
#[derive(Clone, Copy, Debug)]
pub struct Manager {
    grants: Grants,
    is_platform: bool,
}

impl Manager {
    pub fn of(principal: &Principal) -> Self {
        Self { grants: principal.grants, is_platform: principal.tenant_kind == TenantKind::Platform }
    }

    /// Whoever decides how people prove who they are gets into every account: they must have all that any of them can have.
    pub fn check_every_account(self) -> Result<(), AuthError> {
        self.check_role(Some(if self.is_platform { Role::Operator } else { Role::Admin }))
    }

    /// Operators belong to the platform tenant, and everyone else to another.
    pub fn check_place(self, role: Role) -> Result<(), AuthError> {
        if (role == Role::Operator) == self.is_platform { Ok(()) } else { Err(DirectoryError::RoleMismatch.into()) }
    }

    fn check_role(self, role: Option<Role>) -> Result<(), AuthError> {
        let lacking = role.map_or(Grants::NONE, Role::grants).without(self.grants);
        if lacking == Grants::NONE {
            return Ok(());
        }
        Err(AuthError::ScopesNotHeld(lacking.iter().map(Scope::name).collect()))
    }
}

impl Users {
    /// Ends all sessions of a user.
    pub(super) fn end_sessions(&self, tx: &mut WriteTx, act: &mut Act, manager: Manager, id: UserId) -> Result<(), AuthError> {
        let user = account(tx, act, id)?;
        manager.check_role(user.role())?;
        repo::remove_sessions_of(tx, (user.tenant_id, user.id))?;
        let shown = self.directory.show_user(tx, &user)?;
        events::append(tx, act, &Draft::new(&SESSIONS_ENDED, user.id.to_string(), user.version, &shown))?;
        Ok(())
    }

    /// Creates a user; staff with a token to set their password with.
    pub(super) fn create_account(
        &self,
        tx: &mut WriteTx,
        act: &mut Act,
        manager: Manager,
        new: &NewUser,
    ) -> Result<(User, Option<PasswordToken>), AuthError> {
        if let Standing::Staff { role } = new.standing {
            manager.check_role(Some(role))?;
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
        manager: Manager,
        id: UserId,
        if_match: &IfMatch,
        change: &UserChange,
    ) -> Result<User, AuthError> {
        let before = account(tx, act, id)?;
        manager.check_role(before.role())?;
        manager.check_role(change.role)?;
        let user = self.directory.update_user(tx, act, id, if_match, change)?;
        if user.status == UserStatus::Disabled && before.status == UserStatus::Active {
            repo::remove_sessions_of(tx, (user.tenant_id, id))?;
            repo::remove_password_tokens_of(tx, (user.tenant_id, id))?;
        }
        Ok(user)
    }

    /// Removes a user with all that they could sign in with.
    pub(super) fn remove_account(
        &self,
        tx: &mut WriteTx,
        act: &mut Act,
        manager: Manager,
        id: UserId,
        if_match: &IfMatch,
    ) -> Result<User, AuthError> {
        manager.check_role(account(tx, act, id)?.role())?;
        let user = self.directory.remove_user(tx, act, id, if_match)?;
        let key = (user.tenant_id, id);
        repo::remove_sessions_of(tx, key)?;
        repo::remove_password_tokens_of(tx, key)?;
        repo::CREDENTIALS.remove(tx, &key)?;
        Ok(user)
    }

    /// Forgets who a user is at their identity provider. The next sign-on from there is matched by its address again.
    pub(super) fn unlink_account(&self, tx: &mut WriteTx, act: &mut Act, manager: Manager, id: UserId) -> Result<User, AuthError> {
        let user = account(tx, act, id)?;
        manager.check_role(user.role())?;
        repo::remove_sessions_of(tx, (user.tenant_id, id))?;
        Ok(self.directory.link_user(tx, act, &user, None)?)
    }

    /// Gives out a new token. The old password works until a new one is set.
    pub(super) fn issue_password_token(
        &self,
        tx: &mut WriteTx,
        act: &mut Act,
        manager: Manager,
        id: UserId,
    ) -> Result<(User, PasswordToken), AuthError> {
        let user = account(tx, act, id)?;
        let role = user.role().ok_or(AuthError::NotStaff)?;
        manager.check_role(Some(role))?;
        let token = issue(tx, act, &user)?;
        Ok((self.directory.touch_user(tx, act, user)?, token))
    }

    /// Sets a password with a token, which then is used up.
    pub async fn redeem_password_token(&self, token: &Secret, password: Secret, now: Timestamp) -> Result<(), AuthError> {
        let token = digest(token.expose().as_bytes());
        // Hashing is dear: nobody gets it done without a token.
        let user = self.store.read(|tx| usable(tx, &token, now))?;
        let intent = Intent::new(user.tenant_id, now, Actor::system("password token"));
        let password = self.hash_password(password, &intent).await?;
        let users = self.clone();
        self.store.write(move |tx| users.redeem(tx, &mut intent.begin(), &token, &password)).await
    }

    fn redeem(&self, tx: &mut WriteTx, act: &mut Act, token: &TokenDigest, password: &PasswordHash) -> Result<(), AuthError> {
        let user = usable(tx, token, act.now)?;
        act.actor = super::service::actor_of(&user);
        self.set_password(tx, act, user, password).map(drop)
    }
}

fn account(tx: &impl Read, act: &Act, id: UserId) -> Result<User, AuthError> {
    directory::user(tx, act.tenant_id, id)?.ok_or(AuthError::NotFound)
}

/// The sessions of a user behind a position, each with its own.
pub(super) fn sessions(
    tx: &impl Read,
    user: &User,
    after: Option<&[u8]>,
    limit: usize,
) -> Result<Vec<(Session, TokenDigest)>, AuthError> {
    Ok(repo::sessions_of(tx, (user.tenant_id, user.id), after, limit)?)
}

/// Who may set their password with the token now.
fn usable(tx: &impl Read, token: &TokenDigest, now: Timestamp) -> Result<User, AuthError> {
    let record = repo::PASSWORD_TOKENS.get(tx, token)?.filter(|record| now < record.expires_at).ok_or(AuthError::BadToken)?;
    let user = directory::user(tx, record.tenant_id, record.user_id)?;
    user.filter(|user| user.status == UserStatus::Active && user.role().is_some()).ok_or(AuthError::BadToken)
}

/// Makes a token in place of those before.
fn issue(tx: &mut WriteTx, act: &mut Act, user: &User) -> Result<PasswordToken, AuthError> {
    repo::remove_password_tokens_of(tx, (user.tenant_id, user.id))?;
    let (token, expires_at) = (new_token(act), act.now + TOKEN_LIFE);
    let record = PasswordTokenRecord { tenant_id: user.tenant_id, user_id: user.id, expires_at };
    repo::PASSWORD_TOKENS.put(tx, &digest(token.expose().as_bytes()), &record)?;
    Ok(PasswordToken { token, expires_at })
}
