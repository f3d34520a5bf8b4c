//! Builds an index from the records, step by step, while the current index answers requests.
//!
//! The build notes its position in the log before it reads the first record. Each step reads its own snapshot. Changes made
//! during the build come after that position in the log, and are read again from there.

use std::path::Path;

use tenantd_base::id::EventId;
use tenantd_store::{Read, Store, StoreError, events};

use super::{
    super::{
        error::IndexError,
        sources::{After, SOURCES},
    },
    disk::{Disk, Position},
};

/// The number of records that a step reads. A shutdown waits for a step.
const STEP: usize = 250;

#[derive(Debug)]
pub struct Build {
    disk: Disk,
    position: Position,
    /// The current source, and the last record that was read from it.
    source: usize,
    after: Option<After>,
    pub documents: u64,
}

/// The sequence number and id of the newest event.
pub fn head(tx: &impl Read) -> Result<(u64, Option<EventId>), StoreError> {
    let seq = events::head(tx)?;
    Ok((seq, events::read_one(tx, seq)?.map(|event| event.record.id)))
}

impl Build {
    pub fn start(root: &Path, store: &Store) -> Result<Self, IndexError> {
        let (seq, event) = store.read(head)?;
        let disk = Disk::create(root)?;
        Ok(Self { disk, position: Position::new(seq, event), source: 0, after: None, documents: 0 })
    }

    pub fn generation(&self) -> u64 {
        self.disk.generation
    }

    /// Reads a batch of records. Returns `Ok(Ok(_))` with the index once it has all of them.
    pub fn step(mut self, store: &Store) -> Result<Result<Disk, Self>, IndexError> {
        let Some(source) = SOURCES.get(self.source) else {
            self.disk.commit(self.position)?;
            return Ok(Ok(self.disk));
        };
        let (documents, after) = store.read(|tx| source.scan(tx, self.after, STEP))?;
        for document in &documents {
            self.disk.add(document)?;
        }
        self.documents += documents.len() as u64;
        self.after = after;
        if self.after.is_none() {
            self.source += 1;
        }
        Ok(Err(self))
    }
}
