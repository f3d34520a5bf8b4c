//! Use cases: create users, set passwords, start and end sessions.

use std::time::Duration;

use tenantd_api_keys::KeyOwners;
use tenantd_base::{
    access::{Grants, Role, Scope},
    clock::Timestamp,
    id::{RoleId, SessionId, TenantId, UserId},
    secrets::{PasswordHash, Passwords, Sealer, Secret, digest},
};
use tenantd_directory::{self as directory, Directory, DirectoryError, Standing, User, UserLabels, normalize_email};
use tenantd_platform::Tenants;
use tenantd_store::{
    Read, Store, StoreError, WriteTx,
    events::{self, Act, Actor, ActorKind, Describe, Draft, EventKind, Intent},
};

use super::{
    OtherSlices, SecretParts,
    checks::Checks,
    error::{AuthError, TenantChoice},
    model::{Browser, NewUser, PasswordContext, RefusedSignIn, Session, SessionRules, SignInMethod, check_password},
    repo::{self, CredentialRecord, FailureKey},
    sign_in::count_failure,
    sign_on::SignOnRules,
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
    summary: "A sign-in was refused, with a password, a passkey, a sign-in link or through an identity provider.",
    subject: "sign_in",
    schema: "RefusedSignIn",
    reads: Grants::of(&[Scope::UsersRead]),
    has_changes: false,
};

pub(super) static SESSIONS_ENDED: EventKind = EventKind {
    name: "auth.sessions_ended",
    summary: "One, several or all sessions of a user were ended.",
    subject: "user",
    schema: "User",
    reads: Grants::of(&[Scope::UsersRead]),
    has_changes: false,
};

pub(super) static CONFIRMED: EventKind = EventKind {
    name: "auth.confirmed",
    summary: "A signed-in user confirmed who they are.",
    subject: "user",
    schema: "User",
    reads: Grants::of(&[Scope::UsersRead]),
    has_changes: false,
};

pub(super) static PASSWORD_CHANGED: EventKind = EventKind {
    name: "auth.password_changed",
    summary: "A user changed their own password.",
    subject: "user",
    schema: "User",
    reads: Grants::of(&[Scope::UsersRead]),
    has_changes: false,
};

/// How long an initial password works that nobody chose.
const INITIAL_LIFE: Duration = Duration::from_hours(72);

/// How many tenants of an address the operator sees at most.
const MOST_LISTED: usize = 100;

/// Removes what another slice knows about a member of staff, in the transaction that removes the account.
pub type PersonRemoved = fn(&mut WriteTx, &Act, UserId) -> Result<(), StoreError>;

/// Counts the rules of another slice that give a custom role.
pub type RoleRules = fn(&WriteTx, TenantId, RoleId) -> Result<u64, StoreError>;

#[derive(Clone, Debug)]
pub struct Users {
    pub(super) store: Store,
    pub(super) passwords: Passwords,
    pub(super) sealer: Sealer,
    pub(super) sessions: SessionRules,
    pub(super) directory: Directory,
    pub(super) tenants: Tenants,
    pub(super) owners: KeyOwners,
    pub(super) checks: Checks,
    pub(super) sign_on_rules: SignOnRules,
    pub(super) person_removed: PersonRemoved,
    pub(super) role_rules: RoleRules,
}

/// The first password of an account.
#[derive(Clone, Copy, Debug)]
pub enum FirstPassword<'a> {
    /// The person sets one with a link.
    None,
    /// Somebody chose it.
    Chosen(&'a PasswordHash),
    /// tenantd made it. It stops working after three days.
    Temporary(&'a PasswordHash),
}

/// A new session with its token. The plaintext token exists only here; the store has its digest.
#[derive(Debug)]
pub struct Login {
    pub user: User,
    pub labels: UserLabels,
    pub token: Secret,
    pub session: Session,
}

impl Users {
    pub(super) fn new(store: Store, secrets: SecretParts, sessions: SessionRules, others: &OtherSlices<'_>) -> Self {
        let SecretParts { passwords, sealer } = secrets;
        let OtherSlices { directory, sign_on_rules, person_removed, role_rules, .. } = *others;
        let (tenants, owners) = (others.tenants.clone(), others.keys.owners());
        let checks = Checks::default();
        Self { store, passwords, sealer, sessions, directory, tenants, owners, checks, sign_on_rules, person_removed, role_rules }
    }

    /// Checks and hashes a password outside of a write transaction. The use case then takes the hash.
    pub async fn hash_password(
        &self,
        password: Secret,
        context: &PasswordContext,
        intent: &Intent,
    ) -> Result<PasswordHash, AuthError> {
        check_password(&password, context).map_err(|reason| AuthError::BadPassword("password", reason))?;
        Ok(self.passwords.hash(password, &mut intent.begin().entropy).await?)
    }

    pub fn create(
        &self,
        tx: &mut WriteTx,
        act: &mut Act,
        new: &NewUser,
        password: FirstPassword<'_>,
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
            standing: Standing::Staff { role: new.role.into(), organization_ids: None },
        };
        let user = self.directory.create_user(tx, act, &record)?;
        let set_at = act.guard_time();
        let (password, expires_at) = match password {
            FirstPassword::None => return Ok(user),
            FirstPassword::Chosen(password) => (password.clone(), None),
            FirstPassword::Temporary(password) => (password.clone(), Some(set_at + INITIAL_LIFE)),
        };
        repo::CREDENTIALS.put(tx, &(user.tenant_id, user.id), &CredentialRecord { password, set_at, expires_at })?;
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
        let user = self.find_staff(tx, email, tenant)?;
        self.tenants.enter(act, user.tenant_id);
        self.set_password(tx, act, user, password)
    }

    /// Returns the member of staff with this address. The tenant is required if several tenants have the address.
    pub(super) fn find_staff(&self, tx: &impl Read, email: &str, tenant: Option<TenantId>) -> Result<User, AuthError> {
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
        found.pop().ok_or(AuthError::NotFound)
    }

    pub(super) fn set_password(
        &self,
        tx: &mut WriteTx,
        act: &mut Act,
        user: User,
        password: &PasswordHash,
    ) -> Result<User, AuthError> {
        let key = (user.tenant_id, user.id);
        let record = CredentialRecord { password: password.clone(), set_at: act.guard_time(), expires_at: None };
        repo::CREDENTIALS.put(tx, &key, &record)?;
        self.end_access(tx, &user)?;
        Ok(self.directory.touch_user(tx, act, user)?)
    }

    /// Ends the sessions of a user, their links, and the delay after wrong passwords.
    pub(super) fn end_access(&self, tx: &mut WriteTx, user: &User) -> Result<(), AuthError> {
        let key = (user.tenant_id, user.id);
        repo::remove_sessions_of(tx, key)?;
        // An older link must not be able to set the password again, or sign in without it.
        repo::remove_password_tokens_of(tx, key)?;
        repo::remove_sign_in_links_of(tx, key)?;
        repo::clear_failures(tx, key)?;
        self.clear_typed_failures(tx, user)
    }

    /// Removes the counts of wrong passwords for the user's address.
    fn clear_typed_failures(&self, tx: &mut WriteTx, user: &User) -> Result<(), AuthError> {
        for key in self.typed_keys(user)? {
            repo::LOGIN_FAILURES.remove(tx, &key)?;
        }
        Ok(())
    }

    /// Counts a wrong password for the user's address, so that a sign-in has to wait as well.
    pub(super) fn count_typed_failures(&self, tx: &mut WriteTx, user: &User, now: Timestamp) -> Result<(), AuthError> {
        for key in self.typed_keys(user)? {
            count_failure(tx, key, now)?;
        }
        Ok(())
    }

    /// What people type to sign in as the user: the address alone, with the tenant's id, and with its slug.
    fn typed_keys(&self, user: &User) -> Result<Vec<FailureKey>, AuthError> {
        let Some(email) = &user.email else { return Ok(Vec::new()) };
        let (id, tenant) = (user.tenant_id.to_string(), self.tenant(user.tenant_id)?);
        let slug = tenant.as_ref().map(|tenant| tenant.slug.as_str());
        Ok([None, Some(id.as_str())].into_iter().chain(slug.map(Some)).map(|named| repo::failure_key(email, named)).collect())
    }

    /// Returns the tenant's staff.
    pub fn list(&self, tx: &impl Read, tenant: TenantId, limit: usize) -> Result<Vec<User>, AuthError> {
        Ok(directory::staff(tx, tenant, limit)?)
    }

    /// Starts a session for a user who has been authenticated by any method and who may sign in. Ends the former session of the
    /// browser, even if it belongs to another user, because its cookie is overwritten and no one could sign it out.
    pub fn sign_in_proven(
        &self,
        tx: &mut WriteTx,
        act: &mut Act,
        user: User,
        methods: &[SignInMethod],
        browser: &Browser,
    ) -> Result<Login, AuthError> {
        // Their access may have ended since they proved who they are.
        if user.role().is_none() && !repo::portal::has_access(tx, &user)? {
            return Err(AuthError::Refused);
        }
        if let Some(former) = &browser.former {
            repo::remove_session(tx, &digest(former.expose().as_bytes()))?;
        }
        act.actor = actor_of(&user);
        self.limit_sessions(tx, act, &user)?;
        let (token, now) = (new_token(act), act.guard_time());
        let session = Session {
            // The time in the id is the sign-in time that users see.
            id: SessionId::new(act.now, &mut act.entropy),
            tenant_id: user.tenant_id,
            user_id: user.id,
            created_at: now,
            last_seen_at: now,
            expires_at: now + self.sessions.absolute,
            methods: methods.to_vec(),
            proven_at: now,
            origin: browser.origin.clone(),
            sign_on: None,
        };
        let user = self.directory.note_login(tx, user, act.now)?;
        repo::put_session(tx, &digest(token.expose().as_bytes()), &session)?;
        let labels = directory::user_labels(tx, &user)?;
        let shown = user.describe(&labels)?;
        let draft = Draft::new(&LOGGED_IN, user.id.to_string(), user.version, &shown);
        events::append(tx, act, &draft)?;
        Ok(Login { user, labels, token, session })
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

    /// The session of a token with its user, unless it has ended.
    pub fn session_of(&self, token: &Secret) -> Result<Option<(User, Session)>, AuthError> {
        let token = digest(token.expose().as_bytes());
        self.store.read(|tx| {
            let Some(session) = repo::get_session(tx, &token)? else { return Ok(None) };
            let user = directory::user(tx, session.tenant_id, session.user_id)?;
            Ok(user.map(|user| (user, session)))
        })
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
