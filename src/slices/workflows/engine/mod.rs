//! The engine: finds the runs that there is something to do with, and drives many of them at once. It is driven by the index of due
//! times alone, so a restart and normal running are one path. **Invariant:** a run that waits is a row in the store and nothing in
//! memory.

mod commit;
mod context;
mod drive;
mod prepare;

use std::{
    collections::{HashMap, HashSet},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tokio::sync::Notify;

use super::{
    repo::{self, runs::RunKey},
    service::Service,
    steps::Appliers,
};
use crate::{
    kernel::{
        clocks::Clocks,
        id::TenantId,
        programs::Programs,
        store::{Due, Store, StoreError},
        tasks::{Alarm, Done, Task, TaskError},
    },
    slices::platform::Tenants,
};

pub(super) use context::names;

/// How long a run rests after the store has failed it.
const REST: Duration = Duration::from_secs(1);

/// The runs that have a driver.
#[derive(Debug, Default)]
struct InFlight {
    runs: HashSet<RunKey>,
    by_tenant: HashMap<TenantId, usize>,
}

impl InFlight {
    fn add(&mut self, key: RunKey) {
        if self.runs.insert(key) {
            *self.by_tenant.entry(key.0).or_default() += 1;
        }
    }

    fn remove(&mut self, key: RunKey) {
        if self.runs.remove(&key)
            && let Some(count) = self.by_tenant.get_mut(&key.0)
        {
            *count -= 1;
            if *count == 0 {
                self.by_tenant.remove(&key.0);
            }
        }
    }
}

#[derive(Debug)]
struct Shared {
    store: Store,
    clocks: Clocks,
    service: Arc<Service>,
    tenants: Tenants,
    appliers: Appliers,
    programs: Programs,
    in_flight: Mutex<InFlight>,
    /// Wakes the task.
    signal: Notify,
    /// Wakes drivers that wait for an answer: their run may have been changed.
    woken: Notify,
    stopping: AtomicBool,
    stop: Notify,
    ended: Notify,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::SeqCst)
    }

    async fn stopped(&self) {
        let stop = self.stop.notified();
        if !self.is_stopping() {
            stop.await;
        }
    }
}

/// How others tell the engine that there is something new to do.
#[derive(Clone, Debug)]
pub(super) struct Engine(Arc<Shared>);

impl Engine {
    pub(super) fn new(
        store: Store,
        clocks: Clocks,
        service: Arc<Service>,
        tenants: Tenants,
        appliers: Appliers,
        programs: Programs,
    ) -> Self {
        Self(Arc::new(Shared {
            store,
            clocks,
            service,
            tenants,
            appliers,
            programs,
            in_flight: Mutex::default(),
            signal: Notify::new(),
            woken: Notify::new(),
            stopping: AtomicBool::new(false),
            stop: Notify::new(),
            ended: Notify::new(),
        }))
    }

    /// A hint: what is due is found without it too, later.
    pub(super) fn wake(&self) {
        self.0.signal.notify_one();
        self.0.woken.notify_waiters();
    }

    pub(super) fn task(&self) -> Scheduler {
        // What makes a run due signals so: no table needs to be watched.
        let alarm = Alarm::new(self.0.store.clone(), self.0.clocks.clone(), &[]);
        Scheduler { shared: self.0.clone(), alarm }
    }
}

/// A run that is driven. Dropped, it lets the run be found again.
struct Driven {
    shared: Arc<Shared>,
    key: RunKey,
}

impl Drop for Driven {
    fn drop(&mut self) {
        lock(&self.shared.in_flight).remove(self.key);
        self.shared.signal.notify_one();
        self.shared.ended.notify_waiters();
    }
}

/// The task that drives it.
#[derive(Debug)]
pub(super) struct Scheduler {
    shared: Arc<Shared>,
    alarm: Alarm,
}

impl Scheduler {
    fn start(&self, key: RunKey) {
        let driven = Driven { shared: self.shared.clone(), key };
        let shares = self.shared.store.shares().clone();
        tokio::spawn(async move {
            if let Err(error) = shares.work_for(key.0, drive::drive(driven.shared.clone(), key)).await {
                tracing::warn!(run = %key.1, %error, "a workflow run could not be driven on; it is tried again");
                tokio::select! {
                    () = tokio::time::sleep(REST) => {}
                    () = driven.shared.stopped() => {}
                }
            }
            drop(driven);
        });
    }
}

impl Task for Scheduler {
    fn name(&self) -> &'static str {
        "workflow_engine"
    }

    fn period(&self) -> Duration {
        Duration::from_mins(1)
    }

    async fn wake(&self) {
        tokio::select! {
            () = self.shared.signal.notified() => {}
            () = self.alarm.ring() => {}
        }
    }

    async fn activate(&self) -> Result<Done, TaskError> {
        let shared = &self.shared;
        let (reading, most) = (self.alarm.look(), shared.service.settings.in_flight);
        let found = {
            let mut in_flight = lock(&shared.in_flight);
            let free = most.saturating_sub(in_flight.runs.len());
            if free == 0 {
                // A driver that ends wakes this task.
                self.alarm.set(None);
                return Ok(Done::All);
            }
            // No tenant takes more than half of the drivers while another may want one.
            let mut taken: HashMap<TenantId, usize> = HashMap::new();
            let wanted = |key: RunKey| {
                let theirs = taken.entry(key.0).or_insert_with(|| in_flight.by_tenant.get(&key.0).copied().unwrap_or_default());
                let wanted = !in_flight.runs.contains(&key) && *theirs < most.div_ceil(2);
                *theirs += usize::from(wanted);
                wanted
            };
            let Due { found, next } = shared.store.read::<_, StoreError>(|tx| repo::runs::due(tx, &reading, free, wanted))?;
            self.alarm.set(next);
            for key in &found {
                in_flight.add(*key);
            }
            found
        };
        metrics::gauge!("tenantd_workflow_runs_in_flight").set(lock(&shared.in_flight).runs.len() as f64);
        for key in found {
            self.start(key);
        }
        Ok(Done::All)
    }

    async fn finish(&self) -> Result<(), TaskError> {
        let shared = &self.shared;
        shared.stopping.store(true, Ordering::SeqCst);
        shared.stop.notify_waiters();
        let quiet = async {
            loop {
                let ended = shared.ended.notified();
                if lock(&shared.in_flight).runs.is_empty() {
                    return;
                }
                ended.await;
            }
        };
        let patience = Duration::from_secs(shared.service.settings.shutdown_seconds);
        if tokio::time::timeout(patience, quiet).await.is_err() {
            tracing::info!("workflow runs under way were cut off; they go on after the next start");
        }
        Ok(())
    }
}
