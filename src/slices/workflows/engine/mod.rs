//! The engine: finds due runs and drives many of them at once. Only the index of due times drives it, so a restart and normal
//! operation use the same path. **Invariant:** a waiting run is a row in the store and uses no memory.

mod commit;
mod context;
mod drive;
mod prepare;

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tokio::sync::Notify;

use tenantd_base::{
    clock::Timestamp,
    clocks::{Clocks, Reading, Timeline},
    id::TenantId,
    programs::Programs,
};
use tenantd_platform::Tenants;
use tenantd_store::{
    Due, Store, StoreError,
    tasks::{Alarm, Done, Task, TaskError},
};

use super::{
    repo::{self, runs::RunKey},
    service::Service,
    steps::Appliers,
};

pub(super) use context::names;

/// How long the engine waits to drive a run again after a store error.
const RETRY_DELAY: Duration = Duration::from_secs(1);

/// The runs in progress, and when to look for more.
#[derive(Debug, Default)]
struct InFlight {
    runs: HashSet<RunKey>,
    by_tenant: HashMap<TenantId, usize>,
    /// When to look for runs of a tenant, by its clock. A hint: a time that is too early costs one index lookup.
    next: BTreeMap<TenantId, Timestamp>,
    /// The last tenant that was checked. Tenants take turns, so the next check starts after it.
    last: Option<TenantId>,
}

impl InFlight {
    /// Checks the runs of a tenant at the next opportunity.
    fn look_soon(&mut self, tenant: TenantId) {
        self.next.insert(tenant, Timestamp::from_millis(0));
    }

    /// Adds due times from the index that have no hint.
    fn remind(&mut self, due: Vec<(TenantId, Timestamp)>) {
        for (tenant, at) in due {
            let next = self.next.entry(tenant).or_insert(at);
            *next = at.min(*next);
        }
    }

    /// How many more runs of a tenant may be in progress. A tenant gets at most half of the capacity, so that others find some.
    fn room(&self, tenant: TenantId, most: usize) -> usize {
        let theirs = self.by_tenant.get(&tenant).copied().unwrap_or_default();
        most.div_ceil(2).saturating_sub(theirs).min(most.saturating_sub(self.runs.len()))
    }

    /// The tenants to check, starting after the last one.
    fn in_turn(&self, reading: &Reading, most: usize) -> Vec<TenantId> {
        let wants =
            |(tenant, at): (&TenantId, &Timestamp)| (*at <= reading.of(*tenant) && self.room(*tenant, most) > 0).then_some(*tenant);
        let (mut first, mut then) = (Vec::new(), Vec::new());
        for tenant in self.next.iter().filter_map(wants) {
            if Some(tenant) > self.last { first.push(tenant) } else { then.push(tenant) }
        }
        first.append(&mut then);
        first
    }

    /// When the installation's clock reaches the next check. A tenant without capacity is checked when one of its runs ends.
    fn next_look(&self, reading: &Reading, most: usize) -> Option<Timestamp> {
        let with_room = self.next.iter().filter(|(tenant, _)| self.room(**tenant, most) > 0);
        with_room.map(|(tenant, at)| reading.reached(Timeline::of(*tenant), *at)).min()
    }

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
    /// Wakes drivers that wait for a call, because their run may have changed.
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

/// Tells the engine that there is new work.
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

    /// Reports that runs of a tenant were started or changed. A hint: the engine also finds due runs without it, but later.
    pub(super) fn wake(&self, tenant: TenantId) {
        lock(&self.0.in_flight).look_soon(tenant);
        self.0.signal.notify_one();
        self.0.woken.notify_waiters();
    }

    pub(super) fn task(&self) -> Scheduler {
        // Everything that makes a run due also signals it, so no table needs to be watched.
        let alarm = Alarm::new(self.0.store.clone(), self.0.clocks.clone(), &[]);
        Scheduler { shared: self.0.clone(), alarm, looked_at_all: Mutex::new(None) }
    }
}

/// A run in progress. When dropped, the engine can find the run again.
struct RunGuard {
    shared: Arc<Shared>,
    key: RunKey,
}

impl Drop for RunGuard {
    fn drop(&mut self) {
        let mut in_flight = lock(&self.shared.in_flight);
        in_flight.remove(self.key);
        in_flight.look_soon(self.key.0);
        drop(in_flight);
        self.shared.signal.notify_one();
        self.shared.ended.notify_waiters();
    }
}

/// The background task of the engine.
#[derive(Debug)]
pub(super) struct Scheduler {
    shared: Arc<Shared>,
    alarm: Alarm,
    /// When the runs of all tenants were last checked.
    looked_at_all: Mutex<Option<Timestamp>>,
}

impl Scheduler {
    /// Finds due runs without a hint, once a minute.
    async fn look_at_all(&self, now: Timestamp) -> Result<(), StoreError> {
        if lock(&self.looked_at_all).is_some_and(|last| now.since(last) < self.period()) {
            return Ok(());
        }
        let due = self.shared.store.scan(repo::runs::first_due).await?;
        lock(&self.shared.in_flight).remind(due);
        *lock(&self.looked_at_all) = Some(now);
        Ok(())
    }

    /// Takes the due runs for which there is capacity, tenant by tenant.
    fn take_due(&self, reading: &Reading) -> Result<Vec<RunKey>, StoreError> {
        let (shared, most) = (&self.shared, self.shared.service.settings.in_flight);
        let mut in_flight = lock(&shared.in_flight);
        let mut taken = Vec::new();
        for tenant in in_flight.in_turn(reading, most) {
            let room = in_flight.room(tenant, most);
            if room == 0 {
                break;
            }
            let is_new = |key: &RunKey| !in_flight.runs.contains(key);
            let Due { found, next } =
                shared.store.read::<_, StoreError>(|tx| repo::runs::due_of(tx, tenant, reading.of(tenant), room, is_new))?;
            if found.len() < room {
                match next {
                    Some(at) => drop(in_flight.next.insert(tenant, at)),
                    None => drop(in_flight.next.remove(&tenant)),
                }
            }
            for key in &found {
                in_flight.add(*key);
            }
            in_flight.last = Some(tenant);
            taken.extend(found);
        }
        self.alarm.set(in_flight.next_look(reading, most));
        metrics::gauge!("tenantd_workflow_runs_in_flight").set(in_flight.runs.len() as f64);
        Ok(taken)
    }

    fn start(&self, key: RunKey) {
        let driven = RunGuard { shared: self.shared.clone(), key };
        let shares = self.shared.store.shares().clone();
        tokio::spawn(async move {
            if let Err(error) = shares.work_for(key.0, drive::drive(driven.shared.clone(), key)).await {
                tracing::warn!(run = %key.1, %error, "could not continue a workflow run; tenantd retries");
                tokio::select! {
                    () = tokio::time::sleep(RETRY_DELAY) => {}
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
        let reading = self.alarm.look();
        self.look_at_all(reading.installation()).await?;
        for key in self.take_due(&reading)? {
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
            tracing::info!("the shutdown interrupted workflow runs; they continue after the next start");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use tenantd_base::{clock::Clock, entropy::Entropy, id::RunId};

    use super::*;

    const MAX: usize = 10;

    fn tenants() -> Vec<TenantId> {
        let mut tenants: Vec<_> =
            (0..3).map(|seed| TenantId::new(Timestamp::from_millis(1), &mut Entropy::from_seed(seed))).collect();
        tenants.sort_unstable();
        tenants
    }

    fn run(tenant: TenantId, number: u64) -> RunKey {
        (tenant, RunId::new(Timestamp::from_millis(2), &mut Entropy::from_seed(number)))
    }

    fn reading(now: i64) -> Reading {
        Clocks::new(Clock::movable(Timestamp::from_millis(now))).read()
    }

    #[test]
    fn a_tenant_gets_at_most_half_of_the_capacity() {
        let (tenants, mut in_flight) = (tenants(), InFlight::default());
        (0..5).for_each(|number| in_flight.add(run(tenants[0], number)));
        assert_eq!((in_flight.room(tenants[0], MAX), in_flight.room(tenants[1], MAX)), (0, 5));
        (5..8).for_each(|number| in_flight.add(run(tenants[1], number)));
        assert_eq!(in_flight.room(tenants[2], MAX), 2, "no more than there are");
        in_flight.remove(run(tenants[0], 0));
        assert_eq!(in_flight.room(tenants[0], MAX), 1);
    }

    #[test]
    fn due_tenants_with_capacity_take_turns() {
        let (tenants, mut in_flight) = (tenants(), InFlight::default());
        for tenant in &tenants {
            in_flight.look_soon(*tenant);
        }
        in_flight.last = Some(tenants[0]);
        assert_eq!(in_flight.in_turn(&reading(1), MAX), [tenants[1], tenants[2], tenants[0]]);
        (0..5).for_each(|number| in_flight.add(run(tenants[1], number)));
        in_flight.next.insert(tenants[2], Timestamp::from_millis(50));
        assert_eq!(in_flight.in_turn(&reading(1), MAX), [tenants[0]]);
        in_flight.next.remove(&tenants[0]);
        assert_eq!(in_flight.next_look(&reading(1), MAX), Some(Timestamp::from_millis(50)), "not for a tenant without capacity");
    }

    #[test]
    fn a_reminder_never_delays_a_check() {
        let (tenants, mut in_flight) = (tenants(), InFlight::default());
        in_flight.look_soon(tenants[0]);
        in_flight.remind(vec![(tenants[0], Timestamp::from_millis(90)), (tenants[1], Timestamp::from_millis(60))]);
        let next: Vec<_> = in_flight.next.into_iter().collect();
        assert_eq!(next, [(tenants[0], Timestamp::from_millis(0)), (tenants[1], Timestamp::from_millis(60))]);
    }
}
