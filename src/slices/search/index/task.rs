//! Keeps the index: opens it, brings what is new to the disk in batches, and builds it anew when it must. Each activation does a bounded
//! piece, so that the server can stop at any time. While the disk is full it writes nothing: what is new stays in memory, and a build is
//! given up and begun again when there is room for it.

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
    Build, Caught, Disk, SearchIndex, continues,
    disk::{Position, remove_unfinished},
    lock,
    overlay::{MOST_FRESH, Overlay},
};
use crate::error::IndexError;

/// How long changes gather before they are written together, unless they are many: a commit costs much more than a document, and its
/// syncs hold up whoever writes to the same disk. No search waits for it.
const GATHERS: Duration = Duration::from_secs(5);
/// How often it is looked meanwhile whether they are many.
const LOOKS: u32 = 5;
/// How far the durable place may be behind while no event concerns the index.
const UNWRITTEN: u64 = 10_000;
/// From how many documents on a build is told of: a small one is done at once.
const LONG_BUILD: u64 = 10_000;
/// How many steps of a build one activation takes.
const BUILD_STEPS: usize = 4;

#[derive(Debug)]
pub struct IndexTask {
    index: SearchIndex,
    /// The log's version when this task last looked.
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
                for _ in 0..LOOKS {
                    tokio::time::sleep(GATHERS / LOOKS).await;
                    if self.index.has_many_to_take_up() {
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
        let done = tokio::task::spawn_blocking(move || index.work(waited >= GATHERS));
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
            return Some("the index is built when the disk has room again".to_owned());
        }
        let long = status.building.filter(|documents| *documents >= LONG_BUILD);
        long.map(|documents| format!("the index is being built: {documents} documents so far"))
    }
}

impl SearchIndex {
    /// Whether the next search would wait for many events to be taken up.
    fn has_many_to_take_up(&self) -> bool {
        let covered = self.status().seq;
        // What cannot be read is told by the work that comes next.
        self.inner.store.read(events::head).map_or(true, |head| head.saturating_sub(covered) >= MOST_FRESH as u64)
    }

    /// A bounded piece of work; whether there is more, and whether the disk was written.
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
        let caught = match self.gather(head) {
            Ok(caught) => caught,
            Err(IndexError::Engine(reason)) => {
                if !building {
                    tracing::warn!(reason, "the search index cannot go on and is built anew");
                    inner.rebuild.store(true, Ordering::SeqCst);
                }
                return Ok((if self.may_build() { Done::Some } else { Done::All }, false));
            }
            Err(other) => return Err(other),
        };
        let many = caught == Some(Caught::Full);
        let wrote = !is_full && (many || may_write || !building) && self.write_or_reopen()?;
        if !wrote {
            self.catch_up(head)?;
        }
        let wants_build = inner.rebuild.load(Ordering::SeqCst) && self.may_build();
        Ok((if !is_full && (building || many || wants_build) { Done::Some } else { Done::All }, wrote))
    }

    /// Whether there is room for a new index beside the one that is there.
    fn may_build(&self) -> bool {
        self.inner.store.volume().has_room_for(self.inner.needed.load(Ordering::SeqCst).saturating_mul(2))
    }

    /// Removes what a build has left that could not go on. Another one is begun when there is twice the room that this one took.
    fn give_up_build(&self, generation: u64) {
        let inner = &self.inner;
        inner.needed.store(remove_unfinished(&inner.root, generation), Ordering::SeqCst);
        inner.building.store(false, Ordering::SeqCst);
        inner.rebuild.store(true, Ordering::SeqCst);
    }

    /// Writes to the disk. A writer that failed does not recover, so the index is then opened again as it was last committed.
    fn write_or_reopen(&self) -> Result<bool, IndexError> {
        self.write().inspect_err(|_| {
            *lock(&self.inner.disk) = None;
            *lock(&self.inner.overlay) = None;
        })
    }

    /// Opens what is on the disk, or sees that there has to be a new index.
    fn open(&self, is_full: bool) -> Result<(), IndexError> {
        let inner = &self.inner;
        let opened = Disk::open(&inner.root, is_full)?;
        match opened {
            Some(disk) if inner.store.read(|tx| continues(tx, disk.position))? => self.install(disk),
            Some(_) => {
                tracing::warn!("the search index belongs to another log, or is too old for this one, and is built anew");
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
        // The writer of the index before must let go of its files first.
        *writer = None;
        disk.retire_others(&inner.root)?;
        *writer = Some(disk);
        *over = Some(overlay);
        inner.view.send_replace(Some(view));
        Ok(())
    }

    /// Goes on with a new index, if one is wanted; whether one still is.
    fn build_on(&self) -> Result<bool, IndexError> {
        let inner = &self.inner;
        if inner.rebuild.load(Ordering::SeqCst) && lock(&inner.build).is_none() {
            if !self.may_build() {
                return Ok(false);
            }
            let started = Build::start(&inner.root, &inner.store)?;
            inner.built.store(0, Ordering::SeqCst);
            *lock(&inner.build) = Some(started);
            inner.building.store(true, Ordering::SeqCst);
            inner.rebuild.store(false, Ordering::SeqCst);
        }
        for _ in 0..BUILD_STEPS {
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
                    tracing::info!(
                        seq = disk.position.seq,
                        documents = inner.built.load(Ordering::SeqCst),
                        "a search index was built"
                    );
                    self.install(disk)?;
                    inner.building.store(false, Ordering::SeqCst);
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    /// Brings what is only in memory to the disk; whether there was anything.
    fn write(&self) -> Result<bool, IndexError> {
        let inner = &self.inner;
        let mut guard = lock(&inner.disk);
        let Some(disk) = guard.as_mut() else { return Ok(false) };
        let (forgotten, fresh, seq) = match lock(&inner.overlay).as_ref() {
            Some(overlay) if !overlay.is_empty() || overlay.applied > overlay.durable + UNWRITTEN => overlay.snapshot(),
            _ => return Ok(false),
        };
        for tenant in &forgotten {
            disk.forget(*tenant);
        }
        for (key, fresh) in &fresh {
            disk.write(key, fresh)?;
        }
        let event = inner.store.read(|tx| events::read_one(tx, seq))?.map(|event| event.record.id);
        disk.commit(Position::new(seq, event))?;
        let part = disk.part()?;
        let mut over = lock(&inner.overlay);
        if let Some(overlay) = over.as_mut().filter(|overlay| overlay.generation == disk.generation) {
            overlay.settle(part, seq, &forgotten, &fresh);
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

    /// Builds an index to its end, without a server. `progress` hears how many documents there are.
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
