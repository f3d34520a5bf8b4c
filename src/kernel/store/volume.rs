//! The volume of the data: how much of it is free, how much is written, and what happens when it is full.
//!
//! The store's files go through [`SpareBackend`](super::SpareBackend), which reports here what it writes. So checks of the free
//! space follow the writes and not only the clock. A write that finds the volume full gets a part of the reserve and is retried.
//! While the server runs, a quarter of the reserve is kept for the next start. Below that a write waits for space, because an
//! engine that meets a full disk must be restarted. **Invariant:** writes are held back before the first block of the reserve is
//! used.

use std::{
    io,
    path::Path,
    sync::{
        Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::sync::Notify;

use super::{
    reserve::{Gate, WriteRoom},
    spare::{self, Spare},
};

/// How many bytes are written between two checks of the free space.
const LOOK_EVERY: u64 = 256 << 10;
/// The part of the reserve that a running server keeps for the next start.
const KEPT_SHARE: u64 = 4;
/// How often a waiting write checks for space.
const RETRY: Duration = Duration::from_millis(500);
/// A start with less free space than this gives up a part of the reserve for the small files that it writes.
const START_BYTES: u64 = 256 << 10;
const START_PART: u64 = 1 << 20;
/// The journal uses at most this share of the volume.
const JOURNAL_SHARE: u64 = 16;
const LEAST_JOURNAL: u64 = 64 << 10;

/// The space of a volume, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Space {
    pub free: u64,
    pub total: u64,
}

impl Space {
    /// Measures the volume that a path is on.
    pub fn of(path: &Path) -> io::Result<Self> {
        let found = rustix::fs::statvfs(path)?;
        Ok(Self { free: found.f_bavail.saturating_mul(found.f_frsize), total: found.f_blocks.saturating_mul(found.f_frsize) })
    }
}

/// The state of the reserve.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reserve {
    pub left: u64,
    pub wanted: u64,
    /// Whether part of it was given up since it was last full.
    pub touched: bool,
    /// Whether a write is waiting for space.
    pub starved: bool,
}

impl Reserve {
    pub fn missing(self) -> u64 {
        self.wanted.saturating_sub(self.left)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// The server does not answer requests yet, so it may use all of the reserve to get there.
    Starting,
    Serving,
    /// Nothing may delay the shutdown.
    Ending,
}

#[derive(Debug)]
struct State {
    phase: Phase,
    touched: bool,
    starved: usize,
}

type Measure = Box<dyn Fn() -> io::Result<Space> + Send + Sync>;

pub struct Volume {
    measure: Measure,
    spare: Option<Spare>,
    pub(super) gate: Gate,
    /// Writes are held back while less space than this is free.
    threshold: AtomicU64,
    written: AtomicU64,
    /// Bytes written since the last check.
    unseen: AtomicU64,
    state: Mutex<State>,
    /// Notified when there may be space for a waiting write.
    room: Condvar,
    /// Notified when writes are held back or part of the reserve is given up.
    changed: Notify,
}

impl std::fmt::Debug for Volume {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Volume").field("state", &self.state).field("spare", &self.spare).finish_non_exhaustive()
    }
}

impl Volume {
    /// The volume of a data directory, with the reserve as the last process left it.
    pub(super) fn of(directory: &Path) -> io::Result<Self> {
        let path = directory.to_owned();
        Self::measured(directory, move || Space::of(&path))
    }

    /// Does the same with another way to measure the volume.
    pub(super) fn measured(directory: &Path, measure: impl Fn() -> io::Result<Space> + Send + Sync + 'static) -> io::Result<Self> {
        let volume = Self::new(Some(Spare::open(directory)?), Box::new(measure));
        volume.make_room_to_start()?;
        Ok(volume)
    }

    /// For a store whose disk space is not monitored: a copy, or a store in a test.
    pub(super) fn unwatched() -> Self {
        Self::new(None, Box::new(|| Ok(Space { free: u64::MAX, total: u64::MAX })))
    }

    fn new(spare: Option<Spare>, measure: Measure) -> Self {
        Self {
            measure,
            spare,
            gate: Gate::new(),
            threshold: AtomicU64::new(0),
            written: AtomicU64::new(0),
            unseen: AtomicU64::new(0),
            state: Mutex::new(State { phase: Phase::Starting, touched: false, starved: 0 }),
            room: Condvar::new(),
            changed: Notify::new(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn make_room_to_start(&self) -> io::Result<()> {
        if let Some(spare) = &self.spare
            && self.space()?.free < START_BYTES
            && spare.give_up(START_PART, 0)?
        {
            tracing::warn!(left_bytes = spare.left(), "the disk is full: this start uses a part of the reserve");
        }
        Ok(())
    }

    pub fn space(&self) -> io::Result<Space> {
        (self.measure)()
    }

    /// The size of a journal that should have `bytes` bytes. On a small volume it is smaller, to leave space for the data.
    pub fn journal_bytes(&self, bytes: u64) -> io::Result<u64> {
        Ok(bytes.min((self.space()?.total / JOURNAL_SHARE).max(LEAST_JOURNAL)))
    }

    /// Whether `bytes` more bytes fit without making the disk full. Returns true if the volume cannot be measured.
    pub fn has_room_for(&self, bytes: u64) -> bool {
        let threshold = self.threshold.load(Ordering::Relaxed);
        let needed = threshold.saturating_add(threshold / 4).saturating_add(bytes);
        self.gate.room() == WriteRoom::Ample && self.space().map_or(true, |space| space.free >= needed)
    }

    pub fn reserve(&self) -> Reserve {
        let State { touched, starved, .. } = *self.lock();
        let (left, wanted) = self.spare.as_ref().map_or((0, 0), |spare| (spare.left(), spare.wanted()));
        Reserve { left, wanted, touched, starved: starved > 0 }
    }

    /// How many bytes the store has written to the volume since it was opened.
    pub fn written(&self) -> u64 {
        self.written.load(Ordering::Relaxed)
    }

    /// Starts to hold writes back when free space falls below `threshold`. From now on a part of the reserve is kept for the next
    /// start. The operator allows at most `most` bytes for the reserve.
    pub fn watch(&self, threshold: u64, total: u64, most: u64) {
        if let Some(spare) = &self.spare {
            spare.set_wanted(spare::wanted_bytes(total, most));
        }
        self.threshold.store(threshold, Ordering::Relaxed);
        let mut state = self.lock();
        if state.phase == Phase::Starting {
            state.phase = Phase::Serving;
        }
    }

    /// Adds up to `bytes` of the volume to the reserve.
    pub fn refill(&self, bytes: u64) -> io::Result<()> {
        let Some(spare) = &self.spare else { return Ok(()) };
        let mut state = self.lock();
        spare.refill(bytes)?;
        state.touched &= !spare.is_whole();
        Ok(())
    }

    /// Sets how much space there is for writes. Waiting writes retry.
    pub fn set_room(&self, room: WriteRoom) {
        self.gate.set(room);
        self.room.notify_all();
    }

    /// Returns when writes are held back or part of the reserve is given up.
    pub async fn changed(&self) {
        self.changed.notified().await;
    }

    /// Lets all waiting writes continue, for a shutdown.
    pub(super) fn end(&self) {
        self.gate.waive();
        self.lock().phase = Phase::Ending;
        self.room.notify_all();
    }

    /// Counts written bytes and regularly checks the free space.
    pub(super) fn wrote(&self, bytes: u64) {
        self.written.fetch_add(bytes, Ordering::Relaxed);
        if self.unseen.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes) < LOOK_EVERY {
            return;
        }
        self.unseen.store(0, Ordering::Relaxed);
        let threshold = self.threshold.load(Ordering::Relaxed);
        // The disk monitor reports a failed measurement.
        let is_short = threshold > 0 && self.space().is_ok_and(|space| space.free < threshold);
        if is_short && self.gate.restrict(WriteRoom::Short) {
            self.changed.notify_one();
        }
    }

    /// Frees blocks for a write that found none, or waits until some are free. Fails with `error` when waiting is not possible.
    pub(super) fn make_room(&self, error: io::Error) -> io::Result<()> {
        let Some(spare) = &self.spare else { return Err(error) };
        let mut state = self.lock();
        let floor = if state.phase == Phase::Starting { 0 } else { spare.wanted() / KEPT_SHARE };
        if state.phase == Phase::Serving {
            state.touched = true;
            self.gate.restrict(WriteRoom::Short);
            self.changed.notify_one();
        }
        let gave = spare.give_up_half(floor).unwrap_or_else(|problem| {
            tracing::error!(error = %problem, "the reserve cannot be used");
            false
        });
        if gave {
            tracing::warn!(left_bytes = spare.left(), "the disk is full: using a part of the reserve");
            return Ok(());
        }
        if state.phase != Phase::Serving {
            return Err(error);
        }
        self.gate.restrict(WriteRoom::Exhausted);
        state.starved += 1;
        let (mut state, _) = self.room.wait_timeout(state, RETRY).unwrap_or_else(PoisonError::into_inner);
        state.starved -= 1;
        if state.phase == Phase::Ending { Err(error) } else { Ok(()) }
    }
}
