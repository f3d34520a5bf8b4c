//! The page of a run.

use maud::{Markup, html};
use serde::Deserialize;
use serde_json::Value;

use tenantd_base::access::Scope;

use super::{
    API, PATH, WORKFLOWS,
    decision::{Approval, Decider, unsent},
    definition,
    record::{Run, path, record_link},
    steps,
    values::members,
};
use crate::{
    components::{card, curl, facts, page_head},
    desk::{
        Content, Reply,
        devices::DEVICES_API,
        organizations::{trail, version_field},
        records::Named,
    },
    query::{Query, segment},
    refusal::Refusal,
    visitor::Visitor,
};

/// A ticket that a run is about.
#[derive(Debug, Deserialize)]
struct Ticket {
    #[serde(rename = "ref")]
    reference: String,
    subject: String,
}

/// The path of the run in the API.
pub(super) fn target(visitor: &Visitor<'_>) -> String {
    format!("{API}/runs/{}", segment(visitor.part("id")))
}

/// The run that the path names.
pub(super) async fn run(visitor: &Visitor<'_>) -> Result<Run, Refusal> {
    visitor.read(target(visitor)).await
}

pub(super) async fn show(visitor: Visitor<'_>) -> Result<Reply, Refusal> {
    page(&visitor, None).await
}

/// Shows the run, with what was refused.
pub(super) async fn page(visitor: &Visitor<'_>, refusal: Option<&Refusal>) -> Result<Reply, Refusal> {
    let run = run(visitor).await?;
    let definition = if run.has_ended() { Value::Null } else { definition::definition(visitor, &run).await? };
    let subject = subject(visitor, run.subject_id.as_deref()).await?;
    let decider = Decider::of(visitor);
    let approvals: Vec<Approval<'_>> = run.approvals().map(|step| Approval::new(&run, step, &definition, &decider)).collect();
    let body = html! {
        (trail(&[WORKFLOWS, (PATH, "Runs")]))
        (head(&run, visitor))
        @if let Some(refusal) = refusal {
            div.alert role="alert" tabindex="-1" { strong { (refusal.title) } p { (refusal.detail) } @for error in &refusal.errors { p { (error.message) } } (unsent(&run, &visitor.fields())) }
        }
        (state(&run))
        div.split {
            div {
                @for approval in &approvals {
                    (card(&format!("Approval {}", approval.step.path), &approval.show(None, visitor)))
                }
                (card("Steps", &steps::timeline(&run, &definition::to_come(&definition, &run), visitor)))
            }
            div {
                (card("Details", &details(&run, subject, visitor)))
                (card("Inputs", &members("Inputs", run.inputs.as_ref())))
                @if run.output.is_some() { (card("Output", &members("Output", run.output.as_ref()))) }
            }
        }
    };
    let content = Content::new(format!("Run of {}", run.workflow.name), body).live_about("workflow.run.*", &run.id);
    Ok(Reply::Page(match refusal {
        Some(refusal) => content.refused(refusal),
        None => content,
    }))
}

/// The record that a run is about, with its name if the reader may see it.
async fn subject(visitor: &Visitor<'_>, id: Option<&str>) -> Result<Option<Markup>, Refusal> {
    let Some(id) = id else { return Ok(None) };
    let named = |api: &str| format!("{api}/{}", segment(id));
    let name = match id.split('_').next() {
        Some("tkt") => {
            let ticket: Option<Ticket> = visitor.read_if_allowed(named("/api/psa/tickets")).await?;
            ticket.map(|ticket| format!("{} {}", ticket.reference, ticket.subject))
        }
        Some("dev") => visitor.read_if_allowed::<Named>(named(DEVICES_API)).await?.map(|device| device.name),
        Some("org") => {
            let organization: Option<Named> = visitor.read_if_allowed(named("/api/directory/organizations")).await?;
            organization.map(|organization| organization.name)
        }
        _ => None,
    };
    Ok(Some(record_link(id, name.as_deref(), visitor)))
}

fn head(run: &Run, visitor: &Visitor<'_>) -> Markup {
    page_head(
        &html! { (run.workflow.name) },
        &html! { (run.badge()) " started by " (run.started_by.name) " " (visitor.clock.relative(&run.created_at)) },
        &html! {
            (curl(visitor.visit.base_url, "GET", &run.api(), None))
            @if visitor.may(Scope::WorkflowsRun) { (steering(run, visitor)) }
        },
    )
}

/// The actions that the state of the run allows.
fn steering(run: &Run, visitor: &Visitor<'_>) -> Markup {
    let is_queued = run.waiting_on.as_deref() == Some("concurrency");
    html! {
        @if run.has_ended() {
            @if run.status != "succeeded" { (button(run, "retry", "Retry", visitor)) }
        } @else {
            @if run.status == "paused" {
                (button(run, "resume", "Resume", visitor))
            } @else if !is_queued {
                (button(run, "pause", "Pause", visitor))
            }
            details.menu-box {
                summary.button { "Cancel…" }
                div.popup {
                    p { "Stops the run and its steps in progress. Completed steps are not undone, and the run cannot be resumed." }
                    form method="post" action={ (run.path()) "/cancel" } {
                        (visitor.tokens())
                        button.danger { "Cancel the run" }
                    }
                    (curl(visitor.visit.base_url, "DELETE", &run.api(), None))
                }
            }
        }
    }
}

fn button(run: &Run, action: &str, words: &str, visitor: &Visitor<'_>) -> Markup {
    html! {
        form method="post" action={ (run.path()) "/actions" } {
            (visitor.tokens())
            // A run that goes on changes all the time, and must be paused anyway.
            @if action != "pause" { (version_field(run.version)) }
            button name="action" value=(action) { (words) }
        }
    }
}

/// Why the run does not go on.
fn state(run: &Run) -> Markup {
    let note = match (run.status.as_str(), run.waiting_on.as_deref()) {
        (_, Some("authority")) => {
            "The owner of the workflow, or the one who started the run, lacks a right that the next step needs. The run continues when they have it. Somebody who has it can also take over the workflow."
        }
        (_, Some("concurrency")) => "The run starts when other runs with its concurrency key have ended.",
        ("paused", _) => "The run is paused. Resume it to continue with the next step.",
        ("cancelled", _) => "The run was cancelled. Retry starts a new run with the same inputs.",
        ("timed_out", _) => "The run took longer than its workflow allows. Retry starts a new run with the same inputs.",
        _ => "",
    };
    html! {
        @if let Some(error) = &run.error {
            div.alert {
                strong { "The run failed" @if let Some(step) = &error.step { " in the step " code { (step) } } }
                (steps::failure(error))
                @if run.has_ended() { p { "Retry starts a new run with the same inputs." } }
            }
        } @else if !note.is_empty() {
            p.note { (note) }
        }
    }
}

fn details(run: &Run, subject: Option<Markup>, visitor: &Visitor<'_>) -> Markup {
    let clock = visitor.clock;
    let time = |text: Option<&str>| text.map(|text| clock.absolute(text));
    let alike = run.subject_id.as_ref().map(|id| Query::default().with("subject_id", id).at(PATH));
    let workflow = record_link(&run.workflow.id, Some(&run.workflow.name), visitor);
    facts(&[
        ("Workflow", Some(html! { (workflow) ", version " (run.workflow.version) })),
        ("Started by", Some(run.trigger_words(visitor))),
        (
            "About",
            subject.map(|subject| html! { (subject) @if let Some(alike) = &alike { " " a href=(alike) { "All its runs" } } }),
        ),
        ("Retry of", run.retry_of.as_deref().map(|id| html! { a href=(path(id)) { "an earlier run" } })),
        ("Created", Some(clock.absolute(&run.created_at))),
        ("First step", time(run.started_at.as_deref())),
        ("Ended", time(run.ended_at.as_deref())),
        ("Took", run.took(visitor).map(|took| html! { (took) @if !run.has_ended() { " so far" } })),
        ("Time limit", (!run.has_ended()).then(|| clock.absolute(&run.timeout_at))),
        ("Key", run.concurrency_key.as_deref().map(|key| html! { code { (key) } })),
        ("ID", Some(html! { code { (run.id) } })),
    ])
}
