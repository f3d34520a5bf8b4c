//! The runs of workflows: the share that succeeded, and the newest ones.

use maud::{Markup, html};
use serde::Deserialize;

use tenantd_base::clock::Timestamp;

use super::{
    API, RUNS,
    record::{Author, Workflow},
};
use crate::{
    components::{Tone, bar, card, words},
    desk::{
        organizations::{counted, optional},
        records::List,
        runs::{path as run_path, record_link, status_badge},
    },
    query::Query,
    refusal::Refusal,
    visitor::Visitor,
};

/// How far back runs count.
pub(super) const DAYS: i64 = 30;
const DAY_MILLISECONDS: i64 = 86_400_000;
const ENDED: [&str; 4] = ["succeeded", "failed", "cancelled", "timed_out"];

#[derive(Debug, Deserialize)]
pub(super) struct Run {
    id: String,
    workflow: WorkflowId,
    status: String,
    waiting_on: Option<String>,
    trigger: Trigger,
    subject_id: Option<String>,
    started_by: Option<Author>,
    created_at: String,
    ended_at: Option<String>,
}

#[derive(Debug, Deserialize)]
struct WorkflowId {
    id: String,
}

#[derive(Debug, Deserialize)]
struct Trigger {
    #[serde(rename = "type")]
    kind: String,
    event: Option<String>,
}

/// How many of the runs that ended have succeeded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Success {
    pub(super) succeeded: u64,
    pub(super) ended: u64,
}

impl Success {
    /// The runs of one workflow among these.
    pub(super) fn among(runs: &[Run], workflow: &Workflow) -> Self {
        let of_it = runs.iter().filter(|run| run.workflow.id == workflow.id);
        of_it.fold(Self::default(), |counts, run| Self {
            succeeded: counts.succeeded + u64::from(run.status == "succeeded"),
            ended: counts.ended + u64::from(ENDED.contains(&run.status.as_str())),
        })
    }

    /// The share as a bar; nothing if no run has ended.
    pub(super) fn bar(self) -> Option<Markup> {
        let percent = u32::try_from((self.succeeded * 100).checked_div(self.ended)?).unwrap_or(100);
        let tone = match percent {
            95.. => Tone::Good,
            80..95 => Tone::Warn,
            _ => Tone::Bad,
        };
        Some(bar(percent, tone, &format!("{percent} % of {}", self.ended)))
    }
}

/// The time from which runs count.
pub(super) fn since(visitor: &Visitor<'_>) -> String {
    Timestamp::from_millis(visitor.clock.now.as_millis() - DAYS * DAY_MILLISECONDS).to_string()
}

fn listed(workflow: &Workflow) -> Query {
    Query::default().with("view", "runs").with("workflow_id", &workflow.id)
}

/// The runs of the last days that have ended.
pub(super) async fn success(visitor: &Visitor<'_>, workflow: &Workflow) -> Result<Success, Refusal> {
    let recent = listed(workflow).with("started_after", &since(visitor)).with("limit", "1").with("include_total", "true");
    let ended = ENDED.iter().fold(recent.clone(), |query, status| query.and("status", status));
    Ok(Success { succeeded: count(visitor, &recent.with("status", "succeeded")).await?, ended: count(visitor, &ended).await? })
}

async fn count(visitor: &Visitor<'_>, query: &Query) -> Result<u64, Refusal> {
    let list: List<Run> = visitor.read(query.at(API)).await?;
    Ok(list.page.total.unwrap_or_default())
}

/// The newest runs of a workflow.
pub(super) async fn newest(visitor: &Visitor<'_>, workflow: &Workflow) -> Result<Markup, Refusal> {
    let query = listed(workflow).with("limit", "10").with("include_total", "true");
    let runs: List<Run> = visitor.read(query.at(API)).await?;
    let total = runs.page.total.unwrap_or_default();
    let all = Query::default().with("workflow_id", &workflow.id).at(RUNS);
    let body = html! {
        @if runs.data.is_empty() {
            p.muted { "No runs yet. They appear here when a trigger or a person starts the workflow." }
        } @else {
            (table(&runs.data, visitor))
            p { a href=(all) { "Show " (counted(total, "run", "runs")) } }
        }
    };
    Ok(card("Last runs", &body))
}

fn table(runs: &[Run], visitor: &Visitor<'_>) -> Markup {
    html! {
        div.scroll tabindex="0" role="group" aria-label="Last runs" {
            table.list data-rows {
                thead { tr { @for head in ["Run", "State", "Started by", "About", "Ended"] { th scope="col" { (head) } } } }
                tbody {
                    @for run in runs {
                        tr {
                            td.main { a href=(run_path(&run.id)) data-record { (visitor.clock.absolute(&run.created_at)) } }
                            td {
                                (status_badge(&run.status))
                                @if let Some(reason) = &run.waiting_on { " " small { "for " (words(reason).to_lowercase()) } }
                            }
                            td { (run.cause()) }
                            td { @match &run.subject_id { Some(id) => { (record_link(id, None, visitor)) } None => { (optional(None)) } } }
                            td.time { @match &run.ended_at { Some(end) => { (visitor.clock.relative(end)) } None => { (optional(None)) } } }
                        }
                    }
                }
            }
        }
    }
}

impl Run {
    /// The event that started it, or the person who did.
    fn cause(&self) -> Markup {
        html! {
            @match (&self.trigger.event, &self.started_by) {
                (Some(event), _) => { code { (event) } }
                (None, Some(author)) if self.trigger.kind == "manual" => { (author.name) }
                (None, _) => { (words(&self.trigger.kind)) }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_of_success_counts_runs_that_ended() {
        assert!(Success::default().bar().is_none());
        let text = Success { succeeded: 9, ended: 10 }.bar().unwrap().into_string();
        assert!(text.contains("90 % of 10") && text.contains("warn"));
    }
}
