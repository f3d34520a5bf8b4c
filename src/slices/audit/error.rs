//! What can go wrong with the audit.

use tenantd_base::{fault::Fault, secrets::SignatureError};
use tenantd_store::StoreError;

#[derive(Debug, thiserror::Error)]
pub enum AuditError {
    #[error("a filter has a value that is not known")]
    Invalid(Vec<Fault>),
    #[error("a record of the audit cannot be read: {0}")]
    Unreadable(#[from] serde_json::Error),
    #[error(transparent)]
    Signature(#[from] SignatureError),
    #[error(transparent)]
    Store(#[from] StoreError),
}
