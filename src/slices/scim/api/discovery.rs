//! What the protocol can do: its operations for the edge, and its description for clients. `schemas/` has the attributes that are
//! supported.

use std::{collections::BTreeMap, sync::Arc};

use serde_json::{Map, Value, json};

use tenantd_http::openapi::Document;

use super::{
    super::{
        error::ScimError,
        model::{attribute::Resource, set},
    },
    listing::MAX_COUNT,
    protocol::PREFIX,
};

const USER: &str = include_str!("schemas/user.json");
const GROUP: &str = include_str!("schemas/group.json");

/// The operations: method, path behind the prefix, id, and whether the operation has a body.
const OPERATIONS: &[(&str, &str, &str, bool)] = &[
    ("get", "/ServiceProviderConfig", "scim_read_service_provider_config", false),
    ("get", "/ResourceTypes", "scim_list_resource_types", false),
    ("get", "/ResourceTypes/{name}", "scim_read_resource_type", false),
    ("get", "/Schemas", "scim_list_schemas", false),
    ("get", "/Schemas/{name}", "scim_read_schema", false),
    ("get", "/Users", "scim_list_users", false),
    ("post", "/Users", "scim_create_user", true),
    ("post", "/Users/.search", "scim_search_users", true),
    ("get", "/Users/{id}", "scim_read_user", false),
    ("put", "/Users/{id}", "scim_replace_user", true),
    ("patch", "/Users/{id}", "scim_patch_user", true),
    ("delete", "/Users/{id}", "scim_delete_user", false),
    ("get", "/Groups", "scim_list_groups", false),
    ("post", "/Groups", "scim_create_group", true),
    ("post", "/Groups/.search", "scim_search_groups", true),
    ("get", "/Groups/{id}", "scim_read_group", false),
    ("put", "/Groups/{id}", "scim_replace_group", true),
    ("patch", "/Groups/{id}", "scim_patch_group", true),
    ("delete", "/Groups/{id}", "scim_delete_group", false),
    ("post", "/.search", "scim_search", true),
    ("post", "/Bulk", "scim_bulk", true),
];

/// The operations in the form that the edge compiles. The forms of bodies and queries are checked by the handlers, because clients
/// differ and errors have the form of the protocol.
pub(super) fn document() -> Result<Document, String> {
    schemas("").map_err(|error| error.to_string())?;
    let mut paths: Map<String, Value> = Map::new();
    for (method, path, id, has_body) in OPERATIONS {
        let searches = path.ends_with(".search");
        let mut operation = json!({
            "operationId": id,
            "x-need": "scope:provisioning:write",
            "x-rate-class": if *method == "get" || searches { "read" } else { "write" },
            "x-open-query": true,
            "responses": {"200": {"content": {"application/scim+json": {}, "application/json": {}}}},
        });
        if *has_body {
            let any = json!({"schema": {}});
            set(&mut operation, "requestBody", json!({"content": {"application/json": any, "application/scim+json": any}}));
        }
        let methods = paths.entry(format!("{PREFIX}{path}")).or_insert_with(|| json!({}));
        set(methods, method, operation);
    }
    Ok(Document { published: Arc::new(json!({"paths": paths})), marks: BTreeMap::new() })
}

pub(super) fn service_provider_config(base: &str) -> Value {
    json!({
        "schemas": ["urn:ietf:params:scim:schemas:core:2.0:ServiceProviderConfig"],
        "documentationUri": format!("{base}/documentation/guides/provisioning/"),
        "patch": {"supported": true},
        "bulk": {"supported": false, "maxOperations": 0, "maxPayloadSize": 0},
        "filter": {"supported": true, "maxResults": MAX_COUNT},
        "changePassword": {"supported": false},
        "sort": {"supported": false},
        "etag": {"supported": true},
        "authenticationSchemes": [{
            "type": "oauthbearertoken",
            "name": "API key",
            "description": "An API key with the scope provisioning:write, as a bearer token.",
            "specUri": "https://www.rfc-editor.org/info/rfc6750",
            "primary": true,
        }],
        "meta": {"resourceType": "ServiceProviderConfig", "location": format!("{base}{PREFIX}/ServiceProviderConfig")},
    })
}

fn list(resources: &[Value]) -> Value {
    json!({
        "schemas": ["urn:ietf:params:scim:api:messages:2.0:ListResponse"],
        "totalResults": resources.len(),
        "startIndex": 1,
        "itemsPerPage": resources.len(),
        "Resources": resources,
    })
}

fn described_type(base: &str, resource: Resource) -> Value {
    let name = resource.name();
    json!({
        "schemas": ["urn:ietf:params:scim:schemas:core:2.0:ResourceType"],
        "id": name,
        "name": name,
        "endpoint": format!("/{}", resource.endpoint()),
        "description": if resource == Resource::User { "A member of staff" } else { "A group of staff" },
        "schema": resource.schema(),
        "schemaExtensions": [],
        "meta": {"resourceType": "ResourceType", "location": format!("{base}{PREFIX}/ResourceTypes/{name}")},
    })
}

pub(super) fn resource_types(base: &str) -> Value {
    list(&[Resource::User, Resource::Group].map(|resource| described_type(base, resource)))
}

pub(super) fn resource_type(base: &str, name: &str) -> Option<Value> {
    let found = [Resource::User, Resource::Group].into_iter().find(|resource| resource.name() == name);
    found.map(|resource| described_type(base, resource))
}

fn both(base: &str) -> Result<Vec<Value>, ScimError> {
    let read = |text: &str| -> Result<Value, ScimError> {
        let mut schema: Value = serde_json::from_str(text)?;
        let id = schema.get("id").and_then(Value::as_str).unwrap_or_default().to_owned();
        set(&mut schema, "schemas", json!(["urn:ietf:params:scim:schemas:core:2.0:Schema"]));
        set(&mut schema, "meta", json!({"resourceType": "Schema", "location": format!("{base}{PREFIX}/Schemas/{id}")}));
        Ok(schema)
    };
    [USER, GROUP].into_iter().map(read).collect()
}

pub(super) fn schemas(base: &str) -> Result<Value, ScimError> {
    both(base).map(|schemas| list(&schemas))
}

pub(super) fn schema(base: &str, id: &str) -> Result<Option<Value>, ScimError> {
    let is_wanted = |schema: &Value| schema.get("id").and_then(Value::as_str) == Some(id);
    Ok(both(base)?.into_iter().find(is_wanted))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_schema_describes_its_resource() {
        for resource in [Resource::User, Resource::Group] {
            let schema = schema("", resource.schema()).unwrap().unwrap();
            assert_eq!(schema["name"], resource.name());
        }
        assert_eq!(schema("", "urn:other").unwrap(), None);
        assert!(resource_type("", "Device").is_none());
    }

    #[test]
    fn each_operation_has_an_id_of_its_own() {
        let mut ids: Vec<&str> = OPERATIONS.iter().map(|(_, _, id, _)| *id).collect();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), OPERATIONS.len());
        assert!(document().is_ok());
    }
}
