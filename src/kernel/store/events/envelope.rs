//! The envelope of an event: the fields around its data, in wire order.

use serde::{Deserialize, Serialize, Serializer, ser::SerializeMap};
use serde_json::value::RawValue;

use tenantd_base::{
    clock::Timestamp,
    id::{EventId, TenantId},
};

use super::{
    act::{Act, Actor, Cause},
    changes::Changes,
    kind::EventKind,
    log::EventRecord,
};

/// The record that an event is about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Resource {
    pub kind: &'static str,
    pub id: String,
    pub version: u64,
}

pub type Described<E = serde_json::Error> = Result<Box<RawValue>, E>;

/// A record that events show. A slice implements this in `api/`, next to the wire form. Its service calls it without knowing that
/// form.
///
/// `With` is what the wire form needs in addition to the record, such as the time or the names of other records.
pub trait Describe<With = (), E = serde_json::Error> {
    fn describe(&self, with: With) -> Described<E>;
}

/// An event without its number. Its data is `{"<subject>": record}`, with additional members if there are any.
#[derive(Debug)]
pub struct Draft<'a> {
    pub kind: &'static EventKind,
    pub resource: Resource,
    record: &'a RawValue,
    changes: Option<&'a Changes>,
    beside: Option<(&'static str, &'a RawValue)>,
}

impl<'a> Draft<'a> {
    pub fn new(kind: &'static EventKind, id: String, version: u64, record: &'a RawValue) -> Self {
        Self { kind, resource: Resource { kind: kind.subject, id, version }, record, changes: None, beside: None }
    }

    /// Adds the changed fields, if the kind has them.
    #[must_use]
    pub fn with_changes(self, changes: Option<&'a Changes>) -> Self {
        Self { changes, ..self }
    }

    /// Adds another record under `name`.
    #[must_use]
    pub fn with(self, name: &'static str, other: &'a RawValue) -> Self {
        Self { beside: Some((name, other)), ..self }
    }
}

impl Serialize for Draft<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut data = serializer.serialize_map(None)?;
        data.serialize_entry(self.kind.subject, self.record)?;
        if let Some(changes) = self.changes {
            data.serialize_entry("changes", changes)?;
        }
        if let Some((name, other)) = self.beside {
            data.serialize_entry(name, other)?;
        }
        data.end()
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

/// The subject of an event, as its body names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub struct About<'a> {
    pub kind: &'a str,
    pub id: &'a str,
}

/// Reads the subject of an event from its body without parsing the rest. Only strings with escaped quotes come before the field,
/// so the first match is the field.
pub fn about(body: &[u8]) -> Option<About<'_>> {
    const FIELD: &[u8] = b",\"resource\":";
    let at = body.windows(FIELD.len()).position(|bytes| bytes == FIELD)?;
    serde_json::Deserializer::from_slice(body.get(at + FIELD.len()..)?).into_iter().next()?.ok()
}

/// The first fields of a body, before the record that the event is about.
#[derive(Serialize)]
struct Front<'a> {
    id: EventId,
    #[serde(rename = "type")]
    kind: &'a str,
    timestamp: Timestamp,
    tenant_id: TenantId,
    seq: u64,
}

/// Returns the body of an event with another number and otherwise the same bytes. `None` if the body is not that of this event
/// with the number `from`.
pub(super) fn renumbered(record: &EventRecord, from: u64, to: u64) -> Option<Vec<u8>> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_subject_is_read_without_the_rest_of_the_body() {
        let read = |body: &'static str| about(body.as_bytes());
        let ticket = Some(About { kind: "ticket", id: "tkt_1" });
        let body = r#"{"id":"evt_1","type":",\"resource\":{\"kind\":\"a\",\"id\":\"b\"}","seq":1,"resource":{"kind":"ticket","id":"tkt_1","version":2},"data":{"#;
        assert_eq!(read(body), ticket);
        assert_eq!(read(r#"{"seq":1,"resource":{"kind":"ticket","#), None);
        assert_eq!(read(r#"{"seq":1,"data":{}}"#), None);
        assert_eq!(read(""), None);
    }
}
