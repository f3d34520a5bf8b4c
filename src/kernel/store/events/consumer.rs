//! Readers of the log. A consumer's effects and its cursor commit together, so each event takes effect once: after a crash
//! it goes on from its cursor. It is woken by the commit of an event and takes no other input.

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

/// How many events go into one transaction.
const BATCH: usize = 256;
/// How many transactions a reader waits for at most.
const MAX_CATCH_UP: usize = 64;

pub trait Consumer: Send + Sync + 'static {
    /// Names the durable cursor: never changed once released.
    fn name(&self) -> &'static str;

    /// How long it lets events gather before it looks. A consumer in no hurry saves a commit after every single write, which the
    /// next write would have to wait for.
    fn gathers(&self) -> Duration {
        Duration::ZERO
    }

    /// See [`Task::waits_for_quiet`].
    fn waits_for_quiet(&self) -> bool {
        false
    }

    /// Applies the events, in order, within the transaction that moves the cursor. May run more than once before it commits.
    /// Events that were imported are not among them.
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

/// The last event that the consumer of this name has handled.
pub fn cursor(tx: &impl Read, name: &str) -> Result<u64, StoreError> {
    Ok(CURSORS.get(tx, &name.to_owned())?.map_or(0, |cursor| cursor.seq))
}

/// Moves a cursor, in the transaction of what was done with the events before it. For readers of the log that are no [`Consumer`].
pub fn set_cursor(tx: &mut WriteTx, name: &str, seq: u64) -> Result<(), StoreError> {
    CURSORS.put(tx, &name.to_owned(), &Cursor { seq })
}

/// The slowest of the named consumers: what retention must leave in place.
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
    /// The log's version when this task last looked.
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

    /// Handles what was in the log before the call, for whoever shows what the consumer makes of it. In bounded work: of a long log
    /// some may be left.
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
        // What an imported event has led to has come with it.
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

    /// What is in the log is finished, and little: a log that nobody writes to does not grow. An export waits for it.
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
    fn the_stored_form_is_the_one_that_was_written_down() {
        assert_golden("event_cursor", &Cursor { seq: 70_000 });
    }
}
