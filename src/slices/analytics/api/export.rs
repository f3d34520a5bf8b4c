//! Exports a report as CSV or NDJSON, one row per point. A report has few points, so all rows are sent in one chunk.

use serde_json::{Value, json};

use tenantd_base::id::TenantId;
use tenantd_http::{
    export::{RowFormat, Rows},
    outgoing::{Exported, Outgoing, Streamed, Streams},
    problem::Problem,
};

use super::wire::AnalyticsReport;

const COLUMNS: &[&str] = &["t", "metric", "group", "v", "partial"];

impl Exported for AnalyticsReport {
    const CSV_EXAMPLE: &'static str = "t,metric,group,v,partial\r\n2025-12-31T23:00:00.000Z,tickets_created,,42,\r\n";
    const LINES_EXAMPLE: &'static str =
        "{\"t\":\"2025-12-31T23:00:00.000Z\",\"metric\":\"tickets_created\",\"v\":42}\n{\"_end\":true,\"count\":1}\n";
}

fn rows(report: &AnalyticsReport) -> Vec<Value> {
    let row = |metric: &str, group: Option<&str>, point: &super::wire::AnalyticsPoint| {
        let mut row = json!({"t": point.t, "metric": metric, "v": point.v.to_value()});
        if let Some(row) = row.as_object_mut() {
            row.extend(group.map(|group| ("group".to_owned(), json!(group))));
            row.extend(point.partial.map(|partial| ("partial".to_owned(), json!(partial))));
        }
        row
    };
    let lines = report.series.iter();
    lines.flat_map(|line| line.points.iter().map(|point| row(&line.metric, line.group.as_deref(), point))).collect()
}

pub(super) fn start(exports: &Streams, tenant: TenantId, report: &AnalyticsReport, format: RowFormat) -> Result<Streamed, Problem> {
    let file_name = match format {
        RowFormat::Csv => "analytics.csv",
        RowFormat::Ndjson => "analytics.ndjson",
    };
    let rows = rows(report);
    let make = async move |out: Outgoing| {
        let mut lines = Rows::new(format, COLUMNS);
        out.send(lines.head()?).await?;
        out.send(lines.piece(&rows)?).await?;
        out.send(lines.end()).await
    };
    Ok(exports.start(tenant, format.media_type(), make)?.named(file_name))
}
