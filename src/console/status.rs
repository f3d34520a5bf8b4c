//! `/status/`: the state of the server's components, their uptime and incidents. Operators also see the installation.

use std::future::ready;

use futures_util::future::BoxFuture;
use http::StatusCode;
use jiff::tz::TimeZone;
use maud::{Markup, html};
use poem::Response;
use serde::Deserialize;
use serde_json::Value;

use tenantd_http::{
    pages::{Page, PageVisit, Readers, json_response},
    problem::Problem,
};

use crate::{
    chart::{Chart, Mark},
    components::{Tone, badge, empty, table, words},
    layout::Frame,
    moment::Clock,
    page,
};

const PATH: &str = "/status/";

/// Reports the state of the server as JSON: for everyone, or for an operator.
pub type StatusReport = Box<dyn Fn(bool) -> Result<Value, Problem> + Send + Sync>;

#[allow(missing_debug_implementations, reason = "a closure does not print")]
pub struct Status {
    report: StatusReport,
}

#[derive(Debug, Deserialize)]
struct Report {
    state: String,
    version: String,
    started_at: String,
    components: Vec<Component>,
    queue_depth: u64,
    oldest_undelivered_seconds: Option<u64>,
    history: Vec<Day>,
    incidents: Vec<Incident>,
    /// What does not work now because of the mode in which the server runs.
    detail: Option<String>,
    installation: Option<Installation>,
}

#[derive(Debug, Deserialize)]
struct Component {
    name: String,
    state: String,
    detail: String,
}

#[derive(Debug, Deserialize)]
struct Day {
    date: String,
    component: String,
    uptime_percent: f64,
}

#[derive(Debug, Deserialize)]
struct Incident {
    component: String,
    state: String,
    opened_at: String,
    closed_at: Option<String>,
    detail: String,
}

#[derive(Debug, Deserialize)]
struct Installation {
    disk_state: Option<String>,
    disk_free_bytes: Option<u64>,
    disk_total_bytes: Option<u64>,
    disk_reserve_bytes: Option<u64>,
    days_to_full: Option<f64>,
    last_verified_snapshot: Option<Run>,
    last_snapshot_failure: Option<Run>,
    last_drill: Option<Run>,
    scrub: Option<Scrub>,
    last_offsite_backup: Option<Run>,
}

/// A snapshot, a drill or a backup.
#[derive(Debug, Deserialize)]
struct Run {
    at: String,
    path: String,
    seconds: f64,
    records: u64,
    failure: Option<String>,
}

/// The rounds that read the whole store.
#[derive(Debug, Deserialize)]
struct Scrub {
    ended_at: Option<String>,
    seconds: Option<f64>,
    records: Option<u64>,
    problems: u64,
    first_problems: Vec<String>,
    began_at: Option<String>,
}

impl Status {
    pub fn new(report: StatusReport) -> Self {
        Self { report }
    }

    fn page(&self, visit: &PageVisit<'_>) -> Result<Response, Problem> {
        let report = (self.report)(visit.reader.is_some())?;
        if visit.as_json {
            return Ok(json_response(StatusCode::OK, &report));
        }
        let report: Report = serde_json::from_value(report).map_err(Problem::internal)?;
        let clock = Clock { now: visit.now, zone: TimeZone::UTC };
        let frame = Frame { title: "Status", path: PATH, trail: Vec::new(), navigation: &[], search: "" };
        Ok(page::html(&frame.render(&report.content(&clock))))
    }
}

impl Page for Status {
    fn serves(&self, path: &str) -> bool {
        path == PATH
    }

    fn readers(&self, _path: &str) -> Readers {
        Readers::EveryoneAndOperators
    }

    fn answer<'a>(&'a self, visit: &'a PageVisit<'a>) -> BoxFuture<'a, Result<Response, Problem>> {
        Box::pin(ready(self.page(visit)))
    }
}

impl Report {
    fn content(&self, clock: &Clock) -> Markup {
        let states = self.components.iter().map(|part| {
            vec![html! { (words(&part.name)) }, badge(tone(&part.state), &words(&part.state)), html! { (part.detail) }]
        });
        let states: Vec<_> = states.collect();
        html! {
            h1 { "Status " (badge(tone(&self.state), &words(&self.state))) }
            p.lead { "tenantd " (self.version) ", up since " (clock.absolute(&self.started_at)) " (UTC)." }
            @if let Some(detail) = &self.detail { p.note role="note" { (detail) } }
            p {
                (self.queue_depth) " event deliveries are queued"
                @if let Some(seconds) = self.oldest_undelivered_seconds { ", the oldest for " (seconds) " seconds" }
                "."
            }
            (table("Components", &["part", "state", "details"], &states))
            h2 { "Uptime" }
            div.charts { @for part in &self.components { (self.uptime(&part.name).render()) } }
            @if let Some(installation) = &self.installation { (installation.content(clock)) }
            h2 { "Incidents" }
            (self.incidents(clock))
        }
    }

    fn uptime(&self, component: &str) -> Chart {
        let days = self.history.iter().filter(|day| day.component == component);
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

    fn incidents(&self, clock: &Clock) -> Markup {
        let rows = self.incidents.iter().map(|incident| {
            vec![
                html! { (words(&incident.component)) },
                badge(tone(&incident.state), &words(&incident.state)),
                clock.absolute(&incident.opened_at),
                html! { @match &incident.closed_at { Some(at) => (clock.absolute(at)), None => "still open" } },
                html! { (incident.detail) },
            ]
        });
        let rows: Vec<_> = rows.collect();
        if rows.is_empty() {
            return empty("No known incidents.");
        }
        table("Incidents", &["part", "state", "from", "to", "details"], &rows)
    }
}

impl Installation {
    fn content(&self, clock: &Clock) -> Markup {
        let run = |run: Option<&Run>| run.map(|run| run.in_words(clock));
        let number = |number: Option<u64>| number.map(|number| html! { (number) });
        let rows = [
            ("disk", self.disk_state.as_ref().map(|state| html! { (state) })),
            ("free bytes", number(self.disk_free_bytes)),
            ("total bytes", number(self.disk_total_bytes)),
            ("reserved bytes", number(self.disk_reserve_bytes)),
            ("days until full", self.days_to_full.map(|days| html! { (format!("{days:.1}")) })),
            ("last verified snapshot", run(self.last_verified_snapshot.as_ref())),
            ("last snapshot failure", run(self.last_snapshot_failure.as_ref())),
            ("last restore drill", run(self.last_drill.as_ref())),
            ("last full read of the store", self.scrub.as_ref().map(|scrub| scrub.in_words(clock))),
            ("last off-site backup", run(self.last_offsite_backup.as_ref())),
        ];
        let row = |(name, value): (&str, Option<Markup>)| {
            vec![html! { (name) }, value.unwrap_or_else(|| html! { span.muted { "unknown" } })]
        };
        let rows: Vec<_> = rows.into_iter().map(row).collect();
        html! { h2 { "Installation" } (table("Installation", &["property", "value"], &rows)) }
    }
}

impl Run {
    fn in_words(&self, clock: &Clock) -> Markup {
        html! {
            (clock.absolute(&self.at)) " in " (format!("{:.1}", self.seconds)) " s: "
            @match &self.failure {
                Some(failure) => (failure),
                None => { "good, " (self.records) " records" }
            }
            " (" code { (self.path) } ")"
        }
    }
}

impl Scrub {
    fn in_words(&self, clock: &Clock) -> Markup {
        html! {
            @match (&self.ended_at, self.seconds, self.records) {
                (Some(at), Some(seconds), Some(records)) => {
                    (clock.absolute(at)) " in " (format!("{seconds:.1}")) " s: " (records) " records"
                }
                _ => "no round has finished yet",
            }
            @if let Some(first) = self.first_problems.first() { ", " (self.problems) " problems; the first is: " (first) }
            @if let Some(at) = &self.began_at { "; a round is running since " (clock.absolute(at)) }
        }
    }
}

fn tone(state: &str) -> Tone {
    match state {
        "operational" => Tone::Good,
        "degraded" => Tone::Warn,
        _ => Tone::Bad,
    }
}
