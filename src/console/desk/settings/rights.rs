//! Who can do what: the rights of one user or key with their reasons, and the list of those who have a scope.

use maud::{Markup, html};
use serde::Deserialize;

use tenantd_base::access::Scope;

use super::{PATH as SETTINGS, scopes};
use crate::{
    components::{Tone, badge, card, code, curl, empty, page_head},
    desk::{
        Content, Reply,
        devices::{pairs, select},
        organizations::{pages, trail},
        records::List,
    },
    moment::Clock,
    query::Query,
    refusal::Refusal,
    visitor::Visitor,
};

const API: &str = "/api/admin/rights";
const PATH: &str = "/settings/rights";
/// The scope that the page begins with.
const FIRST: Scope = Scope::TicketsWrite;

#[derive(Debug, Deserialize)]
struct Reason {
    text: String,
    /// When the rights end.
    until: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Right {
    scope: String,
    description: String,
    allowed: bool,
    reasons: Vec<Reason>,
}

/// The rights of a user or a key.
#[derive(Debug, Deserialize)]
pub(super) struct Rights {
    limits: Vec<Reason>,
    scopes: Vec<Right>,
}

/// A user or a key that has a scope.
#[derive(Debug, Deserialize)]
struct Holder {
    kind: String,
    id: String,
    name: String,
    person_id: Option<String>,
    reasons: Vec<Reason>,
}

/// The rights of the record with this path in the API; nothing if the reader may not see them.
pub(super) async fn read(visitor: &Visitor<'_>, api: &str) -> Result<Option<Rights>, Refusal> {
    visitor.read_if_allowed(format!("{api}/rights")).await
}

/// A card with every scope by area: whether it counts now, and why.
pub(super) fn rights_card(rights: Option<&Rights>, api: &str, visitor: &Visitor<'_>) -> Markup {
    let Some(rights) = rights else { return html! {} };
    let held = rights.scopes.iter().filter(|right| right.allowed).count();
    let body = html! {
        p { (held) " of " (rights.scopes.len()) " scopes. " (sentences(&rights.limits, visitor.clock)) }
        details {
            summary { "Every scope, and why" }
            div.scroll tabindex="0" role="group" aria-label="Scopes by area" {
                table.list {
                    thead { tr { @for head in ["Area", "Scope", "Now", "Why"] { th scope="col" { (head) } } } }
                    tbody { @for (place, right) in rights.scopes.iter().enumerate() { (row(rights, place, right, visitor.clock)) } }
                }
            }
        }
        div.actions { (curl(visitor.visit.base_url, "GET", &format!("{api}/rights"), None)) }
    };
    card("Rights", &body)
}

/// A row of the card. Only the first scope of an area names the area.
fn row(rights: &Rights, place: usize, right: &Right, clock: &Clock) -> Markup {
    let area = |right: &Right| right.scope.split_once(':').map_or("", |(area, _)| area).to_owned();
    let before = place.checked_sub(1).and_then(|before| rights.scopes.get(before)).map(area);
    let own = area(right);
    html! {
        tr {
            td { @if before.as_ref() != Some(&own) { strong { (scopes::area_name(&own)) } } }
            td { (code(&right.scope)) br; small.muted { (right.description) } }
            td { @if right.allowed { (badge(Tone::Good, "Yes")) } @else { (badge(Tone::Neutral, "No")) } }
            td { (sentences(&right.reasons, clock)) }
        }
    }
}

fn sentences(reasons: &[Reason], clock: &Clock) -> Markup {
    html! {
        @for reason in reasons {
            @match &reason.until {
                Some(until) => { "Until " (clock.absolute(until)) ". " }
                None => { (reason.text) " " }
            }
        }
    }
}

/// The page with those who have a scope.
pub(super) async fn show(visitor: Visitor<'_>) -> Result<Reply, Refusal> {
    let query = visitor.query().or("scope", FIRST.name());
    let target = query.clone().or("limit", "50").at(API);
    let holders: List<Holder> = visitor.read(&target).await?;
    let chosen = Scope::ALL.iter().find(|scope| scope.name() == query.first("scope"));
    let below = chosen.map_or("Choose a scope.", |scope| scope.description());
    let body = html! {
        (trail(&[(SETTINGS, "Settings")]))
        (page_head(&html! { "Who can do what" }, &html! { (below) }, &curl(visitor.visit.base_url, "GET", &target, None)))
        (filter(&query, &visitor))
        @if holders.data.is_empty() {
            (empty("Nobody has this scope now."))
        } @else {
            (table(&holders.data, visitor.clock))
        }
        (pages(&query, PATH, holders.data.len(), &holders.page))
    };
    Ok(Reply::Page(Content::new("Who can do what", body)))
}

fn filter(query: &Query, visitor: &Visitor<'_>) -> Markup {
    let names: Vec<(String, String)> = Scope::ALL.iter().map(|scope| (scope.name().to_owned(), scope.name().to_owned())).collect();
    let sees_both = visitor.may(Scope::UsersRead) && visitor.may(Scope::ApiKeysRead);
    html! {
        form.filter method="get" action=(PATH) role="search" aria-label="Choose a scope" data-filter {
            (select(query, "scope", "Scope", names))
            @if sees_both { (select(query, "kind", "Who", pairs(&[("", "Users and API keys"), ("user", "Users"), ("api_key", "API keys")]))) }
            button { "Show" }
        }
    }
}

fn table(holders: &[Holder], clock: &Clock) -> Markup {
    html! {
        div.scroll tabindex="0" role="group" aria-label="Who has the scope" {
            table.list data-rows {
                thead { tr { @for head in ["Name", "What", "Why"] { th scope="col" { (head) } } } }
                tbody {
                    @for holder in holders {
                        @let area = if holder.kind == "user" { "users" } else { "keys" };
                        tr {
                            td.main { a href={ (SETTINGS) "/" (area) "/" (holder.id) } data-record { (holder.name) } }
                            td {
                                @match (holder.kind.as_str(), &holder.person_id) {
                                    ("user", _) => { "User" }
                                    (_, Some(person)) => { a href={ (SETTINGS) "/users/" (person) } { "Personal API key" } }
                                    (_, None) => { "API key" }
                                }
                            }
                            td { (sentences(&holder.reasons, clock)) }
                        }
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use jiff::tz::TimeZone;
    use serde_json::json;
    use tenantd_base::clock::Timestamp;

    use super::*;

    fn clock() -> Clock {
        Clock { now: Timestamp::parse("2026-11-18T12:00:00.000Z").unwrap(), zone: TimeZone::UTC }
    }

    #[test]
    fn an_area_is_named_once() {
        let right =
            |scope: &str| json!({"scope": scope, "description": "d", "allowed": true, "reasons": [{"text": "Because <b>."}]});
        let record = json!({"limits": [], "scopes": [right("tickets:read"), right("tickets:write"), right("vms:read")]});
        let rights: Rights = serde_json::from_value(record).unwrap();
        let shown: String =
            rights.scopes.iter().enumerate().map(|(place, right)| row(&rights, place, right, &clock()).into_string()).collect();
        assert_eq!((shown.matches("Tickets</strong>").count(), shown.matches("Virtual machines</strong>").count()), (1, 1));
        assert!(shown.contains("Because &lt;b&gt;."), "{shown}");
    }

    #[test]
    fn an_end_is_shown_as_a_time() {
        let reason = json!({"text": "Until 2026-11-20T09:30:00.000Z.", "until": "2026-11-20T09:30:00.000Z"});
        let shown = sentences(&[serde_json::from_value(reason).unwrap()], &clock()).into_string();
        assert!(shown.contains(">20 Nov 2026, 09:30</time>. "), "{shown}");
        assert!(!shown.contains("Until 2026"), "{shown}");
    }
}
