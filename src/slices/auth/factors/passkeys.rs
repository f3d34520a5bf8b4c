//! Passkeys of a person: adding one, asking a browser for one, and checking what the browser returned.
//!
//! **Invariant:** a challenge is sealed for its purpose and its person, expires after five minutes, and is accepted once. **Invariant:** a
//! signature is checked on a read view before the transaction. The transaction checks again what can have changed meanwhile: the
//! passkey, its counter, and whether the challenge was answered.

use data_encoding::BASE64URL_NOPAD;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use tenantd_base::{
    clock::Timestamp,
    id::SessionId,
    secrets::{Secret, digest},
};
use tenantd_directory as directory;
use tenantd_store::{
    Key, Read, WriteTx,
    events::{Act, EventKind},
};

use super::{
    super::{
        error::{AuthError, FactorError},
        model::{
            ALGORITHMS, Assertion, CHALLENGE_LIFE, Expected, Factor, MAX_FACTORS, Passkey, Proof, ProvenPasskey, RelyingParty,
            SignInMethod,
        },
        repo::{
            TokenDigest, UserKey,
            factors::{factor, factors_of, put_factor},
            passkeys::{factor_of_credential, spend},
        },
        service::Users,
    },
    FACTOR_ADDED, announce, check_proven,
    enrolment::Enrolling,
    person,
    ticket::{Enrolment, Purpose, Tickets},
};

pub(crate) static PASSKEY_SUSPECTED: EventKind = EventKind {
    name: "auth.passkey_suspected",
    summary: "A passkey was refused because its counter went back. There may be a copy of the authenticator.",
    ..FACTOR_ADDED
};

const REGISTRATION: &str = "passkey registration";
const SIGN_IN: &str = "passkey sign-in";
const PROOF: &str = "passkey proof";
const CHALLENGE_BYTES: usize = 32;

/// The challenge of a new passkey.
#[derive(Debug, Serialize, Deserialize)]
struct NewChallenge {
    challenge: [u8; CHALLENGE_BYTES],
}

/// A challenge that a browser can answer with a passkey.
#[derive(Debug, Serialize, Deserialize)]
struct AskedChallenge {
    challenge: [u8; CHALLENGE_BYTES],
    expires_at: Timestamp,
    /// What it proves.
    bound: Bound,
}

/// What a passkey proves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Bound {
    /// Who signs in. It replaces the password and the second factor.
    SignIn,
    /// The second step of the sign-in with this token.
    Step(UserKey, TokenDigest),
    /// The second factor that this session lacks.
    Missing(UserKey, SessionId),
    /// That the person of this session is present. It replaces the password.
    Present(UserKey, SessionId),
}

impl Bound {
    fn owner(self) -> Option<UserKey> {
        match self {
            Self::SignIn => None,
            Self::Step(user, _) | Self::Missing(user, _) | Self::Present(user, _) => Some(user),
        }
    }

    /// Whether the authenticator must verify the person. As the second factor after a password, its possession is enough.
    fn needs_verification(self) -> bool {
        matches!(self, Self::SignIn | Self::Present(..))
    }

    fn purpose(self) -> Purpose<'static> {
        let owner = self.owner();
        Purpose { name: if owner.is_some() { PROOF } else { SIGN_IN }, owner }
    }
}

/// What a browser needs to make a passkey.
#[derive(Debug)]
pub(crate) struct BegunPasskey {
    pub(crate) enrolment: Secret,
    /// The members of `PublicKeyCredentialCreationOptionsJSON`.
    pub(crate) options: Value,
    pub(crate) expires_at: Timestamp,
}

/// What a browser needs to use a passkey.
#[derive(Debug)]
pub(crate) struct AskedPasskey {
    pub(crate) ticket: Secret,
    /// The members of `PublicKeyCredentialRequestOptionsJSON`.
    pub(crate) options: Value,
    pub(crate) expires_at: Timestamp,
}

/// What a browser sent to add a passkey.
#[derive(Debug)]
pub(crate) struct NewPasskey {
    pub(crate) enrolment: String,
    pub(crate) name: String,
    pub(crate) client_data: Vec<u8>,
    pub(crate) attestation: Vec<u8>,
    pub(crate) party: RelyingParty,
}

/// What a browser sent to use a passkey.
#[derive(Debug)]
pub(crate) struct SentPasskey {
    pub(crate) ticket: Secret,
    pub(crate) assertion: Assertion,
    /// Where passkeys work. `None` if the address has no host name.
    pub(crate) party: Option<RelyingParty>,
}

/// The result of a check.
#[derive(Debug)]
pub(crate) enum Checked {
    /// The challenge is forged, expired, or for something else.
    BadTicket,
    /// No passkey has this id.
    Unknown,
    /// A passkey of this person. `None` if it did not prove anything.
    Of(UserKey, Option<ProvenPasskey>),
}

/// How authenticators know a person: not by their name or address.
fn user_handle(user: UserKey) -> Vec<u8> {
    user.to_bytes()
}

fn listed(passkeys: &[Passkey]) -> Vec<Value> {
    passkeys.iter().map(|passkey| json!({"type": "public-key", "id": BASE64URL_NOPAD.encode(&passkey.credential_id)})).collect()
}

fn timeout_ms() -> u64 {
    CHALLENGE_LIFE.as_secs() * 1000
}

/// The passkeys of a user that work at this host name.
fn passkeys_of(tx: &impl Read, user: UserKey, party: &RelyingParty) -> Result<Vec<Passkey>, AuthError> {
    let passkeys = factors_of(tx, user)?.into_iter().filter_map(|factor| match factor.proof {
        Proof::Passkey(passkey) => Some(passkey),
        Proof::Totp(_) => None,
    });
    Ok(passkeys.filter(|passkey| passkey.host == party.id).collect())
}

impl Users {
    /// Makes a challenge for a new passkey. Stores nothing.
    pub(crate) fn begin_passkey(&self, act: &mut Act, who: Enrolling, party: &RelyingParty) -> Result<BegunPasskey, AuthError> {
        let user = who.user;
        let (owner, factors, known) = self.store.read(|tx| {
            check_proven(tx, user, who.session)?;
            Ok::<_, AuthError>((person(tx, user)?, factors_of(tx, user)?, passkeys_of(tx, user, party)?))
        })?;
        if factors.len() >= MAX_FACTORS {
            return Err(FactorError::TooManyFactors { most: MAX_FACTORS }.into());
        }
        let challenge: [u8; CHALLENGE_BYTES] = act.entropy.bytes();
        let enrolment = self.begin_enrolment(act, REGISTRATION, user, CHALLENGE_LIFE, NewChallenge { challenge })?;
        let parameters = ALGORITHMS.map(|algorithm| json!({"type": "public-key", "alg": algorithm}));
        let name = owner.email.as_deref().unwrap_or(&owner.name);
        let options = json!({
            "rp": {"id": party.id, "name": "tenantd"},
            "user": {"id": BASE64URL_NOPAD.encode(&user_handle(user)), "name": name, "displayName": owner.name},
            "challenge": BASE64URL_NOPAD.encode(&challenge),
            "pubKeyCredParams": parameters,
            "timeout": timeout_ms(),
            "excludeCredentials": listed(&known),
            "authenticatorSelection": {"residentKey": "preferred", "requireResidentKey": false, "userVerification": "preferred"},
            "attestation": "none",
        });
        Ok(BegunPasskey { enrolment, options, expires_at: act.now + CHALLENGE_LIFE })
    }

    /// Adds the passkey that an authenticator has made.
    pub(crate) fn add_passkey(
        &self,
        tx: &mut WriteTx,
        act: &mut Act,
        who: Enrolling,
        new: &NewPasskey,
    ) -> Result<Factor, AuthError> {
        let tickets = Tickets { sealer: self.sealer() };
        let begun: Option<Enrolment<NewChallenge>> =
            tickets.open(Purpose { name: REGISTRATION, owner: Some(who.user) }, &new.enrolment);
        let begun = begun.filter(|begun| act.guard_time() < begun.expires_at).ok_or(FactorError::BadEnrolment)?;
        let challenge = begun.begun.challenge;
        let expected = Expected { challenge: &challenge, party: &new.party, needs_verification: false };
        let passkey = Passkey::made(&expected, &new.client_data, &new.attestation)
            .map_err(|fault| FactorError::BadPasskey("attestation_object", fault))?;
        if !spend(tx, &digest(&challenge), begun.expires_at)? {
            return Err(FactorError::BadEnrolment.into());
        }
        if factor_of_credential(tx, &passkey.credential_id)?.is_some() {
            return Err(FactorError::PasskeyKnown.into());
        }
        self.add_factor(tx, act, who, begun.id, &new.name, Proof::Passkey(passkey))
    }

    /// What a passkey proves in a session: the factor that it has not proven yet, or that the person is present.
    pub(crate) fn proof_of(&self, who: Enrolling) -> Result<Bound, AuthError> {
        match self.store.read(|tx| check_proven(tx, who.user, who.session)) {
            Ok(()) => Ok(Bound::Present(who.user, who.session)),
            Err(AuthError::Factor(FactorError::FactorToProve)) => Ok(Bound::Missing(who.user, who.session)),
            Err(error) => Err(error),
        }
    }

    /// Makes a challenge that proves this. Stores nothing.
    pub(crate) fn ask_for_passkey(&self, act: &mut Act, bound: Bound, party: &RelyingParty) -> Result<AskedPasskey, AuthError> {
        let allowed = match bound.owner() {
            None => Vec::new(),
            Some(user) => self.store.read(|tx| passkeys_of(tx, user, party))?,
        };
        // An empty list means any passkey. Only a sign-in asks for any.
        if allowed.is_empty() && bound.owner().is_some() {
            return Err(FactorError::NoPasskey.into());
        }
        let challenge: [u8; CHALLENGE_BYTES] = act.entropy.bytes();
        let asked = AskedChallenge { challenge, expires_at: act.guard_time() + CHALLENGE_LIFE, bound };
        let ticket = Tickets { sealer: self.sealer() }.seal(bound.purpose(), &asked, &mut act.entropy)?;
        let verification = if bound.needs_verification() { "required" } else { "preferred" };
        let options = json!({
            "challenge": BASE64URL_NOPAD.encode(&challenge),
            "timeout": timeout_ms(),
            "rpId": party.id,
            "allowCredentials": listed(&allowed),
            "userVerification": verification,
        });
        Ok(AskedPasskey { ticket: Secret::new(ticket), options, expires_at: act.now + CHALLENGE_LIFE })
    }

    /// Checks the signature of a passkey. The transaction that uses the result must call `verify_factor`.
    pub(crate) fn check_passkey(&self, bound: Bound, sent: &SentPasskey, now: Timestamp) -> Result<Checked, AuthError> {
        let tickets = Tickets { sealer: self.sealer() };
        let asked: Option<AskedChallenge> = tickets.open(bound.purpose(), sent.ticket.expose());
        let asked = asked.filter(|asked| asked.bound == bound && now < asked.expires_at);
        let (Some(asked), Some(party)) = (asked, &sent.party) else { return Ok(Checked::BadTicket) };
        let found = self.store.read(|tx| {
            let Some((tenant, user, id)) = factor_of_credential(tx, &sent.assertion.credential_id)? else { return Ok(None) };
            Ok::<_, AuthError>(factor(tx, (tenant, user), id)?.map(|factor| ((tenant, user), factor)))
        })?;
        let Some((user, Factor { id, proof: Proof::Passkey(passkey), .. })) = found else { return Ok(Checked::Unknown) };
        let needs_verification = bound.needs_verification();
        let expected = Expected { challenge: &asked.challenge, party, needs_verification };
        let is_named = bound.owner().is_some() || sent.assertion.user_handle.is_some();
        let is_theirs = bound.owner().is_none_or(|owner| owner == user);
        let verified = passkey.verify(&expected, &sent.assertion, &user_handle(user));
        let proven = verified.ok().filter(|_| is_named && is_theirs).map(|sign_count| ProvenPasskey {
            factor: id,
            credential_id: passkey.credential_id,
            sign_count,
            challenge: digest(&asked.challenge),
            expires_at: asked.expires_at,
        });
        Ok(Checked::Of(user, proven))
    }

    /// Accepts a passkey whose signature is right: the challenge is used up, and the counter is stored. A counter that went back is
    /// reported, and the passkey is not accepted.
    pub(super) fn accept_passkey(
        tx: &mut WriteTx,
        act: &mut Act,
        user: &directory::User,
        proven: &ProvenPasskey,
    ) -> Result<Option<SignInMethod>, AuthError> {
        let key = (user.tenant_id, user.id);
        let Some(mut found) = factor(tx, key, proven.factor)? else { return Ok(None) };
        let Proof::Passkey(passkey) = &mut found.proof else { return Ok(None) };
        if passkey.credential_id != proven.credential_id || !spend(tx, &proven.challenge, proven.expires_at)? {
            return Ok(None);
        }
        if !passkey.is_next(proven.sign_count) {
            announce(tx, act, &PASSKEY_SUSPECTED, found, user.clone(), None)?;
            return Ok(None);
        }
        passkey.sign_count = proven.sign_count;
        found.last_used_at = Some(act.now);
        put_factor(tx, key, &found)?;
        Ok(Some(SignInMethod::Passkey))
    }
}
