//! What the writer is doing and since when, for readiness, metrics and an orderly stop. Asking never waits for the writer.
//!
//! The writer is one thread: a closure or a commit that does not come back holds up every other write. Reads go on, so nothing else
//! shows it.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

/// How long a batch may take before the writer counts as stalled, until [`Progress::set_patience`] says otherwise.
const PATIENCE: Duration = Duration::from_secs(10);

/// A batch that is under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Busy {
    /// Since the batch began.
    pub elapsed: Duration,
    /// The code that runs now, by its name in the source: for the log, never for a client.
    pub work: &'static str,
}

/// Written by the writer, read by everybody else.
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

    /// From here until [`Progress::end`] the writer is busy.
    #[allow(clippy::disallowed_methods, reason = "how long the writer is busy is measured in monotonic time")]
    pub(super) fn begin(&self) {
        *self.lock() = Some((Instant::now(), "begin"));
    }

    pub(super) fn runs(&self, work: &'static str) {
        if let Some((_, current)) = self.lock().as_mut() {
            *current = work;
        }
    }

    /// How long it was busy.
    pub(super) fn end(&self) -> Duration {
        self.lock().take().map_or(Duration::ZERO, |(since, _)| since.elapsed())
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<(Instant, &'static str)>> {
        self.batch.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Watches the writer. It does not keep the store open, so it may outlive it.
#[derive(Clone, Debug)]
pub struct WriterWatch(pub(super) Arc<Progress>);

impl WriterWatch {
    pub fn busy(&self) -> Option<Busy> {
        (*self.0.lock()).map(|(since, work)| Busy { elapsed: since.elapsed(), work })
    }

    /// A batch that takes longer than a healthy one ever does: nobody can write until it comes back.
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
    async fn a_write_that_does_not_come_back_is_noticed_by_name() {
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
        assert!(stalled.work.contains("a_write_that_does_not_come_back_is_noticed_by_name"), "{stalled:?}");
        assert!(matches!(store.ensure_writer(), Err(StoreError::Stalled { .. })));
        store.read(|_| Ok::<_, StoreError>(())).unwrap();
        release.send(()).unwrap();
        holding.await.unwrap().unwrap();
        waiting.await.unwrap().unwrap();
        store.set_writer_patience(PATIENCE);
        store.ensure_writer().unwrap();
    }
}
