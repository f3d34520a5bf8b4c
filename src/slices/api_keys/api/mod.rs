//! The HTTP API of API keys.

mod admin;
mod collection;
mod examples;
mod own;
mod record;
mod wire;

pub(super) use admin::AdminKeysApi;
pub(super) use collection::KeysApi;
pub(super) use own::OwnKeysApi;
pub(super) use record::KeyApi;
pub(super) use wire::key_fields;

use poem_openapi::Tags;

use tenantd_http::problem::{Code, Problem};
use tenantd_store::events::{Actor, ActorKind};

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
            ApiKeyError::Personal => Self::new(
                Code::InvalidTransition,
                "The key is personal: nobody changes, rotates or takes it over. Revoke it, and let its person create another one.",
            ),
            ApiKeyError::NotAPerson => Self::new(
                Code::InsufficientAuthority,
                "Only a person has personal API keys. Sign in, and send the session cookie instead of an API key.",
            ),
            ApiKeyError::PersonalKeysForbidden => Self::new(
                Code::InsufficientAuthority,
                "The sign-in policy of your tenant forbids personal API keys. Ask an administrator for a key of the tenant.",
            ),
            ApiKeyError::TooManyPersonal { most } => Self::new(
                Code::LimitReached,
                format!("You have reached the limit of {most} live personal keys. Revoke one that you no longer need."),
            ),
            ApiKeyError::SecretHeld(holder) => Self::new(Code::InvalidTransition, secret_held(holder.as_ref())),
            ApiKeyError::OwnsItself => {
                Self::new(Code::InvalidTransition, "A key cannot own itself or the key that owns it. Let a person take it over.")
            }
            ApiKeyError::Stale(stale) => stale.into(),
            ApiKeyError::Event(error) => Self::internal(error),
            ApiKeyError::Store(error) => error.into(),
        }
    }
}

/// Why a key gets no more rights, and what the caller can do.
fn secret_held(holder: Option<&Actor>) -> String {
    let reason = match holder {
        Some(Actor { kind: ActorKind::ApiKey, name, .. }) => {
            format!("The API key {name} got the secret of this key, and now lacks rights that the change adds.")
        }
        Some(Actor { name, .. }) => format!("{name} got the secret of this key, and now lacks rights that the change adds."),
        None => "tenantd does not know who got the secret of this key.".to_owned(),
    };
    format!(
        "{reason} Rotate the key yourself so that older secrets stop at once (`overlap_seconds: 0`), and repeat the change. Or create a new key."
    )
}
