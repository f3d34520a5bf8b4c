//! Whether the server is ready, and how its parts are doing: now, over the last days, and what went wrong when. Who finds that out, and
//! from which signals, is behind [`HealthSource`]; here it becomes pages. **Invariant:** nothing on them comes from a tenant.

use http::StatusCode;
use poem::Response;
use serde::Serialize;
use serde_json::{Map, Value, json};
use serde_with::skip_serializing_none;

use tenantd_base::clock::Timestamp;
use tenantd_store::StoreError;

use super::{
    Chart,
    chart::Mark,
    html, json_response,
    layout::{Html, escape},
};
use crate::problem::Problem;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ComponentState {
    Operational,
    Degraded,
    Down,
}

impl ComponentState {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Operational => "operational",
            Self::Degraded => "degraded",
            Self::Down => "down",
        }
    }
}

/// A part of the server.
#[derive(Clone, Debug, Serialize)]
pub struct Component {
    pub name: &'static str,
    pub state: ComponentState,
    pub detail: String,
}

/// How a part did on a day, in minutes (UTC).
#[derive(Clone, Debug, Serialize)]
pub struct DayOfHealth {
    pub date: String,
    pub component: &'static str,
    pub operational_minutes: u32,
    pub degraded_minutes: u32,
    pub down_minutes: u32,
    pub uptime_percent: f64,
}

#[skip_serializing_none]
#[derive(Clone, Debug, Serialize)]
pub struct Incident {
    pub component: &'static str,
    pub state: ComponentState,
    pub opened_at: Timestamp,
    pub closed_at: Option<Timestamp>,
    pub detail: String,
}

#[derive(Clone, Debug)]
pub struct Health {
    pub components: Vec<Component>,
    /// The oldest first.
    pub days: Vec<DayOfHealth>,
    /// The newest first.
    pub incidents: Vec<Incident>,
    /// Deliveries of events that wait.
    pub queue_depth: u64,
    pub oldest_undelivered_seconds: Option<u64>,
    pub started_at: Timestamp,
    pub now: Timestamp,
}

impl Health {
    /// The state of the part that does worst.
    pub fn state(&self) -> ComponentState {
        self.components.iter().map(|component| component.state).max().unwrap_or(ComponentState::Operational)
    }
}

/// What came of a snapshot, or of the trial of restoring one.
#[skip_serializing_none]
#[derive(Clone, Debug, Serialize)]
pub struct RunFacts {
    pub at: Timestamp,
    pub path: String,
    pub seconds: f64,
    pub records: u64,
    pub failure: Option<String>,
}

/// What operators are told of the installation. What is not known yet is left out.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "snake_case")]
pub struct InstallationFacts {
    pub disk_state: Option<&'static str>,
    pub disk_free_bytes: Option<u64>,
    pub disk_total_bytes: Option<u64>,
    /// Until changes are refused, if it goes on as in the last weeks.
    pub days_to_full: Option<f64>,
    pub last_verified_snapshot: Option<RunFacts>,
    pub last_snapshot_failure: Option<RunFacts>,
    pub last_drill: Option<RunFacts>,
}

pub trait InstallationSource: Send + Sync {
    fn facts(&self) -> Result<InstallationFacts, StoreError>;
}

pub trait HealthSource: Send + Sync {
    /// How the parts are doing now. Answers also when the store does not: that is then what it tells.
    fn components(&self) -> Vec<Component>;

    /// Whether the server was started in safe mode ([`SAFE_MODE`]).
    fn is_safe_mode(&self) -> bool;

    /// Whether only reads, exports and deletions are answered.
    fn is_read_only(&self) -> bool;

    fn health(&self) -> Result<Health, StoreError>;
}

/// What safe mode means, for the operator.
pub const SAFE_MODE: &str = "Safe mode: workflow triggers, schedules and runs, and webhook deliveries are off. They continue after a \
                             normal start.";

pub(super) fn ready(source: &dyn HealthSource) -> Response {
    let components = source.components();
    let down = || components.iter().filter(|component| component.state == ComponentState::Down);
    let failing: Vec<&str> = down().map(|component| component.name).collect();
    let (status, mut body) = if !failing.is_empty() {
        let reasons: Map<String, Value> = down().map(|part| (part.name.to_owned(), part.detail.clone().into())).collect();
        (StatusCode::SERVICE_UNAVAILABLE, json!({"status": "not_ready", "failing": failing, "reasons": reasons}))
    } else if source.is_read_only() {
        // Ready: a load balancer that sent nothing here would take the reads away too.
        (StatusCode::OK, json!({"status": "read_only", "reason": "disk_full"}))
    } else {
        (StatusCode::OK, json!({"status": "ready"}))
    };
    note_safe_mode(source, &mut body);
    json_response(status, &body)
}

fn note_safe_mode(source: &dyn HealthSource, body: &mut Value) {
    if let (true, Some(body)) = (source.is_safe_mode(), body.as_object_mut()) {
        body.insert("mode".to_owned(), "safe".into());
        body.insert("detail".to_owned(), SAFE_MODE.into());
    }
}

pub(super) fn page(source: &dyn HealthSource, facts: Option<&InstallationFacts>, as_json: bool) -> Result<Response, Problem> {
    let health = source.health()?;
    if as_json {
        let mut body = json!({
            "state": health.state(),
            "version": env!("CARGO_PKG_VERSION"),
            "started_at": health.started_at,
            "uptime_seconds": health.now.since(health.started_at).as_secs(),
            "components": health.components,
            "queue_depth": health.queue_depth,
            "history": health.days,
            "incidents": health.incidents,
        });
        note_safe_mode(source, &mut body);
        if let (Some(seconds), Some(body)) = (health.oldest_undelivered_seconds, body.as_object_mut()) {
            body.insert("oldest_undelivered_seconds".to_owned(), seconds.into());
        }
        if let (Some(facts), Some(body)) = (facts, body.as_object_mut()) {
            body.insert("installation".to_owned(), serde_json::to_value(facts).map_err(Problem::internal)?);
        }
        return Ok(json_response(StatusCode::OK, &body));
    }
    let mut page = Html::new("Status");
    page.paragraph(&format!("tenantd {}, up since {}.", env!("CARGO_PKG_VERSION"), health.started_at));
    if source.is_safe_mode() {
        page.paragraph(SAFE_MODE);
    }
    let oldest = health.oldest_undelivered_seconds.map(|seconds| format!(", the oldest for {seconds} seconds")).unwrap_or_default();
    page.paragraph(&format!("{} deliveries of events wait{oldest}.", health.queue_depth));
    page.raw(
        "<table><thead><tr><th scope=\"col\">part</th><th scope=\"col\">state</th><th scope=\"col\"></th></tr></thead><tbody>",
    );
    for component in &health.components {
        let class = if component.state == ComponentState::Operational { "ok" } else { "bad" };
        page.raw(&format!(
            "<tr><td>{}</td><td class=\"{class}\">{}</td><td>{}</td></tr>",
            escape(component.name),
            component.state.name(),
            escape(&component.detail)
        ));
    }
    page.raw("</tbody></table><h2>Uptime</h2>");
    for component in &health.components {
        uptime(&health, component.name).render(&mut page);
    }
    if let Some(facts) = facts {
        installation(facts, &mut page);
    }
    page.raw("<h2>Incidents</h2>");
    if health.incidents.is_empty() {
        page.paragraph("None is known.");
    }
    page.table(
        &["part", "state", "from", "to", "what"],
        health.incidents.iter().map(|incident| {
            let closed = incident.closed_at.map_or_else(|| "still open".to_owned(), |at| at.to_string());
            let (component, state) = (incident.component.to_owned(), incident.state.name().to_owned());
            vec![component, state, incident.opened_at.to_string(), closed, incident.detail.clone()]
        }),
    );
    Ok(html(page.finish()))
}

/// What only operators see.
fn installation(facts: &InstallationFacts, page: &mut Html) {
    let run = |run: &RunFacts| {
        let outcome = run.failure.clone().unwrap_or_else(|| format!("good, {} records", run.records));
        format!("{} in {:.1} s: {outcome} ({})", run.at, run.seconds, run.path)
    };
    let number = |number: Option<u64>| number.map(|number| number.to_string());
    let rows = [
        ("disk", facts.disk_state.map(str::to_owned)),
        ("free bytes", number(facts.disk_free_bytes)),
        ("bytes in all", number(facts.disk_total_bytes)),
        ("days until it is full", facts.days_to_full.map(|days| format!("{days:.1}"))),
        ("newest snapshot that was verified", facts.last_verified_snapshot.as_ref().map(run)),
        ("last failure of one", facts.last_snapshot_failure.as_ref().map(run)),
        ("last trial of restoring one", facts.last_drill.as_ref().map(run)),
    ];
    page.raw("<h2>Installation</h2>");
    page.table(
        &["what", "how"],
        rows.into_iter().map(|(what, how)| vec![what.to_owned(), how.unwrap_or_else(|| "not known".to_owned())]),
    );
}

fn uptime(health: &Health, component: &str) -> Chart {
    let days = health.days.iter().filter(|day| day.component == component);
    let marks: Vec<Mark> = days.map(|day| Mark { label: day.date.clone(), value: Some(day.uptime_percent) }).collect();
    let least = marks.iter().filter_map(|mark| mark.value).fold(100.0, f64::min);
    Chart {
        id: format!("uptime-{component}"),
        title: format!("Uptime of {component}"),
        description: format!("The share of each day in which {component} was not down, in percent. The least is {least:.2}."),
        unit: "%",
        marks,
        floor: if least > 90.0 { 90.0 } else { 0.0 },
    }
}
