//! The queue: tickets with filters, and changes of several at once.

use http::Method;
use maud::{Markup, html};
use serde_json::{Map, Value, json};

use tenantd_base::access::Scope;
use tenantd_http::problem::Code;

use super::{TicketRow, people, priority_badge, service_level, status_badge};
use crate::{
    components::{curl, empty, page_head, pager, words},
    desk::{Content, Reply, records::List, views::Area},
    form::{Fields, options},
    query::Query,
    refusal::Refusal,
    visitor::Visitor,
};

const API: &str = "/api/psa/tickets";
/// About how many tickets the queue looks at to count its filter. The stored counters answer single filters exactly.
pub(crate) const COUNTED: &str = "1000";
const PATH: &str = "/tickets";

const VIEWS: Area = Area {
    name: "tickets",
    path: PATH,
    common: &[
        ("Open", OPEN),
        ("Mine", "status_category=open&status_category=waiting&assignee_id=me"),
        ("Unassigned", "status_category=open&assignee_id=none"),
        ("SLA at risk", "status_category=open&sla_state=at_risk&sla_state=breached"),
        ("Waiting", "status_category=waiting"),
        ("Done", "status_category=done"),
    ],
};
/// What the queue shows unless the reader asks for something.
const OPEN: &str = "status_category=open";
/// The statuses by category.
const STATUSES: [(&str, &[&str]); 3] = [
    ("open", &["new", "open", "in_progress"]),
    ("waiting", &["waiting_customer", "waiting_vendor", "scheduled", "on_hold"]),
    ("done", &["resolved", "closed", "cancelled", "merged"]),
];
pub(crate) const PRIORITIES: [&str; 4] = ["critical", "high", "medium", "low"];
const SORTS: [(&str, &str); 5] = [
    ("-updated_at", "Last changed"),
    ("priority", "Priority"),
    ("due_at", "Due date"),
    ("-created_at", "Newest"),
    ("created_at", "Oldest"),
];

pub(crate) async fn queue(visitor: Visitor<'_>) -> Result<Reply, Refusal> {
    show(visitor, None).await
}

/// Changes the chosen tickets, and shows the queue again.
pub(crate) async fn change_several(visitor: Visitor<'_>) -> Result<Reply, Refusal> {
    let fields = visitor.fields();
    let mut patch: Map<String, Value> = fields.filled(&["status", "priority"]);
    match fields.get("assignee_id") {
        "" => {}
        "none" => drop(patch.insert("assignee_id".to_owned(), Value::Null)),
        assignee => drop(patch.insert("assignee_id".to_owned(), assignee.into())),
    }
    let body = json!({"ids": fields.all("ids"), "patch": patch});
    let outcome = visitor.act(Method::PATCH, API, Some(body)).await;
    follow(visitor, outcome.map(|_| visitor.query().at(PATH))).await
}

pub(crate) async fn save_view(visitor: Visitor<'_>) -> Result<Reply, Refusal> {
    follow(visitor, VIEWS.save(&visitor).await).await
}

pub(crate) async fn delete_view(visitor: Visitor<'_>) -> Result<Reply, Refusal> {
    follow(visitor, VIEWS.delete(&visitor).await).await
}

/// Leads on to a path, or shows the queue with what was refused.
async fn follow(visitor: Visitor<'_>, outcome: Result<String, Refusal>) -> Result<Reply, Refusal> {
    match outcome {
        Ok(path) => Ok(Reply::SeeOther(path)),
        Err(refusal) if refusal.status.is_client_error() => show(visitor, Some(&refusal)).await,
        Err(refusal) => Err(refusal),
    }
}

async fn show(visitor: Visitor<'_>, refusal: Option<&Refusal>) -> Result<Reply, Refusal> {
    let asked = visitor.query();
    let query = if asked == Query::default() { Query::parse(OPEN) } else { asked.clone() };
    let target = query.clone().or("limit", "50").with("count_up_to", COUNTED).at(API);
    let (tickets, wrong) = match visitor.read::<List<TicketRow>>(&target).await {
        Ok(tickets) => (tickets, None),
        Err(refusal) if refusal.is(Code::ValidationFailed) => (List::default(), Some(refusal)),
        Err(refusal) => return Err(refusal),
    };
    let refusal = refusal.or(wrong.as_ref());
    let views = VIEWS.saved(&visitor).await?;
    let may_write = visitor.may(Scope::TicketsWrite);
    let people = if may_write { people::assignees(&visitor).await? } else { people::Choices::new() };
    let head = page_head(
        &html! { "Tickets" },
        &html! { (tickets.count().of("ticket", "tickets")) },
        &html! {
            a.button href=(query.clone().without("cursor").without("limit").with("format", "csv").at(API)) download { "CSV" }
            (curl(visitor.visit.base_url, "GET", &visitor.shared(&target), None))
            @if may_write { a.button.primary href="/tickets/new" { "New ticket" } }
        },
    );
    let body = html! {
        (head)
        (VIEWS.chips(&query, views.as_deref(), &visitor, refusal))
        (filter(&query))
        @if let Some(refusal) = refusal { (alert(refusal, &tickets.data, &visitor.fields())) }
        @if tickets.data.is_empty() {
            (empty(nothing(tickets.page.next_cursor.is_some())))
        } @else {
            form method="post" action=(query.at(PATH)) {
                (visitor.tokens())
                (table(&tickets.data, may_write, &visitor))
                @if may_write { (bulk(&people, &visitor.fields())) }
            }
        }
        (pager(tickets.data.len(), tickets.exact_total(), next(&query, tickets.page.next_cursor.as_deref()).as_deref(), first(&query).as_deref()))
    };
    let content = Content::new("Tickets", body).live("ticket.*");
    Ok(Reply::Page(match refusal {
        Some(refusal) => content.refused(refusal),
        None => content,
    }))
}

/// What a page without tickets says. With several filters, the API looks at a limited number of tickets for each page.
fn nothing(has_more: bool) -> &'static str {
    if has_more {
        "No match among the tickets that were looked at so far. Look further, or remove a filter."
    } else {
        "No ticket matches. Remove a filter, or create a ticket."
    }
}

/// What was refused, with the tickets that it is about.
fn alert(refusal: &Refusal, tickets: &[TicketRow], fields: &Fields) -> Markup {
    let ids = fields.all("ids");
    let about = |pointer: Option<&str>| {
        let place: usize = pointer?.strip_prefix("/ids/")?.parse().ok()?;
        let id = ids.get(place)?;
        tickets.iter().find(|ticket| ticket.id == **id).map(|ticket| ticket.reference.as_str())
    };
    html! {
        div.alert role="alert" {
            strong { (refusal.title) }
            @if refusal.errors.is_empty() { p { (refusal.detail) } }
            @for error in &refusal.errors {
                p { @if let Some(reference) = about(error.pointer.as_deref()) { (reference) ": " } (error.message) }
            }
        }
    }
}

fn next(query: &Query, cursor: Option<&str>) -> Option<String> {
    cursor.map(|cursor| query.clone().with("cursor", cursor).at(PATH))
}

fn first(query: &Query) -> Option<String> {
    (!query.first("cursor").is_empty()).then(|| query.clone().without("cursor").at(PATH))
}

fn filter(query: &Query) -> Markup {
    let words_of = |values: &[&str]| values.iter().map(|value| ((*value).to_owned(), words(value))).collect::<Vec<_>>();
    let any = |values: &[&str]| [vec![(String::new(), "Any".to_owned())], words_of(values)].concat();
    // A status of another category would match nothing.
    let is_offered = |category: &str| query.first("status_category").is_empty() || query.has("status_category", category);
    let statuses: Vec<&str> =
        STATUSES.iter().filter(|(category, _)| is_offered(category)).flat_map(|(_, statuses)| statuses.iter().copied()).collect();
    let kept = query.pairs().filter(|(name, _)| !matches!(*name, "q" | "status" | "priority" | "sort" | "cursor"));
    let sorts: Vec<(String, String)> = SORTS.iter().map(|(value, name)| ((*value).to_owned(), (*name).to_owned())).collect();
    html! {
        form.filter method="get" action=(PATH) role="search" aria-label="Filter tickets" data-filter {
            label { "Words" input type="search" name="q" value=(query.first("q")) maxlength="200"; }
            label { "Status" select name="status" { (options(&any(&statuses), query.first("status"))) } }
            label { "Priority" select name="priority" { (options(&any(&PRIORITIES), query.first("priority"))) } }
            label { "Sort" select name="sort" { (options(&sorts, query.first("sort"))) } }
            @for (name, value) in kept { input type="hidden" name=(name) value=(value); }
            button { "Apply" }
        }
    }
}

fn table(tickets: &[TicketRow], may_write: bool, visitor: &Visitor<'_>) -> Markup {
    let fields = visitor.fields();
    let chosen = fields.all("ids");
    html! {
        div.scroll tabindex="0" role="group" aria-label="Tickets" {
            table.list data-rows {
                thead { tr {
                    @if may_write { th scope="col" { input type="checkbox" aria-label="Choose all tickets" data-all hidden; } }
                    @for head in ["Ticket", "Organization", "Assignee", "Status", "Priority", "Service level", "Changed"] { th scope="col" { (head) } }
                } }
                tbody {
                    @for ticket in tickets {
                        tr {
                            @if may_write { td { input type="checkbox" name="ids" value=(ticket.id) checked[chosen.contains(&ticket.id.as_str())] aria-label={ "Choose " (ticket.reference) }; } }
                            td.main { code { (ticket.reference) } " " a href={ "/tickets/" (ticket.reference) } data-record { (ticket.subject) } }
                            td.name { (ticket.organization.link("organizations")) }
                            td { @match &ticket.assignee { Some(assignee) => (assignee.name), None => span.muted { "–" } } }
                            td { (status_badge(&ticket.status)) }
                            td { (priority_badge(&ticket.priority)) }
                            td { (service_level(&ticket.sla, &ticket.created_at, visitor.clock)) }
                            td.time { (visitor.clock.relative(&ticket.updated_at)) }
                        }
                    }
                }
            }
        }
    }
}

/// What can be done with the chosen tickets.
fn bulk(people: &[(String, String)], fields: &Fields) -> Markup {
    let statuses: Vec<&str> = STATUSES.iter().take(2).flat_map(|(_, statuses)| statuses.iter().copied()).collect();
    let keep = |values: Vec<(String, String)>| [vec![(String::new(), "Keep".to_owned())], values].concat();
    let words_of = |values: &[&str]| values.iter().map(|value| ((*value).to_owned(), words(value))).collect::<Vec<_>>();
    let mut assignees = vec![("none".to_owned(), "Nobody".to_owned())];
    assignees.extend_from_slice(people);
    html! {
        fieldset.bulk {
            legend { "Change the chosen tickets" }
            label { "Assignee" select name="assignee_id" { (options(&keep(assignees), fields.get("assignee_id"))) } }
            label { "Status" select name="status" { (options(&keep(words_of(&statuses)), fields.get("status"))) } }
            label { "Priority" select name="priority" { (options(&keep(words_of(&PRIORITIES)), fields.get("priority"))) } }
            button { "Change" }
        }
    }
}
