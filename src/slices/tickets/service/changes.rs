//! What a change changed, as an event tells it: the fields by the names that a patch has for them.

use serde_json::{Map, Value, json};

use crate::model::{CustomFields, FieldValue, Ticket, reference};

pub(crate) fn field_value(value: &FieldValue) -> Value {
    match value {
        FieldValue::Text(text) => json!(text),
        FieldValue::Integer(number) => json!(number),
        FieldValue::Number(number) => json!(number),
        FieldValue::Flag(flag) => json!(flag),
    }
}

pub(crate) fn field_values(fields: &CustomFields) -> Map<String, Value> {
    fields.iter().map(|(name, value)| (name.clone(), field_value(value))).collect()
}

fn fields(ticket: &Ticket) -> [(&'static str, Value); 24] {
    let link = |number: Option<u64>| json!(number.map(reference));
    let resolution = ticket.resolution.as_ref();
    [
        ("subject", json!(ticket.subject)),
        ("description", json!(ticket.description)),
        ("type", json!(ticket.kind)),
        ("status", json!(ticket.status)),
        ("priority", json!(ticket.priority)),
        ("impact", json!(ticket.impact)),
        ("urgency", json!(ticket.urgency)),
        ("source", json!(ticket.source)),
        ("queue", json!(ticket.queue)),
        ("category", json!(ticket.category)),
        ("organization_id", json!(ticket.organization_id)),
        ("contact_id", json!(ticket.contact_id)),
        ("assignee_id", json!(ticket.assignee_id)),
        ("device_ids", json!(ticket.device_ids)),
        ("tags", json!(ticket.tags)),
        ("custom_fields", Value::Object(field_values(&ticket.custom_fields))),
        ("external_refs", json!(ticket.external_refs)),
        ("dedup_key", json!(ticket.dedup_key)),
        ("parent", link(ticket.parent.map(|parent| parent.number))),
        ("merged_into", link(ticket.merged_into.map(|target| target.number))),
        ("resolution", json!(resolution.map(|resolution| json!({"code": resolution.code, "summary": resolution.summary})))),
        ("due_at", json!(ticket.due_at)),
        ("time_spent_minutes", json!(ticket.time_spent_minutes)),
        ("first_responded_at", json!(ticket.first_responded_at)),
    ]
}

pub(super) fn changes(before: &Ticket, after: &Ticket) -> Value {
    let pairs = fields(before).into_iter().zip(fields(after));
    let changed = pairs.filter(|((_, from), (_, to))| from != to);
    Value::Object(changed.map(|((name, from), (_, to))| (name.to_owned(), json!({"from": from, "to": to}))).collect())
}
