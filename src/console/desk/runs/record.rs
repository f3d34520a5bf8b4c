//! Runs as the API answers them, and what all pages show of them.

use maud::{Markup, html};
use serde::Deserialize;
use serde_json::Value;

use tenantd_base::{access::Scope, clock::Timestamp};

use super::{API, PATH};
use crate::{
    components::{Tone, badge, words},
    desk::records::Named,
    query::segment,
    visitor::Visitor,
};

#[derive(Debug, Deserialize)]
pub(super) struct Run {
    pub(super) id: String,
    pub(super) workflow: UsedWorkflow,
    pub(super) status: String,
    pub(super) waiting_on: Option<String>,
    pub(super) trigger: Trigger,
    pub(super) inputs: Option<Value>,
    pub(super) subject_id: Option<String>,
    pub(super) retry_of: Option<String>,
    pub(super) concurrency_key: Option<String>,
    pub(super) started_by: Named,
    pub(super) created_at: String,
    pub(super) started_at: Option<String>,
    pub(super) ended_at: Option<String>,
    pub(super) timeout_at: String,
    pub(super) output: Option<Value>,
    pub(super) error: Option<Failure>,
    /// The steps that have started. A list of runs does not have them.
    #[serde(default)]
    pub(super) steps: Vec<Step>,
    #[serde(default)]
    pub(super) steps_truncated: bool,
    pub(super) version: u64,
}

/// The version of a workflow that a run uses.
#[derive(Debug, Deserialize)]
pub(super) struct UsedWorkflow {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) version: u64,
}

#[derive(Debug, Deserialize)]
pub(super) struct Trigger {
    #[serde(rename = "type")]
    pub(super) kind: Option<String>,
    pub(super) event: Option<String>,
    pub(super) scheduled_at: Option<String>,
    /// The run that called this one.
    pub(super) run_id: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Failure {
    pub(super) code: String,
    pub(super) message: String,
    pub(super) step: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Step {
    pub(super) id: String,
    pub(super) path: String,
    #[serde(rename = "type")]
    pub(super) kind: String,
    pub(super) status: String,
    pub(super) attempts: u32,
    pub(super) started_at: String,
    pub(super) ended_at: Option<String>,
    pub(super) next_attempt_at: Option<String>,
    pub(super) input: Option<Value>,
    pub(super) output: Option<Value>,
    pub(super) error: Option<Failure>,
    #[serde(default)]
    pub(super) effects: Vec<Effect>,
    #[serde(default)]
    pub(super) decisions: Vec<Decision>,
}

/// A record that a step created or changed.
#[derive(Debug, Deserialize)]
pub(super) struct Effect {
    pub(super) kind: String,
    pub(super) id: String,
}

#[derive(Debug, Deserialize)]
pub(super) struct Decision {
    pub(super) by: Named,
    pub(super) at: String,
    pub(super) approved: bool,
    pub(super) comment: Option<String>,
}

impl Run {
    pub(crate) fn path(&self) -> String {
        path(&self.id)
    }

    pub(super) fn api(&self) -> String {
        format!("{API}/runs/{}", self.id)
    }

    pub(super) fn has_ended(&self) -> bool {
        matches!(self.status.as_str(), "succeeded" | "failed" | "cancelled" | "timed_out")
    }

    /// The steps that wait for a decision.
    pub(super) fn approvals(&self) -> impl Iterator<Item = &Step> {
        self.steps.iter().filter(move |step| step.kind == "approval" && step.status == "waiting" && !self.has_ended())
    }

    pub(super) fn badge(&self) -> Markup {
        let text = match (self.status.as_str(), self.waiting_on.as_deref()) {
            ("waiting", Some("approval")) => "Waiting for an approval",
            ("waiting", Some("event")) => "Waiting for an event",
            ("waiting", Some("time")) => "Waiting for a time",
            ("waiting", Some("retry")) => "Waiting for a retry",
            ("waiting", Some("provider")) => "Waiting for a provider",
            ("waiting", Some("authority")) => "Waiting for rights",
            (_, Some("concurrency")) => "Waiting for other runs",
            (status, _) => return status_badge(status),
        };
        badge(Tone::Warn, text)
    }

    /// What started the run, in words.
    pub(super) fn trigger_words(&self, visitor: &Visitor<'_>) -> Markup {
        let Trigger { kind, event, scheduled_at, run_id } = &self.trigger;
        html! {
            @match (kind.as_deref(), event, scheduled_at, run_id) {
                (Some("event"), Some(event), ..) => { "Event " code { (event) } }
                (Some("schedule"), _, Some(at), _) => { "Schedule, " (visitor.clock.absolute(at)) }
                (_, _, _, Some(run)) => { a href=(path(run)) { "Another run" } }
                _ => (self.started_by.name)
            }
        }
    }

    /// How long the run took, or has taken so far.
    pub(super) fn took(&self, visitor: &Visitor<'_>) -> Option<String> {
        took(self.started_at.as_deref()?, self.ended_at.as_deref(), visitor.clock.now)
    }
}

pub(crate) fn path(id: &str) -> String {
    format!("{PATH}/{}", segment(id))
}

/// The status of a run or of a step.
pub(crate) fn status_badge(status: &str) -> Markup {
    let tone = match status {
        "succeeded" => Tone::Good,
        "failed" | "timed_out" => Tone::Bad,
        "waiting" | "paused" | "retrying" => Tone::Warn,
        "running" | "queued" | "pending" => Tone::Accent,
        _ => Tone::Neutral,
    };
    badge(tone, &words(status))
}

/// A record with this id, as a link if the desk has a page for it that the reader may open.
pub(crate) fn record_link(id: &str, name: Option<&str>, visitor: &Visitor<'_>) -> Markup {
    let Some((kind, area, scope)) = page_of(id) else { return html! { code { (id) } } };
    html! {
        @if visitor.may(scope) {
            a href={ "/" (area) "/" (segment(id)) } title=(id) { @match name { Some(name) => (name), None => { (kind) " " (short(id)) } } }
        } @else {
            (kind) " " code { (id) }
        }
    }
}

/// The end of an id, which is enough to tell the records of a page apart.
pub(super) fn short(id: &str) -> String {
    format!("…{}", id.get(id.len().saturating_sub(6)..).unwrap_or(id))
}

/// What a record with this id is, the area of its page, and what one needs to open it.
fn page_of(id: &str) -> Option<(&'static str, &'static str, Scope)> {
    match id.split_once('_')?.0 {
        "tkt" => Some(("Ticket", "tickets", Scope::TicketsRead)),
        "dev" => Some(("Device", "devices", Scope::DirectoryRead)),
        "org" => Some(("Organization", "organizations", Scope::DirectoryRead)),
        "wfl" => Some(("Workflow", "workflows", Scope::WorkflowsRead)),
        "run" => Some(("Run", "workflows/runs", Scope::WorkflowsRead)),
        _ => None,
    }
}

/// The time between two moments; until `now` if there is no end.
pub(super) fn took(start: &str, end: Option<&str>, now: Timestamp) -> Option<String> {
    let end = end.map_or(Some(now), Timestamp::parse)?;
    Some(span(end.since(Timestamp::parse(start)?).as_millis()))
}

/// A length of time in its two largest units.
fn span(millis: u128) -> String {
    let seconds = millis / 1000;
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    let two = |many: u128, unit: &str, rest: u128, part: &str| {
        if rest == 0 { format!("{many} {unit}") } else { format!("{many} {unit} {rest} {part}") }
    };
    match seconds {
        0 => format!("{millis} ms"),
        1..10 => format!("{seconds}.{} s", millis % 1000 / 100),
        10..60 => format!("{seconds} s"),
        60..3600 => two(minutes, "min", seconds % 60, "s"),
        3600..86_400 => two(hours, "h", minutes % 60, "min"),
        _ => two(days, "d", hours % 24, "h"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_length_of_time_has_its_two_largest_units() {
        let said = [0, 250, 1_000, 9_940, 59_999, 60_000, 200_000, 7_500_000, 86_400_000, 300_000_000].map(span);
        assert_eq!(said, ["0 ms", "250 ms", "1.0 s", "9.9 s", "59 s", "1 min", "3 min 20 s", "2 h 5 min", "1 d", "3 d 11 h"]);
    }

    #[test]
    fn a_run_without_an_end_takes_until_now() {
        let now = Timestamp::parse("2026-11-18T12:00:30.000Z").unwrap();
        assert_eq!(took("2026-11-18T12:00:00.000Z", None, now), Some("30 s".to_owned()));
        assert_eq!(took("2026-11-18T12:00:00.000Z", Some("2026-11-18T12:00:00.500Z"), now), Some("500 ms".to_owned()));
        assert_eq!(took("then", None, now), None);
    }

    #[test]
    fn only_ids_of_records_with_a_page_are_links() {
        assert_eq!(page_of("tkt_01").map(|(_, area, _)| area), Some("tickets"));
        assert!(page_of("sec_01").is_none() && page_of("acme.example").is_none());
    }
}
