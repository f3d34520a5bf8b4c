//! What can go wrong with API keys.

use tenantd_base::{
    authority::Lacking,
    fault::{Fault, listed},
    versions::Stale,
};
use tenantd_store::StoreError;

#[derive(Debug, thiserror::Error)]
pub enum ApiKeyError {
    #[error("there is no such API key")]
    NotFound,
    #[error("a live key has this name already")]
    NameTaken,
    #[error("the tenant has {most} live keys already")]
    LimitReached { most: u64 },
    #[error("the input is not valid: {}", listed(.0))]
    Invalid(Vec<Fault>),
    /// The caller does not cover the key, before or after the change.
    #[error("the caller lacks {0}")]
    Lacking(Lacking),
    /// Rotation and changes need a key that is not revoked; rotation also one that has not expired.
    #[error("the key is {0}")]
    Ended(&'static str),
    /// Owners would lead back to where they started.
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
