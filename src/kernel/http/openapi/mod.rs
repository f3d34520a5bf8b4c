//! The published document. poem-openapi derives a draft from the handlers' signatures. This folder turns the draft into the
//! document that we publish: OpenAPI 3.1, full paths, media types without a charset, every status, and an example for every body.
//!
//! **Invariant:** input is checked against the published document (`operations`), so the document cannot differ from the server.

mod descriptions;
mod example;
mod normalize;
mod responses;

use std::{collections::BTreeMap, sync::Arc};

use poem_openapi::{registry::Registry, types::Type};
use serde_json::{Map, Value, json};

use super::{
    mark::{Marks, SETS_COOKIE},
    rate::RateClass,
    recent::{RECENT_SIGN_IN, Recency},
};

pub use descriptions::is_described;
pub use example::read_example;

/// The prefix of a security requirement in the draft that names what an operation requires.
pub const NEED_PREFIX: &str = "need:";

/// The name of the argument for a query that is one object in a handler's signature. The document lists its fields as parameters.
pub const QUERY_PARAMETER: &str = "query";

/// The same for a query that an external protocol defines. Parameters beyond the declared fields are ignored.
pub const OPEN_QUERY_PARAMETER: &str = "open_query";

/// The title, version and description of the document.
#[derive(Clone, Copy, Debug)]
pub struct About {
    pub title: &'static str,
    pub version: &'static str,
    pub description: &'static str,
}

/// A document, and the marks of its operations by operation id, which only the edge sees.
#[derive(Debug)]
pub struct Document {
    pub published: Arc<Value>,
    pub marks: BTreeMap<String, Marks>,
}

/// The schemas of `T` and of its parts, for a document in which no operation uses them.
pub fn schemas<T: Type>() -> Map<String, Value> {
    let mut registry = Registry::new();
    T::register(&mut registry);
    registry.schemas.iter().filter_map(|(name, schema)| Some((name.clone(), serde_json::to_value(schema).ok()?))).collect()
}

/// The schema of `T` as input. It works by itself and allows only what it declares.
pub fn input_schema<T: Type>() -> Value {
    let reference = format!("#/components/schemas/{}", T::name());
    let body = json!({"requestBody": {"$ref": reference}});
    let mut components = json!({"schemas": schemas::<T>()});
    normalize::schema_tree(&mut components);
    normalize::close_inputs(&json!({"/": {"post": body}}), &mut components);
    json!({"$ref": reference, "components": components})
}

/// Parts of a document that only the composition root knows.
#[derive(Debug, Default)]
pub struct Additions {
    /// Schemas that are added to the draft or replace those of the draft.
    pub schemas: Map<String, Value>,
    /// Requests that the server sends to its clients, by name.
    pub webhooks: Map<String, Value>,
}

/// Turns poem-openapi's draft into the published document.
pub fn publish(draft: &str, about: About, additions: Additions) -> Result<Document, String> {
    let webhooks = Value::Object(additions.webhooks);
    let mut document: Value = serde_json::from_str(draft).map_err(|error| error.to_string())?;
    let mut components = document.get_mut("components").map_or_else(|| json!({}), Value::take);
    if let Some(drafted) = components.get_mut("schemas").and_then(Value::as_object_mut) {
        drafted.extend(additions.schemas);
    }
    normalize::schema_tree(&mut components);
    let mut paths = document.get_mut("paths").map_or_else(|| json!({}), Value::take);
    normalize::schema_tree(&mut paths);
    let mut marks = BTreeMap::new();
    for (path, method, operation) in operations_mut(&mut paths) {
        let id = operation.get("operationId").and_then(Value::as_str).ok_or_else(|| format!("{path}: no operation id"))?.to_owned();
        let found = normalize::operation(&path, operation, &components)?;
        let class = found.class.unwrap_or_else(|| RateClass::usual(operation.contains_key("x-need"), &method));
        operation.insert("x-rate-class".to_owned(), json!(class.name()));
        if found.recency != Recency::Never {
            operation.insert(RECENT_SIGN_IN.to_owned(), json!(true));
        }
        if found.sets_cookie {
            operation.insert(SETS_COOKIE.to_owned(), json!(true));
        }
        marks.insert(id, found);
        responses::complete(&path, operation, &components);
    }
    normalize::close_inputs(&paths, &mut components);
    responses::add_components(&mut components);
    let known = components.clone();
    descriptions::complete(&mut components, &known);
    descriptions::complete(&mut paths, &known);
    for (_, _, operation) in operations_mut(&mut paths) {
        example::fill(operation, &components);
    }
    add_security_schemes(&mut components);
    normalize::drop_unused([&paths, &webhooks], &mut components);
    let tags = document.get_mut("tags").map_or_else(|| json!([]), Value::take);
    let mut published = json!({
        "openapi": "3.1.0",
        "info": {
            "title": about.title,
            "version": about.version,
            "description": about.description,
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
            "contact": {"name": "The operator of this installation"},
        },
        "servers": [{"url": "/", "description": "This installation"}],
        "tags": tags,
        "paths": paths,
        "components": components,
    });
    if let Some(published) = published.as_object_mut().filter(|_| webhooks.as_object().is_some_and(|known| !known.is_empty())) {
        published.insert("webhooks".to_owned(), webhooks);
    }
    Ok(Document { published: Arc::new(published), marks })
}

/// An example of one of the document's schemas.
pub fn example(document: &Value, schema: &str) -> Value {
    let components = document.get("components").cloned().unwrap_or_default();
    example::of(&json!({"$ref": format!("#/components/schemas/{schema}")}), &components, 0)
}

/// Every operation of `paths`, with its path and method.
fn operations_mut(paths: &mut Value) -> Vec<(String, String, &mut Map<String, Value>)> {
    let paths = paths.as_object_mut().into_iter().flatten();
    let operations = paths.flat_map(|(path, methods)| {
        let methods = methods.as_object_mut().into_iter().flatten();
        methods.filter_map(move |(method, operation)| {
            operation.as_object_mut().map(|operation| (path.clone(), method.clone(), operation))
        })
    });
    operations.collect()
}

fn add_security_schemes(components: &mut Value) {
    if let Some(components) = components.as_object_mut() {
        components.insert(
            "securitySchemes".to_owned(),
            json!({
                "bearer": {"type": "http", "scheme": "bearer", "description": "An API key: `Authorization: Bearer tck_live_…`."},
                "api_key": {"type": "apiKey", "in": "header", "name": "X-API-Key", "description": "An API key in its own header."},
                "session": {
                    "type": "apiKey",
                    "in": "cookie",
                    "name": "__Host-tenantd_session",
                    "description": "The session cookie of a signed-in person. On a plain HTTP listener its name is `tenantd_session`.",
                },
            }),
        );
    }
}
