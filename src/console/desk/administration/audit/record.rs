//! A record of the audit, and what the list shows of it.

use maud::{Markup, html};
use serde::Deserialize;
use serde_json::Value;

use super::PATH;
use crate::{
    components::{code_block, pretty, words},
    desk::organizations::{counted, optional},
    query::Query,
    visitor::Visitor,
};

/// A longer value is folded.
const MAX_INLINE: usize = 60;

#[derive(Debug, Deserialize)]
pub(super) struct Record {
    number: u64,
    at: String,
    action: String,
    actor: Actor,
    resource: Resource,
    changes: Option<Value>,
    /// The workflow run that acted.
    run_id: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Actor {
    kind: String,
    id: String,
    name: String,
}

#[derive(Debug, Deserialize)]
struct Resource {
    kind: String,
    id: String,
}

impl Record {
    pub(super) fn row(&self, query: &Query, visitor: &Visitor<'_>) -> Markup {
        let only = |name: &str, value: &str| query.clone().without("cursor").with(name, value).at(PATH);
        html! {
            tr {
                td { (self.number) }
                td.time { (visitor.clock.absolute(&self.at)) }
                td.main { a href=(only("action", &self.action)) { (self.action) } }
                td.name {
                    a href=(only("actor_id", &self.actor.id)) { (self.actor.name) }
                    " " small.muted { (words(&self.actor.kind)) }
                    @if let Some(run) = &self.run_id { " " small.muted { "in " (run) } }
                }
                td.name { (words(&self.resource.kind)) " " a href=(only("resource_id", &self.resource.id)) { code { (self.resource.id) } } }
                td { (changes(self.changes.as_ref())) }
            }
        }
    }
}

/// The changed fields with their old and new values.
fn changes(changes: Option<&Value>) -> Markup {
    let Some(changes) = changes else { return optional(None) };
    let Some(fields) = changes.as_object() else { return folded("Changes", changes) };
    html! {
        ul.plain {
            @for (name, change) in fields { li { strong { (words(name)) } ": " (change_of(change)) } }
        }
    }
}

fn change_of(change: &Value) -> Markup {
    let (Some(from), Some(to)) = (change.get("from"), change.get("to")) else { return value(change) };
    html! { (value(from)) " → " (value(to)) }
}

fn value(value: &Value) -> Markup {
    match value {
        Value::Null => html! { span.muted { "nothing" } },
        Value::Bool(true) => html! { "yes" },
        Value::Bool(false) => html! { "no" },
        Value::String(text) => html! { (text) },
        Value::Number(number) => html! { (number.to_string()) },
        Value::Array(items) if value.to_string().len() > MAX_INLINE => {
            folded(&counted(items.len() as u64, "value", "values"), value)
        }
        Value::Object(members) if value.to_string().len() > MAX_INLINE => {
            folded(&counted(members.len() as u64, "field", "fields"), value)
        }
        Value::Array(_) | Value::Object(_) => html! { code { (value.to_string()) } },
    }
}

fn folded(title: &str, value: &Value) -> Markup {
    html! { details { summary { (title) } (code_block("json", &pretty(value))) } }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_change_shows_the_old_and_the_new_value_as_text() {
        let shown =
            changes(Some(&json!({"role": {"from": "<viewer>", "to": null}, "enabled": {"from": true, "to": false}}))).into_string();
        assert!(shown.contains("Role") && shown.contains("&lt;viewer&gt;") && shown.contains("nothing"), "{shown}");
        assert!(shown.contains("yes → no"), "{shown}");
        let long = changes(Some(&json!({"targets": {"from": null, "to": ["x".repeat(MAX_INLINE)]}}))).into_string();
        assert!(long.contains("<summary>1 value</summary>"), "{long}");
        assert!(changes(None).into_string().contains('–'));
    }
}
