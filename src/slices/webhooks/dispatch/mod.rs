//! Dispatch: reads the log, makes the attempts, and stores their results.
//!
//! The first attempt of an event comes directly from the log, without a stored row. Only deliveries that cannot be sent immediately
//! are stored to wait. When an attempt ends, its worker takes the next one itself, so no delivery waits for a commit or for the
//! task below. One commit runs at a time and includes everything that has happened since the previous one. **Invariant:** the state
//! in memory can be lost at any time: the cursor and the stored rows determine what remains to be sent.

mod chores;
mod commit;
mod engine;
mod feed;

use std::{
    collections::BTreeSet,
    pin::pin,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::sync::Notify;

use tenantd_base::{clock::Timestamp, clocks::Clocks, config, telemetry::Usage};
use tenantd_store::{
    Store, catalog,
    tasks::{Done, Task, TaskError},
};

use super::{
    delivery::{AttemptError, Sent},
    error::WebhookError,
    interrupted::{self, NOTED_AFTER, UnderWay},
    repo::EndpointKey,
    sender::Sender,
    subscriptions::Subscriptions,
};

use engine::{Engine, Job, Limits};

pub use commit::CURSOR;

/// The state that the dispatcher, its workers and its commits share.
#[derive(Debug)]
pub(super) struct Shared {
    store: Store,
    clocks: Clocks,
    subscriptions: Subscriptions,
    sender: Sender,
    settings: config::Webhooks,
    keep: Duration,
    usage: Arc<Usage>,
    engine: Mutex<Option<Engine>>,
    /// Wakes the task.
    signal: Notify,
    /// Notified when an attempt or a commit has ended, for a clean shutdown.
    settled: Notify,
    hints: Mutex<Hints>,
    replays: AtomicBool,
    failed: AtomicBool,
    epochs: AtomicU64,
}

/// What requests have triggered since the dispatcher last looked.
#[derive(Debug, Default)]
struct Hints {
    /// Endpoints with new deliveries in the store.
    nudged: BTreeSet<EndpointKey>,
    /// Deliveries that a caller requested, by the position of the event. They do not wait for an open breaker.
    requested: BTreeSet<(EndpointKey, u64)>,
    /// Endpoints whose stored health was reset.
    reset: BTreeSet<EndpointKey>,
}

/// The maximum number of requested deliveries between two activations of the dispatcher. Further ones wait for the breaker like all
/// others.
const MAX_REQUESTED: usize = 1024;

/// Tells the dispatcher that the store has new work. Only a hint: the dispatcher also finds due work without it, but later.
#[derive(Clone, Debug)]
pub(super) struct Dispatch(Arc<Shared>);

/// The background task of the dispatcher.
#[derive(Debug)]
pub(super) struct Dispatcher {
    shared: Arc<Shared>,
    seen_log: AtomicU64,
    seen_endpoints: AtomicU64,
    seen_tenants: AtomicU64,
    seen_clocks: AtomicU64,
    next_at: Mutex<Option<Timestamp>>,
    concern: Mutex<Option<String>>,
    chores: Mutex<chores::Chores>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(super) struct Parts {
    pub(super) store: Store,
    pub(super) clocks: Clocks,
    pub(super) subscriptions: Subscriptions,
    pub(super) sender: Sender,
    pub(super) settings: config::Webhooks,
    /// How long metrics are kept.
    pub(super) keep: Duration,
    /// Counts attempts.
    pub(super) usage: Arc<Usage>,
}

impl Dispatch {
    pub(super) fn new(parts: Parts) -> Self {
        let Parts { store, clocks, subscriptions, sender, settings, keep, usage } = parts;
        Self(Arc::new(Shared {
            store,
            clocks,
            subscriptions,
            sender,
            settings,
            keep,
            usage,
            engine: Mutex::new(None),
            signal: Notify::new(),
            settled: Notify::new(),
            hints: Mutex::default(),
            replays: AtomicBool::new(true),
            failed: AtomicBool::new(false),
            epochs: AtomicU64::new(0),
        }))
    }

    pub(super) fn task(&self) -> Dispatcher {
        Dispatcher {
            shared: self.0.clone(),
            seen_log: AtomicU64::new(u64::MAX),
            seen_endpoints: AtomicU64::new(u64::MAX),
            seen_tenants: AtomicU64::new(u64::MAX),
            seen_clocks: AtomicU64::new(u64::MAX),
            next_at: Mutex::new(None),
            concern: Mutex::new(None),
            chores: Mutex::default(),
        }
    }

    /// Reports that a caller requested a delivery. `seq` is the position of its event.
    pub(super) fn request_delivery(&self, endpoint: EndpointKey, seq: u64) {
        let mut hints = lock(&self.0.hints);
        hints.nudged.insert(endpoint);
        if hints.requested.len() < MAX_REQUESTED {
            hints.requested.insert((endpoint, seq));
        }
        drop(hints);
        self.0.signal.notify_one();
    }

    /// Reports that the stored health of the endpoint was reset.
    pub(super) fn reset(&self, endpoint: EndpointKey) {
        lock(&self.0.hints).reset.insert(endpoint);
        self.0.signal.notify_one();
    }

    pub(super) fn nudge_replays(&self) {
        self.0.replays.store(true, Ordering::SeqCst);
        self.0.signal.notify_one();
    }

    /// The number of deliveries to an endpoint that are in memory and not in the store.
    pub(super) fn waiting_here(&self, endpoint: EndpointKey) -> u64 {
        lock(&self.0.engine).as_ref().map_or(0, |engine| engine.waiting_here(endpoint) as u64)
    }
}

impl Dispatch {
    /// The number of waiting deliveries, and how long the oldest due one has been waiting.
    pub(super) fn queue(&self) -> (u64, Option<Duration>) {
        let clocks = self.0.clocks.read();
        self.0.with_engine(|engine| (engine.depth(), engine.oldest_due(&clocks))).unwrap_or_default()
    }
}

impl Shared {
    fn with_engine<T>(&self, work: impl FnOnce(&mut Engine) -> T) -> Option<T> {
        lock(&self.engine).as_mut().map(work)
    }

    fn limits(&self) -> Limits {
        Limits { in_flight: self.settings.in_flight, per_endpoint: self.settings.in_flight_per_endpoint }
    }

    /// Starts all attempts that are allowed now.
    fn start_workers(self: &Arc<Self>) {
        let clocks = self.clocks.read();
        while let Some((job, epoch)) = self.with_engine(|engine| engine.next(&clocks).map(|job| (job, engine.epoch()))).flatten() {
            tokio::spawn(work(self.clone(), job, epoch));
        }
    }

    /// Starts a commit, unless one is in progress. A running commit continues with the new work when it ends.
    fn start_commit(self: &Arc<Self>) {
        let clocks = self.clocks.read();
        let batch = self.with_engine(|engine| engine.begin_commit(&clocks).map(|batch| (batch, engine.epoch())));
        if let Some((batch, epoch)) = batch.flatten() {
            tokio::spawn(commit(self.clone(), batch, epoch));
        }
    }
}

/// An attempt in progress. If its worker panics, the attempt counts as interrupted.
struct AttemptGuard {
    shared: Arc<Shared>,
    job: Option<Job>,
    epoch: u64,
}

impl AttemptGuard {
    /// Records the result and takes the next attempt, under one lock.
    fn settle(&mut self, sent: Sent) -> Option<Job> {
        let job = self.job.take()?;
        let clocks = self.shared.clocks.read();
        let next = self.shared.with_engine(|engine| {
            if engine.epoch() != self.epoch {
                return None;
            }
            let now = clocks.of(job.target.key.0);
            engine.complete(job, sent, now);
            Some((engine.next(&clocks), engine.wants_earlier_timer(&clocks)))
        });
        self.shared.start_commit();
        self.shared.settled.notify_waiters();
        let (next, rearm) = next.flatten()?;
        if rearm {
            self.shared.signal.notify_one();
        }
        if next.is_some() {
            // A free slot can unblock more than one tenant.
            self.shared.start_workers();
        }
        next
    }
}

impl Drop for AttemptGuard {
    fn drop(&mut self) {
        if let Some(job) = &self.job {
            let now = self.shared.clocks.now(job.target.key.0);
            let sent = Sent::failed(now, AttemptError::Interrupted);
            if let Some(job) = self.settle(sent) {
                tokio::spawn(work(self.shared.clone(), job, self.epoch));
            }
        }
    }
}

/// Makes attempts one after the other, until none is allowed.
async fn work(shared: Arc<Shared>, job: Job, epoch: u64) {
    let mut under_way = AttemptGuard { shared: shared.clone(), job: Some(job), epoch };
    while let Some(job) = &under_way.job {
        let sent = shared.store.shares().work_for(job.target.key.0, attempt(&shared, job)).await;
        under_way.job = under_way.settle(sent);
    }
}

/// Makes an attempt. A slow attempt gets a row in the store, so that a crash does not hide it.
async fn attempt(shared: &Shared, job: &Job) -> Sent {
    let (endpoint, seq) = (job.target.key, job.event.seq);
    let started_at = shared.clocks.now(endpoint.0);
    let mut send = pin!(shared.sender.send(&job.target, job.event.id, job.event.body.clone(), job.target.timeout));
    if let Ok(sent) = tokio::time::timeout(NOTED_AFTER, &mut send).await {
        return sent;
    }
    let under_way = UnderWay { started_at, trigger: job.trigger, resource: job.resource.clone() };
    let note = shared.store.write_derived(move |tx| interrupted::note(tx, endpoint, seq, &under_way));
    let (sent, noted) = tokio::join!(send, note);
    if let Err(error) = &noted {
        tracing::warn!(%error, "could not record an attempt in progress; a crash would hide it");
    }
    Sent { noted: noted.is_ok(), ..sent }
}

async fn commit(shared: Arc<Shared>, batch: commit::Batch, epoch: u64) {
    let mut batch = Some(Arc::new(batch));
    while let Some(current) = batch.take() {
        let writing = current.clone();
        let written = shared.store.write_derived(move |tx| commit::write(tx, &writing)).await;
        let clocks = shared.clocks.read();
        let next = match written {
            Err(error) => {
                tracing::error!(%error, "could not store deliveries; reading them from the log again");
                shared.failed.store(true, Ordering::SeqCst);
                shared.signal.notify_one();
                return;
            }
            Ok(report) => {
                current.count(&shared.usage);
                shared.with_engine(|engine| {
                    if engine.epoch() != epoch {
                        return (false, None);
                    }
                    engine.committed(&current, &report, &clocks)
                })
            }
        };
        let (more, next) = next.unwrap_or_default();
        if more {
            shared.signal.notify_one();
        }
        batch = next.map(Arc::new);
    }
    shared.settled.notify_waiters();
}

impl From<WebhookError> for TaskError {
    fn from(error: WebhookError) -> Self {
        Self(error.to_string())
    }
}

impl Task for Dispatcher {
    fn name(&self) -> &'static str {
        "webhooks"
    }

    fn period(&self) -> Duration {
        Duration::from_mins(1)
    }

    async fn wake(&self) {
        let shared = &self.shared;
        let next_at = *lock(&self.next_at);
        let timer = async {
            match next_at {
                Some(at) => shared.clocks.installation().sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = shared.store.changed(catalog::EVENT_HEAD, self.seen_log.load(Ordering::SeqCst)) => {}
            () = shared.store.changed(catalog::WEBHOOKS, self.seen_endpoints.load(Ordering::SeqCst)) => {}
            () = shared.store.changed(catalog::TENANTS, self.seen_tenants.load(Ordering::SeqCst)) => {}
            () = shared.signal.notified() => {}
            () = shared.clocks.moved_since(self.seen_clocks.load(Ordering::SeqCst)) => {}
            () = timer => {}
        }
    }

    async fn activate(&self) -> Result<Done, TaskError> {
        self.seen_log.store(self.shared.store.version(catalog::EVENT_HEAD), Ordering::SeqCst);
        let clocks = self.shared.clocks.read();
        if self.seen_clocks.swap(clocks.edition(), Ordering::SeqCst) != clocks.edition() {
            self.shared.with_engine(|engine| engine.clocks_moved(&clocks));
        }
        self.recover(&clocks).await?;
        self.load(&clocks)?;
        self.refresh_endpoints(&clocks)?;
        self.take_hints(&clocks)?;
        self.read_log(&clocks)?;
        // New events go out first, because the work below can take longer.
        tokio::task::yield_now().await;
        let clocks = self.shared.clocks.read();
        self.claim_due(&clocks)?;
        self.shared.start_workers();
        self.shared.start_commit();
        let done = self.do_chores(&clocks).await?;
        self.observe(&clocks)?;
        Ok(done)
    }

    fn concern(&self) -> Option<String> {
        lock(&self.concern).clone()
    }

    /// Starts nothing new, waits for work in progress, and stores the results.
    async fn finish(&self) -> Result<(), TaskError> {
        let shared = &self.shared;
        shared.with_engine(Engine::shut_down);
        shared.start_commit();
        let quiet = async {
            loop {
                let settled = shared.settled.notified();
                if shared.with_engine(|engine| engine.is_quiet()).unwrap_or(true) || shared.failed.load(Ordering::SeqCst) {
                    return;
                }
                settled.await;
            }
        };
        let patience = Duration::from_secs(shared.settings.shutdown_seconds);
        if tokio::time::timeout(patience, quiet).await.is_err() {
            tracing::info!("the shutdown interrupted deliveries; they are sent again after the next start");
        }
        // Interrupted work must not be committed when the store is about to close.
        *lock(&shared.engine) = None;
        Ok(())
    }
}

#[cfg(test)]
mod tests;
