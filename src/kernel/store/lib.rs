//! The embedded store: typed tables in one redb file, snapshots for reading, and one writer with group commit.
//!
//! Only this folder names redb or bincode. **Invariant:** a write that returned `Ok` is on the disk. **Boundary:** no type of the
//! engine appears in a signature that other modules call. The exception is [`RedbEngine::on_backends`], which lets tests run the
//! engine on a simulated crashing disk.

// The macro that lists the tables recurses once per table.
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
pub use migrate::{FORMAT, Progress, Step, migration_path};
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

/// Settings of the writer.
#[derive(Clone, Copy, Debug)]
pub struct WriterSettings {
    pub batch_size: usize,
    pub queue_length: usize,
}

/// Settings for opening an installation's store.
#[derive(Clone, Debug)]
pub struct StoreSettings {
    pub cache_bytes: usize,
    pub journal_bytes: u64,
    pub writer: WriterSettings,
    /// The clock for the times of commits.
    pub clock: Clock,
}

/// A handle to the open store. Clones share it. Dropping the last one closes the file.
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
    /// Dropped last, when the file is closed.
    open: tokio::sync::watch::Sender<()>,
}

impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Store")
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        // Closing the queue ends the writer after its pending jobs. Only then may the engine close the file.
        self.queue = None;
        if let Some(writer) = self.writer.take()
            && writer.join().is_err()
        {
            tracing::error!("the writer thread panicked");
        }
    }
}

impl Store {
    /// A store whose free disk space is not monitored.
    pub fn new(engine: impl Engine, settings: WriterSettings) -> Result<Self, StoreError> {
        Self::on_volume(engine, settings, Arc::new(Volume::unwatched()))
    }

    /// A store whose engine writes to `volume`. Its writes wait while the volume has no space.
    fn on_volume(engine: impl Engine, settings: WriterSettings, volume: Arc<Volume>) -> Result<Self, StoreError> {
        let engine: Arc<dyn Engine> = Arc::new(engine);
        let shared = Arc::new(Shared::new());
        let shares = Shares::default();
        let (queue, thread) = writer::spawn(engine.clone(), shared.clone(), shares.clone(), settings)?;
        let lanes =
            Lanes::new(shares).map_err(|error| StoreError::Installation(format!("cannot start threads for reads: {error}")))?;
        let (queue, writer) = (Some(queue), Some(thread));
        Ok(Self {
            inner: Arc::new(Inner { engine, shared, volume, lanes, queue, writer, open: tokio::sync::watch::Sender::new(()) }),
        })
    }

    /// Runs `work` on one consistent snapshot, on this thread. For work that takes microseconds; use [`Store::scan`] for scans.
    pub fn read<T, E: From<StoreError>>(&self, work: impl FnOnce(&ReadTx) -> Result<T, E>) -> Result<T, E> {
        let _measured = self.inner.shared.read_started();
        let tx = ReadTx::new(self.inner.engine.begin_read()?);
        // redb panics on a damaged page. That must fail this request, not the process.
        catch_unwind(AssertUnwindSafe(|| work(&tx)))
            .unwrap_or_else(|cause| Err(E::from(StoreError::Panicked(panic_text(cause.as_ref())))))
    }

    /// Runs `work` on one consistent snapshot, on a thread that may block, for a request of a tenant. Tenants share the
    /// processors: see [`Lanes`].
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

    /// Like [`Store::scan_for`], for an export, which may take as long as its receiver.
    pub async fn scan_long<T, E>(&self, work: impl FnOnce(&ReadTx) -> Result<T, E> + Send + 'static) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
    {
        let store = self.clone();
        self.inner.lanes.run_long(move || store.read(work)).await.map_err(StoreError::from)?
    }

    /// Like [`Store::scan_long`], for maintenance that reads the whole store. Reads fail with [`StoreError::Unavailable`] once
    /// the server stops. Work that reads outside the snapshot must check the flag itself.
    pub(crate) async fn scan_until_stop<T: Send + 'static>(
        &self,
        work: impl FnOnce(&ReadTx, &Arc<AtomicBool>) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let store = self.clone();
        let read = move || {
            let _measured = store.inner.shared.read_started();
            let stop = &store.inner.shared.stopping;
            let tx = ReadTx::new(Box::new(Interruptible::new(store.inner.engine.begin_read()?, stop.clone())));
            // redb panics on a damaged page. That must fail this work, not the process.
            catch_unwind(AssertUnwindSafe(|| work(&tx, stop)))
                .unwrap_or_else(|cause| Err(StoreError::Panicked(panic_text(cause.as_ref()))))
        };
        self.inner.lanes.run_long(read).await.map_err(StoreError::from)?
    }

    /// The threads that the reads of tenants share.
    pub fn lanes(&self) -> &Lanes {
        &self.inner.lanes
    }

    /// The processor time that each tenant uses.
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

    /// Runs `work` in the next transaction and returns once it is durable. `work` **may run more than once**: it gets time, ids
    /// and randomness from outside, does no I/O, and checks before it writes. While disk space is short, the write waits unless
    /// it is made [`within_reserve`].
    pub async fn write<T, E>(&self, work: impl FnMut(&mut WriteTx) -> Result<T, E> + Send + 'static) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
    {
        self.submit(Durability::Now, work).await
    }

    /// Does the same for data that can be derived again after a loss of power: what a consumer of the log derives from events,
    /// together with its cursor. Returns once readers see the change. The change is on the disk with the next [`Store::write`] or
    /// shortly after, and never without everything written before it. A write that also appends events is durable at once.
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
            None => Err(E::from(StoreError::Unavailable("it is shutting down".to_owned()))),
        }
    }

    /// The volume of the store, which decides whether there is space for writes.
    pub fn volume(&self) -> &Arc<Volume> {
        &self.inner.volume
    }

    /// Prepares a shutdown: lets all waiting writes continue, stops holding writes back, and ends maintenance that reads the
    /// whole store.
    pub fn begin_shutdown(&self) {
        self.inner.shared.stopping.store(true, Ordering::Relaxed);
        self.inner.volume.end();
    }

    /// Returns once the last handle was dropped and the file is closed. The future holds no handle.
    pub fn closed(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut open = self.inner.open.subscribe();
        async move { while open.changed().await.is_ok() {} }
    }

    /// Whether [`Store::begin_shutdown`] was called. Work in many steps checks it between them.
    pub fn is_stopping(&self) -> bool {
        self.inner.shared.stopping.load(Ordering::Relaxed)
    }

    /// Fails unless there is enough space for any write.
    pub fn ensure_room(&self) -> Result<(), StoreError> {
        if self.inner.volume.gate.room() == WriteRoom::Ample { Ok(()) } else { Err(StoreError::NoRoom) }
    }

    /// Fails unless there is space for a write that is made [`within_reserve`].
    pub fn ensure_reserve(&self) -> Result<(), StoreError> {
        if self.inner.volume.gate.room() == WriteRoom::Exhausted { Err(StoreError::NoReserve) } else { Ok(()) }
    }

    /// A number that grows with every commit that changes the table. Caches of its content compare it.
    pub fn version(&self, table: TableName) -> u64 {
        self.inner.shared.version(table.index())
    }

    /// Returns once the table's version differs from `seen`.
    pub async fn changed(&self, table: TableName, seen: u64) {
        self.inner.shared.changed(table.index(), seen).await;
    }

    /// Whether the store was not closed cleanly before this opening.
    pub fn was_recovered(&self) -> bool {
        self.inner.engine.was_recovered()
    }

    /// Writes the commits that must leave the host to the directory of outgoing segments.
    pub async fn cut_outgoing(&self) -> Result<(), StoreError> {
        let store = self.clone();
        let cut = tokio::task::spawn_blocking(move || store.inner.engine.cut_outgoing());
        cut.await.map_err(|error| StoreError::Panicked(error.to_string()))?
    }

    /// Why the store no longer accepts writes, if it has failed.
    pub fn failure(&self) -> Option<String> {
        self.inner.shared.failure()
    }

    /// Returns when the store has failed, with the reason.
    pub async fn failed(&self) -> String {
        self.inner.shared.failed().await
    }

    /// The current activity of the writer.
    pub fn writer(&self) -> WriterWatch {
        WriterWatch(self.inner.shared.progress.clone())
    }

    /// Sets how long a batch of writes may take before the writer counts as stalled.
    pub fn set_writer_patience(&self, patience: Duration) {
        self.inner.shared.progress.set_patience(patience);
    }

    /// Sets the limits of tenants for which the operator has set none. Until then these tenants have no limits. Call it once, at
    /// the start.
    pub fn set_quotas(&self, quotas: Quotas) {
        self.inner.shared.set_quotas(quotas);
    }

    /// The limits of tenants for which the operator has set none.
    pub fn default_quotas(&self) -> Quotas {
        self.inner.shared.quotas()
    }

    /// The current limits of a tenant.
    pub fn quotas_of(&self, tenant: TenantId) -> Result<Quotas, StoreError> {
        self.read(|tx| usage::limits(tx, tenant, &self.inner.shared.quotas()))
    }

    /// Fails while the writer is stalled. A change submitted now would wait, with an unknown outcome.
    pub fn ensure_writer(&self) -> Result<(), StoreError> {
        match self.writer().stalled() {
            Some(busy) => Err(StoreError::Stalled { seconds: busy.elapsed.as_secs() }),
            None => Ok(()),
        }
    }

    /// The number of writes that wait for the writer.
    pub fn waiting_writes(&self) -> usize {
        self.inner.queue.as_ref().map_or(0, Queue::waiting)
    }

    pub fn oldest_read_millis(&self) -> u64 {
        self.inner.shared.oldest_read_millis()
    }

    /// Sets the tables that every snapshot verifies. Call it once, at the start.
    pub fn set_checked_tables(&self, tables: Vec<&'static dyn Checked>) {
        self.inner.shared.checked.get_or_init(|| check::CheckedTables(tables));
    }

    /// Writes a consistent copy of the whole store to a new file while the store is in use. Refuses to copy a damaged store.
    pub async fn snapshot(&self, path: std::path::PathBuf) -> Result<SnapshotReport, StoreError> {
        let tables = self.inner.shared.checked.get().cloned().unwrap_or_default();
        self.scan(move |tx| snapshot::write(tx, &path, &tables.0)).await
    }

    /// Counts and digests the content of every table.
    pub async fn tally(&self) -> Result<SnapshotReport, StoreError> {
        self.scan(snapshot::tally).await
    }

    /// Compares every record with its checksum and every index with its records.
    pub async fn check(&self, tables: Vec<&'static dyn Checked>) -> Result<CheckReport, StoreError> {
        self.scan(move |tx| check::run(tx, &tables)).await
    }

    /// Migrates an older store to the format of this release. Refuses a newer one.
    pub async fn migrate(&self, steps: &'static [Step]) -> Result<(), StoreError> {
        migrate::run(self, steps).await
    }
}

#[cfg(test)]
mod tests;
