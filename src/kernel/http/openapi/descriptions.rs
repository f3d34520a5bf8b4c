//! Descriptions of members that mean the same in every slice. A `///` comment on a slice's own member takes precedence.

use serde_json::{Map, Value};

use super::super::schema::resolve;

/// The members of schemas and parameters, by name.
const COMMON: &[(&str, &str)] = &[
    ("assignee_id", "The id of the assigned user."),
    ("at", "When it happened."),
    ("code", "A stable code for the error, in one word."),
    ("contact_id", "The id of the contact, a person at the customer."),
    ("count", "The number of items."),
    ("created_after", "Returns only records that were created after this time."),
    ("created_at", "When the record was created."),
    ("created_before", "Returns only records that were created before this time."),
    ("data", "The records of this page."),
    ("delivery_id", "The id of the delivery."),
    ("description", "A free-text description."),
    ("device_id", "The id of the device."),
    ("device_ids", "The ids of the devices."),
    ("domain", "The domain name, such as `example.com`."),
    ("duration_seconds", "How long it took, in seconds."),
    ("email", "The e-mail address."),
    ("enabled", "Whether it is active."),
    ("ended_at", "When it ended. Absent if it has not ended."),
    ("external_id", "The id of the record in another system."),
    ("id", "The id of the record."),
    ("key_id", "The id of the API key."),
    ("kind", "The kind of the record."),
    ("message", "A sentence that explains the error."),
    ("name", "The name of the record."),
    ("next_attempt_at", "When the next attempt is due."),
    ("operation_id", "The id of the operation."),
    ("organization_external_id", "The id of the organization in the system that sends the line."),
    ("organization_id", "The id of the organization."),
    ("password", "The password, in plain text. It is never returned."),
    ("records", "The number of records."),
    ("started_at", "When it started."),
    ("status", "The state of the record."),
    ("tables", "The number of tables."),
    ("tags", "Labels that you choose."),
    ("tenant_id", "The id of the tenant."),
    ("type", "The type of the record."),
    ("updated_after", "Returns only records that were changed after this time."),
    ("updated_at", "When the record was last changed."),
    ("updated_before", "Returns only records that were changed before this time."),
    ("version", "The version of the record. It starts at 1, and every change increases it by one."),
    ("webhook_id", "The id of the webhook endpoint."),
    ("workflow_id", "The id of the workflow."),
];

/// Describes the properties and parameters below `value` that have no description yet.
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

/// Whether a member has its own description, or one from the schema that it, its items or one of its forms refer to.
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
