//! Search over everything that the reader may see: the page with facets, and the suggestions while typing.

use maud::{Markup, PreEscaped, html};
use serde::Deserialize;
use serde_json::{Map, Value};

use tenantd_http::problem::Code;

use super::{
    Content, Reply,
    devices::software_filter,
    records::{Named, PageInfo},
};
use crate::{
    components::{Tone, badge, curl, empty, grouped, page_head, pager, words},
    query::{Query, segment},
    refusal::Refusal,
    visitor::Visitor,
};

const API: &str = "/api/search";
const PATH: &str = "/search";

#[derive(Debug, Deserialize)]
struct Found {
    data: Vec<Hit>,
    page: PageInfo,
    #[serde(default)]
    facets: Facets,
    did_you_mean: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
struct Facets {
    #[serde(default, rename = "type")]
    types: Vec<Facet>,
    #[serde(default)]
    organization: Vec<Facet>,
}

#[derive(Debug, Deserialize)]
struct Facet {
    value: String,
    label: Option<String>,
    count: u64,
}

#[derive(Debug, Deserialize)]
struct Hit {
    #[serde(rename = "type")]
    kind: String,
    id: String,
    title: String,
    subtitle: Option<String>,
    organization: Option<Named>,
    status: Option<String>,
    #[serde(default)]
    highlights: Map<String, Value>,
}

impl Hit {
    /// The page of the record, if the desk has one.
    fn path(&self) -> Option<String> {
        let id = segment(&self.id);
        match self.kind.as_str() {
            "ticket" => Some(format!("/tickets/{id}")),
            "device" => Some(format!("/devices/{id}")),
            "organization" => Some(format!("/organizations/{id}")),
            "software" => software_filter(&self.id).map(|filter| format!("/devices?software={}", segment(&filter))),
            // A member of staff has no organization.
            "user" if self.organization.is_some() => Some(format!("/contacts/{id}")),
            _ => None,
        }
    }

    fn name(&self) -> Markup {
        html! { @if let Some(path) = self.path() { a href=(path) data-record { (self.title) } } @else { (self.title) } }
    }
}

pub(super) async fn show(visitor: Visitor<'_>) -> Result<Reply, Refusal> {
    let query = visitor.query();
    let text = query.first("q").to_owned();
    if text.is_empty() {
        let body = html! {
            h1 { "Search" }
            p.lead { "Enter a word, a name, a ticket number, a serial number, an address or a phone number." }
            p { "Narrow with " code { "type:device" } ", " code { "org:name" } ", " code { "status:open" } ", " code { "ip:10.3" } " or " code { "updated:>2026-01-31" } "." }
        };
        return Ok(Reply::Page(Content::new("Search", body)));
    }
    let target = query.clone().with("facets", "type").or("limit", "20").at(API);
    let found: Found = match visitor.read(format!("{target}&facets=organization")).await {
        Ok(found) => found,
        Err(refusal) if refusal.is(Code::ValidationFailed) => return Ok(not_understood(&text, &refusal)),
        Err(refusal) => return Err(refusal),
    };
    let next = found.page.next_cursor.as_deref().map(|cursor| query.clone().with("cursor", cursor).at(PATH));
    let first = (!query.first("cursor").is_empty()).then(|| query.clone().without("cursor").at(PATH));
    let total = found.page.total.unwrap_or_default();
    let body = html! {
        (page_head(
            &html! { "Search" },
            &html! { (grouped(total)) @if total == 1 { " record" } @else { " records" } " for “" (text) "”" },
            &curl(visitor.visit.base_url, "GET", &target, None),
        ))
        @if let Some(meant) = &found.did_you_mean {
            p { "Did you mean " a href=(query.clone().without("cursor").with("q", meant).at(PATH)) { (meant) } "?" }
        }
        (facets(&query, &found.facets))
        @if found.data.is_empty() {
            (empty("Nothing matches. Use fewer words, or check their spelling."))
        } @else {
            ul.results data-rows { @for hit in &found.data { (result(hit)) } }
        }
        (pager(found.data.len(), found.page.total, next.as_deref(), first.as_deref()))
    };
    let mut content = Content::new(format!("Search: {text}"), body);
    content.search = text;
    Ok(Reply::Page(content))
}

/// Says what is wrong with the search, which stays in the field.
fn not_understood(text: &str, refusal: &Refusal) -> Reply {
    let body = html! {
        h1 { "Search" }
        div.alert role="alert" {
            strong { (refusal.title) }
            @if refusal.errors.is_empty() { p { (refusal.detail) } }
            @for error in &refusal.errors { p { (error.message) } }
        }
    };
    let mut content = Content::new(format!("Search: {text}"), body).refused(refusal);
    text.clone_into(&mut content.search);
    Reply::Page(content)
}

/// What matches while the reader types: the list under the search field.
pub(super) async fn suggest(visitor: Visitor<'_>) -> Result<Reply, Refusal> {
    let text = visitor.query().first("q").to_owned();
    if text.is_empty() {
        return Ok(Reply::Part(html! {}));
    }
    let found: Found = visitor.read(Query::default().with("q", &text).with("mode", "suggest").with("limit", "8").at(API)).await?;
    Ok(Reply::Part(html! {
        @for (place, hit) in found.data.iter().enumerate() {
            @if let Some(path) = hit.path() {
                li role="option" id={ "suggestion-" (place) } data-path=(path) aria-selected="false" {
                    span.kind { (hit.kind) } span { (hit.title) }
                    @if let Some(below) = &hit.subtitle { small { (below) } }
                }
            }
        }
    }))
}

fn facets(query: &Query, facets: &Facets) -> Markup {
    let base = query.clone().without("cursor");
    let chip = |name: &str, facet: &Facet| {
        let is_chosen = base.has(name, &facet.value);
        let way = if is_chosen { base.clone().without(name) } else { base.clone().with(name, &facet.value) };
        let label = facet.label.clone().unwrap_or_else(|| words(&facet.value));
        html! { a.chip href=(way.at(PATH)) aria-current=[is_chosen.then_some("true")] { (label) " " span.count { (grouped(facet.count)) } } }
    };
    html! {
        nav.chips aria-label="Narrow the search" {
            @for facet in &facets.types { (chip("types", facet)) }
            @for facet in facets.organization.iter().take(8) { (chip("organization_id", facet)) }
        }
    }
}

fn result(hit: &Hit) -> Markup {
    // The API escapes everything in a highlight but its own marks.
    let marks = hit.highlights.iter().filter(|(name, _)| !matches!(name.as_str(), "name" | "subject")).take(3);
    html! {
        li.hit {
            div { span.kind { (hit.kind) } (hit.name()) @if let Some(status) = &hit.status { " " (badge(Tone::Neutral, &words(status))) } }
            p.muted {
                @if let Some(below) = &hit.subtitle { (below) }
                @if let Some(organization) = &hit.organization { " · " (organization.link("organizations")) }
            }
            @for (name, mark) in marks { p.mark { span.muted { (words(name)) ": " } (PreEscaped(mark.as_str().unwrap_or_default())) } }
        }
    }
}
