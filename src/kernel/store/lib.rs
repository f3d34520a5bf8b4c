//! The embedded store: typed tables over one redb file, snapshots to read, one writer with group commit.
//!
//! This folder is the only place that names redb or bincode. **Invariant:** a write that returned `Ok` is on the disk.
//! **Boundary:** no type of the engine appears in a signature that other modules call, but for the door that tests use to
//! put a crashing disk below it ([`RedbEngine::on_backends`]).

// The list of tables is a macro that goes one level deeper for each.
#![recursion_limit = "256"]

mod cache;
pub mod catalog;
mod changes;
mod check;
pub mod codec;
mod compaction;
mod due;
pub mod engine;
mod erasure;
mod error;
pub mod events;
pub mod holders;
mod installation;
mod interruptible;
mod journal;
mod journaling;
mod key;
mod migrate;
mod outgoing;
mod pages;
pub mod portable;
mod privacy;
mod probe;
mod recent;
mod recovery;
mod redb_engine;
mod redb_file;
mod rehearsal;
mod repair;
mod reserve;
mod rotation;
mod segments;
mod shared;
mod snapshot;
mod spare;
mod spare_backend;
pub mod steps;
mod table;
pub mod tasks;
mod transaction;
pub mod usage;
mod volume;
mod watch;
mod witness;
mod writer;

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

pub use cache::VersionedCache;
pub use check::{CheckReport, Checked};
pub use compaction::Compaction;
pub use due::{Due, due_key, regroup, regroup_by_tenant, tenant_due_key};
pub use engine::{Direction, Flow, KeyRange};
pub use erasure::{RowsByIndex, RowsOfSegments, TenantRow, TenantRows, erase};
pub use error::StoreError;
pub use installation::{
    DataDirectory, Installation, InstallationId, KeyFingerprint, last_release, remove_file, write_private_file,
};
pub use journal::{JournalId, Position};
pub use journaling::Flushing;
pub use key::{FixedKey, Key};
pub use migrate::{FORMAT, Progress, Step, way};
pub use outgoing::{
    OutgoingDirectory, Plan, Reach, Replay, SegmentName, Step as ReplayStep, leads_to, left_branches, left_since,
    verify as verify_segment,
};
pub use redb_engine::{Opening, RedbEngine};
pub use redb_file::RepairProgress;
pub use rehearsal::{is_rehearsal, rehearse};
pub use repair::Loss;
pub use reserve::{WriteRoom, within_reserve};
pub use rotation::{
    KeyFiles, Rotation, RotationProgress, RotationStatus, SealedRecord, SealedSegments, SealedTable, SealedVisitor, keys_in_force,
};
pub use segments::{SegmentedTable, end_of_segment, segment_of};
pub use snapshot::{SnapshotReport, TableTally};
pub use spare_backend::SpareBackend;
pub use table::{Index, Table, TableSize, rows_under, table_sizes};
pub use transaction::{Metered, Read, ReadTx, WriteTx};
pub use usage::{Counts, Usage};
pub use volume::{Reserve, Space, Volume};
pub use watch::{Busy, WriterWatch};

use tenantd_base::{
    clock::Clock,
    id::TenantId,
    programs::{Lanes, Shares},
    quotas::Quotas,
    telemetry::panic_text,
};

use self::{
    catalog::TableName,
    engine::{Durability, Engine},
    interruptible::Interruptible,
    shared::Shared,
    writer::Queue,
};

/// How the writer is set up.
#[derive(Clone, Copy, Debug)]
pub struct WriterSettings {
    pub batch_size: usize,
    pub queue_length: usize,
}

/// How an installation's store is opened.
#[derive(Clone, Debug)]
pub struct StoreSettings {
    pub cache_bytes: usize,
    pub journal_bytes: u64,
    pub writer: WriterSettings,
    /// What the times of commits are taken from.
    pub clock: Clock,
}

/// A handle to the open store; clones share it. The file is closed when the last one is dropped.
#[derive(Clone)]
pub struct Store {
    inner: Arc<Inner>,
}

struct Inner {
    engine: Arc<dyn Engine>,
    shared: Arc<Shared>,
    volume: Arc<Volume>,
    lanes: Lanes,
    queue: Option<Queue>,
    writer: Option<std::thread::JoinHandle<()>>,
}

impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Store")
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        // Without the queue the writer ends after what it was given; only then may the engine close the file.
        self.queue = None;
        if let Some(writer) = self.writer.take()
            && writer.join().is_err()
        {
            tracing::error!("the writer thread ended by a panic");
        }
    }
}

impl Store {
    /// A store on storage that nobody watches over.
    pub fn new(engine: impl Engine, settings: WriterSettings) -> Result<Self, StoreError> {
        Self::on_volume(engine, settings, Arc::new(Volume::unwatched()))
    }

    /// A store whose engine writes to `volume`, and whose writes wait for room there.
    fn on_volume(engine: impl Engine, settings: WriterSettings, volume: Arc<Volume>) -> Result<Self, StoreError> {
        let engine: Arc<dyn Engine> = Arc::new(engine);
        let shared = Arc::new(Shared::new());
        let shares = Shares::default();
        let (queue, thread) = writer::spawn(engine.clone(), shared.clone(), shares.clone(), settings)?;
        let lanes =
            Lanes::new(shares).map_err(|error| StoreError::Installation(format!("cannot start threads for reads: {error}")))?;
        let (queue, writer) = (Some(queue), Some(thread));
        Ok(Self { inner: Arc::new(Inner { engine, shared, volume, lanes, queue, writer }) })
    }

    /// Runs `work` on one consistent snapshot, on this thread. For what takes microseconds; a scan belongs in [`Store::scan`].
    pub fn read<T, E: From<StoreError>>(&self, work: impl FnOnce(&ReadTx) -> Result<T, E>) -> Result<T, E> {
        let _measured = self.inner.shared.read_started();
        let tx = ReadTx::new(self.inner.engine.begin_read()?);
        // A damaged page makes redb panic; that must cost this request and not the process.
        catch_unwind(AssertUnwindSafe(|| work(&tx)))
            .unwrap_or_else(|cause| Err(E::from(StoreError::Panicked(panic_text(cause.as_ref())))))
    }

    /// Runs `work` on one consistent snapshot, on a thread that may block, for a request of a tenant. Tenants share the processors: see
    /// [`Lanes`].
    pub async fn scan_for<T, E>(
        &self,
        tenant: TenantId,
        work: impl FnOnce(&ReadTx) -> Result<T, E> + Send + 'static,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
    {
        let store = self.clone();
        self.inner.lanes.run(tenant, move || store.read(work)).await.map_err(StoreError::from)?
    }

    /// As [`Store::scan_for`], for an export: it may take as long as its receiver does.
    pub async fn scan_long<T, E>(&self, work: impl FnOnce(&ReadTx) -> Result<T, E> + Send + 'static) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
    {
        let store = self.clone();
        self.inner.lanes.run_long(move || store.read(work)).await.map_err(StoreError::from)?
    }

    /// As [`Store::scan_long`], for upkeep that reads the whole store. Reads fail as [`StoreError::Unavailable`] once the server stops; work
    /// that reads past the snapshot looks at the flag itself.
    pub(crate) async fn scan_until_stop<T: Send + 'static>(
        &self,
        work: impl FnOnce(&ReadTx, &Arc<AtomicBool>) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let store = self.clone();
        let read = move || {
            let _measured = store.inner.shared.read_started();
            let stop = &store.inner.shared.stopping;
            let tx = ReadTx::new(Box::new(Interruptible::new(store.inner.engine.begin_read()?, stop.clone())));
            // A damaged page makes redb panic; that must cost this work and not the process.
            catch_unwind(AssertUnwindSafe(|| work(&tx, stop)))
                .unwrap_or_else(|cause| Err(StoreError::Panicked(panic_text(cause.as_ref()))))
        };
        self.inner.lanes.run_long(read).await.map_err(StoreError::from)?
    }

    /// The threads that reads of tenants share.
    pub fn lanes(&self) -> &Lanes {
        &self.inner.lanes
    }

    /// What each tenant uses of the processors.
    pub fn shares(&self) -> &Shares {
        self.inner.lanes.shares()
    }

    /// Runs `work` on one consistent snapshot, on a thread that may block. For tenantd's own tasks.
    pub async fn scan<T, E>(&self, work: impl FnOnce(&ReadTx) -> Result<T, E> + Send + 'static) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
    {
        let store = self.clone();
        tokio::task::spawn_blocking(move || store.read(work))
            .await
            .unwrap_or_else(|error| Err(E::from(StoreError::Panicked(error.to_string()))))
    }

    /// Runs `work` in the next transaction and returns once it is durable. `work` **may run more than once**: it takes time, ids
    /// and randomness from outside, does no I/O, and checks before it writes. While writes are held back it waits, unless it is made
    /// [`within_reserve`].
    pub async fn write<T, E>(&self, work: impl FnMut(&mut WriteTx) -> Result<T, E> + Send + 'static) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
    {
        self.submit(Durability::Now, work).await
    }

    /// The same for what a start after a loss of power makes again from what is durable: what a reader of the log derives from events,
    /// together with its cursor. Returns once readers see it; it is on the disk with the next [`Store::write`], or a moment later, and
    /// never without all that was written before it. What also appends events is durable at once.
    pub async fn write_derived<T, E>(&self, work: impl FnMut(&mut WriteTx) -> Result<T, E> + Send + 'static) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
    {
        self.submit(Durability::Later, work).await
    }

    async fn submit<T, E, F>(&self, durability: Durability, work: F) -> Result<T, E>
    where
        F: FnMut(&mut WriteTx) -> Result<T, E> + Send + 'static,
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
    {
        self.inner.volume.gate.pass().await?;
        match &self.inner.queue {
            Some(queue) => queue.submit(durability, work).await,
            None => Err(E::from(StoreError::Unavailable("it is being closed".to_owned()))),
        }
    }

    /// The volume that the store is on: how much room there is for writes.
    pub fn volume(&self) -> &Arc<Volume> {
        &self.inner.volume
    }

    /// Lets everything go on that waits, holds nothing back from now on, and ends upkeep that reads the whole store: for the end of a server.
    pub fn let_all_write(&self) {
        self.inner.shared.stopping.store(true, Ordering::Relaxed);
        self.inner.volume.end();
    }

    /// Whether there is room for whatever anyone wants to write.
    pub fn ensure_room(&self) -> Result<(), StoreError> {
        if self.inner.volume.gate.room() == WriteRoom::Ample { Ok(()) } else { Err(StoreError::NoRoom) }
    }

    /// Whether there is room for what is written [`within_reserve`].
    pub fn ensure_reserve(&self) -> Result<(), StoreError> {
        if self.inner.volume.gate.room() == WriteRoom::Exhausted { Err(StoreError::NoReserve) } else { Ok(()) }
    }

    /// A number that grows with every commit that changes the table: for caches of what it holds.
    pub fn version(&self, table: TableName) -> u64 {
        self.inner.shared.version(table.index())
    }

    /// Returns when the table's version is no longer `seen`.
    pub async fn changed(&self, table: TableName, seen: u64) {
        self.inner.shared.changed(table.index(), seen).await;
    }

    /// Whether the store was not closed in order before this opening.
    pub fn was_recovered(&self) -> bool {
        self.inner.engine.was_recovered()
    }

    /// Writes the commits so far that are to leave the host to the directory of outgoing ones.
    pub async fn cut_outgoing(&self) -> Result<(), StoreError> {
        let store = self.clone();
        let cut = tokio::task::spawn_blocking(move || store.inner.engine.cut_outgoing());
        cut.await.map_err(|error| StoreError::Panicked(error.to_string()))?
    }

    /// Why the store takes no more writes, once that is so.
    pub fn failure(&self) -> Option<String> {
        self.inner.shared.failure()
    }

    /// Returns when the store has failed.
    pub async fn failed(&self) -> String {
        self.inner.shared.failed().await
    }

    /// What the writer is doing.
    pub fn writer(&self) -> WriterWatch {
        WriterWatch(self.inner.shared.progress.clone())
    }

    /// Sets how long a batch of writes may take before the writer counts as stalled.
    pub fn set_writer_patience(&self, patience: Duration) {
        self.inner.shared.progress.set_patience(patience);
    }

    /// Sets the limits of tenants for which the operator has set none. Without them there are none. Set once, when the server starts.
    pub fn set_quotas(&self, quotas: Quotas) {
        self.inner.shared.set_quotas(quotas);
    }

    /// The limits of tenants for which the operator has set none.
    pub fn default_quotas(&self) -> Quotas {
        self.inner.shared.quotas()
    }

    /// The limits of a tenant now.
    pub fn quotas_of(&self, tenant: TenantId) -> Result<Quotas, StoreError> {
        self.read(|tx| usage::limits(tx, tenant, &self.inner.shared.quotas()))
    }

    /// Fails while the writer is stalled: a change that is handed in now would wait, and nobody could say what became of it.
    pub fn ensure_writer(&self) -> Result<(), StoreError> {
        match self.writer().stalled() {
            Some(busy) => Err(StoreError::Stalled { seconds: busy.elapsed.as_secs() }),
            None => Ok(()),
        }
    }

    /// How many writes wait for the writer.
    pub fn waiting_writes(&self) -> usize {
        self.inner.queue.as_ref().map_or(0, Queue::waiting)
    }

    pub fn oldest_read_millis(&self) -> u64 {
        self.inner.shared.oldest_read_millis()
    }

    /// Sets the tables whose records and indexes every snapshot is checked by. Set once, when the server starts.
    pub fn set_checked_tables(&self, tables: Vec<&'static dyn Checked>) {
        self.inner.shared.checked.get_or_init(|| check::CheckedTables(tables));
    }

    /// Writes a consistent copy of the whole store to a new file while the store is in use. A copy of a damaged store is refused.
    pub async fn snapshot(&self, path: std::path::PathBuf) -> Result<SnapshotReport, StoreError> {
        let tables = self.inner.shared.checked.get().cloned().unwrap_or_default();
        self.scan(move |tx| snapshot::write(tx, &path, &tables.0)).await
    }

    /// Counts and digests what every table holds.
    pub async fn tally(&self) -> Result<SnapshotReport, StoreError> {
        self.scan(snapshot::tally).await
    }

    /// Compares every record with its checksum and every index with its records.
    pub async fn check(&self, tables: Vec<&'static dyn Checked>) -> Result<CheckReport, StoreError> {
        self.scan(move |tx| check::run(tx, &tables)).await
    }

    /// Brings an older file to the format of this release; a newer one is refused.
    pub async fn migrate(&self, steps: &'static [Step]) -> Result<(), StoreError> {
        migrate::run(self, steps).await
    }
}

#[cfg(test)]
mod tests;
