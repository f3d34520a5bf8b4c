//! Creating users, and signing in and out.

use serde_json::value::RawValue;

use super::{
    checks::Checks,
    error::AuthError,
    model::{LoginFailures, NewUser, RefusalReason, RefusedSignIn, Session, SessionRules, check_password},
    repo::{self, CredentialRecord},
};
use crate::{
    kernel::{
        access::{Grants, Role, Scope},
        clock::Timestamp,
        events::{self, Act, Actor, ActorKind, Draft, EventKind, Intent},
        id::{SessionId, TenantId},
        secrets::{PasswordHash, Passwords, Secret, digest},
        store::{Read, Store, WriteTx},
    },
    slices::{
        api_keys::KeyOwners,
        directory::{self, Directory, DirectoryError, Standing, User, UserStatus, normalize_email},
        platform::Tenants,
    },
};

pub(super) static LOGGED_IN: EventKind = EventKind {
    name: "auth.login",
    summary: "Someone signed in.",
    subject: "user",
    schema: "User",
    reads: Grants::of(&[Scope::UsersRead]),
    has_changes: false,
};
pub(super) static LOGIN_FAILED: EventKind = EventKind {
    name: "auth.login_failed",
    summary: "A sign-in was refused, with a password or through an identity provider.",
    subject: "sign_in",
    schema: "RefusedSignIn",
    reads: Grants::of(&[Scope::UsersRead]),
    has_changes: false,
};

pub(super) static SESSIONS_ENDED: EventKind = EventKind {
    name: "auth.sessions_ended",
    summary: "All sessions of a user were ended by somebody who may.",
    subject: "user",
    schema: "User",
    reads: Grants::of(&[Scope::UsersRead]),
    has_changes: false,
};

/// How a refused sign-in is shown in its event.
pub(super) type Describe = fn(&RefusedSignIn) -> Result<Box<RawValue>, serde_json::Error>;

#[derive(Clone, Debug)]
pub struct Users {
    pub(super) store: Store,
    passwords: Passwords,
    sessions: SessionRules,
    pub(super) directory: Directory,
    pub(super) tenants: Tenants,
    pub(super) owners: KeyOwners,
    describe: Describe,
    checks: Checks,
}

/// A session that has just begun, with its token: the only time it is seen.
#[derive(Debug)]
pub struct Login {
    pub user: User,
    pub token: Secret,
    pub session: Session,
}

impl Users {
    pub(super) fn new(
        store: Store,
        passwords: Passwords,
        sessions: SessionRules,
        directory: Directory,
        tenants: Tenants,
        owners: KeyOwners,
        describe: Describe,
    ) -> Self {
        Self { store, passwords, sessions, directory, tenants, owners, describe, checks: Checks::default() }
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
        if (new.role == Role::Operator) != is_platform {
            return Err(DirectoryError::RoleMismatch.into());
        }
        act.tenant_id = new.tenant_id;
        let record = directory::NewUser {
            external_id: None,
            email: Some(new.email.clone()),
            name: new.name.clone(),
            standing: Standing::Staff { role: new.role },
        };
        let user = self.directory.create_user(tx, act, &record)?;
        repo::CREDENTIALS.put(tx, &(user.tenant_id, user.id), &CredentialRecord { password: password.clone(), set_at: act.now })?;
        Ok(user)
    }

    /// Sets a new password and ends all sessions of the user.
    pub fn reset_password(&self, tx: &mut WriteTx, act: &mut Act, email: &str, password: &PasswordHash) -> Result<User, AuthError> {
        let email = normalize_email(email)?;
        let user = directory::staff_by_login(tx, &email)?.ok_or(AuthError::NotFound)?;
        act.tenant_id = user.tenant_id;
        self.set_password(tx, act, user, password)
    }

    pub(super) fn set_password(
        &self,
        tx: &mut WriteTx,
        act: &mut Act,
        user: User,
        password: &PasswordHash,
    ) -> Result<User, AuthError> {
        let key = (user.tenant_id, user.id);
        repo::CREDENTIALS.put(tx, &key, &CredentialRecord { password: password.clone(), set_at: act.now })?;
        repo::remove_sessions_of(tx, key)?;
        // Whoever has an older link must not be able to set the password once more.
        repo::remove_password_tokens_of(tx, key)?;
        if let Some(email) = &user.email {
            repo::LOGIN_FAILURES.remove(tx, &repo::failure_key(email))?;
        }
        Ok(self.directory.touch_user(tx, act, user)?)
    }

    /// The tenant's staff.
    pub fn list(&self, tx: &impl Read, tenant: TenantId, limit: usize) -> Result<Vec<User>, AuthError> {
        Ok(directory::staff(tx, tenant, limit)?)
    }

    /// Signs in, and ends the session that the browser had before. An unknown address and a wrong password take the same steps: one hash,
    /// one durable write. A password takes its place among those of the account before it is looked at, and keeps it until a wrong one is
    /// written down: so no more are checked at the same time than are free.
    pub async fn login(&self, email: &str, password: Secret, former: Option<Secret>, now: Timestamp) -> Result<Login, AuthError> {
        let email = normalize_email(email).map_err(|_| AuthError::Refused)?;
        let failure_key = repo::failure_key(&email);
        let check = self.checks.begin(failure_key);
        let (account, failures) = self.store.read(|tx| {
            let failures = repo::LOGIN_FAILURES.get(tx, &failure_key)?.unwrap_or_else(|| LoginFailures::none(now));
            let user = directory::staff_by_login(tx, &email)?.filter(|user| user.status == UserStatus::Active);
            let credential = match &user {
                Some(user) => repo::CREDENTIALS.get(tx, &(user.tenant_id, user.id))?,
                None => None,
            };
            // Without a password nobody can sign in yet: such an account looks like none.
            Ok::<_, AuthError>((user.zip(credential), failures))
        })?;
        if let Some(retry_after_seconds) = failures.wait_seconds(now) {
            return Err(AuthError::Throttled { retry_after_seconds });
        }
        if check.count > failures.places(now) {
            return Err(AuthError::Throttled { retry_after_seconds: 1 });
        }
        let hash = account.as_ref().map(|(_, credential)| credential.password.clone());
        let matches = self.passwords.verify(password, hash).await?;
        let outcome = match account {
            Some((user, credential)) if matches => self.begin_session(user, credential, failure_key, former, now).await,
            known => self.note_failure(known.map(|(user, _)| user), failure_key, now).await,
        };
        drop(check);
        outcome
    }

    async fn begin_session(
        &self,
        user: User,
        checked: CredentialRecord,
        failure_key: [u8; 16],
        former: Option<Secret>,
        now: Timestamp,
    ) -> Result<Login, AuthError> {
        let intent = Intent::new(user.tenant_id, now, actor_of(&user));
        let users = self.clone();
        let work = move |tx: &mut WriteTx| {
            let mut act = intent.begin();
            // The account may have changed since its password was checked.
            let user = directory::user(tx, user.tenant_id, user.id)?
                .filter(|now| now.version == user.version)
                .ok_or(AuthError::Refused)?;
            let credential = repo::CREDENTIALS.get(tx, &(user.tenant_id, user.id))?;
            if credential.is_none_or(|credential| credential.password != checked.password) {
                return Err(AuthError::Refused);
            }
            repo::LOGIN_FAILURES.remove(tx, &failure_key)?;
            users.sign_in_proven(tx, &mut act, user, former.as_ref())
        };
        self.store.write(work).await
    }

    /// Begins a session for somebody who has proven who they are, by whatever means, and who may sign in. The `former` one of their browser
    /// ends with that, whoever's it was: its cookie is overwritten, so nobody could end it by signing out.
    pub fn sign_in_proven(&self, tx: &mut WriteTx, act: &mut Act, user: User, former: Option<&Secret>) -> Result<Login, AuthError> {
        if let Some(former) = former {
            repo::remove_session(tx, &digest(former.expose().as_bytes()))?;
        }
        act.actor = actor_of(&user);
        let token = new_token(act);
        let session = Session {
            id: SessionId::new(act.now, &mut act.entropy),
            tenant_id: user.tenant_id,
            user_id: user.id,
            created_at: act.now,
            last_seen_at: act.now,
            expires_at: act.now + self.sessions.absolute,
        };
        let user = self.directory.note_login(tx, user, act.now)?;
        repo::put_session(tx, &digest(token.expose().as_bytes()), &session)?;
        let shown = self.directory.show_user(tx, &user)?;
        let draft = Draft::new(&LOGGED_IN, user.id.to_string(), user.version, &shown);
        events::append(tx, act, &draft)?;
        Ok(Login { user, token, session })
    }

    /// Writes down that somebody was not let in. The event is about the user where one is known, else about the provider, and else
    /// about the tenant.
    pub fn note_refusal(&self, tx: &mut WriteTx, act: &mut Act, refused: &RefusedSignIn) -> Result<(), AuthError> {
        let (kind, id) = match (&refused.user, &refused.identity_provider) {
            (Some((id, _)), _) => ("user", id.to_string()),
            (None, Some((id, _))) => ("identity_provider", id.to_string()),
            (None, None) => ("tenant", act.tenant_id.to_string()),
        };
        let shown = (self.describe)(refused)?;
        let mut draft = Draft::new(&LOGIN_FAILED, id, 0, &shown);
        draft.resource.kind = kind;
        events::append(tx, act, &draft)?;
        Ok(())
    }

    async fn note_failure(&self, user: Option<User>, failure_key: [u8; 16], now: Timestamp) -> Result<Login, AuthError> {
        let users = self.clone();
        let work = move |tx: &mut WriteTx| {
            let failures = repo::LOGIN_FAILURES.get(tx, &failure_key)?.unwrap_or_else(|| LoginFailures::none(now));
            repo::LOGIN_FAILURES.put(tx, &failure_key, &failures.one_more(now))?;
            // An account that is not there belongs to nobody: the operator is told, without what was typed, which can be a password.
            let (tenant_id, reason) = match &user {
                Some(user) => (user.tenant_id, RefusalReason::WrongPassword),
                None => match users.tenants.platform(tx)? {
                    Some(platform) => (platform.id, RefusalReason::NoAccount),
                    None => return Ok(()),
                },
            };
            let user = user.as_ref().map(|user| (user.id, user.name.clone()));
            let refused = RefusedSignIn { reason, user, identity_provider: None };
            let intent = Intent::new(tenant_id, now, Actor::system("sign-in"));
            users.note_refusal(tx, &mut intent.begin(), &refused)
        };
        self.store.write(work).await?;
        Err(AuthError::Refused)
    }

    /// Ends the session; one that has ended already is no error.
    pub async fn logout(&self, token: &Secret) -> Result<(), AuthError> {
        let token = digest(token.expose().as_bytes());
        self.store.write(move |tx| Ok::<_, AuthError>(repo::remove_session(tx, &token)?)).await
    }
}

pub(super) fn actor_of(user: &User) -> Actor {
    Actor { kind: ActorKind::User, id: user.id.to_string(), name: user.name.clone() }
}

pub(super) fn new_token(act: &mut Act) -> Secret {
    let bytes: [u8; 32] = act.entropy.bytes();
    Secret::new(data_encoding::BASE64URL_NOPAD.encode(&bytes))
}
