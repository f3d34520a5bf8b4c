//! `/documentation/analytics/`: charts of selected metrics of the reader's tenant over the last 90 days.

use http::StatusCode;
use poem::Response;
use serde_json::{Value, json};

use tenantd_base::{
    access::{Principal, Scope, TenantKind},
    clocks::Clocks,
};
use tenantd_http::{
    credentials,
    need::Need,
    pages::{Chart, Html, Mark, Page, PageVisit, Readers, html, json_response},
    problem::Problem,
};
use tenantd_store::Store;

use super::{
    super::{
        model::{Bucket, METRICS, Span, Unit},
        query::Subject,
        service::{self, QueryParams},
    },
    number::Number,
};

/// The period that the page covers, as part of a sentence.
const ABOUT: &str = "the last 90 days, by day (UTC).";

/// The metrics on the page, in this order, each with its title.
const SHOWN: [(&str, &str); 12] = [
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

#[derive(Debug)]
pub(crate) struct AnalyticsPage {
    pub(crate) store: Store,
    pub(crate) clocks: Clocks,
}

const fn unit(unit: Unit) -> &'static str {
    match unit {
        Unit::Number => "",
        Unit::Percent => "%",
        Unit::Seconds => "seconds",
        Unit::Millis => "ms",
        Unit::Bytes => "bytes",
    }
}

impl Page for AnalyticsPage {
    fn serves(&self, path: &str) -> bool {
        path == "/documentation/analytics/"
    }

    fn readers(&self) -> Readers {
        Readers::Only(Need::Scope(Scope::AnalyticsRead))
    }

    fn answer(&self, visit: &PageVisit<'_>) -> Result<Response, Problem> {
        let reader = visit.reader.ok_or_else(credentials::missing)?;
        let charts = self.charts(reader)?;
        if visit.as_json {
            let chart = |chart: &Chart| {
                let points: Vec<Value> = chart
                    .marks
                    .iter()
                    .map(|mark| json!({"from": mark.label, "value": mark.value.map(|value| Number(value).to_value())}))
                    .collect();
                json!({"id": chart.id, "title": chart.title, "unit": chart.unit, "points": points})
            };
            let charts: Vec<Value> = charts.iter().map(chart).collect();
            return Ok(json_response(StatusCode::OK, &json!({"about": ABOUT, "charts": charts})));
        }
        let mut page = Html::new("Analytics");
        if reader.tenant_kind == TenantKind::Evaluation {
            page.evaluation_banner(&reader.tenant_name);
        }
        page.paragraph(&format!("{}: {ABOUT}", reader.tenant_name));
        page.raw("<p>For all metrics, time zones and buckets, use <code>GET /api/analytics/tenant</code>.</p>");
        for chart in &charts {
            chart.render(&mut page);
        }
        Ok(html(page.finish()))
    }
}

impl AnalyticsPage {
    fn charts(&self, reader: &Principal) -> Result<Vec<Chart>, Problem> {
        let readable = |name: &str| METRICS.iter().any(|metric| metric.name == name && reader.grants.covers(metric.reads(None)));
        let shown = SHOWN.iter().filter(|(name, _)| readable(name));
        let params = QueryParams {
            range: Some(Span::Quarter),
            bucket: Some(Bucket::Day),
            metrics: shown.map(|(name, _)| (*name).to_owned()).collect(),
            ..QueryParams::default()
        };
        let subject = Subject::Tenant(reader.tenant_id);
        let question = service::validate(&params, subject, reader.grants, self.clocks.now(reader.tenant_id))?;
        let answer = self.store.read(|tx| service::answer(tx, &question))?;
        let chart = |(name, title): &(&str, &str)| {
            let metric = METRICS.iter().find(|metric| metric.name == *name)?;
            let line = answer.lines.iter().find(|line| line.metric == *name)?;
            let starts = question.buckets.parts(question.now).map(|(start, ..)| start);
            let marks = starts.map(|start| Mark {
                label: start.to_string().get(..10).unwrap_or_default().to_owned(),
                value: line.points.iter().find(|point| point.at == start).map(|point| point.value),
            });
            Some(Chart {
                id: name.replace('_', "-"),
                title: (*title).to_owned(),
                description: format!("{} One bar per day.", metric.summary),
                unit: unit(metric.unit),
                marks: marks.collect(),
                floor: 0.0,
            })
        };
        Ok(SHOWN.iter().filter_map(chart).collect())
    }
}
