//! The examples of the published document, one file a schema.

use tenantd_http::examples;

use super::wire::AnalyticsReport;

examples! {
    AnalyticsReport => "analytics_report.json",
}
