//! Exports and imports the tenant's part of the log: each event as it was sent, except for its number.
//!
//! The events of a file are numbered from 1. They come first, so that later records can look up the new numbers.

use serde::{Deserialize, de::IgnoredAny};

use tenantd_base::{
    clock::Timestamp,
    id::{EventId, TenantId},
};

use super::{
    Arrival, Departure, Emit, Line, PortError, Portable,
    carrier::{parse, render},
};
use crate::{
    Flow, ReadTx, StoreError, WriteTx,
    catalog::{self, TableName},
    events::{self, Actor, EventRecord},
};

#[derive(Debug)]
pub struct History;

/// The maximum length of an event kind.
const LONGEST_KIND: usize = 100;

/// The parts of an event's body that all kinds share.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Body {
    id: EventId,
    #[serde(rename = "type")]
    kind: String,
    timestamp: Timestamp,
    tenant_id: TenantId,
    seq: u64,
    #[serde(rename = "resource")]
    _resource: Resource,
    #[serde(rename = "actor")]
    _actor: Actor,
    #[serde(default, rename = "cause")]
    _cause: IgnoredAny,
    #[serde(rename = "data")]
    _data: IgnoredAny,
}

#[derive(Deserialize)]
struct Resource {
    #[serde(rename = "kind")]
    _kind: String,
    #[serde(rename = "id")]
    _id: String,
    #[serde(rename = "version")]
    _version: u64,
}

/// Whether the text has the form of a kind, such as `ticket.created`.
fn is_kind(text: &str) -> bool {
    let word = |word: &str| {
        !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
    };
    text.len() <= LONGEST_KIND && text.contains('.') && text.split('.').all(word)
}

/// Reads the event of a line, which must be the next one.
fn read(arrival: &Arrival, line: &Line<'_>) -> Result<EventRecord, PortError> {
    let wrong = |reason: String| Err(PortError::Wrong(reason));
    let ([ordinal], body): ([u64; 1], Body) = (parse(line.key)?, parse(line.record)?);
    if body.tenant_id != arrival.tenant {
        return wrong(format!("this event belongs to tenant {}", body.tenant_id));
    }
    if ordinal != arrival.numbers.next() || body.seq != ordinal {
        return wrong(format!("this event has the number {}; expected {}", body.seq, arrival.numbers.next()));
    }
    if !is_kind(&body.kind) {
        return wrong("its type is not a valid event kind".to_owned());
    }
    let (id, tenant_id, kind, at) = (body.id, body.tenant_id, body.kind, body.timestamp);
    let body = line.record.get().as_bytes().to_vec();
    let record = EventRecord { id, tenant_id, kind, at, body, imported_at: None, number: ordinal };
    if events::renumbered_body(&record, ordinal).is_none() {
        return wrong("the event does not start with the expected fields".to_owned());
    }
    Ok(record)
}

impl Portable for History {
    fn kind(&self) -> &'static str {
        "event"
    }

    fn tables(&self) -> Vec<TableName> {
        vec![catalog::EVENTS]
    }

    fn leave(&self, departure: &mut Departure<'_>, emit: Emit<'_>) -> Result<(), PortError> {
        let (tx, mut ordinal, mut failed) = (departure.tx, 0_u64, None);
        let mut one = |seq: u64| {
            let damaged = |reason: &str| StoreError::damaged(catalog::EVENTS.name(), &seq.to_be_bytes(), reason);
            let event = events::read_one(tx, seq)?.ok_or_else(|| damaged("the feed entry has no event"))?;
            ordinal += 1;
            let body =
                events::renumbered_body(&event.record, ordinal).ok_or_else(|| damaged("the body is not that of this event"))?;
            let body: Box<serde_json::value::RawValue> =
                serde_json::from_slice(&body).map_err(|error| damaged(&error.to_string()))?;
            emit(&render(&[ordinal])?, &body)
        };
        events::scan_tenant(tx, departure.tenant, 0, |_, seq| {
            failed = one(seq).err();
            Ok(if failed.is_some() { Flow::Stop } else { Flow::Continue })
        })?;
        failed.map_or(Ok(()), Err)
    }

    fn examine(&self, _tx: &ReadTx, arrival: &mut Arrival, line: &Line<'_>) -> Result<Vec<String>, PortError> {
        read(arrival, line)?;
        // The next number, as in the log.
        let number = arrival.numbers.next_number();
        arrival.numbers.push(number);
        Ok(Vec::new())
    }

    fn arrive(&self, tx: &mut WriteTx, arrival: &mut Arrival, line: &Line<'_>) -> Result<(), PortError> {
        let number = events::append_imported(tx, read(arrival, line)?, arrival.now)?;
        arrival.numbers.push(number);
        Ok(())
    }
}
