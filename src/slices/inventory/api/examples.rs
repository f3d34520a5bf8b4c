//! Examples for the published OpenAPI document, one file per schema.

use tenantd_http::examples;

use super::wire::{InventoryReport, InventoryRow};

examples! {
    InventoryRow => "inventory_row.json",
    InventoryReport => "inventory_report.json",
}
