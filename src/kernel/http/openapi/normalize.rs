//! Converts the OpenAPI 3.0 of poem-openapi to the 3.1 that we publish.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::{
    super::{
        LINES,
        bounded::{NO_CONTROL_CHARACTERS, VISIBLE_BOUNDED_TEXT, VISIBLE_TEXT},
        mark::Marks,
        schema::resolve,
    },
    NEED_PREFIX, OPEN_QUERY_PARAMETER, QUERY_PARAMETER,
};

/// Header parameters: the name of the handler's argument, the HTTP name, and the description.
const HEADERS: [(&str, &str, &str); 3] = [
    (
        "if_match",
        "If-Match",
        "The `ETag` that the record must have. If it has changed, the request fails with 412 and changes nothing.",
    ),
    (
        "if_none_match",
        "If-None-Match",
        "An `ETag` that you already have. If the record still has it, the answer is 304 without a body.",
    ),
    (
        "idempotency_key",
        "Idempotency-Key",
        "A unique name for this request. Within 24 hours, a repeated request with the same key gets the first answer again.",
    ),
];

/// Members of a schema that hold values instead of schemas.
pub(super) const VALUES: [&str; 5] = ["example", "examples", "default", "enum", "const"];

/// Rewrites all schemas below `value`: null as a type, bounds as numbers, references without a wrapper, no redundant members.
pub(super) fn schema_tree(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(schema_tree),
        Value::Object(object) => {
            for (name, part) in object.iter_mut().filter(|(name, _)| !VALUES.contains(&name.as_str())) {
                match part {
                    // The members in `properties` have names that somebody chose: a property can be called `type` or `example` too.
                    Value::Object(properties) if name == "properties" => properties.values_mut().for_each(schema_tree),
                    _ => schema_tree(part),
                }
            }
            object.retain(|name, value| !(name == "deprecated" && *value == Value::Bool(false)));
            unwrap_reference(object);
            allow_null(object);
            exclusive_bound(object, "minimum", "exclusiveMinimum");
            exclusive_bound(object, "maximum", "exclusiveMaximum");
            whole_bounds(object);
            unsigned_bounds(object);
            let is_schema = object.contains_key("type") || object.contains_key("$ref");
            if is_schema && let Some(example) = object.remove("example") {
                object.insert("examples".to_owned(), json!([example]));
            }
        }
        _ => {}
    }
}

/// `allOf: [reference, annotations]` is a workaround of 3.0. In 3.1 annotations are allowed next to the reference.
fn unwrap_reference(object: &mut Map<String, Value>) {
    let Some(Value::Array(parts)) = object.get("allOf") else { return };
    let reference = parts.first().and_then(|part| part.get("$ref")).cloned();
    let (Some(reference), true) = (reference, parts.len() == 2) else { return };
    let annotations = parts.get(1).and_then(Value::as_object).cloned().unwrap_or_default();
    object.remove("allOf");
    object.extend(annotations);
    object.insert("$ref".to_owned(), reference);
}

fn allow_null(object: &mut Map<String, Value>) {
    if object.remove("nullable") != Some(Value::Bool(true)) {
        return;
    }
    if let Some(Value::String(kind)) = object.get("type").cloned() {
        object.insert("type".to_owned(), json!([kind, "null"]));
    } else if let Some(reference) = object.remove("$ref") {
        object.insert("anyOf".to_owned(), json!([{"$ref": reference}, {"type": "null"}]));
    }
    if let Some(Value::Array(options)) = object.get_mut("enum") {
        options.push(Value::Null);
    }
}

fn exclusive_bound(object: &mut Map<String, Value>, bound: &str, exclusive: &str) {
    match object.get(exclusive) {
        Some(Value::Bool(true)) => {
            if let Some(limit) = object.remove(bound) {
                object.insert(exclusive.to_owned(), limit);
            }
        }
        Some(Value::Bool(false)) => drop(object.remove(exclusive)),
        _ => {}
    }
}

/// poem-openapi stores bounds as floating point. `1.0` is published as `1`.
fn whole_bounds(object: &mut Map<String, Value>) {
    for name in ["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"] {
        let whole =
            object.get(name).and_then(Value::as_f64).filter(|limit| limit.fract() == 0.0 && limit.abs() < 9_007_199_254_740_992.0);
        if let Some(limit) = whole {
            #[allow(clippy::cast_possible_truncation, reason = "whole and below 2^53, as checked above")]
            object.insert(name.to_owned(), json!(limit as i64));
        }
    }
}

/// Adds the range of unsigned numbers, which poem-openapi expresses only by their format.
fn unsigned_bounds(object: &mut Map<String, Value>) {
    let most = match object.get("format").and_then(Value::as_str) {
        Some("uint32") => u64::from(u32::MAX),
        Some("uint64") => u64::MAX,
        _ => return,
    };
    object.entry("minimum").or_insert_with(|| json!(0));
    object.entry("maximum").or_insert_with(|| json!(most));
}

pub(super) fn operation(path: &str, operation: &mut Map<String, Value>, components: &Value) -> Result<Marks, String> {
    let marks = security(path, operation)?;
    parameters(operation, components);
    let bodies = operation.get_mut("requestBody").into_iter().filter_map(|body| body.get_mut("content"));
    bodies.for_each(strip_charset);
    let responses = operation.get_mut("responses").and_then(Value::as_object_mut).into_iter().flatten();
    for (_, response) in responses {
        if let Some(content) = response.get_mut("content") {
            strip_charset(content);
        }
    }
    Ok(marks)
}

/// Turns `need:scope:x` of the draft into a requirement of any of our schemes, with the scope as its role. Removes the marks.
fn security(path: &str, operation: &mut Map<String, Value>) -> Result<Marks, String> {
    let requirements = operation.remove("security").unwrap_or_else(|| json!([]));
    let names = requirements.as_array().into_iter().flatten().filter_map(Value::as_object).flat_map(|names| names.keys());
    let names: Vec<&str> = names.map(String::as_str).collect();
    let needs: Vec<&str> = names.iter().filter_map(|name| name.strip_prefix(NEED_PREFIX)).collect();
    match needs.as_slice() {
        [] => operation.insert("security".to_owned(), json!([])),
        [need] => {
            // Each of several scopes is enough by itself, so each becomes an alternative.
            let scopes: Vec<Vec<&str>> = match (need.strip_prefix("any_scope:"), need.strip_prefix("all_scopes:")) {
                (Some(names), _) => names.split(',').map(|name| vec![name]).collect(),
                (None, Some(names)) => vec![names.split(',').collect()],
                (None, None) => vec![need.strip_prefix("scope:").into_iter().collect()],
            };
            let schemes = |roles: &Vec<&str>| [json!({"bearer": roles}), json!({"api_key": roles}), json!({"session": roles})];
            operation.insert("x-need".to_owned(), json!(need));
            operation.insert("security".to_owned(), scopes.iter().flat_map(schemes).collect())
        }
        _ => return Err(format!("an operation of {path} has more than one requirement")),
    };
    Ok(Marks::find(&names))
}

fn parameters(operation: &mut Map<String, Value>, components: &Value) {
    let Some(Value::Array(draft)) = operation.remove("parameters") else { return };
    let mut published = Vec::new();
    for mut parameter in draft {
        let place = parameter.get("in").and_then(Value::as_str).unwrap_or_default().to_owned();
        let name = parameter.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
        let schema = parameter.get("schema").cloned().unwrap_or_default();
        if place == "query" && name == OPEN_QUERY_PARAMETER {
            operation.insert("x-open-query".to_owned(), json!(true));
        }
        if place == "query" && [QUERY_PARAMETER, OPEN_QUERY_PARAMETER].contains(&name.as_str()) {
            published.extend(expand_query(resolve(&schema, components), components));
            continue;
        }
        if let Some(parameter) = parameter.as_object_mut() {
            parameter.remove("explode");
            lift_description(parameter);
            if let Some((_, header, purpose)) = HEADERS.iter().find(|(argument, ..)| place == "header" && name == *argument) {
                parameter.insert("name".to_owned(), json!(header));
                parameter.entry("description").or_insert_with(|| json!(purpose));
            }
        }
        published.push(parameter);
    }
    if !published.is_empty() {
        operation.insert("parameters".to_owned(), Value::Array(published));
    }
}

fn expand_query(schema: &Value, components: &Value) -> Vec<Value> {
    let required: BTreeSet<&str> =
        schema.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect();
    let properties = schema.get("properties").and_then(Value::as_object).into_iter().flatten();
    let parameter = |(name, schema): (&String, &Value)| {
        let mut parameter = Map::new();
        parameter.insert("name".to_owned(), json!(name));
        parameter.insert("in".to_owned(), json!("query"));
        parameter.insert("required".to_owned(), json!(required.contains(name.as_str())));
        match resolve(schema, components).get("type").and_then(Value::as_str) {
            Some("array") => {
                parameter.insert("style".to_owned(), json!("form"));
                parameter.insert("explode".to_owned(), json!(true));
            }
            Some("object") => {
                parameter.insert("style".to_owned(), json!("deepObject"));
                parameter.insert("explode".to_owned(), json!(true));
            }
            _ => {}
        }
        parameter.insert("schema".to_owned(), schema.clone());
        lift_description(&mut parameter);
        Value::Object(parameter)
    };
    properties.map(parameter).collect()
}

/// Moves the description of a parameter from its schema to the parameter.
fn lift_description(parameter: &mut Map<String, Value>) {
    let inner = parameter.get_mut("schema").and_then(Value::as_object_mut).and_then(|schema| schema.remove("description"));
    if let Some(description) = inner
        && !parameter.contains_key("description")
    {
        parameter.insert("description".to_owned(), description);
    }
}

fn strip_charset(content: &mut Value) {
    if let Some(content) = content.as_object_mut() {
        let types: Vec<(String, Value)> = std::mem::take(content).into_iter().collect();
        content
            .extend(types.into_iter().map(|(name, value)| (name.split(';').next().unwrap_or_default().trim().to_owned(), value)));
    }
}

/// Closes the objects that clients send: only declared members are allowed, and texts that must not be empty must not be blank
/// either. Blank texts in lines are accepted, because agents pass on what they find.
pub(super) fn close_inputs(paths: &Value, components: &mut Value) {
    let operations = paths.as_object().into_iter().flatten().flat_map(|(_, methods)| methods.as_object().into_iter().flatten());
    let bodies = operations.filter_map(|(_, operation)| operation.get("requestBody"));
    let has_lines = |body: &&Value| body.get("content").is_some_and(|content| content.get(LINES).is_some());
    let (lines, bodies): (Vec<&Value>, Vec<&Value>) = bodies.partition(has_lines);
    let (of_agents, of_clients) = (reachable(lines, components), reachable(bodies, components));
    let Some(Value::Object(schemas)) = components.get_mut("schemas") else { return };
    for (name, schema) in schemas.iter_mut() {
        if of_clients.contains(name) && !of_agents.contains(name) {
            refuse_blanks(schema);
        }
        if let Some(schema) = schema.as_object_mut()
            && (of_clients.contains(name) || of_agents.contains(name))
            && schema.get("type") == Some(&json!("object"))
            && !schema.contains_key("additionalProperties")
        {
            schema.insert("additionalProperties".to_owned(), json!(false));
        }
    }
}

/// The names of the responses and schemas that these values refer to, directly or indirectly.
fn reachable<'a>(from: impl IntoIterator<Item = &'a Value>, components: &Value) -> BTreeSet<String> {
    let (mut open, mut found) = (Vec::new(), BTreeSet::new());
    for value in from {
        references(value, &mut open);
    }
    while let Some(name) = open.pop() {
        if found.insert(name.clone()) {
            let named = ["responses", "schemas"].iter().filter_map(|kind| components.get(kind)?.get(&name));
            named.for_each(|component| references(component, &mut open));
        }
    }
    found
}

fn refuse_blanks(schema: &mut Value) {
    let is_text = |kind: &Value| kind == "string" || kind.as_array().is_some_and(|kinds| kinds.contains(&json!("string")));
    match schema {
        Value::Object(members) => {
            let has_text = members.get("type").is_some_and(is_text) && members.get("minLength").and_then(Value::as_u64) > Some(0);
            let is_bound = ["pattern", "format", "enum", "writeOnly"].iter().any(|name| members.contains_key(*name));
            if has_text && !is_bound {
                members.insert("pattern".to_owned(), json!(VISIBLE_TEXT));
            } else if has_text && members.get("pattern").is_some_and(|pattern| pattern == NO_CONTROL_CHARACTERS) {
                members.insert("pattern".to_owned(), json!(VISIBLE_BOUNDED_TEXT));
            }
            members.values_mut().for_each(refuse_blanks);
        }
        Value::Array(items) => items.iter_mut().for_each(refuse_blanks),
        _ => {}
    }
}

/// The names of the components that `value` refers to.
fn references(value: &Value, out: &mut Vec<String>) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| references(item, out)),
        Value::Object(object) => {
            if let Some(name) = object.get("$ref").and_then(Value::as_str).and_then(|path| path.rsplit('/').next()) {
                out.push(name.to_owned());
            }
            object.values().for_each(|item| references(item, out));
        }
        _ => {}
    }
}

/// Keeps only the responses and schemas that an operation refers to.
pub(super) fn drop_unused(operations: [&Value; 2], components: &mut Value) {
    let used = reachable(operations, components);
    for kind in ["responses", "schemas"] {
        if let Some(Value::Object(named)) = components.get_mut(kind) {
            named.retain(|name, _| used.contains(name));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_property_may_have_the_name_of_a_keyword() {
        let mut schema = json!({
            "type": "object",
            "properties": {
                "type": {"type": "string", "nullable": true},
                "example": {"type": "integer", "example": 5},
                "deprecated": {"type": "boolean", "deprecated": false},
            },
            "example": {"type": "a", "example": 5, "nullable": true},
        });
        schema_tree(&mut schema);
        let expected = json!({
            "type": "object",
            "properties": {
                "type": {"type": ["string", "null"]},
                "example": {"type": "integer", "examples": [5]},
                "deprecated": {"type": "boolean"},
            },
            "examples": [{"type": "a", "example": 5, "nullable": true}],
        });
        assert_eq!(schema, expected);
    }
}
