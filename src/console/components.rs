//! The parts that pages are made of.

use maud::{Markup, html};
use serde_json::Value;

/// A piece of code in a language, such as `sh` or `json`. Scrolls sideways, also by keyboard.
pub fn code_block(language: &str, code: &str) -> Markup {
    html! {
        pre tabindex="0" role="group" aria-label=(format!("Example, {}", language_name(language))) { code class={ "language-" (language) } { (code) } }
    }
}

fn language_name(language: &str) -> &str {
    match language {
        "sh" | "console" => "shell",
        "json" => "JSON",
        "python" => "Python",
        "ts" => "TypeScript",
        "js" => "JavaScript",
        "go" => "Go",
        "toml" => "TOML",
        "" => "text",
        other => other,
    }
}

/// An HTTP method as a badge.
pub fn method(name: &str) -> Markup {
    html! { span class={ "method " (name.to_lowercase()) } { (name) } }
}

/// A table in a box of its own that scrolls sideways on small screens.
pub fn table(label: &str, heads: &[&str], rows: &[Vec<Markup>]) -> Markup {
    html! {
        div.scroll tabindex="0" role="group" aria-label=(label) {
            table {
                thead { tr { @for head in heads { th scope="col" { (head) } } } }
                tbody { @for row in rows { tr { @for cell in row { td { (cell) } } } } }
            }
        }
    }
}

/// What a page shows when a list is empty.
pub fn empty(text: &str) -> Markup {
    html! { p.empty { (text) } }
}

pub fn code(text: &str) -> Markup {
    html! { code { (text) } }
}

/// A value as indented JSON.
pub fn pretty(value: &Value) -> String {
    serde_json::to_string_pretty(value).unwrap_or_default()
}
