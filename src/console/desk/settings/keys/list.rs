//! The list of API keys.

use maud::{Markup, html};

use tenantd_base::access::Scope;

use super::{API, Key, PATH, SETTINGS};
use crate::{
    components::{Tone, badge, curl, empty, page_head},
    desk::{
        Content, Reply,
        devices::{pairs, select},
        organizations::{choices, counted, or_none, pages, trail},
        records::List,
        settings::{parts::author, scopes::summary},
    },
    query::Query,
    refusal::Refusal,
    visitor::Visitor,
};

const STATUSES: [&str; 5] = ["active", "expiring", "expired", "disabled", "revoked"];
const UNUSED: [(&str, &str); 4] =
    [("", "Whenever"), ("30", "Not for 30 days"), ("90", "Not for 90 days"), ("365", "Not for a year")];
const SORTS: [(&str, &str); 5] = [
    ("-created_at", "Newest"),
    ("name", "Name"),
    ("expires_at", "Expires first"),
    ("-last_used_at", "Last used"),
    ("last_used_at", "Longest not used"),
];
/// The parameters with a field in the form.
const FIELDS: [&str; 5] = ["q", "status", "scope", "unused_for_days", "sort"];

pub(crate) async fn list(visitor: Visitor<'_>) -> Result<Reply, Refusal> {
    let query = visitor.query();
    let sorted = query.clone().or("sort", "-created_at");
    let target = sorted.clone().or("limit", "50").with("include_total", "true").at(API);
    let keys: List<Key> = visitor.read(&target).await?;
    let may_write = visitor.may(Scope::ApiKeysWrite);
    let head = page_head(
        &html! { "API keys" },
        &html! { (counted(keys.page.total.unwrap_or_default(), "key", "keys")) },
        &html! {
            (curl(visitor.visit.base_url, "GET", &target, None))
            @if may_write { a.button.primary href={ (PATH) "/new" } { "New key" } }
        },
    );
    let body = html! {
        (trail(&[(SETTINGS, "Settings")]))
        (head)
        (filter(&sorted))
        (creator(&query, &keys.data))
        @if keys.data.is_empty() {
            (empty(nothing(&query, may_write)))
        } @else {
            (table(&keys.data, &visitor))
        }
        (pages(&query, PATH, keys.data.len(), &keys.page))
    };
    Ok(Reply::Page(Content::new("API keys", body).live("api_key.*")))
}

fn nothing(query: &Query, may_write: bool) -> &'static str {
    match (*query == Query::default(), may_write) {
        (true, true) => "There are no API keys yet. Create one for each program that uses the API.",
        (true, false) => "There are no API keys.",
        (false, _) => "No key matches. Remove a filter.",
    }
}

fn filter(query: &Query) -> Markup {
    let scopes: Vec<(String, String)> = Scope::ALL.iter().map(|scope| (scope.name().to_owned(), scope.name().to_owned())).collect();
    let kept = query.pairs().filter(|(name, _)| !FIELDS.contains(name) && *name != "cursor");
    html! {
        form.filter method="get" action=(PATH) role="search" aria-label="Filter API keys" data-filter {
            label { "Words" input type="search" name="q" value=(query.first("q")) maxlength="100"; }
            (select(query, "status", "State", or_none("Any", choices(&STATUSES))))
            (select(query, "scope", "Scope", or_none("Any", scopes)))
            (select(query, "unused_for_days", "Used", pairs(&UNUSED)))
            (select(query, "sort", "Sort", pairs(&SORTS)))
            @for (name, value) in kept { input type="hidden" name=(name) value=(value); }
            button { "Apply" }
        }
    }
}

/// The chip that removes the filter for who created the keys. Pages of users lead here with it.
fn creator(query: &Query, keys: &[Key]) -> Markup {
    let id = query.first("created_by");
    let name = keys.first().map_or(id, |key| key.created_by.name.as_str());
    let path = query.clone().without("created_by").without("cursor").at(PATH);
    html! {
        @if !id.is_empty() {
            nav.chips aria-label="Chosen filters" {
                a.chip.chosen href=(path) aria-label={ "Remove the filter Created by: " (name) } {
                    "Created by: " (name) " " span aria-hidden="true" { "×" }
                }
            }
        }
    }
}

fn table(keys: &[Key], visitor: &Visitor<'_>) -> Markup {
    html! {
        div.scroll tabindex="0" role="group" aria-label="API keys" {
            table.list data-rows {
                thead { tr { @for head in ["Name", "State", "Scopes", "Owner", "Last used", "Expires"] { th scope="col" { (head) } } } }
                tbody {
                    @for key in keys {
                        tr {
                            td.main { a href=(key.path()) data-record { (key.name) } br; (key.hint()) }
                            td { (key.badge()) }
                            td.name { (summary(&key.scopes)) }
                            td { (author(&key.owner, visitor)) @if key.personal { " " (badge(Tone::Neutral, "Personal")) } }
                            td.time {
                                @match &key.last_used_at {
                                    Some(time) => { (visitor.clock.relative(time)) }
                                    None => { span.muted { "Never used" } }
                                }
                            }
                            td.time { (visitor.clock.relative(&key.expires_at)) }
                        }
                    }
                }
            }
        }
    }
}
