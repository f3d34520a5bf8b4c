//! The writer's side of the journal: appends and syncs batches, and flushes full halves into redb's file.
//!
//! When a half is full, a separate thread writes its changes to redb with a durable commit while the writer continues in the
//! other half. **Invariants:** a half is overwritten only after its changes are durable in the file. The other half gets its
//! first frame only after every frame of this half is on the disk. So the frames that a loss of power leaves are consecutive,
//! except for the last ones, which no sync covered.

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
    outgoing::{Outgoing, SegmentWriter},
    redb_engine::Core,
    redb_file::Mark,
    witness::Witness,
};

/// The longest time that changes without immediate durability wait for the disk.
const SETTLE_AFTER: Duration = Duration::from_millis(50);
/// How long the witness on the disk may lag. It matters only if the journal is damaged in this time.
const WITNESS_SYNC_AFTER: Duration = Duration::from_secs(1);

/// How the changes of a full half reach the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flushing {
    /// On a separate thread, while the writer continues.
    Background,
    /// On the writer thread, so that the same writes always cause the same disk operations.
    Inline,
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
    /// Since when changes and the witness have been waiting for the disk.
    waits_since: Option<Instant>,
    lags_since: Option<Instant>,
    /// After a failure the state of the file is unknown, so it is not marked as closed.
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
                self.journal.skip_number(mark.number);
                self.journal.switch_half();
                return self.update_witness();
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

    /// Ends the segment of the commits since the last segment. The caller writes it.
    fn end_segment(&mut self) -> Option<SegmentWriter> {
        let outgoing = self.outgoing.as_mut()?;
        outgoing.cut();
        Some(outgoing.writer())
    }

    /// Does the same after syncing all of these commits.
    pub(super) fn cut(&mut self) -> Result<Option<SegmentWriter>, StoreError> {
        self.settle()?;
        Ok(self.end_segment())
    }

    /// Syncs every frame to the disk and updates the witness.
    fn sync(&mut self) -> Result<(), StoreError> {
        self.journal.sync().map_err(StoreError::engine)?;
        self.waits_since = None;
        self.update_witness()
    }

    fn update_witness(&mut self) -> Result<(), StoreError> {
        self.witness.update(self.journal.synced(), self.log_end).map_err(StoreError::engine)?;
        if !self.witness.is_synced() {
            self.lags_since.get_or_insert_with(now);
        }
        Ok(())
    }

    /// Returns once everything committed so far is on the disk.
    pub(super) fn settle(&mut self) -> Result<(), StoreError> {
        self.guarded(Self::sync)
    }

    /// Does the same and syncs the witness too.
    pub(super) fn rest(&mut self) -> Result<(), StoreError> {
        self.guarded(|journaling| {
            journaling.sync()?;
            journaling.witness.sync().map_err(StoreError::engine)?;
            journaling.lags_since = None;
            Ok(())
        })
    }

    /// How long until [`Journaling::rest`] is due.
    pub(super) fn rests_in(&self) -> Option<Duration> {
        if self.mode == Flushing::Inline || self.failed {
            return None;
        }
        let left = |since: Option<Instant>, after: Duration| Some(after.saturating_sub(since?.elapsed()));
        let (waits, lags) = (left(self.waits_since, SETTLE_AFTER), left(self.lags_since, WITNESS_SYNC_AFTER));
        waits.into_iter().chain(lags).min()
    }

    /// Runs `work` and remembers a failure. A panic in redb counts as one, because the flag is cleared only at the end.
    fn guarded(&mut self, work: impl FnOnce(&mut Self) -> Result<(), StoreError>) -> Result<(), StoreError> {
        self.failed = true;
        work(self)?;
        self.failed = false;
        Ok(())
    }

    /// Switches to the other half, which must be free, and starts to flush the changes of this one into the file.
    fn begin_flush(&mut self, core: &Arc<Core>) -> Result<(), StoreError> {
        self.sync()?;
        let (recent, mark, writer) = (core.freeze_recent(), self.mark, self.end_segment());
        self.journal.switch_half();
        let core = core.clone();
        let flush = move || {
            if let Some(writer) = writer {
                writer.write();
            }
            core.flush(&recent, mark)
        };
        match self.mode {
            Flushing::Inline => flush(),
            Flushing::Background => {
                let thread = std::thread::Builder::new().name("store-flush".to_owned());
                let flush = thread.spawn(flush).map_err(StoreError::engine)?;
                self.flush = Some(flush);
                Ok(())
            }
        }
    }

    /// Waits for the flush in progress, if there is one, and returns its result.
    fn await_flush(&mut self) -> Result<(), StoreError> {
        match self.flush.take().map(JoinHandle::join) {
            None => Ok(()),
            Some(Ok(flushed)) => flushed,
            Some(Err(cause)) => Err(StoreError::Panicked(panic_text(cause.as_ref()))),
        }
    }

    /// Reports a failed flush on the next write, not only on the write that waits for the flush.
    fn check_flush(&mut self) -> Result<(), StoreError> {
        if self.flush.as_ref().is_some_and(JoinHandle::is_finished) { self.await_flush() } else { Ok(()) }
    }

    /// Flushes everything into the file and marks it as closed cleanly.
    pub(super) fn close(mut self, core: &Core) -> Result<(), StoreError> {
        let flushed = self.await_flush();
        if self.failed {
            return Ok(());
        }
        flushed?;
        if let Some(writer) = self.end_segment() {
            writer.write();
        }
        core.flush_with(Changes::default(), Some(Mark { closed: true, ..self.mark }))
    }
}
