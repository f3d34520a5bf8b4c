//! Errors of operations on API keys.

use tenantd_base::{
    authority::Lacking,
    fault::{Fault, listed},
    versions::Stale,
};
use tenantd_store::{StoreError, events::Actor};

#[derive(Debug, thiserror::Error)]
pub enum ApiKeyError {
    #[error("the API key does not exist")]
    NotFound,
    #[error("another live key already has this name")]
    NameTaken,
    #[error("the tenant already has {most} live keys")]
    LimitReached { most: u64 },
    #[error("the input is not valid: {}", listed(.0))]
    Invalid(Vec<Fault>),
    /// The caller does not cover the key, before or after the change.
    #[error("the caller lacks {0}")]
    Lacking(Lacking),
    /// The key is revoked, or expired if the operation requires a key that has not expired.
    #[error("the key is {0}")]
    Ended(&'static str),
    /// Only the person of a personal key could get a secret or more rights from it, so nobody changes it.
    #[error("the key is personal")]
    Personal,
    #[error("only a signed-in person has personal keys")]
    NotAPerson,
    #[error("the sign-in policy of the tenant forbids personal keys")]
    PersonalKeysForbidden,
    #[error("the person already has {most} live personal keys")]
    TooManyPersonal { most: u64 },
    /// The change gives the key rights that the holder of its secret lacks. `None`: the holder is unknown.
    #[error("the holder of the secret lacks rights that the change gives to the key")]
    SecretHeld(Option<Actor>),
    /// The change would create a cycle of owners.
    #[error("a key cannot own itself")]
    OwnsItself,
    #[error(transparent)]
    Stale(#[from] Stale),
    #[error("an event could not be written: {0}")]
    Event(#[from] serde_json::Error),
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl From<Lacking> for ApiKeyError {
    fn from(lacking: Lacking) -> Self {
        Self::Lacking(lacking)
    }
}
