//! What an event says around its data. The field order here is the order on the wire.

use serde::Serialize;
use serde_json::value::RawValue;

use super::{
    act::{Act, Actor, Cause},
    kind::EventKind,
    log::EventRecord,
};
use crate::kernel::{
    clock::Timestamp,
    id::{EventId, TenantId},
};

/// The record that an event is about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Resource {
    pub kind: &'static str,
    pub id: String,
    pub version: u64,
}

/// An event before it has its place in the log.
#[derive(Debug)]
pub struct Draft {
    pub kind: &'static EventKind,
    pub resource: Resource,
    pub data: Box<RawValue>,
}

impl Draft {
    /// An event whose data is `{"<subject>": record}`, with `changes` beside it where the kind has them.
    pub fn new(
        kind: &'static EventKind,
        id: String,
        version: u64,
        record: &RawValue,
        changes: Option<&RawValue>,
    ) -> Result<Self, serde_json::Error> {
        let mut data = String::with_capacity(record.get().len() + 64);
        data.push_str("{\"");
        data.push_str(kind.subject);
        data.push_str("\":");
        data.push_str(record.get());
        if let Some(changes) = changes {
            data.push_str(",\"changes\":");
            data.push_str(changes.get());
        }
        data.push('}');
        Ok(Self { kind, resource: Resource { kind: kind.subject, id, version }, data: RawValue::from_string(data)? })
    }
}

#[derive(Serialize)]
struct Envelope<'a> {
    id: EventId,
    #[serde(rename = "type")]
    kind: &'a str,
    timestamp: Timestamp,
    tenant_id: TenantId,
    seq: u64,
    resource: &'a Resource,
    actor: &'a Actor,
    #[serde(skip_serializing_if = "Cause::is_empty")]
    cause: &'a Cause,
    data: &'a RawValue,
}

pub(super) fn render(act: &Act, id: EventId, seq: u64, draft: &Draft) -> Result<Vec<u8>, serde_json::Error> {
    serde_json::to_vec(&Envelope {
        id,
        kind: draft.kind.name,
        timestamp: act.now,
        tenant_id: act.tenant_id,
        seq,
        resource: &draft.resource,
        actor: &act.actor,
        cause: &act.cause,
        data: &draft.data,
    })
}

/// The front of a body: what stands before the record that the event is about.
#[derive(Serialize)]
struct Front<'a> {
    id: EventId,
    #[serde(rename = "type")]
    kind: &'a str,
    timestamp: Timestamp,
    tenant_id: TenantId,
    seq: u64,
}

/// The body of an event at another place in a log: all of its bytes but the sequence number stay. `None` when the body is not that
/// of this event at place `from`.
pub(super) fn moved(record: &EventRecord, from: u64, to: u64) -> Option<Vec<u8>> {
    let front = |seq| {
        let (id, kind, timestamp, tenant_id) = (record.id, record.kind.as_str(), record.at, record.tenant_id);
        let mut text = serde_json::to_vec(&Front { id, kind, timestamp, tenant_id, seq }).ok()?;
        text.pop();
        text.push(b',');
        Some(text)
    };
    let rest = record.body.strip_prefix(front(from)?.as_slice())?;
    Some([front(to)?.as_slice(), rest].concat())
}
