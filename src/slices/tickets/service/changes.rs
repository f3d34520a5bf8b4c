//! The changed fields for an event, under the names that a patch uses for them.

use serde_json::{Map, Value, json};

use tenantd_store::events::Changes;

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

fn fields(ticket: &Ticket) -> Value {
    let link = |number: Option<u64>| number.map(reference);
    let resolution = ticket.resolution.as_ref();
    json!({
        "subject": ticket.subject,
        "description": ticket.description,
        "type": ticket.kind,
        "status": ticket.status,
        "priority": ticket.priority,
        "impact": ticket.impact,
        "urgency": ticket.urgency,
        "source": ticket.source,
        "queue": ticket.queue,
        "category": ticket.category,
        "organization_id": ticket.organization_id,
        "contact_id": ticket.contact_id,
        "assignee_id": ticket.assignee_id,
        "device_ids": ticket.device_ids,
        "tags": ticket.tags,
        "custom_fields": field_values(&ticket.custom_fields),
        "external_refs": ticket.external_refs,
        "dedup_key": ticket.dedup_key,
        "parent": link(ticket.parent.map(|parent| parent.number)),
        "merged_into": link(ticket.merged_into.map(|target| target.number)),
        "resolution": resolution.map(|resolution| json!({"code": resolution.code, "summary": resolution.summary})),
        "due_at": ticket.due_at,
        "time_spent_minutes": ticket.time_spent_minutes,
        "first_responded_at": ticket.first_responded_at,
    })
}

pub(super) fn changes(before: &Ticket, after: &Ticket) -> Changes {
    Changes::between(&fields(before), &fields(after))
}
