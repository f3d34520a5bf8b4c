//! The examples of the published document.

use poem_openapi::types::Example;

use tenantd_directory::view::Device;
use tenantd_http::page::Page;

use super::{
    filters::Section,
    wire::{InventoryReport, InventoryRow},
};

impl Example for InventoryRow {
    fn example() -> Self {
        Self::new(Device::example(), &[Section::Summary, Section::Os])
    }
}

impl Example for InventoryReport {
    fn example() -> Self {
        let page = Page::example_of(1, 441);
        Self { data: Some(vec![InventoryRow::example()]), page: Some(page), groups: None, totals: None }
    }
}
