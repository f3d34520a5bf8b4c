//! A tenant's figures as charts, for whoever is signed in. What they are is the analytics slice's; here they become a page.

use http::StatusCode;
use poem::Response;
use serde_json::{Value, json};

use tenantd_base::access::{Principal, TenantKind};
use tenantd_store::StoreError;

use super::{Chart, html, json_response, layout::Html};
use crate::{credentials, problem::Problem};

/// What a page of figures shows.
#[derive(Clone, Debug)]
pub struct Figures {
    /// In a sentence: what time they are about.
    pub about: String,
    pub charts: Vec<Chart>,
}

/// Makes the figures of the reader's tenant. They need `analytics:read`, which is checked before.
pub trait ChartSource: Send + Sync {
    fn charts(&self, reader: &Principal) -> Result<Figures, StoreError>;
}

pub(super) fn page(source: &dyn ChartSource, reader: Option<&Principal>, as_json: bool) -> Result<Response, Problem> {
    let reader = reader.ok_or_else(credentials::missing)?;
    let figures = source.charts(reader)?;
    if as_json {
        let chart = |chart: &Chart| {
            let points: Vec<Value> = chart.marks.iter().map(|mark| json!({"from": mark.label, "value": mark.value})).collect();
            json!({"id": chart.id, "title": chart.title, "unit": chart.unit, "points": points})
        };
        let charts: Vec<Value> = figures.charts.iter().map(chart).collect();
        return Ok(json_response(StatusCode::OK, &json!({"about": figures.about, "charts": charts})));
    }
    let mut page = Html::new("Analytics");
    if reader.tenant_kind == TenantKind::Evaluation {
        page.evaluation_banner(&reader.tenant_name);
    }
    page.paragraph(&format!("{}: {}", reader.tenant_name, figures.about));
    page.raw("<p>All figures, in any time zone and by any bucket: <code>GET /api/analytics/tenant</code>.</p>");
    for chart in &figures.charts {
        chart.render(&mut page);
    }
    Ok(html(page.finish()))
}
