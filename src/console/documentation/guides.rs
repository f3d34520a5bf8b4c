//! The guides: Markdown files of this crate. A test sends their requests to a demo server, so their answers are real.

use std::sync::LazyLock;

use maud::html;
use serde_json::{Value, json};

use super::{Content, contents};
use crate::markdown::{self, Document};

pub(super) const PATH: &str = "/documentation/guides/";

pub(super) struct Guide {
    pub(super) name: &'static str,
    source: &'static str,
}

macro_rules! guides {
    ($($name:literal)*) => {
        [$(Guide { name: $name, source: include_str!(concat!("../guides/", $name, ".md")) }),*]
    };
}

/// All guides, in reading order.
pub(super) static GUIDES: [Guide; 23] = guides! {
    "getting-started" "console" "authentication" "tickets" "directory" "portal" "search" "inventory" "webhooks" "workflows" "clouds" "backups" "analytics"
    "single-sign-on" "provisioning" "evaluation-tenants" "install" "upgrade" "snapshots" "disk" "key-rotation" "moving-tenants" "security"
};

/// The guides, rendered, in the order of [`GUIDES`].
static RENDERED: LazyLock<Vec<Document>> = LazyLock::new(|| GUIDES.iter().map(|guide| markdown::document(guide.source)).collect());

impl Guide {
    pub(super) fn path(&self) -> String {
        format!("{PATH}{}/", self.name)
    }

    pub(super) fn title(&self) -> &'static str {
        self.source.lines().next().and_then(|line| line.strip_prefix("# ")).unwrap_or(self.name)
    }

    /// The first sentence.
    pub(super) fn summary(&self) -> String {
        let lines = self.source.lines().skip(1).skip_while(|line| line.is_empty());
        let paragraph = lines.take_while(|line| !line.is_empty()).collect::<Vec<_>>().join(" ");
        paragraph.split_once(". ").map_or(paragraph.clone(), |(first, _)| format!("{first}."))
    }

    pub(super) fn source(&self) -> &'static str {
        self.source
    }
}

fn place(path: &str) -> Option<usize> {
    let name = path.strip_prefix(PATH)?.strip_suffix('/')?;
    GUIDES.iter().position(|guide| guide.name == name)
}

pub(super) fn has(path: &str) -> bool {
    place(path).is_some()
}

pub(super) fn list() -> Content {
    Content::new(
        "Guides",
        html! {
            h1 { "Guides" }
            ul.cards {
                @for guide in &GUIDES {
                    li { a href=(guide.path()) { (guide.title()) } div.muted { (markdown::cell(&guide.summary())) } }
                }
            }
        },
    )
    .below(contents::PATH, "Documentation")
}

pub(super) fn json() -> Value {
    let guides: Vec<Value> = GUIDES.iter().map(|guide| json!({"path": guide.path(), "title": guide.title()})).collect();
    json!({"data": guides})
}

pub(super) fn content(path: &str) -> Option<Content> {
    let place = place(path)?;
    let guide = RENDERED.get(place)?;
    let next = GUIDES.get(place + 1);
    let body = html! {
        h1 { (guide.title) }
        @if guide.sections.len() > 3 {
            details {
                summary { "On this page" }
                ul { @for (anchor, title) in &guide.sections { li { a href={ "#" (anchor) } { (title) } } } }
            }
        }
        div.guide { (guide.body) }
        @if let Some(next) = next { p { "Next: " a href=(next.path()) { (next.title()) } } }
    };
    Some(Content::new(guide.title.clone(), body).below(contents::PATH, "Documentation").below(PATH, "Guides"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_guide_has_a_title_a_summary_and_only_working_links_to_other_guides() {
        for (guide, rendered) in GUIDES.iter().zip(RENDERED.iter()) {
            assert!(guide.source.starts_with("# ") && !guide.summary().is_empty(), "{}", guide.name);
            let html = rendered.body.clone().into_string();
            for link in html.split("href=\"").skip(1).filter_map(|rest| rest.split('"').next()) {
                let Some(rest) = link.strip_prefix(PATH).filter(|rest| !rest.is_empty()) else { continue };
                let (name, fragment) = rest.split_once('#').unwrap_or((rest, ""));
                let place = place(&format!("{PATH}{name}")).unwrap_or_else(|| panic!("{} links to {link}", guide.name));
                let known = RENDERED[place].body.clone().into_string().contains(&format!("id=\"{fragment}\""));
                assert!(fragment.is_empty() || known, "{} links to {link}", guide.name);
            }
        }
    }
}
