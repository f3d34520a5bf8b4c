//! Supervised background tasks. A task is driven by durable state: a signal or the clock wakes it, it gets no input, and it looks
//! up its own work and does it. So a restart and normal operation use the same path.
//!
//! A task that fails or panics is retried after a growing delay. `/readyz` and `/status/` name it.

mod alarm;
mod metrics;
mod scrub;
mod writer_alarm;

pub use alarm::Alarm;
pub use metrics::MetricsUpkeep;
pub use scrub::{FinishedRound, OpenRound, Scrub, ScrubProblems, ScrubState, scrub_state};
pub use writer_alarm::WriterAlarm;

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tokio::{
    sync::{OwnedRwLockWriteGuard, RwLock, watch},
    task::JoinSet,
};

use tenantd_base::clock::{Clock, Timestamp};

use crate::{StoreError, reserve::within_reserve_in_background};

/// What an activation has left to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Done {
    /// Nothing: wait for the signal or the clock.
    All,
    /// More: activate again at once.
    Some,
}

#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct TaskError(pub String);

impl From<StoreError> for TaskError {
    fn from(error: StoreError) -> Self {
        Self(error.to_string())
    }
}

pub trait Task: Send + Sync + 'static {
    fn name(&self) -> &'static str;

    /// The longest time between two activations.
    fn period(&self) -> Duration;

    fn activate(&self) -> impl Future<Output = Result<Done, TaskError>> + Send;

    /// Returns when there may be work before the period is over.
    fn wake(&self) -> impl Future<Output = ()> + Send {
        std::future::pending()
    }

    /// Whether the task continues while the disk is nearly full, because it frees space, monitors the server, or is needed by
    /// other work that continues. The writes of all other tasks wait.
    fn goes_on_when_full(&self) -> bool {
        false
    }

    /// A problem without a failure, such as work that has waited too long. It is shown on `/status/`.
    fn concern(&self) -> Option<String> {
        None
    }

    /// Whether it pauses while a tenant is being filled ([`Quiet`]). Otherwise it would act on past events as if they were new.
    fn waits_for_quiet(&self) -> bool {
        false
    }

    /// Runs once when the server stops, after the last activation.
    fn finish(&self) -> impl Future<Output = Result<(), TaskError>> + Send {
        std::future::ready(Ok(()))
    }
}

/// The status of a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskStatus {
    pub activations: u64,
    pub consecutive_failures: u32,
    pub last_error: Option<String>,
    pub last_activation: Option<Timestamp>,
    pub concern: Option<String>,
}

/// Pauses the tasks that act by time or follow records while a tenant is filled with past data. A pause takes seconds and affects
/// all tenants.
#[derive(Clone, Debug, Default)]
pub struct Quiet(Arc<RwLock<()>>);

impl Quiet {
    /// Waits until these tasks are idle. They stay paused until the guard is dropped.
    pub async fn keep(&self) -> OwnedRwLockWriteGuard<()> {
        self.0.clone().write_owned().await
    }
}

type Statuses = Arc<Mutex<BTreeMap<&'static str, TaskStatus>>>;

/// All background tasks of a server.
#[derive(Debug)]
pub struct Tasks {
    clock: Clock,
    stop: watch::Sender<bool>,
    running: JoinSet<()>,
    statuses: Statuses,
    quiet: Quiet,
}

/// A handle to read the status of the tasks.
#[derive(Clone, Debug)]
pub struct TaskBoard(Statuses);

impl TaskBoard {
    pub fn statuses(&self) -> BTreeMap<&'static str, TaskStatus> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

const FIRST_RETRY: Duration = Duration::from_secs(1);
const LONGEST_RETRY: Duration = Duration::from_mins(1);

impl Tasks {
    pub fn new(clock: Clock) -> Self {
        Self {
            clock,
            stop: watch::Sender::new(false),
            running: JoinSet::new(),
            statuses: Statuses::default(),
            quiet: Quiet::default(),
        }
    }

    pub fn quiet(&self) -> Quiet {
        self.quiet.clone()
    }

    pub fn board(&self) -> TaskBoard {
        TaskBoard(self.statuses.clone())
    }

    pub fn spawn(&mut self, task: impl Task) {
        let (clock, stop, statuses) = (self.clock.clone(), self.stop.subscribe(), self.statuses.clone());
        self.running.spawn(supervise(Arc::new(task), clock, stop, (statuses, self.quiet.clone())));
    }

    /// Stops all tasks: running activations finish, and no new ones start.
    pub async fn shutdown(mut self) {
        self.stop.send_replace(true);
        while let Some(ended) = self.running.join_next().await {
            if let Err(error) = ended {
                tracing::error!(%error, "a task did not stop cleanly");
            }
        }
    }
}

async fn supervise<T: Task>(task: Arc<T>, clock: Clock, mut stop: watch::Receiver<bool>, (statuses, quiet): (Statuses, Quiet)) {
    let name = task.name();
    let mut failures = 0_u32;
    while !*stop.borrow() {
        // A separate task, so that a panic ends the activation and not the loop.
        let activation = tokio::spawn({
            let (task, quiet) = (task.clone(), quiet.clone());
            async move {
                let _turn = if task.waits_for_quiet() { Some(quiet.0.read().await) } else { None };
                if task.goes_on_when_full() { within_reserve_in_background(task.activate()).await } else { task.activate().await }
            }
        });
        let outcome = activation.await.unwrap_or_else(|error| Err(TaskError(error.to_string())));
        failures = if outcome.is_ok() { 0 } else { failures.saturating_add(1) };
        note(&statuses, name, failures, clock.now(), outcome.as_ref().err(), task.concern());
        match outcome {
            Ok(Done::Some) => {}
            Ok(Done::All) => {
                tokio::select! {
                    () = task.wake() => {}
                    () = clock.sleep(task.period()) => {}
                    _ = stop.changed() => {}
                }
            }
            Err(error) => {
                let delay = FIRST_RETRY.saturating_mul(1 << failures.min(6)).min(LONGEST_RETRY);
                tracing::warn!(task = name, %error, failures, retry_in_seconds = delay.as_secs(), "a background task failed");
                tokio::select! {
                    () = tokio::time::sleep(delay) => {}
                    _ = stop.changed() => {}
                }
            }
        }
    }
    if let Err(error) = task.finish().await {
        tracing::warn!(task = name, %error, "a background task could not finish its work");
    }
}

fn note(
    statuses: &Statuses,
    name: &'static str,
    failures: u32,
    now: Timestamp,
    error: Option<&TaskError>,
    concern: Option<String>,
) {
    let mut statuses = statuses.lock().unwrap_or_else(PoisonError::into_inner);
    let status = statuses.entry(name).or_insert(TaskStatus {
        activations: 0,
        consecutive_failures: 0,
        last_error: None,
        last_activation: None,
        concern: None,
    });
    status.activations += 1;
    status.consecutive_failures = failures;
    status.last_activation = Some(now);
    status.concern = concern;
    if let Some(error) = error {
        status.last_error = Some(error.to_string());
    }
}
