//! Reads the log from a cursor and puts events into the queues of tenants. Looks only at indexes, never at a program.
//!
//! While no event concerns a workflow, the cursor stays in memory and is written only occasionally, so a restart may read such
//! events again. That is safe: they cannot start workflows that were created or changed after them.

use std::{
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use tenantd_platform::Tenants;
use tenantd_store::{
    Read, Store, StoreError, catalog,
    events::{self, Event},
    tasks::{Done, Task, TaskError},
};

use super::super::{
    error::WorkflowError,
    repo::{self, queue::QueueKey},
};

pub(crate) const CURSOR: &str = "workflow_triggers";
const BATCH: usize = 256;
/// How far the cursor in memory may be ahead of the stored one.
const UNWRITTEN: u64 = 2_000;

#[derive(Debug)]
pub(crate) struct EventReader {
    store: Store,
    tenants: Tenants,
    seen: AtomicU64,
    /// The last event that was read, and the last one that the stored cursor covers.
    position: Mutex<Option<(u64, u64)>>,
}

impl EventReader {
    pub(crate) fn new(store: Store, tenants: Tenants) -> Self {
        Self { store, tenants, seen: AtomicU64::new(0), position: Mutex::new(None) }
    }

    fn position(&self) -> std::sync::MutexGuard<'_, Option<(u64, u64)>> {
        self.position.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn write_position(&self) -> Result<(), StoreError> {
        let Some((looked, stored)) = *self.position() else { return Ok(()) };
        if looked > stored {
            self.store.write_derived(move |tx| events::set_cursor(tx, CURSOR, looked)).await?;
            *self.position() = Some((looked, looked));
        }
        Ok(())
    }
}

/// Whether a workflow may start because of the event, or a run may continue.
fn concerns(tx: &impl Read, event: &Event) -> Result<bool, StoreError> {
    let (tenant, kind) = (event.record.tenant_id, &event.record.kind);
    let armed = repo::workflows::by_event(tx, tenant, kind)?.iter().any(|workflow| workflow.armed_seq < event.record.number);
    Ok(armed || repo::runs::any_waiting_for(tx, tenant, kind)?)
}

impl Task for EventReader {
    fn name(&self) -> &'static str {
        CURSOR
    }

    fn period(&self) -> Duration {
        Duration::from_mins(1)
    }

    async fn wake(&self) {
        self.store.changed(catalog::EVENT_HEAD, self.seen.load(Ordering::SeqCst)).await;
    }

    async fn activate(&self) -> Result<Done, TaskError> {
        self.seen.store(self.store.version(catalog::EVENT_HEAD), Ordering::SeqCst);
        let known = *self.position();
        let (looked, stored) = match known {
            Some(position) => position,
            None => self.store.read(|tx| events::cursor(tx, CURSOR).map(|seq| (seq, seq)))?,
        };
        let (last, found) = self.store.read(|tx| {
            if !repo::workflows::any_by_event(tx)? && !repo::runs::any_waiting(tx)? {
                // In this snapshot nothing waits for an event, and what is created later only wants later events.
                return Ok((Some(events::head(tx)?).filter(|head| *head > looked), Vec::new()));
            }
            let events = events::read_batch(tx, looked, BATCH)?;
            let mut found: Vec<QueueKey> = Vec::new();
            for event in events.iter().filter(|event| !event.is_imported()) {
                // The events of a suspended tenant start nothing.
                if !self.tenants.is_suspended(event.record.tenant_id)? && concerns(tx, event)? {
                    found.push((event.record.tenant_id, event.seq));
                }
            }
            Ok::<_, StoreError>((events.last().map(|event| event.seq), found))
        })?;
        let Some(last) = last else { return Ok(Done::All) };
        if found.is_empty() {
            *self.position() = Some((last, stored));
            if last - stored >= UNWRITTEN {
                self.write_position().await?;
            }
        } else {
            self.store
                .write_derived(move |tx| {
                    found.iter().try_for_each(|key| repo::queue::put(tx, *key))?;
                    events::set_cursor(tx, CURSOR, last)
                })
                .await
                .map_err(|error: StoreError| TaskError(WorkflowError::from(error).to_string()))?;
            *self.position() = Some((last, last));
        }
        Ok(Done::Some)
    }

    async fn finish(&self) -> Result<(), TaskError> {
        Ok(self.write_position().await?)
    }
}
