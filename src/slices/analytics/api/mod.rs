//! The HTTP API of analytics.

mod examples;
mod export;
mod number;
mod report;
mod wire;

pub(super) use report::AnalyticsApi;

use poem_openapi::Tags;

use tenantd_base::authority::Lacking;
use tenantd_http::problem::Problem;

use super::error::AnalyticsError;

#[derive(Tags)]
enum Area {
    /// Metrics over time, for one tenant and for the whole installation: counts, durations and success rates.
    Analytics,
}

impl From<AnalyticsError> for Problem {
    fn from(error: AnalyticsError) -> Self {
        match error {
            AnalyticsError::Invalid(faults) => faults.into(),
            AnalyticsError::NotHeld(scopes) => Lacking::scopes(scopes).into(),
            AnalyticsError::Store(error) => error.into(),
        }
    }
}
