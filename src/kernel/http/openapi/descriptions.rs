//! Descriptions of members that mean the same in every slice. What a slice says of its own member with `///` comes first.

use serde_json::{Map, Value};

use super::super::schema::resolve;

/// Members of schemas and parameters, by their names.
const COMMON: &[(&str, &str)] = &[
    ("assignee_id", "The user who works on it."),
    ("at", "When it happened."),
    ("code", "What is wrong, in one word."),
    ("contact_id", "The contact: a person at the customer."),
    ("count", "How many there are."),
    ("created_after", "Records that were created after this time."),
    ("created_at", "When the record was created."),
    ("created_before", "Records that were created before this time."),
    ("data", "The records of this page."),
    ("delivery_id", "The id of the delivery."),
    ("description", "A description for people."),
    ("device_id", "The device."),
    ("device_ids", "The devices."),
    ("domain", "The domain, such as `example.com`."),
    ("duration_seconds", "How long it took, in seconds."),
    ("email", "The e-mail address."),
    ("enabled", "Whether it is switched on."),
    ("ended_at", "When it ended."),
    ("external_id", "The name of the record in another system."),
    ("id", "The id of the record."),
    ("key_id", "The id of the API key."),
    ("kind", "What kind it is."),
    ("message", "What is wrong, in a sentence."),
    ("name", "The name of the record."),
    ("next_attempt_at", "When the next attempt is due."),
    ("operation_id", "The id of the operation."),
    ("organization_external_id", "The name of the organization in the system that sends the line."),
    ("organization_id", "The organization."),
    ("password", "The password."),
    ("records", "How many records."),
    ("started_at", "When it began."),
    ("status", "The state that it is in."),
    ("tables", "How many tables."),
    ("tags", "Labels of your own."),
    ("tenant_id", "The tenant."),
    ("type", "What type it is."),
    ("updated_after", "Records that were changed after this time."),
    ("updated_at", "When the record was last changed."),
    ("updated_before", "Records that were changed before this time."),
    ("version", "The version of the record, from 1. Every change adds one."),
    ("webhook_id", "The id of the webhook endpoint."),
    ("workflow_id", "The id of the workflow."),
];

/// Describes the properties and the parameters below `value` that have no description yet.
pub(super) fn complete(value: &mut Value, components: &Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(|item| complete(item, components)),
        Value::Object(object) => {
            for (name, part) in object.iter_mut().filter(|(name, _)| !super::normalize::VALUES.contains(&name.as_str())) {
                match (name.as_str(), part) {
                    ("properties", Value::Object(properties)) => {
                        for (name, property) in properties.iter_mut() {
                            describe(name, property, components);
                            complete(property, components);
                        }
                    }
                    ("parameters", Value::Array(parameters)) => {
                        for parameter in parameters {
                            let name = parameter.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
                            describe(&name, parameter, components);
                        }
                    }
                    (_, part) => complete(part, components),
                }
            }
        }
        _ => {}
    }
}

fn describe(name: &str, member: &mut Value, components: &Value) {
    let text = COMMON.iter().find(|(common, _)| *common == name).map(|(_, text)| *text);
    if let Some(text) = text.filter(|_| !is_described(member, components))
        && let Some(member) = member.as_object_mut()
    {
        member.insert("description".to_owned(), text.into());
    }
}

/// Whether a member is described by itself, or by the schema that it, its items or one of its forms refer to.
pub fn is_described(member: &Value, components: &Value) -> bool {
    let forms = |member: &Map<String, Value>| -> Vec<Value> {
        let forms = ["anyOf", "oneOf"].iter().filter_map(|word| member.get(*word)?.as_array().cloned()).flatten();
        forms.chain(["schema", "items"].iter().filter_map(|word| member.get(*word).cloned())).collect()
    };
    let has_text = |schema: &Value| schema.get("description").and_then(Value::as_str).is_some_and(|text| !text.trim().is_empty());
    let refers = |schema: &Value| schema.get("$ref").is_some() && has_text(resolve(schema, components));
    has_text(member)
        || refers(member)
        || member
            .as_object()
            .is_some_and(|members| forms(members).iter().any(|form| refers(form) || form.get("items").is_some_and(refers)))
}
