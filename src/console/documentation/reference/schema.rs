//! Schemas for people: their members as a table, their types in words with links.

use maud::{Markup, html};
use serde_json::{Value, json};

use tenantd_http::openapi;

use super::{SCHEMAS_PATH, schema_path, text};
use crate::{
    components::{code_block, pretty, table},
    documentation::{Content, contents},
    markdown,
};

/// The longest pattern that a page shows. Longer ones say nothing to people.
const MAX_PATTERN: usize = 40;

pub(super) fn content(document: &Value, name: &str, schema: &Value) -> Content {
    let example = openapi::example(document, name);
    let body = html! {
        h1 { (name) }
        (markdown::description(text(schema, "description")))
        div.operation {
            div { (members(document, name, schema)) }
            div.examples {
                h2 { "Example" }
                (code_block("json", &pretty(&example)))
            }
        }
    };
    Content::new(name, body).below(contents::PATH, "Documentation").below(SCHEMAS_PATH, "Schemas")
}

/// The name of the schema that a reference leads to.
fn referenced(schema: &Value) -> Option<&str> {
    schema.get("$ref").and_then(Value::as_str)?.strip_prefix("#/components/schemas/")
}

/// A part of the document of its own, or the shared one that it refers to.
pub(super) fn resolved<'a>(document: &'a Value, part: &'a Value) -> &'a Value {
    let shared = part.get("$ref").and_then(Value::as_str).and_then(|path| path.strip_prefix('#'));
    shared.and_then(|path| document.pointer(path)).unwrap_or(part)
}

fn known<'a>(document: &'a Value, name: &str) -> &'a Value {
    document.pointer(&format!("/components/schemas/{name}")).unwrap_or(&Value::Null)
}

/// The description of a member or a parameter: its own, or that of the schema that it refers to.
pub(super) fn description_of<'a>(document: &'a Value, described: &'a Value) -> &'a str {
    let own = text(described, "description");
    let schema = described.get("schema").unwrap_or(described);
    let schema = schema.get("items").unwrap_or(schema);
    let shared = referenced(schema).map_or("", |name| text(known(document, name), "description"));
    if own.is_empty() { shared } else { own }
}

/// The schema of a body: a link to it with its members, or each of its alternatives.
pub(super) fn body(document: &Value, schema: &Value) -> Markup {
    let alternatives: Vec<&Value> = match schema.get("anyOf").or_else(|| schema.get("oneOf")).and_then(Value::as_array) {
        Some(alternatives) => alternatives.iter().collect(),
        None => vec![schema],
    };
    html! {
        @for alternative in alternatives {
            @match referenced(alternative) {
                Some(name) => {
                    h3 { a href=(schema_path(name)) { (name) } }
                    @let known = known(document, name);
                    (markdown::description(text(known, "description")))
                    (members(document, name, known))
                }
                None => { p { (kind(alternative)) } (members(document, "Body", alternative)) }
            }
        }
    }
}

/// The members of an object, or the alternatives and values of something else.
fn members(document: &Value, label: &str, schema: &Value) -> Markup {
    let required: Vec<&str> =
        schema.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect();
    let properties = schema.get("properties").and_then(Value::as_object).into_iter().flatten();
    let rows: Vec<Vec<Markup>> = properties
        .map(|(name, member)| {
            let is_required = required.contains(&name.as_str());
            vec![
                html! { code { (name) } @if is_required { " " span.badge { "required" } } },
                html! { span.type { (kind(member)) } },
                markdown::cell(description_of(document, member)),
            ]
        })
        .collect();
    html! {
        @if rows.is_empty() {
            @if schema.get("enum").is_some() || schema.get("anyOf").is_some() || schema.get("type").is_some_and(|kind| kind != "object") {
                p { "Type: " (kind(schema)) }
            }
        } @else {
            (table(&format!("Members of {label}"), &["member", "type", "description"], &rows))
        }
    }
}

/// A type in words, with links to the schemas in it.
pub(super) fn kind(schema: &Value) -> Markup {
    if let Some(name) = referenced(schema) {
        return html! { a href=(schema_path(name)) { (name) } };
    }
    if let Some(alternatives) = schema.get("anyOf").or_else(|| schema.get("oneOf")).and_then(Value::as_array) {
        return html! { @for (place, alternative) in alternatives.iter().enumerate() { @if place > 0 { " or " } (kind(alternative)) } };
    }
    if let Some(parts) = schema.get("allOf").and_then(Value::as_array) {
        return html! { @for (place, part) in parts.iter().enumerate() { @if place > 0 { " with " } (kind(part)) } };
    }
    if let Some(options) = schema.get("enum").and_then(Value::as_array) {
        return html! {
            "one of "
            @for (place, option) in options.iter().enumerate() {
                @if place > 0 { ", " }
                code { (plain(option)) }
            }
        };
    }
    if let Some(prefix) = id_prefix(schema) {
        return html! { "id, " code { (prefix) "_…" } };
    }
    if let Some(only) = schema.get("const") {
        return html! { code { (plain(only)) } };
    }
    let name = match schema.get("type") {
        Some(Value::String(kind)) => word(kind).to_owned(),
        Some(Value::Array(kinds)) => kinds.iter().filter_map(Value::as_str).map(word).collect::<Vec<_>>().join(" or "),
        _ => "any value".to_owned(),
    };
    let bounds = bounds(schema);
    html! {
        @if let Some(items) = schema.get("items") { "list of " (kind(items)) } @else { (format(schema).unwrap_or(&name)) }
        @if let Some(values) = schema.get("additionalProperties").filter(|values| values.is_object()) { ", each value " (kind(values)) }
        @for bound in &bounds { ", " (bound) }
        @if let Some(pattern) = schema.get("pattern").and_then(Value::as_str).filter(|pattern| pattern.len() <= MAX_PATTERN) {
            ", matches " code { (pattern) }
        }
    }
}

/// The prefix of the ids that a pattern describes.
fn id_prefix(schema: &Value) -> Option<&str> {
    let (prefix, rest) = schema.get("pattern")?.as_str()?.strip_prefix('^')?.split_once('_')?;
    (rest == "[0-7][0-9a-hjkmnp-tv-z]{25}$" && prefix.chars().all(|letter| letter.is_ascii_lowercase())).then_some(prefix)
}

fn word(kind: &str) -> &str {
    match kind {
        "string" => "text",
        "integer" => "whole number",
        "boolean" => "true or false",
        "array" => "list",
        other => other,
    }
}

/// The formats that say more than the type.
fn format(schema: &Value) -> Option<&'static str> {
    match schema.get("format").and_then(Value::as_str)? {
        "date-time" => Some("time"),
        "date" => Some("date"),
        "email" => Some("email address"),
        "uri" | "url" => Some("URL"),
        _ => None,
    }
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Limits in words, such as `1 to 100 characters`.
fn bounds(schema: &Value) -> Vec<String> {
    let number = |name: &str| schema.get(name).filter(|limit| limit.is_number()).map(ToString::to_string);
    let range = |least: Option<String>, most: Option<String>, unit: &str| match (least, most) {
        (Some(least), Some(most)) if least == most => Some(format!("{least}{unit}")),
        (Some(least), Some(most)) => Some(format!("{least} to {most}{unit}")),
        (Some(least), None) => Some(format!("at least {least}{unit}")),
        (None, Some(most)) => Some(format!("at most {most}{unit}")),
        (None, None) => None,
    };
    // Bounds that only say that a number has 32 or 64 bits.
    let beyond = |limit: &String| {
        schema.get("format").is_some() && [json!(u32::MAX).to_string(), json!(u64::MAX).to_string()].contains(limit)
    };
    [
        range(number("minLength"), number("maxLength"), " characters"),
        range(number("minItems"), number("maxItems"), " items"),
        range(number("minimum"), number("maximum").filter(|limit| !beyond(limit)), ""),
        number("exclusiveMinimum").map(|limit| format!("more than {limit}")),
        number("exclusiveMaximum").map(|limit| format!("less than {limit}")),
        number("maxProperties").map(|limit| format!("at most {limit} members")),
        (schema.get("uniqueItems") == Some(&Value::Bool(true))).then(|| "no duplicates".to_owned()),
    ]
    .into_iter()
    .flatten()
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(schema: &Value) -> String {
        kind(schema).into_string()
    }

    #[test]
    fn types_are_words_with_their_limits() {
        assert_eq!(words(&json!({"type": "string", "minLength": 1, "maxLength": 100})), "text, 1 to 100 characters");
        assert_eq!(words(&json!({"type": ["string", "null"]})), "text or null");
        assert_eq!(words(&json!({"type": "string", "format": "date-time"})), "time");
        assert_eq!(
            words(&json!({"type": "integer", "format": "uint32", "minimum": 0, "maximum": 4_294_967_295_u64})),
            "whole number, at least 0"
        );
        assert_eq!(
            words(&json!({"type": "array", "items": {"type": "boolean"}, "maxItems": 3})),
            "list of true or false, at most 3 items"
        );
        assert_eq!(words(&json!({"type": "string", "pattern": "^usr_[0-7][0-9a-hjkmnp-tv-z]{25}$"})), "id, <code>usr_…</code>");
        assert_eq!(words(&json!({"enum": ["a", null]})), "one of <code>a</code>, <code>null</code>");
    }

    #[test]
    fn references_are_links() {
        let link = "<a href=\"/documentation/schemas/Ticket/\">Ticket</a>";
        assert_eq!(words(&json!({"$ref": "#/components/schemas/Ticket"})), link);
        assert_eq!(
            words(&json!({"anyOf": [{"$ref": "#/components/schemas/Ticket"}, {"type": "null"}]})),
            format!("{link} or null")
        );
    }
}
