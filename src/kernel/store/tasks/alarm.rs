//! Wakes a task that is driven by due times in the store: when the next time is due, when a table changes that may bring an
//! earlier one, and when a clock is moved.

use std::sync::{
    Mutex, PoisonError,
    atomic::{AtomicU64, Ordering},
};

use futures_util::stream::{FuturesUnordered, StreamExt};

use tenantd_base::{
    clock::Timestamp,
    clocks::{Clocks, Reading},
};

use crate::{Store, catalog::TableName};

#[derive(Debug)]
pub struct Alarm {
    store: Store,
    clocks: Clocks,
    /// The tables, each with its version when the task last read the store.
    tables: Vec<(TableName, AtomicU64)>,
    edition: AtomicU64,
    next: Mutex<Option<Timestamp>>,
}

impl Alarm {
    pub fn new(store: Store, clocks: Clocks, tables: &[TableName]) -> Self {
        let tables = tables.iter().map(|table| (*table, AtomicU64::new(0))).collect();
        Self { store, clocks, tables, edition: AtomicU64::new(0), next: Mutex::new(None) }
    }

    /// Returns the current time before a read of the store. Any change from now on wakes the task.
    pub fn look(&self) -> Reading {
        for (table, seen) in &self.tables {
            seen.store(self.store.version(*table), Ordering::SeqCst);
        }
        let reading = self.clocks.read();
        self.edition.store(reading.edition(), Ordering::SeqCst);
        reading
    }

    /// Sets the next due time, in the installation's time.
    pub fn set(&self, next: Option<Timestamp>) {
        *self.next.lock().unwrap_or_else(PoisonError::into_inner) = next;
    }

    /// Returns when there may be work.
    pub async fn ring(&self) {
        let next = *self.next.lock().unwrap_or_else(PoisonError::into_inner);
        let timer = async {
            match next {
                Some(at) => self.clocks.installation().sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        let mut changes: FuturesUnordered<_> =
            self.tables.iter().map(|(table, seen)| self.store.changed(*table, seen.load(Ordering::SeqCst))).collect();
        tokio::select! {
            Some(()) = changes.next() => {}
            () = self.clocks.moved_since(self.edition.load(Ordering::SeqCst)) => {}
            () = timer => {}
        }
    }
}
