//! Background loops under supervision. A task is driven by durable state: it is woken by a signal or by the clock, gets no input,
//! looks what there is to do, and does it. So a restart and normal running are one path.
//!
//! A task that fails is tried again after a growing delay, a task that panics too; `/readyz` and `/status/` tell which.

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

/// What an activation left to do.
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

    /// Returns when there may be something to do before the period is over.
    fn wake(&self) -> impl Future<Output = ()> + Send {
        std::future::pending()
    }

    /// Whether it goes on while the disk is nearly full: because it makes room, watches over the server, or others wait for it that go
    /// on. What the rest writes waits then.
    fn goes_on_when_full(&self) -> bool {
        false
    }

    /// What is wrong though nothing failed, such as work that waits for too long: shown on `/status/`.
    fn concern(&self) -> Option<String> {
        None
    }

    /// Whether it waits while a tenant is only half there ([`Quiet`]): it would take what is told of the past for the present.
    fn waits_for_quiet(&self) -> bool {
        false
    }

    /// Runs once when the server stops, after the last activation.
    fn finish(&self) -> impl Future<Output = Result<(), TaskError>> + Send {
        std::future::ready(Ok(()))
    }
}

/// How a task is doing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskStatus {
    pub activations: u64,
    pub consecutive_failures: u32,
    pub last_error: Option<String>,
    pub last_activation: Option<Timestamp>,
    pub concern: Option<String>,
}

/// Holds off the tasks that act by time or follow records, while a tenant is being filled with a past: seconds, for all tenants.
#[derive(Clone, Debug, Default)]
pub struct Quiet(Arc<RwLock<()>>);

impl Quiet {
    /// From when this returns, and until the guard is dropped, none of those tasks looks at anything.
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

/// Shows how the tasks are doing.
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

    /// Stops all tasks in order: what is under way is finished, nothing new is begun.
    pub async fn shutdown(mut self) {
        self.stop.send_replace(true);
        while let Some(ended) = self.running.join_next().await {
            if let Err(error) = ended {
                tracing::error!(%error, "a task did not stop in order");
            }
        }
    }
}

async fn supervise<T: Task>(task: Arc<T>, clock: Clock, mut stop: watch::Receiver<bool>, (statuses, quiet): (Statuses, Quiet)) {
    let name = task.name();
    let mut failures = 0_u32;
    while !*stop.borrow() {
        // A task of its own, so that a panic ends the activation and not the loop.
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
