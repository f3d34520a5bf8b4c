//! Inputs and outputs, as pages show them.

use maud::{Markup, html};
use serde_json::Value;

use crate::components::{facts, pretty};

/// The API has the rest of a longer value.
const MOST_CHARS: usize = 8_000;
/// A longer text unfolds.
const SHORT_TEXT: usize = 300;

/// The members of an object by their names. Long ones unfold.
pub(super) fn members(label: &str, value: Option<&Value>) -> Markup {
    match value {
        Some(Value::Object(members)) if !members.is_empty() && value.and_then(hidden).is_none() => {
            let rows: Vec<(&str, Option<Markup>)> =
                members.iter().map(|(name, value)| (name.as_str(), Some(member(name, value)))).collect();
            facts(&rows)
        }
        Some(value) if !is_empty(value) => json_details(label, Some(value)),
        _ => html! { p.muted { "None." } },
    }
}

fn member(name: &str, value: &Value) -> Markup {
    match value {
        Value::String(text) if text.len() <= SHORT_TEXT => html! { div.text { (text) } },
        Value::Number(_) | Value::Bool(_) => html! { (value.to_string()) },
        value if is_empty(value) => html! { span.muted { "–" } },
        value => json_details(name, Some(value)),
    }
}

/// A value that unfolds. Nothing if there is none, or if it has no members.
pub(super) fn json_details(label: &str, value: Option<&Value>) -> Markup {
    let Some(value) = value.filter(|value| !is_empty(value)) else { return html! {} };
    if let Some(scopes) = hidden(value) {
        return html! { p.muted { (label) ": hidden. To see it, you need these scopes: " (scopes.join(", ")) "." } };
    }
    let text = pretty(value);
    let shown: String = text.chars().take(MOST_CHARS).collect();
    let is_cut = shown.len() < text.len();
    html! {
        details {
            summary { (label) }
            pre tabindex="0" role="group" aria-label={ (label) ", JSON" } { code.language-json { (shown) } }
            @if is_cut { p.muted { "This is the beginning. The API has the whole value." } }
        }
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Object(members) => members.is_empty(),
        Value::Array(items) => items.is_empty(),
        _ => false,
    }
}

/// The scopes that a reader needs to see a value that the API hides.
fn hidden(value: &Value) -> Option<Vec<&str>> {
    if value.get("redacted") != Some(&Value::Bool(true)) {
        return None;
    }
    Some(value.get("required_scopes")?.as_array()?.iter().filter_map(Value::as_str).collect())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_value_unfolds_as_text_and_a_long_one_is_cut() {
        let shown = json_details("Output", Some(&json!({"a": "<b>"}))).into_string();
        assert!(
            shown.contains("<summary>Output</summary>") && shown.contains("&lt;b&gt;") && !shown.contains("beginning"),
            "{shown}"
        );
        let long = json_details("Output", Some(&json!("ä".repeat(MOST_CHARS)))).into_string();
        assert!(long.contains("beginning") && long.matches('ä').count() < MOST_CHARS);
        assert_eq!(json_details("Output", Some(&json!({}))).into_string() + &json_details("Output", None).into_string(), "");
    }

    #[test]
    fn the_members_of_an_input_are_facts() {
        let shown = members("Inputs", Some(&json!({"name": "Uma", "tasks": ["a"], "count": 2, "note": null}))).into_string();
        assert!(shown.contains("<dt>name</dt>") && shown.contains("Uma") && shown.contains("<summary>tasks</summary>"), "{shown}");
        assert!(members("Inputs", Some(&json!({}))).into_string().contains("None."));
    }

    #[test]
    fn a_hidden_value_says_what_one_needs() {
        let value = json!({"redacted": true, "required_scopes": ["tickets:read"]});
        assert_eq!(hidden(&value), Some(vec!["tickets:read"]));
        assert!(hidden(&json!({"redacted": true})).is_none() && hidden(&json!("text")).is_none());
        assert!(!json_details("Input", Some(&value)).into_string().contains("details"));
    }
}
