//! Lists of operations and schemas: all of them with a filter, and those of an area.

use maud::{Markup, html};
use serde_json::Value;

use tenantd_http::pages::PageVisit;

use super::{Area, Operation, PATH, Reference, operation::scopes_of};
use crate::{
    components::{empty, method, table},
    documentation::{Content, contents, search::Terms},
    markdown,
};

const METHODS: [&str; 5] = ["GET", "POST", "PUT", "PATCH", "DELETE"];

/// Which operations to list. Empty fields match all.
pub(super) struct Filter {
    words: String,
    area: String,
    method: String,
    scope: String,
}

impl Filter {
    pub(super) fn new(visit: &PageVisit<'_>) -> Self {
        Self {
            words: visit.parameter("q"),
            area: visit.parameter("area"),
            method: visit.parameter("method").to_uppercase(),
            scope: visit.parameter("scope"),
        }
    }

    fn allows(&self, terms: &Terms, operation: &Operation, document: &Value) -> bool {
        let text = format!("{} {} {}", operation.id, operation.path, operation.description(document));
        let is_scope = || scopes_of(operation.value(document)).contains(&self.scope.as_str());
        (self.area.is_empty() || operation.area == self.area)
            && (self.method.is_empty() || operation.method == self.method)
            && (self.scope.is_empty() || is_scope())
            && terms.rank(&operation.summary, &text).is_some()
    }
}

fn rows<'a>(operations: impl IntoIterator<Item = &'a Operation>) -> Vec<Vec<Markup>> {
    let row = |operation: &Operation| {
        vec![
            html! { a href=(operation.page()) { (operation.summary) } },
            html! { span.name { (method(&operation.method)) " " code { (operation.path) } } },
        ]
    };
    operations.into_iter().map(row).collect()
}

fn option(value: &str, label: &str, chosen: &str) -> Markup {
    html! { option value=(value) selected[value == chosen] { (label) } }
}

pub(super) fn operations(reference: &Reference, filter: &Filter) -> Content {
    let terms = Terms::new(&filter.words);
    let mut scopes: Vec<&str> =
        reference.operations().flat_map(|operation| scopes_of(operation.value(&reference.document))).collect();
    scopes.sort_unstable();
    scopes.dedup();
    let found = |area: &'_ Area| -> Vec<Vec<Markup>> {
        rows(area.operations.iter().filter(|operation| filter.allows(&terms, operation, &reference.document)))
    };
    let areas: Vec<(&Area, Vec<Vec<Markup>>)> =
        reference.areas.iter().map(|area| (area, found(area))).filter(|(_, rows)| !rows.is_empty()).collect();
    let count: usize = areas.iter().map(|(_, rows)| rows.len()).sum();
    let body = html! {
        h1 { "API reference" }
        p.lead { "All operations of the public API, by area." }
        form.filter action=(PATH) method="get" {
            label { "Words" input type="search" name="q" value=(filter.words) maxlength="200"; }
            label { "Area" select name="area" {
                (option("", "All", &filter.area))
                @for area in &reference.areas { (option(&area.slug, &area.title, &filter.area)) }
            } }
            label { "Method" select name="method" {
                (option("", "All", &filter.method))
                @for name in METHODS { (option(name, name, &filter.method)) }
            } }
            label { "Scope" select name="scope" {
                (option("", "All", &filter.scope))
                @for scope in &scopes { (option(scope, scope, &filter.scope)) }
            } }
            button type="submit" { "Filter" }
        }
        @if count == 0 { (empty("No operation matches. Remove a filter, or use fewer words.")) }
        @else { p.muted { (count) @if count == 1 { " operation" } @else { " operations" } } }
        @for (area, rows) in &areas {
            h2 { a href=(area.path()) { (area.title) } }
            div.operations { (table(&area.title, &["operation", "request"], rows)) }
        }
    };
    Content::new("API reference", body).below(contents::PATH, "Documentation")
}

pub(super) fn area(area: &Area) -> Content {
    let body = html! {
        h1 { (area.title) }
        (markdown::description(&area.description))
        div.operations { (table(&area.title, &["operation", "request"], &rows(&area.operations))) }
    };
    Content::new(area.title.clone(), body).below(contents::PATH, "Documentation").below(PATH, "API reference")
}

pub(super) fn schemas(reference: &Reference) -> Content {
    let rows: Vec<Vec<Markup>> = reference
        .schemas()
        .map(|(name, path, description)| vec![html! { a href=(path) { (name) } }, markdown::cell(description)])
        .collect();
    let body = html! {
        h1 { "Schemas" }
        p.lead { "Every record and every part of a request or an answer." }
        (table("Schemas", &["schema", "description"], &rows))
    };
    Content::new("Schemas", body).below(contents::PATH, "Documentation")
}
