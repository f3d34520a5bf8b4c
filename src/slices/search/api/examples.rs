//! The examples in the published OpenAPI document, one file per schema.

use tenantd_http::examples;

use super::wire::{SearchHit, SearchResults};

examples! {
    SearchHit => "search_hit.json",
    SearchResults => "search_results.json",
}
