//! Thousands of crashes below the store, each with a proof afterwards: acknowledged writes exist, refused ones do not, and writes
//! of unknown outcome exist completely or not at all.
//!
//! A failure names its seed; `TENANTD_CRASH_SEED=<seed>` runs only that one. This does not test the machine: other tests use a real
//! process on a real disk. **Invariant:** the same seed gives the same run if the writer flushes itself. In half of the runs
//! another thread flushes, as in a server. Then the seed determines the writes and faults, but not their order.

use std::{
    collections::BTreeMap,
    ops::Range,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Mutex,
        atomic::{AtomicU64, Ordering},
    },
};

use tokio::runtime::Runtime;

use tenantd_base::entropy::Entropy;
use tenantd_store::Flushing;

use crate::{
    disk::{Disk, Fault, Image},
    ledger::{NOTE_LENGTHS, Write},
    session::{History, Session, Setup, WAVE_AT_MOST},
};

/// The number of seeds in each mode; `TENANTD_CRASH_SEEDS=<number>` overrides it.
const SEEDS: u64 = 1_400;
const SEED_VARIABLE: &str = "TENANTD_CRASH_SEED";
const SEEDS_VARIABLE: &str = "TENANTD_CRASH_SEEDS";

/// The moment at which a life of the process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Moment {
    Opening,
    Writing,
    Idle,
    Closing,
    Closed,
}

/// The state that the next life starts from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Aftermath {
    /// The unsynced writes that survived the power loss.
    Reboot,
    /// The cache of the machine.
    Restart,
}

/// The plan of one life.
#[derive(Clone, Copy)]
struct Plan {
    fault: Fault,
    waves: u64,
    end: End,
    aftermath: Aftermath,
}

/// The end of a life without a fault.
#[derive(Clone, Copy)]
enum End {
    /// A crash between two operations.
    Idle,
    /// A crash at this operation of closing the store.
    Closing(u64),
    /// The store is closed.
    Closed,
}

/// The totals of many runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Tally {
    endings: BTreeMap<(Aftermath, Moment), u64>,
    failed_operations: u64,
    failed_syncs: u64,
    operations: u64,
    resizes: u64,
    acknowledged: u64,
    unknown_but_stored: u64,
    unknown_and_gone: u64,
    taken_back: u64,
}

impl Tally {
    /// Power losses of a running process.
    fn crashes(&self) -> u64 {
        let crash = |(aftermath, moment)| aftermath == Aftermath::Reboot && moment != Moment::Closed;
        self.endings.iter().filter(|(ending, _)| crash(**ending)).map(|(_, count)| count).sum()
    }

    fn add(&mut self, other: &Self) {
        for (ending, count) in &other.endings {
            *self.endings.entry(*ending).or_default() += count;
        }
        self.failed_operations += other.failed_operations;
        self.failed_syncs += other.failed_syncs;
        self.operations += other.operations;
        self.resizes += other.resizes;
        self.acknowledged += other.acknowledged;
        self.unknown_but_stored += other.unknown_but_stored;
        self.unknown_and_gone += other.unknown_and_gone;
        self.taken_back += other.taken_back;
    }
}

/// The lives of one store, each on the disk that the previous one left.
struct Run<'a> {
    runtime: &'a Runtime,
    disk: Disk,
    random: Entropy,
    setup: Setup,
    note_length: u64,
    history: History,
    tally: Tally,
    next_write: u64,
}

impl<'a> Run<'a> {
    fn new(runtime: &'a Runtime, image: &Image, seed: u64, flushing: Flushing) -> Self {
        let mut random = Entropy::from_seed(seed);
        // Without a cache, pages of a transaction reach the disk long before its commit.
        let cache_bytes = choose(&mut random, &[0, 64 << 10, 1 << 20]);
        // From a journal that is too small for any batch to one that is never full.
        let journal_bytes = choose(&mut random, &[0, 12 << 10, 28 << 10, 100 << 10, 4 << 20]);
        let batch_size = choose(&mut random, &[1, 2, 4, WAVE_AT_MOST]);
        let note_length = choose(&mut random, &NOTE_LENGTHS);
        let (history, tally) = (History::default(), Tally::default());
        let (disk, setup) =
            (Disk::new(image.clone()), Setup { cache_bytes, journal_bytes, batch_size, journal_id: [0; 16], flushing });
        Self { runtime, disk, random, setup, note_length, history, tally, next_write: 1 }
    }

    fn wave(&mut self) -> Vec<Write> {
        let first = self.next_write;
        self.next_write += 1 + self.random.below(WAVE_AT_MOST as u64);
        (first..self.next_write).map(|id| Write::random(id, self.note_length, &mut self.random)).collect()
    }

    fn live(&mut self, plan: Plan) -> Result<Moment, String> {
        self.disk.plan(plan.fault);
        self.setup.journal_id = std::array::from_fn(|_| u8::try_from(self.random.below(256)).unwrap());
        let moment = match Session::open(self.runtime, &self.disk, self.setup) {
            Ok(session) => self.work(session, plan)?,
            Err(_) if self.disk.struck().is_some() => Moment::Opening,
            Err(error) => return Err(format!("the store does not open: {error}")),
        };
        if self.disk.operations_after_a_failed_sync() > 0 {
            return Err("the disk was used after a sync that had failed".to_owned());
        }
        *self.tally.endings.entry((plan.aftermath, moment)).or_default() += 1;
        self.tally.failed_operations += u64::from(matches!(self.disk.struck(), Some(Fault::FailsOnce { .. })));
        self.tally.failed_syncs += u64::from(matches!(self.disk.struck(), Some(Fault::SyncFailsOnce { .. })));
        self.tally.operations += self.disk.operations();
        self.tally.resizes += self.disk.resizes();
        if plan.aftermath == Aftermath::Reboot || self.disk.has_failed_to_sync() {
            self.history.may_lose_derived();
        }
        match plan.aftermath {
            Aftermath::Reboot => self.disk.reboot(&mut self.random),
            Aftermath::Restart => self.disk.restart(&mut self.random),
        }
        Ok(moment)
    }

    fn work(&mut self, session: Session<'_>, plan: Plan) -> Result<Moment, String> {
        match session.prove(&mut self.history) {
            // Without a cache even a read writes pages to the disk. Unreadable content is checked in the next life.
            Err(_) if self.disk.struck().is_some() => return Ok(Moment::Opening),
            proven => proven?,
        }
        // Drawn in advance: the store may report a failure a moment after a response, and this must not affect the seed.
        let waves: Vec<Vec<Write>> = (0..plan.waves).map(|_| self.wave()).collect();
        for wave in waves {
            session.write(&wave, &mut self.history)?;
            if session.has_failed() {
                break;
            }
        }
        if self.disk.struck().is_some() {
            return Ok(Moment::Writing);
        }
        match plan.end {
            End::Idle => {
                self.disk.die();
                return Ok(Moment::Idle);
            }
            End::Closing(at) => self.disk.plan(Fault::Dies { at: self.disk.operations() + at }),
            End::Closed => {}
        }
        drop(session);
        Ok(if self.disk.struck().is_some() { Moment::Closing } else { Moment::Closed })
    }

    /// Proves the state after the last life, and that the store can be written, closed and opened again.
    fn finish(mut self) -> Result<Tally, String> {
        for waves in [1, 0] {
            self.live(Plan { fault: Fault::Never, waves, end: End::Closed, aftermath: Aftermath::Reboot })?;
        }
        // The engine's own check: every page matches its checksum, and no used page is considered free.
        let database = redb::Database::builder().create_with_backend(Disk::new(self.disk.durable()));
        let intact = database.map_err(redb::Error::from).and_then(|mut database| Ok(database.check_integrity()?));
        if !matches!(intact, Ok(true)) {
            return Err(format!("the engine finds the closed file damaged: {intact:?}"));
        }
        self.tally.acknowledged = self.history.acknowledged() as u64;
        (self.tally.unknown_but_stored, self.tally.unknown_and_gone) = self.history.settled();
        self.tally.taken_back = self.history.taken_back();
        Ok(self.tally)
    }

    /// An interrupted workload, then faults that often hit the recovery of the previous one.
    fn crash_thrice(mut self) -> Result<Tally, String> {
        for life in 0..3 {
            let reach = if life == 0 { 200 } else { choose(&mut self.random, &[6, 25, 120]) };
            let at = 1 + self.random.below(reach);
            let (dies, fails, sync_fails) = (Fault::Dies { at }, Fault::FailsOnce { at }, Fault::SyncFailsOnce { from: at });
            let fault = choose(&mut self.random, &[dies, dies, dies, dies, dies, fails, sync_fails]);
            let closing = End::Closing(1 + self.random.below(16));
            let end = choose(&mut self.random, &[End::Idle, closing, closing, End::Closed]);
            let aftermath = choose(&mut self.random, &[Aftermath::Reboot, Aftermath::Reboot, Aftermath::Restart]);
            let waves = 1 + self.random.below(6);
            self.live(Plan { fault, waves, end, aftermath })?;
        }
        self.finish()
    }
}

fn choose<T: Copy>(random: &mut Entropy, choices: &[T]) -> T {
    choices[usize::try_from(random.below(choices.len() as u64)).unwrap()]
}

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_current_thread().build().unwrap()
}

/// The image of a store that was set up and closed. An earlier crash repeats the initialization.
fn origin() -> Image {
    let (runtime, disk) = (runtime(), Disk::new(Image::default()));
    let setup =
        Setup { cache_bytes: 1 << 20, journal_bytes: 64 << 10, batch_size: 1, journal_id: [7; 16], flushing: Flushing::Inline };
    let session = Session::open(&runtime, &disk, setup).unwrap();
    session.set_up().unwrap();
    drop(session);
    disk.durable()
}

/// The single seed to repeat.
fn replayed() -> Option<u64> {
    std::env::var(SEED_VARIABLE).ok().map(|seed| seed.parse().unwrap())
}

/// Runs the seeds on all cores and stops at the first failure.
fn run_seeds(seeds: Range<u64>, run: impl Fn(&Runtime, u64) -> Result<Tally, String> + Sync) -> Tally {
    let seeds = replayed().map_or(seeds, |seed| seed..seed + 1);
    let (next, total, failure) = (AtomicU64::new(seeds.start), Mutex::new(Tally::default()), Mutex::new(None::<String>));
    let work = || {
        let runtime = runtime();
        loop {
            let seed = next.fetch_add(1, Ordering::SeqCst);
            if seed >= seeds.end || failure.lock().unwrap().is_some() {
                return;
            }
            let outcome = catch_unwind(AssertUnwindSafe(|| run(&runtime, seed)));
            match outcome.unwrap_or_else(|_| Err("it panicked".to_owned())) {
                Ok(tally) => total.lock().unwrap().add(&tally),
                Err(problem) => *failure.lock().unwrap() = Some(format!("{SEED_VARIABLE}={seed} runs this again: {problem}")),
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(2, usize::from) {
            scope.spawn(work);
        }
    });
    if let Some(problem) = failure.into_inner().unwrap() {
        panic!("{problem}");
    }
    total.into_inner().unwrap()
}

fn crash_thousands_of_times(flushing: Flushing) {
    let origin = origin();
    let seeds = std::env::var(SEEDS_VARIABLE).map_or(SEEDS, |seeds| seeds.parse().unwrap());
    let tally = run_seeds(0..seeds, |runtime, seed| Run::new(runtime, &origin, seed, flushing).crash_thrice());
    println!("{} losses of power were simulated, {flushing:?}: {tally:?}", tally.crashes());
    if replayed().is_some() {
        return;
    }
    // Each of three lives is interrupted, and two of three interruptions are power losses.
    assert!(tally.crashes() * 10 >= seeds * 18, "only {} losses of power were simulated", tally.crashes());
    // A change of the engine could move its operations out of reach of the faults, and this test would prove nothing.
    for aftermath in [Aftermath::Reboot, Aftermath::Restart] {
        for moment in [Moment::Opening, Moment::Writing, Moment::Idle, Moment::Closing] {
            let count = tally.endings.get(&(aftermath, moment)).copied().unwrap_or_default();
            assert!(count >= 30, "{aftermath:?} after {moment:?} happened only {count} times");
        }
    }
    let unknown = [tally.unknown_but_stored, tally.unknown_and_gone];
    let others = [tally.failed_operations, tally.failed_syncs, tally.resizes, unknown[0], unknown[1], tally.taken_back];
    assert!(others.iter().all(|count| *count >= 30), "something hardly ever happened: {tally:?}");
}

#[test]
fn crashes_lose_no_acknowledged_commit() {
    crash_thousands_of_times(Flushing::Inline);
}

#[test]
fn crashes_during_a_flush_lose_no_acknowledged_commit() {
    crash_thousands_of_times(Flushing::Background);
}

#[test]
fn a_crash_at_any_operation_is_survived() {
    let origin = origin();
    let tally = run_seeds(0..8, |runtime, seed| {
        let mut total = Tally::default();
        for at in 1.. {
            let mut run = Run::new(runtime, &origin, seed, Flushing::Inline);
            let plan = Plan { fault: Fault::Dies { at }, waves: 3, end: End::Closed, aftermath: Aftermath::Reboot };
            let moment = run.live(plan)?;
            total.add(&run.finish().map_err(|problem| format!("after a crash at operation {at}: {problem}"))?);
            if moment == Moment::Closed {
                break;
            }
        }
        Ok(total)
    });
    println!("{} crashes were simulated, one at each operation: {tally:?}", tally.crashes());
}

#[test]
fn a_seed_reproduces_its_run() {
    let (origin, runtime) = (origin(), runtime());
    for seed in 0..10 {
        let lives = || {
            let mut run = Run::new(&runtime, &origin, seed, Flushing::Inline);
            let moments = [60, 10].map(|at| {
                let plan = Plan { fault: Fault::Dies { at }, waves: 5, end: End::Idle, aftermath: Aftermath::Reboot };
                run.live(plan).unwrap()
            });
            (moments, run.disk.durable(), run.tally)
        };
        assert!(lives() == lives(), "seed {seed} did not give the same run twice");
    }
}

#[test]
fn a_disk_that_ignores_syncs_is_detected() {
    let (origin, runtime) = (origin(), runtime());
    for seed in 0..20 {
        let mut run = Run::new(&runtime, &origin, seed, Flushing::Inline);
        let plan = Plan { fault: Fault::Lies, waves: 4, end: End::Idle, aftermath: Aftermath::Restart };
        assert_eq!(run.live(plan), Ok(Moment::Idle));
        assert!(run.history.acknowledged() > 0, "seed {seed} wrote nothing");
        run.disk = Disk::new(run.disk.durable());
        let problem = run.finish().unwrap_err();
        assert!(problem.contains("acknowledged write") && problem.contains("is lost"), "seed {seed}: {problem}");
    }
}
