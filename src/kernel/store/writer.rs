//! The single writer. Writes that wait at the same time share one durable commit, and each caller is answered after it.
//!
//! The members of a batch run one after the other on one set of changes; one that fails takes its own changes back and the others
//! stand. **Invariant:** nobody is told of success before the commit has returned; after a commit that failed nobody is told that
//! nothing was stored.
//!
//! A batch of derived writes alone is not synced: the next one that is takes it along, or the writer does when nothing else comes. What
//! appends to the log is never left so, since others act on it.

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

/// The caller's code. It keeps its result itself, and returns whether it succeeded. May run more than once.
type Work = Box<dyn FnMut(&mut WriteTx) -> bool + Send>;

/// A write in the queue. It has no type of its caller's, so the compiler makes one writer and not one for each call.
struct Job {
    work: Work,
    /// The caller's code, by its name in the source.
    name: &'static str,
    payer: Option<Payer>,
    durability: Durability,
    panicked: Option<String>,
    answer: oneshot::Sender<End>,
}

/// What became of a write, beside the result that the caller's code has kept.
struct End {
    panicked: Option<String>,
    committed: Result<(), StoreError>,
}

impl Job {
    /// Runs the caller's code. Whether it succeeded.
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
        // What the work holds is dropped before its caller continues, and may write again.
        drop(work);
        // The caller may have gone away; its write stands all the same.
        drop(answer.send(End { panicked, committed }));
    }
}

/// Where writes are handed in.
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
        let End { panicked, committed } = self.hand_in(Box::new(work), std::any::type_name::<F>(), durability).await?;
        let result = match panicked {
            Some(text) => Some(Err(E::from(StoreError::Panicked(text)))),
            None => lock(&kept).take(),
        };
        match (result, committed) {
            (Some(result), Ok(())) => result,
            // A refusal wrote nothing, but it may rest on a write of the same batch that is now in doubt.
            (Some(Err(_)), Err(failure)) => Err(E::from(StoreError::Unavailable(failure.to_string()))),
            (_, Err(failure)) => Err(E::from(failure)),
            (None, Ok(())) => Err(E::from(StoreError::Unavailable("the write did not run".to_owned()))),
        }
    }

    async fn hand_in(&self, work: Work, name: &'static str, durability: Durability) -> Result<End, StoreError> {
        let (answer, waiting) = oneshot::channel();
        let job = Job { work, name, payer: Payer::current(), durability, panicked: None, answer };
        self.jobs.send(job).await.map_err(|_| StoreError::Unavailable("it is being closed".to_owned()))?;
        // A writer that hangs up has died with the write in its hands.
        waiting.await.map_err(|_| StoreError::OutcomeUnknown("the writer has ended".to_owned()))
    }

    /// How many writes wait for their turn.
    pub(super) fn waiting(&self) -> usize {
        self.jobs.max_capacity() - self.jobs.capacity()
    }
}

/// Starts the writer thread. It ends, and lets go of the engine, when the last queue handle is dropped.
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
                // The engine itself may panic, on a damaged page for instance: then nothing more is written.
                if let Err(cause) = catch_unwind(AssertUnwindSafe(|| run(engine.as_ref(), &shared, jobs))) {
                    shared.fail(&StoreError::Panicked(panic_text(cause.as_ref())));
                }
                shares.writer_worked(shared.progress.end());
            }
        })
        .map_err(StoreError::engine)?;
    Ok((Queue { jobs }, thread))
}

/// Where the writer gets its work from.
struct Inbox {
    waiting: mpsc::Receiver<Job>,
    batch_size: usize,
    timer: Runtime,
}

enum Next {
    Batch(Vec<Job>),
    /// In the time that was given.
    Nothing,
    End,
}

impl Inbox {
    fn next(&mut self, within: Option<Duration>) -> Next {
        let mut batch = Vec::with_capacity(self.batch_size);
        let received = match within {
            // What waits for the disk has its turn, however much else there is to write.
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
    // Whoever changes nothing may still rest on what is not on the disk yet.
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

    /// An engine that notes what is asked of its disk, and wants to rest after each batch if it ever does.
    struct Watched {
        engine: RedbEngine,
        asked: Arc<Mutex<Vec<&'static str>>>,
        rested: mpsc::UnboundedSender<()>,
        rests_in: Option<Duration>,
        is_tired: AtomicBool,
    }

    impl Engine for Watched {
        fn begin_read(&self) -> Result<Box<dyn EngineRead>, StoreError> {
            self.engine.begin_read()
        }

        fn commit(&self, changes: Changes, durability: Durability) -> Result<(), StoreError> {
            self.asked.lock().unwrap().push(if durability == Durability::Now { "now" } else { "later" });
            self.is_tired.store(true, Ordering::SeqCst);
            self.engine.commit(changes, durability)
        }

        fn settle(&self) -> Result<(), StoreError> {
            self.asked.lock().unwrap().push("settle");
            self.engine.settle()
        }

        fn rest(&self) -> Result<(), StoreError> {
            self.asked.lock().unwrap().push("rest");
            self.is_tired.store(false, Ordering::SeqCst);
            let _ = self.rested.send(());
            self.engine.settle()
        }

        fn rests_in(&self) -> Option<Duration> {
            self.rests_in.filter(|_| self.is_tired.load(Ordering::SeqCst))
        }
    }

    struct Fixture {
        _directory: tempfile::TempDir,
        store: Store,
        asked: Arc<Mutex<Vec<&'static str>>>,
        rested: mpsc::UnboundedReceiver<()>,
    }

    fn fixture(rests_in: Option<Duration>) -> Fixture {
        let directory = tempfile::tempdir().unwrap();
        let engine = RedbEngine::create(&directory.path().join("store"), 1 << 20).unwrap();
        let asked = Arc::new(Mutex::default());
        let (told, rested) = mpsc::unbounded_channel();
        let watched = Watched { engine, asked: Arc::clone(&asked), rested: told, rests_in, is_tired: AtomicBool::new(false) };
        Fixture { _directory: directory, store: Store::new(watched, SETTINGS).unwrap(), asked, rested }
    }

    impl Fixture {
        async fn derive(&self, table: catalog::TableName) {
            let put = move |tx: &mut WriteTx| {
                tx.raw_put(table.into(), vec![1], vec![2]);
                Ok::<_, StoreError>(())
            };
            self.store.write_derived(put).await.unwrap();
        }

        fn asked(&self) -> Vec<&'static str> {
            std::mem::take(&mut self.asked.lock().unwrap())
        }
    }

    #[tokio::test]
    async fn what_is_derived_waits_for_the_disk_unless_others_act_on_it() {
        let fixture = fixture(None);
        fixture.derive(catalog::EVENT_CURSORS).await;
        assert_eq!(fixture.asked(), ["later"]);
        fixture.derive(catalog::EVENT_HEAD).await;
        assert_eq!(fixture.asked(), ["now"]);
        // It has found what it wanted, and is told of success only when that cannot be lost any more.
        fixture.derive(catalog::EVENT_CURSORS).await;
        fixture.store.write(|_| Ok::<_, StoreError>(())).await.unwrap();
        assert_eq!(fixture.asked(), ["later", "settle"]);
    }

    #[tokio::test]
    async fn what_waits_is_brought_to_the_disk_when_nothing_else_comes() {
        let mut fixture = fixture(Some(Duration::from_millis(1)));
        fixture.derive(catalog::EVENT_CURSORS).await;
        fixture.rested.recv().await.unwrap();
        assert_eq!(fixture.asked(), ["later", "rest"]);
    }

    #[tokio::test]
    async fn what_has_waited_long_enough_comes_before_more_of_it() {
        let fixture = fixture(Some(Duration::ZERO));
        for _ in 0..3 {
            fixture.derive(catalog::EVENT_CURSORS).await;
        }
        let asked = fixture.asked();
        assert_eq!(asked.iter().filter(|asked| **asked == "rest").count(), asked.len() / 2, "{asked:?}");
    }
}
