//! Consumers of the log. A consumer's effects and its cursor commit together, so each event takes effect once: after a crash the
//! consumer continues from its cursor. A commit that appends an event wakes it. It takes no other input.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use serde::{Deserialize, Serialize};

use super::log::{Event, head, read_batch};
use crate::{
    Read, Store, StoreError, Table, WriteTx, catalog,
    codec::Record,
    tasks::{Done, Task, TaskError},
};

/// How many events one transaction handles.
const BATCH: usize = 256;
/// How many transactions [`ConsumerTask::catch_up`] runs at most.
const MAX_CATCH_UP: usize = 64;

pub trait Consumer: Send + Sync + 'static {
    /// The name of the durable cursor. Never changes once released.
    fn name(&self) -> &'static str;

    /// How long the consumer waits for more events before it reads. Waiting avoids a commit after every single write, which would
    /// delay the next write.
    fn gathers(&self) -> Duration {
        Duration::ZERO
    }

    /// See [`Task::waits_for_quiet`].
    fn waits_for_quiet(&self) -> bool {
        false
    }

    /// Applies the events, in order, within the transaction that moves the cursor. May run more than once before it commits. The
    /// events do not include imported ones.
    fn handle(&self, tx: &mut WriteTx, events: &[Event]) -> Result<(), StoreError>;
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Cursor {
    seq: u64,
}

impl Record for Cursor {
    const VERSION: u8 = 1;
}

pub(super) static CURSORS: Table<String, Cursor> = Table::new(catalog::EVENT_CURSORS, &[]);

/// Returns the place of the last event that the consumer has handled.
pub fn cursor(tx: &impl Read, name: &str) -> Result<u64, StoreError> {
    Ok(CURSORS.get(tx, &name.to_owned())?.map_or(0, |cursor| cursor.seq))
}

/// Moves a cursor, in the transaction of the effects of the events before it. For readers of the log that do not implement
/// [`Consumer`].
pub fn set_cursor(tx: &mut WriteTx, name: &str, seq: u64) -> Result<(), StoreError> {
    CURSORS.put(tx, &name.to_owned(), &Cursor { seq })
}

/// The cursor of the slowest of the named consumers. Retention must keep the events after it.
pub(super) fn slowest(tx: &impl Read, names: &[&'static str]) -> Result<Option<u64>, StoreError> {
    let mut slowest = None;
    for name in names {
        let seq = cursor(tx, name)?;
        slowest = Some(slowest.map_or(seq, |lowest: u64| lowest.min(seq)));
    }
    Ok(slowest)
}

/// Runs a consumer in the background.
pub struct ConsumerTask<C> {
    store: Store,
    consumer: Arc<C>,
    /// The log's version when this task last read it.
    seen: AtomicU64,
}

impl<C> std::fmt::Debug for ConsumerTask<C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ConsumerTask")
    }
}

impl<C: Consumer> ConsumerTask<C> {
    pub fn new(store: Store, consumer: C) -> Self {
        Self { store, consumer: Arc::new(consumer), seen: AtomicU64::new(0) }
    }

    /// Handles the events that were in the log before the call, for callers that show the consumer's results. The work is
    /// bounded, so some events of a long log may remain.
    pub async fn catch_up(&self) -> Result<(), StoreError> {
        for _ in 0..MAX_CATCH_UP {
            if self.step().await? == Done::All {
                break;
            }
        }
        Ok(())
    }

    async fn step(&self) -> Result<Done, StoreError> {
        let name = self.consumer.name();
        let (position, newest, mut events) = self.store.read(|tx| {
            let position = cursor(tx, name)?;
            Ok::<_, StoreError>((position, head(tx)?, read_batch(tx, position, BATCH)?))
        })?;
        metrics::gauge!("tenantd_consumer_lag_events", "consumer" => name).set(newest.saturating_sub(position) as f64);
        let Some(last) = events.last().map(|event| event.seq) else { return Ok(Done::All) };
        // An import also contains the effects of its events.
        events.retain(|event| !event.record.is_erased() && !event.is_imported());
        let consumer = self.consumer.clone();
        self.store
            .write_derived(move |tx| -> Result<(), StoreError> {
                // Another run of this consumer may have been faster.
                if cursor(tx, name)? != position {
                    return Ok(());
                }
                consumer.handle(tx, &events)?;
                set_cursor(tx, name, last)
            })
            .await?;
        Ok(if last < newest { Done::Some } else { Done::All })
    }
}

impl<C: Consumer> Task for ConsumerTask<C> {
    fn name(&self) -> &'static str {
        self.consumer.name()
    }

    fn period(&self) -> Duration {
        Duration::from_mins(1)
    }

    fn waits_for_quiet(&self) -> bool {
        self.consumer.waits_for_quiet()
    }

    /// Finishing the log costs little, because the log does not grow while writes wait. An export waits for it.
    fn goes_on_when_full(&self) -> bool {
        true
    }

    async fn wake(&self) {
        self.store.changed(catalog::EVENT_HEAD, self.seen.load(Ordering::SeqCst)).await;
        let gathers = self.consumer.gathers();
        if !gathers.is_zero() {
            tokio::time::sleep(gathers).await;
        }
    }

    async fn activate(&self) -> Result<Done, TaskError> {
        self.seen.store(self.store.version(catalog::EVENT_HEAD), Ordering::SeqCst);
        Ok(self.step().await?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::assert_golden;

    #[test]
    fn the_stored_form_matches_the_golden_file() {
        assert_golden("event_cursor", &Cursor { seq: 70_000 });
    }
}
