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
    owed: Mutex<HashMap<TenantId, Owed>>,
    /// Busy tenants take turns for as many places as there are processors.
    gate: FairGate,
    slow: Option<Runtime>,
}

/// Processor time beyond a tenant's share, as of a moment.
#[derive(Clone, Copy, Debug)]
struct Owed {
    time: Duration,
    at: Instant,
}

impl Owed {
    fn left(self, now: Instant) -> Duration {
        self.time.saturating_sub(now.saturating_duration_since(self.at) * SHARE / 100)
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
        Ok(Self(Arc::new(Inner { owed: Mutex::default(), gate: FairGate::new(processors.max(2), MAX_WAITING), slow: Some(slow) })))
    }

    /// Runs a read for a tenant, at once unless the tenant is busy.
    pub async fn run<T, F>(&self, tenant: TenantId, work: F) -> Result<T, LaneError>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        let lanes = self.clone();
        let measured = move || {
            let begin = processor_time();
            let result = work();
            lanes.charge(tenant, processor_time().saturating_sub(begin));
            result
        };
        if !self.is_busy(tenant) {
            return result(tokio::task::spawn_blocking(measured)).await;
        }
        let pass = self.0.gate.enter(tenant).await.map_err(|Full| LaneError::Busy)?;
        result(self.spawn_slow(move || {
            let _pass = pass;
            measured()
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

    fn owed(&self) -> MutexGuard<'_, HashMap<TenantId, Owed>> {
        self.0.owed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_busy(&self, tenant: TenantId) -> bool {
        self.owed().get(&tenant).is_some_and(|owed| owed.left(instant()) > BURST)
    }

    fn charge(&self, tenant: TenantId, used: Duration) {
        let (now, mut owed) = (instant(), self.owed());
        if owed.len() >= MAX_REMEMBERED {
            owed.retain(|_, owed| !owed.left(now).is_zero());
        }
        let before = owed.get(&tenant).map_or(Duration::ZERO, |owed| owed.left(now));
        owed.insert(tenant, Owed { time: (before + used).min(MOST_OWED), at: now });
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
        lanes.charge(tenant(1), MOST_OWED * 3);
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
        let owed = Owed { time: MOST_OWED, at: instant() };
        assert!(owed.left(owed.at) > BURST);
        assert_eq!(owed.left(owed.at + MOST_OWED * 100 / SHARE), Duration::ZERO);
    }
}
