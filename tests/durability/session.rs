//! One life of the process between two crashes: opens the store on a disk, proves its content, and writes until the end.
//!
//! The writer combines concurrent writes in one commit, which depends on timing. Here each wave of writes is queued while the
//! writer is blocked, so **the same seed gives the same operations** on the disk, unless another thread flushes full halves of the
//! journal.

use std::{
    collections::{BTreeMap, BTreeSet},
    pin::{Pin, pin},
    sync::mpsc,
    task::Poll,
};

use tenantd_base::clock::{Clock, Timestamp};
use tenantd_store::{Flushing, JournalId, Opening, RedbEngine, Store, StoreError, WriterSettings};

use crate::{
    disk::{Disk, JOURNAL, WITNESS},
    ledger::{self, ACCOUNTS, Books, COUNTER, Write, WriteError, set_up},
};

/// The error of the unique index for names that the workload did not check.
const NAME_IS_TAKEN: &str = "two records have the same unique key";

/// The responses to the callers of the store, over all crashes of a run.
#[derive(Clone, Debug, Default)]
pub struct History {
    /// By ordinal. Includes writes of unknown outcome that were found later: they must not vanish again.
    acknowledged: BTreeMap<u64, u64>,
    /// Derived writes that were acknowledged, by ordinal: a power loss may revert the last of them.
    derived: BTreeMap<u64, u64>,
    /// At most one batch, because the store accepts no writes after a failed commit.
    unknown: BTreeSet<u64>,
    settled: (u64, u64),
    taken_back: u64,
    may_lose_derived: bool,
}

impl History {
    pub fn acknowledged(&self) -> usize {
        self.acknowledged.len()
    }

    /// The number of batches of unknown outcome that were stored, and that were not.
    pub fn settled(&self) -> (u64, u64) {
        self.settled
    }

    /// The number of derived writes that a power loss reverted.
    pub fn taken_back(&self) -> u64 {
        self.taken_back
    }

    /// On a healthy disk the store only returns refusals of the workload.
    fn note(&mut self, write: &Write, answer: Result<u64, WriteError>, healthy: bool) -> Result<(), String> {
        let id = write.id;
        match answer {
            Ok(ordinal) => {
                if let Some(other) = self.acknowledged.get(&ordinal).or(self.derived.get(&ordinal)) {
                    return Err(format!("writes {other} and {id} both got ordinal {ordinal}"));
                }
                if write.is_derived {
                    self.derived.insert(ordinal, id);
                } else {
                    self.acknowledged.insert(ordinal, id);
                    // It made all earlier writes durable.
                    let later = self.derived.split_off(&ordinal);
                    self.acknowledged.append(&mut std::mem::replace(&mut self.derived, later));
                }
            }
            Err(WriteError::Store(StoreError::OutcomeUnknown(_))) if !healthy => {
                self.unknown.insert(id);
            }
            // In all of these cases the store claims that nothing of the write is stored. The proof checks this: a write that is
            // neither acknowledged nor unknown must not be found.
            Err(WriteError::Refused) => {}
            Err(WriteError::Store(StoreError::Damaged { reason, .. })) if reason == NAME_IS_TAKEN => {}
            Err(WriteError::Store(StoreError::Unavailable(_) | StoreError::Engine(_))) if !healthy => {}
            Err(WriteError::Store(error)) => return Err(format!("write {id} was answered with: {error}")),
        }
        Ok(())
    }

    /// Unsynced data may be lost. The end of a process alone does not cause this.
    pub fn may_lose_derived(&mut self) {
        self.may_lose_derived = true;
    }

    /// Compares with the content of the store, and settles unknown writes.
    fn compare(&mut self, books: &Books) -> Result<(), String> {
        for (ordinal, write) in &self.acknowledged {
            match books.journal.get(ordinal) {
                Some(entry) if entry.write == *write => {}
                found => return Err(format!("acknowledged write {write} is lost: ordinal {ordinal} holds {found:?}")),
            }
        }
        // All acknowledged ordinals exist and are distinct, so the rest came after them: first derived writes, of which the last
        // may be missing, then the whole unknown batch.
        let rest = books.journal.iter().filter(|(ordinal, _)| !self.acknowledged.contains_key(ordinal));
        let rest: BTreeMap<u64, u64> = rest.map(|(ordinal, entry)| (*ordinal, entry.write)).collect();
        let last = self.acknowledged.keys().last().copied().unwrap_or_default();
        let mut unknown = 0;
        for (place, (ordinal, write)) in rest.iter().enumerate() {
            let is_derived = self.derived.iter().nth(place) == Some((ordinal, write));
            let is_unknown = place >= self.derived.len() && self.unknown.contains(write);
            if *ordinal < last || !(is_derived || is_unknown) {
                return Err(format!("write {write} at ordinal {ordinal} should not be there: {:?} may be", self.derived));
            }
            unknown += usize::from(is_unknown);
        }
        if unknown > 0 && unknown != self.unknown.len() {
            return Err(format!("of the batch {:?} only {rest:?} is there", self.unknown));
        }
        self.settled.0 += u64::from(unknown > 0);
        self.settled.1 += u64::from(unknown == 0 && !self.unknown.is_empty());
        let taken_back = self.derived.len().saturating_sub(rest.len()) as u64;
        if taken_back > 0 && !self.may_lose_derived {
            return Err(format!("of {:?} only {rest:?} is there, and the power stayed", self.derived));
        }
        self.taken_back += taken_back;
        self.may_lose_derived = false;
        self.unknown.clear();
        self.derived.clear();
        self.acknowledged.extend(rest);
        Ok(())
    }
}

#[derive(Clone, Copy, Debug)]
pub struct Setup {
    pub cache_bytes: usize,
    pub journal_bytes: u64,
    pub batch_size: usize,
    /// A different one in each life.
    pub journal_id: JournalId,
    pub flushing: Flushing,
}

/// A wave is shorter than the queue, so none of its writes has to wait for a place.
pub const WAVE_AT_MOST: usize = 8;

pub struct Session<'a> {
    runtime: &'a tokio::runtime::Runtime,
    store: Store,
    disk: Disk,
}

impl<'a> Session<'a> {
    pub fn open(runtime: &'a tokio::runtime::Runtime, disk: &Disk, setup: Setup) -> Result<Self, StoreError> {
        let Setup { cache_bytes, journal_bytes, journal_id, flushing, .. } = setup;
        let opening = Opening { cache_bytes, journal_bytes, journal_id, flushing, clock: Clock::movable(Timestamp::EPOCH) };
        let engine = RedbEngine::on_backends(disk.clone(), disk.file(JOURNAL), disk.file(WITNESS), opening)?;
        let settings = WriterSettings { batch_size: setup.batch_size, queue_length: 2 * WAVE_AT_MOST };
        Ok(Self { runtime, store: Store::new(engine, settings)?, disk: disk.clone() })
    }

    /// Creates the first record.
    pub fn set_up(&self) -> Result<(), StoreError> {
        self.runtime.block_on(self.store.write(set_up))
    }

    /// Checks the content for consistency and against the history.
    pub fn prove(&self, history: &mut History) -> Result<(), String> {
        let report = self.runtime.block_on(self.store.check(vec![&ACCOUNTS, &ledger::JOURNAL, &COUNTER]));
        let report = report.map_err(|error| format!("the check failed: {error}"))?;
        if !report.is_clean() {
            return Err(format!("the check found {report:?}"));
        }
        let books = self.store.read(Books::read).map_err(|error| format!("the store cannot be read: {error}"))?;
        books.prove()?;
        history.compare(&books)
    }

    /// Submits all writes concurrently and records their responses.
    pub fn write(&self, writes: &[Write], history: &mut History) -> Result<(), String> {
        let answers = self.runtime.block_on(wave(&self.store, writes));
        let healthy = self.disk.struck().is_none();
        for (write, answer) in writes.iter().zip(answers) {
            let stopped = matches!(answer, Err(WriteError::Store(StoreError::OutcomeUnknown(_) | StoreError::Unavailable(_))));
            if stopped && !self.has_failed() {
                return Err(format!("write {} was answered with {answer:?}, but the store does not say that it failed", write.id));
            }
            history.note(write, answer, healthy)?;
        }
        Ok(())
    }

    pub fn has_failed(&self) -> bool {
        self.store.failure().is_some()
    }
}

type Answer<'a> = Pin<Box<dyn Future<Output = Result<u64, WriteError>> + 'a>>;

async fn wave(store: &Store, writes: &[Write]) -> Vec<Result<u64, WriteError>> {
    let (entered, held) = mpsc::channel::<()>();
    let (release, released) = mpsc::channel::<()>();
    let mut gate = pin!(store.write_derived(move |_| {
        // Both ends close the channel when they no longer need it.
        let _ = entered.send(());
        let _ = released.recv();
        Ok::<_, StoreError>(())
    }));
    if poll_once(gate.as_mut()).await.is_pending() {
        // A failed store drops the gate without running it, which ends this wait.
        let _ = held.recv();
    }
    let mut answers: Vec<Poll<Result<u64, WriteError>>> = Vec::new();
    let mut waiting = Vec::new();
    for write in writes {
        let write = write.clone();
        let mut future: Answer<'_> = if write.is_derived {
            Box::pin(store.write_derived(move |tx| write.run(tx)))
        } else {
            Box::pin(store.write(move |tx| write.run(tx)))
        };
        answers.push(poll_once(future.as_mut()).await);
        waiting.push(future);
    }
    drop(release);
    let mut results = Vec::new();
    for (answer, future) in answers.into_iter().zip(waiting) {
        results.push(match answer {
            Poll::Ready(answer) => answer,
            Poll::Pending => future.await,
        });
    }
    results
}

/// Starts the future: a write that was polled once is in the queue.
async fn poll_once<F: Future + ?Sized>(mut future: Pin<&mut F>) -> Poll<F::Output> {
    std::future::poll_fn(move |context| Poll::Ready(future.as_mut().poll(context))).await
}
