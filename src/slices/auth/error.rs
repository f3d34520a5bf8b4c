//! What can go wrong with users and signing in.

use crate::{
    kernel::{secrets::PasswordError, store::StoreError},
    slices::directory::DirectoryError,
};

#[derive(Debug, thiserror::Error)]
pub enum AuthError {
    #[error("there is no such user")]
    NotFound,
    #[error("{0}")]
    BadPassword(&'static str),
    /// Unknown account, wrong password, disabled account or suspended tenant: nobody is told which.
    #[error("e-mail address or password is wrong")]
    Refused,
    #[error("too many wrong passwords")]
    Throttled { retry_after_seconds: u64 },
    #[error(transparent)]
    Directory(#[from] DirectoryError),
    #[error(transparent)]
    Password(#[from] PasswordError),
    #[error("an event could not be written: {0}")]
    Event(#[from] serde_json::Error),
    #[error(transparent)]
    Store(#[from] StoreError),
}
