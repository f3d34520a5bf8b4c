//! The `webhooks` section of the OpenAPI document: what receivers get for each kind of event. It is generated from the list of
//! kinds, so none is missing.

use serde_json::{Map, Value, json};

use tenantd_base::access::Scope;
use tenantd_platform::Platform;
use tenantd_store::events::{EventKind, Kinds};

/// The webhooks of these kinds, by name.
pub(crate) fn webhooks(kinds: &Kinds) -> Map<String, Value> {
    kinds.iter().map(|kind| (kind.name.to_owned(), json!({"post": operation(kinds, kind)}))).collect()
}

fn operation(kinds: &Kinds, kind: &EventKind) -> Value {
    let scopes: Vec<&str> = kind.reads.iter().map(Scope::name).collect();
    let needs = if scopes.is_empty() { String::new() } else { format!(" The endpoint's owner needs {}.", scopes.join(" and ")) };
    let description = format!(
        "Sent at least once to each endpoint that subscribes to `{}`, signed by Standard Webhooks 1.0.0. The body has at most 256 KiB.{needs}",
        kind.name
    );
    json!({
        "operationId": format!("on_{}", kind.name.replace('.', "_")),
        "summary": kind.summary.trim_end_matches('.'),
        "description": description,
        "tags": ["Webhooks"],
        "security": [],
        "parameters": headers(),
        "requestBody": {
            "description": "The event.",
            "required": true,
            "content": {"application/json": {"schema": body(kinds, kind)}},
        },
        "responses": {
            "2XX": {"description": "Any status from 200 to 299: the receiver accepted the event."},
            "410": {"description": "The receiver is gone. tenantd disables the endpoint."},
            "default": {"description": "The receiver did not accept the event. tenantd retries it according to the endpoint's `retry` schedule."},
        },
    })
}

fn headers() -> Value {
    let header = |name: &str, description: &str| json!({"name": name, "in": "header", "required": true, "description": description, "schema": {"type": "string"}});
    json!([
        header("webhook-id", "The id of the event. All attempts have the same id."),
        header("webhook-timestamp", "When the attempt was made, in seconds since 1970."),
        header(
            "webhook-signature",
            "`v1,` and the Base64 of an HMAC-SHA256 of `webhook-id`, `webhook-timestamp` and the body, joined by dots. During a rotation it contains two signatures, separated by a space."
        ),
    ])
}

fn body(kinds: &Kinds, kind: &EventKind) -> Value {
    let mut data = Platform::event_data_schema(kinds, kind);
    if let Some(data) = data.as_object_mut() {
        data.insert("description".to_owned(), "The record that the event is about.".into());
    }
    let own = json!({
        "type": "object",
        "required": ["type", "data"],
        "properties": {
            "type": {"type": "string", "const": kind.name, "description": "The kind of the event."},
            "data": data,
        },
    });
    json!({"allOf": [{"$ref": format!("#/components/schemas/{}", Platform::EVENT_ENVELOPE)}, own]})
}
