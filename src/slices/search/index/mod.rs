//! The index: tantivy on the disk, an overlay in memory for what is newer, and views of both that queries read.
//!
//! A reader of the log: it takes each event as the news that a record has changed, and reads the record itself. **Invariant:** an answer
//! covers every event that was in the log when the request came. **Boundary:** this folder is the only place that names tantivy. The
//! index is derived data: nothing waits for it to be durable, and retention does not wait for it at all; when it cannot go on, it is
//! built anew.

mod build;
mod clause;
mod collect;
mod disk;
mod guard;
mod outline;
mod overlay;
mod plan;
mod rank;
mod schema;
mod task;
mod tier;
mod view;
mod words;

use std::{
    collections::HashMap,
    path::PathBuf,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::sync::{Notify, watch};

use tenantd_base::{clock::Clock, id::TenantId};
use tenantd_store::{
    ReadTx, Store, StoreError,
    events::{self, Event},
};

use self::{build::Build, disk::Disk, overlay::Overlay};
use super::{
    error::{IndexError, SearchError},
    model::DocumentKey,
    sources::{self, Source},
};

pub use collect::{Counts, Found, run};
pub use plan::{Planner, Sought};
pub use rank::{ALL_IN_NAME, Best, NAME, START, by_relevance};
pub use task::IndexTask;
pub use view::View;
pub use words::software;

/// How many events are read in one go.
const BATCH: usize = 500;
/// How long a request waits for an index that is being opened, or for changes to be taken up.
const PATIENCE: Duration = Duration::from_secs(5);

/// Kinds of events after which nothing is left of a tenant that was there before.
const GONE_WITH_ALL: [&str; 2] = ["tenant.deleted", "tenant.emptied"];

fn engine_error(error: tantivy::TantivyError) -> IndexError {
    IndexError::Engine(error.to_string())
}

#[derive(Clone, Debug)]
pub struct SearchIndex {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    store: Store,
    clock: Clock,
    root: PathBuf,
    /// What queries read; nothing before the first index is open.
    view: watch::Sender<Option<Arc<View>>>,
    overlay: Mutex<Option<Overlay>>,
    /// What only the task uses.
    disk: Mutex<Option<Disk>>,
    build: Mutex<Option<Build>>,
    rebuild: AtomicBool,
    building: AtomicBool,
    woken: Notify,
    built: AtomicU64,
    /// How many bytes a build took when it was cut off: what the next one needs at least.
    needed: AtomicU64,
    rebuilds: AtomicU64,
}

/// How far the index is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IndexStatus {
    /// Whether there is one that answers.
    pub ready: bool,
    /// How many documents the one that is being built has; absent when none is.
    pub building: Option<u64>,
    pub documents: u64,
    /// The newest event that answers cover without more work.
    pub seq: u64,
    /// The newest event that is on the disk.
    pub durable_seq: u64,
    /// How many were built since the start.
    pub rebuilds: u64,
}

/// Whether the overlay has taken up what was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Caught {
    Up,
    /// It has to be written to the disk first.
    Full,
}

impl SearchIndex {
    /// An index in a directory, which nothing touches before the task runs.
    pub fn new(store: Store, clock: Clock, root: PathBuf) -> Self {
        let inner = Inner {
            store,
            clock,
            root,
            view: watch::Sender::new(None),
            overlay: Mutex::new(None),
            disk: Mutex::new(None),
            build: Mutex::new(None),
            rebuild: AtomicBool::new(false),
            building: AtomicBool::new(false),
            woken: Notify::new(),
            built: AtomicU64::new(0),
            needed: AtomicU64::new(0),
            rebuilds: AtomicU64::new(0),
        };
        Self { inner: Arc::new(inner) }
    }

    pub fn task(&self) -> IndexTask {
        IndexTask::new(self.clone())
    }

    /// Asks for an index built anew. The one that is there answers until the new one is complete.
    pub fn rebuild(&self) {
        self.inner.rebuild.store(true, Ordering::SeqCst);
        self.inner.woken.notify_one();
    }

    pub fn status(&self) -> IndexStatus {
        let view = self.inner.view.borrow().clone();
        let asked = self.inner.rebuild.load(Ordering::SeqCst).then_some(0);
        let built = || self.inner.built.load(Ordering::SeqCst);
        let building = self.inner.building.load(Ordering::SeqCst).then(built);
        IndexStatus {
            ready: view.is_some(),
            building: building.or(asked),
            documents: view.as_ref().map_or(0, |view| view.documents()),
            seq: view.as_ref().map_or(0, |view| view.seq),
            durable_seq: view.as_ref().map_or(0, |view| view.durable),
            rebuilds: self.inner.rebuilds.load(Ordering::SeqCst),
        }
    }

    /// A view that holds every event of the tenant as the log is now. What others have written behind it is not waited for.
    pub async fn current(&self, tenant: TenantId) -> Result<Arc<View>, SearchError> {
        let newest = self.inner.store.read(|tx| {
            let number = events::last_number(tx, tenant)?;
            // One that retention has removed is in the index since long, and a place is never below its number.
            Ok::<_, StoreError>(events::place_of(tx, tenant, number)?.unwrap_or(number))
        })?;
        tokio::time::timeout(PATIENCE, self.holding(newest)).await.map_err(|_| SearchError::NotReady)?
    }

    async fn holding(&self, seq: u64) -> Result<Arc<View>, SearchError> {
        let mut views = self.inner.view.subscribe();
        loop {
            let view = views.borrow_and_update().clone();
            if let Some(view) = view.filter(|view| view.seq >= seq) {
                return Ok(view);
            }
            let index = self.clone();
            let caught = tokio::task::spawn_blocking(move || index.catch_up(seq)).await;
            match caught.map_err(|error| IndexError::Engine(error.to_string()))?? {
                Some(Caught::Up) => {}
                // The task makes room, or opens an index, and says so by a new view.
                Some(Caught::Full) | None => {
                    self.inner.woken.notify_one();
                    if views.changed().await.is_err() {
                        return Err(SearchError::NotReady);
                    }
                }
            }
        }
    }

    /// Takes up the log up to `seq`, as far as there is room, and shows it. `None`: there is no index.
    fn catch_up(&self, seq: u64) -> Result<Option<Caught>, IndexError> {
        let mut guard = lock(&self.inner.overlay);
        let Some(overlay) = guard.as_mut() else { return Ok(None) };
        let caught = self.take_up(overlay, seq)?;
        if !overlay.is_published() {
            let view = overlay.publish()?;
            self.inner.view.send_replace(Some(view));
        }
        Ok(Some(caught))
    }

    /// The same without showing it: for what goes to the disk right away, where it is made searchable once more.
    fn gather(&self, seq: u64) -> Result<Option<Caught>, IndexError> {
        lock(&self.inner.overlay).as_mut().map(|overlay| self.take_up(overlay, seq)).transpose()
    }

    fn take_up(&self, overlay: &mut Overlay, seq: u64) -> Result<Caught, IndexError> {
        while overlay.applied < seq && !overlay.is_full() {
            self.inner.store.read(|tx| take_up(tx, overlay))?;
        }
        Ok(if overlay.applied < seq { Caught::Full } else { Caught::Up })
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The document that an event is about, if it is about one.
fn subject(event: &Event) -> Option<(&'static dyn Source, DocumentKey)> {
    // Most events of other kinds are told apart without reading them.
    let mut parts = event.record.kind.split('.');
    if !parts.any(|part| part == "auth" || sources::of_subject(part).is_some()) {
        return None;
    }
    let about = events::about(&event.record.body)?;
    let source = sources::of_subject(about.kind)?;
    let id = source.read_id(about.id)?;
    Some((source, DocumentKey { tenant_id: event.record.tenant_id, kind: source.kind(), id }))
}

/// The tenant that an event says is gone with everything in it. No event tells of its records one by one.
fn vanished(event: &Event) -> Option<TenantId> {
    if !GONE_WITH_ALL.contains(&event.record.kind.as_str()) {
        return None;
    }
    events::about(&event.record.body)?.id.parse().ok()
}

/// Reads the next events and, once for each, the records that they are about.
fn take_up(tx: &ReadTx, overlay: &mut Overlay) -> Result<(), IndexError> {
    if overlay.applied + 1 < events::first_kept(tx)? {
        return Err(IndexError::Engine("the log no longer has the events that come next".to_owned()));
    }
    let events = events::read_batch(tx, overlay.applied, BATCH)?;
    let Some(last) = events.last().map(|event| event.seq) else {
        return Err(IndexError::Engine("the log ends before its head".to_owned()));
    };
    for tenant in events.iter().filter_map(vanished) {
        overlay.forget(tenant);
    }
    let changed: HashMap<DocumentKey, &dyn Source> = events.iter().filter_map(subject).map(|(source, key)| (key, source)).collect();
    for (key, source) in changed {
        let document = source.load(tx, key.tenant_id, key.id)?;
        overlay.put(key, document.as_ref());
        for (kind, id) in source.dependents(tx, key.tenant_id, key.id)? {
            let Some(source) = sources::of_kind(kind) else { continue };
            let document = source.load(tx, key.tenant_id, id)?;
            overlay.put(DocumentKey { tenant_id: key.tenant_id, kind, id }, document.as_ref());
        }
    }
    overlay.applied = last;
    Ok(())
}

/// Whether the log still is the one that an index has read up to this place, and has all that comes behind it.
fn continues(tx: &ReadTx, position: disk::Position) -> Result<bool, StoreError> {
    if position.seq > events::head(tx)? || position.seq + 1 < events::first_kept(tx)? {
        return Ok(false);
    }
    let found = events::read_one(tx, position.seq)?.map(|event| event.record.id);
    Ok(found.is_none() || found == position.event)
}

#[cfg(test)]
mod fuzz;
#[cfg(test)]
mod tests;
