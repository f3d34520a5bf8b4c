//! Every second after a snapshot can be restored, and a missing or damaged segment is noticed.

use std::time::Duration;

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

    /// Writes a row a second; the time of the last.
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

    /// Leaves the directory as the end of the process does.
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

    /// The rows of the snapshot, brought forward to a time.
    fn rows_at(&self, snapshot: &Path, from: Position, until: Timestamp) -> Result<Vec<u32>, StoreError> {
        let copy = self.directory.path().join("copy");
        std::fs::copy(snapshot, &copy).unwrap();
        let (outgoing, mut replay) = (OutgoingDirectory::of(self.directory.path()), Replay::new(&copy, from, until)?);
        let plan = Plan::new(&outgoing.segments()?, from, until);
        assert!(plan.is_complete);
        plan.segments.iter().try_for_each(|name| replay.apply(&outgoing.read(*name)?))?;
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
async fn any_second_after_a_snapshot_comes_back_over_flushes_stops_and_crashes() {
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
async fn nothing_after_a_missing_segment_is_applied_and_a_damaged_one_is_refused() {
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
    let mut replay = Replay::new(&snapshot, from, last).unwrap();
    assert!(replay.apply(&content(2)).is_err());
    replay.apply(&content(0)).unwrap();
    assert!(replay.apply(&content(2)).unwrap_err().to_string().contains("missing before it"));
    assert_eq!(replay.last(), Some(last - SECOND * 6));
    for place in (0..content(1).len()).step_by(97) {
        let mut damaged = content(1);
        damaged[place] ^= 1;
        assert!(replay.apply(&damaged).unwrap_err().to_string().contains("damaged"), "byte {place}");
    }
}

#[test]
fn names_read_back_and_stand_in_the_order_of_time() {
    let name = |since: i64, first: u64| SegmentName {
        since: Timestamp::from_millis(since),
        until: Timestamp::from_millis(1_700_000_000_123),
        journal: [0xab; 16],
        first,
        last: first + 9,
        before: Position { journal: [0xcd; 16], number: 7 },
    };
    for (since, first) in [(1_700_000_000_000, 1), (5, 999_999)] {
        assert_eq!(SegmentName::parse(&name(since, first).to_string()), Some(name(since, first)));
    }
    assert!(name(1_600_000_000_000, 90).to_string() < name(1_700_000_000_000, 2).to_string());
    assert_eq!(SegmentName::parse("snapshot.age"), None);
    assert_eq!(SegmentName::parse(&format!("{}-1", name(1, 1))), None);
}

#[tokio::test]
async fn a_lost_segment_makes_the_directory_incomplete_until_the_next_backup() {
    let fixture = Fixture::new();
    let outgoing = OutgoingDirectory::of(fixture.directory.path());
    let key = [3; 8];
    let (_data, store) = fixture.open(1 << 20);
    assert!(!outgoing.is_complete(key));
    let back_up = || outgoing.begin_backup(key).and_then(|()| outgoing.end_backup());
    back_up().unwrap();
    assert!(outgoing.is_complete(key) && !outgoing.is_complete([4; 8]), "of this key only");
    fixture.write(&store, 1..=3).await;
    outgoing.begin_backup(key).unwrap();
    let surplus = fixture.directory.path().join(DIRECTORY).join("surplus");
    std::fs::File::create(&surplus).unwrap().set_len(MOST_BYTES).unwrap();
    store.cut_outgoing().await.unwrap();
    std::fs::remove_file(surplus).unwrap();
    outgoing.end_backup().unwrap();
    assert!(outgoing.segments().unwrap().is_empty());
    assert!(!outgoing.is_complete(key), "not even with the backup that was under way");
    back_up().unwrap();
    assert!(outgoing.is_complete(key));
}
