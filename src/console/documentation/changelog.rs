//! What changed in each release.

use maud::html;
use serde_json::{Value, json};

use super::{Content, contents};
use crate::markdown;

pub(super) const PATH: &str = "/documentation/changelog/";

const CHANGELOG: &str = include_str!("../../../CHANGELOG.md");

pub(super) fn content() -> Content {
    let document = markdown::document(CHANGELOG);
    Content::new("Changelog", html! { h1 { (document.title) } div.guide { (document.body) } })
        .below(contents::PATH, "Documentation")
}

pub(super) fn json() -> Value {
    json!({"markdown": CHANGELOG})
}
