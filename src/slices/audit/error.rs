//! Errors of the audit.

use tenantd_base::{fault::Fault, secrets::SignatureError};
use tenantd_store::StoreError;

#[derive(Debug, thiserror::Error)]
pub enum AuditError {
    #[error("a filter has an unknown value")]
    Invalid(Vec<Fault>),
    #[error("an audit record cannot be decoded: {0}")]
    Unreadable(#[from] serde_json::Error),
    #[error(transparent)]
    Signature(#[from] SignatureError),
    #[error(transparent)]
    Store(#[from] StoreError),
}
