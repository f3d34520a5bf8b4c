//! The published document. poem-openapi derives a draft of it from the handlers' signatures; this folder turns the draft into what
//! we publish: OpenAPI 3.1, full paths, media types without a charset, every status, an example for every body.
//!
//! **Invariant:** the published document is what input is checked against (`operations`), so it cannot drift from the server.

mod descriptions;
mod example;
mod normalize;
mod responses;

use std::{collections::BTreeMap, sync::Arc};

use poem_openapi::{registry::Registry, types::Type};
use serde_json::{Map, Value, json};

use super::mark::Marks;

pub use descriptions::is_described;
pub use example::read_example;

/// The draft names what an operation needs by one of these in front of its security requirement.
pub const NEED_PREFIX: &str = "need:";

/// A query as one object in a handler's signature; the document lists its fields as parameters.
pub const QUERY_PARAMETER: &str = "query";

/// The same for a query that somebody else's protocol defines: what it has beyond the declared fields is left alone.
pub const OPEN_QUERY_PARAMETER: &str = "open_query";

/// What the document says about itself.
#[derive(Clone, Copy, Debug)]
pub struct About {
    pub title: &'static str,
    pub version: &'static str,
    pub description: &'static str,
}

/// A document, and what its operations say to the edge alone, by their ids.
#[derive(Debug)]
pub struct Document {
    pub published: Arc<Value>,
    pub marks: BTreeMap<String, Marks>,
}

/// The schemas of `T` and of what it is made of, for a document without an operation that has it.
pub fn schemas<T: Type>() -> Map<String, Value> {
    let mut registry = Registry::new();
    T::register(&mut registry);
    registry.schemas.iter().filter_map(|(name, schema)| Some((name.clone(), serde_json::to_value(schema).ok()?))).collect()
}

/// The schema of `T` as input, which can be checked against by itself: nothing but what is declared is allowed.
pub fn input_schema<T: Type>() -> Value {
    let reference = format!("#/components/schemas/{}", T::name());
    let body = json!({"requestBody": {"$ref": reference}});
    let mut components = json!({"schemas": schemas::<T>()});
    normalize::schema_tree(&mut components);
    normalize::close_inputs(&json!({"/": {"post": body}}), &mut components);
    json!({"$ref": reference, "components": components})
}

/// What of a document only the composition root can say.
#[derive(Debug, Default)]
pub struct More {
    /// They join the schemas of the draft or take their place.
    pub schemas: Map<String, Value>,
    /// Requests that the server sends to its clients, by their names.
    pub webhooks: Map<String, Value>,
}

/// Turns poem-openapi's draft into the published document.
pub fn publish(draft: &str, about: About, more: More) -> Result<Document, String> {
    let webhooks = Value::Object(more.webhooks);
    let mut document: Value = serde_json::from_str(draft).map_err(|error| error.to_string())?;
    let mut components = document.get_mut("components").map_or_else(|| json!({}), Value::take);
    if let Some(drafted) = components.get_mut("schemas").and_then(Value::as_object_mut) {
        drafted.extend(more.schemas);
    }
    normalize::schema_tree(&mut components);
    let mut paths = document.get_mut("paths").map_or_else(|| json!({}), Value::take);
    normalize::schema_tree(&mut paths);
    let mut marks = BTreeMap::new();
    for (path, operation) in operations_mut(&mut paths) {
        let id = operation.get("operationId").and_then(Value::as_str).ok_or_else(|| format!("{path}: no operation id"))?.to_owned();
        marks.insert(id, normalize::operation(&path, operation, &components)?);
        responses::complete(&path, operation, &components);
    }
    normalize::close_inputs(&paths, &mut components);
    responses::add_components(&mut components);
    let known = components.clone();
    descriptions::complete(&mut components, &known);
    descriptions::complete(&mut paths, &known);
    for (_, operation) in operations_mut(&mut paths) {
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

/// Every operation of `paths` with the path that it is under.
fn operations_mut(paths: &mut Value) -> Vec<(String, &mut Map<String, Value>)> {
    let paths = paths.as_object_mut().into_iter().flatten();
    let operations = paths.flat_map(|(path, methods)| {
        let methods = methods.as_object_mut().into_iter().flatten();
        methods.filter_map(move |(_, operation)| operation.as_object_mut().map(|operation| (path.clone(), operation)))
    });
    operations.collect()
}

fn add_security_schemes(components: &mut Value) {
    if let Some(components) = components.as_object_mut() {
        components.insert(
            "securitySchemes".to_owned(),
            json!({
                "bearer": {"type": "http", "scheme": "bearer", "description": "An API key: `Authorization: Bearer tck_live_…`."},
                "api_key": {"type": "apiKey", "in": "header", "name": "X-API-Key", "description": "An API key in a header of its own."},
                "session": {
                    "type": "apiKey",
                    "in": "cookie",
                    "name": "__Host-tenantd_session",
                    "description": "The cookie of a signed-in person. Its name is `tenantd_session` where the listener is plain HTTP.",
                },
            }),
        );
    }
}
