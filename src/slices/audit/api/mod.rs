//! The audit on the wire.

mod admin;
mod export;
mod lines;
mod trail;
mod wire;

pub(super) use admin::AdminAuditApi;
pub(super) use trail::AuditApi;

pub use lines::{ExportCheck, parse_checkpoint, show_checkpoint};

use poem_openapi::Tags;

use tenantd_http::problem::{FieldError, Problem};

use super::error::{AuditError, UnknownValue};

#[derive(Tags)]
enum Area {
    /// Who did what.
    Audit,
}

impl From<AuditError> for Problem {
    fn from(error: AuditError) -> Self {
        match error {
            AuditError::Unknown(values) => {
                let error = |value: UnknownValue| {
                    let UnknownValue { parameter, given, suggestion } = value;
                    let message = format!("{given} is not known here");
                    FieldError::parameter(parameter, "unknown_value", message).with_suggestion(suggestion)
                };
                Self::invalid(values.into_iter().map(error).collect())
            }
            AuditError::Unreadable(error) => Self::internal(error),
            AuditError::Signature(error) => Self::internal(error),
            AuditError::Store(error) => error.into(),
        }
    }
}
