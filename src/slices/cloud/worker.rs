//! Does what an index of due times says, many at once and each by itself: one that hangs holds up nobody but itself. Driven by the store
//! alone, so a restart and normal running are one path.

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

/// How long a piece of work rests after the store has failed it.
const REST: Duration = Duration::from_secs(1);
/// How long a stop waits for work under way. What is cut off goes on after the next start.
const SHUTDOWN_PATIENCE: Duration = Duration::from_secs(10);

/// A kind of work that the store has a list of.
pub(super) trait Work: Send + Sync + 'static {
    /// Names a piece of work; the tenant comes first.
    type Key: WorkKey;

    const NAME: &'static str;
    /// A change of this table may make something due before it was expected.
    const TABLE: TableName;
    /// Pieces under way at one time.
    const IN_FLIGHT: usize;

    /// What is due, and when the next is that is not.
    fn due(&self, reading: &Reading, limit: usize, wanted: impl FnMut(&Self::Key) -> bool) -> Result<Due<Self::Key>, StoreError>;

    fn run(&self, key: Self::Key) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// What is to be done now and then, by the installation's clock.
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

/// The task that finds what is due and starts it.
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
        let begun = Begun { shared: self.0.clone(), key };
        tokio::spawn(async move {
            let shared = &begun.shared;
            let stopped = async {
                let stop = shared.stop.notified();
                if !shared.stopping.load(Ordering::SeqCst) {
                    stop.await;
                }
            };
            // Cut off by a stop it goes on after the next start: every step that counts is in the store.
            tokio::select! {
                outcome = shared.work.run(key) => {
                    if let Err(error) = outcome {
                        tracing::warn!(work = W::NAME, %error, "a piece of work could not be stored; it is tried again");
                        tokio::time::sleep(REST).await;
                    }
                }
                () = stopped => {}
            }
            drop(begun);
        });
    }
}

/// A piece of work under way. Dropped, it lets the piece be found again.
struct Begun<W: Work> {
    shared: Arc<Shared<W>>,
    key: W::Key,
}

impl<W: Work> Drop for Begun<W> {
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
                // Whatever ends wakes this task.
                self.0.alarm.set(None);
                return Ok(Done::All);
            }
            // No tenant takes more than half of the places while another may want one.
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
        if tokio::time::timeout(SHUTDOWN_PATIENCE, quiet).await.is_err() {
            tracing::info!(work = W::NAME, "work under way was cut off; it goes on after the next start");
        }
        Ok(())
    }
}
