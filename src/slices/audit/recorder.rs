//! Reads the event log and appends audited events to the chains. Records, the signed ends of the chains and the cursor commit
//! together. After a crash the recorder resumes where it was, and no event is recorded twice.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use tenantd_base::{clock::Timestamp, id::TenantId, secrets::Signer};
use tenantd_store::{
    StoreError, WriteTx, catalog,
    events::{Consumer, Event},
};

use super::{
    model::{CHECKPOINT_RECORDS, Entry, Statement, link, origin},
    repo::{self, AuditRecord, Head, Imported, StoredCheckpoint},
};

pub(super) const NAME: &str = "audit";

/// A chain with few records also stores a checkpoint after this time, so that retention has a checkpoint to cut at.
const CHECKPOINT_SPAN: Duration = Duration::from_hours(24);

#[derive(Clone, Debug)]
pub(super) struct Recorder {
    pub(super) signer: Arc<Signer>,
}

/// Appends to one chain within a transaction.
struct ChainWriter {
    statement: Statement,
    seq: u64,
    /// When a checkpoint was last stored. `None` before the first record.
    kept_at: Option<Timestamp>,
    imported: Option<Imported>,
}

impl ChainWriter {
    fn open(tx: &WriteTx, tenant: TenantId, now: Timestamp) -> Result<Self, StoreError> {
        let empty = Statement { tenant_id: tenant, first: 1, number: 0, hash: origin(tenant), at: now };
        Ok(repo::head(tx, tenant)?.map_or(Self { statement: empty, seq: 0, kept_at: None, imported: None }, |head| Self {
            statement: head.end.checkpoint.statement,
            seq: head.end.seq,
            kept_at: Some(head.kept_at),
            imported: head.imported,
        }))
    }

    fn append(&mut self, tx: &mut WriteTx, entry: &Entry) -> Result<(), StoreError> {
        let body = serde_json::to_vec(entry).map_err(StoreError::engine)?;
        let hash = link(&self.statement.hash, &body);
        let place = entry.seq + self.imported.map_or(0, |imported| imported.offset);
        repo::RECORDS.insert(tx, &(entry.tenant_id, place), &AuditRecord { number: entry.number, body, hash })?;
        self.statement = Statement { number: entry.number, hash, at: entry.at, ..self.statement };
        self.seq = place;
        Ok(())
    }

    fn sign(&self, signer: &Signer) -> Result<StoredCheckpoint, StoreError> {
        let checkpoint = self.statement.sign(signer).map_err(StoreError::engine)?;
        Ok(StoredCheckpoint { checkpoint, seq: self.seq })
    }

    fn keep(&mut self, tx: &mut WriteTx, signer: &Signer) -> Result<(), StoreError> {
        self.kept_at = Some(self.statement.at);
        repo::keep_checkpoint(tx, &self.sign(signer)?)
    }

    /// Signs and stores the end of the chain.
    fn close(mut self, tx: &mut WriteTx, signer: &Signer) -> Result<(), StoreError> {
        let at = self.statement.at;
        let kept_at = *self.kept_at.get_or_insert(at);
        if at.since(kept_at) >= CHECKPOINT_SPAN {
            self.keep(tx, signer)?;
        }
        repo::put_head(tx, &Head { end: self.sign(signer)?, kept_at: self.kept_at.unwrap_or(at), imported: self.imported })
    }
}

impl Consumer for Recorder {
    fn name(&self) -> &'static str {
        NAME
    }

    fn gathers(&self) -> Duration {
        Duration::from_millis(200)
    }

    fn handle(&self, tx: &mut WriteTx, events: &[Event]) -> Result<(), StoreError> {
        let mut chains: BTreeMap<TenantId, ChainWriter> = BTreeMap::new();
        for event in events {
            let damaged =
                |error: serde_json::Error| StoreError::damaged(catalog::EVENTS.name(), &event.seq.to_be_bytes(), error.to_string());
            let Some(mut entry) = Entry::of(event, 0).map_err(damaged)? else { continue };
            let tenant = entry.tenant_id;
            let chain = match chains.entry(tenant) {
                std::collections::btree_map::Entry::Occupied(chain) => chain.into_mut(),
                std::collections::btree_map::Entry::Vacant(place) => place.insert(ChainWriter::open(tx, tenant, entry.at)?),
            };
            entry.number = chain.statement.number + 1;
            chain.append(tx, &entry)?;
            if entry.number % CHECKPOINT_RECORDS == 0 {
                chain.keep(tx, &self.signer)?;
            }
        }
        chains.into_values().try_for_each(|chain| chain.close(tx, &self.signer))
    }
}
