//! Examples for the published OpenAPI document, one file per schema.

use tenantd_http::examples;

use super::wire::AnalyticsReport;

examples! {
    AnalyticsReport => "analytics_report.json",
}
