//! Threads for reads that compute for a tenant: lists, reports, searches, exports.
//!
//! A tenant that has recently used much processor time is served by low-priority threads, so other tenants get the processors
//! first. While there are no others, it loses nothing.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::{
    runtime::{Builder, Handle, Runtime},
    task::JoinHandle,
};

use super::{gate::FairGate, lower_priority, shares::Shares, turns::Full};
use crate::{id::TenantId, telemetry::panic_text};

/// Reads of one busy tenant that may wait.
const MAX_WAITING: usize = 256;

/// Why a read has no result.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LaneError {
    #[error("too many reads of this tenant are waiting")]
    Busy,
    #[error("a read panicked: {0}")]
    Panicked(String),
}

/// The threads. Clones share them.
#[derive(Clone, Debug)]
pub struct Lanes(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    shares: Shares,
    /// Reads of each tenant that are running with normal priority.
    running: Mutex<HashMap<TenantId, usize>>,
    /// How many reads of one tenant may run with normal priority, and how many reads of busy tenants may run with low priority.
    places: usize,
    /// Busy tenants take turns. There are as many places as processors.
    gate: FairGate,
    slow: Option<Runtime>,
}

/// A read with normal priority. Dropping it on its own thread returns its place, even if it panicked or nobody waits for it any
/// more.
struct NormalRead {
    lanes: Lanes,
    tenant: TenantId,
}

impl Drop for NormalRead {
    fn drop(&mut self) {
        let mut running = self.lanes.running();
        if let Some(count) = running.get_mut(&self.tenant) {
            *count -= 1;
            if *count == 0 {
                running.remove(&self.tenant);
            }
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        if let Some(slow) = self.slow.take() {
            slow.shutdown_background();
        }
    }
}

impl Lanes {
    pub fn new(shares: Shares) -> std::io::Result<Self> {
        let slow = Builder::new_current_thread().thread_name("slow-lane").on_thread_start(lower_priority).build()?;
        let processors = std::thread::available_parallelism().map_or(2, std::num::NonZero::get);
        let places = processors.max(2);
        let gate = FairGate::new(places, MAX_WAITING);
        Ok(Self(Arc::new(Inner { shares, running: Mutex::default(), places, gate, slow: Some(slow) })))
    }

    /// The use of each tenant.
    pub fn shares(&self) -> &Shares {
        &self.0.shares
    }

    /// Runs a read for a tenant. It starts immediately unless the tenant is busy.
    pub async fn run<T, F>(&self, tenant: TenantId, work: F) -> Result<T, LaneError>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        let payer = self.0.shares.payer(tenant);
        if let Some(usual) = self.begin_normal(tenant) {
            return result(tokio::task::spawn_blocking(move || {
                let _usual = usual;
                payer.pay(work)
            }))
            .await;
        }
        let permit = self.0.gate.enter(tenant).await.map_err(|Full| LaneError::Busy)?;
        result(self.spawn_slow(move || {
            let _permit = permit;
            payer.pay(work)
        }))
        .await
    }

    /// Runs work that may take minutes, such as an export, with low priority. Its callers limit how many run.
    pub async fn run_long<T, F>(&self, work: F) -> Result<T, LaneError>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        result(self.spawn_slow(work)).await
    }

    fn spawn_slow<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
        // The slow lane has only threads. Resources that the work waits for belong to the runtime of its caller.
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

    fn running(&self) -> MutexGuard<'_, HashMap<TenantId, usize>> {
        self.0.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts one more read with normal priority, unless the tenant is busy or already runs as many as there are places. A read is
    /// charged when it ends, so without this limit many concurrent reads would all pass.
    fn begin_normal(&self, tenant: TenantId) -> Option<NormalRead> {
        if self.0.shares.is_busy(tenant) {
            return None;
        }
        let mut running = self.running();
        let count = running.entry(tenant).or_default();
        (*count < self.0.places).then(|| {
            *count += 1;
            NormalRead { lanes: self.clone(), tenant }
        })
    }
}

async fn result<T>(running: JoinHandle<T>) -> Result<T, LaneError> {
    running.await.map_err(|error| {
        LaneError::Panicked(error.try_into_panic().map_or_else(|error| error.to_string(), |cause| panic_text(cause.as_ref())))
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rustix::process::getpriority_process;

    use super::{
        super::{LOW_PRIORITY, shares::processor_time},
        *,
    };
    use crate::{clock::Timestamp, entropy::Entropy};

    /// Enough use to make a tenant busy.
    const MUCH: Duration = Duration::from_mins(1);

    fn lanes() -> Lanes {
        Lanes::new(Shares::default()).unwrap()
    }

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
    async fn a_busy_tenant_gets_low_priority() {
        let (lanes, usual) = (lanes(), getpriority_process(None).unwrap());
        let low = usual.max(LOW_PRIORITY);
        let priority = || getpriority_process(None).unwrap();
        assert_eq!(lanes.run(tenant(1), priority).await.unwrap(), usual);
        lanes.run(tenant(1), || compute(Duration::from_secs(1))).await.unwrap();
        assert_eq!(lanes.run(tenant(1), priority).await.unwrap(), low);
        assert_eq!(lanes.run(tenant(2), priority).await.unwrap(), usual);
        assert_eq!(lanes.run_long(priority).await.unwrap(), low);
    }

    #[tokio::test]
    async fn the_waiting_reads_of_a_busy_tenant_are_bounded() {
        let lanes = lanes();
        lanes.shares().charge_processors(tenant(1), MUCH);
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
    async fn concurrent_reads_with_normal_priority_are_limited() {
        let lanes = lanes();
        let mut usual: Vec<NormalRead> = (0..lanes.0.places * 3).filter_map(|_| lanes.begin_normal(tenant(1))).collect();
        assert_eq!(usual.len(), lanes.0.places);
        assert!(lanes.begin_normal(tenant(2)).is_some());
        usual.pop();
        assert!(lanes.begin_normal(tenant(1)).is_some());
    }

    #[tokio::test]
    async fn long_work_can_use_the_runtime_of_its_caller() {
        let (sender, mut receiver) = tokio::sync::mpsc::channel::<u8>(1);
        let patience = Duration::from_mins(1);
        let send = move || [1, 2, 3].map(|piece| Handle::current().block_on(sender.send_timeout(piece, patience)).is_ok());
        let lanes = lanes();
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
    async fn a_panic_is_an_error_and_returns_its_place() {
        let lanes = lanes();
        let failed = lanes.run(tenant(1), || -> u8 { panic!("on purpose") }).await;
        assert_eq!(failed, Err(LaneError::Panicked("on purpose".to_owned())));
        assert!(lanes.running().is_empty());
    }
}
