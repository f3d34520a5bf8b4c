//! The catalog of events: what each kind means, who may read it, and an example of its body.

use maud::{Markup, html};

use super::{
    PATH,
    kinds::{self, Kind, area_name, by_area},
    parts::copyable,
};
use crate::{
    components::{card, curl, empty, page_head},
    desk::{
        Content, Reply,
        organizations::{counted, trail},
    },
    refusal::Refusal,
    visitor::Visitor,
};

pub(super) async fn show(visitor: Visitor<'_>) -> Result<Reply, Refusal> {
    let query = visitor.query();
    let words = query.first("q");
    let all = kinds::all(&visitor).await?;
    let found: Vec<&Kind> = all.iter().filter(|kind| kind.matches(words)).collect();
    let is_only = found.len() == 1;
    let head = page_head(
        &html! { "Events" },
        &html! { (counted(found.len() as u64, "kind", "kinds")) " of events that webhooks and the feed deliver" },
        &html! { (curl(visitor.visit.base_url, "GET", kinds::API, None)) },
    );
    let body = html! {
        (trail(&[(PATH, "Webhooks")]))
        (head)
        form.filter method="get" action={ (PATH) "/events" } role="search" aria-label="Filter events" {
            label { "Words" input type="search" name="q" value=(words) maxlength="200" placeholder="ticket closed"; }
            button { "Apply" }
        }
        @if found.is_empty() { (empty("No kind of event matches. Use fewer words.")) }
        @for (area, kinds) in by_area(found.into_iter()) {
            (card(&area_name(area), &entries(&kinds, is_only)))
        }
    };
    Ok(Reply::Page(Content::new("Events", body)))
}

fn entries(kinds: &[&Kind], is_open: bool) -> Markup {
    html! {
        ul.lines {
            @for kind in kinds {
                li id=(kind.name) {
                    details open[is_open] {
                        summary { code { (kind.name) } " " span.muted { (kind.summary) } }
                        @if !kind.required_scopes.is_empty() {
                            p { "The owner of the endpoint needs " @for scope in &kind.required_scopes { code { (scope) } " " } }
                        }
                        (copyable("json", &kind.example().pretty()))
                    }
                }
            }
        }
    }
}
