//! Programs of tenants that are designed to do harm: each is refused, or ends within its budget. Other tenants can write in the
//! meantime.

use serde_json::{Map, Value, json};

use crate::{
    harness::with_app,
    workflows::{Desk, PATH, set},
};

/// Definitions of which each refers to the next one twice: the number of checks doubles with every level.
fn doubling(keyword: &str, levels: usize) -> Value {
    let mut definitions = Map::new();
    for level in 0..levels {
        let next = json!({"$ref": format!("#/$defs/n{}", level + 1)});
        let inner = match keyword {
            "not" => json!({"not": {"allOf": [{"not": next}, {"not": next}]}}),
            "if" => json!({"if": next, "then": next, "else": next}),
            "properties" | "dependentSchemas" => json!({keyword: {"a": next, "b": next}}),
            "items" => json!({"items": next, "contains": next}),
            _ => json!({keyword: [next, next]}),
        };
        definitions.insert(format!("n{level}"), inner);
    }
    definitions.insert(format!("n{levels}"), json!({"type": "object"}));
    json!({"$ref": "#/$defs/n0", "$defs": definitions})
}

/// Schemas that would take unbounded time, memory or depth.
fn schemas() -> Vec<(String, Value)> {
    let mut found = Vec::new();
    for keyword in ["allOf", "anyOf", "oneOf", "prefixItems", "not", "if", "properties", "dependentSchemas", "items"] {
        for levels in [12, 28, 60, 300] {
            found.push((format!("{keyword} {levels}"), doubling(keyword, levels)));
        }
    }
    let mut deep = json!({"type": "object"});
    for _ in 0..20 {
        deep = json!({"properties": {"a": deep}});
    }
    let wide: Vec<Value> = (0..2_100).map(|_| json!({"type": "null"})).collect();
    let patterns: Map<String, Value> = (0..50).map(|n| (format!("p{n}"), json!({"pattern": "\\pL{150}x"}))).collect();
    for (name, schema) in [
        ("itself", json!({"$ref": "#"})),
        ("a circle", json!({"$ref": "#/$defs/a", "$defs": {"a": {"items": {"$ref": "#/$defs/a"}}}})),
        ("a dynamic reference", json!({"$dynamicAnchor": "x", "items": {"$dynamicRef": "#x"}})),
        ("unevaluated properties", json!({"unevaluatedProperties": {"type": "string"}})),
        ("unevaluated items", json!({"unevaluatedItems": false})),
        ("depth", deep),
        ("width", json!({"anyOf": wide})),
        ("patterns", json!({"properties": patterns})),
        ("one large pattern", json!({"pattern": "(\\w{200}){200}"})),
        ("patterns of properties", json!({"patternProperties": {"(\\w{200}){200}": {}}})),
        ("a format that compiles", json!({"format": "regex"})),
        ("another host", json!({"$ref": "http://127.0.0.1:1/x"})),
        ("an id", json!({"$id": "https://a.example/", "$ref": "b"})),
    ] {
        found.push((name.to_owned(), schema));
    }
    found
}

#[tokio::test]
async fn a_hostile_schema_is_refused_with_its_position() {
    with_app(async |app| {
        let desk = Desk::new(app, "acme").await;
        for (name, schema) in schemas() {
            let definition = json!({"key": "x", "name": "X", "input_schema": schema, "steps": [set("a", json!(1))]});
            let reply = desk.try_create(definition.clone()).await;
            assert_eq!(reply.problem(422), "validation_failed", "{name}");
            let places = reply.field_errors();
            assert!(places.iter().all(|(place, _)| place.starts_with("/definition/input_schema")), "{name}: {places:?}");
            let reply = desk.key.post(PATH).json(json!({"action": "validate", "definition": definition})).send().await;
            assert_eq!(reply.ok(200)["valid"], false, "{name}");
        }
    })
    .await;
}

#[tokio::test]
async fn a_hostile_expression_fails_only_its_step() {
    with_app(async |app| {
        let desk = Desk::new(app, "acme").await;
        let other = Desk::new(app, "other").await;
        let text = "ab".repeat(30_000);
        let joined = ["inputs.x"; 16].join("~");
        for (number, expression) in [
            format!("({joined})|split('a')|sort|list|length"),
            format!("({joined})|upper|lower|title|trim|length"),
            "inputs.x|list|sort|unique|length".to_owned(),
            "inputs.x|replace('a', inputs.x)|length".to_owned(),
            "(inputs.x ~ inputs.x) == (inputs.x ~ inputs.x)|lower|list".to_owned(),
        ]
        .into_iter()
        .enumerate()
        {
            let key = format!("hostile-{number}");
            desk.workflow(&key, json!([set("a", json!(format!("{{{{ {expression} }}}}")))])).await;
            let run = desk.start(&key, json!({"x": text})).await;
            // Another tenant writes during the evaluation.
            other.ticket("meanwhile").await;
            let run = desk.status(&run, "failed").await;
            let code = run["error"]["code"].as_str().unwrap();
            assert!(["value_too_large", "expression_too_long"].contains(&code), "{expression}: {code}");
        }
    })
    .await;
}

#[tokio::test]
async fn a_hostile_concurrency_key_fails_the_start() {
    with_app(async |app| {
        let desk = Desk::new(app, "acme").await;
        let joined = ["inputs.x"; 16].join("~");
        let key = format!("{{{{ ({joined})|split('a')|sort|list|length }}}}");
        let definition = json!({"key": "x", "name": "X", "concurrency": {"key": key}, "steps": [set("a", json!(1))]});
        desk.create(definition).await;
        let start = json!({"workflow_key": "x", "inputs": {"x": "ab".repeat(30_000)}});
        let reply = desk.key.post(PATH).json(start).send().await;
        assert_eq!(reply.problem(422), "validation_failed");
        assert_eq!(reply.field_errors(), [("/concurrency/key".to_owned(), "value_too_large".to_owned())]);
    })
    .await;
}

#[tokio::test]
async fn costly_conditions_do_not_delay_other_tenants() {
    with_app(async |app| {
        let (noisy, quiet) = (Desk::new(app, "noisy").await, Desk::new(app, "quiet").await);
        let costly = format!("'x' in (({})|upper|lower|title|capitalize|trim)", ["event.data.ticket.description"; 4].join("~"));
        for number in 0..10 {
            let trigger = json!({"type": "event", "event": "ticket.created", "condition": costly});
            let key = format!("costly-{number}");
            noisy.create(json!({"key": key, "name": key, "triggers": [trigger], "steps": [set("a", json!(1))]})).await;
        }
        quiet.create(json!({"key": "q", "name": "Q", "triggers": [{"type": "event", "event": "ticket.created"}], "steps": [set("a", json!(1))]})).await;
        for number in 0..20 {
            let body = json!({"subject": format!("{number}"), "organization_id": noisy.organization, "description": "y".repeat(15_000)});
            noisy.key.post("/api/psa/tickets").json(body).send().await.ok(201);
        }
        quiet.ticket("mine").await;
        let started = async {
            while quiet.runs("&status=succeeded").await.is_empty() {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(std::time::Duration::from_secs(30), started).await.expect("the run of the quiet tenant");
    })
    .await;
}
