//! Maintains the index: opens it, writes new documents to disk in batches, and rebuilds it when necessary. Between two batches it
//! checks whether the server stops, so it does not delay a shutdown: the log has everything that the index lacks. While the disk is full, nothing is written: new
//! documents stay in memory, and a build is abandoned and started again when there is room.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use tenantd_base::clock::Timestamp;
use tenantd_store::{
    catalog, events,
    tasks::{Done, Task, TaskError},
};

use super::{
    Build, CatchUp, Disk, SearchIndex, continues,
    disk::{Position, remove_unfinished},
    lock,
    overlay::{MOST_FRESH, Overlay},
};
use crate::error::IndexError;

/// The interval between commits, unless there are many changes. A commit costs much more than a document, and its syncs delay
/// other writers on the same disk. No search waits for a commit.
const COMMIT_INTERVAL: Duration = Duration::from_secs(5);
/// How often per interval to check whether there are many changes.
const CHECKS_PER_INTERVAL: u32 = 5;
/// How many events the durable position may lag behind while no event concerns the index.
const MAX_UNWRITTEN: u64 = 10_000;
/// Builds with at least this many documents are reported. Smaller ones finish quickly.
const LONG_BUILD: u64 = 10_000;
/// The number of build steps per activation.
const BUILD_STEPS: usize = 16;

#[derive(Debug)]
pub struct IndexTask {
    index: SearchIndex,
    /// The version of the log at the last activation.
    seen: AtomicU64,
    written_at: AtomicU64,
}

impl IndexTask {
    pub(super) fn new(index: SearchIndex) -> Self {
        Self { index, seen: AtomicU64::new(0), written_at: AtomicU64::new(0) }
    }
}

impl From<IndexError> for TaskError {
    fn from(error: IndexError) -> Self {
        Self(error.to_string())
    }
}

impl Task for IndexTask {
    fn name(&self) -> &'static str {
        "search_index"
    }

    fn period(&self) -> Duration {
        Duration::from_mins(1)
    }

    async fn wake(&self) {
        let inner = &self.index.inner;
        tokio::select! {
            () = inner.woken.notified() => {}
            () = async {
                inner.store.changed(catalog::EVENT_HEAD, self.seen.load(Ordering::SeqCst)).await;
                for _ in 0..CHECKS_PER_INTERVAL {
                    tokio::time::sleep(COMMIT_INTERVAL / CHECKS_PER_INTERVAL).await;
                    if self.index.has_large_backlog() {
                        break;
                    }
                }
            } => {}
        }
    }

    async fn activate(&self) -> Result<Done, TaskError> {
        let inner = &self.index.inner;
        self.seen.store(inner.store.version(catalog::EVENT_HEAD), Ordering::SeqCst);
        let index = self.index.clone();
        let now = inner.clock.now();
        let waited = now.since(Timestamp::from_millis(i64::try_from(self.written_at.load(Ordering::SeqCst)).unwrap_or_default()));
        let done = tokio::task::spawn_blocking(move || index.work(waited >= COMMIT_INTERVAL));
        let (done, wrote) = done.await.map_err(|error| TaskError(error.to_string()))??;
        if wrote {
            self.written_at.store(u64::try_from(now.as_millis()).unwrap_or_default(), Ordering::SeqCst);
        }
        self.index.measure()?;
        Ok(done)
    }

    fn concern(&self) -> Option<String> {
        let status = self.index.status();
        if status.building.is_some() && self.index.inner.store.ensure_room().is_err() {
            return Some("the search index will be built when the disk has room again".to_owned());
        }
        let long = status.building.filter(|documents| *documents >= LONG_BUILD);
        long.map(|documents| format!("the search index is being built: {documents} documents so far"))
    }
}

impl SearchIndex {
    /// Whether the next search would have to apply many events.
    fn has_large_backlog(&self) -> bool {
        let covered = self.status().seq;
        // If the log cannot be read, the next activation reports the error.
        self.inner.store.read(events::head).map_or(true, |head| head.saturating_sub(covered) >= MOST_FRESH as u64)
    }

    /// Does a bounded amount of work. Returns whether there is more, and whether the disk was written.
    fn work(&self, may_write: bool) -> Result<(Done, bool), IndexError> {
        let inner = &self.inner;
        let is_full = inner.store.ensure_room().is_err();
        if is_full && let Some(build) = lock(&inner.build).take() {
            let generation = build.generation();
            drop(build);
            self.give_up_build(generation);
        }
        if lock(&inner.overlay).is_none() && lock(&inner.build).is_none() {
            self.open(is_full)?;
        }
        let building = if is_full { false } else { self.build_on()? };
        let head = inner.store.read(events::head)?;
        let caught = match self.apply_unpublished(head) {
            Ok(caught) => caught,
            Err(IndexError::Engine(reason)) => {
                if !building {
                    tracing::warn!(reason, "the search index cannot continue; rebuilding it");
                    inner.rebuild.store(true, Ordering::SeqCst);
                }
                return Ok((if self.may_build() { Done::Some } else { Done::All }, false));
            }
            Err(other) => return Err(other),
        };
        if inner.store.is_stopping() {
            return Ok((Done::All, false));
        }
        let many = caught == Some(CatchUp::Full);
        let wrote = !is_full && (many || may_write || !building) && self.write_or_reopen()?;
        if !wrote {
            self.catch_up(head)?;
        }
        let wants_build = inner.rebuild.load(Ordering::SeqCst) && self.may_build();
        Ok((if !is_full && (building || many || wants_build) { Done::Some } else { Done::All }, wrote))
    }

    /// Whether there is room for a second index.
    fn may_build(&self) -> bool {
        self.inner.store.volume().has_room_for(self.inner.needed.load(Ordering::SeqCst).saturating_mul(2))
    }

    /// Removes the files of an interrupted build. The next build starts when twice their size is available.
    fn give_up_build(&self, generation: u64) {
        let inner = &self.inner;
        inner.needed.store(remove_unfinished(&inner.root, generation), Ordering::SeqCst);
        inner.building.store(false, Ordering::SeqCst);
        inner.rebuild.store(true, Ordering::SeqCst);
    }

    /// Writes to disk. A failed writer does not recover, so after an error the index is opened again from its last commit.
    fn write_or_reopen(&self) -> Result<bool, IndexError> {
        self.write().inspect_err(|_| {
            *lock(&self.inner.disk) = None;
            *lock(&self.inner.overlay) = None;
        })
    }

    /// Opens the index on disk, or requests a rebuild.
    fn open(&self, is_full: bool) -> Result<(), IndexError> {
        let inner = &self.inner;
        let opened = Disk::open(&inner.root, is_full)?;
        match opened {
            Some(disk) if inner.store.read(|tx| continues(tx, disk.position))? => self.install(disk),
            Some(_) => {
                tracing::warn!("the search index belongs to a different log or is too old; rebuilding it");
                inner.rebuild.store(true, Ordering::SeqCst);
                Ok(())
            }
            None => {
                inner.rebuild.store(true, Ordering::SeqCst);
                Ok(())
            }
        }
    }

    fn install(&self, mut disk: Disk) -> Result<(), IndexError> {
        let inner = &self.inner;
        let mut overlay = Overlay::new(disk.generation, disk.part()?, disk.position.seq);
        let view = overlay.publish()?;
        let mut writer = lock(&inner.disk);
        let mut over = lock(&inner.overlay);
        // The writer of the previous index must release its files first.
        *writer = None;
        disk.retire_others(&inner.root)?;
        *writer = Some(disk);
        *over = Some(overlay);
        inner.view.send_replace(Some(view));
        Ok(())
    }

    /// Continues a requested build. Returns whether it is still unfinished.
    fn build_on(&self) -> Result<bool, IndexError> {
        let inner = &self.inner;
        if inner.rebuild.load(Ordering::SeqCst) && lock(&inner.build).is_none() {
            if inner.store.is_stopping() || !self.may_build() {
                return Ok(false);
            }
            let started = Build::start(&inner.root, &inner.store)?;
            inner.built.store(0, Ordering::SeqCst);
            *lock(&inner.build) = Some(started);
            inner.building.store(true, Ordering::SeqCst);
            inner.rebuild.store(false, Ordering::SeqCst);
        }
        for _ in 0..BUILD_STEPS {
            if inner.store.is_stopping() {
                return Ok(true);
            }
            let Some(build) = lock(&inner.build).take() else { return Ok(false) };
            let generation = build.generation();
            let stepped = build.step(&inner.store).inspect_err(|_| self.give_up_build(generation))?;
            match stepped {
                Err(build) => {
                    inner.built.store(build.documents, Ordering::SeqCst);
                    *lock(&inner.build) = Some(build);
                }
                Ok(disk) => {
                    inner.rebuilds.fetch_add(1, Ordering::SeqCst);
                    inner.needed.store(0, Ordering::SeqCst);
                    metrics::counter!("tenantd_search_rebuilds_total").increment(1);
                    tracing::info!(seq = disk.position.seq, documents = inner.built.load(Ordering::SeqCst), "search index built");
                    self.install(disk)?;
                    inner.building.store(false, Ordering::SeqCst);
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    /// Writes the overlay to disk. Returns whether there was anything to write.
    fn write(&self) -> Result<bool, IndexError> {
        let inner = &self.inner;
        let mut guard = lock(&inner.disk);
        let Some(disk) = guard.as_mut() else { return Ok(false) };
        let (removed_tenants, fresh, seq) = match lock(&inner.overlay).as_ref() {
            Some(overlay) if !overlay.is_empty() || overlay.applied > overlay.durable + MAX_UNWRITTEN => overlay.snapshot(),
            _ => return Ok(false),
        };
        for tenant in &removed_tenants {
            disk.remove_tenant(*tenant);
        }
        for (key, fresh) in &fresh {
            disk.write(key, fresh)?;
        }
        let event = inner.store.read(|tx| events::read_one(tx, seq))?.map(|event| event.record.id);
        disk.commit(Position::new(seq, event))?;
        let part = disk.part()?;
        let mut over = lock(&inner.overlay);
        if let Some(overlay) = over.as_mut().filter(|overlay| overlay.generation == disk.generation) {
            overlay.settle(part, seq, &removed_tenants, &fresh);
            let view = overlay.publish()?;
            inner.view.send_replace(Some(view));
        }
        Ok(true)
    }

    fn measure(&self) -> Result<(), IndexError> {
        let status = self.status();
        let head = self.inner.store.read(events::head)?;
        let behind = head.saturating_sub(status.seq);
        self.inner.store.shares().note_backlog(if status.building.is_some() { 0 } else { behind });
        metrics::gauge!("tenantd_search_lag_events").set(behind as f64);
        metrics::gauge!("tenantd_search_documents").set(status.documents as f64);
        Ok(())
    }

    /// Builds a complete index without a server. Calls `progress` with the number of documents so far.
    pub fn build_offline(&self, mut progress: impl FnMut(u64)) -> Result<u64, IndexError> {
        let inner = &self.inner;
        let mut building = Build::start(&inner.root, &inner.store)?;
        loop {
            match building.step(&inner.store)? {
                Ok(disk) => {
                    disk.retire_others(&inner.root)?;
                    return Ok(disk.documents());
                }
                Err(build) => {
                    progress(build.documents);
                    building = build;
                }
            }
        }
    }
}
