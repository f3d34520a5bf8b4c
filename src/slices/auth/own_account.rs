//! What people do with their own account: they confirm that it is them, change their password, and end their sessions.
//!
//! **Invariant:** a password that is typed in a session counts like one that is typed to sign in. Both share the count of wrong passwords of
//! the account, so that a stolen session is of no use for guessing.

use tenantd_base::{
    access::{Identity, Principal},
    clock::Timestamp,
    id::{SessionId, TenantId, UserId},
    secrets::{Secret, digest},
};
use tenantd_directory::{self as directory, User, UserStatus};
use tenantd_store::{
    Read, WriteTx,
    events::{self, Act, Actor, Draft},
};

use super::{
    error::AuthError,
    factors::check_proven,
    model::{PasswordContext, RefusalReason, RefusedSignIn, Session, SignInMethod},
    repo::{self, CredentialRecord, TokenDigest, UserKey},
    service::{CONFIRMED, PASSWORD_CHANGED, SESSIONS_ENDED, Users, actor_of, new_token},
    sign_in::{count_failure, failures},
};

/// A signed-in person, and the session of the request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Own {
    tenant: TenantId,
    user: UserId,
    pub(super) session: SessionId,
}

impl Own {
    pub(super) fn of(principal: &Principal) -> Result<Self, AuthError> {
        match &principal.identity {
            Identity::User { id, session_id, .. } | Identity::Contact { id, session_id, .. } => {
                Ok(Self { tenant: principal.tenant_id, user: *id, session: *session_id })
            }
            Identity::ApiKey { .. } | Identity::LocalOperator => Err(AuthError::NoSession),
        }
    }

    pub(super) fn key(self) -> UserKey {
        (self.tenant, self.user)
    }

    pub(super) fn is(self, user: &User) -> bool {
        self.key() == (user.tenant_id, user.id)
    }

    fn session(self, tx: &impl Read) -> Result<(Session, TokenDigest), AuthError> {
        repo::session_of(tx, self.key(), self.session)?.ok_or(AuthError::NotFound)
    }

    pub(super) fn user(self, tx: &impl Read) -> Result<User, AuthError> {
        let user = directory::user(tx, self.tenant, self.user)?;
        user.filter(|user| user.status == UserStatus::Active).ok_or(AuthError::NotFound)
    }
}

impl Users {
    /// Confirms with the password that the person of the session is present.
    pub(super) async fn confirm(&self, own: Own, password: Secret, now: Timestamp) -> Result<Session, AuthError> {
        let credential = self.check_own_password(own, password, now, "password").await?;
        let users = self.clone();
        let intent = self.tenants.guarding_intent(own.tenant, now, Actor::system("confirmation"));
        let work = move |tx: &mut WriteTx| {
            users.check_unchanged(tx, own, &credential, "password")?;
            users.prove_again(tx, &mut intent.begin(), own)
        };
        self.store.write(work).await
    }

    /// Records that the person of a session has proven again who they are, with any factor.
    pub(super) fn prove_again(&self, tx: &mut WriteTx, act: &mut Act, own: Own) -> Result<Session, AuthError> {
        let user = own.user(tx)?;
        let (mut session, token) = own.session(tx)?;
        session.proven_at = act.guard_time();
        repo::put_session(tx, &token, &session)?;
        repo::clear_failures(tx, own.key())?;
        act.actor = actor_of(&user);
        let shown = self.directory.show_user(tx, &user)?;
        events::append(tx, act, &Draft::new(&CONFIRMED, user.id.to_string(), user.version, &shown))?;
        Ok(session)
    }

    /// Changes the password, ends all other sessions, and gives the session of the request a new token.
    pub(super) async fn change_own_password(
        &self,
        own: Own,
        current: Secret,
        new: Secret,
        now: Timestamp,
    ) -> Result<(Session, Secret), AuthError> {
        if current.expose() == new.expose() {
            return Err(AuthError::BadPassword("new_password", "the new password is the current one; choose another".to_owned()));
        }
        let credential = self.check_own_password(own, current, now, "current_password").await?;
        let user = self.store.read(|tx| own.user(tx))?;
        let intent = self.tenants.guarding_intent(own.tenant, now, actor_of(&user));
        let context = self.password_context(&user)?;
        let password = match self.hash_password(new, &context, &intent).await {
            Err(AuthError::BadPassword(_, reason)) => return Err(AuthError::BadPassword("new_password", reason)),
            outcome => outcome?,
        };
        let users = self.clone();
        let work = move |tx: &mut WriteTx| {
            let (mut act, user) = (intent.begin(), own.user(tx)?);
            users.check_unchanged(tx, own, &credential, "current_password")?;
            let (mut session, _) = own.session(tx)?;
            let user = users.set_password(tx, &mut act, user, &password)?;
            let token = new_token(&mut act);
            session.proven_at = act.guard_time();
            repo::put_session(tx, &digest(token.expose().as_bytes()), &session)?;
            let shown = users.directory.show_user(tx, &user)?;
            events::append(tx, &mut act, &Draft::new(&PASSWORD_CHANGED, user.id.to_string(), user.version, &shown))?;
            Ok((session, token))
        };
        self.store.write(work).await
    }

    /// Compares a password with that of the person. A wrong one counts like a sign-in that failed. `field` is where it was typed.
    /// A password that would not sign the person in proves nothing: they must use a provider, or prove their second factor first.
    async fn check_own_password(
        &self,
        own: Own,
        password: Secret,
        now: Timestamp,
        field: &'static str,
    ) -> Result<CredentialRecord, AuthError> {
        let (key, counted) = (own.key(), repo::account_failure_key(own.key()));
        let check = self.checks.begin(counted);
        let (credential, failed) = self.store.read(|tx| {
            let credential = repo::CREDENTIALS.get(tx, &key)?.ok_or(AuthError::NoPassword)?;
            if let Some(required) = self.required_sign_on_of_reader(tx, &own.user(tx)?)? {
                return Err(AuthError::SingleSignOnRequired(Box::new(required)));
            }
            check_proven(tx, key, own.session)?;
            Ok::<_, AuthError>((credential, failures(tx, counted, now)?))
        })?;
        if let Some(retry_after_seconds) = failed.wait_seconds(now) {
            return Err(AuthError::Throttled { retry_after_seconds });
        }
        if check.count > failed.places(now) {
            return Err(AuthError::Throttled { retry_after_seconds: 1 });
        }
        if self.passwords.verify_each(password, vec![Some(credential.password.clone())]).await? == [true] {
            return Ok(credential);
        }
        let (users, intent) = (self.clone(), self.tenants.guarding_intent(own.tenant, now, Actor::system("confirmation")));
        let work = move |tx: &mut WriteTx| {
            let user = own.user(tx)?;
            count_failure(tx, counted, now)?;
            users.count_typed_failures(tx, &user, now)?;
            let (method, reason) = (SignInMethod::Password, RefusalReason::WrongPassword);
            let refused = RefusedSignIn { method, reason, user: Some((user.id, user.name)), identity_provider: None };
            users.note_refusal(tx, &mut intent.begin(), &refused)
        };
        self.store.write(work).await?;
        drop(check);
        Err(AuthError::WrongPassword(field))
    }

    /// Words that the password of a user must not consist of.
    pub(super) fn password_context(&self, user: &User) -> Result<PasswordContext, AuthError> {
        let context = PasswordContext::default().with_person(&user.name, user.email.as_deref());
        Ok(match self.tenant(user.tenant_id)? {
            Some(tenant) => context.with_tenant(&tenant.name, &tenant.slug),
            None => context,
        })
    }

    /// Ends one session of a user.
    pub(super) fn end_session(&self, tx: &mut WriteTx, act: &mut Act, user: UserId, id: SessionId) -> Result<(), AuthError> {
        let user = directory::user(tx, act.tenant_id, user)?.ok_or(AuthError::NotFound)?;
        let (_, token) = repo::session_of(tx, (user.tenant_id, user.id), id)?.ok_or(AuthError::NotFound)?;
        repo::remove_session(tx, &token)?;
        self.note_sessions_ended(tx, act, &user)
    }

    /// Ends all sessions of the person, except the one of the request.
    pub(super) fn end_other_sessions(&self, tx: &mut WriteTx, act: &mut Act, own: Own) -> Result<(), AuthError> {
        let user = own.user(tx)?;
        self.end_sessions_except(tx, act, &user, own.session)
    }

    /// Ends all sessions of a user, except one.
    pub(super) fn end_sessions_except(
        &self,
        tx: &mut WriteTx,
        act: &mut Act,
        user: &User,
        kept: SessionId,
    ) -> Result<(), AuthError> {
        let others: Vec<TokenDigest> = repo::sessions_of(tx, (user.tenant_id, user.id), None, usize::MAX)?
            .into_iter()
            .filter(|(session, _)| session.id != kept)
            .map(|(_, token)| token)
            .collect();
        for token in &others {
            repo::remove_session(tx, token)?;
        }
        if others.is_empty() { Ok(()) } else { self.note_sessions_ended(tx, act, user) }
    }

    /// Fails if the password, or what it proves, has changed since it was compared.
    fn check_unchanged(&self, tx: &WriteTx, own: Own, compared: &CredentialRecord, field: &'static str) -> Result<(), AuthError> {
        let now = repo::CREDENTIALS.get(tx, &own.key())?;
        if now.is_none_or(|now| now.password != compared.password) {
            return Err(AuthError::WrongPassword(field));
        }
        if let Some(required) = self.required_sign_on(tx, &own.user(tx)?)? {
            return Err(AuthError::SingleSignOnRequired(Box::new(required)));
        }
        check_proven(tx, own.key(), own.session)
    }

    fn note_sessions_ended(&self, tx: &mut WriteTx, act: &mut Act, user: &User) -> Result<(), AuthError> {
        let shown = self.directory.show_user(tx, user)?;
        events::append(tx, act, &Draft::new(&SESSIONS_ENDED, user.id.to_string(), user.version, &shown))?;
        Ok(())
    }

    /// Makes room for a new session: the sessions that were used least recently end. The time of use is stored once a minute.
    pub(super) fn limit_sessions(&self, tx: &mut WriteTx, act: &mut Act, user: &User) -> Result<(), AuthError> {
        let (rules, now) = (self.sessions, act.guard_time());
        let mut open: Vec<(Session, TokenDigest)> = repo::sessions_of(tx, (user.tenant_id, user.id), None, usize::MAX)?;
        open.retain(|(session, _)| !rules.is_over(session, session.last_seen_at, now));
        let beyond = (open.len() + 1).saturating_sub(rules.most_per_user);
        if beyond == 0 {
            return Ok(());
        }
        open.sort_by_key(|(session, _)| (session.last_seen_at, session.id));
        for (_, token) in open.iter().take(beyond) {
            repo::remove_session(tx, token)?;
        }
        self.note_sessions_ended(tx, act, user)
    }
}
