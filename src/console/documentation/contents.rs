//! The first page of the documentation, and the navigation beside every page.

use maud::html;
use serde_json::{Value, json};

use tenantd_http::pages::{DOCUMENT_PATH, INTERNAL_DOCUMENT_PATH};

use super::{Content, changelog, errors, events, guides, keys, rate_limits, reference, reference::Reference, scopes};
use crate::{
    layout::{Link, NavigationGroup},
    markdown,
};

pub(super) const PATH: &str = "/documentation/";

/// The lists that every area of the API shares.
const LISTS: [(&str, &str); 6] = [
    (errors::PATH, "Errors"),
    (events::PATH, "Events"),
    (scopes::PATH, "Scopes and roles"),
    (rate_limits::PATH, "Rate limits"),
    (keys::PATH, "Signing keys"),
    (changelog::PATH, "Changelog"),
];

pub(super) fn navigation(reference: &Reference) -> Vec<NavigationGroup> {
    let guides = guides::GUIDES.iter().map(|guide| Link::new(guide.path(), guide.title())).collect();
    let mut areas = vec![Link::new(reference::PATH, "All operations")];
    areas.extend(reference.areas.iter().map(|area| Link::new(area.path(), area.title.clone())));
    areas.push(Link::new(reference::SCHEMAS_PATH, "Schemas"));
    let lists = LISTS.iter().map(|(path, title)| Link::new(*path, *title)).collect();
    vec![
        NavigationGroup { title: "Guides", links: guides },
        NavigationGroup { title: "API reference", links: areas },
        NavigationGroup { title: "Lists", links: lists },
    ]
}

pub(super) fn home(reference: &Reference) -> Content {
    Content::new(
        "Documentation",
        html! {
            h1 { "tenantd documentation" }
            p.lead {
                "New here? Start with " a href="/documentation/guides/getting-started/" { "Getting started" }
                ": from the demo to your first API key and your first webhook."
            }
            h2 { "Guides" }
            ul.cards {
                @for guide in &guides::GUIDES {
                    li { a href=(guide.path()) { (guide.title()) } div.muted { (markdown::cell(&guide.summary())) } }
                }
            }
            h2 { "API reference" }
            ul.cards {
                @for area in &reference.areas {
                    li { a href=(area.path()) { (area.title) } div.muted { (markdown::cell(&area.description)) } }
                }
            }
            h2 { "Lists" }
            ul {
                @for (path, title) in &LISTS { li { a href=(path) { (title) } } }
            }
            h2 { "For programs" }
            p {
                "The OpenAPI document of the public API is " a href=(DOCUMENT_PATH) { code { (DOCUMENT_PATH) } }
                ". The document for agents and imports is " a href=(INTERNAL_DOCUMENT_PATH) { code { (INTERNAL_DOCUMENT_PATH) } } "."
            }
        },
    )
}

pub(super) fn json(document: &Value) -> Value {
    let mut pages = vec![
        json!({"path": DOCUMENT_PATH, "title": "The OpenAPI document of the public API"}),
        json!({"path": INTERNAL_DOCUMENT_PATH, "title": "The OpenAPI document for agents and imports"}),
        json!({"path": guides::PATH, "title": "Guides"}),
    ];
    pages.extend(LISTS.iter().map(|(path, title)| json!({"path": path, "title": title})));
    json!({"info": document.get("info"), "openapi": DOCUMENT_PATH, "data": pages})
}
