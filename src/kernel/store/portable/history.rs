//! The tenant's part of the log as something that can be carried: each event as it was sent, but for its number.
//!
//! The events of a file are numbered from 1. They come first, so that what refers to them finds out which numbers they have got.

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

/// The longest name of a kind of event.
const LONGEST_KIND: usize = 100;

/// An event's body, as far as it is the same for all kinds.
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

/// Such as `ticket.created`.
fn is_kind(text: &str) -> bool {
    let word = |word: &str| {
        !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
    };
    text.len() <= LONGEST_KIND && text.contains('.') && text.split('.').all(word)
}

/// The event of a line, which must be the next one.
fn read(arrival: &Arrival, line: &Line<'_>) -> Result<EventRecord, PortError> {
    let wrong = |reason: String| Err(PortError::Wrong(reason));
    let ([ordinal], body): ([u64; 1], Body) = (parse(line.key)?, parse(line.record)?);
    if body.tenant_id != arrival.tenant {
        return wrong(format!("this event is of {}", body.tenant_id));
    }
    if ordinal != arrival.landing.next() || body.seq != ordinal {
        return wrong(format!("this event has the number {}, where {} is due", body.seq, arrival.landing.next()));
    }
    if !is_kind(&body.kind) {
        return wrong("its type is no name of a kind of event".to_owned());
    }
    let (id, tenant_id, kind, at) = (body.id, body.tenant_id, body.kind, body.timestamp);
    let body = line.record.get().as_bytes().to_vec();
    let record = EventRecord { id, tenant_id, kind, at, body, imported_at: None, number: ordinal };
    if events::moved_body(&record, ordinal).is_none() {
        return wrong("the event does not begin as events do".to_owned());
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
            let event = events::read_one(tx, seq)?.ok_or_else(|| damaged("the feed leads to no event"))?;
            ordinal += 1;
            let body = events::moved_body(&event.record, ordinal).ok_or_else(|| damaged("the body is not that of this event"))?;
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
        // Behind the one before it, as it will be in the log.
        let number = arrival.landing.next_number();
        arrival.landing.landed(number);
        Ok(Vec::new())
    }

    fn arrive(&self, tx: &mut WriteTx, arrival: &mut Arrival, line: &Line<'_>) -> Result<(), PortError> {
        let number = events::bring_in(tx, read(arrival, line)?, arrival.now)?;
        arrival.landing.landed(number);
        Ok(())
    }
}
