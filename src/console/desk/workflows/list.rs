//! The list of workflows.

use maud::{Markup, html};

use tenantd_base::access::Scope;

use super::{
    API, PATH, RUNS, STARTERS,
    record::{Workflow, trigger_words},
    runs::{DAYS, Run, Success, since},
};
use crate::{
    components::{curl, empty, page_head},
    desk::{
        Content, Reply,
        organizations::{counted, optional, pages},
        records::List,
        runs::{path as run_path, status_badge},
    },
    form::options,
    query::Query,
    refusal::Refusal,
    visitor::Visitor,
};

/// The share of success counts at most so many runs of all workflows.
const COUNTED_RUNS: &str = "200";

pub(super) async fn list(visitor: Visitor<'_>) -> Result<Reply, Refusal> {
    // These parameters of the operation select other records.
    let query = ["view", "id", "run_id"].into_iter().fold(visitor.query(), Query::without);
    let target = query.clone().or("limit", "50").with("include_total", "true").at(API);
    let workflows: List<Workflow> = visitor.read(&target).await?;
    let recent = Query::default().with("view", "runs").with("started_after", &since(&visitor)).with("limit", COUNTED_RUNS);
    let runs: List<Run> = visitor.read(recent.at(API)).await?;
    let may_write = visitor.may(Scope::WorkflowsWrite);
    let head = page_head(
        &html! { "Workflows" },
        &html! { (counted(workflows.page.total.unwrap_or_default(), "workflow", "workflows")) },
        &html! {
            (curl(visitor.visit.base_url, "GET", &target, None))
            @if may_write {
                a.button href=(STARTERS) { "Install a starter" }
                a.button.primary href="/workflows/new" { "New workflow" }
            }
        },
    );
    let body = html! {
        (head)
        (beside())
        (filter(&query))
        @if workflows.data.is_empty() {
            (empty(nothing(&query, may_write)))
        } @else {
            (table(&workflows.data, &runs, &visitor))
        }
        (pages(&query, PATH, workflows.data.len(), &workflows.page))
    };
    Ok(Reply::Page(Content::new("Workflows", body).live("workflow.*")))
}

/// The pages of runs.
fn beside() -> Markup {
    let links = [(RUNS, "Runs"), ("/workflows/approvals", "Approvals"), ("/workflows/calendar", "Calendar")];
    html! { nav.chips aria-label="Runs of workflows" { @for (path, title) in links { a.chip href=(path) { (title) } } } }
}

fn nothing(query: &Query, may_write: bool) -> &'static str {
    match (*query == Query::default(), may_write) {
        (true, true) => "There are no workflows yet. Install a starter, or write your own.",
        (true, false) => "There are no workflows yet.",
        (false, _) => "No workflow matches. Remove a filter.",
    }
}

fn filter(query: &Query) -> Markup {
    let choices = |choices: [(&str, &str); 2]| choices.map(|(value, words)| (value.to_owned(), words.to_owned()));
    let states = [(String::new(), "All".to_owned())].into_iter().chain(choices([("true", "Enabled"), ("false", "Disabled")]));
    let states: Vec<(String, String)> = states.collect();
    let archived = choices([("", "Not archived"), ("true", "Archived")]);
    let kept = query.pairs().filter(|(name, _)| !matches!(*name, "enabled" | "archived" | "cursor"));
    html! {
        form.filter method="get" action=(PATH) role="search" aria-label="Filter workflows" data-filter {
            label { "State" select name="enabled" { (options(&states, query.first("enabled"))) } }
            label { "Show" select name="archived" { (options(&archived, query.first("archived"))) } }
            @for (name, value) in kept { input type="hidden" name=(name) value=(value); }
            button { "Apply" }
        }
    }
}

fn table(workflows: &[Workflow], runs: &List<Run>, visitor: &Visitor<'_>) -> Markup {
    let has_more = runs.page.next_cursor.is_some();
    html! {
        div.scroll tabindex="0" role="group" aria-label="Workflows" {
            table.list data-rows {
                thead { tr { @for head in ["Name", "State", "Starts", "Last run", "Succeeded"] { th scope="col" { (head) } } } }
                tbody {
                    @for workflow in workflows {
                        tr {
                            td.main { a href=(workflow.path()) data-record { (workflow.name) } " " code { (workflow.key) } }
                            td { (workflow.state()) }
                            td.name { (starts(workflow)) }
                            td { (last_run(workflow, visitor)) }
                            td { @match Success::among(&runs.data, workflow).bar() { Some(bar) => { (bar) } None => { (optional(None)) } } }
                        }
                    }
                }
            }
        }
        p.muted {
            "Succeeded: of the runs that ended in the last " (DAYS) " days"
            @if has_more { ", among the newest " (runs.data.len()) " runs of all workflows" } "."
        }
    }
}

fn starts(workflow: &Workflow) -> String {
    let words: Vec<String> = workflow.triggers().iter().map(trigger_words).collect();
    if words.is_empty() { "By hand".to_owned() } else { words.join(", ") }
}

fn last_run(workflow: &Workflow, visitor: &Visitor<'_>) -> Markup {
    html! {
        @match &workflow.last_run {
            Some(run) => { (status_badge(&run.status)) " " a href=(run_path(&run.id)) { (visitor.clock.relative(&run.created_at)) } }
            None => { (optional(None)) }
        }
    }
}
