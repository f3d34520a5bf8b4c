//! What can go wrong with a report.

use tenantd_base::fault::Fault;
use tenantd_store::StoreError;

#[derive(Debug, thiserror::Error)]
pub enum InventoryError {
    #[error("the report cannot be made as it was asked for")]
    Invalid(Vec<Fault>),
    #[error("a report could not be written: {0}")]
    Written(#[from] serde_json::Error),
    #[error(transparent)]
    Store(#[from] StoreError),
}
