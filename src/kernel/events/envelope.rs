//! What an event says around its data. The field order here is the order on the wire.

use serde::{Serialize, Serializer};
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

/// An event before it has its place in the log. Its data is `{"<subject>": record}`, and what stands beside that.
#[derive(Debug)]
pub struct Draft<'a> {
    pub kind: &'static EventKind,
    pub resource: Resource,
    record: &'a RawValue,
    beside: Option<(&'static str, &'a RawValue)>,
}

impl<'a> Draft<'a> {
    pub fn new(kind: &'static EventKind, id: String, version: u64, record: &'a RawValue) -> Self {
        Self { kind, resource: Resource { kind: kind.subject, id, version }, record, beside: None }
    }

    /// With the fields that changed, where the kind has them.
    #[must_use]
    pub fn with_changes(self, changes: Option<&'a RawValue>) -> Self {
        Self { beside: changes.map(|changes| ("changes", changes)), ..self }
    }

    /// With another record, under its name.
    #[must_use]
    pub fn with(self, name: &'static str, other: &'a RawValue) -> Self {
        Self { beside: Some((name, other)), ..self }
    }
}

impl Serialize for Draft<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map([(self.kind.subject, self.record)].into_iter().chain(self.beside))
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
    data: &'a Draft<'a>,
}

pub(super) fn render(act: &Act, id: EventId, seq: u64, draft: &Draft<'_>) -> Result<Vec<u8>, serde_json::Error> {
    serde_json::to_vec(&Envelope {
        id,
        kind: draft.kind.name,
        timestamp: act.now,
        tenant_id: act.tenant_id,
        seq,
        resource: &draft.resource,
        actor: &act.actor,
        cause: &act.cause,
        data: draft,
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
