//! The page of a workflow: its graph and its text, its last runs, and the next times of its schedules.

use http::Method;
use maud::{Markup, html};
use serde_json::json;

use tenantd_base::access::Scope;

use super::{
    API, PATH,
    definition::written,
    graph::graph,
    outline::outline,
    record::{Workflow, text, trigger_words, workflow},
    runs::{self, DAYS, Success},
    schedule::next_times,
};
use crate::{
    components::{card, code_block, curl, facts, page_head},
    desk::{
        Content, Reply,
        organizations::{is_correctable, trail, version_field},
        runs::{path as run_path, status_badge},
    },
    form::{Fields, Shown},
    query::{Query, segment},
    refusal::Refusal,
    visitor::Visitor,
};

/// How many of the next times of a schedule are shown.
const NEXT_TIMES: usize = 5;

pub(super) async fn show(visitor: Visitor<'_>) -> Result<Reply, Refusal> {
    page(&visitor, None).await
}

/// Enables or disables the workflow.
pub(super) async fn change_enabled(visitor: Visitor<'_>) -> Result<Reply, Refusal> {
    let is_enabled = visitor.fields().get("enabled") == "true";
    let target = format!("{API}/{}", segment(visitor.part("id")));
    let outcome = visitor.act(Method::PATCH, target, Some(json!({"enabled": is_enabled}))).await;
    follow(&visitor, outcome.map(|_| ())).await
}

/// Makes the reader the owner of the workflow.
pub(super) async fn take_over(visitor: Visitor<'_>) -> Result<Reply, Refusal> {
    let body = json!({"action": "take_over", "workflow_id": visitor.part("id")});
    let outcome = visitor.act(Method::POST, API, Some(body)).await;
    follow(&visitor, outcome.map(|_| ())).await
}

async fn follow(visitor: &Visitor<'_>, outcome: Result<(), Refusal>) -> Result<Reply, Refusal> {
    match outcome {
        Ok(()) => Ok(Reply::SeeOther(format!("{PATH}/{}", segment(visitor.part("id"))))),
        Err(refusal) if is_correctable(&refusal) => page(visitor, Some(&refusal)).await,
        Err(refusal) => Err(refusal),
    }
}

async fn page(visitor: &Visitor<'_>, refusal: Option<&Refusal>) -> Result<Reply, Refusal> {
    let newest = workflow(visitor).await?;
    let success = runs::success(visitor, &newest).await?;
    let last_runs = runs::newest(visitor, &newest).await?;
    let wanted = visitor.query();
    let wanted = Some(wanted.first("version")).filter(|version| !version.is_empty() && *version != newest.version.to_string());
    let earlier: Option<Workflow> = match wanted {
        Some(version) => Some(visitor.read(Query::default().with("version", version).at(&newest.api())).await?),
        None => None,
    };
    let shown = earlier.as_ref().unwrap_or(&newest);
    let body = html! {
        (trail(&[(PATH, "Workflows")]))
        (head(&newest, visitor))
        (Shown { fields: &Fields::default(), refusal }.summary())
        @if let Some(earlier) = &earlier {
            p.note { "This is version " (earlier.version) ". " a href=(newest.path()) { "Show the newest version" } }
        }
        div.split {
            div {
                (definition(shown))
                (last_runs)
            }
            div {
                (details(&newest, shown, success, visitor))
                (next_runs(&newest, visitor))
                (owner(&newest, visitor))
            }
        }
    };
    let content = Content::new(newest.name.clone(), body).live("workflow.*");
    Ok(Reply::Page(match refusal {
        Some(refusal) => content.refused(refusal),
        None => content,
    }))
}

fn head(workflow: &Workflow, visitor: &Visitor<'_>) -> Markup {
    let is_active = workflow.archived_at.is_none();
    let may_write = is_active && visitor.may(Scope::WorkflowsWrite);
    page_head(
        &html! { (workflow.name) },
        &html! { (workflow.state()) " " code { (workflow.key) } @if let Some(description) = &workflow.description { " " (description) } },
        &html! {
            (curl(visitor.visit.base_url, "GET", &workflow.api(), None))
            @if may_write {
                (enabled_form(workflow, visitor))
                a.button href={ (workflow.path()) "/edit" } { "Edit" }
                a.button href={ (workflow.path()) "/delete" } { "Delete" }
            }
            @if is_active && visitor.may(Scope::WorkflowsRun) {
                a.button.primary href={ (workflow.path()) "/run" } { @if workflow.can_start() { "Run" } @else { "Dry run" } }
            }
        },
    )
}

fn enabled_form(workflow: &Workflow, visitor: &Visitor<'_>) -> Markup {
    html! {
        form method="post" action={ (workflow.path()) "/enabled" } {
            (visitor.tokens())
            (version_field(workflow.version))
            input type="hidden" name="enabled" value=(if workflow.enabled { "false" } else { "true" });
            button { @if workflow.enabled { "Disable" } @else { "Enable" } }
        }
    }
}

fn definition(workflow: &Workflow) -> Markup {
    let whole = workflow.whole_definition();
    html! {
        (card("Graph", &html! { (graph(&workflow.name, &whole)) (outline(&whole)) }))
        (card("Definition", &code_block("json", &written(&whole))))
    }
}

fn details(newest: &Workflow, shown: &Workflow, success: Success, visitor: &Visitor<'_>) -> Markup {
    let body = facts(&[
        (
            "Last run",
            newest.last_run.as_ref().map(|run| {
                html! {
                    (status_badge(&run.status)) " " a href=(run_path(&run.id)) { (visitor.clock.relative(&run.created_at)) }
                }
            }),
        ),
        ("Succeeded", success.bar().map(|bar| html! { (bar) br; small { "runs that ended in the last " (DAYS) " days" } })),
        ("Time limit", newest.timeout().map(|limit| html! { (limit) })),
        ("Version", Some(versions(newest, shown))),
        ("Changed", Some(visitor.clock.relative(&newest.updated_at))),
        ("Archived", newest.archived_at.as_deref().map(|at| visitor.clock.absolute(at))),
        ("Created", Some(html! { (visitor.clock.absolute(&newest.created_at)) " by " (newest.created_by.name) })),
        ("ID", Some(html! { code { (newest.id) } })),
    ]);
    card("Details", &body)
}

/// The version that is shown, and the way to those beside it.
fn versions(newest: &Workflow, shown: &Workflow) -> Markup {
    let path = |version: u64| format!("{}?version={version}", newest.path());
    html! {
        (shown.version) " of " (newest.version)
        @if shown.version > 1 { ", " a href=(path(shown.version - 1)) { "previous" } }
        @if shown.version < newest.version { ", " a href=(path(shown.version + 1)) { "next" } }
    }
}

fn next_runs(workflow: &Workflow, visitor: &Visitor<'_>) -> Markup {
    let schedules: Vec<_> = workflow.triggers().iter().filter(|trigger| text(trigger, "type") == "schedule").collect();
    if schedules.is_empty() {
        return html! {};
    }
    let is_active = workflow.enabled && workflow.archived_at.is_none();
    let mut times: Vec<_> = schedules
        .iter()
        .flat_map(|schedule| next_times(schedule, visitor.clock.now, NEXT_TIMES))
        .map(|time| time.to_string())
        .collect();
    times.sort();
    times.dedup();
    let body = html! {
        @for schedule in &schedules { p { code { (trigger_words(schedule)) } } }
        @if is_active {
            ol.lines { @for time in times.iter().take(NEXT_TIMES) { li { (visitor.clock.absolute(time)) } } }
            p.muted { "In your time zone, " (visitor.clock.zone_name()) ". " a href="/workflows/calendar" { "Calendar" } }
        } @else {
            p.muted { "The workflow is not enabled, so no run is planned." }
        }
    };
    card("Next runs", &body)
}

/// Whose rights count, and the way to change that.
fn owner(workflow: &Workflow, visitor: &Visitor<'_>) -> Markup {
    if workflow.archived_at.is_some() || !visitor.may(Scope::WorkflowsWrite) {
        return html! {};
    }
    let body = json!({"action": "take_over", "workflow_id": workflow.id});
    card(
        "Rights",
        &html! {
            p { "A workflow acts with the rights of the author of its newest version. If the author loses a right that a step needs, its runs wait." }
            form method="post" action={ (workflow.path()) "/owner" } {
                (visitor.tokens())
                div.actions {
                    button { "Take over" }
                    (curl(visitor.visit.base_url, "POST", API, Some(&body)))
                }
            }
            p.hint { "Makes you the author of a new, identical version." }
        },
    )
}
