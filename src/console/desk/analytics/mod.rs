//! Analytics: metrics of the tenant over time, as charts, tables and CSV.

mod axis;
mod controls;
mod lines;
mod metric;
mod page;
mod panel;
mod report;
mod request;

use super::routes::Route;

const API: &str = "/api/analytics/tenant";
const PATH: &str = "/analytics";

pub(super) const ROUTES: &[Route] = &[Route::shows(PATH, "report_tenant_analytics", |visitor| Box::pin(page::show(visitor)))];
