//! The runs that wait for an approval: those that the reader may decide, each with its form, and the others.

use maud::{Markup, html};

use super::{
    API, APPROVALS, PATH, WORKFLOWS,
    decision::{Approval, Decider, Standing},
    definition,
    record::{Run, record_link, short},
    values::members,
};
use crate::{
    components::{card, curl, empty, page_head},
    desk::{
        Content, Reply,
        organizations::{counted, pages, trail},
        records::List,
    },
    refusal::Refusal,
    visitor::Visitor,
};

/// The runs of one page that are read with their steps.
const MOST_RUNS: usize = 20;

/// What the page shows.
#[derive(Default)]
struct Found {
    /// Approvals with a form.
    decidable: Vec<Markup>,
    /// Approvals that wait for others.
    others: Vec<Markup>,
}

pub(super) async fn show(visitor: Visitor<'_>) -> Result<Reply, Refusal> {
    let query = visitor.query();
    let target = query.clone().with("view", "runs").with("status", "waiting").or("limit", "200").at(API);
    let list: List<Run> = visitor.read(&target).await?;
    // The API has no filter for what a run waits for.
    let waiting: Vec<&Run> = list.data.iter().filter(|run| run.waiting_on.as_deref() == Some("approval")).collect();
    let found = found(&visitor, &waiting).await?;
    let left = waiting.len().saturating_sub(MOST_RUNS);
    let body = html! {
        (trail(&[WORKFLOWS, (PATH, "Runs")]))
        (page_head(
            &html! { "Approvals" },
            &html! { (counted(waiting.len() as u64, "run waits", "runs wait")) " for an approval" },
            &curl(visitor.visit.base_url, "GET", &target, None),
        ))
        @if waiting.is_empty() {
            @if list.page.next_cursor.is_some() {
                (empty("These runs wait for something else. Look at the next page."))
            } @else {
                (empty("No run waits for an approval. A workflow asks for one with a step of the type approval."))
            }
        }
        @for approval in &found.decidable { (approval) }
        @if !found.others.is_empty() {
            (card("Waiting for other people", &html! { ul.lines { @for approval in &found.others { li { (approval) } } } }))
        }
        @if left > 0 { (more(&waiting)) }
        (pages(&query, APPROVALS, waiting.len(), &list.page))
    };
    Ok(Reply::Page(Content::new("Approvals", body).live("workflow.run.*")))
}

/// The approvals of the first runs. A run may have several.
async fn found(visitor: &Visitor<'_>, waiting: &[&Run]) -> Result<Found, Refusal> {
    let decider = Decider::of(visitor);
    let mut found = Found::default();
    for listed in waiting.iter().take(MOST_RUNS) {
        // Somebody may have decided in the meantime.
        let Some(run) = visitor.read_if_allowed::<Run>(listed.api()).await? else { continue };
        let definition = definition::definition(visitor, &run).await?;
        for step in run.approvals() {
            let approval = Approval::new(&run, step, &definition, &decider);
            match &approval.standing {
                Standing::Nothing(reason) => found.others.push(other(&approval, reason, visitor)),
                Standing::Decide | Standing::Reject => found.decidable.push(decidable(&approval, visitor)),
            }
        }
    }
    Ok(found)
}

fn decidable(approval: &Approval<'_>, visitor: &Visitor<'_>) -> Markup {
    let run = approval.run;
    card(
        // Several runs of a workflow can wait for the same step.
        &format!("{}, run {}, step {}", run.workflow.name, short(&run.id), approval.step.path),
        &html! {
            p {
                a href=(run.path()) { "Open the run" }
                " · asked by " (run.started_by.name) " " (visitor.clock.relative(&run.created_at))
                @if let Some(id) = &run.subject_id { " about " (record_link(id, None, visitor)) }
            }
            (approval.show(Some("approvals"), visitor))
            h3 { "Inputs" }
            (members("Inputs", run.inputs.as_ref()))
        },
    )
}

fn other(approval: &Approval<'_>, reason: &str, visitor: &Visitor<'_>) -> Markup {
    let run = approval.run;
    html! {
        a href=(run.path()) { (run.workflow.name) } ": " (approval.message())
        p.muted { "Asked by " (run.started_by.name) " " (visitor.clock.relative(&run.created_at)) ". " (reason) }
    }
}

/// Runs that the page only names.
fn more(waiting: &[&Run]) -> Markup {
    card(
        "More runs that wait for an approval",
        &html! { ul.lines { @for run in waiting.iter().skip(MOST_RUNS) { li { a href=(run.path()) { (run.workflow.name) } " " span.muted { "asked by " (run.started_by.name) } } } } },
    )
}
