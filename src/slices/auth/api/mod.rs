//! Signing in and out on the wire, and users for the admin socket.

mod admin;
mod session;

pub(super) use admin::AdminUsersApi;
pub(super) use session::AuthApi;

use super::error::AuthError;
use crate::kernel::{
    http::problem::{Code, FieldError, Problem},
    secrets::PasswordError,
};

impl From<AuthError> for Problem {
    fn from(error: AuthError) -> Self {
        let invalid = |pointer: &str, code: &str, message: &str| Self::invalid(vec![FieldError::pointer(pointer, code, message)]);
        match error {
            AuthError::NotFound => Self::plain(Code::NotFound),
            AuthError::BadPassword(message) => invalid("/password", "wrong_form", message),
            AuthError::Refused => Self::new(Code::InvalidCredentials, "E-mail address or password is wrong.")
                .header(http::header::WWW_AUTHENTICATE, "Bearer realm=\"tenantd\""),
            AuthError::Throttled { retry_after_seconds } => {
                Self::new(Code::RateLimited, "Too many wrong passwords for this account.").retry_after(retry_after_seconds)
            }
            AuthError::Directory(error) => error.into(),
            AuthError::Password(PasswordError::Busy) => Self::unavailable("Too many people are signing in.", 1),
            AuthError::Password(error @ PasswordError::Failed(_)) => Self::internal(error),
            AuthError::Event(error) => Self::internal(error),
            AuthError::Store(error) => error.into(),
        }
    }
}
