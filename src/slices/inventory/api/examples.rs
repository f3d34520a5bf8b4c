//! The examples of the published document, one file a schema.

use tenantd_http::examples;

use super::wire::{InventoryReport, InventoryRow};

examples! {
    InventoryRow => "inventory_row.json",
    InventoryReport => "inventory_report.json",
}
