//! Threads for reads that compute for a tenant: lists, reports, searches, exports.
//!
//! A tenant that has computed for longer than its share of late is served by threads of low priority, so the processors go to the others
//! first. While there are no others it loses nothing.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use rustix::{
    process::{getpriority_process, setpriority_process},
    time::{ClockId, clock_gettime},
};
use tokio::{
    runtime::{Builder, Handle, Runtime},
    task::JoinHandle,
};

use super::{gate::FairGate, instant, turns::Full};
use crate::kernel::{id::TenantId, telemetry::panic_text};

/// What a tenant may use of one processor, in percent, before it counts as busy.
const SHARE: u32 = 20;
/// What it may use at once beyond that.
const BURST: Duration = Duration::from_millis(200);
/// A busy tenant is forgiven after this long at most: what goes beyond is not held against it.
const MOST_OWED: Duration = Duration::from_secs(2);
/// The `nice` of the slow lane's threads.
const LOW_PRIORITY: i32 = 10;
/// Reads of one busy tenant that may wait.
const MAX_WAITING: usize = 256;
/// Tenants whose use is kept before those that owe nothing are forgotten.
const MAX_REMEMBERED: usize = 1024;

/// Why a read has no result.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LaneError {
    #[error("too many reads of this tenant wait for their turn")]
    Busy,
    #[error("a read panicked: {0}")]
    Panicked(String),
}

/// The threads; clones share them.
#[derive(Clone, Debug)]
pub struct Lanes(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    accounts: Mutex<HashMap<TenantId, Account>>,
    /// Reads of one tenant that run at once with the usual priority, and those of busy tenants with low priority.
    places: usize,
    /// Busy tenants take turns for as many places as there are processors.
    gate: FairGate,
    slow: Option<Runtime>,
}

/// What a tenant uses.
#[derive(Clone, Copy, Debug)]
struct Account {
    /// Processor time beyond its share, as of `at`.
    owed: Duration,
    at: Instant,
    /// Its reads that run now with the usual priority.
    running: usize,
}

impl Account {
    fn left(self, now: Instant) -> Duration {
        self.owed.saturating_sub(now.saturating_duration_since(self.at) * SHARE / 100)
    }
}

/// A read that runs. Dropped, on its own thread, it charges what the read has used, also if it panicked or nobody waits for it any more.
struct Measured {
    lanes: Lanes,
    tenant: TenantId,
    is_usual: bool,
    begin: Duration,
}

impl Drop for Measured {
    fn drop(&mut self) {
        self.lanes.charge(self.tenant, processor_time().saturating_sub(self.begin), self.is_usual);
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        if let Some(slow) = self.slow.take() {
            slow.shutdown_background();
        }
    }
}

fn processor_time() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap_or_default()
}

impl Lanes {
    pub fn new() -> std::io::Result<Self> {
        let lower = || {
            let low = getpriority_process(None).unwrap_or(0).max(LOW_PRIORITY);
            if let Err(error) = setpriority_process(None, low) {
                tracing::warn!(%error, "a thread for long reads keeps its priority");
            }
        };
        let slow = Builder::new_current_thread().thread_name("slow-lane").on_thread_start(lower).build()?;
        let processors = std::thread::available_parallelism().map_or(2, std::num::NonZero::get);
        let places = processors.max(2);
        let gate = FairGate::new(places, MAX_WAITING);
        Ok(Self(Arc::new(Inner { accounts: Mutex::default(), places, gate, slow: Some(slow) })))
    }

    /// Runs a read for a tenant, at once unless the tenant is busy.
    pub async fn run<T, F>(&self, tenant: TenantId, work: F) -> Result<T, LaneError>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        let lanes = self.clone();
        let measured = move |is_usual| {
            let _measured = Measured { lanes, tenant, is_usual, begin: processor_time() };
            work()
        };
        if self.begin_usual(tenant) {
            return result(tokio::task::spawn_blocking(move || measured(true))).await;
        }
        let pass = self.0.gate.enter(tenant).await.map_err(|Full| LaneError::Busy)?;
        result(self.spawn_slow(move || {
            let _pass = pass;
            measured(false)
        }))
        .await
    }

    /// Runs what may take minutes, with low priority: an export. The number of these is bounded elsewhere.
    pub async fn run_long<T, F>(&self, work: F) -> Result<T, LaneError>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        result(self.spawn_slow(work)).await
    }

    fn spawn_slow<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
        // The slow lane has threads and nothing else: what the work waits for belongs to the runtime of its caller.
        let caller = Handle::current();
        let work = move || {
            let _entered = caller.enter();
            work()
        };
        match &self.0.slow {
            Some(slow) => slow.spawn_blocking(work),
            None => tokio::task::spawn_blocking(work),
        }
    }

    fn accounts(&self) -> MutexGuard<'_, HashMap<TenantId, Account>> {
        self.0.accounts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts one more read with the usual priority, unless the tenant is busy: it owes too much, or has as many of them as there are
    /// places. A read is charged when it ends, so many at once would otherwise all pass.
    fn begin_usual(&self, tenant: TenantId) -> bool {
        let (now, mut accounts) = (instant(), self.accounts());
        let account = accounts.entry(tenant).or_insert(Account { owed: Duration::ZERO, at: now, running: 0 });
        let is_usual = account.running < self.0.places && account.left(now) <= BURST;
        account.running += usize::from(is_usual);
        is_usual
    }

    fn charge(&self, tenant: TenantId, used: Duration, was_usual: bool) {
        let (now, mut accounts) = (instant(), self.accounts());
        let account = accounts.entry(tenant).or_insert(Account { owed: Duration::ZERO, at: now, running: 0 });
        account.owed = (account.left(now) + used).min(MOST_OWED);
        account.at = now;
        account.running = account.running.saturating_sub(usize::from(was_usual));
        if accounts.len() > MAX_REMEMBERED {
            accounts.retain(|_, account| account.running > 0 || !account.left(now).is_zero());
        }
    }
}

async fn result<T>(running: JoinHandle<T>) -> Result<T, LaneError> {
    running.await.map_err(|error| {
        LaneError::Panicked(error.try_into_panic().map_or_else(|error| error.to_string(), |cause| panic_text(cause.as_ref())))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::{clock::Timestamp, entropy::Entropy};

    fn tenant(seed: u64) -> TenantId {
        TenantId::new(Timestamp::from_millis(1), &mut Entropy::from_seed(seed))
    }

    fn compute(time: Duration) {
        let begin = processor_time();
        while processor_time().saturating_sub(begin) < time {
            std::hint::spin_loop();
        }
    }

    #[tokio::test]
    async fn a_tenant_that_computes_much_gets_low_priority_and_another_does_not() {
        let (lanes, usual) = (Lanes::new().unwrap(), getpriority_process(None).unwrap());
        let low = usual.max(LOW_PRIORITY);
        let priority = || getpriority_process(None).unwrap();
        assert_eq!(lanes.run(tenant(1), priority).await.unwrap(), usual);
        lanes.run(tenant(1), || compute(BURST * 2)).await.unwrap();
        assert_eq!(lanes.run(tenant(1), priority).await.unwrap(), low);
        assert_eq!(lanes.run(tenant(2), priority).await.unwrap(), usual);
        assert_eq!(lanes.run_long(priority).await.unwrap(), low);
    }

    #[tokio::test]
    async fn a_busy_tenant_waits_for_a_place_within_bounds_while_another_does_not() {
        let lanes = Lanes::new().unwrap();
        lanes.charge(tenant(1), MOST_OWED * 3, false);
        let (open, closed) = std::sync::mpsc::channel::<()>();
        let closed = Arc::new(Mutex::new(closed));
        let wait = |lanes: Lanes, closed: Arc<Mutex<std::sync::mpsc::Receiver<()>>>| async move {
            lanes.run(tenant(1), move || closed.lock().unwrap().recv().is_err()).await
        };
        let places = std::thread::available_parallelism().unwrap().get().max(2);
        let mut all = tokio::task::JoinSet::new();
        for _ in 0..=places + MAX_WAITING {
            all.spawn(wait(lanes.clone(), closed.clone()));
        }
        assert_eq!(all.join_next().await.unwrap().unwrap(), Err(LaneError::Busy), "one is too many");
        assert_eq!(lanes.run(tenant(2), || 7).await, Ok(7));
        drop(open);
        let mut done = 0;
        while let Some(result) = all.join_next().await {
            assert_eq!(result.unwrap(), Ok(true));
            done += 1;
        }
        assert_eq!(done, places + MAX_WAITING);
    }

    #[tokio::test]
    async fn many_reads_at_once_do_not_all_have_the_usual_priority() {
        let lanes = Lanes::new().unwrap();
        let usual = (0..lanes.0.places * 3).filter(|_| lanes.begin_usual(tenant(1))).count();
        assert_eq!(usual, lanes.0.places);
        assert!(lanes.begin_usual(tenant(2)));
        lanes.charge(tenant(1), Duration::ZERO, true);
        assert!(lanes.begin_usual(tenant(1)));
    }

    #[tokio::test]
    async fn long_work_can_wait_for_what_belongs_to_its_caller() {
        let (sender, mut receiver) = tokio::sync::mpsc::channel::<u8>(1);
        let patience = Duration::from_mins(1);
        let send = move || [1, 2, 3].map(|piece| Handle::current().block_on(sender.send_timeout(piece, patience)).is_ok());
        let lanes = Lanes::new().unwrap();
        let (sent, received) = tokio::join!(lanes.run_long(send), async {
            let mut received = Vec::new();
            while let Some(piece) = receiver.recv().await {
                received.push(piece);
            }
            received
        });
        assert_eq!((sent.unwrap(), received), ([true; 3], vec![1, 2, 3]));
    }

    #[tokio::test]
    async fn a_panic_is_an_error_and_what_is_owed_is_forgiven_in_time() {
        let lanes = Lanes::new().unwrap();
        let failed = lanes.run(tenant(1), || -> u8 { panic!("on purpose") }).await;
        assert_eq!(failed, Err(LaneError::Panicked("on purpose".to_owned())));
        let account = Account { owed: MOST_OWED, at: instant(), running: 0 };
        assert!(account.left(account.at) > BURST);
        assert_eq!(account.left(account.at + MOST_OWED * 100 / SHARE), Duration::ZERO);
        assert_eq!(lanes.accounts().get(&tenant(1)).unwrap().running, 0, "one that panicked has ended too");
    }
}
