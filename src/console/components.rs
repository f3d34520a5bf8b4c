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

/// What a badge or a bar means. The words beside it say the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tone {
    Neutral,
    Accent,
    Good,
    Warn,
    Bad,
}

impl Tone {
    const fn class(self) -> &'static str {
        match self {
            Self::Neutral => "neutral",
            Self::Accent => "accent",
            Self::Good => "good",
            Self::Warn => "warn",
            Self::Bad => "bad",
        }
    }
}

pub fn badge(tone: Tone, text: &str) -> Markup {
    html! { span class={ "badge " (tone.class()) } { (text) } }
}

/// A share as a bar with words after it.
pub fn bar(percent: u32, tone: Tone, text: &str) -> Markup {
    html! {
        span.measure {
            svg class={ "bar " (tone.class()) } viewBox="0 0 100 6" preserveAspectRatio="none" aria-hidden="true" {
                rect.track width="100" height="6" rx="3" {}
                rect.fill width=(percent.min(100)) height="6" rx="3" {}
            }
            span { (text) }
        }
    }
}

/// The initials of a name.
pub fn avatar(name: &str) -> Markup {
    let mut letters = name.split_whitespace().filter_map(|word| word.chars().find(|letter| letter.is_alphanumeric()));
    let initials: String = letters.next().into_iter().chain(letters.next_back()).flat_map(char::to_uppercase).collect();
    html! { span.avatar aria-hidden="true" { (initials) } }
}

/// The head of a page: its title, a line below it, and what one can do.
pub fn page_head(title: &Markup, below: &Markup, actions: &Markup) -> Markup {
    html! {
        div.page-head {
            div { h1 { (title) } p.muted { (below) } }
            div.actions { (actions) }
        }
    }
}

pub fn card(title: &str, body: &Markup) -> Markup {
    html! { section.card aria-label=(title) { h2 { (title) } div.card-body { (body) } } }
}

/// Names and values. Values that are not known are left out.
pub fn facts(rows: &[(&str, Option<Markup>)]) -> Markup {
    html! {
        dl.facts-list {
            @for (name, value) in rows {
                @if let Some(value) = value { div { dt { (name) } dd { (value) } } }
            }
        }
    }
}

/// Words of the API that are abbreviations.
const ABBREVIATIONS: [&str; 12] = ["api", "cpu", "dns", "id", "ip", "os", "psa", "rmm", "sla", "sso", "url", "vm"];

/// A word of the API as people read it: `in_progress` is "In progress", and `api` is "API".
pub fn words(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for (place, word) in text.split('_').enumerate() {
        if place > 0 {
            shown.push(' ');
        }
        let mut letters = word.chars();
        match letters.next() {
            _ if ABBREVIATIONS.contains(&word) => shown.push_str(&word.to_uppercase()),
            Some(first) if place == 0 => shown.extend(first.to_uppercase().chain(letters)),
            _ => shown.push_str(word),
        }
    }
    shown
}

/// A count with commas between its thousands.
pub fn grouped(count: u64) -> String {
    let digits = count.to_string();
    let place = |at: usize| digits.len() - at;
    digits.chars().enumerate().fold(String::new(), |mut text, (at, digit)| {
        if at > 0 && place(at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
        text
    })
}

/// A request to the API that does what the page does, as a command line.
pub fn curl(base_url: &str, method: &str, target: &str, body: Option<&Value>) -> Markup {
    let method = if method == "GET" { String::new() } else { format!("-X {method} ") };
    let data = body
        .map(|body| format!(" \\\n  -H 'Content-Type: application/json' \\\n  -d '{}'", body.to_string().replace('\'', r"'\''")));
    let line = format!(
        "curl {method}-H \"Authorization: Bearer $TENANTD_KEY\"{} \\\n  '{base_url}{}'",
        data.unwrap_or_default(),
        target.replace('\'', "%27")
    );
    html! {
        details.curl {
            summary.button { "Copy as curl" }
            div.popup { (code_block("sh", &line)) button type="button" class="quiet" data-copy hidden { "Copy" } }
        }
    }
}

/// The way to the next page of a list.
/// The way to other pages of a list. A page without records can have a next one: the API looks at a limited number of records.
pub fn pager(shown: usize, total: Option<u64>, next: Option<&str>, first: Option<&str>) -> Markup {
    html! {
        nav.pager aria-label="Pages" {
            span.muted {
                @match total {
                    Some(total) => { (shown) " of " (grouped(total)) }
                    None => { (shown) " shown" }
                }
            }
            @if let Some(first) = first { a.button href=(first) { "First page" } }
            @if let Some(next) = next { a.button href=(next) rel="next" { @if shown == 0 { "Look further" } @else { "Next page" } } }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_written_as_people_write_them() {
        let shown = ["in_progress", "api", "ip_address", "last_ip", "", "vm", "éclair_vms"].map(words);
        assert_eq!(shown, ["In progress", "API", "IP address", "Last IP", "", "VM", "Éclair vms"]);
    }

    #[test]
    fn counts_have_commas_between_thousands() {
        let shown = [0, 12, 999, 1_000, 21_474_836, 100_000].map(grouped);
        assert_eq!(shown, ["0", "12", "999", "1,000", "21,474,836", "100,000"]);
    }

    #[test]
    fn a_page_without_records_leads_further() {
        let way = |shown| pager(shown, None, Some("/tickets?cursor=c"), None).into_string();
        assert!(way(0).contains(">Look further<") && way(50).contains(">Next page<"));
    }
}
