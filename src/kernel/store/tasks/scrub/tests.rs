//! Tests of rounds across restarts and with damage.

use std::{collections::BTreeSet, os::unix::fs::FileExt, path::Path};

use serde::{Deserialize, Serialize};

use super::*;
use crate::{DataDirectory, StoreSettings, Table, WriterSettings, catalog, codec::Record};

const SETTINGS: StoreSettings = StoreSettings {
    cache_bytes: 1 << 20,
    journal_bytes: 1 << 20,
    writer: WriterSettings { batch_size: 8, queue_length: 8 },
    clock: Clock::System,
};
const DAYS: u32 = 7;
const DAY: Duration = Duration::from_hours(24);

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Note(String);

impl Record for Note {
    const VERSION: u8 = 1;
}

static USERS: Table<u32, Note> = Table::new(catalog::USERS, &[]);
static TENANTS: Table<u32, Note> = Table::new(catalog::TENANTS, &[]);

struct Fixture {
    directory: tempfile::TempDir,
    clock: Clock,
}

impl Fixture {
    async fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let data = DataDirectory::lock(directory.path()).unwrap();
        data.initialize([7; 16], || Ok([1; 8])).unwrap();
        drop(data);
        let fixture = Self { directory, clock: Clock::movable(Timestamp::from_millis(1_700_000_000_000)) };
        let (_data, store) = fixture.open();
        let write = store.write(|tx| {
            for number in 0..300 {
                USERS.put(tx, &number, &Note(format!("user {number:500}")))?;
                TENANTS.put(tx, &number, &Note(format!("tenant {number}")))?;
            }
            Ok::<_, StoreError>(())
        });
        write.await.unwrap();
        fixture
    }

    fn open(&self) -> (DataDirectory, Store) {
        let data = DataDirectory::lock(self.directory.path()).unwrap();
        let (store, _) = data.open_store(SETTINGS, None).unwrap();
        (data, store)
    }

    /// Leaves the directory as if the process that has it open had died.
    fn crash(&self, data: DataDirectory, store: Store) {
        let files = ["tenantd.redb", "tenantd.journal", "tenantd.witness"].map(|file| self.directory.path().join(file));
        let left = files.each_ref().map(|file| std::fs::read(file).unwrap());
        drop((store, data));
        for (file, content) in files.iter().zip(left) {
            std::fs::write(file, content).unwrap();
        }
    }

    fn task(&self, store: &Store) -> Scrub {
        let tables = [Scrub::tables(), vec![&USERS, &TENANTS]].concat();
        let file = DataDirectory::store_file_in(self.directory.path());
        Scrub::new(store.clone(), self.clock.clone(), DAYS, tables, file)
    }

    /// Starts, activates the task `activations` times, and stops. Returns the state.
    async fn run(&self, activations: usize) -> ScrubState {
        let (_data, store) = self.open();
        let task = self.task(&store);
        for _ in 0..activations {
            if task.activate().await.unwrap() == Done::All {
                break;
            }
        }
        store.read(scrub_state).unwrap().unwrap()
    }
}

/// Enough activations to begin, read the six parts, end, and find nothing more to do.
const WHOLE_ROUND: usize = 9;

#[tokio::test]
async fn a_round_is_due_a_period_after_the_last_one_began() {
    let fixture = Fixture::new().await;
    let first = fixture.run(WHOLE_ROUND).await;
    assert_eq!((first.last, first.current), (None, None), "the first round is not due at once");
    fixture.clock.advance(DAY * 6);
    assert_eq!(fixture.run(WHOLE_ROUND).await.last, None);
    fixture.clock.advance(DAY);
    let last = fixture.run(WHOLE_ROUND).await.last.unwrap();
    assert_eq!((last.records, last.problems.number), (601, 0));
    assert_eq!(last.began_at, fixture.clock.now());
    fixture.clock.advance(DAY * 6);
    assert_eq!(fixture.run(WHOLE_ROUND).await.last.unwrap().began_at, last.began_at);
    fixture.clock.advance(DAY);
    let state = fixture.run(WHOLE_ROUND).await;
    assert_eq!(state.last.unwrap().began_at, fixture.clock.now());
    assert_eq!(state.last_sound_at, Some(fixture.clock.now()));
}

#[tokio::test]
async fn a_restart_continues_with_the_next_part() {
    let fixture = Fixture::new().await;
    fixture.run(1).await;
    fixture.clock.advance(DAY * 7);
    // Each start makes one activation, at a different time.
    let mut parts = vec![fixture.run(1).await.current.unwrap()];
    let began_at = fixture.clock.now();
    while parts.len() < 20 {
        fixture.clock.advance(DAY / 24);
        let state = fixture.run(1).await;
        let Some(round) = state.current else {
            let last = state.last.unwrap();
            assert_eq!((last.records, last.began_at, last.ended_at), (601, began_at, fixture.clock.now()));
            break;
        };
        assert_eq!(round.began_at, began_at);
        parts.push(round);
    }
    let done: Vec<usize> = parts.iter().map(|round| round.done.len()).collect();
    assert_eq!(done, [0, 1, 2, 3, 4, 5, 6]);
    assert_eq!(parts.last().unwrap().done, ["pages", "scrub", "users", "tenants", "sums", "segments"]);
}

#[tokio::test]
async fn a_store_not_closed_in_order_is_read_at_once() {
    let fixture = Fixture::new().await;
    fixture.run(1).await;
    let (data, store) = fixture.open();
    fixture.crash(data, store);
    let (data, store) = fixture.open();
    let task = fixture.task(&store);
    assert_eq!(task.activate().await.unwrap(), Done::Some);
    assert_eq!(task.activate().await.unwrap(), Done::Some);
    let round = store.read(scrub_state).unwrap().unwrap().current.unwrap();
    assert_eq!(round.done, ["pages"]);
    drop(task);
    // A crash in the middle of the round: the round continues, and another one follows.
    fixture.crash(data, store);
    let (_data, store) = fixture.open();
    let task = fixture.task(&store);
    let mut began = BTreeSet::new();
    fixture.clock.advance(DAY / 24);
    while task.activate().await.unwrap() == Done::Some {
        let state = store.read(scrub_state).unwrap().unwrap();
        began.extend(state.last.map(|last| last.began_at));
        began.extend(state.current.map(|round| round.began_at));
    }
    assert_eq!(began.len(), 2, "{began:?}");
    assert_eq!(store.read(scrub_state).unwrap().unwrap().last.unwrap().began_at, fixture.clock.now());
}

#[tokio::test]
async fn damage_is_reported_until_a_round_finds_none() {
    let fixture = Fixture::new().await;
    fixture.run(1).await;
    {
        let (_data, store) = fixture.open();
        let damage = |tx: &mut crate::WriteTx| {
            tx.raw_put(catalog::USERS.into(), 3_u32.to_be_bytes().to_vec(), b"not a record".to_vec());
            Ok::<_, StoreError>(())
        };
        store.write(damage).await.unwrap();
    }
    fixture.clock.advance(DAY * 7);
    // Up to the part with the damage, then a restart.
    assert_eq!(fixture.run(4).await.current.unwrap().problems.number, 1);
    let (data, store) = fixture.open();
    let task = fixture.task(&store);
    task.activate().await.unwrap();
    assert!(task.concern().unwrap().ends_with("the last scrub: 1"), "{:?}", task.concern());
    while task.activate().await.unwrap() == Done::Some {}
    let state = store.read(scrub_state).unwrap().unwrap();
    assert_eq!(state.last_sound_at, None);
    let first = state.last.unwrap().problems.first;
    assert!(first.iter().any(|problem| problem.contains("table users is damaged at key 00000003")), "{first:?}");
    drop((task, store, data));

    let (_data, store) = fixture.open();
    let task = fixture.task(&store);
    assert_eq!(task.activate().await.unwrap(), Done::All);
    assert!(task.concern().unwrap().ends_with("the last scrub: 1"));
    store.write(|tx| USERS.put(tx, &3, &Note("mended".to_owned()))).await.unwrap();
    fixture.clock.advance(DAY * 7);
    while task.activate().await.unwrap() == Done::Some {}
    assert_eq!(task.concern(), None);
}

fn flip(path: &Path, at: u64) {
    let file = std::fs::OpenOptions::new().read(true).write(true).open(path).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).unwrap();
    file.write_all_at(&[byte[0] ^ 1], at).unwrap();
}

#[tokio::test]
async fn a_damaged_page_of_the_live_file_is_found() {
    let fixture = Fixture::new().await;
    fixture.run(1).await;
    fixture.clock.advance(DAY * 7);
    let (_data, store) = fixture.open();
    let file = DataDirectory::store_file_in(fixture.directory.path());
    let bytes = std::fs::read(&file).unwrap();
    let needle = format!("user {:500}", 7);
    // Pages that were freed may hold an older copy.
    let places = bytes.windows(needle.len()).enumerate().filter(|(_, window)| *window == needle.as_bytes());
    for (place, _) in places {
        flip(&file, place as u64 + 100);
    }
    let task = fixture.task(&store);
    task.activate().await.unwrap();
    task.activate().await.unwrap();
    let round = store.read(scrub_state).unwrap().unwrap().current.unwrap();
    assert_eq!(round.done, ["pages"]);
    assert_eq!(round.problems.first, ["a page of the store's file does not match its checksum"]);
}

#[tokio::test]
async fn a_stop_leaves_the_part_to_the_next_start() {
    let fixture = Fixture::new().await;
    fixture.run(1).await;
    fixture.clock.advance(DAY * 7);
    let before = fixture.run(3).await;
    let (_data, store) = fixture.open();
    store.begin_shutdown();
    assert_eq!(fixture.task(&store).activate().await.unwrap(), Done::All);
    assert_eq!(store.read(scrub_state).unwrap().unwrap(), before);
}
