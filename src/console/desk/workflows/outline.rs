//! The parts of a definition as nested lists, for people who do not see the graph.

use maud::{Markup, html};
use serde_json::Value;

use super::{
    definition::{branches, steps},
    record::{duration, text, trigger_words, triggers},
};
use crate::desk::organizations::counted;

/// The triggers and the steps, in order.
pub(super) fn outline(definition: &Value) -> Markup {
    let started = definition.as_object().map_or(&[][..], triggers);
    let on_failure = definition.get("on_failure").unwrap_or(&Value::Null);
    html! {
        details.outline {
            summary { "Steps as a list" }
            h3 { "Starts" }
            ul {
                @if started.is_empty() { li { "By hand" } }
                @for trigger in started { li { (trigger_words(trigger)) (condition(text(trigger, "condition"), ", if ")) } }
            }
            h3 { "Steps" }
            (list(definition.get("steps").unwrap_or(&Value::Null)))
            @if !steps(on_failure).is_empty() {
                h3 { "If the run fails" }
                (list(on_failure))
            }
        }
    }
}

fn list(list: &Value) -> Markup {
    html! { ol { @for step in steps(list) { (entry(step)) } } }
}

fn entry(step: &Value) -> Markup {
    let inner: Vec<(String, &Value)> = branches(step).into_iter().filter(|(_, list)| !steps(list).is_empty()).collect();
    let decides = step.get("with").map_or("", |with| text(with, "condition"));
    html! {
        li {
            strong { (text(step, "id")) } " " code { (text(step, "type")) }
            (condition(text(step, "if"), ", only if "))
            (condition(decides, ", condition "))
            @for note in notes(step) { ", " (note) }
            @for (label, steps) in inner {
                p.muted { (label) ":" }
                (list(steps))
            }
        }
    }
}

fn condition(expression: &str, words: &str) -> Markup {
    html! { @if !expression.is_empty() { (words) code { (expression) } } }
}

/// How a step is tried, and what follows if it fails.
fn notes(step: &Value) -> Vec<String> {
    let number = |value: Option<&Value>| value.and_then(Value::as_u64);
    let attempts = number(step.get("retry").and_then(|retry| retry.get("max_attempts")));
    let limit = number(step.get("timeout_seconds"));
    let continues = text(step, "on_error") == "continue";
    [
        attempts.map(|count| format!("at most {}", counted(count, "attempt", "attempts"))),
        limit.map(|seconds| format!("at most {}", duration(seconds))),
        continues.then(|| "the run continues if it fails".to_owned()),
    ]
    .into_iter()
    .flatten()
    .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_list_says_what_the_graph_shows() {
        let definition = json!({
            "triggers": [{"type": "schedule", "cron": "0 7 * * 1", "timezone": "UTC"}],
            "steps": [{
                "id": "check", "type": "if", "if": "inputs.a", "on_error": "continue", "timeout_seconds": 60, "retry": {"max_attempts": 3},
                "with": {"condition": "inputs.b", "then": [{"id": "<b>", "type": "set"}]},
            }],
        });
        let text = outline(&definition).into_string();
        assert!(text.contains("<li>0 7 * * 1 UTC</li>"));
        assert!(text.contains(
            "only if <code>inputs.a</code>, condition <code>inputs.b</code>, at most 3 attempts, at most 1 min, the run continues"
        ));
        assert!(text.contains("<p class=\"muted\">then:</p><ol><li><strong>&lt;b&gt;</strong>") && !text.contains("else:"));
    }
}
