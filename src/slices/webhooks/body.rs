//! The body of a delivery: the stored bytes of the event, or a shortened form of an event that is too large for receivers.
//!
//! The shortened form depends on the stored bytes alone, so every attempt sends the same body. Receivers can read the full event at
//! `data_url`.

use std::borrow::Cow;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::{
    Value, json,
    value::{RawValue, to_raw_value},
};

use tenantd_store::events::{self, About};

/// The largest body of a delivery.
const MAX_BYTES: usize = 256 << 10;
/// How many characters of a long text are kept.
const MAX_TEXT: usize = 1024;

/// An event around its data, in wire order.
#[derive(Clone, Deserialize, Serialize)]
struct Envelope<'a> {
    #[serde(borrow)]
    id: &'a RawValue,
    #[serde(borrow, rename = "type")]
    kind: &'a RawValue,
    #[serde(borrow)]
    timestamp: &'a RawValue,
    #[serde(borrow)]
    tenant_id: &'a RawValue,
    #[serde(borrow)]
    seq: &'a RawValue,
    #[serde(borrow)]
    resource: &'a RawValue,
    #[serde(borrow)]
    actor: &'a RawValue,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    cause: Option<&'a RawValue>,
    #[serde(borrow)]
    data: Cow<'a, RawValue>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    data_truncated: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    data_url: Option<String>,
}

/// The body of an event's deliveries, from its stored bytes and its number in the tenant's sequence.
pub(super) fn delivery_body(stored: Vec<u8>, number: u64) -> Bytes {
    if stored.len() <= MAX_BYTES {
        return Bytes::from(stored);
    }
    // tenantd wrote these bytes, so they can be parsed.
    cut(&stored, number).map_or_else(|| Bytes::from(stored), Bytes::from)
}

fn cut(stored: &[u8], number: u64) -> Option<Vec<u8>> {
    let envelope: Envelope<'_> = serde_json::from_slice(stored).ok()?;
    let with = |data: &Value| {
        let (data, data_url) = (Cow::Owned(to_raw_value(data).ok()?), Some(format!("/api/events/{number}")));
        serde_json::to_vec(&Envelope { data, data_truncated: Some(true), data_url, ..envelope.clone() }).ok()
    };
    let mut data: Value = serde_json::from_str(envelope.data.get()).ok()?;
    shorten(&mut data);
    let shortened = with(&data)?;
    if shortened.len() <= MAX_BYTES {
        return Some(shortened);
    }
    let About { kind, id } = events::about(stored)?;
    with(&json!({kind: {"id": id}}))
}

/// Shortens long texts. Keeps the structure, so receivers find the fields that they expect.
fn shorten(value: &mut Value) {
    match value {
        Value::String(text) => {
            if let Some((end, _)) = text.char_indices().nth(MAX_TEXT) {
                text.truncate(end);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(shorten),
        Value::Object(members) => members.values_mut().for_each(shorten),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(data: &Value) -> Vec<u8> {
        let front = r#"{"id":"evt_1","type":"ticket.updated","timestamp":"2026-01-01T00:00:00.000Z","tenant_id":"tnt_1","seq":7"#;
        let rest = r#""resource":{"kind":"ticket","id":"tkt_1","version":2},"actor":{"kind":"user","id":"usr_1","name":"A"}"#;
        format!("{front},{rest},\"data\":{data}}}").into_bytes()
    }

    #[test]
    fn an_event_within_the_limit_is_sent_unchanged() {
        let empty = event(&json!({"ticket": {"subject": ""}})).len();
        let fitting = event(&json!({"ticket": {"subject": "x".repeat(MAX_BYTES - empty)}}));
        assert_eq!(fitting.len(), MAX_BYTES);
        assert_eq!(delivery_body(fitting.clone(), 7), fitting);
    }

    #[test]
    fn long_texts_are_shortened() {
        let long = "ü".repeat(MAX_BYTES);
        let data = json!({"ticket": {"id": "tkt_1", "description": long, "tags": ["a", long]}, "changes": {"description": {"from": null, "to": long}}});
        let sent: Value = serde_json::from_slice(&delivery_body(event(&data), 7)).unwrap();
        let cut = "ü".repeat(1024);
        let left = json!({"ticket": {"id": "tkt_1", "description": cut, "tags": ["a", cut]}, "changes": {"description": {"from": null, "to": cut}}});
        assert_eq!(sent["data"], left);
        assert_eq!((&sent["data_truncated"], &sent["data_url"]), (&json!(true), &json!("/api/events/7")));
        assert_eq!((&sent["seq"], &sent["resource"]["id"], &sent["id"]), (&json!(7), &json!("tkt_1"), &json!("evt_1")));
    }

    #[test]
    fn an_event_too_large_without_long_texts_keeps_its_id() {
        let data = json!({"ticket": {"id": "tkt_1", "numbers": vec![1_234_567_890; 100_000]}});
        let body = delivery_body(event(&data), 7);
        assert!(body.len() < 1024);
        let sent: Value = serde_json::from_slice(&body).unwrap();
        assert_eq!(sent["data"], json!({"ticket": {"id": "tkt_1"}}));
    }
}
