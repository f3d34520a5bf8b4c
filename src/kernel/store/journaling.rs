//! The writer's side of the journal: batches are appended and synced, and full halves are brought into redb's file.
//!
//! When a half is full, what it holds is written to redb with a durable commit on a thread of its own, while the writer goes on in the
//! other half. **Invariants:** a half is written over only after its changes are durable in the file, and the other half gets its first
//! frame only after every frame of this one is on the disk. So frames that a loss of power has left always follow each other, but for
//! the last ones, which no sync has covered.

use std::{
    sync::Arc,
    thread::JoinHandle,
    time::{Duration, Instant},
};

use tenantd_base::{
    clock::{Clock, Timestamp},
    telemetry::panic_text,
};

use super::{
    changes::Changes,
    engine::Durability,
    error::StoreError,
    events,
    journal::Journal,
    outgoing::{Outgoing, Pen},
    redb_engine::Core,
    redb_file::Mark,
    witness::Witness,
};

/// How long changes that may wait for the disk wait at the most.
const SETTLES_AFTER: Duration = Duration::from_millis(50);
/// How long the witness may lag behind on the disk. Its word is needed only if the journal is damaged in this time.
const TESTIFIES_AFTER: Duration = Duration::from_secs(1);

/// Who brings the changes of a full half into the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flushing {
    /// A thread, while the writer goes on.
    Beside,
    /// The writer itself, so that the same writes always give the same operations on the disk.
    InTurn,
}

pub(super) struct Journaling {
    journal: Journal,
    witness: Witness,
    mark: Mark,
    /// The place of the newest event in the log.
    log_end: u64,
    clock: Clock,
    outgoing: Option<Outgoing>,
    mode: Flushing,
    flush: Option<JoinHandle<Result<(), StoreError>>>,
    /// Since when changes and the witness wait for the disk.
    waits_since: Option<Instant>,
    lags_since: Option<Instant>,
    /// After a failure nothing is known of the file, so it is not marked as closed.
    failed: bool,
}

#[allow(clippy::disallowed_methods, reason = "how long something waits for the disk is measured in monotonic time")]
fn now() -> Instant {
    Instant::now()
}

impl Journaling {
    pub(super) fn new(
        (journal, witness): (Journal, Witness),
        mark: Mark,
        log_end: u64,
        outgoing: Option<Outgoing>,
        (clock, mode): (Clock, Flushing),
    ) -> Self {
        let (flush, waits_since, lags_since) = (None, None, None);
        Self { journal, witness, mark, log_end, clock, outgoing, mode, flush, waits_since, lags_since, failed: false }
    }

    pub(super) fn commit(&mut self, core: &Arc<Core>, changes: Changes, durability: Durability) -> Result<(), StoreError> {
        self.guarded(|journaling| {
            journaling.check_flush()?;
            journaling.append(core, changes, durability)
        })
    }

    fn append(&mut self, core: &Arc<Core>, changes: Changes, durability: Durability) -> Result<(), StoreError> {
        let bytes = changes.encode();
        let mark = Mark { number: self.mark.number + 1, ..self.mark };
        let (log_end, at) = (events::log_end_in(&changes).unwrap_or(self.log_end), self.clock.now());
        if !self.journal.fits(bytes.len()) {
            self.await_flush()?;
            if !self.journal.ever_fits(bytes.len()) {
                self.send_out(mark, at, &bytes);
                let announced = self.outgoing.as_mut().and_then(Outgoing::announce);
                core.flush_with(changes, Some(mark))?;
                if let Some(segment) = announced {
                    segment.confirm();
                }
                (self.mark, self.log_end) = (mark, log_end);
                self.journal.pass_over(mark.number);
                self.journal.turn_over();
                return self.testify();
            }
            self.begin_flush(core)?;
        }
        self.journal.append(mark.number, at, &bytes).map_err(StoreError::engine)?;
        self.send_out(mark, at, &bytes);
        (self.mark, self.log_end) = (mark, log_end);
        if durability == Durability::Now {
            self.sync()?;
        } else {
            self.waits_since.get_or_insert_with(now);
        }
        core.publish(changes, mark.position());
        Ok(())
    }

    fn send_out(&mut self, mark: Mark, at: Timestamp, changes: &[u8]) {
        if let Some(outgoing) = &mut self.outgoing {
            outgoing.add(mark.position().number, at, changes);
        }
    }

    /// Ends the segment of the commits since the last time, for the caller to write.
    fn end_segment(&mut self) -> Option<Pen> {
        let outgoing = self.outgoing.as_mut()?;
        outgoing.cut();
        Some(outgoing.pen())
    }

    /// The same, with all of these commits on the disk.
    pub(super) fn cut(&mut self) -> Result<Option<Pen>, StoreError> {
        self.settle()?;
        Ok(self.end_segment())
    }

    /// Brings every frame onto the disk, and says so to the witness.
    fn sync(&mut self) -> Result<(), StoreError> {
        self.journal.sync().map_err(StoreError::engine)?;
        self.waits_since = None;
        self.testify()
    }

    fn testify(&mut self) -> Result<(), StoreError> {
        self.witness.say(self.journal.synced(), self.log_end).map_err(StoreError::engine)?;
        if !self.witness.is_synced() {
            self.lags_since.get_or_insert_with(now);
        }
        Ok(())
    }

    /// Returns once everything is on the disk that was committed so far.
    pub(super) fn settle(&mut self) -> Result<(), StoreError> {
        self.guarded(Self::sync)
    }

    /// The same, and the witness is on the disk as well.
    pub(super) fn rest(&mut self) -> Result<(), StoreError> {
        self.guarded(|journaling| {
            journaling.sync()?;
            journaling.witness.sync().map_err(StoreError::engine)?;
            journaling.lags_since = None;
            Ok(())
        })
    }

    /// When [`Journaling::rest`] is due.
    pub(super) fn rests_in(&self) -> Option<Duration> {
        if self.mode == Flushing::InTurn || self.failed {
            return None;
        }
        let left = |since: Option<Instant>, after: Duration| Some(after.saturating_sub(since?.elapsed()));
        let (waits, lags) = (left(self.waits_since, SETTLES_AFTER), left(self.lags_since, TESTIFIES_AFTER));
        waits.into_iter().chain(lags).min()
    }

    /// Remembers a failure. Until the end is reached, a panic in redb counts as one too.
    fn guarded(&mut self, work: impl FnOnce(&mut Self) -> Result<(), StoreError>) -> Result<(), StoreError> {
        self.failed = true;
        work(self)?;
        self.failed = false;
        Ok(())
    }

    /// Goes on in the other half, which must be free, and has the changes of this one brought into the file.
    fn begin_flush(&mut self, core: &Arc<Core>) -> Result<(), StoreError> {
        self.sync()?;
        let (recent, mark, pen) = (core.set_apart(), self.mark, self.end_segment());
        self.journal.turn_over();
        let core = core.clone();
        let flush = move || {
            if let Some(pen) = pen {
                pen.write();
            }
            core.flush(&recent, mark)
        };
        match self.mode {
            Flushing::InTurn => flush(),
            Flushing::Beside => {
                let thread = std::thread::Builder::new().name("store-flush".to_owned());
                let flush = thread.spawn(flush).map_err(StoreError::engine)?;
                self.flush = Some(flush);
                Ok(())
            }
        }
    }

    /// Waits until the flush under way, if there is one, has ended, and tells how.
    fn await_flush(&mut self) -> Result<(), StoreError> {
        match self.flush.take().map(JoinHandle::join) {
            None => Ok(()),
            Some(Ok(flushed)) => flushed,
            Some(Err(cause)) => Err(StoreError::Panicked(panic_text(cause.as_ref()))),
        }
    }

    /// The next write fails when a flush has failed, not only the write that waits for the flush.
    fn check_flush(&mut self) -> Result<(), StoreError> {
        if self.flush.as_ref().is_some_and(JoinHandle::is_finished) { self.await_flush() } else { Ok(()) }
    }

    /// Brings everything into the file and marks it as closed in order.
    pub(super) fn close(mut self, core: &Core) -> Result<(), StoreError> {
        let flushed = self.await_flush();
        if self.failed {
            return Ok(());
        }
        flushed?;
        if let Some(pen) = self.end_segment() {
            pen.write();
        }
        core.flush_with(Changes::default(), Some(Mark { closed: true, ..self.mark }))
    }
}
