//! `/documentation/analytics/`: charts of selected metrics of the reader's tenant over the last 90 days.

use std::collections::BTreeMap;

use futures_util::future::BoxFuture;
use http::StatusCode;
use maud::{Markup, html};
use poem::Response;
use serde::Deserialize;
use serde_json::{Value, json};

use tenantd_base::{
    access::{Grants, Scope, TenantKind},
    clock::Timestamp,
};
use tenantd_http::{
    credentials,
    need::Need,
    pages::{Call, Page, PageVisit, Readers, json_response},
    problem::Problem,
};

use crate::{
    chart::{Chart, Mark},
    components::{code, curl, empty},
    layout::{Frame, Link},
    page,
    refusal::Refusal,
    visitor::parsed,
};

const PATH: &str = "/documentation/analytics/";
/// The period that the page covers, as part of a sentence.
const ABOUT: &str = "the last 90 days, by day (UTC).";
const REPORT: &str = "/api/analytics/tenant?range=90d&bucket=day";

/// The metrics on the page, in this order, each with its title.
pub(crate) const SHOWN: [(&str, &str); 12] = [
    ("tickets_created", "Tickets created"),
    ("tickets_resolved", "Tickets resolved"),
    ("ticket_backlog", "Unfinished tickets"),
    ("first_response_p50_seconds", "First response, median"),
    ("sla_met_percent", "Tickets resolved within SLA"),
    ("workflow_runs", "Workflow runs"),
    ("workflow_success_percent", "Successful workflow runs"),
    ("devices_online_percent", "Devices online"),
    ("patch_compliance_percent", "Fully updated devices"),
    ("api_requests", "API requests"),
    ("api_request_p95_ms", "API requests, 95th percentile"),
    ("webhook_deliveries", "Webhook deliveries"),
];

/// What is known about a metric.
#[derive(Clone, Copy, Debug)]
pub struct Metric {
    pub name: &'static str,
    pub summary: &'static str,
    /// In words, such as `seconds`; empty for a number.
    pub unit: &'static str,
    /// The scopes that a reader needs for it in addition to `analytics:read`.
    pub reads: Grants,
}

#[derive(Debug)]
pub struct AnalyticsPage {
    metrics: Vec<Metric>,
}

#[derive(Debug, Deserialize)]
struct Report {
    range: Range,
    series: Vec<Series>,
}

#[derive(Debug, Deserialize)]
struct Range {
    from: Timestamp,
    to: Timestamp,
}

#[derive(Debug, Deserialize)]
struct Series {
    metric: String,
    points: Vec<Point>,
}

#[derive(Debug, Deserialize)]
struct Point {
    t: String,
    v: Value,
}

/// A metric with its value of each day.
struct Line {
    title: &'static str,
    metric: Metric,
    days: Vec<(String, Value)>,
}

impl AnalyticsPage {
    pub fn new(metrics: Vec<Metric>) -> Self {
        Self { metrics }
    }

    async fn page(&self, visit: &PageVisit<'_>) -> Result<Response, Problem> {
        let reader = visit.reader.ok_or_else(credentials::missing)?;
        let find = |name: &str| self.metrics.iter().find(|metric| metric.name == name && reader.grants.covers(metric.reads));
        let shown: Vec<(Metric, &'static str)> = SHOWN.iter().filter_map(|(name, title)| Some((*find(name)?, *title))).collect();
        let names: Vec<&str> = shown.iter().map(|(metric, _)| metric.name).collect();
        let target = format!("{REPORT}&metrics={}", names.join(","));
        let lines = if shown.is_empty() { Vec::new() } else { lines(visit, &target, shown).await? };
        if visit.as_json {
            let charts: Vec<Value> = lines.iter().map(Line::json).collect();
            return Ok(json_response(StatusCode::OK, &json!({"about": ABOUT, "charts": charts})));
        }
        let content = html! {
            h1 { "Analytics" }
            @if reader.tenant_kind == TenantKind::Evaluation {
                p.note role="note" { strong { "Evaluation. " } "What " (reader.tenant_name) " shows is made up, and ends with it." }
            }
            p.lead { (reader.tenant_name) ": " (ABOUT) }
            p { "For all metrics, time zones and buckets, use " (code("GET /api/analytics/tenant")) "." }
            (curl(visit.base_url, "GET", &target, None))
            @if lines.is_empty() { (empty("Your scopes do not allow any of these metrics.")) }
            (charts(&lines))
        };
        let trail = vec![Link::new("/", "Home")];
        let frame = Frame { title: "Analytics", path: PATH, trail, navigation: &[], search: "" };
        Ok(page::desk(StatusCode::OK, &frame.render(&content)))
    }
}

impl Page for AnalyticsPage {
    fn serves(&self, path: &str) -> bool {
        path == PATH
    }

    fn readers(&self, _path: &str) -> Readers {
        Readers::Only(Need::Scope(Scope::AnalyticsRead))
    }

    fn answer<'a>(&'a self, visit: &'a PageVisit<'a>) -> BoxFuture<'a, Result<Response, Problem>> {
        Box::pin(self.page(visit))
    }
}

/// Asks the API for the metrics.
async fn lines(visit: &PageVisit<'_>, target: &str, shown: Vec<(Metric, &'static str)>) -> Result<Vec<Line>, Problem> {
    let answer = visit.api.call(Call::get(target)).await;
    if let Some(refusal) = Refusal::of(&answer) {
        return Err(refusal.into());
    }
    let report: Report = parsed(answer.body).map_err(Problem::from)?;
    let days = report.range.days();
    let line = |(metric, title): (Metric, &'static str)| {
        let series = report.series.iter().find(|series| series.metric == metric.name)?;
        let values: BTreeMap<&str, &Value> =
            series.points.iter().filter_map(|point| Some((point.t.get(..10)?, &point.v))).collect();
        let value = |day: &String| values.get(day.as_str()).map_or(Value::Null, |value| (*value).clone());
        Some(Line { title, metric, days: days.iter().map(|day| (day.clone(), value(day))).collect() })
    };
    Ok(shown.into_iter().filter_map(line).collect())
}

impl Range {
    /// The days of the range, such as `2026-11-18`.
    fn days(&self) -> Vec<String> {
        let mut days = Vec::new();
        let mut day = self.from;
        while day < self.to {
            days.push(day.to_string().get(..10).unwrap_or_default().to_owned());
            day = day.plus_days(1);
        }
        days
    }
}

impl Line {
    fn id(&self) -> String {
        self.metric.name.replace('_', "-")
    }

    fn json(&self) -> Value {
        let points: Vec<Value> = self.days.iter().map(|(day, value)| json!({"from": day, "value": value})).collect();
        json!({"id": self.id(), "title": self.title, "unit": self.metric.unit, "points": points})
    }

    fn chart(&self) -> Chart {
        let mark = |(day, value): &(String, Value)| Mark { label: day.clone(), value: value.as_f64() };
        Chart {
            id: self.id(),
            title: self.title.to_owned(),
            description: format!("{} One bar per day.", self.metric.summary),
            unit: self.metric.unit,
            marks: self.days.iter().map(mark).collect(),
            floor: 0.0,
        }
    }
}

fn charts(lines: &[Line]) -> Markup {
    html! { div.charts { @for line in lines { (line.chart().render()) } } }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_has_each_of_its_days() {
        let at = |text| Timestamp::parse(text).unwrap();
        let range = Range { from: at("2026-02-27T00:00:00.000Z"), to: at("2026-03-01T14:15:00.000Z") };
        assert_eq!(range.days(), ["2026-02-27", "2026-02-28", "2026-03-01"]);
    }
}
