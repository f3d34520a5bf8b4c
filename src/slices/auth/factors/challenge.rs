//! The second step of a sign-in: after the right password, a person who has a second factor gets a challenge instead of a session.
//!
//! **Invariant:** a challenge exists only after the right password, so nobody else learns whether an account has a second factor. It
//! is random, ends after five minutes, with the fifth wrong code and with a change of the account, and starts one session.

use tenantd_base::{
    clock::Timestamp,
    secrets::{Secret, digest},
};
use tenantd_directory::{self as directory, User, UserStatus};
use tenantd_store::{
    Read, StoreError, WriteTx,
    events::{Act, Actor},
};

use super::{
    super::{
        error::{AuthError, FactorError},
        model::{Browser, CHALLENGE_LIFE, Challenge, MAX_ATTEMPTS, Presented, RefusedSignIn, SignInMethod, methods_of},
        repo::{
            TokenDigest,
            factors::{self, CHALLENGES, RECOVERY_CODES, factors_of},
        },
        service::{Login, Users, actor_of, new_token},
        sign_on::RequiredSignOn,
    },
    Verdict,
};

/// What a person needs for the second step of the sign-in. The plaintext of the challenge exists only here.
#[derive(Clone, Debug)]
pub struct SecondFactorRequest {
    pub challenge: Secret,
    pub methods: Vec<SignInMethod>,
}

/// The result of the right password.
#[derive(Debug)]
pub(crate) enum SignInStep {
    Done(Box<Login>),
    SecondFactor(SecondFactorRequest),
    /// Not with a password, but through a provider.
    Elsewhere(Box<RequiredSignOn>),
}

impl SignInStep {
    pub(crate) fn finish(self) -> Result<Login, AuthError> {
        match self {
            Self::Done(login) => Ok(*login),
            Self::SecondFactor(request) => Err(FactorError::SecondFactorRequired(request).into()),
            Self::Elsewhere(required) => Err(AuthError::SingleSignOnRequired(required)),
        }
    }
}

impl Users {
    /// Starts the session of a user whose password is right, or asks for their second factor.
    pub(crate) fn after_password(
        &self,
        tx: &mut WriteTx,
        act: &mut Act,
        user: User,
        browser: &Browser,
    ) -> Result<SignInStep, AuthError> {
        let key = (user.tenant_id, user.id);
        let factors = factors_of(tx, key)?;
        let is_refused = self.required_sign_on(tx, &user)?.is_some();
        if factors.is_empty() || is_refused {
            let step = self.sign_in_without_provider(tx, act, user, &[SignInMethod::Password], browser)?;
            return Ok(
                step.map_or_else(|required| SignInStep::Elsewhere(Box::new(required)), |login| SignInStep::Done(Box::new(login)))
            );
        }
        let has_codes = RECOVERY_CODES.get(tx, &key)?.is_some_and(|codes| !codes.unused.is_empty());
        let (challenge, now) = (new_token(act), act.guard_time());
        let waiting = Challenge {
            tenant_id: user.tenant_id,
            user_id: user.id,
            expires_at: now + CHALLENGE_LIFE,
            user_version: user.version,
            wrong: 0,
        };
        factors::make_room(tx, key)?;
        CHALLENGES.put(tx, &digest(challenge.expose().as_bytes()), &waiting)?;
        Ok(SignInStep::SecondFactor(SecondFactorRequest { challenge, methods: methods_of(&factors, has_codes) }))
    }

    /// Signs in with the second factor.
    pub async fn second_factor(
        &self,
        challenge: &Secret,
        presented: Presented,
        browser: Browser,
        now: Timestamp,
    ) -> Result<Login, AuthError> {
        let (users, token) = (self.clone(), digest(challenge.expose().as_bytes()));
        let work = move |tx: &mut WriteTx| {
            let Some((waiting, user)) = users.waiting(tx, &token, now)? else { return Ok(Err(FactorError::BadChallenge.into())) };
            let mut act = users.tenants.guarding_intent(user.tenant_id, now, actor_of(&user)).begin();
            match users.verify_factor(tx, &mut act, &user, &presented)? {
                Verdict::Right(method) => {
                    CHALLENGES.remove(tx, &token)?;
                    let step = users.sign_in_without_provider(tx, &mut act, user, &[SignInMethod::Password, method], &browser)?;
                    Ok(step.map_err(|required| AuthError::SingleSignOnRequired(Box::new(required))))
                }
                Verdict::Wrong => {
                    users.note_wrong_factor(tx, &mut act, (&token, waiting), &presented.refused(user.id, &user.name)).map(Err)
                }
                // The count is part of the account, so a new challenge does not help.
                Verdict::Blocked { retry_after_seconds } => Ok(Err(AuthError::Throttled { retry_after_seconds })),
            }
        };
        self.store.write(work).await?
    }

    /// Returns a challenge that can still be answered, with its user. The account must not have changed since the password was right.
    pub(crate) fn waiting(
        &self,
        tx: &impl Read,
        token: &TokenDigest,
        now: Timestamp,
    ) -> Result<Option<(Challenge, User)>, StoreError> {
        let Some(waiting) = CHALLENGES.get(tx, token)?.filter(|waiting| now < waiting.expires_at) else { return Ok(None) };
        if !self.is_open(tx, waiting.tenant_id)? {
            return Ok(None);
        }
        let is_same = |user: &User| user.status == UserStatus::Active && user.version == waiting.user_version;
        let user = directory::user(tx, waiting.tenant_id, waiting.user_id)?.filter(is_same);
        Ok(user.map(|user| (waiting, user)))
    }

    /// Counts a wrong factor. Returns the error for the caller.
    fn note_wrong_factor(
        &self,
        tx: &mut WriteTx,
        act: &mut Act,
        (token, mut waiting): (&TokenDigest, Challenge),
        refused: &RefusedSignIn,
    ) -> Result<AuthError, AuthError> {
        waiting.wrong = waiting.wrong.saturating_add(1);
        let attempts_left = MAX_ATTEMPTS.saturating_sub(waiting.wrong);
        if attempts_left == 0 {
            CHALLENGES.remove(tx, token)?;
        } else {
            CHALLENGES.put(tx, token, &waiting)?;
        }
        act.actor = Actor::system("sign-in");
        self.note_refusal(tx, act, refused)?;
        Ok(FactorError::WrongFactor { attempts_left, reason: refused.reason }.into())
    }
}
