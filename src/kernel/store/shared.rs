//! State that readers and the writer share: a version of each table, whether the store has failed, and the age of the oldest
//! snapshot. None of it is data; all of it can be rebuilt.

use std::{
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Instant,
};

use tokio::sync::{Notify, watch};

use tenantd_base::quotas::Quotas;

use super::{catalog, check::CheckedTables, error::StoreError, watch::Progress};

/// How many open snapshots are measured at the same time. More can be open, but are not measured.
const READ_SLOTS: usize = 64;

#[derive(Debug)]
pub(super) struct Shared {
    tables: Vec<TableState>,
    failure: watch::Sender<Option<String>>,
    started: Instant,
    /// The start of each open snapshot in milliseconds since `started`, plus one. Zero marks a free slot.
    reads: Vec<AtomicU64>,
    pub(super) progress: Arc<Progress>,
    /// The tables that verify a snapshot, once they are set.
    pub(super) checked: OnceLock<CheckedTables>,
    /// The limits of tenants, once they are set.
    quotas: OnceLock<Quotas>,
    /// Whether the server is stopping, so that long reads must end.
    pub(super) stopping: Arc<AtomicBool>,
}

#[derive(Debug, Default)]
struct TableState {
    version: AtomicU64,
    changed: Notify,
}

impl Shared {
    #[allow(clippy::disallowed_methods, reason = "ages of snapshots are measured in monotonic time")]
    pub(super) fn new() -> Self {
        Self {
            tables: (0..catalog::COUNT).map(|_| TableState::default()).collect(),
            failure: watch::Sender::new(None),
            started: Instant::now(),
            reads: (0..READ_SLOTS).map(|_| AtomicU64::new(0)).collect(),
            progress: Arc::default(),
            checked: OnceLock::new(),
            quotas: OnceLock::new(),
            stopping: Arc::default(),
        }
    }

    pub(super) fn quotas(&self) -> Quotas {
        self.quotas.get().copied().unwrap_or(Quotas::UNLIMITED)
    }

    /// Only the first call has an effect.
    pub(super) fn set_quotas(&self, quotas: Quotas) {
        self.quotas.get_or_init(|| quotas);
    }

    pub(super) fn committed(&self, touched: impl Iterator<Item = usize>) {
        for place in touched {
            if let Some(table) = self.tables.get(place) {
                table.version.fetch_add(1, Ordering::SeqCst);
                table.changed.notify_waiters();
            }
        }
    }

    pub(super) fn version(&self, place: usize) -> u64 {
        self.tables.get(place).map_or(0, |table| table.version.load(Ordering::SeqCst))
    }

    /// Returns once the table's version differs from `seen`.
    pub(super) async fn changed(&self, place: usize, seen: u64) {
        let Some(table) = self.tables.get(place) else { return };
        loop {
            let changed = table.changed.notified();
            if table.version.load(Ordering::SeqCst) != seen {
                return;
            }
            changed.await;
        }
    }

    pub(super) fn fail(&self, error: &StoreError) {
        let first = self.failure.send_if_modified(|failure| {
            let first = failure.is_none();
            failure.get_or_insert_with(|| error.to_string());
            first
        });
        if first {
            tracing::error!(%error, "the store has failed and accepts no more writes; the process stops and must be restarted");
        }
    }

    pub(super) fn failure(&self) -> Option<String> {
        self.failure.borrow().clone()
    }

    pub(super) async fn failed(&self) -> String {
        let mut failure = self.failure.subscribe();
        loop {
            if let Some(reason) = failure.borrow_and_update().clone() {
                return reason;
            }
            if failure.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }

    fn millis(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    pub(super) fn read_started(&self) -> ReadGuard<'_> {
        let mark = self.millis().saturating_add(1);
        let free = |slot: &&AtomicU64| slot.compare_exchange(0, mark, Ordering::Relaxed, Ordering::Relaxed).is_ok();
        ReadGuard { slot: self.reads.iter().find(free) }
    }

    /// The age of the oldest open snapshot, in milliseconds.
    pub(super) fn oldest_read_millis(&self) -> u64 {
        let now = self.millis().saturating_add(1);
        let starts = self.reads.iter().map(|slot| slot.load(Ordering::Relaxed)).filter(|mark| *mark != 0);
        starts.min().map_or(0, |oldest| now.saturating_sub(oldest))
    }
}

pub(super) struct ReadGuard<'a> {
    slot: Option<&'a AtomicU64>,
}

impl Drop for ReadGuard<'_> {
    fn drop(&mut self) {
        if let Some(slot) = self.slot {
            slot.store(0, Ordering::Relaxed);
        }
    }
}
