//! The schemas of a definition and of the control steps: branches, loops, waits, approvals. Control steps contain other steps.
//! `read` interprets the fields.

use std::{collections::BTreeMap, sync::LazyLock};

use serde_json::{Value, json};

use tenantd_base::{access::Role, fault::Fault, letters::is_blank};
use tenantd_http::schema::BodySchema;

use super::{super::steps::compile, Approval, Definition, Step, StepKind};

const EXPRESSION: &str = "An expression without braces.";
pub(crate) const MAX_SECONDS: u64 = 2_592_000;

/// The roles that can decide about an approval.
const APPROVERS: [&str; 2] = ["admin", "technician"];

/// What a new definition may not have, and a stored one of an earlier release may: a blank name, and approvals that name a role that
/// cannot decide.
pub(crate) fn faults_of_new(definition: &Definition) -> Vec<Fault> {
    let is_blank = !definition.name.is_empty() && is_blank(&definition.name);
    let blank = is_blank.then(|| Fault::new("/name", "wrong_form", "must not be blank"));
    let of_step = |step: &Step| {
        let StepKind::Approval(Approval { roles, .. }) = &step.kind else { return Vec::new() };
        let is_idle = |(_, role): &(usize, &String)| *role == Role::Viewer.name();
        let fault = |(place, _): (usize, &String)| {
            let at = format!("{}/with/roles/{place}", step.pointer);
            Fault::new(at, "not_allowed", "viewers cannot approve or reject").with_allowed(APPROVERS)
        };
        roles.iter().enumerate().filter(is_idle).map(fault).collect()
    };
    blank.into_iter().chain(definition.steps.iter().flat_map(|step| of_step(step))).collect()
}

/// A step type that is part of the language.
#[derive(Debug)]
pub(crate) struct ControlType {
    pub(crate) name: &'static str,
    pub(crate) summary: &'static str,
    pub(crate) schema: Value,
    pub(crate) example: Value,
    pub(super) compiled: Option<BodySchema>,
}

fn components() -> Value {
    json!({"schemas": {
        "Retry": {
            "type": "object",
            "additionalProperties": false,
            "required": ["max_attempts"],
            "properties": {
                "max_attempts": {"type": "integer", "minimum": 1, "maximum": 10},
                "backoff": {"type": "string", "enum": ["fixed", "exponential"]},
                "initial_seconds": {"type": "integer", "minimum": 1, "maximum": 86_400},
                "max_seconds": {"type": "integer", "minimum": 1, "maximum": 86_400},
            },
        },
        "Step": {
            "type": "object",
            "additionalProperties": false,
            "required": ["id", "type"],
            "properties": {
                "id": {"type": "string", "pattern": "^[a-z][a-z0-9_]{0,39}$"},
                "type": {"type": "string", "minLength": 1, "maxLength": 60},
                "with": {"type": "object"},
                "if": {"type": "string", "minLength": 1, "maxLength": 1000, "description": EXPRESSION},
                "retry": {"$ref": "#/components/schemas/Retry"},
                "timeout_seconds": {"type": "integer", "minimum": 1, "maximum": MAX_SECONDS},
                "on_error": {"type": "string", "enum": ["fail", "continue"]},
            },
        },
        "Manual": {
            "type": "object",
            "additionalProperties": false,
            "required": ["type"],
            "properties": {"type": {"type": "string", "enum": ["manual"]}},
        },
        "Event": {
            "type": "object",
            "additionalProperties": false,
            "required": ["type", "event"],
            "properties": {
                "type": {"type": "string", "enum": ["event"]},
                "event": {"type": "string", "minLength": 1, "maxLength": 60},
                "condition": {"type": "string", "minLength": 1, "maxLength": 1000, "description": EXPRESSION},
            },
        },
        "Schedule": {
            "type": "object",
            "additionalProperties": false,
            "required": ["type", "cron"],
            "properties": {
                "type": {"type": "string", "enum": ["schedule"]},
                "cron": {"type": "string", "minLength": 1, "maxLength": 100, "description": "Five fields: minute, hour, day of the month, month, day of the week."},
                "timezone": {"type": "string", "minLength": 1, "maxLength": 60, "description": "The IANA name of a time zone. Defaults to UTC."},
                "catch_up": {"type": "string", "enum": ["skip", "run_once"], "description": "How to handle missed occurrences. Defaults to `skip`."},
            },
        },
    }})
}

fn steps(least: u64) -> Value {
    json!({"type": "array", "items": {"$ref": "#/components/schemas/Step"}, "minItems": least, "maxItems": 100})
}

/// The schema of a whole definition.
pub(crate) static DEFINITION: LazyLock<(Value, Option<BodySchema>)> = LazyLock::new(|| {
    let trigger = json!({"anyOf": [
        {"$ref": "#/components/schemas/Manual"},
        {"$ref": "#/components/schemas/Event"},
        {"$ref": "#/components/schemas/Schedule"},
    ]});
    let schema = json!({
        "type": "object",
        "additionalProperties": false,
        "required": ["key", "name", "steps"],
        "properties": {
            "key": {"type": "string", "pattern": "^[a-z0-9][a-z0-9-]{0,63}$"},
            "name": {"type": "string", "minLength": 1, "maxLength": 100},
            "description": {"type": "string", "minLength": 1, "maxLength": 1000},
            "enabled": {"type": "boolean"},
            "triggers": {"type": "array", "items": trigger, "minItems": 1, "maxItems": 10},
            "input_schema": {"type": "object"},
            "timeout_seconds": {"type": "integer", "minimum": 1, "maximum": MAX_SECONDS},
            "concurrency": {
                "type": "object",
                "additionalProperties": false,
                "required": ["key"],
                "properties": {
                    "key": {"type": "string", "minLength": 1, "maxLength": 1000},
                    "limit": {"type": "integer", "minimum": 1, "maximum": 100},
                    "on_conflict": {"type": "string", "enum": ["queue", "reject", "use_existing", "cancel_existing"]},
                },
            },
            "steps": steps(1),
            "on_failure": steps(1),
        },
        "components": components(),
    });
    let compiled = compile(&schema).ok();
    (schema, compiled)
});

/// The control steps by name.
pub(crate) static CONTROL: LazyLock<BTreeMap<&'static str, ControlType>> = LazyLock::new(|| {
    let mut types = BTreeMap::new();
    let text = |most: u32| json!({"type": "string", "minLength": 1, "maxLength": most});
    let condition = || json!({"type": "string", "minLength": 1, "maxLength": 1000, "description": EXPRESSION});
    let mut add = |name: &'static str, summary: &'static str, required: &[&str], properties: Value, example: Value| {
        let schema = json!({
            "type": "object", "additionalProperties": false, "required": required, "properties": properties,
            "components": components(),
        });
        let compiled = compile(&schema).ok();
        types.insert(name, ControlType { name, summary, schema, example, compiled });
    };
    let inner = json!([{"id": "note", "type": "set", "with": {"seen": true}}]);
    add(
        "if",
        "Runs one of two lists of steps.",
        &["condition", "then"],
        json!({"condition": condition(), "then": steps(1), "else": steps(1)}),
        json!({"condition": "inputs.urgent", "then": inner}),
    );
    let items = json!({"anyOf": [{"type": "string", "minLength": 1}, {"type": "array", "maxItems": 1000}]});
    add(
        "for_each",
        "Runs its steps once for each item. Expressions read it as `item` and `item_index`. The output has the `count` of items and \
         `outputs`: for each item an object with the outputs of its steps by their ids, up to 127 KiB in total. With more, `truncated` is true \
         and the last items are missing.",
        &["items", "steps"],
        json!({"items": items, "steps": steps(1), "max_parallel": {"type": "integer", "minimum": 1, "maximum": 10}}),
        json!({"items": "{{ inputs.devices }}", "steps": inner, "max_parallel": 5}),
    );
    add(
        "parallel",
        "Runs several lists of steps in parallel and waits for all of them.",
        &["branches"],
        json!({"branches": {"type": "array", "items": steps(1), "minItems": 1, "maxItems": 10}}),
        json!({"branches": [inner]}),
    );
    add(
        "wait.duration",
        "Waits for a number of seconds.",
        &["seconds"],
        json!({"seconds": {"type": "integer", "minimum": 1, "maximum": MAX_SECONDS}}),
        json!({"seconds": 3600}),
    );
    add(
        "wait.event",
        "Waits for an event, which becomes its output. `timeout_seconds` of the step limits the wait.",
        &["event"],
        json!({"event": text(60), "resource_id": text(100), "condition": condition()}),
        json!({"event": "ticket.resolved", "resource_id": "{{ steps.ticket.output.id }}"}),
    );
    let roles = json!({"type": "array", "items": {"type": "string", "enum": ["admin", "technician", "viewer"]}, "minItems": 1, "maxItems": 3, "uniqueItems": true});
    add(
        "approval",
        "Waits until enough people have approved. With `roles`, only people with one of these roles decide; otherwise anyone with the scope workflows:approve.",
        &[],
        json!({
            "roles": roles,
            "required": {"type": "integer", "minimum": 1, "maximum": 10},
            "timeout_seconds": {"type": "integer", "minimum": 1, "maximum": MAX_SECONDS},
            "on_timeout": {"type": "string", "enum": ["fail", "reject", "approve"]},
            "self_approval": {"type": "boolean"},
            "message": text(1000),
        }),
        json!({"roles": ["admin"], "required": 1, "timeout_seconds": 86_400, "message": "Delete the account?"}),
    );
    let open = |types: &mut BTreeMap<&'static str, ControlType>, name, summary, example| {
        let schema = json!({"type": "object"});
        let compiled = compile(&schema).ok();
        types.insert(name, ControlType { name, summary, schema, example, compiled });
    };
    add(
        "assert",
        "Fails the step unless a condition holds.",
        &["condition"],
        json!({"condition": condition(), "message": text(1000)}),
        json!({"condition": "steps.call.output.status == 200", "message": "The service did not return 200."}),
    );
    add(
        "fail",
        "Fails the step with a message.",
        &["message"],
        json!({"message": text(1000), "code": {"type": "string", "pattern": "^[a-z][a-z0-9_]{0,39}$"}}),
        json!({"message": "{{ inputs.user_id }} is still signed in", "code": "still_active"}),
    );
    add(
        "return",
        "Ends the run successfully, with an output.",
        &[],
        json!({"output": {}}),
        json!({"output": {"ticket": "{{ steps.ticket.output.ref }}"}}),
    );
    add(
        "workflow.call",
        "Starts another workflow, waits until that run ends, and returns its output. If `wait` is false, it does not wait and its \
         output is `{\"run_id\": …}`.",
        &["workflow_key"],
        json!({"workflow_key": text(64), "inputs": {"type": "object"}, "wait": {"type": "boolean"}}),
        json!({"workflow_key": "notify-team", "inputs": {"text": "{{ run.id }} has started"}}),
    );
    open(
        &mut types,
        "set",
        "Computes values and returns them as its output.",
        json!({"full_name": "{{ inputs.given }} {{ inputs.family }}"}),
    );
    // Earlier releases stored workflows that name viewers, who cannot decide. New versions may not.
    if let Some(allowed) = types.get_mut("approval").and_then(|step| step.schema.pointer_mut("/properties/roles")) {
        *allowed = json!({"type": "array", "items": {"type": "string", "enum": APPROVERS}, "minItems": 1, "maxItems": APPROVERS.len(), "uniqueItems": true});
    }
    types
});
