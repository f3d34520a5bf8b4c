//! An example for every body: from the schema if it has one, otherwise composed from its parts.

use poem_openapi::types::ParseFromJSON;
use serde_json::{Map, Value, json};

use super::super::{FORM, schema::resolve};

/// The example of a text that nobody reads back.
const SECRET: &str = "correct horse battery staple";

/// Gives types their examples in the published document. Each example comes from its file in the folder `examples` next to the
/// caller's file.
#[macro_export]
macro_rules! examples {
    ($($type:ty => $file:literal,)*) => {$(
        impl ::poem_openapi::types::Example for $type {
            fn example() -> Self {
                $crate::openapi::read_example(include_str!(concat!("examples/", $file)))
            }
        }
    )*};
}

/// Reads a file of [`examples!`]. Every server needs all of them to start, so the first test finds a wrong one.
#[expect(clippy::panic, reason = "the file is part of the program, and `Example` returns no error")]
pub fn read_example<T: ParseFromJSON>(file: &str) -> T {
    T::parse_from_json_string(file)
        .unwrap_or_else(|error| panic!("the example file of {} is not valid: {}", T::name(), error.into_message()))
}

/// The depth at which composing an example stops. None of our schemas nests deeper.
const MAX_DEPTH: usize = 12;

pub(super) fn fill(operation: &mut Map<String, Value>, components: &Value) {
    let body = operation.get_mut("requestBody").into_iter();
    body.for_each(|body| fill_content(body, components));
    let responses = operation.get_mut("responses").and_then(Value::as_object_mut).into_iter().flatten();
    responses.for_each(|(_, response)| fill_content(response, components));
}

fn fill_content(holder: &mut Value, components: &Value) {
    let content = holder.get_mut("content").and_then(Value::as_object_mut).into_iter().flatten();
    for (media_type, media) in content {
        let Some(media) = media.as_object_mut() else { continue };
        if (media_type.ends_with("json") || ["text/csv", "text/html", "text/plain", FORM].contains(&media_type.as_str()))
            && !media.contains_key("example")
            && let Some(schema) = media.get("schema")
        {
            let example = of(schema, components, 0);
            media.insert("example".to_owned(), example);
        }
    }
}

/// Returns a value that the schema allows.
pub(super) fn of(schema: &Value, components: &Value, depth: usize) -> Value {
    let schema = resolve(schema, components);
    if let Some(given) = schema.get("examples").and_then(|examples| examples.get(0)).or_else(|| schema.get("default")) {
        return given.clone();
    }
    if let Some(first) = schema.get("enum").and_then(|options| options.get(0)) {
        return first.clone();
    }
    if let Some(first) = ["anyOf", "oneOf", "allOf"].iter().find_map(|word| schema.get(*word)?.get(0)) {
        return of(first, components, depth + 1);
    }
    let kind = match schema.get("type") {
        Some(Value::Array(kinds)) => kinds.first().and_then(Value::as_str).unwrap_or_default(),
        Some(Value::String(kind)) => kind,
        _ => "object",
    };
    match kind {
        "object" if depth < MAX_DEPTH => {
            let properties = schema.get("properties").and_then(Value::as_object).into_iter().flatten();
            Value::Object(properties.map(|(name, part)| (name.clone(), of(part, components, depth + 1))).collect())
        }
        "array" if depth < MAX_DEPTH => {
            schema.get("items").map_or_else(|| json!([]), |items| json!([of(items, components, depth + 1)]))
        }
        "object" => json!({}),
        "array" => json!([]),
        "integer" | "number" => schema.get("minimum").cloned().unwrap_or_else(|| json!(1)),
        "boolean" => json!(true),
        // Passwords and codes are write-only.
        _ if schema.get("writeOnly") == Some(&json!(true)) => {
            let most = schema.get("maxLength").and_then(Value::as_u64).and_then(|most| usize::try_from(most).ok());
            json!(SECRET.chars().take(most.unwrap_or(usize::MAX)).collect::<String>())
        }
        _ => match schema.get("format").and_then(Value::as_str) {
            Some("date") => json!("2026-01-31"),
            Some("date-time") => json!("2026-01-31T09:30:00.000Z"),
            Some("email") => json!("ada@example.com"),
            _ => json!("text"),
        },
    }
}
