//! The single writer. Writes that wait at the same time share one durable commit, and each caller is answered after it.
//!
//! The members of a batch run one after the other on one set of changes. A member that fails rolls back its own changes, and the
//! others stay. **Invariant:** no caller gets a success before the commit has returned. After a failed commit, no caller gets the answer
//! that nothing was stored.
//!
//! A batch that contains only derived writes is not synced. The next synced batch includes it, or the writer syncs it when no
//! other write comes. A write that appends to the log is always synced, because others act on it.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{
    runtime::Runtime,
    sync::{mpsc, oneshot},
};

use tenantd_base::{
    programs::{Payer, Shares},
    telemetry::panic_text,
};

use super::{
    WriterSettings, catalog,
    engine::{Durability, Engine},
    error::StoreError,
    rehearsal::is_rehearsal,
    shared::Shared,
    transaction::WriteTx,
    usage,
};

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The caller's code. It stores its own result and returns whether it succeeded. It may run more than once.
type Work = Box<dyn FnMut(&mut WriteTx) -> bool + Send>;

/// A write in the queue. It has no type parameter, so the compiler generates one writer instead of one for each call.
struct Job {
    work: Work,
    /// The caller's code, by its name in the source.
    name: &'static str,
    payer: Option<Payer>,
    durability: Durability,
    panicked: Option<String>,
    answer: oneshot::Sender<Outcome>,
}

/// The outcome of a write, apart from the result that the caller's code has stored.
struct Outcome {
    panicked: Option<String>,
    committed: Result<(), StoreError>,
}

impl Job {
    /// Runs the caller's code. Returns whether it succeeded.
    fn run(&mut self, tx: &mut WriteTx) -> bool {
        let work = &mut self.work;
        let ran = catch_unwind(AssertUnwindSafe(|| match &self.payer {
            Some(payer) => payer.pay_for_writing(|| work(tx)),
            None => work(tx),
        }));
        self.panicked = ran.as_ref().err().map(|cause| panic_text(cause.as_ref()));
        ran.unwrap_or(false)
    }

    fn finish(self, committed: Result<(), StoreError>) {
        let Self { work, panicked, answer, .. } = self;
        // Drop what the work holds before its caller continues, because the caller may write again.
        drop(work);
        // The caller may be gone. Its write is stored anyway.
        drop(answer.send(Outcome { panicked, committed }));
    }
}

/// The queue that accepts writes.
#[derive(Clone)]
pub(super) struct Queue {
    jobs: mpsc::Sender<Job>,
}

impl Queue {
    pub(super) async fn submit<T, E, F>(&self, durability: Durability, mut work: F) -> Result<T, E>
    where
        F: FnMut(&mut WriteTx) -> Result<T, E> + Send + 'static,
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
    {
        let kept = Arc::new(Mutex::new(None));
        let result = kept.clone();
        let is_rehearsal = is_rehearsal();
        let work = move |tx: &mut WriteTx| {
            let outcome = work(tx).and_then(|value| {
                usage::settle(tx)?;
                if is_rehearsal { Err(E::from(StoreError::Rehearsed)) } else { Ok(value) }
            });
            let succeeded = outcome.is_ok();
            *lock(&result) = Some(outcome);
            succeeded
        };
        let Outcome { panicked, committed } = self.enqueue(Box::new(work), std::any::type_name::<F>(), durability).await?;
        let result = match panicked {
            Some(text) => Some(Err(E::from(StoreError::Panicked(text)))),
            None => lock(&kept).take(),
        };
        match (result, committed) {
            (Some(result), Ok(())) => result,
            // A refused write stored nothing, but it may depend on a write of the same batch that is now in doubt.
            (Some(Err(_)), Err(failure)) => Err(E::from(StoreError::Unavailable(failure.to_string()))),
            (_, Err(failure)) => Err(E::from(failure)),
            (None, Ok(())) => Err(E::from(StoreError::Unavailable("the write did not run".to_owned()))),
        }
    }

    async fn enqueue(&self, work: Work, name: &'static str, durability: Durability) -> Result<Outcome, StoreError> {
        let (answer, waiting) = oneshot::channel();
        let job = Job { work, name, payer: Payer::current(), durability, panicked: None, answer };
        self.jobs.send(job).await.map_err(|_| StoreError::Unavailable("it is shutting down".to_owned()))?;
        // If the writer hangs up, it has died while it had the write.
        waiting.await.map_err(|_| StoreError::OutcomeUnknown("the writer thread has ended".to_owned()))
    }

    /// The number of waiting writes.
    pub(super) fn waiting(&self) -> usize {
        self.jobs.max_capacity() - self.jobs.capacity()
    }
}

/// Starts the writer thread. It ends and drops the engine when the last queue handle is dropped.
pub(super) fn spawn(
    engine: Arc<dyn Engine>,
    shared: Arc<Shared>,
    shares: Shares,
    settings: WriterSettings,
) -> Result<(Queue, std::thread::JoinHandle<()>), StoreError> {
    let (jobs, waiting) = mpsc::channel::<Job>(settings.queue_length);
    let timer = tokio::runtime::Builder::new_current_thread().enable_time().build().map_err(StoreError::engine)?;
    let mut inbox = Inbox { waiting, batch_size: settings.batch_size, timer };
    let thread = std::thread::Builder::new()
        .name("store-writer".to_owned())
        .spawn(move || {
            loop {
                let jobs = match inbox.next(engine.rests_in().filter(|_| shared.failure().is_none())) {
                    Next::Batch(jobs) => jobs,
                    Next::Nothing => Vec::new(),
                    Next::End => return,
                };
                shared.progress.begin();
                // If the engine itself panics, for example on a damaged page, no more is written.
                if let Err(cause) = catch_unwind(AssertUnwindSafe(|| run(engine.as_ref(), &shared, jobs))) {
                    shared.fail(&StoreError::Panicked(panic_text(cause.as_ref())));
                }
                shares.writer_worked(shared.progress.end());
            }
        })
        .map_err(StoreError::engine)?;
    Ok((Queue { jobs }, thread))
}

/// The source of the writer's work.
struct Inbox {
    waiting: mpsc::Receiver<Job>,
    batch_size: usize,
    timer: Runtime,
}

enum Next {
    Batch(Vec<Job>),
    /// No work arrived in the given time.
    Nothing,
    End,
}

impl Inbox {
    fn next(&mut self, within: Option<Duration>) -> Next {
        let mut batch = Vec::with_capacity(self.batch_size);
        let received = match within {
            // Changes that wait for the disk go first, however many other writes there are.
            Some(Duration::ZERO) => return Next::Nothing,
            None => self.waiting.blocking_recv_many(&mut batch, self.batch_size),
            Some(within) => {
                let receiving = async { tokio::time::timeout(within, self.waiting.recv_many(&mut batch, self.batch_size)).await };
                match self.timer.block_on(receiving) {
                    Ok(received) => received,
                    Err(_) => return Next::Nothing,
                }
            }
        };
        if received == 0 { Next::End } else { Next::Batch(batch) }
    }
}

/// Runs a batch, or lets the engine rest when there is none.
fn run(engine: &dyn Engine, shared: &Shared, jobs: Vec<Job>) {
    if !jobs.is_empty() {
        run_batch(engine, shared, jobs);
    } else if let Err(error) = engine.rest() {
        shared.fail(&error);
    }
}

fn run_batch(engine: &dyn Engine, shared: &Shared, mut jobs: Vec<Job>) {
    metrics::histogram!("tenantd_store_batch_size").record(u32::try_from(jobs.len()).unwrap_or(u32::MAX));
    if let Some(reason) = shared.failure() {
        return finish_all(jobs, &Err(StoreError::Unavailable(reason)));
    }
    let mut tx = match engine.begin_read() {
        Ok(snapshot) => WriteTx::new(snapshot, shared.quotas()),
        Err(error) => {
            shared.fail(&error);
            return finish_all(jobs, &Err(StoreError::Unavailable(error.to_string())));
        }
    };
    for job in &mut jobs {
        shared.progress.runs(job.name);
        tx.begin_member();
        if !job.run(&mut tx) {
            tx.changes().roll_back_member();
        }
    }
    let changes = tx.into_changes();
    let changed: Vec<usize> = changes.tables().map(|(table, _)| table.table.index()).collect();
    let is_needed_now = jobs.iter().any(|job| job.durability == Durability::Now) || changed.contains(&catalog::EVENT_HEAD.index());
    let durability = if is_needed_now { Durability::Now } else { Durability::Later };
    shared.progress.runs("commit");
    // A write that changes nothing may still depend on changes that are not on the disk yet.
    let committed = match (changes.is_empty(), durability) {
        (true, Durability::Now) => engine.settle(),
        (true, Durability::Later) => Ok(()),
        (false, durability) => engine.commit(changes, durability),
    };
    match committed {
        Ok(()) => {
            shared.committed(changed.into_iter());
            finish_all(jobs, &Ok(()));
        }
        Err(error) => {
            shared.fail(&error);
            finish_all(jobs, &Err(StoreError::OutcomeUnknown(error.to_string())));
        }
    }
}

fn finish_all(jobs: Vec<Job>, committed: &Result<(), StoreError>) {
    for job in jobs {
        job.finish(committed.clone());
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;
    use crate::{RedbEngine, Store, WriterSettings, changes::Changes, engine::EngineRead};

    const SETTINGS: WriterSettings = WriterSettings { batch_size: 4, queue_length: 4 };

    /// An engine that records the calls to it and, if configured, wants to rest after each batch.
    struct Watched {
        engine: RedbEngine,
        calls: Arc<Mutex<Vec<&'static str>>>,
        rested: mpsc::UnboundedSender<()>,
        rests_in: Option<Duration>,
        needs_rest: AtomicBool,
    }

    impl Engine for Watched {
        fn begin_read(&self) -> Result<Box<dyn EngineRead>, StoreError> {
            self.engine.begin_read()
        }

        fn commit(&self, changes: Changes, durability: Durability) -> Result<(), StoreError> {
            self.calls.lock().unwrap().push(if durability == Durability::Now { "now" } else { "later" });
            self.needs_rest.store(true, Ordering::SeqCst);
            self.engine.commit(changes, durability)
        }

        fn settle(&self) -> Result<(), StoreError> {
            self.calls.lock().unwrap().push("settle");
            self.engine.settle()
        }

        fn rest(&self) -> Result<(), StoreError> {
            self.calls.lock().unwrap().push("rest");
            self.needs_rest.store(false, Ordering::SeqCst);
            let _ = self.rested.send(());
            self.engine.settle()
        }

        fn rests_in(&self) -> Option<Duration> {
            self.rests_in.filter(|_| self.needs_rest.load(Ordering::SeqCst))
        }
    }

    struct Fixture {
        _directory: tempfile::TempDir,
        store: Store,
        calls: Arc<Mutex<Vec<&'static str>>>,
        rested: mpsc::UnboundedReceiver<()>,
    }

    fn fixture(rests_in: Option<Duration>) -> Fixture {
        let directory = tempfile::tempdir().unwrap();
        let engine = RedbEngine::create(&directory.path().join("store"), 1 << 20).unwrap();
        let calls = Arc::new(Mutex::default());
        let (sender, rested) = mpsc::unbounded_channel();
        let watched = Watched { engine, calls: Arc::clone(&calls), rested: sender, rests_in, needs_rest: AtomicBool::new(false) };
        Fixture { _directory: directory, store: Store::new(watched, SETTINGS).unwrap(), calls, rested }
    }

    impl Fixture {
        async fn derive(&self, table: catalog::TableName) {
            let put = move |tx: &mut WriteTx| {
                tx.raw_put(table.into(), vec![1], vec![2]);
                Ok::<_, StoreError>(())
            };
            self.store.write_derived(put).await.unwrap();
        }

        fn calls(&self) -> Vec<&'static str> {
            std::mem::take(&mut self.calls.lock().unwrap())
        }
    }

    #[tokio::test]
    async fn derived_writes_are_synced_later_unless_they_append_events() {
        let fixture = fixture(None);
        fixture.derive(catalog::EVENT_CURSORS).await;
        assert_eq!(fixture.calls(), ["later"]);
        fixture.derive(catalog::EVENT_HEAD).await;
        assert_eq!(fixture.calls(), ["now"]);
        // It changes nothing, but returns only after what it has read is on the disk.
        fixture.derive(catalog::EVENT_CURSORS).await;
        fixture.store.write(|_| Ok::<_, StoreError>(())).await.unwrap();
        assert_eq!(fixture.calls(), ["later", "settle"]);
    }

    #[tokio::test]
    async fn an_idle_writer_syncs_waiting_changes() {
        let mut fixture = fixture(Some(Duration::from_millis(1)));
        fixture.derive(catalog::EVENT_CURSORS).await;
        fixture.rested.recv().await.unwrap();
        assert_eq!(fixture.calls(), ["later", "rest"]);
    }

    #[tokio::test]
    async fn overdue_changes_are_synced_before_new_writes() {
        let fixture = fixture(Some(Duration::ZERO));
        for _ in 0..3 {
            fixture.derive(catalog::EVENT_CURSORS).await;
        }
        let calls = fixture.calls();
        assert_eq!(calls.iter().filter(|call| **call == "rest").count(), calls.len() / 2, "{calls:?}");
    }
}
