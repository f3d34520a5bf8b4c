//! Creating users, and signing in and out.

use serde_json::value::RawValue;

use super::{
    error::AuthError,
    model::{LoginFailures, NewUser, Session, SessionRules, User, UserStatus, check_password, normalize_email},
    repo,
};
use crate::kernel::{
    access::Role,
    clock::Timestamp,
    events::{self, Act, Actor, ActorKind, Draft, EventKind, Intent},
    id::{SessionId, TenantId, UserId},
    secrets::{PasswordHash, Passwords, Secret, digest},
    store::{Read, Store, WriteTx},
};

pub(super) static USER_CREATED: EventKind =
    EventKind { name: "user.created", summary: "A user was created.", subject: "user", schema: "User", has_changes: false };
pub(super) static USER_UPDATED: EventKind =
    EventKind { name: "user.updated", summary: "A user or their password was changed.", ..USER_CREATED };
pub(super) static LOGGED_IN: EventKind = EventKind { name: "auth.login", summary: "Someone signed in.", ..USER_CREATED };
pub(super) static LOGIN_FAILED: EventKind =
    EventKind { name: "auth.login_failed", summary: "Someone gave a wrong password for a user.", ..USER_CREATED };

/// How a user is shown in an event.
pub(super) type Describe = fn(&User) -> Result<Box<RawValue>, serde_json::Error>;

#[derive(Clone, Debug)]
pub struct Users {
    store: Store,
    passwords: Passwords,
    sessions: SessionRules,
    describe: Describe,
}

/// A session that has just begun, with its token: the only time it is seen.
#[derive(Debug)]
pub struct Login {
    pub user: User,
    pub token: Secret,
    pub session: Session,
}

impl Users {
    pub(super) fn new(store: Store, passwords: Passwords, sessions: SessionRules, describe: Describe) -> Self {
        Self { store, passwords, sessions, describe }
    }

    /// Checks and hashes a password, off the writer: the hash is then handed to the use case.
    pub async fn hash_password(&self, password: Secret, intent: &Intent) -> Result<PasswordHash, AuthError> {
        check_password(&password)?;
        Ok(self.passwords.hash(password, &mut intent.begin().entropy).await?)
    }

    pub fn create(
        &self,
        tx: &mut WriteTx,
        act: &mut Act,
        new: &NewUser,
        password: &PasswordHash,
        is_platform: bool,
    ) -> Result<User, AuthError> {
        let email = normalize_email(&new.email)?;
        if (new.role == Role::Operator) != is_platform {
            return Err(AuthError::RoleMismatch);
        }
        if repo::find_email(tx, &email)?.is_some() {
            return Err(AuthError::EmailTaken);
        }
        let user = User {
            id: UserId::new(act.now, &mut act.entropy),
            tenant_id: new.tenant_id,
            email,
            name: new.name.clone(),
            role: new.role,
            status: UserStatus::Active,
            password: password.clone(),
            created_at: act.now,
            updated_at: act.now,
            last_login_at: None,
            version: 1,
        };
        repo::put_user(tx, &user)?;
        act.tenant_id = new.tenant_id;
        self.announce(tx, act, &USER_CREATED, &user)?;
        Ok(user)
    }

    /// Sets a new password and ends all sessions of the user.
    pub fn reset_password(&self, tx: &mut WriteTx, act: &mut Act, email: &str, password: &PasswordHash) -> Result<User, AuthError> {
        let mut user = repo::find_email(tx, &normalize_email(email)?)?.ok_or(AuthError::NotFound)?;
        user.password = password.clone();
        user.updated_at = act.now;
        user.version += 1;
        repo::put_user(tx, &user)?;
        repo::remove_sessions_of(tx, (user.tenant_id, user.id))?;
        repo::LOGIN_FAILURES.remove(tx, &repo::failure_key(&user.email))?;
        act.tenant_id = user.tenant_id;
        self.announce(tx, act, &USER_UPDATED, &user)?;
        Ok(user)
    }

    pub fn list(&self, tx: &impl Read, tenant: TenantId, limit: usize) -> Result<Vec<User>, AuthError> {
        Ok(repo::list_users(tx, tenant, limit)?)
    }

    /// Signs in. An unknown address and a wrong password take the same steps: one hash, one durable write.
    pub async fn login(&self, email: &str, password: Secret, now: Timestamp) -> Result<Login, AuthError> {
        let email = normalize_email(email).map_err(|_| AuthError::Refused)?;
        let failure_key = repo::failure_key(&email);
        let (user, failures) = self.store.read(|tx| {
            let failures = repo::LOGIN_FAILURES.get(tx, &failure_key)?;
            Ok::<_, AuthError>((repo::find_email(tx, &email)?, failures.unwrap_or_else(|| LoginFailures::none(now))))
        })?;
        if let Some(retry_after_seconds) = failures.wait_seconds(now) {
            return Err(AuthError::Throttled { retry_after_seconds });
        }
        let usable = user.filter(|user| user.status == UserStatus::Active);
        let hash = usable.as_ref().map(|user| user.password.clone());
        let matches = self.passwords.verify(password, hash).await?;
        match usable {
            Some(user) if matches => self.begin_session(user, failure_key, now).await,
            known => self.note_failure(known, failure_key, now).await,
        }
    }

    async fn begin_session(&self, user: User, failure_key: [u8; 16], now: Timestamp) -> Result<Login, AuthError> {
        let intent = Intent::new(user.tenant_id, now, actor_of(&user));
        let users = self.clone();
        let work = move |tx: &mut WriteTx| {
            let mut act = intent.begin();
            let token = new_token(&mut act);
            // The account may have changed since its password was checked.
            let mut user = repo::get_user(tx, (user.tenant_id, user.id))?
                .filter(|now| now.version == user.version)
                .ok_or(AuthError::Refused)?;
            let session = Session {
                id: SessionId::new(now, &mut act.entropy),
                tenant_id: user.tenant_id,
                user_id: user.id,
                created_at: now,
                last_seen_at: now,
                expires_at: now + users.sessions.absolute,
            };
            user.last_login_at = Some(now);
            repo::put_user(tx, &user)?;
            repo::put_session(tx, &digest(token.expose().as_bytes()), &session)?;
            repo::LOGIN_FAILURES.remove(tx, &failure_key)?;
            users.announce(tx, &mut act, &LOGGED_IN, &user)?;
            Ok(Login { user, token, session })
        };
        self.store.write(work).await
    }

    async fn note_failure(&self, user: Option<User>, failure_key: [u8; 16], now: Timestamp) -> Result<Login, AuthError> {
        let users = self.clone();
        let intent = user.as_ref().map(|user| Intent::new(user.tenant_id, now, Actor::system("sign-in")));
        let work = move |tx: &mut WriteTx| {
            let failures = repo::LOGIN_FAILURES.get(tx, &failure_key)?.unwrap_or_else(|| LoginFailures::none(now));
            repo::LOGIN_FAILURES.put(tx, &failure_key, &failures.one_more(now))?;
            if let (Some(user), Some(intent)) = (&user, &intent) {
                users.announce(tx, &mut intent.begin(), &LOGIN_FAILED, user)?;
            }
            Ok::<_, AuthError>(())
        };
        self.store.write(work).await?;
        Err(AuthError::Refused)
    }

    /// Ends the session; one that has ended already is no error.
    pub async fn logout(&self, token: &Secret) -> Result<(), AuthError> {
        let token = digest(token.expose().as_bytes());
        self.store.write(move |tx| Ok::<_, AuthError>(repo::remove_session(tx, &token)?)).await
    }

    fn announce(&self, tx: &mut WriteTx, act: &mut Act, kind: &'static EventKind, user: &User) -> Result<(), AuthError> {
        let shown = (self.describe)(user)?;
        let draft = Draft::new(kind, user.id.to_string(), user.version, &shown, None)?;
        events::append(tx, act, &draft)?;
        Ok(())
    }
}

fn actor_of(user: &User) -> Actor {
    Actor { kind: ActorKind::User, id: user.id.to_string(), name: user.name.clone() }
}

fn new_token(act: &mut Act) -> Secret {
    let bytes: [u8; 32] = act.entropy.bytes();
    Secret::new(data_encoding::BASE64URL_NOPAD.encode(&bytes))
}
