//! Use cases: create users, set passwords, start and end sessions.

use tenantd_api_keys::KeyOwners;
use tenantd_base::{
    access::{Grants, Role, Scope},
    id::{SessionId, TenantId},
    secrets::{PasswordHash, Passwords, Secret, digest},
};
use tenantd_directory::{self as directory, Directory, DirectoryError, Standing, User, normalize_email};
use tenantd_platform::Tenants;
use tenantd_store::{
    Read, Store, WriteTx,
    events::{self, Act, Actor, ActorKind, Describe, Draft, EventKind, Intent},
};

use super::{
    checks::Checks,
    error::{AuthError, TenantChoice},
    model::{NewUser, RefusedSignIn, Session, SessionRules, check_password},
    repo::{self, CredentialRecord},
};

pub(super) static LOGGED_IN: EventKind = EventKind {
    name: "auth.login",
    summary: "A user signed in.",
    subject: "user",
    schema: "User",
    reads: Grants::of(&[Scope::UsersRead]),
    has_changes: false,
};
pub(super) static LOGIN_FAILED: EventKind = EventKind {
    name: "auth.login_failed",
    summary: "A sign-in was refused, with a password, with a sign-in link or through an identity provider.",
    subject: "sign_in",
    schema: "RefusedSignIn",
    reads: Grants::of(&[Scope::UsersRead]),
    has_changes: false,
};

pub(super) static SESSIONS_ENDED: EventKind = EventKind {
    name: "auth.sessions_ended",
    summary: "All sessions of a user were ended.",
    subject: "user",
    schema: "User",
    reads: Grants::of(&[Scope::UsersRead]),
    has_changes: false,
};

/// How many tenants of an address the operator sees at most.
const MOST_LISTED: usize = 100;

#[derive(Clone, Debug)]
pub struct Users {
    pub(super) store: Store,
    pub(super) passwords: Passwords,
    sessions: SessionRules,
    pub(super) directory: Directory,
    pub(super) tenants: Tenants,
    pub(super) owners: KeyOwners,
    pub(super) checks: Checks,
}

/// A new session with its token. The plaintext token exists only here; the store has its digest.
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
    ) -> Self {
        Self { store, passwords, sessions, directory, tenants, owners, checks: Checks::default() }
    }

    /// Checks and hashes a password outside of a write transaction. The use case then takes the hash.
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
        self.tenants.enter(act, new.tenant_id);
        let record = directory::NewUser {
            external_id: None,
            email: Some(new.email.clone()),
            name: new.name.clone(),
            standing: Standing::Staff { role: new.role },
        };
        let user = self.directory.create_user(tx, act, &record)?;
        repo::CREDENTIALS.put(
            tx,
            &(user.tenant_id, user.id),
            &CredentialRecord { password: password.clone(), set_at: act.guard_time() },
        )?;
        Ok(user)
    }

    /// Sets a new password and ends all sessions of the user. The tenant is required if several tenants have the address.
    pub fn reset_password(
        &self,
        tx: &mut WriteTx,
        act: &mut Act,
        email: &str,
        tenant: Option<TenantId>,
        password: &PasswordHash,
    ) -> Result<User, AuthError> {
        let email = normalize_email(email)?;
        let mut found = match tenant {
            Some(tenant) => directory::staff_of_tenant(tx, tenant, &email)?.into_iter().collect(),
            None => directory::staff_by_address(tx, &email, MOST_LISTED)?,
        };
        if found.len() > 1 {
            let mut choices = Vec::new();
            for user in &found {
                choices.extend(self.tenant(user.tenant_id)?.as_ref().map(TenantChoice::of));
            }
            return Err(AuthError::TenantRequired(choices));
        }
        let user = found.pop().ok_or(AuthError::NotFound)?;
        self.tenants.enter(act, user.tenant_id);
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
        repo::CREDENTIALS.put(tx, &key, &CredentialRecord { password: password.clone(), set_at: act.guard_time() })?;
        repo::remove_sessions_of(tx, key)?;
        // An older link must not be able to set the password again, or sign in without it.
        repo::remove_password_tokens_of(tx, key)?;
        repo::remove_sign_in_links_of(tx, key)?;
        repo::clear_failures(tx, key)?;
        self.clear_typed_failures(tx, &user)?;
        Ok(self.directory.touch_user(tx, act, user)?)
    }

    /// Removes the counts of wrong passwords for the user's address: alone, with the tenant's id, and with its slug.
    fn clear_typed_failures(&self, tx: &mut WriteTx, user: &User) -> Result<(), AuthError> {
        let Some(email) = &user.email else { return Ok(()) };
        let (id, tenant) = (user.tenant_id.to_string(), self.tenant(user.tenant_id)?);
        for named in [None, Some(id.as_str()), tenant.as_ref().map(|tenant| tenant.slug.as_str())] {
            repo::LOGIN_FAILURES.remove(tx, &repo::failure_key(email, named))?;
        }
        Ok(())
    }

    /// Returns the tenant's staff.
    pub fn list(&self, tx: &impl Read, tenant: TenantId, limit: usize) -> Result<Vec<User>, AuthError> {
        Ok(directory::staff(tx, tenant, limit)?)
    }

    /// Starts a session for a user who has been authenticated by any method and who may sign in. Ends the `former` session of the
    /// browser, even if it belongs to another user, because its cookie is overwritten and no one could sign it out.
    pub fn sign_in_proven(&self, tx: &mut WriteTx, act: &mut Act, user: User, former: Option<&Secret>) -> Result<Login, AuthError> {
        if let Some(former) = former {
            repo::remove_session(tx, &digest(former.expose().as_bytes()))?;
        }
        act.actor = actor_of(&user);
        let (token, now) = (new_token(act), act.guard_time());
        let session = Session {
            // The time in the id is the sign-in time that users see.
            id: SessionId::new(act.now, &mut act.entropy),
            tenant_id: user.tenant_id,
            user_id: user.id,
            created_at: now,
            last_seen_at: now,
            expires_at: now + self.sessions.absolute,
        };
        let user = self.directory.note_login(tx, user, act.now)?;
        repo::put_session(tx, &digest(token.expose().as_bytes()), &session)?;
        let shown = self.directory.show_user(tx, &user)?;
        let draft = Draft::new(&LOGGED_IN, user.id.to_string(), user.version, &shown);
        events::append(tx, act, &draft)?;
        Ok(Login { user, token, session })
    }

    /// Records a refused sign-in as an event. The event is about the user if known, else about the identity provider, else about
    /// the tenant.
    pub fn note_refusal(&self, tx: &mut WriteTx, act: &mut Act, refused: &RefusedSignIn) -> Result<(), AuthError> {
        let (kind, id) = match (&refused.user, &refused.identity_provider) {
            (Some((id, _)), _) => ("user", id.to_string()),
            (None, Some((id, _))) => ("identity_provider", id.to_string()),
            (None, None) => ("tenant", act.tenant_id.to_string()),
        };
        let shown = refused.describe(())?;
        let mut draft = Draft::new(&LOGIN_FAILED, id, 0, &shown);
        draft.resource.kind = kind;
        events::append(tx, act, &draft)?;
        Ok(())
    }

    /// Ends the session. Succeeds if it has already ended.
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
