//! The figures of the page for people: a few metrics over the last weeks, as charts.

use tenantd_base::{access::Principal, clocks::Clocks};
use tenantd_http::pages::{Chart, ChartSource, Figures, Mark};
use tenantd_store::{Store, StoreError};

use super::super::{
    error::AnalyticsError,
    model::{Bucket, METRICS, Span, Unit},
    query::Subject,
    service::{self, Asked},
};

/// What the page shows, in this order.
const SHOWN: [(&str, &str); 12] = [
    ("tickets_created", "Tickets created"),
    ("tickets_resolved", "Tickets resolved"),
    ("ticket_backlog", "Tickets not finished"),
    ("first_response_p50_seconds", "First response, median"),
    ("sla_met_percent", "Service levels met"),
    ("workflow_runs", "Workflow runs"),
    ("workflow_success_percent", "Workflow runs that succeeded"),
    ("devices_online_percent", "Devices online"),
    ("patch_compliance_percent", "Devices with all updates"),
    ("api_requests", "API requests"),
    ("api_request_p95_ms", "API requests, 95th percentile"),
    ("webhook_deliveries", "Webhook deliveries"),
];

#[derive(Debug)]
pub(crate) struct Charts {
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

impl ChartSource for Charts {
    fn charts(&self, reader: &Principal) -> Result<Figures, StoreError> {
        let readable = |name: &str| METRICS.iter().any(|metric| metric.name == name && reader.grants.covers(metric.reads(None)));
        let shown = SHOWN.iter().filter(|(name, _)| readable(name));
        let asked = Asked {
            range: Some(Span::Quarter),
            bucket: Some(Bucket::Day),
            metrics: shown.map(|(name, _)| (*name).to_owned()).collect(),
            ..Asked::default()
        };
        let subject = Subject::Tenant(reader.tenant_id);
        let question =
            service::understand(&asked, subject, reader.grants, self.clocks.now(reader.tenant_id)).map_err(
                |error| match error {
                    AnalyticsError::Store(error) => error,
                    AnalyticsError::Invalid(_) | AnalyticsError::NotHeld(_) => {
                        StoreError::Engine("the page asks for figures that there are not".to_owned())
                    }
                },
            )?;
        let answer = self.store.read(|tx| service::answer(tx, &question))?;
        let chart = |(name, title): &(&str, &str)| {
            let metric = METRICS.iter().find(|metric| metric.name == *name)?;
            let line = answer.lines.iter().find(|line| line.metric == *name)?;
            let starts = question.bounds.iter().take(question.bounds.len().saturating_sub(1));
            let marks = starts.map(|start| Mark {
                label: start.to_string().get(..10).unwrap_or_default().to_owned(),
                value: line.points.iter().find(|point| point.at == *start).map(|point| point.value),
            });
            Some(Chart {
                id: name.replace('_', "-"),
                title: (*title).to_owned(),
                description: format!("{} One bar a day.", metric.summary),
                unit: unit(metric.unit),
                marks: marks.collect(),
                floor: 0.0,
            })
        };
        Ok(Figures { about: "the last 90 days, by day (UTC).".to_owned(), charts: SHOWN.iter().filter_map(chart).collect() })
    }
}
