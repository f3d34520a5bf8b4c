//! The index: tantivy on disk, an in-memory overlay for newer documents, and views of both for queries.
//!
//! The index reads the log: an event says that a record has changed, and the index then reads the record itself.
//! **Invariant:** an answer covers every event that was in the log when the request arrived. **Boundary:** only this folder
//! uses tantivy. The index is derived data: nothing waits for it to be durable, retention ignores it, and it is rebuilt when
//! it cannot continue.

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
pub use plan::{Planner, SearchTerm};
pub use rank::{ALL_IN_NAME, Best, NAME, START, by_relevance};
pub use task::IndexTask;
pub use view::View;
pub use words::software;

/// The number of events in a batch. A shutdown waits for a batch.
const BATCH: usize = 100;
/// How long a request waits for the index to open or to catch up.
const WAIT_LIMIT: Duration = Duration::from_secs(5);

/// The kinds of events after which none of the tenant's earlier records exist.
const ERASING_KINDS: [&str; 2] = ["tenant.deleted", "tenant.emptied"];

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
    /// The view that queries read. `None` until the first index is open.
    view: watch::Sender<Option<Arc<View>>>,
    overlay: Mutex<Option<Overlay>>,
    /// Used only by the task.
    disk: Mutex<Option<Disk>>,
    build: Mutex<Option<Build>>,
    rebuild: AtomicBool,
    building: AtomicBool,
    woken: Notify,
    built: AtomicU64,
    /// The size in bytes of an interrupted build. The next build needs at least this much space.
    needed: AtomicU64,
    rebuilds: AtomicU64,
}

/// The state of the index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IndexStatus {
    /// Whether an index is available for searches.
    pub ready: bool,
    /// The number of documents in the index that is being built. `None` if no rebuild is running or requested.
    pub building: Option<u64>,
    pub documents: u64,
    /// The newest event that answers cover without reading more of the log.
    pub seq: u64,
    /// The newest event that is on disk.
    pub durable_seq: u64,
    /// The number of rebuilds since the start.
    pub rebuilds: u64,
}

/// Whether the overlay has caught up with the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CatchUp {
    Done,
    /// The overlay must be written to disk first.
    Full,
    /// The server stops. The next start applies the rest.
    Stopping,
}

impl SearchIndex {
    /// Creates an index in a directory. Nothing touches the directory before the task runs.
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

    /// Requests a rebuild. The current index answers until the new one is complete.
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

    /// Returns a view that contains every event of the tenant that is in the log now. It does not wait for later events of
    /// other tenants.
    pub async fn current(&self, tenant: TenantId) -> Result<Arc<View>, SearchError> {
        let newest = self.inner.store.read(|tx| {
            let number = events::last_number(tx, tenant)?;
            // An event that retention has removed was indexed long ago. A position is never lower than the event's number.
            Ok::<_, StoreError>(events::place_of(tx, tenant, number)?.unwrap_or(number))
        })?;
        tokio::time::timeout(WAIT_LIMIT, self.view_covering(newest)).await.map_err(|_| SearchError::NotReady)?
    }

    async fn view_covering(&self, seq: u64) -> Result<Arc<View>, SearchError> {
        let mut views = self.inner.view.subscribe();
        loop {
            let view = views.borrow_and_update().clone();
            if let Some(view) = view.filter(|view| view.seq >= seq) {
                return Ok(view);
            }
            let index = self.clone();
            let caught = tokio::task::spawn_blocking(move || index.catch_up(seq)).await;
            match caught.map_err(|error| IndexError::Engine(error.to_string()))?? {
                Some(CatchUp::Done) => {}
                Some(CatchUp::Stopping) => return Err(SearchError::NotReady),
                // The task makes room or opens an index, and then publishes a new view.
                Some(CatchUp::Full) | None => {
                    self.inner.woken.notify_one();
                    if views.changed().await.is_err() {
                        return Err(SearchError::NotReady);
                    }
                }
            }
        }
    }

    /// Applies the log up to `seq`, as far as there is room, and publishes the result. `None` means that there is no index.
    fn catch_up(&self, seq: u64) -> Result<Option<CatchUp>, IndexError> {
        let mut guard = lock(&self.inner.overlay);
        let Some(overlay) = guard.as_mut() else { return Ok(None) };
        let caught = self.apply_events(overlay, seq)?;
        if caught != CatchUp::Stopping && !overlay.is_published() {
            let view = overlay.publish()?;
            self.inner.view.send_replace(Some(view));
        }
        Ok(Some(caught))
    }

    /// Applies the log without publishing it. Used before a write to disk, which publishes a new view anyway.
    fn apply_unpublished(&self, seq: u64) -> Result<Option<CatchUp>, IndexError> {
        lock(&self.inner.overlay).as_mut().map(|overlay| self.apply_events(overlay, seq)).transpose()
    }

    fn apply_events(&self, overlay: &mut Overlay, seq: u64) -> Result<CatchUp, IndexError> {
        while overlay.applied < seq {
            if overlay.is_full() {
                return Ok(CatchUp::Full);
            }
            self.inner.store.read(|tx| apply_events(tx, overlay))?;
            // After the batch, so that the last requests still find what was just written.
            if overlay.applied < seq && self.inner.store.is_stopping() {
                return Ok(CatchUp::Stopping);
            }
        }
        Ok(CatchUp::Done)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The document that an event is about, if there is one.
fn subject(event: &Event) -> Option<(&'static dyn Source, DocumentKey)> {
    // The kind alone rules out most other events without parsing them.
    let mut parts = event.record.kind.split('.');
    if !parts.any(|part| part == "auth" || sources::of_subject(part).is_some()) {
        return None;
    }
    let about = events::about(&event.record.body)?;
    let source = sources::of_subject(about.kind)?;
    let id = source.read_id(about.id)?;
    Some((source, DocumentKey { tenant_id: event.record.tenant_id, kind: source.kind(), id }))
}

/// The tenant that an event removes with all of its records. There are no separate events for the records.
fn erased_tenant(event: &Event) -> Option<TenantId> {
    if !ERASING_KINDS.contains(&event.record.kind.as_str()) {
        return None;
    }
    events::about(&event.record.body)?.id.parse().ok()
}

/// Reads the next events, and each record that they are about once.
fn apply_events(tx: &ReadTx, overlay: &mut Overlay) -> Result<(), IndexError> {
    if overlay.applied + 1 < events::first_kept(tx)? {
        return Err(IndexError::Engine("the log no longer contains the next events".to_owned()));
    }
    let events = events::read_batch(tx, overlay.applied, BATCH)?;
    let Some(last) = events.last().map(|event| event.seq) else {
        return Err(IndexError::Engine("the log ends before its head".to_owned()));
    };
    for tenant in events.iter().filter_map(erased_tenant) {
        overlay.remove_tenant(tenant);
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

/// Whether this is the log that the index was built from, and it still contains all later events.
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
