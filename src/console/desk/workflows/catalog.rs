//! The building blocks of definitions, as the API lists them: help for the editor, and the scopes that a definition needs.

use std::collections::BTreeSet;

use maud::{Markup, html};
use serde::Deserialize;
use serde_json::Value;

use super::{
    API,
    definition::{all_steps, event_kinds, written},
    record::text,
};
use crate::{
    components::{code, code_block, table},
    refusal::Refusal,
    visitor::Visitor,
};

#[derive(Debug, Deserialize)]
pub(super) struct Catalog {
    step_types: Vec<Kind>,
    triggers: Vec<Kind>,
    pub(super) starters: Vec<Starter>,
}

/// A type of steps or triggers, or a kind of events.
#[derive(Debug, Deserialize)]
pub(super) struct Kind {
    #[serde(rename = "type")]
    name: String,
    summary: String,
    required_scopes: Vec<String>,
    example: Value,
}

#[derive(Debug, Deserialize)]
pub(super) struct Starter {
    pub(super) name: String,
    pub(super) definition: Value,
}

#[derive(Debug, Deserialize)]
struct EventKinds {
    data: Vec<Kind>,
}

/// The catalog with the kinds of events.
#[derive(Debug)]
pub(super) struct Help {
    pub(super) catalog: Catalog,
    events: Vec<Kind>,
}

pub(super) async fn catalog(visitor: &Visitor<'_>) -> Result<Catalog, Refusal> {
    visitor.read(format!("{API}?view=catalog")).await
}

pub(super) async fn help(visitor: &Visitor<'_>) -> Result<Help, Refusal> {
    let events = visitor.read_if_allowed::<EventKinds>("/api/events/catalog").await?;
    Ok(Help { catalog: catalog(visitor).await?, events: events.map_or_else(Vec::new, |kinds| kinds.data) })
}

impl Starter {
    pub(super) fn title(&self) -> &str {
        text(&self.definition, "name")
    }

    /// The definition for a workflow that does not act yet.
    pub(super) fn disabled(&self) -> Value {
        let mut definition = self.definition.clone();
        if let Some(members) = definition.as_object_mut() {
            members.insert("enabled".to_owned(), false.into());
        }
        definition
    }
}

impl Help {
    /// The scopes that the owner of a definition needs.
    pub(super) fn needs(&self, definition: &Value) -> BTreeSet<&str> {
        let types = all_steps(definition).into_iter().filter_map(|step| find(&self.catalog.step_types, text(step, "type")));
        let events = event_kinds(definition).into_iter().filter_map(|name| find(&self.events, name));
        types.chain(events).flat_map(|kind| &kind.required_scopes).map(String::as_str).collect()
    }

    /// What a definition can have, collapsed.
    pub(super) fn show(&self) -> Markup {
        html! {
            p {
                "Texts can have templates such as " (code("{{ inputs.name }}")) ". The names are "
                (code("inputs")) ", " (code("steps.ID.output")) ", " (code("event")) ", " (code("run")) ", and " (code("item")) " in a loop. "
                a href="/documentation/guides/workflows/" { "Guide to workflows" }
            }
            details {
                summary { "Types of steps" }
                (kinds("Types of steps", &self.catalog.step_types, true))
            }
            details {
                summary { "Triggers" }
                (kinds("Triggers", &self.catalog.triggers, true))
            }
            @if !self.events.is_empty() {
                details {
                    summary { "Kinds of events" }
                    (kinds("Kinds of events", &self.events, false))
                }
            }
        }
    }
}

fn find<'a>(kinds: &'a [Kind], name: &str) -> Option<&'a Kind> {
    kinds.iter().find(|kind| kind.name == name)
}

/// The example of a step is its `with`. That of an event is long, and the documentation has it.
fn kinds(label: &str, kinds: &[Kind], with_example: bool) -> Markup {
    let row = |kind: &Kind| {
        let scopes = &kind.required_scopes;
        let about = html! {
            p { (kind.summary) }
            @if !scopes.is_empty() { p.muted { "Needs " (scopes.join(", ")) } }
            @if with_example { (code_block("json", &written(&kind.example))) }
        };
        vec![code(&kind.name), about]
    };
    table(label, &["Name", "About"], &kinds.iter().map(row).collect::<Vec<_>>())
}
