//! The writer's current activity and its duration, for readiness, metrics and an orderly shutdown. Reading it never waits for the
//! writer.
//!
//! The writer is one thread. A closure or a commit that hangs blocks every other write. Reads continue, so nothing else shows the
//! problem.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

/// How long a batch may take before the writer counts as stalled, until [`Progress::set_patience`] says otherwise.
const PATIENCE: Duration = Duration::from_secs(10);

/// A batch in progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Busy {
    /// The time since the batch began.
    pub elapsed: Duration,
    /// The code that is running, by its name in the source. For the log, never for a client.
    pub work: &'static str,
}

/// The writer updates it; any thread may read it.
#[derive(Debug)]
pub(super) struct Progress {
    batch: Mutex<Option<(Instant, &'static str)>>,
    patience_millis: AtomicU64,
}

impl Default for Progress {
    fn default() -> Self {
        let progress = Self { batch: Mutex::default(), patience_millis: AtomicU64::new(0) };
        progress.set_patience(PATIENCE);
        progress
    }
}

impl Progress {
    pub(super) fn set_patience(&self, patience: Duration) {
        self.patience_millis.store(u64::try_from(patience.as_millis()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// Marks the writer as busy until [`Progress::end`].
    #[allow(clippy::disallowed_methods, reason = "how long the writer is busy is measured in monotonic time")]
    pub(super) fn begin(&self) {
        *self.lock() = Some((Instant::now(), "begin"));
    }

    pub(super) fn runs(&self, work: &'static str) {
        if let Some((_, current)) = self.lock().as_mut() {
            *current = work;
        }
    }

    /// Marks the writer as idle. Returns how long it was busy.
    pub(super) fn end(&self) -> Duration {
        self.lock().take().map_or(Duration::ZERO, |(since, _)| since.elapsed())
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<(Instant, &'static str)>> {
        self.batch.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A handle to watch the writer. It does not keep the store open and may outlive it.
#[derive(Clone, Debug)]
pub struct WriterWatch(pub(super) Arc<Progress>);

impl WriterWatch {
    pub fn busy(&self) -> Option<Busy> {
        (*self.0.lock()).map(|(since, work)| Busy { elapsed: since.elapsed(), work })
    }

    /// A batch that takes longer than any healthy one. No write finishes until it does.
    pub fn stalled(&self) -> Option<Busy> {
        let patience = Duration::from_millis(self.0.patience_millis.load(Ordering::Relaxed));
        self.busy().filter(|busy| busy.elapsed >= patience)
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot;

    use super::*;
    use crate::{RedbEngine, Store, StoreError, WriterSettings};

    #[tokio::test]
    async fn a_hanging_write_is_reported_by_name() {
        let directory = tempfile::tempdir().unwrap();
        let engine = RedbEngine::create(&directory.path().join("store"), 1 << 20).unwrap();
        let store = Store::new(engine, WriterSettings { batch_size: 1, queue_length: 8 }).unwrap();
        assert_eq!(store.writer().busy(), None);
        let ((began, has_begun), (release, held)) = (oneshot::channel(), std::sync::mpsc::channel::<()>());
        let (mut began, writing) = (Some(began), store.clone());
        let holding = tokio::spawn(async move {
            let hold = move |_: &mut super::super::WriteTx| {
                let _ = began.take().map(|began| began.send(()));
                held.recv().map_err(StoreError::engine)
            };
            writing.write(hold).await
        });
        has_begun.await.unwrap();
        let writing = store.clone();
        let waiting = tokio::spawn(async move { writing.write(|_| Ok::<_, StoreError>(())).await });
        while store.waiting_writes() == 0 {
            tokio::task::yield_now().await;
        }
        assert_eq!(store.writer().stalled(), None, "a write may take a moment");
        store.set_writer_patience(Duration::ZERO);
        let stalled = store.writer().stalled().unwrap();
        assert!(stalled.work.contains("a_hanging_write_is_reported_by_name"), "{stalled:?}");
        assert!(matches!(store.ensure_writer(), Err(StoreError::Stalled { .. })));
        store.read(|_| Ok::<_, StoreError>(())).unwrap();
        release.send(()).unwrap();
        holding.await.unwrap().unwrap();
        waiting.await.unwrap().unwrap();
        store.set_writer_patience(PATIENCE);
        store.ensure_writer().unwrap();
    }
}
