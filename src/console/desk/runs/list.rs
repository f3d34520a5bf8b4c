//! The list of runs, newest first.

use jiff::civil::Date;
use maud::{Markup, html};

use tenantd_base::clock::Timestamp;
use tenantd_http::problem::Code;

use super::{
    API, APPROVALS, CALENDAR, PATH, WORKFLOWS,
    record::{Run, record_link},
};
use crate::{
    components::{curl, empty, page_head},
    desk::{
        Content, Reply,
        organizations::{choices, named_choices, optional, or_none, pages, trail},
        records::{List, Named},
        views::Area,
    },
    form::options,
    moment::Clock,
    query::{Query, segment},
    refusal::Refusal,
    visitor::Visitor,
};

const STATUSES: [&str; 8] = ["queued", "running", "waiting", "paused", "succeeded", "failed", "cancelled", "timed_out"];

/// The API stores no views of runs, so there are only those that everyone has.
const VIEWS: Area = Area {
    name: "runs",
    path: PATH,
    common: &[
        ("All", ""),
        ("Unfinished", "status=queued&status=running&status=waiting&status=paused"),
        ("Waiting", "status=waiting"),
        ("Failed", "status=failed&status=timed_out"),
        ("Succeeded", "status=succeeded"),
    ],
};

pub(super) async fn show(visitor: Visitor<'_>) -> Result<Reply, Refusal> {
    let query = visitor.query();
    let target = request(&query, visitor.clock).at(API);
    let (runs, refusal) = match visitor.read::<List<Run>>(&target).await {
        Ok(runs) => (Some(runs), None),
        // A filter that the API does not know, such as a subject that does not exist.
        Err(refusal) if refusal.is(Code::ValidationFailed) => (None, Some(refusal)),
        Err(refusal) => return Err(refusal),
    };
    let workflows = workflows(&visitor, query.first("workflow_id")).await?;
    let head = page_head(
        &html! { "Runs" },
        &html! { "What workflows did, newest first" },
        &html! {
            a.button href=(APPROVALS) { "Approvals" }
            a.button href=(CALENDAR) { "Calendar" }
            (curl(visitor.visit.base_url, "GET", &target, None))
        },
    );
    let body = html! {
        (trail(&[WORKFLOWS]))
        (head)
        (VIEWS.chips(&query, None, &visitor, None))
        (filter(&query, &workflows, refusal.as_ref(), visitor.clock))
        @if let Some(runs) = &runs {
            @if runs.data.is_empty() { (empty(nothing(&query))) } @else { (table(&runs.data, &visitor)) }
            (pages(&query, PATH, runs.data.len(), &runs.page))
        }
    };
    let content = Content::new("Runs", body).live("workflow.run.*");
    Ok(Reply::Page(match refusal {
        Some(refusal) => content.refused(&refusal),
        None => content,
    }))
}

/// What the page asks of the API. A day means its start in the zone of the reader.
fn request(query: &Query, clock: &Clock) -> Query {
    let asked = query.clone().with("view", "runs").or("limit", "50");
    let day = Some(query.first("started_after")).filter(|text| text.len() == "2026-11-18".len());
    match day.and_then(|day| day.parse::<Date>().ok()?.to_zoned(clock.zone.clone()).ok()) {
        Some(start) => asked.with("started_after", &start.timestamp().to_string()),
        None => asked,
    }
}

/// The workflows that the filter offers. The one that is chosen may be archived.
async fn workflows(visitor: &Visitor<'_>, chosen: &str) -> Result<Vec<(String, String)>, Refusal> {
    let chosen: Option<Named> = match chosen {
        "" => None,
        id => visitor.read_if_allowed(format!("{API}/{}", segment(id))).await?,
    };
    named_choices(visitor, &format!("{API}?limit=200"), chosen.as_ref()).await
}

fn nothing(query: &Query) -> &'static str {
    if *query == Query::default() {
        "No workflow has run yet. Start one from its page, or enable one with a schedule or an event."
    } else {
        "No run matches. Remove a filter."
    }
}

/// The day of a filter, which may be an exact time if the URL comes from elsewhere.
fn day(text: &str, clock: &Clock) -> String {
    Timestamp::parse(text).map_or_else(|| text.to_owned(), |at| clock.day(at, "%Y-%m-%d"))
}

fn filter(query: &Query, workflows: &[(String, String)], refusal: Option<&Refusal>, clock: &Clock) -> Markup {
    let is_wrong = |name: &str| refusal.and_then(|refusal| refusal.about(name)).map(|_| "true");
    let kept = query.pairs().filter(|(name, _)| {
        !matches!(*name, "status" | "workflow_id" | "subject_id" | "started_after" | "cursor" | "view" | "include_total")
    });
    let (statuses, workflows) = (or_none("Any", choices(&STATUSES)), or_none("Any", workflows.to_vec()));
    html! {
        @if let Some(refusal) = refusal {
            div.alert role="alert" { strong { (refusal.title) } @for error in &refusal.errors { p { (error.message) } } @if refusal.errors.is_empty() { p { (refusal.detail) } } }
        }
        form.filter method="get" action=(PATH) role="search" aria-label="Filter runs" data-filter {
            label { "Workflow" select name="workflow_id" aria-invalid=[is_wrong("workflow_id")] { (options(&workflows, query.first("workflow_id"))) } }
            label { "Status" select name="status" { (options(&statuses, query.first("status"))) } }
            label { "About ticket or record ID" input name="subject_id" value=(query.first("subject_id")) maxlength="100" placeholder="T-1042" aria-invalid=[is_wrong("subject_id")]; }
            label { "Created since" input type="date" name="started_after" value=(day(query.first("started_after"), clock)) aria-invalid=[is_wrong("started_after")]; }
            @for (name, value) in kept { input type="hidden" name=(name) value=(value); }
            button { "Apply" }
        }
    }
}

fn table(runs: &[Run], visitor: &Visitor<'_>) -> Markup {
    html! {
        div.scroll tabindex="0" role="group" aria-label="Runs" {
            table.list data-rows {
                thead { tr { @for head in ["Run", "Status", "Started by", "About", "Created", "Took"] { th scope="col" { (head) } } } }
                tbody { @for run in runs { (row(run, visitor)) } }
            }
        }
    }
}

fn row(run: &Run, visitor: &Visitor<'_>) -> Markup {
    html! {
        tr {
            td.main {
                a href=(run.path()) data-record { (run.workflow.name) }
                @if run.retry_of.is_some() { " " span.muted { "retry" } }
            }
            td { (run.badge()) @if let Some(error) = &run.error { " " code { (error.code) } } }
            td.name { (run.trigger_words(visitor)) }
            td { @match &run.subject_id { Some(id) => (record_link(id, None, visitor)), None => (optional(None)) } }
            td.time { (visitor.clock.relative(&run.created_at)) }
            td { (optional(run.took(visitor).as_deref())) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_day_is_its_start_in_the_zone_of_the_reader() {
        let now = Timestamp::parse("2026-11-18T12:00:00.000Z").unwrap();
        let clock = Clock { now, zone: tenantd_base::zones::find("Europe/Berlin").unwrap() };
        let asked = request(&Query::parse("started_after=2026-11-18&status=failed"), &clock);
        assert_eq!((asked.first("started_after"), asked.first("view")), ("2026-11-17T23:00:00Z", "runs"));
        let exact = request(&Query::parse("started_after=2026-11-17T23:30:00Z"), &clock);
        assert_eq!(exact.first("started_after"), "2026-11-17T23:30:00Z");
        assert_eq!(day("2026-11-17T23:30:00Z", &clock), "2026-11-18");
    }
}
