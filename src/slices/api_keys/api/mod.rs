//! The HTTP API of API keys.

mod admin;
mod collection;
mod examples;
mod record;
mod wire;

pub(super) use admin::AdminKeysApi;
pub(super) use collection::KeysApi;
pub(super) use record::KeyApi;
pub(super) use wire::key_fields;

use poem_openapi::Tags;

use tenantd_http::problem::{Code, Problem};

use super::error::ApiKeyError;

#[derive(Tags)]
enum Area {
    /// Keys that programs use to access the tenant.
    ApiKeys,
}

impl From<ApiKeyError> for Problem {
    fn from(error: ApiKeyError) -> Self {
        match error {
            ApiKeyError::NotFound => Self::plain(Code::NotFound),
            ApiKeyError::NameTaken => {
                Self::new(Code::AlreadyExists, "Another live key of this tenant has this name. Choose a different name.")
            }
            ApiKeyError::LimitReached { most } => Self::new(
                Code::LimitReached,
                format!("The tenant has reached its limit of {most} live keys. Revoke a key that you no longer need."),
            ),
            ApiKeyError::Invalid(faults) => faults.into(),
            ApiKeyError::Lacking(lacking) => lacking.into(),
            ApiKeyError::Ended(how) => Self::new(Code::InvalidTransition, format!("The key is {how}. Create a new key.")),
            ApiKeyError::OwnsItself => {
                Self::new(Code::InvalidTransition, "A key cannot own itself or the key that owns it. Let a person take it over.")
            }
            ApiKeyError::Stale(stale) => stale.into(),
            ApiKeyError::Event(error) => Self::internal(error),
            ApiKeyError::Store(error) => error.into(),
        }
    }
}
