//! The kinds of events.

use maud::html;
use serde_json::{Value, json};

use tenantd_base::access::Scope;
use tenantd_store::events::Kinds;

use super::{Content, contents, reference};
use crate::components::{code, table};

pub(super) const PATH: &str = "/documentation/events/";

pub(super) fn json(kinds: &Kinds) -> Value {
    let kinds: Vec<Value> = kinds.iter().map(|kind| json!({"type": kind.name, "summary": kind.summary})).collect();
    json!({"data": kinds})
}

pub(super) fn content(kinds: &Kinds) -> Content {
    let rows: Vec<_> = kinds
        .iter()
        .map(|kind| {
            let scopes: Vec<&str> = kind.reads.iter().map(Scope::name).collect();
            vec![
                html! { span id=(kind.name) { (code(kind.name)) } },
                html! { (kind.summary) },
                html! { code { "data." (kind.subject) } ": " a href=(reference::schema_path(kind.schema)) { (kind.schema) } },
                html! { @for scope in &scopes { (code(scope)) " " } },
            ]
        })
        .collect();
    Content::new(
        "Events",
        html! {
            h1 { "Events" }
            p.lead { "Every change in a tenant appends an event. Read events from the feed, or receive them through webhooks." }
            p {
                "The feed is " a href="/documentation/api/events/read_events/" { code { "GET /api/events" } } ". "
                a href="/documentation/api/events/list_event_kinds/" { code { "GET /api/events/catalog" } }
                " returns a JSON Schema and an example of each kind. See also the " a href="/documentation/guides/webhooks/" { "guide to webhooks" } "."
            }
            (table("Kinds of events", &["kind", "appended when", "data", "scopes to read it"], &rows))
        },
    )
    .below(contents::PATH, "Documentation")
}
