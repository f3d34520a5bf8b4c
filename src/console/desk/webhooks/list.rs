//! The list of endpoints, with how well each of them works.

use maud::{Markup, html};

use tenantd_base::access::Scope;

use super::{
    API, PATH,
    parts::chips,
    record::Endpoint,
    stats::{Stats, of_a_day},
};
use crate::{
    components::{curl, empty, page_head},
    desk::{
        Content, Reply,
        organizations::{counted, optional, pages},
        records::List,
    },
    query::Query,
    refusal::Refusal,
    visitor::Visitor,
};

const VIEWS: [(&str, &str); 4] =
    [("All", ""), ("Active", "status=active"), ("Paused", "status=paused"), ("Disabled", "status=disabled")];

pub(super) async fn show(visitor: Visitor<'_>) -> Result<Reply, Refusal> {
    let query = visitor.query();
    // Each row needs the metrics of its endpoint.
    let target = query.clone().or("limit", "25").with("include_total", "true").at(API);
    let endpoints: List<Endpoint> = visitor.read(&target).await?;
    let mut rows = Vec::new();
    for endpoint in &endpoints.data {
        rows.push((endpoint, of_a_day(&visitor, endpoint).await?));
    }
    let may_write = visitor.may(Scope::WebhooksWrite);
    let total = endpoints.page.total.unwrap_or_default();
    let head = page_head(
        &html! { "Webhooks" },
        &html! { (counted(total, "endpoint", "endpoints")) },
        &html! {
            a.button href={ (PATH) "/events" } { "Events" }
            (curl(visitor.visit.base_url, "GET", &target, None))
            @if may_write { a.button.primary href={ (PATH) "/new" } { "New endpoint" } }
        },
    );
    let view = query.clone().without("cursor").without("limit");
    let body = html! {
        (head)
        (chips("States", PATH, &view, &VIEWS))
        @if rows.is_empty() { (empty(nothing(&view, may_write))) } @else { (table(&rows, &visitor)) }
        (pages(&query, PATH, rows.len(), &endpoints.page))
    };
    Ok(Reply::Page(Content::new("Webhooks", body).live("webhook.*")))
}

fn nothing(view: &Query, may_write: bool) -> &'static str {
    match (*view == Query::default(), may_write) {
        (true, true) => "There are no endpoints yet. Create one to receive events as HTTP requests when they happen.",
        (true, false) => "There are no endpoints yet. Ask an administrator to create one.",
        (false, _) => "No endpoint is in this state.",
    }
}

fn table(rows: &[(&Endpoint, Option<Stats>)], visitor: &Visitor<'_>) -> Markup {
    let heads = ["Endpoint", "State", "Health", "Success, 24 hours", "Last delivery", "Waiting", "Events"];
    html! {
        div.scroll tabindex="0" role="group" aria-label="Endpoints" {
            table.list data-rows {
                thead { tr { @for head in heads { th scope="col" { (head) } } } }
                tbody {
                    @for (endpoint, stats) in rows {
                        tr {
                            td.main {
                                a href=(endpoint.path()) data-record { (endpoint.name) }
                                p.muted { (endpoint.url) }
                            }
                            td { (endpoint.state_badge()) }
                            td { (endpoint.health.badge()) }
                            td { @match stats { Some(stats) => (stats.total.success_bar()), None => (optional(None)) } }
                            td.time {
                                @match endpoint.health.last_attempt_at() {
                                    Some(at) => { (visitor.clock.relative(at)) }
                                    None => { (optional(None)) }
                                }
                            }
                            td { (endpoint.health.pending) }
                            td { (subscribed(&endpoint.events)) }
                        }
                    }
                }
            }
        }
    }
}

/// The first kinds of events, and how many more there are.
fn subscribed(events: &[String]) -> Markup {
    const MOST: usize = 2;
    html! {
        @for event in events.iter().take(MOST) { code { (event) } " " }
        @if let Some(more) = events.len().checked_sub(MOST).filter(|more| *more > 0) { span.muted { "and " (more) " more" } }
    }
}
