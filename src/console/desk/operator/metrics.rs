//! The metrics of the installation: figures and charts of the last day.

use std::collections::BTreeMap;

use maud::{Markup, html};
use serde::Deserialize;

use crate::{
    chart::{Chart, Mark},
    components::{facts, words},
    desk::devices::memory_size,
    moment::Clock,
    query::Query,
    refusal::Refusal,
    visitor::Visitor,
};

const API: &str = "/api/analytics/platform";
/// The figures: metric, title, and unit.
const FIGURES: [(&str, &str, &str); 8] = [
    ("uptime_percent", "Uptime", "%"),
    ("api_requests", "API requests", ""),
    ("api_error_percent", "Failed API requests", "%"),
    ("api_request_p99_ms", "API requests, 99th percentile", "ms"),
    ("queue_depth", "Waiting in queues", ""),
    ("oldest_undelivered_seconds", "Oldest waiting delivery", "s"),
    ("database_bytes", "Database", BYTES),
    ("index_bytes", "Search index", BYTES),
];
const BYTES: &str = "bytes";
/// The charts: metric, title, and unit.
const CHARTS: [(&str, &str, &str); 4] = [
    ("api_requests", "API requests each hour", "requests"),
    ("api_request_p99_ms", "API requests, 99th percentile", "ms"),
    ("webhook_deliveries", "Webhook deliveries each hour", "deliveries"),
    ("workflow_runs", "Workflow runs each hour", "runs"),
];

/// The report on the last 24 hours.
#[derive(Debug, Deserialize)]
pub(super) struct Report {
    totals: BTreeMap<String, Total>,
    series: Vec<Series>,
    pub(super) version: Option<String>,
    pub(super) started_at: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Total {
    value: Option<f64>,
}

#[derive(Debug, Deserialize)]
struct Series {
    metric: String,
    group: Option<String>,
    points: Vec<Point>,
}

#[derive(Debug, Deserialize)]
struct Point {
    t: String,
    v: Option<f64>,
}

fn query(clock: &Clock) -> Query {
    Query::default().with("range", "24h").with("timezone", clock.zone_name())
}

/// The address of the report in the API.
pub(super) fn target(clock: &Clock) -> String {
    let names = FIGURES.iter().map(|(metric, ..)| *metric).chain(CHARTS.iter().map(|(metric, ..)| *metric));
    let mut metrics: Vec<&str> = names.collect();
    metrics.sort_unstable();
    metrics.dedup();
    query(clock).with("bucket", "hour").with("metrics", &metrics.join(",")).at(API)
}

pub(super) async fn report(visitor: &Visitor<'_>) -> Result<Option<Report>, Refusal> {
    visitor.read_if_allowed(target(visitor.clock)).await
}

/// How many tenants there are by kind or by status, as the newest sample counted them.
pub(super) async fn tenants_by(visitor: &Visitor<'_>, property: &str) -> Result<Vec<(String, u64)>, Refusal> {
    let query = query(visitor.clock).with("bucket", "day").with("metrics", "tenants").with("group_by", property);
    let report: Option<Report> = visitor.read_if_allowed(query.at(API)).await?;
    let series = report.map(|report| report.series).unwrap_or_default();
    let newest = |series: Series| {
        let value = series.points.last().and_then(|point| point.v)?;
        Some((words(&series.group?), whole(value)))
    };
    Ok(series.into_iter().filter_map(newest).collect())
}

impl Report {
    pub(super) fn figures(&self) -> Markup {
        let figure = |metric: &str, unit: &str| {
            let value = self.totals.get(metric)?.value?;
            Some(html! { (shown(value, unit)) })
        };
        facts(&FIGURES.map(|(metric, title, unit)| (title, figure(metric, unit))))
    }

    pub(super) fn charts(&self, clock: &Clock) -> Markup {
        html! {
            div.charts { @for (metric, title, unit) in CHARTS { @if let Some(chart) = self.chart(metric, title, unit, clock) { (chart.render()) } } }
        }
    }

    fn chart(&self, metric: &str, title: &str, unit: &'static str, clock: &Clock) -> Option<Chart> {
        let series = self.series.iter().find(|series| series.metric == metric)?;
        let label = |point: &Point| clock.exact_text(&point.t).unwrap_or_else(|| point.t.clone());
        let marks = series.points.iter().map(|point| Mark { label: label(point), value: point.v }).collect();
        Some(Chart {
            id: metric.replace('_', "-"),
            title: title.to_owned(),
            description: "One bar for each of the last 24 hours in which something was measured.".to_owned(),
            unit,
            marks,
            floor: 0.0,
        })
    }
}

/// A value with its unit, and at most one digit after the point.
fn shown(value: f64, unit: &str) -> String {
    if unit == BYTES {
        return memory_size(whole(value));
    }
    let text = format!("{value:.1}");
    let text = text.strip_suffix(".0").unwrap_or(&text);
    if unit.is_empty() { text.to_owned() } else { format!("{text} {unit}") }
}

/// A count that came as a floating-point number. A cast could change it silently.
fn whole(value: f64) -> u64 {
    format!("{value:.0}").parse().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use jiff::tz::TimeZone;
    use serde_json::json;
    use tenantd_base::clock::Timestamp;

    use super::*;

    #[test]
    fn figures_have_units_and_leave_out_what_was_not_measured() {
        let report: Report = serde_json::from_value(json!({
            "totals": {"uptime_percent": {"value": 100.0}, "api_request_p99_ms": {"value": 95.232}, "queue_depth": {}},
            "series": [{"metric": "api_requests", "points": [{"t": "2026-11-19T01:00:00.000Z", "v": 15}]}],
        }))
        .unwrap();
        let text = report.figures().into_string();
        assert!(text.contains("100 %") && text.contains("95.2 ms") && !text.contains("Waiting in queues"), "{text}");
        let clock = Clock { now: Timestamp::EPOCH, zone: TimeZone::UTC };
        let charts = report.charts(&clock).into_string();
        assert_eq!(charts.matches("<figure").count(), 1);
        assert!(charts.contains("19 Nov 2026, 01:00"), "{charts}");
    }

    #[test]
    fn values_are_short_and_sizes_have_binary_units() {
        assert_eq!(
            (shown(0.0, "s"), shown(12.34, ""), shown(-0.0, BYTES)),
            ("0 s".to_owned(), "12.3".to_owned(), "0 B".to_owned())
        );
        assert_eq!((whole(2.6), whole(-1.0), whole(f64::NAN)), (3, 0, 0));
    }

    #[test]
    fn every_metric_of_the_page_is_asked_for_once() {
        let target = target(&Clock { now: Timestamp::EPOCH, zone: TimeZone::UTC });
        assert_eq!(target.matches("api_requests").count(), 1, "{target}");
    }
}
