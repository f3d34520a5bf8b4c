//! The single writer. Writes that wait at the same time share one durable commit, and each caller is answered after it.
//!
//! The members of a batch run one after the other on one set of changes; one that fails takes its own changes back and the others
//! stand. **Invariant:** nobody is told of success before the commit has returned; after a commit that failed nobody is told that
//! nothing was stored.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use tokio::sync::{mpsc, oneshot};

use super::{engine::Engine, error::StoreError, shared::Shared, transaction::WriteTx};
use crate::kernel::telemetry::panic_text;

/// One write that waits for its turn.
pub(super) trait Job: Send {
    /// Runs the caller's code, once more if need be, and keeps its result.
    fn run(&mut self, tx: &mut WriteTx) -> Ran;

    /// Answers the caller: with the kept result, or with the failure of the commit.
    fn finish(self: Box<Self>, committed: Result<(), StoreError>);
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Ran {
    Accepted,
    Refused,
}

struct CallerJob<F, T, E> {
    work: F,
    result: Option<Result<T, E>>,
    answer: oneshot::Sender<Result<T, E>>,
}

impl<F, T, E> Job for CallerJob<F, T, E>
where
    F: FnMut(&mut WriteTx) -> Result<T, E> + Send,
    T: Send,
    E: From<StoreError> + Send,
{
    fn run(&mut self, tx: &mut WriteTx) -> Ran {
        let result = catch_unwind(AssertUnwindSafe(|| (self.work)(tx)))
            .unwrap_or_else(|cause| Err(E::from(StoreError::Panicked(panic_text(cause.as_ref())))));
        let ran = if result.is_ok() { Ran::Accepted } else { Ran::Refused };
        self.result = Some(result);
        ran
    }

    fn finish(self: Box<Self>, committed: Result<(), StoreError>) {
        let Self { work, result, answer: waiting } = *self;
        // What the work holds is let go before its caller hears of the end, and may come again.
        drop(work);
        let answer = match (result, committed) {
            (Some(Err(refusal)), Ok(())) => Err(refusal),
            // A refusal wrote nothing, but it may rest on a write of the same batch that is now in doubt.
            (Some(Err(_)), Err(failure)) => Err(E::from(StoreError::Unavailable(failure.to_string()))),
            (_, Err(failure)) => Err(E::from(failure)),
            (Some(Ok(value)), Ok(())) => Ok(value),
            (None, Ok(())) => Err(E::from(StoreError::Unavailable("the write did not run".to_owned()))),
        };
        // The caller may have gone away; its write stands all the same.
        drop(waiting.send(answer));
    }
}

/// Where writes are handed in.
#[derive(Clone)]
pub(super) struct Queue {
    jobs: mpsc::Sender<Box<dyn Job>>,
}

impl Queue {
    pub(super) async fn submit<T, E, F>(&self, work: F) -> Result<T, E>
    where
        F: FnMut(&mut WriteTx) -> Result<T, E> + Send + 'static,
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
    {
        let (answer, waiting) = oneshot::channel();
        let job = Box::new(CallerJob { work, result: None, answer });
        let closed = || E::from(StoreError::Unavailable("it is being closed".to_owned()));
        self.jobs.send(job).await.map_err(|_| closed())?;
        // A writer that hangs up has died with the write in its hands.
        waiting.await.map_err(|_| E::from(StoreError::OutcomeUnknown("the writer has ended".to_owned())))?
    }
}

/// Starts the writer thread. It ends, and lets go of the engine, when the last queue handle is dropped.
pub(super) fn spawn(
    engine: Arc<dyn Engine>,
    shared: Arc<Shared>,
    batch_size: usize,
    queue_length: usize,
) -> Result<(Queue, std::thread::JoinHandle<()>), StoreError> {
    let (jobs, mut waiting) = mpsc::channel::<Box<dyn Job>>(queue_length);
    let thread = std::thread::Builder::new()
        .name("store-writer".to_owned())
        .spawn(move || {
            let mut batch = Vec::with_capacity(batch_size);
            while waiting.blocking_recv_many(&mut batch, batch_size) > 0 {
                let jobs = std::mem::take(&mut batch);
                // The engine itself may panic, on a damaged page for instance: then nothing more is written.
                if let Err(cause) = catch_unwind(AssertUnwindSafe(|| run_batch(engine.as_ref(), &shared, jobs))) {
                    shared.fail(&StoreError::Panicked(panic_text(cause.as_ref())));
                }
            }
        })
        .map_err(StoreError::engine)?;
    Ok((Queue { jobs }, thread))
}

fn run_batch(engine: &dyn Engine, shared: &Shared, mut jobs: Vec<Box<dyn Job>>) {
    metrics::histogram!("tenantd_store_batch_size").record(u32::try_from(jobs.len()).unwrap_or(u32::MAX));
    if let Some(reason) = shared.failure() {
        return finish_all(jobs, &Err(StoreError::Unavailable(reason)));
    }
    let mut tx = match engine.begin_read() {
        Ok(snapshot) => WriteTx::new(snapshot),
        Err(error) => {
            shared.fail(&error);
            return finish_all(jobs, &Err(StoreError::Unavailable(error.to_string())));
        }
    };
    for job in &mut jobs {
        tx.changes().begin_member();
        if job.run(&mut tx) == Ran::Refused {
            tx.changes().roll_back_member();
        }
    }
    let changes = tx.into_changes();
    if changes.is_empty() {
        return finish_all(jobs, &Ok(()));
    }
    let changed: Vec<usize> = changes.tables().map(|(table, _)| table.table.index()).collect();
    match engine.commit(changes) {
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

fn finish_all(jobs: Vec<Box<dyn Job>>, committed: &Result<(), StoreError>) {
    for job in jobs {
        job.finish(committed.clone());
    }
}
