//! The examples of the published document, one file a schema.

use tenantd_http::examples;

use super::wire::{SearchHit, SearchResults};

examples! {
    SearchHit => "search_hit.json",
    SearchResults => "search_results.json",
}
