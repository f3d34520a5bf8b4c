//! The HTTP API of the audit.

mod admin;
mod export;
mod lines;
mod trail;
mod wire;

pub(super) use admin::AdminAuditApi;
pub(super) use trail::AuditApi;

pub use lines::{ExportCheck, parse_checkpoint, show_checkpoint};

use poem_openapi::Tags;

use tenantd_http::problem::Problem;

use super::error::AuditError;

#[derive(Tags)]
enum Area {
    /// The audit trail: who did what, and when.
    Audit,
}

impl From<AuditError> for Problem {
    fn from(error: AuditError) -> Self {
        match error {
            AuditError::Invalid(faults) => faults.into(),
            AuditError::Unreadable(error) => Self::internal(error),
            AuditError::Signature(error) => Self::internal(error),
            AuditError::Store(error) => error.into(),
        }
    }
}
