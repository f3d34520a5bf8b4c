//! API keys on the wire.

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
    /// API keys of the tenant, for automation.
    ApiKeys,
}

impl From<ApiKeyError> for Problem {
    fn from(error: ApiKeyError) -> Self {
        match error {
            ApiKeyError::NotFound => Self::plain(Code::NotFound),
            ApiKeyError::NameTaken => Self::new(Code::AlreadyExists, "A live key of this tenant has this name; choose another."),
            ApiKeyError::LimitReached { most } => Self::new(
                Code::LimitReached,
                format!("The tenant has {most} live keys, which is the most; revoke one that is not needed."),
            ),
            ApiKeyError::Invalid(faults) => faults.into(),
            ApiKeyError::Lacking(lacking) => lacking.into(),
            ApiKeyError::Ended(how) => Self::new(Code::InvalidTransition, format!("The key is {how}; create a new one.")),
            ApiKeyError::OwnsItself => Self::new(
                Code::InvalidTransition,
                "A key cannot own itself or the key that it comes from; let a person take it over.",
            ),
            ApiKeyError::Stale(stale) => stale.into(),
            ApiKeyError::Event(error) => Self::internal(error),
            ApiKeyError::Store(error) => error.into(),
        }
    }
}
