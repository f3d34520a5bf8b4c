//! `/status/` and `/readyz`: whether the server is ready, and the state of its components and of the installation. The
//! `analytics` slice determines the state of the components. **Invariant:** nothing here comes from a tenant.

use std::{sync::Arc, time::Duration};

use http::StatusCode;
use poem::Response;
use serde::Serialize;
use serde_json::{Map, Value, json};
use serde_with::skip_serializing_none;

use tenantd_analytics::{ComponentState, Health, HealthMonitor, SAFE_MODE};
use tenantd_base::clock::Timestamp;
use tenantd_http::{
    pages::{Chart, Html, Mark, Page, PageVisit, Readers, escape, html, json_response},
    problem::Problem,
};
use tenantd_store::{
    Store, StoreError,
    tasks::{ScrubState, scrub_state},
};

use super::super::{
    disk::Disk,
    model::{Run, RunKind},
    repo,
};

/// `/readyz`.
#[derive(Debug)]
pub(crate) struct Readiness {
    pub(crate) health: Arc<HealthMonitor>,
}

impl Page for Readiness {
    fn serves(&self, path: &str) -> bool {
        path == "/readyz"
    }

    fn readers(&self) -> Readers {
        Readers::Everyone
    }

    fn answer(&self, _visit: &PageVisit<'_>) -> Result<Response, Problem> {
        Ok(ready(&self.health))
    }
}

/// `/status/`.
#[derive(Debug)]
pub(crate) struct StatusPage {
    pub(crate) store: Store,
    pub(crate) disk: Arc<Disk>,
    pub(crate) health: Arc<HealthMonitor>,
}

impl Page for StatusPage {
    fn serves(&self, path: &str) -> bool {
        path == "/status/"
    }

    fn readers(&self) -> Readers {
        Readers::EveryoneAndOperators
    }

    fn answer(&self, visit: &PageVisit<'_>) -> Result<Response, Problem> {
        let facts = visit.reader.map(|_| self.facts()).transpose()?;
        page(&self.health, facts.as_ref(), visit.as_json)
    }
}

impl StatusPage {
    fn facts(&self) -> Result<InstallationFacts, StoreError> {
        let shown = |run: Run| RunFacts {
            at: run.at,
            path: run.path,
            seconds: run.took.as_secs_f64(),
            records: run.records,
            failure: run.failure,
        };
        let seen = self.disk.seen();
        self.store.read(|tx| {
            let newest = |wanted: &dyn Fn(&Run) -> bool| Ok::<_, StoreError>(repo::newest(tx, wanted)?.map(shown));
            Ok(InstallationFacts {
                disk_state: seen.map(|seen| seen.sample.fill.name()),
                disk_free_bytes: seen.map(|seen| seen.sample.space.free),
                disk_total_bytes: seen.map(|seen| seen.sample.space.total),
                disk_reserve_bytes: seen.map(|_| self.store.volume().reserve().left),
                days_to_full: seen.and_then(|seen| seen.days_to_full).map(|days| (days * 10.0).round() / 10.0),
                last_verified_snapshot: newest(&Run::is_snapshot)?,
                last_snapshot_failure: newest(&|run| run.kind != RunKind::Drill && !run.is_good())?,
                last_drill: newest(&|run| run.kind == RunKind::Drill)?,
                scrub: scrub_state(tx)?.map(ScrubFacts::new),
                last_offsite_backup: newest(&|run| run.kind == RunKind::Offsite)?,
            })
        })
    }
}

/// The result of a snapshot or of a restore drill.
#[skip_serializing_none]
#[derive(Clone, Debug, Serialize)]
struct RunFacts {
    at: Timestamp,
    path: String,
    seconds: f64,
    records: u64,
    failure: Option<String>,
}

/// The progress of the rounds that read the whole store.
#[skip_serializing_none]
#[derive(Clone, Debug, Serialize)]
struct ScrubFacts {
    /// When the last round ended, and when the last round without problems ended.
    ended_at: Option<Timestamp>,
    last_sound_at: Option<Timestamp>,
    seconds: Option<f64>,
    records: Option<u64>,
    /// The problems of the current round, if it has found any, else those of the last one.
    problems: u64,
    first_problems: Vec<String>,
    /// When the current round began, and how many parts of the store it has read.
    began_at: Option<Timestamp>,
    parts_done: Option<usize>,
}

impl ScrubFacts {
    fn new(state: ScrubState) -> Self {
        let problems = state.problems().cloned().unwrap_or_default();
        let (last, current) = (state.last.as_ref(), state.current.as_ref());
        Self {
            ended_at: last.map(|last| last.ended_at),
            last_sound_at: state.last_sound_at,
            seconds: last.map(|last| Duration::from_millis(last.worked_milliseconds).as_secs_f64()),
            records: last.map(|last| last.records),
            problems: problems.number,
            first_problems: problems.first,
            began_at: current.map(|round| round.began_at),
            parts_done: current.map(|round| round.done.len()),
        }
    }

    fn in_words(&self) -> String {
        let last = match (self.ended_at, self.seconds, self.records) {
            (Some(at), Some(seconds), Some(records)) => format!("{at} in {seconds:.1} s: {records} records"),
            _ => "no round has finished yet".to_owned(),
        };
        let found = match self.first_problems.first() {
            None => String::new(),
            Some(first) => format!(", {} problems; the first is: {first}", self.problems),
        };
        let current = self.began_at.map(|at| format!("; a round is running since {at}")).unwrap_or_default();
        format!("{last}{found}{current}")
    }
}

/// Information about the installation for operators. Unknown values are omitted.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "snake_case")]
struct InstallationFacts {
    disk_state: Option<&'static str>,
    disk_free_bytes: Option<u64>,
    disk_total_bytes: Option<u64>,
    disk_reserve_bytes: Option<u64>,
    /// The number of days until changes are refused, at the rate of the last weeks.
    days_to_full: Option<f64>,
    last_verified_snapshot: Option<RunFacts>,
    last_snapshot_failure: Option<RunFacts>,
    last_drill: Option<RunFacts>,
    scrub: Option<ScrubFacts>,
    last_offsite_backup: Option<RunFacts>,
}

fn ready(source: &HealthMonitor) -> Response {
    let components = source.components();
    let down = || components.iter().filter(|component| component.state == ComponentState::Down);
    let failing: Vec<&str> = down().map(|component| component.name).collect();
    let (status, mut body) = if !failing.is_empty() {
        let reasons: Map<String, Value> = down().map(|part| (part.name.to_owned(), part.detail.clone().into())).collect();
        (StatusCode::SERVICE_UNAVAILABLE, json!({"status": "not_ready", "failing": failing, "reasons": reasons}))
    } else if source.is_read_only() {
        // Report ready: if a load balancer stopped sending requests, reads would fail too.
        let detail = if source.is_exhausted() {
            "The disk is full and the reserve is used up. The server answers only reads."
        } else {
            "The disk is nearly full. The server answers reads, exports, deletions and sign-ins, and refuses other changes."
        };
        (StatusCode::OK, json!({"status": "read_only", "reason": "disk_full", "detail": detail}))
    } else {
        (StatusCode::OK, json!({"status": "ready"}))
    };
    note_safe_mode(source, &mut body);
    json_response(status, &body)
}

fn note_safe_mode(source: &HealthMonitor, body: &mut Value) {
    if let (true, Some(body)) = (source.is_safe_mode(), body.as_object_mut()) {
        body.insert("mode".to_owned(), "safe".into());
        body.insert("detail".to_owned(), SAFE_MODE.into());
    }
}

fn page(source: &HealthMonitor, facts: Option<&InstallationFacts>, as_json: bool) -> Result<Response, Problem> {
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
    page.paragraph(&format!("{} event deliveries are queued{oldest}.", health.queue_depth));
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
        page.paragraph("No known incidents.");
    }
    page.table(
        &["part", "state", "from", "to", "details"],
        health.incidents.iter().map(|incident| {
            let closed = incident.closed_at.map_or_else(|| "still open".to_owned(), |at| at.to_string());
            let (component, state) = (incident.component.to_owned(), incident.state.name().to_owned());
            vec![component, state, incident.opened_at.to_string(), closed, incident.detail.clone()]
        }),
    );
    Ok(html(page.finish()))
}

/// Shown only to operators.
fn installation(facts: &InstallationFacts, page: &mut Html) {
    let run = |run: &RunFacts| {
        let outcome = run.failure.clone().unwrap_or_else(|| format!("good, {} records", run.records));
        format!("{} in {:.1} s: {outcome} ({})", run.at, run.seconds, run.path)
    };
    let number = |number: Option<u64>| number.map(|number| number.to_string());
    let rows = [
        ("disk", facts.disk_state.map(str::to_owned)),
        ("free bytes", number(facts.disk_free_bytes)),
        ("total bytes", number(facts.disk_total_bytes)),
        ("reserved bytes", number(facts.disk_reserve_bytes)),
        ("days until full", facts.days_to_full.map(|days| format!("{days:.1}"))),
        ("last verified snapshot", facts.last_verified_snapshot.as_ref().map(run)),
        ("last snapshot failure", facts.last_snapshot_failure.as_ref().map(run)),
        ("last restore drill", facts.last_drill.as_ref().map(run)),
        ("last full read of the store", facts.scrub.as_ref().map(ScrubFacts::in_words)),
        ("last off-site backup", facts.last_offsite_backup.as_ref().map(run)),
    ];
    page.raw("<h2>Installation</h2>");
    page.table(
        &["property", "value"],
        rows.into_iter().map(|(what, how)| vec![what.to_owned(), how.unwrap_or_else(|| "unknown".to_owned())]),
    );
}

fn uptime(health: &Health, component: &str) -> Chart {
    let days = health.days.iter().filter(|day| day.component == component);
    let marks: Vec<Mark> = days.map(|day| Mark { label: day.date.clone(), value: Some(day.uptime_percent) }).collect();
    let least = marks.iter().filter_map(|mark| mark.value).fold(100.0, f64::min);
    Chart {
        id: format!("uptime-{component}"),
        title: format!("Uptime of {component}"),
        description: format!("The percentage of each day in which {component} was not down. The lowest value is {least:.2}."),
        unit: "%",
        marks,
        floor: if least > 90.0 { 90.0 } else { 0.0 },
    }
}
