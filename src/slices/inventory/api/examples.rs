//! The examples of the published document.

use poem_openapi::types::{Example, ParseFromJSON};
use serde_json::json;

use super::{
    filters::Section,
    wire::{InventoryReport, InventoryRow},
};
use crate::{kernel::http::page::Page, slices::directory::view::Device};

impl Example for InventoryRow {
    fn example() -> Self {
        Self::new(Device::example(), &[Section::Summary, Section::Os])
    }
}

impl Example for InventoryReport {
    fn example() -> Self {
        let page = Page::parse_from_json(Some(json!({"limit": 1, "next_cursor": "xGkC3kqTZ0U", "total": 441}))).ok();
        Self { data: Some(vec![InventoryRow::example()]), page, groups: None, totals: None }
    }
}
