//! The delivery log of an endpoint, filtered by state, kind of event and time.

use maud::{Markup, html};

use super::{
    attempt::result,
    delivery::{Delivery, STATUSES},
    parts::{chips, instant, local},
    record::{Endpoint, endpoint},
};
use crate::{
    components::{curl, empty, page_head},
    desk::{
        Content, Reply,
        devices::{chosen, select},
        organizations::{choices, counted, or_none, pages},
        records::List,
    },
    query::Query,
    refusal::Refusal,
    visitor::Visitor,
};

const VIEWS: [(&str, &str); 5] = [
    ("All", ""),
    ("Failed", "status=exhausted,aborted,expired"),
    ("Waiting", "status=pending,retrying"),
    ("Delivered", "status=delivered"),
    ("Skipped", "status=skipped"),
];

pub(super) async fn show(visitor: Visitor<'_>) -> Result<Reply, Refusal> {
    let endpoint = endpoint(&visitor).await?;
    let (query, path, api) = (visitor.query(), format!("{}/deliveries", endpoint.path()), format!("{}/deliveries", endpoint.api()));
    let target = asked(&query, &visitor).or("limit", "50").at(&api);
    let log: List<Delivery> = visitor.read(&target).await?;
    let head = page_head(
        &html! { "Deliveries to " (endpoint.name) },
        &html! { (endpoint.state_badge()) " " (counted(endpoint.health.pending, "delivery waits", "deliveries wait")) },
        &html! {
            a.button href=(query.at(&path)) { "Reload" }
            (curl(visitor.visit.base_url, "GET", &target, None))
        },
    );
    let view = query.clone().without("cursor").without("limit");
    let body = html! {
        (endpoint.trail())
        (head)
        (chips("States", &path, &view, &VIEWS))
        (filter(&query, &path, &endpoint, &visitor))
        @if log.data.is_empty() {
            (empty(nothing(&view, log.page.next_cursor.is_some())))
        } @else {
            (table(&endpoint, &log.data, &visitor))
        }
        (pages(&query, &path, log.data.len(), &log.page))
    };
    Ok(Reply::Page(Content::new(format!("Deliveries to {}", endpoint.name), body)))
}

/// The query as the API takes it: times have a zone.
fn asked(query: &Query, visitor: &Visitor<'_>) -> Query {
    ["since", "until"].into_iter().fold(query.clone(), |query, name| match query.first(name) {
        "" => query,
        text => {
            let at = instant(text, visitor.clock);
            query.with(name, &at)
        }
    })
}

fn nothing(view: &Query, has_more: bool) -> &'static str {
    match (*view == Query::default(), has_more) {
        (_, true) => "No delivery of this page matches. The next page continues with older events.",
        (true, false) => "No delivery yet. Send a test, or wait for the next event.",
        (false, false) => "No delivery matches. Remove a filter.",
    }
}

fn filter(query: &Query, path: &str, endpoint: &Endpoint, visitor: &Visitor<'_>) -> Markup {
    let kept = query.pairs().filter(|(name, _)| !matches!(*name, "status" | "type" | "since" | "until" | "cursor"));
    let time = |name: &str| local(query.first(name), visitor.clock);
    html! {
        form.filter method="get" action=(path) role="search" aria-label="Filter deliveries" data-filter {
            label {
                "Event"
                input type="text" name="type" value=(chosen(query, "type")) maxlength="400" placeholder="ticket.*" list="subscribed";
            }
            datalist #subscribed { @for event in &endpoint.events { option value=(event) {} } }
            (select(query, "status", "State", or_none("Any", choices(&STATUSES))))
            label { "From" input type="datetime-local" name="since" value=(time("since")); }
            label { "Until" input type="datetime-local" name="until" value=(time("until")); }
            @for (name, value) in kept { input type="hidden" name=(name) value=(value); }
            button { "Apply" }
        }
    }
}

pub(super) fn table(endpoint: &Endpoint, log: &[Delivery], visitor: &Visitor<'_>) -> Markup {
    html! {
        div.scroll tabindex="0" role="group" aria-label="Deliveries" {
            table.list data-rows {
                thead { tr { @for head in ["Event", "State", "Last response", "Attempts", "Happened", "Next attempt"] { th scope="col" { (head) } } } }
                tbody {
                    @for delivery in log {
                        tr {
                            td.main {
                                a href={ (endpoint.path()) "/deliveries/" (delivery.id) } data-record { (delivery.kind) }
                                " " span.muted { "number " (delivery.seq) }
                            }
                            td { (delivery.badge()) }
                            td { (result(delivery.last_status, delivery.last_error.as_deref())) }
                            td { (delivery.attempt_count) }
                            td.time { (visitor.clock.relative(&delivery.created_at)) }
                            td.time { (delivery.next(endpoint, visitor)) }
                        }
                    }
                }
            }
        }
    }
}
