//! The HTTP API of inventory reports.

mod columns;
mod examples;
mod export;
mod filters;
pub(super) mod forms;
mod report;
mod wire;

pub(super) use report::InventoryApi;

use poem_openapi::Tags;

use tenantd_http::problem::Problem;

use super::error::InventoryError;

#[derive(Tags)]
enum Area {
    /// Reports over all devices: what exists, and in what state it is.
    Inventory,
}

impl From<InventoryError> for Problem {
    fn from(error: InventoryError) -> Self {
        match error {
            InventoryError::Invalid(faults) => faults.into(),
            InventoryError::Written(error) => Self::internal(error),
            InventoryError::Store(error) => error.into(),
        }
    }
}
