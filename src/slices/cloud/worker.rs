//! Runs the work that an index of due times lists. Many pieces run at the same time and do not wait for each other. Only the store
//! drives the work, so a restart and normal operation take the same path.

use std::{
    collections::{HashMap, HashSet},
    fmt::Debug,
    hash::Hash,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tokio::sync::Notify;

use tenantd_base::{
    clock::Timestamp,
    clocks::{Clocks, Reading},
    id::TenantId,
};
use tenantd_store::{
    Due, Store, StoreError,
    catalog::TableName,
    tasks::{Alarm, Done, Task, TaskError},
};

/// The delay before a piece of work is retried after a store error.
const RETRY_DELAY: Duration = Duration::from_secs(1);
/// How long a shutdown waits for running work. Interrupted work continues after the next start.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(10);

/// A kind of work that the store lists by due time.
pub(super) trait Work: Send + Sync + 'static {
    /// The key of a piece of work, with the tenant first.
    type Key: WorkKey;

    const NAME: &'static str;
    /// A change of this table may make work due earlier than expected.
    const TABLE: TableName;
    /// The maximum number of pieces that run at the same time.
    const IN_FLIGHT: usize;

    /// The keys that are due, and the time when the next one is due.
    fn due(&self, reading: &Reading, limit: usize, wanted: impl FnMut(&Self::Key) -> bool) -> Result<Due<Self::Key>, StoreError>;

    fn run(&self, key: Self::Key) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// Periodic cleanup, by the installation's clock.
    fn tidy(&self, _now: Timestamp) -> impl Future<Output = Result<(), StoreError>> + Send {
        std::future::ready(Ok(()))
    }
}

pub(super) trait WorkKey: Copy + Eq + Hash + Debug + Send + Sync + 'static {
    fn tenant(&self) -> TenantId;
}

impl<T: Copy + Eq + Hash + Debug + Send + Sync + 'static> WorkKey for (TenantId, T) {
    fn tenant(&self) -> TenantId {
        self.0
    }
}

#[derive(Debug)]
struct Shared<W: Work> {
    work: W,
    alarm: Alarm,
    in_flight: Mutex<HashSet<W::Key>>,
    /// A piece of work has ended.
    signal: Notify,
    stopping: AtomicBool,
    stop: Notify,
    ended: Notify,
}

/// The task that finds due work and starts it.
#[derive(Debug)]
pub(super) struct Worker<W: Work>(Arc<Shared<W>>);

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<W: Work> Worker<W> {
    pub(super) fn new(work: W, store: Store, clocks: Clocks) -> Self {
        Self(Arc::new(Shared {
            work,
            alarm: Alarm::new(store, clocks, &[W::TABLE]),
            in_flight: Mutex::default(),
            signal: Notify::new(),
            stopping: AtomicBool::new(false),
            stop: Notify::new(),
            ended: Notify::new(),
        }))
    }

    fn start(&self, key: W::Key) {
        let running = RunningWork { shared: self.0.clone(), key };
        tokio::spawn(async move {
            let shared = &running.shared;
            let stopped = async {
                let stop = shared.stop.notified();
                if !shared.stopping.load(Ordering::SeqCst) {
                    stop.await;
                }
            };
            // Work that a shutdown interrupts continues after the next start: every important step is in the store.
            tokio::select! {
                outcome = shared.work.run(key) => {
                    if let Err(error) = outcome {
                        tracing::warn!(work = W::NAME, %error, "the result could not be stored; the work is retried");
                        tokio::time::sleep(RETRY_DELAY).await;
                    }
                }
                () = stopped => {}
            }
            drop(running);
        });
    }
}

/// A running piece of work. Dropping it makes the key available again.
struct RunningWork<W: Work> {
    shared: Arc<Shared<W>>,
    key: W::Key,
}

impl<W: Work> Drop for RunningWork<W> {
    fn drop(&mut self) {
        lock(&self.shared.in_flight).remove(&self.key);
        self.shared.signal.notify_one();
        self.shared.ended.notify_waiters();
    }
}

impl<W: Work> Task for Worker<W> {
    fn name(&self) -> &'static str {
        W::NAME
    }

    fn period(&self) -> Duration {
        Duration::from_mins(1)
    }

    async fn wake(&self) {
        tokio::select! {
            () = self.0.signal.notified() => {}
            () = self.0.alarm.ring() => {}
        }
    }

    async fn activate(&self) -> Result<Done, TaskError> {
        let reading = self.0.alarm.look();
        self.0.work.tidy(reading.installation()).await?;
        let found = {
            let mut in_flight = lock(&self.0.in_flight);
            let free = W::IN_FLIGHT.saturating_sub(in_flight.len());
            if free == 0 {
                // The end of any piece of work wakes this task.
                self.0.alarm.set(None);
                return Ok(Done::All);
            }
            // A tenant may use at most half of the places.
            let mut taken: HashMap<TenantId, usize> = HashMap::new();
            for key in in_flight.iter() {
                *taken.entry(key.tenant()).or_default() += 1;
            }
            let wanted = |key: &W::Key| {
                let theirs = taken.entry(key.tenant()).or_default();
                let wanted = !in_flight.contains(key) && *theirs < W::IN_FLIGHT.div_ceil(2);
                *theirs += usize::from(wanted);
                wanted
            };
            let Due { found, next } = self.0.work.due(&reading, free, wanted)?;
            self.0.alarm.set(next);
            in_flight.extend(found.iter().copied());
            found
        };
        for key in found {
            self.start(key);
        }
        Ok(Done::All)
    }

    async fn finish(&self) -> Result<(), TaskError> {
        self.0.stopping.store(true, Ordering::SeqCst);
        self.0.stop.notify_waiters();
        let quiet = async {
            loop {
                let ended = self.0.ended.notified();
                if lock(&self.0.in_flight).is_empty() {
                    return;
                }
                ended.await;
            }
        };
        if tokio::time::timeout(SHUTDOWN_TIMEOUT, quiet).await.is_err() {
            tracing::info!(work = W::NAME, "running work was interrupted by the shutdown; it continues after the next start");
        }
        Ok(())
    }
}
