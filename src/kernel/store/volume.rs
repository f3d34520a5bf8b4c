//! The volume that the data is on: how much of it is free, how fast it is written, and what happens when it has no block left.
//!
//! The store's files go through [`SpareBackend`](super::SpareBackend), which reports here what it writes. So a look at the free space
//! follows what is written and not only the clock. A write that finds the volume full gets a part of the reserve and is tried again.
//! While the server runs, a quarter of the reserve is kept for the next start; below that the write waits for room, because an engine
//! that has met a full disk must be restarted. **Invariant:** writes are held back before the first block of the reserve is used.

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

/// How much is written between two looks at the free space.
const LOOK_EVERY: u64 = 256 << 10;
/// The part of the reserve that a running server leaves to the next start.
const KEPT_SHARE: u64 = 4;
/// How often a write that waits for room looks for it.
const RETRY: Duration = Duration::from_millis(500);
/// A start that finds less free space gives up a part of the reserve for the small files that it writes.
const START_BYTES: u64 = 256 << 10;
const START_PART: u64 = 1 << 20;
/// The journal has at most this share of the volume.
const JOURNAL_SHARE: u64 = 16;
const LEAST_JOURNAL: u64 = 64 << 10;

/// The space of a volume, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Space {
    pub free: u64,
    pub total: u64,
}

impl Space {
    /// Of the volume that a path is on.
    pub fn of(path: &Path) -> io::Result<Self> {
        let found = rustix::fs::statvfs(path)?;
        Ok(Self { free: found.f_bavail.saturating_mul(found.f_frsize), total: found.f_blocks.saturating_mul(found.f_frsize) })
    }
}

/// What there is of the reserve.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reserve {
    pub left: u64,
    pub wanted: u64,
    /// Whether a part of it was given up since it was last whole.
    pub touched: bool,
    /// Whether a write waits for room.
    pub starved: bool,
}

impl Reserve {
    pub fn missing(self) -> u64 {
        self.wanted.saturating_sub(self.left)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Nothing is answered yet, so all of the reserve may be used to get there.
    Starting,
    Serving,
    /// Nothing may hold up the end.
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
    /// Writes are held back below this much free space.
    threshold: AtomicU64,
    written: AtomicU64,
    /// Written since the last look.
    unseen: AtomicU64,
    state: Mutex<State>,
    /// Told when there may be room for a write that waits.
    room: Condvar,
    /// Told when writes were held back, or a part of the reserve was given up.
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

    /// The same, with another way to measure it.
    pub(super) fn measured(directory: &Path, measure: impl Fn() -> io::Result<Space> + Send + Sync + 'static) -> io::Result<Self> {
        let volume = Self::new(Some(Spare::open(directory)?), Box::new(measure));
        volume.make_room_to_start()?;
        Ok(volume)
    }

    /// For a store that nobody watches over: a copy, or one in a test.
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
            tracing::warn!(left_bytes = spare.left(), "the disk is full: a part of the reserve is given up for this start");
        }
        Ok(())
    }

    pub fn space(&self) -> io::Result<Space> {
        (self.measure)()
    }

    /// How large a journal may be that is to have `bytes`: on a small volume it must leave room for what it holds.
    pub fn journal_bytes(&self, bytes: u64) -> io::Result<u64> {
        Ok(bytes.min((self.space()?.total / JOURNAL_SHARE).max(LEAST_JOURNAL)))
    }

    /// Whether something can take `bytes` without making the disk full. What cannot be measured has room.
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

    /// Begins to hold writes back when free space falls below `threshold`. From now on a part of the reserve is kept for the next
    /// start. The operator allows `most` bytes for the reserve.
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

    /// Takes up to `bytes` of the volume for the reserve.
    pub fn refill(&self, bytes: u64) -> io::Result<()> {
        let Some(spare) = &self.spare else { return Ok(()) };
        let mut state = self.lock();
        spare.refill(bytes)?;
        state.touched &= !spare.is_whole();
        Ok(())
    }

    /// Says how much room there is for writes. Those that wait for a block try again.
    pub fn set_room(&self, room: WriteRoom) {
        self.gate.set(room);
        self.room.notify_all();
    }

    /// Returns when writes were held back, or a part of the reserve was given up.
    pub async fn changed(&self) {
        self.changed.notified().await;
    }

    /// Lets nothing wait for room any more: for the end of a server.
    pub(super) fn end(&self) {
        self.gate.waive();
        self.lock().phase = Phase::Ending;
        self.room.notify_all();
    }

    /// Counts what was written, and now and then looks at what is free.
    pub(super) fn wrote(&self, bytes: u64) {
        self.written.fetch_add(bytes, Ordering::Relaxed);
        if self.unseen.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes) < LOOK_EVERY {
            return;
        }
        self.unseen.store(0, Ordering::Relaxed);
        let threshold = self.threshold.load(Ordering::Relaxed);
        // The watch over the disk tells when it cannot be measured.
        let is_short = threshold > 0 && self.space().is_ok_and(|space| space.free < threshold);
        if is_short && self.gate.restrict(WriteRoom::Short) {
            self.changed.notify_one();
        }
    }

    /// Frees blocks for a write that found none, or waits for some. Fails with `error` when there is nothing to wait for.
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
            tracing::error!(error = %problem, "the reserve cannot be given up");
            false
        });
        if gave {
            tracing::warn!(left_bytes = spare.left(), "the disk is full: a part of the reserve is given up");
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
