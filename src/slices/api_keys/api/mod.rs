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

use tenantd_base::{access::known_patterns, vocabulary::nearest};
use tenantd_http::problem::{Code, FieldError, Problem};

use super::error::ApiKeyError;

#[derive(Tags)]
enum Area {
    /// API keys of the tenant, for automation.
    ApiKeys,
}

impl From<ApiKeyError> for Problem {
    fn from(error: ApiKeyError) -> Self {
        let invalid = |pointer: &str, code: &str, message: String| Self::invalid(vec![FieldError::pointer(pointer, code, message)]);
        match error {
            ApiKeyError::NotFound => Self::plain(Code::NotFound),
            ApiKeyError::NameTaken => Self::new(Code::AlreadyExists, "A live key of this tenant has this name; choose another."),
            ApiKeyError::LimitReached { most } => Self::new(
                Code::LimitReached,
                format!("The tenant has {most} live keys, which is the most; revoke one that is not needed."),
            ),
            ApiKeyError::UnknownScopes(unknown) => unknown_scopes(&unknown),
            ApiKeyError::Lacking(lacking) => lacking.into(),
            ApiKeyError::ScopesOverTenant(beyond) => {
                let message =
                    format!("a key with organization_ids cannot have what is over the whole tenant: {}", beyond.join(", "));
                invalid("/scopes", "over_tenant", message)
            }
            ApiKeyError::UnknownOrganization(id) => {
                invalid("/organization_ids", "unknown_reference", format!("there is no organization {id}"))
            }
            ApiKeyError::BadLife { most } => invalid("/expires_days", "out_of_range", format!("must be 1 to {most}")),
            ApiKeyError::BadNetwork(text) => {
                invalid("/allowed_ips", "wrong_form", format!("{text} is no IP address or network such as 203.0.113.0/24"))
            }
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

fn unknown_scopes(unknown: &[String]) -> Problem {
    let known = known_patterns();
    let error = |scope: &String| {
        FieldError::pointer("/scopes", "unknown_scope", format!("the scope {scope} does not exist"))
            .with_allowed(known.clone())
            .with_suggestion(nearest(scope, known.iter().map(String::as_str)))
    };
    Problem::invalid(unknown.iter().map(error).collect())
}
