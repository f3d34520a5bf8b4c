//! Named secrets on the wire. A value goes in and never comes out.

mod collection;
mod examples;
mod record;
mod wire;

pub(super) use collection::SecretsApi;
pub(super) use record::SecretApi;
pub(super) use wire::{describe, secret_fields};

use poem_openapi::Tags;

use tenantd_http::problem::{Code, FieldError, Problem};

use super::error::{Fault, SecretError};

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
            SecretError::Invalid(faults) => Self::invalid(faults.into_iter().map(field_error).collect()),
            SecretError::Stale(stale) => stale.into(),
            SecretError::Event(error) => Self::internal(error),
            SecretError::Sealing(error) => Self::internal(error),
            SecretError::Store(error) => error.into(),
        }
    }
}

fn field_error(fault: Fault) -> FieldError {
    match fault {
        Fault::Name => {
            let message = "a name has letters, digits and underscores, at most 64, and does not begin with a digit";
            FieldError::pointer("/name", "wrong_form", message)
        }
        Fault::Host(place, problem) => FieldError::pointer(format!("/hosts/{place}"), "wrong_form", problem.to_string()),
        Fault::Workflow(place, id) => {
            FieldError::pointer(format!("/workflow_ids/{place}"), "not_found", format!("there is no workflow {id}"))
        }
        Fault::ValueNeeded => {
            let message = "the stored value is bound to its hosts: send it again to add a host";
            FieldError::pointer("/value", "required", message)
        }
    }
}
