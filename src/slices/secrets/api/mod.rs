//! The HTTP API of named secrets. Clients can write a value but never read it.

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
    /// Values that workflow steps send and that nobody can read back.
    Secrets,
}

impl From<SecretError> for Problem {
    fn from(error: SecretError) -> Self {
        match error {
            SecretError::NotFound => Self::plain(Code::NotFound),
            SecretError::NameTaken => Self::new(
                Code::AlreadyExists,
                "A secret with this name already exists. Names are not case-sensitive. Choose another name.",
            ),
            SecretError::LimitReached { most } => Self::new(
                Code::LimitReached,
                format!("A tenant can have at most {most} secrets. Delete a secret that you no longer need."),
            ),
            SecretError::Invalid(faults) => faults.into(),
            SecretError::Stale(stale) => stale.into(),
            SecretError::Event(error) => Self::internal(error),
            SecretError::Sealing(error) => Self::internal(error),
            SecretError::Store(error) => error.into(),
        }
    }
}
