//! What can go wrong with the audit.

use tenantd_base::secrets::SignatureError;
use tenantd_store::StoreError;

/// A value of a filter that is none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownValue {
    pub parameter: &'static str,
    pub given: String,
    pub suggestion: Option<String>,
}

#[derive(Debug, thiserror::Error)]
pub enum AuditError {
    #[error("a filter has a value that is not known")]
    Unknown(Vec<UnknownValue>),
    #[error("a record of the audit cannot be read: {0}")]
    Unreadable(#[from] serde_json::Error),
    #[error(transparent)]
    Signature(#[from] SignatureError),
    #[error(transparent)]
    Store(#[from] StoreError),
}
