//! Search over the documentation: guides, operations, schemas, errors, events and scopes. A form without a script.

use maud::{Markup, html};

use tenantd_base::access::Scope;
use tenantd_http::problem::Code;
use tenantd_store::events::Kinds;

use super::{Content, contents, errors, events, guides, reference::Reference, scopes};
use crate::{components::empty, markdown};

pub(super) const PATH: &str = "/documentation/search/";

/// The characters and the words of a query, and the results that a page shows.
const MAX_QUERY: usize = 200;
const MAX_WORDS: usize = 8;
const MAX_RESULTS: usize = 60;

/// The words of a query. Every word must occur in what is found.
pub(super) struct Terms(Vec<String>);

impl Terms {
    pub(super) fn new(query: &str) -> Self {
        let query: String = query.chars().take(MAX_QUERY).collect();
        Self(query.to_lowercase().split_whitespace().take(MAX_WORDS).map(str::to_owned).collect())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How well a text matches: lower is better. A word in the title counts for more than one in the text.
    pub(super) fn rank(&self, title: &str, text: &str) -> Option<usize> {
        let (title, text) = (title.to_lowercase(), text.to_lowercase());
        let ranks = self.0.iter().map(|term| match (title.contains(term), text.contains(term)) {
            (true, _) => Some(0),
            (false, true) => Some(1),
            (false, false) => None,
        });
        ranks.sum()
    }
}

struct Hit {
    rank: usize,
    kind: &'static str,
    path: String,
    title: String,
    text: String,
}

fn hits(reference: &Reference, kinds: &Kinds, terms: &Terms) -> Vec<Hit> {
    let mut hits = Vec::new();
    let mut add = |kind, path: String, title: String, searched: &str, text: String| {
        if let Some(rank) = terms.rank(&title, &format!("{searched} {text}")) {
            hits.push(Hit { rank, kind, path, title, text });
        }
    };
    for guide in &guides::GUIDES {
        add("Guide", guide.path(), guide.title().to_owned(), guide.source(), guide.summary());
    }
    for operation in reference.operations() {
        let searched =
            format!("{} {} {} {}", operation.id, operation.method, operation.path, operation.description(&reference.document));
        let title = operation.summary.clone();
        add("Operation", operation.page(), title, &searched, format!("`{} {}`", operation.method, operation.path));
    }
    for code in Code::ALL {
        add("Error", errors::link(*code), code.name().to_owned(), code.title(), errors::cause(*code).to_owned());
    }
    for kind in kinds.iter() {
        add("Event", format!("{}#{}", events::PATH, kind.name), kind.name.to_owned(), "", kind.summary.to_owned());
    }
    for scope in Scope::ALL {
        add("Scope", scopes::PATH.to_owned(), scope.name().to_owned(), "", scope.description().to_owned());
    }
    for (name, path, description) in reference.schemas() {
        add("Schema", path, name.to_owned(), "", description.to_owned());
    }
    hits.sort_by_key(|hit| hit.rank);
    hits
}

fn results(reference: &Reference, kinds: &Kinds, terms: &Terms) -> Markup {
    let hits = hits(reference, kinds, terms);
    html! {
        @if hits.is_empty() {
            (empty("Nothing matches. Every word must occur: try fewer or shorter words."))
        } @else {
            p.muted {
                @if hits.len() > MAX_RESULTS { "The best " (MAX_RESULTS) " of " (hits.len()) " results" }
                @else if hits.len() == 1 { "1 result" }
                @else { (hits.len()) " results" }
            }
            ul.results {
                @for hit in hits.iter().take(MAX_RESULTS) {
                    li {
                        span.badge { (hit.kind) } " " a href=(hit.path) { (hit.title) }
                        div.muted { (markdown::cell(&hit.text)) }
                    }
                }
            }
        }
    }
}

pub(super) fn content(reference: &Reference, kinds: &Kinds, query: &str) -> Content {
    let terms = Terms::new(query);
    Content::new(
        "Search",
        html! {
            h1 { "Search the documentation" }
            form.filter action=(PATH) method="get" {
                label { "Words" input type="search" name="q" value=(query) maxlength=(MAX_QUERY); }
                button type="submit" { "Search" }
            }
            @if terms.is_empty() {
                p { "Search guides, operations, schemas, errors, events and scopes." }
            } @else {
                (results(reference, kinds, &terms))
            }
        },
    )
    .below(contents::PATH, "Documentation")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_must_occur_and_titles_come_first() {
        let terms = Terms::new("  Ticket comment ");
        assert_eq!(terms.rank("Comment on a ticket", ""), Some(0));
        assert_eq!(terms.rank("List tickets", "with every comment"), Some(1));
        assert_eq!(terms.rank("List tickets", ""), None);
        assert!(Terms::new("   ").is_empty());
    }
}
