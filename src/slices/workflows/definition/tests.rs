//! The problems of a definition are reported with their pointers, all at once.

use serde_json::{Value, json};

use tenantd_base::{access::Grants, programs::Budget};
use tenantd_store::events::{EventKind, Kinds};

use super::{super::steps::Planners, *};

static CREATED: EventKind =
    EventKind { name: "ticket.created", summary: "", subject: "ticket", schema: "Ticket", reads: Grants::NONE, has_changes: false };

fn faults(value: &Value) -> Vec<(String, String)> {
    let found = compile(value, &Planners::default(), &Kinds::new([&CREATED]), &Budget::for_tests());
    let mut found: Vec<_> =
        found.err().unwrap_or_default().into_iter().map(|fault| (fault.place.to_string(), fault.code)).collect();
    found.sort();
    found
}

fn definition(steps: Value) -> Value {
    json!({"key": "x", "name": "X", "steps": steps})
}

fn set(id: &str, value: &str) -> Value {
    json!({"id": id, "type": "set", "with": {"value": value}})
}

#[test]
fn all_problems_are_reported_with_their_pointers() {
    let value = json!({
        "key": "Not A Key",
        "nam": "X",
        "triggers": [
            {"type": "event", "event": "ticket.creatd", "condition": "event.data ="},
            {"type": "schedule", "cron": "61 * * * *", "timezone": "Mars/Base"},
            {"type": "sometimes"},
        ],
        "input_schema": {"type": "object", "properties": {"a": {"$ref": "http://169.254.169.254/x"}}},
        "timeout_seconds": 9_999_999,
        "concurrency": {"key": "{{ steps.a.output }}", "limit": 0},
        "steps": [
            {"id": "a", "type": "tickt.create"},
            {"id": "a", "type": "set", "with": {"v": "{{ steps.later.output }} {{ nobody }}"}},
            {"id": "b", "type": "wait.duration", "with": {"seconds": 0, "secs": 1}},
            {"id": "c", "type": "if", "with": {"condition": "inputs.a", "then": [{"id": "in", "type": "set", "retry": {"max_attempts": 11}}]}},
            {"id": "d", "type": "set", "with": {"v": "{% for x in y %}"}, "on_error": "explode"},
            {"id": "later", "type": "set"},
        ],
    });
    let found = faults(&value);
    for (pointer, code) in [
        ("/key", "wrong_form"),
        ("/nam", "unknown_field"),
        ("/name", "required"),
        ("/triggers/0/event", "unknown_event"),
        ("/triggers/0/condition", "expression_invalid"),
        ("/triggers/1/cron", "wrong_form"),
        ("/input_schema/properties/a/$ref", "reference_not_allowed"),
        ("/timeout_seconds", "too_large"),
        ("/concurrency/key", "unknown_name"),
        ("/concurrency/limit", "too_small"),
        ("/steps/0/type", "unknown_step_type"),
        ("/steps/1/id", "repeated"),
        ("/steps/1/with/v", "later_step"),
        ("/steps/1/with/v", "unknown_name"),
        ("/steps/2/with/seconds", "too_small"),
        ("/steps/2/with/secs", "unknown_field"),
        ("/steps/3/with/then/0/retry/max_attempts", "too_large"),
        ("/steps/4/with/v", "expression_invalid"),
        ("/steps/4/on_error", "not_allowed"),
    ] {
        assert!(found.contains(&(pointer.to_owned(), code.to_owned())), "{pointer} {code} is not in {found:#?}");
    }
    assert!(found.iter().any(|(pointer, _)| pointer.starts_with("/triggers/2")), "{found:#?}");
}

#[test]
fn a_step_sees_only_the_steps_before_it_on_every_path() {
    let each = |inner: Value| json!({"id": "each", "type": "for_each", "with": {"items": "{{ inputs.list }}", "steps": inner}});
    let parallel = |branches: Value| json!({"id": "both", "type": "parallel", "with": {"branches": branches}});
    for (name, steps, fault) in [
        ("the step before", json!([set("a", "1"), set("b", "{{ steps.a.output.value }}")]), None),
        ("itself", json!([set("a", "{{ steps.a.output }}")]), Some("later_step")),
        ("a later one", json!([set("a", "{{ steps.b.output }}"), set("b", "1")]), Some("later_step")),
        ("nobody", json!([set("a", "{{ steps.x.output }}")]), Some("unknown_step")),
        ("no name", json!([set("a", "{{ steps['x'] }}")]), Some("unknown_step")),
        ("within a loop", json!([each(json!([set("a", "{{ item }}"), set("b", "{{ steps.a.output }}")]))]), None),
        ("out of a loop", json!([each(json!([set("a", "1")])), set("b", "{{ steps.a.output }}")]), Some("later_step")),
        ("the loop itself", json!([each(json!([set("a", "1")])), set("b", "{{ steps.each.output.count }}")]), None),
        ("an item outside", json!([set("a", "{{ item }}")]), Some("unknown_name")),
        ("a sibling branch", json!([parallel(json!([[set("a", "1")], [set("b", "{{ steps.a.output }}")]]))]), Some("later_step")),
        ("after the join", json!([parallel(json!([[set("a", "1")]])), set("b", "{{ steps.a.output }}")]), None),
        ("an event of none", json!([set("a", "{{ event.id }}")]), Some("unknown_name")),
    ] {
        let found: Vec<String> = faults(&definition(steps)).into_iter().map(|(_, code)| code).collect();
        assert_eq!(found, fault.map(str::to_owned).into_iter().collect::<Vec<_>>(), "{name}");
    }
}

#[test]
fn a_definition_is_bounded_in_size_and_depth() {
    let many: Vec<Value> = (0..100).map(|number| set(&format!("s{number}"), "1")).collect();
    assert!(faults(&definition(json!(many))).is_empty());
    let mut deep = json!([set("leaf", "1")]);
    for level in 0..8 {
        deep = json!([{"id": format!("l{level}"), "type": "if", "with": {"condition": "true", "then": deep}}]);
    }
    assert_eq!(faults(&definition(deep))[0].1, "too_deep");
    let long = definition(json!([set("a", &"x".repeat(MAX_DEFINITION_BYTES))]));
    assert_eq!(faults(&long), [(String::new(), "too_long".to_owned())]);
}

#[test]
fn steps_and_blocks_are_numbered_in_text_order() {
    let inner = json!([{"id": "x", "type": "if", "with": {"condition": "true", "then": [set("y", "1")], "else": [set("z", "1")]}}, set("w", "1")]);
    let read = outline(&definition(inner), &Planners::default());
    let ids: Vec<&str> = read.steps.iter().map(|step| step.id.as_str()).collect();
    assert_eq!(ids, ["x", "y", "z", "w"]);
    assert_eq!(read.blocks, [vec![0, 3], vec![1], vec![2]]);
    assert_eq!(read.main, 0);
}

#[test]
fn inputs_get_defaults_and_are_validated() {
    let schema = json!({
        "type": "object",
        "required": ["name"],
        "properties": {"name": {"type": "string", "pattern": "^[a-z]+$"}, "count": {"type": "integer", "default": 3}},
        "additionalProperties": false,
    });
    let budget = Budget::for_tests();
    let schema = InputSchema::new(&schema, &budget).unwrap();
    assert_eq!(schema.complete(json!({"name": "ada"}), &budget).unwrap(), json!({"name": "ada", "count": 3}));
    let faults = schema.complete(json!({"name": "Ada", "count": "x", "more": 1}), &budget).unwrap_err();
    assert_eq!(faults.len(), 3, "{faults:?}");
    assert!(InputSchema::new(&json!({"type": "nonsense"}), &budget).is_err());
    let referring = json!({"$defs": {"a": {"type": "string"}}, "properties": {"x": {"$ref": "#/$defs/a"}}});
    assert!(InputSchema::new(&referring, &budget).is_ok());
}

#[test]
fn inputs_that_cost_too_much_to_check_are_refused() {
    let budget = Budget::for_tests();
    let codes = |schema: Value, inputs: Value| {
        let schema = InputSchema::new(&schema, &budget).unwrap();
        let faults = schema.complete(inputs, &Budget::for_tests()).unwrap_err();
        faults.into_iter().map(|fault| fault.code).collect::<Vec<_>>()
    };
    let many = json!({"list": vec![1; 5_000]});
    assert_eq!(codes(json!({}), many), ["too_many"]);
    let parts: Vec<Value> = (0..900).map(|number| json!({"const": number})).collect();
    assert_eq!(
        codes(json!({"properties": {"list": {"items": {"anyOf": parts}}}}), json!({"list": vec![1_000; 4_900]})),
        ["too_much_work"]
    );
    let patterns: Vec<Value> = (0..16).map(|number| json!({"pattern": format!("(a|b)*c{number}$")})).collect();
    assert_eq!(codes(json!({"properties": {"text": {"allOf": patterns}}}), json!({"text": "a".repeat(60_000)})), ["too_much_work"]);
}

#[test]
fn a_pattern_with_a_large_automaton_is_refused() {
    for pattern in ["\\pL{150}x", "(\\w{200}){200}", "[\\pL\\pN]{1,250}"] {
        let refused = InputSchema::new(&json!({"pattern": pattern}), &Budget::for_tests());
        assert_eq!(refused.unwrap_err().code, "schema_invalid", "{pattern}");
    }
}

#[test]
fn an_outline_has_the_same_numbers_as_the_program() {
    let value = definition(json!([
        {"id": "a", "type": "parallel", "with": {"branches": [[set("b", "1")], [set("c", "2")]]}},
        {"id": "d", "type": "for_each", "with": {"items": "{{ inputs.list }}", "steps": [set("e", "{{ item }}")]}},
    ]));
    let program = compile(&value, &Planners::default(), &Kinds::new([&CREATED]), &Budget::for_tests()).unwrap();
    let outline = outline(&value, &Planners::default());
    assert_eq!(outline.blocks, program.definition.blocks);
    let ids = |definition: &Definition| definition.steps.iter().map(|step| (step.number, step.id.clone())).collect::<Vec<_>>();
    assert_eq!(ids(&outline), ids(&program.definition));
}
