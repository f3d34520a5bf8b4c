//! What can go wrong with a report.

use tenantd_store::StoreError;

/// A filter that cannot be what it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    pub parameter: &'static str,
    pub code: &'static str,
    pub message: String,
    /// What was probably meant.
    pub suggestion: Option<String>,
}

#[derive(Debug, thiserror::Error)]
pub enum InventoryError {
    #[error("the report cannot be made as it was asked for")]
    Invalid(Vec<Fault>),
    #[error("a report could not be written: {0}")]
    Written(#[from] serde_json::Error),
    #[error(transparent)]
    Store(#[from] StoreError),
}
