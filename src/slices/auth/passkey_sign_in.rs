//! Sign-in with a passkey alone, and the confirmation that a person is present. The authenticator has verified the person, so a passkey
//! counts as the password and the second factor together.
//!
//! **Invariant:** a passkey opens nothing that a password does not: the account must be active, its tenant open, and neither must have to
//! use an identity provider. **Invariant:** the browser finds the passkey, and nobody names an account first, so there is nothing to
//! learn about accounts.

use tenantd_base::{
    clock::Timestamp,
    id::TenantId,
    secrets::{Secret, digest},
};
use tenantd_directory::{self as directory, User, UserStatus};
use tenantd_store::{WriteTx, events::Actor};

use super::{
    error::{AuthError, FactorError},
    factors::{AskedPasskey, Bound, Checked, SentPasskey, Verdict, check_proven},
    model::{Browser, Presented, ProvenPasskey, RefusalReason, RefusedSignIn, RelyingParty, Session, SignInMethod},
    own_account::Own,
    repo::{UserKey, portal::has_access},
    service::{Login, Users, actor_of},
};

impl Users {
    /// Asks for a passkey: for the second step of the sign-in with this challenge, or for anybody's.
    pub(super) fn ask_to_sign_in(
        &self,
        challenge: Option<&Secret>,
        party: &RelyingParty,
        now: Timestamp,
    ) -> Result<AskedPasskey, AuthError> {
        let bound = match challenge {
            None => Bound::SignIn,
            Some(challenge) => self.step_of(challenge, now)?.ok_or(FactorError::BadChallenge)?,
        };
        let tenant = TenantId::from_bytes([0; 16]);
        let mut act = self.tenants.guarding_intent(tenant, now, Actor::system("sign-in")).begin();
        self.ask_for_passkey(&mut act, bound, party)
    }

    /// Signs in with a passkey, and ends the session that the browser had before.
    pub(super) async fn sign_in_with_passkey(
        &self,
        sent: &SentPasskey,
        browser: Browser,
        now: Timestamp,
    ) -> Result<Login, AuthError> {
        let checked = self.check_passkey(Bound::SignIn, sent, now)?;
        let users = self.clone();
        let work = move |tx: &mut WriteTx| match &checked {
            Checked::BadTicket => Ok(Err(FactorError::BadChallenge.into())),
            Checked::Unknown => users.note_unknown_passkey(tx, now).map(Err),
            Checked::Of(key, proven) => users.passkey_session(tx, *key, proven.as_ref(), &browser, now),
        };
        // A refusal is recorded, so it is not an error of the transaction.
        self.store.write(work).await?
    }

    fn passkey_session(
        &self,
        tx: &mut WriteTx,
        key: UserKey,
        proven: Option<&ProvenPasskey>,
        browser: &Browser,
        now: Timestamp,
    ) -> Result<Result<Login, AuthError>, AuthError> {
        let tenant = self.tenant_now(tx, key.0)?.filter(|tenant| tenant.status.is_settled());
        let user = directory::user(tx, key.0, key.1)?;
        let (Some(tenant), Some(user)) = (tenant, user) else { return self.note_unknown_passkey(tx, now).map(Err) };
        // Of the contacts, only those with access to the portal sign in.
        if user.role().is_none() && !has_access(tx, &user)? {
            return self.note_unknown_passkey(tx, now).map(Err);
        }
        let mut act = self.tenants.guarding_intent(key.0, now, actor_of(&user)).begin();
        let presented = Presented::Passkey(proven.cloned());
        let reason = match self.verify_factor(tx, &mut act, &user, &presented)? {
            Verdict::Blocked { retry_after_seconds } => return Ok(Err(AuthError::Throttled { retry_after_seconds })),
            Verdict::Wrong => RefusalReason::WrongPasskey,
            Verdict::Right(_) if !tenant.status.is_open() => RefusalReason::TenantSuspended,
            Verdict::Right(_) if user.status != UserStatus::Active => RefusalReason::AccountDisabled,
            Verdict::Right(method) => {
                let step = self.sign_in_without_provider(tx, &mut act, user, &[method], browser)?;
                return Ok(step.map_err(|required| AuthError::SingleSignOnRequired(Box::new(required))));
            }
        };
        act.actor = Actor::system("sign-in");
        self.note_refusal(tx, &mut act, &refused(reason, &user))?;
        Ok(Err(FactorError::RefusedPasskey.into()))
    }

    /// Records a passkey that nobody has, for the operator. Returns the error for the caller.
    fn note_unknown_passkey(&self, tx: &mut WriteTx, now: Timestamp) -> Result<AuthError, AuthError> {
        if let Some(platform) = self.tenants.platform(tx)? {
            let mut act = self.tenants.guarding_intent(platform.id, now, Actor::system("sign-in")).begin();
            let (method, reason) = (SignInMethod::Passkey, RefusalReason::WrongPasskey);
            let refused = RefusedSignIn { method, reason, user: None, identity_provider: None };
            self.note_refusal(tx, &mut act, &refused)?;
        }
        Ok(FactorError::RefusedPasskey.into())
    }

    /// What a person of a session presents as a passkey. A person with a different one, or with an old challenge, presents nothing.
    pub(super) fn presented_passkey(&self, bound: Bound, sent: &SentPasskey, now: Timestamp) -> Result<Presented, AuthError> {
        Ok(Presented::Passkey(match self.check_passkey(bound, sent, now)? {
            Checked::Of(_, proven) => proven,
            Checked::BadTicket | Checked::Unknown => None,
        }))
    }

    /// Returns what a passkey in the second step of a sign-in proves. `None` if the challenge is over.
    pub(super) fn step_of(&self, challenge: &Secret, now: Timestamp) -> Result<Option<Bound>, AuthError> {
        let token = digest(challenge.expose().as_bytes());
        let waiting = self.store.read(|tx| self.waiting(tx, &token, now))?;
        Ok(waiting.map(|(_, user)| Bound::Step((user.tenant_id, user.id), token)))
    }

    /// Confirms with a passkey that the person of the session is present. A person who must sign in through an identity provider
    /// confirms there.
    pub(super) async fn confirm_with_passkey(&self, own: Own, sent: &SentPasskey, now: Timestamp) -> Result<Session, AuthError> {
        self.store.read(|tx| check_proven(tx, own.key(), own.session))?;
        let presented = self.presented_passkey(Bound::Present(own.key(), own.session), sent, now)?;
        let users = self.clone();
        let intent = self.tenants.guarding_intent(own.key().0, now, Actor::system("confirmation"));
        let work = move |tx: &mut WriteTx| {
            let (mut act, user) = (intent.begin(), own.user(tx)?);
            if let Some(required) = users.required_sign_on(tx, &user)? {
                return Ok(Err(AuthError::SingleSignOnRequired(Box::new(required))));
            }
            match users.verify_factor(tx, &mut act, &user, &presented)? {
                Verdict::Right(_) => users.prove_again(tx, &mut act, own).map(Ok),
                Verdict::Wrong => {
                    users.note_refusal(tx, &mut act, &refused(RefusalReason::WrongPasskey, &user))?;
                    Ok(Err(FactorError::WrongOwnFactor(RefusalReason::WrongPasskey).into()))
                }
                Verdict::Blocked { retry_after_seconds } => Ok(Err(AuthError::Throttled { retry_after_seconds })),
            }
        };
        self.store.write(work).await?
    }
}

fn refused(reason: RefusalReason, user: &User) -> RefusedSignIn {
    RefusedSignIn { method: SignInMethod::Passkey, reason, user: Some((user.id, user.name.clone())), identity_provider: None }
}
