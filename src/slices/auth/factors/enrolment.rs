//! Adds a second factor. The person begins, gets what their app or key needs, and proves that it works.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use tenantd_base::{
    clock::Timestamp,
    id::{FactorId, SessionId},
    secrets::{Secret, digest},
};
use tenantd_store::{Key, WriteTx, events::Act};

use super::{
    super::{
        error::{AuthError, FactorError},
        model::{ENROLMENT_LIFE, Factor, MAX_FACTORS, Proof, Totp, check_factor, totp},
        repo::{
            self, UserKey,
            factors::{self, factors_of, put_factor},
            passkeys::spend,
        },
        service::Users,
    },
    FACTOR_ADDED, announce, check_proven, person,
    ticket::{Enrolment, Purpose, Tickets},
};

const TOTP: &str = "totp enrolment";

/// The state of adding an authenticator app.
#[derive(Debug, Serialize, Deserialize)]
struct TotpKey {
    key: String,
}

/// What a person needs to add an authenticator app. The key is shown only now.
#[derive(Debug)]
pub(crate) struct BegunTotp {
    pub(crate) enrolment: Secret,
    pub(crate) key: Secret,
    pub(crate) uri: Secret,
    pub(crate) expires_at: Timestamp,
}

/// The person who adds a factor, and their session.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Enrolling {
    pub(crate) user: UserKey,
    pub(crate) session: SessionId,
}

impl Users {
    /// Makes a key for an authenticator app. Stores nothing.
    pub(crate) fn begin_totp(&self, act: &mut Act, who: Enrolling, issuer: &str) -> Result<BegunTotp, AuthError> {
        let user = who.user;
        let (owner, factors) = self.store.read(|tx| {
            check_proven(tx, user, who.session)?;
            Ok::<_, AuthError>((person(tx, user)?, factors_of(tx, user)?))
        })?;
        if factors.len() >= MAX_FACTORS {
            return Err(FactorError::TooManyFactors { most: MAX_FACTORS }.into());
        }
        let key = totp::new_key(&mut act.entropy);
        let begun = TotpKey { key: key.expose().to_owned() };
        let enrolment = self.begin_enrolment(act, TOTP, user, ENROLMENT_LIFE, begun)?;
        let uri = totp::uri(issuer, owner.email.as_deref().unwrap_or(&owner.name), &key);
        Ok(BegunTotp { enrolment, key, uri, expires_at: act.now + ENROLMENT_LIFE })
    }

    pub(super) fn begin_enrolment(
        &self,
        act: &mut Act,
        name: &str,
        user: UserKey,
        life: Duration,
        begun: impl Serialize,
    ) -> Result<Secret, AuthError> {
        let id = FactorId::new(act.now, &mut act.entropy);
        let enrolment = Enrolment { id, expires_at: act.guard_time() + life, begun };
        let tickets = Tickets { sealer: self.sealer() };
        Ok(Secret::new(tickets.seal(Purpose { name, owner: Some(user) }, &enrolment, &mut act.entropy)?))
    }

    /// Adds an authenticator app that shows the right code.
    pub(crate) fn add_totp(
        &self,
        tx: &mut WriteTx,
        act: &mut Act,
        who: Enrolling,
        enrolment: &str,
        name: &str,
        code: &str,
    ) -> Result<Factor, AuthError> {
        let tickets = Tickets { sealer: self.sealer() };
        let begun: Option<Enrolment<TotpKey>> = tickets.open(Purpose { name: TOTP, owner: Some(who.user) }, enrolment);
        let begun = begun.filter(|begun| act.guard_time() < begun.expires_at).ok_or(FactorError::BadEnrolment)?;
        let (key, place) = (Secret::new(begun.begun.key), (who.user.0, who.user.1, begun.id).to_bytes());
        let secret = self.sealer().seal(factors::sealed_place(&who.user.0, &place), &key, &mut act.entropy)?;
        let mut proof = Totp { secret, last_step: 0 };
        if !proof.accept(&key, code, act.guard_time()) {
            return Err(FactorError::WrongNewCode.into());
        }
        // The factor may have been removed since.
        if !spend(tx, &digest(enrolment.as_bytes()), begun.expires_at)? {
            return Err(FactorError::BadEnrolment.into());
        }
        self.add_factor(tx, act, who, begun.id, name, Proof::Totp(proof))
    }

    pub(super) fn add_factor(
        &self,
        tx: &mut WriteTx,
        act: &mut Act,
        who: Enrolling,
        id: FactorId,
        name: &str,
        proof: Proof,
    ) -> Result<Factor, AuthError> {
        let (owner, known) = (person(tx, who.user)?, factors_of(tx, who.user)?);
        if known.iter().any(|factor| factor.id == id) {
            return Err(FactorError::BadEnrolment.into());
        }
        check_proven(tx, who.user, who.session)?;
        check_factor(&known, name)?;
        let factor = Factor { id, name: name.to_owned(), created_at: act.now, last_used_at: Some(act.now), version: 1, proof };
        put_factor(tx, who.user, &factor)?;
        // The person has just proven that they have the factor, so it counts for this session.
        repo::add_method(tx, who.user, who.session, factor.kind().method())?;
        if known.is_empty() {
            // The other sessions were started without a factor.
            self.end_sessions_except(tx, act, &owner, who.session)?;
        }
        announce(tx, act, &FACTOR_ADDED, factor.clone(), owner, None)?;
        Ok(factor)
    }
}
