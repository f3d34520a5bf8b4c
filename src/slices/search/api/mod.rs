//! The HTTP interface of the search.

mod admin;
mod examples;
mod search;
mod wire;

pub(super) use admin::AdminSearchApi;
pub(super) use search::SearchApi;

use poem_openapi::Tags;
use serde_json::Value;

use tenantd_http::problem::Problem;

use super::{error::SearchError, model::Hit};

#[derive(Tags)]
enum Area {
    /// Search over all records of the tenant.
    Search,
}

impl From<SearchError> for Problem {
    fn from(error: SearchError) -> Self {
        match error {
            SearchError::Invalid(faults) => faults.into(),
            SearchError::Busy => Self::unavailable("Too many searches of your tenant are queued.", 1),
            SearchError::NotReady => Self::unavailable("The search index is catching up.", 2),
            SearchError::Index(error) => {
                tracing::error!(%error, "a search failed");
                Self::unavailable("The search index is unavailable.", 5)
            }
            SearchError::Store(error) => error.into(),
        }
    }
}

/// Hits in the form that the API returns.
pub(super) fn show(hits: Vec<Hit>) -> Vec<Value> {
    hits.into_iter().map(|hit| serde_json::to_value(wire::SearchHit::from(hit)).unwrap_or_default()).collect()
}
