//! A workflow as the API answers it, and the words for its parts.

use maud::Markup;
use serde::Deserialize;
use serde_json::{Map, Value};

use tenantd_base::access::Scope;
use tenantd_http::problem::Code;

use super::{API, PATH};
use crate::{
    components::{Tone, badge, words},
    moment::minutes,
    query::segment,
    refusal::Refusal,
    visitor::Visitor,
};

/// The members of a definition that a record has beside its key, name, description and state.
const PARTS: [&str; 6] = ["triggers", "input_schema", "timeout_seconds", "concurrency", "steps", "on_failure"];

#[derive(Debug, Deserialize)]
pub(super) struct Workflow {
    pub(super) id: String,
    pub(super) key: String,
    pub(super) name: String,
    pub(super) description: Option<String>,
    pub(super) enabled: bool,
    pub(super) version: u64,
    pub(super) last_run: Option<LastRun>,
    pub(super) archived_at: Option<String>,
    pub(super) created_by: Author,
    pub(super) created_at: String,
    pub(super) updated_at: String,
    #[serde(flatten)]
    rest: Map<String, Value>,
}

#[derive(Debug, Deserialize)]
pub(super) struct LastRun {
    pub(super) id: String,
    pub(super) status: String,
    pub(super) created_at: String,
}

#[derive(Debug, Deserialize)]
pub(super) struct Author {
    pub(super) name: String,
}

/// The workflow that the path names.
pub(super) async fn workflow(visitor: &Visitor<'_>) -> Result<Workflow, Refusal> {
    visitor.read(format!("{API}/{}", segment(visitor.part("id")))).await
}

/// The operation of some pages also starts runs, which needs less.
pub(super) fn must_write(visitor: &Visitor<'_>) -> Result<(), Refusal> {
    if visitor.may(Scope::WorkflowsWrite) {
        return Ok(());
    }
    Err(Refusal::new(Code::InsufficientScope, "To write workflows you need the scope workflows:write."))
}

impl Workflow {
    pub(super) fn path(&self) -> String {
        format!("{PATH}/{}", self.id)
    }

    pub(super) fn api(&self) -> String {
        format!("{API}/{}", self.id)
    }

    /// The definition without the name and the description, which have fields of their own.
    pub(super) fn definition(&self) -> Value {
        let parts = PARTS.iter().filter_map(|name| Some(((*name).to_owned(), self.rest.get(*name)?.clone())));
        let head = [("key".to_owned(), Value::from(self.key.as_str())), ("enabled".to_owned(), Value::from(self.enabled))];
        Value::Object(head.into_iter().chain(parts).collect())
    }

    /// The whole definition, as `create` takes it.
    pub(super) fn whole_definition(&self) -> Value {
        let mut definition = self.definition();
        if let Some(members) = definition.as_object_mut() {
            members.insert("name".to_owned(), self.name.as_str().into());
            if let Some(description) = &self.description {
                members.insert("description".to_owned(), description.as_str().into());
            }
        }
        definition
    }

    pub(super) fn input_schema(&self) -> Option<&Value> {
        self.rest.get("input_schema")
    }

    pub(super) fn timeout(&self) -> Option<String> {
        self.rest.get("timeout_seconds")?.as_u64().map(duration)
    }

    pub(super) fn triggers(&self) -> &[Value] {
        triggers(&self.rest)
    }

    /// Whether somebody may start it by hand.
    pub(super) fn is_manual(&self) -> bool {
        self.triggers().is_empty() || self.triggers().iter().any(|trigger| text(trigger, "type") == "manual")
    }

    /// Whether a person can start it now.
    pub(super) fn can_start(&self) -> bool {
        self.is_manual() && self.enabled && self.archived_at.is_none()
    }

    pub(super) fn state(&self) -> Markup {
        match (&self.archived_at, self.enabled) {
            (Some(_), _) => badge(Tone::Neutral, "Archived"),
            (None, true) => badge(Tone::Good, "Enabled"),
            (None, false) => badge(Tone::Neutral, "Disabled"),
        }
    }
}

/// The triggers of a definition. Without any, it is started by hand.
pub(super) fn triggers(definition: &Map<String, Value>) -> &[Value] {
    definition.get("triggers").and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// A member that is a text; empty if there is none.
pub(crate) fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// What a trigger waits for, in a few words.
pub(super) fn trigger_words(trigger: &Value) -> String {
    match text(trigger, "type") {
        "event" => text(trigger, "event").to_owned(),
        "schedule" => {
            let zone = Some(text(trigger, "timezone")).filter(|zone| !zone.is_empty()).unwrap_or("UTC");
            format!("{} {zone}", text(trigger, "cron"))
        }
        "manual" => "By hand".to_owned(),
        other => words(other),
    }
}

/// A length of time, such as `24 h`.
pub(super) fn duration(seconds: u64) -> String {
    if seconds > 0 && seconds.is_multiple_of(60) { minutes(seconds / 60) } else { format!("{seconds} s") }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_record_gives_the_definition_that_the_api_takes() {
        let record = json!({
            "id": "wfl_1", "key": "k", "name": "N", "enabled": false, "version": 2, "created_by": {"kind": "user", "id": "usr_1", "name": "Ada"},
            "created_at": "2026-01-31T09:30:00.000Z", "updated_at": "2026-01-31T09:30:00.000Z", "timeout_seconds": 86_400,
            "triggers": [{"type": "event", "event": "ticket.created"}], "steps": [{"id": "a", "type": "set"}], "later": 1,
        });
        let workflow: Workflow = serde_json::from_value(record).unwrap();
        let definition = json!({
            "key": "k", "enabled": false, "timeout_seconds": 86_400, "triggers": [{"type": "event", "event": "ticket.created"}],
            "steps": [{"id": "a", "type": "set"}],
        });
        assert_eq!(workflow.definition(), definition);
        assert!(!workflow.is_manual());
        assert_eq!(workflow.timeout().as_deref(), Some("24 h"));
    }

    #[test]
    fn triggers_have_words() {
        let schedule = json!({"type": "schedule", "cron": "0 7 * * 1"});
        assert_eq!(trigger_words(&schedule), "0 7 * * 1 UTC");
        assert_eq!(trigger_words(&json!({"type": "manual"})), "By hand");
        assert_eq!((duration(90), duration(5400)), ("90 s".to_owned(), "1 h 30 min".to_owned()));
    }
}
