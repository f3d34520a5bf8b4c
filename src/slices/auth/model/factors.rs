//! Second factors: what a person proves in addition to their password. `totp.rs` has the codes of authenticator apps, `passkey.rs` has
//! passkeys, which can also replace the password.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use tenantd_base::{
    clock::Timestamp,
    entropy::Entropy,
    id::{FactorId, TenantId, UserId},
    secrets::{Sealed, Secret, digest},
    vocabulary::vocabulary,
};

use super::{
    super::error::{AuthError, FactorError},
    RefusalReason, RefusedSignIn,
    passkey::Passkey,
    session::SignInMethod,
    totp,
};

vocabulary! {
    /// The kind of a second factor.
    FactorKind:
    Totp "totp",
    Passkey "passkey",
}

/// How many factors a person can have.
pub const MAX_FACTORS: usize = 10;
pub const MAX_FACTOR_NAME: usize = 60;
/// How long a person can take to send their second factor after the password, or to use a passkey, and how many wrong ones end the sign-in.
pub const CHALLENGE_LIFE: Duration = Duration::from_mins(5);
pub const MAX_ATTEMPTS: u8 = 5;
/// How long a person can take to add a factor after they have begun.
pub const ENROLMENT_LIFE: Duration = Duration::from_mins(10);
/// How many recovery codes a person gets.
pub const RECOVERY_CODES: usize = 10;

/// A second factor of a person.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Factor {
    #[serde(skip)]
    pub id: FactorId,
    pub name: String,
    pub created_at: Timestamp,
    pub last_used_at: Option<Timestamp>,
    pub version: u64,
    pub proof: Proof,
}

/// What proves that a person has the factor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Proof {
    Totp(Totp),
    Passkey(Passkey),
}

/// An authenticator app.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Totp {
    /// The key that the app and tenantd share, in base 32.
    pub secret: Sealed,
    /// The time step of the last code that was accepted. An older code is refused.
    pub last_step: u64,
}

impl Factor {
    pub fn kind(&self) -> FactorKind {
        match self.proof {
            Proof::Totp(_) => FactorKind::Totp,
            Proof::Passkey(_) => FactorKind::Passkey,
        }
    }
}

impl FactorKind {
    pub fn method(self) -> SignInMethod {
        match self {
            Self::Totp => SignInMethod::Totp,
            Self::Passkey => SignInMethod::Passkey,
        }
    }
}

/// The methods with which a person with these factors can take the second step of a sign-in.
pub fn methods_of(factors: &[Factor], has_recovery_codes: bool) -> Vec<SignInMethod> {
    let mut methods: Vec<SignInMethod> = factors.iter().map(|factor| factor.kind().method()).collect();
    methods.extend(has_recovery_codes.then_some(SignInMethod::RecoveryCode));
    methods.sort_unstable();
    methods.dedup();
    methods
}

/// What a person presents as their second factor.
#[derive(Clone, Debug)]
pub enum Presented {
    /// A code of an authenticator app.
    Code(String),
    RecoveryCode(Secret),
    /// A passkey, after the check of its signature. `None` if it proves nothing.
    Passkey(Option<ProvenPasskey>),
}

impl Presented {
    /// What is recorded if this is wrong. A code is the second step of a sign-in with a password.
    pub fn refused(&self, user: UserId, name: &str) -> RefusedSignIn {
        let (method, reason) = match self {
            Self::Code(_) | Self::RecoveryCode(_) => (SignInMethod::Password, RefusalReason::WrongCode),
            Self::Passkey(_) => (SignInMethod::Passkey, RefusalReason::WrongPasskey),
        };
        RefusedSignIn { method, reason, user: Some((user, name.to_owned())), identity_provider: None }
    }
}

/// A passkey that has signed a challenge of tenantd.
#[derive(Clone, Debug)]
pub struct ProvenPasskey {
    pub factor: FactorId,
    pub credential_id: Vec<u8>,
    pub sign_count: u32,
    /// The digest of the challenge, which works once, and when it expires.
    pub challenge: [u8; 32],
    pub expires_at: Timestamp,
}

/// A sign-in that waits for the second factor. It is stored under the digest of its token.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Challenge {
    pub tenant_id: TenantId,
    pub user_id: UserId,
    pub expires_at: Timestamp,
    /// The version of the user when the password was right. A change of the user ends the sign-in.
    pub user_version: u64,
    pub wrong: u8,
}

/// The recovery codes of a person that are not used yet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecoveryCodes {
    pub created_at: Timestamp,
    /// Digests. A code has 120 random bits, so a fast digest is enough.
    pub unused: Vec<[u8; 32]>,
}

impl RecoveryCodes {
    /// Makes new codes, and returns them in the form in which the person sees them.
    pub fn generate(owner: &[u8], now: Timestamp, entropy: &mut Entropy) -> (Self, Vec<Secret>) {
        let codes: Vec<Secret> = (0..RECOVERY_CODES).map(|_| Secret::random_password(entropy)).collect();
        let unused = codes.iter().map(|code| recovery_digest(owner, code)).collect();
        (Self { created_at: now, unused }, codes)
    }

    /// Uses up a code. Returns whether it was one of the unused ones.
    pub fn take(&mut self, owner: &[u8], code: &Secret) -> bool {
        let wanted = recovery_digest(owner, code);
        let before = self.unused.len();
        self.unused.retain(|unused| *unused != wanted);
        self.unused.len() < before
    }
}

/// The digest of a code of this owner. Case, spaces and hyphens do not matter.
fn recovery_digest(owner: &[u8], code: &Secret) -> [u8; 32] {
    let letters = code.expose().chars().filter(char::is_ascii_alphanumeric);
    let typed = Secret::new(letters.map(|letter| letter.to_ascii_lowercase()).collect::<String>());
    digest(&[b"recovery code\0", owner, typed.expose().as_bytes()].concat())
}

/// Checks that a person with these factors can add one with this name. Names are unique, ignoring case.
pub fn check_factor(factors: &[Factor], name: &str) -> Result<(), AuthError> {
    check_factor_name(factors, None, name)?;
    if factors.len() >= MAX_FACTORS {
        return Err(FactorError::TooManyFactors { most: MAX_FACTORS }.into());
    }
    Ok(())
}

/// Checks that no other factor has this name.
pub fn check_factor_name(factors: &[Factor], id: Option<FactorId>, name: &str) -> Result<(), AuthError> {
    let name = name.to_lowercase();
    let is_taken = factors.iter().any(|factor| Some(factor.id) != id && factor.name.to_lowercase() == name);
    if is_taken { Err(FactorError::FactorNameTaken.into()) } else { Ok(()) }
}

impl Totp {
    /// Accepts a code of a key, and notes its time step. Returns whether the code is right and was not used before.
    pub fn accept(&mut self, key: &Secret, code: &str, now: Timestamp) -> bool {
        let step = totp::matching_step(key, code, now).filter(|step| *step > self.last_step);
        self.last_step = step.unwrap_or(self.last_step);
        step.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recovery_code_works_once_for_its_owner_only() {
        let (mut codes, shown) = RecoveryCodes::generate(b"ada", Timestamp::EPOCH, &mut Entropy::from_seed(1));
        assert_eq!((codes.unused.len(), shown.len()), (RECOVERY_CODES, RECOVERY_CODES));
        assert!(!codes.clone().take(b"bo", &shown[0]));
        let typed = Secret::new(shown[0].expose().replace('-', " ").to_uppercase());
        assert!(codes.take(b"ada", &typed));
        assert!(!codes.take(b"ada", &shown[0]));
        assert!(!codes.take(b"ada", &Secret::new("")));
        assert_eq!(codes.unused.len(), RECOVERY_CODES - 1);
    }
}
