//! The tenant's part of the log as something that can be carried: each event as it was sent, but for its place.
//!
//! The events of a file are numbered from 1. They come first, so that what refers to them finds out where they have come to be.

use serde::Deserialize;

use super::{
    Arrival, Departure, Emit, Line, PortError, Portable,
    carrier::{parse, render},
};
use crate::kernel::{
    clock::Timestamp,
    events::{self, EventRecord},
    id::{EventId, TenantId},
    store::{
        Flow, ReadTx, StoreError, WriteTx,
        catalog::{self, TableName},
    },
};

#[derive(Debug)]
pub struct History;

/// The front of an event's body.
#[derive(Deserialize)]
struct Front {
    id: EventId,
    #[serde(rename = "type")]
    kind: String,
    timestamp: Timestamp,
    tenant_id: TenantId,
    seq: u64,
}

/// The event of a line, which must be the next one.
fn read(arrival: &Arrival, line: &Line<'_>) -> Result<(u64, EventRecord), PortError> {
    let wrong = |reason: String| Err(PortError::Wrong(reason));
    let ([ordinal], front): ([u64; 1], Front) = (parse(line.key)?, parse(line.record)?);
    if front.tenant_id != arrival.tenant {
        return wrong(format!("this event is of {}", front.tenant_id));
    }
    if ordinal != arrival.landing.next() || front.seq != ordinal {
        return wrong(format!("this event has the number {}, where {} is due", front.seq, arrival.landing.next()));
    }
    let (id, tenant_id, kind, at) = (front.id, front.tenant_id, front.kind, front.timestamp);
    let body = line.record.get().as_bytes().to_vec();
    Ok((ordinal, EventRecord { id, tenant_id, kind, at, body, imported_at: None }))
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
            let body = events::moved_body(&event, ordinal).ok_or_else(|| damaged("the body is not that of this event"))?;
            let body: Box<serde_json::value::RawValue> =
                serde_json::from_slice(&body).map_err(|error| damaged(&error.to_string()))?;
            emit(&render(&[ordinal])?, &body)
        };
        events::scan_tenant(tx, departure.tenant, 0, |seq| {
            failed = one(seq).err();
            Ok(if failed.is_some() { Flow::Stop } else { Flow::Continue })
        })?;
        failed.map_or(Ok(()), Err)
    }

    fn arrive(&self, tx: &mut WriteTx, arrival: &mut Arrival, line: &Line<'_>) -> Result<(), PortError> {
        let (ordinal, record) = read(arrival, line)?;
        let seq = events::bring_in(tx, record, ordinal, arrival.now)?;
        arrival.landing.landed(seq);
        Ok(())
    }

    fn conflicts(&self, _tx: &ReadTx, arrival: &mut Arrival, line: &Line<'_>) -> Result<Vec<String>, PortError> {
        let (ordinal, record) = read(arrival, line)?;
        let event = events::Event { seq: ordinal, record };
        if events::moved_body(&event, ordinal).is_none() {
            return Err(PortError::Wrong("the event does not begin as events do".to_owned()));
        }
        arrival.landing.landed(ordinal);
        Ok(Vec::new())
    }
}
