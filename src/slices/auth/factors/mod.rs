//! Second factors of a person: adding, renaming and removing them, recovery codes, and the check of what a person presents.
//! `challenge.rs` has the step of the sign-in, `passkeys.rs` passkeys, `policy.rs` who needs a second factor.
//!
//! **Invariant:** only the person changes their factors, with a recent proof of their identity, and of a factor if they have one. An
//! administrator can only remove all of them. **Invariant:** a code counts once: the check and the note that it was used are in one
//! transaction.

mod challenge;
mod enrolment;
mod passkeys;
mod policy;
mod ticket;

use tenantd_base::{
    access::{Grants, Scope},
    id::{FactorId, SessionId},
    secrets::{Sealer, Secret},
    versions::ExpectedVersion,
};
use tenantd_directory as directory;
use tenantd_store::{
    Key, Read, WriteTx,
    events::{self, Act, Changes, Describe, Draft, EventKind},
};

use super::{
    error::{AuthError, FactorError},
    model::{Factor, LoginFailures, Presented, Proof, RecoveryCodes, SignInMethod, check_factor_name},
    repo::{
        self, UserKey,
        factors::{self, RECOVERY_CODES, factors_of, put_factor},
    },
    service::Users,
};

pub use challenge::SecondFactorRequest;
pub(super) use enrolment::Enrolling;
pub(super) use passkeys::{AskedPasskey, Bound, Checked, NewPasskey, PASSKEY_SUSPECTED, SentPasskey};
pub(super) use policy::{NewPolicy, POLICY_UPDATED, forget_role, replace_policy};

pub(super) static FACTOR_ADDED: EventKind = EventKind {
    name: "auth.factor_added",
    summary: "A user added a second factor.",
    subject: "factor",
    schema: "FactorOfUser",
    reads: Grants::of(&[Scope::UsersRead]),
    has_changes: false,
};
pub(super) static FACTOR_UPDATED: EventKind =
    EventKind { name: "auth.factor_updated", summary: "A user renamed a second factor.", has_changes: true, ..FACTOR_ADDED };
pub(super) static FACTOR_REMOVED: EventKind =
    EventKind { name: "auth.factor_removed", summary: "A user removed a second factor.", ..FACTOR_ADDED };
pub(super) static RECOVERY_CODES_CREATED: EventKind = EventKind {
    name: "auth.recovery_codes_created",
    summary: "A user made new recovery codes. The earlier ones stopped working.",
    subject: "user",
    schema: "User",
    reads: Grants::of(&[Scope::UsersRead]),
    has_changes: false,
};
pub(super) static RECOVERY_CODE_USED: EventKind = EventKind {
    name: "auth.recovery_code_used",
    summary: "A user proved their identity with a recovery code.",
    ..RECOVERY_CODES_CREATED
};
pub(super) static FACTORS_RESET: EventKind = EventKind {
    name: "auth.factors_reset",
    summary: "An administrator removed all second factors of a user.",
    ..RECOVERY_CODES_CREATED
};

/// A factor with its owner, as events show it.
#[derive(Clone, Debug)]
pub struct FactorOfUser {
    pub factor: Factor,
    pub user: directory::User,
}

/// The result of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Right(SignInMethod),
    Wrong,
    /// Not compared, because too many were wrong before.
    Blocked {
        retry_after_seconds: u64,
    },
}

impl Users {
    /// Checks the second factor of a person, uses up what works once, and counts what is wrong. The caller must commit even if the
    /// verdict is `Wrong`.
    pub(super) fn verify_factor(
        &self,
        tx: &mut WriteTx,
        act: &mut Act,
        user: &directory::User,
        presented: &Presented,
    ) -> Result<Verdict, AuthError> {
        let (key, now) = ((user.tenant_id, user.id), act.guard_time());
        let counter = factors::factor_failure_key(key);
        let failures = repo::LOGIN_FAILURES.get(tx, &counter)?.unwrap_or_else(|| LoginFailures::none(now));
        // Nobody guesses the key of a passkey. If wrong ones counted, anybody could keep the person from signing in.
        let is_typed = !matches!(presented, Presented::Passkey(_));
        if let Some(retry_after_seconds) = failures.wait_seconds(now).filter(|_| is_typed) {
            return Ok(Verdict::Blocked { retry_after_seconds });
        }
        let method = match presented {
            Presented::Code(code) => self.accept_code(tx, act, key, code)?,
            Presented::RecoveryCode(code) => self.accept_recovery_code(tx, act, user, code)?,
            Presented::Passkey(Some(proven)) => Self::accept_passkey(tx, act, user, proven)?,
            Presented::Passkey(None) => None,
        };
        let Some(method) = method else {
            if is_typed {
                repo::LOGIN_FAILURES.put(tx, &counter, &failures.one_more(now))?;
            }
            return Ok(Verdict::Wrong);
        };
        repo::LOGIN_FAILURES.remove(tx, &counter)?;
        Ok(Verdict::Right(method))
    }

    fn accept_code(&self, tx: &mut WriteTx, act: &Act, user: UserKey, code: &str) -> Result<Option<SignInMethod>, AuthError> {
        for mut factor in factors_of(tx, user)? {
            let Proof::Totp(totp) = &mut factor.proof else { continue };
            let place = (user.0, user.1, factor.id).to_bytes();
            let key = self.sealer.open(factors::sealed_place(&user.0, &place), &totp.secret)?;
            if totp.accept(&key, code, act.guard_time()) {
                factor.last_used_at = Some(act.now);
                put_factor(tx, user, &factor)?;
                return Ok(Some(SignInMethod::Totp));
            }
        }
        Ok(None)
    }

    fn accept_recovery_code(
        &self,
        tx: &mut WriteTx,
        act: &mut Act,
        user: &directory::User,
        code: &Secret,
    ) -> Result<Option<SignInMethod>, AuthError> {
        let key = (user.tenant_id, user.id);
        let Some(mut codes) = RECOVERY_CODES.get(tx, &key)? else { return Ok(None) };
        if !codes.take(&key.to_bytes(), code) {
            return Ok(None);
        }
        RECOVERY_CODES.put(tx, &key, &codes)?;
        self.announce_user(tx, act, &RECOVERY_CODE_USED, user)?;
        Ok(Some(SignInMethod::RecoveryCode))
    }

    /// Proves a second factor for a session that has begun without one. Returns the error for the caller, which must commit.
    pub(super) fn prove_factor(
        &self,
        tx: &mut WriteTx,
        act: &mut Act,
        who: Enrolling,
        presented: &Presented,
    ) -> Result<Result<(), AuthError>, AuthError> {
        let user = person(tx, who.user)?;
        match self.verify_factor(tx, act, &user, presented)? {
            Verdict::Right(method) => {
                repo::add_method(tx, who.user, who.session, method)?;
                Ok(Ok(()))
            }
            Verdict::Wrong => {
                let refused = presented.refused(user.id, &user.name);
                self.note_refusal(tx, act, &refused)?;
                Ok(Err(FactorError::WrongOwnFactor(refused.reason).into()))
            }
            Verdict::Blocked { retry_after_seconds } => Ok(Err(AuthError::Throttled { retry_after_seconds })),
        }
    }

    /// Makes new recovery codes. The earlier ones stop working.
    pub(super) fn make_recovery_codes(&self, tx: &mut WriteTx, act: &mut Act, who: Enrolling) -> Result<Vec<Secret>, AuthError> {
        let user = who.user;
        let owner = person(tx, user)?;
        if factors_of(tx, user)?.is_empty() {
            return Err(FactorError::NoFactor.into());
        }
        check_proven(tx, user, who.session)?;
        let (codes, shown) = RecoveryCodes::generate(&user.to_bytes(), act.now, &mut act.entropy);
        RECOVERY_CODES.put(tx, &user, &codes)?;
        self.announce_user(tx, act, &RECOVERY_CODES_CREATED, &owner)?;
        Ok(shown)
    }

    /// Removes all factors of a user and ends their sessions. The caller has checked that this is permitted.
    pub(super) fn reset_factors(&self, tx: &mut WriteTx, act: &mut Act, user: &directory::User) -> Result<(), AuthError> {
        let key = (user.tenant_id, user.id);
        factors::remove_of(tx, key)?;
        repo::remove_sessions_of(tx, key)?;
        self.announce_user(tx, act, &FACTORS_RESET, user)
    }

    fn announce_user(
        &self,
        tx: &mut WriteTx,
        act: &mut Act,
        kind: &'static EventKind,
        user: &directory::User,
    ) -> Result<(), AuthError> {
        let shown = self.directory.show_user(tx, user)?;
        events::append(tx, act, &Draft::new(kind, user.id.to_string(), user.version, &shown))?;
        Ok(())
    }

    pub(super) fn sealer(&self) -> &Sealer {
        &self.sealer
    }
}

/// Gives a factor another name.
pub(super) fn rename_factor(
    tx: &mut WriteTx,
    act: &mut Act,
    who: Enrolling,
    id: FactorId,
    expected: &ExpectedVersion,
    name: &str,
) -> Result<Factor, AuthError> {
    let user = who.user;
    let (owner, factors) = (person(tx, user)?, factors_of(tx, user)?);
    let before = factors.iter().find(|factor| factor.id == id).ok_or(AuthError::NotFound)?;
    check_proven(tx, user, who.session)?;
    expected.check(before.version)?;
    check_factor_name(&factors, Some(id), name)?;
    if before.name == name {
        return Ok(before.clone());
    }
    let after = Factor { name: name.to_owned(), version: before.version + 1, ..before.clone() };
    put_factor(tx, user, &after)?;
    let named = |factor: &Factor| serde_json::json!({"name": factor.name});
    let changes = Changes::between(&named(before), &named(&after));
    announce(tx, act, &FACTOR_UPDATED, after.clone(), owner, Some(&changes))?;
    Ok(after)
}

impl Users {
    /// Removes a factor of the person, and ends their other sessions, because somebody who found the factor may have started one.
    /// Recovery codes go with the last factor.
    pub(super) fn remove_factor(
        &self,
        tx: &mut WriteTx,
        act: &mut Act,
        who: Enrolling,
        id: FactorId,
        expected: &ExpectedVersion,
    ) -> Result<(), AuthError> {
        let user = who.user;
        let (owner, factors) = (person(tx, user)?, factors_of(tx, user)?);
        let factor = factors.iter().find(|factor| factor.id == id).ok_or(AuthError::NotFound)?;
        check_proven(tx, user, who.session)?;
        expected.check(factor.version)?;
        if factors.len() == 1 {
            if is_required(tx, &owner)? {
                return Err(FactorError::FactorRequired.into());
            }
            RECOVERY_CODES.remove(tx, &user)?;
        }
        factors::remove_factor(tx, user, id)?;
        factors::remove_challenges_of(tx, user)?;
        announce(tx, act, &FACTOR_REMOVED, factor.clone(), owner.clone(), None)?;
        self.end_sessions_except(tx, act, &owner, who.session)
    }
}

/// Whether the role of the user needs a second factor.
pub(super) fn is_required(tx: &impl Read, user: &directory::User) -> Result<bool, AuthError> {
    let policy = factors::policy_of(tx, user.tenant_id)?;
    Ok(user.role().is_some_and(|role| policy.requires(role)))
}

/// Fails if the person has a second factor that the session has not proven. Otherwise a sign-in link, single sign-on or a session
/// from before the factor would be enough to replace the factor or the password.
pub(super) fn check_proven(tx: &impl Read, user: UserKey, session: SessionId) -> Result<(), AuthError> {
    if factors_of(tx, user)?.is_empty() {
        return Ok(());
    }
    let (session, _) = repo::session_of(tx, user, session)?.ok_or(AuthError::NotFound)?;
    let is_proven = session.methods.iter().any(|method| method.is_second_factor());
    if is_proven { Ok(()) } else { Err(FactorError::FactorToProve.into()) }
}

/// The user may have been removed since the request was authenticated.
fn person(tx: &impl Read, user: UserKey) -> Result<directory::User, AuthError> {
    directory::user(tx, user.0, user.1)?.ok_or(AuthError::NotFound)
}

fn announce(
    tx: &mut WriteTx,
    act: &mut Act,
    kind: &'static EventKind,
    factor: Factor,
    user: directory::User,
    changes: Option<&Changes>,
) -> Result<(), AuthError> {
    let (id, version) = (factor.id.to_string(), factor.version);
    let shown = FactorOfUser { factor, user }.describe(())?;
    events::append(tx, act, &Draft::new(kind, id, version, &shown).with_changes(changes))?;
    Ok(())
}
