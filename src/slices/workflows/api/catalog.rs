//! The building blocks of definitions: types of steps and triggers with their schemas, and the starters.

use poem_openapi::{Object, types::Any};
use serde::Serialize;
use serde_json::{Value, json};

use super::super::{
    definition::{CONTROL, DEFINITION},
    starters::STARTERS,
    steps::Planners,
};

/// A type of step or trigger.
#[derive(Clone, Debug, Object, Serialize)]
pub(super) struct WorkflowType {
    /// The type, as a definition names it.
    #[oai(rename = "type")]
    #[serde(rename = "type")]
    kind: String,
    /// A description of what it does.
    summary: String,
    /// The scopes that the author of the workflow and the user or key that starts it must have.
    required_scopes: Vec<String>,
    /// The JSON Schema of the step's `with`, or of the whole trigger.
    schema: Any<Value>,
    /// An example of the step's `with`, or of the whole trigger.
    example: Any<Value>,
}

/// A ready-made definition that can be created by its name.
#[derive(Clone, Debug, Object, Serialize)]
pub(super) struct WorkflowStarter {
    /// The name to use as `starter`.
    name: String,
    /// The definition of the workflow.
    definition: Any<Value>,
}

/// The building blocks of definitions.
#[derive(Clone, Debug, Object, Serialize)]
pub(super) struct WorkflowCatalog {
    /// The types of steps.
    step_types: Vec<WorkflowType>,
    /// The types of triggers.
    triggers: Vec<WorkflowType>,
    /// The ready-made definitions.
    starters: Vec<WorkflowStarter>,
    /// The JSON Schema of a definition.
    definition_schema: Any<Value>,
}

pub(super) fn catalog(planners: &Planners) -> WorkflowCatalog {
    let actions = planners.iter().map(|step| WorkflowType {
        kind: step.name().to_owned(),
        summary: step.summary().to_owned(),
        required_scopes: step.scopes().iter().map(|scope| scope.name().to_owned()).collect(),
        schema: Any(step.schema()),
        example: Any(step.example()),
    });
    let control = CONTROL.values().map(|step| WorkflowType {
        kind: step.name.to_owned(),
        summary: step.summary.to_owned(),
        required_scopes: Vec::new(),
        schema: Any(step.schema.clone()),
        example: Any(step.example.clone()),
    });
    let mut step_types: Vec<WorkflowType> = actions.chain(control).collect();
    step_types.sort_by(|left, right| left.kind.cmp(&right.kind));
    let schema = &DEFINITION.0;
    let trigger = |name: &str, summary: &str, part: &str, example: Value| WorkflowType {
        kind: name.to_owned(),
        summary: summary.to_owned(),
        required_scopes: Vec::new(),
        schema: Any(schema.pointer(&format!("/components/schemas/{part}")).cloned().unwrap_or_default()),
        example: Any(example),
    };
    WorkflowCatalog {
        step_types,
        triggers: vec![
            trigger("manual", "A request starts a run.", "Manual", json!({"type": "manual"})),
            trigger(
                "event",
                "Each matching event of the tenant starts one run.",
                "Event",
                json!({"type": "event", "event": "ticket.created", "condition": "event.data.ticket.priority == 'critical'"}),
            ),
            trigger(
                "schedule",
                "A cron pattern in a time zone starts runs.",
                "Schedule",
                json!({"type": "schedule", "cron": "0 9 * * 1", "timezone": "Europe/Berlin", "catch_up": "run_once"}),
            ),
        ],
        starters: STARTERS
            .iter()
            .map(|starter| WorkflowStarter { name: starter.name.to_owned(), definition: Any(starter.definition.clone()) })
            .collect(),
        definition_schema: Any(schema.clone()),
    }
}
