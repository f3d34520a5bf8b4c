//! Errors of a report.

use tenantd_base::fault::Fault;
use tenantd_store::StoreError;

#[derive(Debug, thiserror::Error)]
pub enum InventoryError {
    #[error("the parameters of the report are not valid")]
    Invalid(Vec<Fault>),
    #[error("a report could not be serialized: {0}")]
    Written(#[from] serde_json::Error),
    #[error(transparent)]
    Store(#[from] StoreError),
}
