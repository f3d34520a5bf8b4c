//! Named secrets on the wire. A value goes in and never comes out.

mod collection;
mod examples;
mod record;
mod wire;

pub(super) use collection::SecretsApi;
pub(super) use record::SecretApi;
pub(super) use wire::secret_fields;

use poem_openapi::Tags;

use tenantd_http::problem::{Code, Problem};

use super::error::SecretError;

#[derive(Tags)]
enum Area {
    /// Values that workflow steps send and nobody reads.
    Secrets,
}

impl From<SecretError> for Problem {
    fn from(error: SecretError) -> Self {
        match error {
            SecretError::NotFound => Self::plain(Code::NotFound),
            SecretError::NameTaken => Self::new(Code::AlreadyExists, "Another secret has this name already."),
            SecretError::LimitReached { most } => {
                Self::new(Code::LimitReached, format!("A tenant has at most {most} secrets; delete one that is not needed."))
            }
            SecretError::Invalid(faults) => faults.into(),
            SecretError::Stale(stale) => stale.into(),
            SecretError::Event(error) => Self::internal(error),
            SecretError::Sealing(error) => Self::internal(error),
            SecretError::Store(error) => error.into(),
        }
    }
}
