//! Runs what tenants write as programs: schemas, expressions, conditions, patterns.
//!
//! Dedicated threads evaluate them, so a costly program never blocks the writer or an async thread. One thread serves tenants that
//! use much processor time, and one serves all others. On each, tenants take turns by the time that they have used ([`Turns`]).
//! **Invariant:** every evaluator takes a [`Budget`], and only a worker has one, so nothing else can evaluate a program.
//!
//! A thread cannot be stopped from outside, so programs must be bounded by construction: evaluators refuse what could cost too much
//! and charge the budget for the rest. A worker that is busy for longer than its pool expects is a defect. It is reported, and
//! replaced a few times so that other programs can run.

mod budget;
mod gate;
mod lanes;
mod shares;
mod turns;

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, mpsc},
    time::{Duration, Instant},
};

use rustix::process::{getpriority_process, setpriority_process};
use tokio::sync::oneshot;

pub use budget::{Budget, Exhausted};
pub use gate::{FairGate, GatePermit};
pub use lanes::{LaneError, Lanes};
pub use shares::{Party, Payer, Shares, Turn};
pub use turns::{Full, Turns};

use crate::{id::TenantId, telemetry::panic_text};

/// Jobs of one tenant that may wait.
const MAX_WAITING: usize = 256;
/// The `nice` value of threads for tenants that use much processor time.
const LOW_PRIORITY: i32 = 10;
/// How often a stalled worker is replaced.
const MAX_REPLACEMENTS: usize = 2;

/// Why a job has no result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProgramError {
    #[error("too many programs of this tenant are waiting")]
    Busy,
    #[error("the program could not be evaluated")]
    Failed,
}

type Job = Box<dyn FnOnce(&Budget) + Send>;

/// The workers. Clones share them. The threads end when the last clone is dropped.
#[derive(Clone, Debug)]
pub struct Programs {
    shares: Shares,
    usual: Arc<Pool>,
    /// For busy tenants, with low priority.
    slow: Arc<Pool>,
}

#[derive(Debug)]
struct Pool(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    ready: Condvar,
    /// A job that runs for longer than this stalls its worker.
    patience: Duration,
    is_slow: bool,
}

#[derive(Debug, Default)]
struct State {
    waiting: Turns<TenantId, Job>,
    /// When each busy worker started its job.
    busy: Vec<Option<Instant>>,
    replaced: usize,
    closed: bool,
}

impl Drop for Pool {
    fn drop(&mut self) {
        lock(&self.0.state).closed = true;
        self.0.ready.notify_all();
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

#[allow(clippy::disallowed_methods, reason = "measures how long a job takes; nothing is decided for a tenant's data by it")]
fn instant() -> Instant {
    Instant::now()
}

/// Lets other threads run first from now on.
fn lower_priority() {
    let low = getpriority_process(None).unwrap_or(0).max(LOW_PRIORITY);
    if let Err(error) = setpriority_process(None, low) {
        tracing::warn!(%error, "failed to lower the priority of a thread for busy tenants");
    }
}

impl Pool {
    fn new(patience: Duration, is_slow: bool) -> std::io::Result<Arc<Self>> {
        let shared = Arc::new(Shared { state: Mutex::default(), ready: Condvar::new(), patience, is_slow });
        spawn(&shared, &mut lock(&shared.state))?;
        Ok(Arc::new(Self(shared)))
    }

    fn stalled(&self) -> usize {
        lock(&self.0.state).stalled(self.0.patience)
    }
}

impl Programs {
    /// Starts the workers. Jobs should end within `patience`.
    pub fn new(patience: Duration, shares: Shares) -> std::io::Result<Self> {
        Ok(Self { shares, usual: Pool::new(patience, false)?, slow: Pool::new(patience, true)? })
    }

    /// Runs a job when it is the turn of its tenant.
    pub async fn run<T: Send + 'static>(
        &self,
        tenant: TenantId,
        work: impl FnOnce(&Budget) -> T + Send + 'static,
    ) -> Result<T, ProgramError> {
        let (answer, answered) = oneshot::channel();
        self.push(tenant, move |budget| {
            // The job may have no receiver any more, for example after the time limit of a request.
            if !answer.is_closed() {
                drop(answer.send(work(budget)));
            }
        })?;
        answered.await.map_err(|_| ProgramError::Failed)
    }

    /// The same on a thread that may block.
    pub fn run_blocking<T: Send + 'static>(
        &self,
        tenant: TenantId,
        work: impl FnOnce(&Budget) -> T + Send + 'static,
    ) -> Result<T, ProgramError> {
        let (answer, answered) = mpsc::channel();
        self.push(tenant, move |budget| drop(answer.send(work(budget))))?;
        answered.recv().map_err(|_| ProgramError::Failed)
    }

    fn push(&self, tenant: TenantId, job: impl FnOnce(&Budget) + Send + 'static) -> Result<(), ProgramError> {
        let pool = if self.shares.is_busy(tenant) { &self.slow } else { &self.usual };
        let (shared, payer) = (&pool.0, self.shares.payer(tenant));
        let job = move |budget: &Budget| payer.pay(|| job(budget));
        {
            let mut state = lock(&shared.state);
            if state.stalled(shared.patience) == state.busy.len() && state.replaced < MAX_REPLACEMENTS {
                state.replaced += 1;
                if let Err(error) = spawn(shared, &mut state) {
                    tracing::error!(%error, "cannot start a worker to replace a stalled one");
                }
            }
            state.waiting.push(tenant, Box::new(job), MAX_WAITING).map_err(|Full| ProgramError::Busy)?;
        }
        shared.ready.notify_one();
        Ok(())
    }

    /// The number of workers that have been busy with one job for too long.
    pub fn stalled(&self) -> usize {
        self.usual.stalled() + self.slow.stalled()
    }
}

impl State {
    fn stalled(&self, patience: Duration) -> usize {
        self.busy.iter().flatten().filter(|began| began.elapsed() > patience).count()
    }
}

fn spawn(shared: &Arc<Shared>, state: &mut State) -> std::io::Result<()> {
    let place = state.busy.len();
    let worker = shared.clone();
    std::thread::Builder::new()
        .name(format!("{}program-{place}", if shared.is_slow { "slow-" } else { "" }))
        .spawn(move || work(&worker, place))?;
    state.busy.push(None);
    Ok(())
}

/// A worker: runs jobs until the pool is closed.
fn work(shared: &Shared, place: usize) {
    if shared.is_slow {
        lower_priority();
    }
    loop {
        let (tenant, job) = {
            let mut state = lock(&shared.state);
            loop {
                if state.closed {
                    return;
                }
                if let Some(next) = state.waiting.pop() {
                    if let Some(busy) = state.busy.get_mut(place) {
                        *busy = Some(instant());
                    }
                    break next;
                }
                state = shared.ready.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
        };
        let began = instant();
        let ended = catch_unwind(AssertUnwindSafe(|| job(&Budget::new())));
        let took = began.elapsed();
        if let Err(panic) = ended {
            tracing::error!(%tenant, panic = panic_text(panic.as_ref()), "a program panicked");
        }
        if took > shared.patience {
            tracing::error!(%tenant, milliseconds = took.as_millis(), "a program ran longer than its bounds should allow");
            metrics::counter!("tenantd_programs_stalled_total").increment(1);
        }
        metrics::counter!("tenantd_program_microseconds_total").increment(u64::try_from(took.as_micros()).unwrap_or(u64::MAX));
        let mut state = lock(&shared.state);
        if let Some(busy) = state.busy.get_mut(place) {
            *busy = None;
        }
        state.waiting.charge(tenant, u64::try_from(took.as_micros()).unwrap_or(u64::MAX).max(1));
    }
}

#[cfg(test)]
mod tests;
