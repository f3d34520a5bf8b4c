//! What can go wrong with users and signing in.

use crate::kernel::{secrets::PasswordError, store::StoreError};

#[derive(Debug, thiserror::Error)]
pub enum AuthError {
    #[error("there is no such user")]
    NotFound,
    #[error("the e-mail address is taken on this installation")]
    EmailTaken,
    #[error("{0}")]
    BadEmail(&'static str),
    #[error("{0}")]
    BadPassword(&'static str),
    #[error("an operator belongs to the platform tenant, and everyone else to another")]
    RoleMismatch,
    /// Unknown account, wrong password, disabled account or suspended tenant: nobody is told which.
    #[error("e-mail address or password is wrong")]
    Refused,
    #[error("too many wrong passwords")]
    Throttled { retry_after_seconds: u64 },
    #[error(transparent)]
    Password(#[from] PasswordError),
    #[error("an event could not be written: {0}")]
    Event(#[from] serde_json::Error),
    #[error(transparent)]
    Store(#[from] StoreError),
}
