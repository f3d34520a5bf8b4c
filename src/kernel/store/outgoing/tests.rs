//! Tests that every second after a snapshot can be restored, and that missing and damaged segments are noticed.

use std::time::Duration;

use proptest::prelude::*;

use tenantd_base::clock::Clock;

use super::*;
use crate::{
    DataDirectory, RedbEngine, Store, StoreSettings, WriterSettings, catalog,
    engine::Engine,
    transaction::{Read, ReadTx},
};

const SECOND: Duration = Duration::from_secs(1);

struct Fixture {
    directory: tempfile::TempDir,
    clock: Clock,
}

impl Fixture {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let data = DataDirectory::lock(directory.path()).unwrap();
        data.initialize([7; 16], || Ok([1; 8])).unwrap();
        OutgoingDirectory::of(directory.path()).set(true).unwrap();
        Self { directory, clock: Clock::movable(Timestamp::from_millis(1_700_000_000_000)) }
    }

    fn open(&self, journal_bytes: u64) -> (DataDirectory, Store) {
        let data = DataDirectory::lock(self.directory.path()).unwrap();
        let writer = WriterSettings { batch_size: 1, queue_length: 8 };
        let clock = self.clock.clone();
        let settings = StoreSettings { cache_bytes: 1 << 20, journal_bytes, writer, clock };
        let (store, _) = data.open_store(settings, None).unwrap();
        (data, store)
    }

    /// Writes one row per second. Returns the time of the last one.
    async fn write(&self, store: &Store, numbers: std::ops::RangeInclusive<u32>) -> Timestamp {
        for number in numbers {
            self.clock.advance(SECOND);
            let put = move |tx: &mut crate::WriteTx| {
                tx.raw_put(catalog::USERS.into(), number.to_be_bytes().to_vec(), vec![7; 3_000]);
                Ok::<_, StoreError>(())
            };
            store.write(put).await.unwrap();
        }
        self.clock.now()
    }

    /// Leaves the directory as if the process had died.
    fn crash(&self, data: DataDirectory, store: Store) {
        let files = ["tenantd.redb", "tenantd.journal", "tenantd.witness"].map(|file| self.directory.path().join(file));
        let left = files.each_ref().map(|file| std::fs::read(file).unwrap());
        let outgoing = self.directory.path().join(DIRECTORY);
        let names = || std::fs::read_dir(&outgoing).into_iter().flatten().map(|entry| entry.unwrap().path());
        let before: Vec<PathBuf> = names().collect();
        drop((store, data));
        names().filter(|path| !before.contains(path)).for_each(|path| std::fs::remove_file(path).unwrap());
        for (file, content) in files.iter().zip(left) {
            std::fs::write(file, content).unwrap();
        }
    }

    /// The rows of the snapshot after it was brought forward to a time.
    fn rows_at(&self, snapshot: &Path, from: Position, until: Timestamp) -> Result<Vec<u32>, StoreError> {
        let copy = self.directory.path().join("copy");
        std::fs::copy(snapshot, &copy).unwrap();
        let (outgoing, mut replay) = (OutgoingDirectory::of(self.directory.path()), Replay::new(&copy, from)?);
        let plan = Plan::new(&outgoing.segments()?, from, until);
        assert_ne!(plan.reach, Reach::Missing);
        for (place, step) in plan.steps.iter().enumerate() {
            let until = (place + 1 == plan.steps.len()).then_some(until);
            replay.apply(*step, &outgoing.read(step.segment)?, until)?;
        }
        drop(replay);
        let engine = RedbEngine::open(&copy, 1 << 20, None)?;
        let tx = ReadTx::new(engine.begin_read()?);
        let mut rows = Vec::new();
        tx.raw_scan(catalog::USERS.into(), &crate::KeyRange::ALL, crate::Direction::Forward, &mut |key, _| {
            rows.push(u32::from_be_bytes(key.try_into().unwrap()));
            Ok(crate::Flow::Continue)
        })?;
        Ok(rows)
    }
}

#[tokio::test]
async fn any_second_after_a_snapshot_can_be_restored() {
    let fixture = Fixture::new();
    let (data, store) = fixture.open(64 << 10);
    let began = fixture.write(&store, 1..=5).await;
    let snapshot = fixture.directory.path().join("snapshot");
    let from = store.snapshot(snapshot.clone()).await.unwrap().position;
    fixture.write(&store, 6..=40).await;
    store.cut_outgoing().await.unwrap();
    fixture.write(&store, 41..=50).await;
    fixture.crash(data, store);
    let (data, store) = fixture.open(64 << 10);
    fixture.write(&store, 51..=60).await;
    drop((store, data));
    // An opening without a commit leaves no segment.
    drop(fixture.open(64 << 10));
    let (_data, store) = fixture.open(64 << 10);
    fixture.write(&store, 61..=65).await;
    store.cut_outgoing().await.unwrap();
    for last in 5..=65_u32 {
        let until = began + SECOND * (last - 5) + SECOND / 2;
        let rows = fixture.rows_at(&snapshot, from, until).unwrap();
        assert_eq!(rows, (1..=last).collect::<Vec<_>>(), "up to {last}");
    }
}

#[tokio::test]
async fn missing_and_damaged_segments_are_refused() {
    let fixture = Fixture::new();
    let (_data, store) = fixture.open(1 << 20);
    let snapshot = fixture.directory.path().join("snapshot");
    let from = store.snapshot(snapshot.clone()).await.unwrap().position;
    for first in [1, 4, 7] {
        fixture.write(&store, first..=first + 2).await;
        store.cut_outgoing().await.unwrap();
    }
    let last = fixture.clock.now();
    assert_eq!(fixture.rows_at(&snapshot, from, last).unwrap().len(), 9);
    let outgoing = OutgoingDirectory::of(fixture.directory.path());
    let names = outgoing.segments().unwrap();
    let content = |place: usize| outgoing.read(names[place]).unwrap();
    let step = |place: usize| Step { segment: names[place], through: names[place].last };
    let mut replay = Replay::new(&snapshot, from).unwrap();
    assert!(replay.apply(step(2), &content(2), None).is_err());
    replay.apply(step(0), &content(0), None).unwrap();
    assert!(replay.apply(step(2), &content(2), None).unwrap_err().to_string().contains("missing before it"));
    assert_eq!(replay.last(), Some(last - SECOND * 6));
    for place in (0..content(1).len()).step_by(97) {
        let mut damaged = content(1);
        damaged[place] ^= 1;
        assert!(replay.apply(step(1), &damaged, None).unwrap_err().to_string().contains("damaged"), "byte {place}");
    }
    let renamed = SegmentName { since: names[1].until, ..names[1] };
    assert!(verify(renamed, &content(1)).unwrap_err().to_string().contains("do not match its name"));
    assert!(verify(names[1], &content(2)).is_err());
}

#[tokio::test]
async fn a_commit_too_large_for_the_journal_is_in_a_segment() {
    let fixture = Fixture::new();
    let (data, store) = fixture.open(64 << 10);
    let snapshot = fixture.directory.path().join("snapshot");
    let from = store.snapshot(snapshot.clone()).await.unwrap().position;
    fixture.write(&store, 1..=2).await;
    let put = |tx: &mut crate::WriteTx| {
        tx.raw_put(catalog::USERS.into(), 3_u32.to_be_bytes().to_vec(), vec![7; 200_000]);
        Ok::<_, StoreError>(())
    };
    store.write(put).await.unwrap();
    let outgoing = OutgoingDirectory::of(fixture.directory.path());
    let [name] = outgoing.segments().unwrap()[..] else { panic!("not one segment") };
    fixture.crash(data, store);
    // Killed after the commit and before its confirmation.
    std::fs::rename(outgoing.0.join(name.to_string()), outgoing.announced(name)).unwrap();
    // Killed before the commit, in the next opening.
    let never = SegmentName { first: name.last + 1, last: name.last + 1, ..name };
    std::fs::write(outgoing.announced(never), b"never committed").unwrap();
    let (_data, store) = fixture.open(64 << 10);
    assert_eq!(outgoing.segments().unwrap(), [name]);
    fixture.write(&store, 4..=5).await;
    store.cut_outgoing().await.unwrap();
    assert_eq!(fixture.rows_at(&snapshot, from, fixture.clock.now()).unwrap(), [1, 2, 3, 4, 5]);
}

#[tokio::test]
async fn an_interrupted_recovery_is_repeated() {
    let fixture = Fixture::new();
    let (data, store) = fixture.open(1 << 20);
    let snapshot = fixture.directory.path().join("snapshot");
    let from = store.snapshot(snapshot.clone()).await.unwrap().position;
    fixture.write(&store, 1..=3).await;
    fixture.crash(data, store);
    let files = ["tenantd.redb", "tenantd.journal", "tenantd.witness"].map(|file| fixture.directory.path().join(file));
    let left = files.each_ref().map(|file| std::fs::read(file).unwrap());
    drop(fixture.open(1 << 20));
    for (file, content) in files.iter().zip(left) {
        std::fs::write(file, content).unwrap();
    }
    let (_data, store) = fixture.open(1 << 20);
    fixture.write(&store, 4..=4).await;
    store.cut_outgoing().await.unwrap();
    assert_eq!(OutgoingDirectory::of(fixture.directory.path()).segments().unwrap().len(), 2);
    assert_eq!(fixture.rows_at(&snapshot, from, fixture.clock.now()).unwrap(), [1, 2, 3, 4]);
}

#[tokio::test]
async fn a_restored_snapshot_continues_its_history() {
    let fixture = Fixture::new();
    let (data, store) = fixture.open(1 << 20);
    fixture.write(&store, 1..=3).await;
    let snapshot = fixture.directory.path().join("snapshot");
    let from = store.snapshot(snapshot.clone()).await.unwrap().position;
    fixture.write(&store, 4..=6).await;
    store.cut_outgoing().await.unwrap();
    let first_life = fixture.clock.now();
    drop((store, data));
    // The store is put back to its snapshot and continues from there.
    for name in ["tenantd.journal", "tenantd.witness"] {
        std::fs::remove_file(fixture.directory.path().join(name)).unwrap();
    }
    std::fs::copy(&snapshot, fixture.directory.path().join("tenantd.redb")).unwrap();
    let (_data, store) = fixture.open(1 << 20);
    fixture.clock.advance(SECOND * 60);
    fixture.write(&store, 7..=8).await;
    store.cut_outgoing().await.unwrap();
    assert_eq!(fixture.rows_at(&snapshot, from, first_life).unwrap(), [1, 2, 3, 4, 5, 6]);
    assert_eq!(fixture.rows_at(&snapshot, from, fixture.clock.now()).unwrap(), [1, 2, 3, 7, 8]);
}

#[test]
fn names_read_back_and_sort_in_commit_order() {
    let name = |since: i64, first: u64| SegmentName {
        first,
        last: first + 9,
        since: Timestamp::from_millis(since),
        until: Timestamp::from_millis(1_700_000_000_123),
        journal: [0xab; 16],
        before: Position { journal: [0xcd; 16], number: 7 },
    };
    for (since, first) in [(1_700_000_000_000, 1), (5, 999_999)] {
        assert_eq!(SegmentName::parse(&name(since, first).to_string()), Some(name(since, first)));
    }
    assert!(name(1_600_000_000_000, 90).to_string() > name(1_700_000_000_000, 2).to_string());
    assert_eq!(SegmentName::parse("snapshot.age"), None);
    assert_eq!(SegmentName::parse(&format!("{}-1", name(1, 1))), None);
}

#[tokio::test]
async fn a_lost_segment_makes_the_directory_incomplete_until_the_next_backup() {
    let fixture = Fixture::new();
    let outgoing = OutgoingDirectory::of(fixture.directory.path());
    let key = [3; 8];
    let (_data, store) = fixture.open(1 << 20);
    assert_eq!(outgoing.base(key), None);
    let back_up = || outgoing.begin_backup(key, "second").and_then(|()| outgoing.end_backup());
    back_up().unwrap();
    assert_eq!((outgoing.base(key).as_deref(), outgoing.base([4; 8])), (Some("second"), None), "only for this key");
    fixture.write(&store, 1..=3).await;
    outgoing.begin_backup(key, "third").unwrap();
    let surplus = fixture.directory.path().join(DIRECTORY).join("surplus");
    std::fs::File::create(&surplus).unwrap().set_len(MOST_BYTES).unwrap();
    store.cut_outgoing().await.unwrap();
    std::fs::remove_file(surplus).unwrap();
    outgoing.end_backup().unwrap();
    assert!(outgoing.segments().unwrap().is_empty());
    assert_eq!(outgoing.base(key), None, "not even with the backup in progress");
    back_up().unwrap();
    assert!(outgoing.base(key).is_some());
}

/// What happens to a store between two commits.
#[derive(Clone, Copy, Debug)]
enum HistoryStep {
    Write,
    WriteLarge,
    Cut,
    Stop,
    Crash,
    /// The clock is set by this many seconds.
    SetClock(i64),
}

fn history_steps() -> impl Strategy<Value = Vec<HistoryStep>> {
    let step = prop_oneof![
        8 => Just(HistoryStep::Write),
        1 => Just(HistoryStep::WriteLarge),
        2 => Just(HistoryStep::Cut),
        1 => Just(HistoryStep::Stop),
        2 => Just(HistoryStep::Crash),
        1 => (-40..40_i64).prop_map(HistoryStep::SetClock),
    ];
    proptest::collection::vec(step, 1..40)
}

/// Runs the steps, and compares the state at every time with what is restored for it.
async fn check_history(history_steps: Vec<HistoryStep>) {
    let mut fixture = Fixture::new();
    let mut open = fixture.open(64 << 10);
    let snapshot = fixture.directory.path().join("snapshot");
    let from = open.1.snapshot(snapshot.clone()).await.unwrap().position;
    let (mut times, mut seconds) = (Vec::new(), 0);
    for step in history_steps {
        seconds += 1;
        fixture.clock.advance(SECOND);
        match step {
            HistoryStep::Write | HistoryStep::WriteLarge => {
                let (number, length) =
                    (u32::try_from(times.len()).unwrap(), if matches!(step, HistoryStep::Write) { 3_000 } else { 200_000 });
                let put = move |tx: &mut crate::WriteTx| {
                    tx.raw_put(catalog::USERS.into(), number.to_be_bytes().to_vec(), vec![7; length]);
                    Ok::<_, StoreError>(())
                };
                open.1.write(put).await.unwrap();
                times.push(fixture.clock.now());
            }
            HistoryStep::Cut => open.1.cut_outgoing().await.unwrap(),
            HistoryStep::Stop => {
                drop(open);
                open = fixture.open(64 << 10);
            }
            HistoryStep::Crash => {
                fixture.crash(open.0, open.1);
                open = fixture.open(64 << 10);
            }
            HistoryStep::SetClock(by) => {
                drop(open);
                seconds = (seconds + by).max(0);
                fixture.clock = Clock::movable(Timestamp::from_millis(1_700_000_000_000 + seconds * 1_000));
                open = fixture.open(64 << 10);
            }
        }
    }
    open.1.cut_outgoing().await.unwrap();
    for until in times.iter().flat_map(|time| [*time, *time + SECOND / 2]) {
        let count = times.iter().rposition(|time| *time <= until).map_or(0, |last| last + 1);
        let expected: Vec<u32> = (0..u32::try_from(count).unwrap()).collect();
        assert_eq!(fixture.rows_at(&snapshot, from, until).unwrap(), expected, "up to {until}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(6))]

    #[test]
    fn every_time_of_any_history_comes_back(history_steps in history_steps()) {
        tokio::runtime::Runtime::new().unwrap().block_on(check_history(history_steps));
    }
}
