//! Tests of the store's public interface, on a real file in a temporary directory.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use serde::{Deserialize, Serialize};

use super::*;
use crate::codec::Record;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Person {
    name: String,
    tags: Vec<String>,
}

impl Record for Person {
    const VERSION: u8 = 1;
}

static BY_TAG: Index<(u8, u32), Person> = Index {
    table: catalog::USERS_BY_EMAIL,
    unique: false,
    keys: |key, person| person.tags.iter().map(|tag| (key.0, tag.clone()).to_bytes()).collect(),
};
static BY_NAME: Index<(u8, u32), Person> =
    Index { table: catalog::TENANTS_BY_SLUG, unique: true, keys: |key, person| vec![(key.0, person.name.clone()).to_bytes()] };
static PEOPLE: Table<(u8, u32), Person> = Table::new(catalog::USERS, &[&BY_TAG, &BY_NAME]);

const SETTINGS: StoreSettings =
    StoreSettings { cache_bytes: 1 << 20, journal_bytes: 1 << 20, writer: WRITER, clock: Clock::System };
const WRITER: WriterSettings = WriterSettings { batch_size: 64, queue_length: 64 };

struct Fixture {
    store: Store,
    directory: tempfile::TempDir,
}

fn fixture() -> Fixture {
    let directory = tempfile::tempdir().unwrap();
    let engine = RedbEngine::create(&directory.path().join("store"), 1 << 20).unwrap();
    Fixture { store: Store::new(engine, WRITER).unwrap(), directory }
}

fn person(name: &str, tags: &[&str]) -> Person {
    Person { name: name.to_owned(), tags: tags.iter().map(|tag| (*tag).to_owned()).collect() }
}

async fn put(store: &Store, key: (u8, u32), person: Person) -> Result<(), StoreError> {
    store.write(move |tx| PEOPLE.put(tx, &key, &person)).await
}

fn tagged(store: &Store, tenant: u8, tag: &str) -> Vec<u32> {
    let prefix = (tenant, tag.to_owned()).to_bytes();
    store
        .read(|tx| {
            let found = BY_TAG.list(tx, &KeyRange::prefix(&prefix), usize::MAX)?;
            Ok::<_, StoreError>(found.into_iter().map(|key| key.1).collect())
        })
        .unwrap()
}

#[tokio::test]
async fn index_entries_follow_their_record() {
    let Fixture { store, .. } = fixture();
    put(&store, (1, 7), person("ada", &["a", "b"])).await.unwrap();
    put(&store, (2, 8), person("ada", &["a"])).await.unwrap();
    assert_eq!(tagged(&store, 1, "a"), [7]);
    put(&store, (1, 7), person("ada", &["b", "c"])).await.unwrap();
    assert!(tagged(&store, 1, "a").is_empty());
    assert_eq!((tagged(&store, 1, "b"), tagged(&store, 1, "c"), tagged(&store, 2, "a")), (vec![7], vec![7], vec![8]));
    let removed = store.write(|tx| PEOPLE.remove(tx, &(1, 7))).await.unwrap();
    assert_eq!(removed.map(|person| person.name), Some("ada".to_owned()));
    assert!(tagged(&store, 1, "c").is_empty());
    let report = store.check(vec![&PEOPLE]).await.unwrap();
    assert!(report.is_clean(), "{report:?}");
    assert_eq!((report.records, report.index_entries), (1, 2));
}

#[tokio::test]
async fn a_duplicate_unique_key_is_refused() {
    let Fixture { store, .. } = fixture();
    put(&store, (1, 7), person("ada", &["a"])).await.unwrap();
    assert!(put(&store, (1, 9), person("ada", &["a"])).await.is_err());
    assert_eq!(tagged(&store, 1, "a"), [7]);
    assert!(store.check(vec![&PEOPLE]).await.unwrap().is_clean());
}

#[tokio::test]
async fn a_failed_write_does_not_affect_its_batch() {
    let Fixture { store, .. } = fixture();
    let runs = Arc::new(AtomicUsize::new(0));
    let writes = (0..20_u32).map(|number| {
        let (store, runs) = (store.clone(), runs.clone());
        async move {
            store
                .write(move |tx| {
                    runs.fetch_add(1, Ordering::SeqCst);
                    PEOPLE.put(tx, &(1, number), &person(&number.to_string(), &["all"]))?;
                    if number % 5 == 3 { Err(StoreError::Engine("refused by the test".to_owned())) } else { Ok(number) }
                })
                .await
        }
    });
    let outcomes = futures(writes).await;
    for (number, outcome) in outcomes.iter().enumerate() {
        assert_eq!(outcome.is_err(), number % 5 == 3, "{number}");
    }
    assert_eq!(tagged(&store, 1, "all").len(), 16);
    assert!(store.check(vec![&PEOPLE]).await.unwrap().is_clean());
    assert!(store.failure().is_none());
}

#[tokio::test]
async fn a_rehearsed_write_stores_nothing() {
    let Fixture { store, .. } = fixture();
    put(&store, (1, 7), person("ada", &["a"])).await.unwrap();
    let rehearsed = rehearse(put(&store, (1, 8), person("grace", &["a"])));
    let (rehearsed, written) = tokio::join!(rehearsed, put(&store, (1, 9), person("mary", &["a"])));
    assert!(matches!(rehearsed, Err(StoreError::Rehearsed)), "{rehearsed:?}");
    assert!(written.is_ok());
    let taken = rehearse(put(&store, (1, 8), person("ada", &[]))).await;
    assert!(!matches!(taken, Ok(()) | Err(StoreError::Rehearsed)), "{taken:?}");
    assert_eq!(tagged(&store, 1, "a"), [7, 9]);
    assert!(store.check(vec![&PEOPLE]).await.unwrap().is_clean());
}

#[tokio::test]
async fn a_panic_fails_only_its_own_write() {
    let Fixture { store, .. } = fixture();
    let panicking = store.write(|tx| {
        PEOPLE.put(tx, &(1, 1), &person("a", &[]))?;
        assert!(tx.raw_get(catalog::USERS.into(), &[]).is_err(), "on purpose");
        Ok::<(), StoreError>(())
    });
    assert!(matches!(panicking.await, Err(StoreError::Panicked(text)) if text == "on purpose"));
    put(&store, (1, 2), person("b", &[])).await.unwrap();
    assert!(store.read(|tx| PEOPLE.get(tx, &(1, 1))).unwrap().is_none());
    assert!(store.read(|tx| PEOPLE.get(tx, &(1, 2))).unwrap().is_some());
}

#[tokio::test]
async fn a_scan_may_write_to_the_table_that_it_reads() {
    let Fixture { store, .. } = fixture();
    for number in 0..200 {
        put(&store, (1, number), person(&number.to_string(), &["t"])).await.unwrap();
    }
    let prefix = (1_u8, "t".to_owned()).to_bytes();
    for direction in [Direction::Forward, Direction::Backward] {
        let prefix = prefix.clone();
        let walked = store
            .write(move |tx| {
                let mut walked = Vec::new();
                BY_TAG.scan(tx, &KeyRange::prefix(&prefix), direction, |key, _| {
                    assert!(PEOPLE.get(tx, &key)?.is_some());
                    walked.push(key.1);
                    Ok(Flow::Continue)
                })?;
                for number in &walked {
                    PEOPLE.put(tx, &(1, *number), &person(&format!("{direction:?} {number}"), &["t"]))?;
                }
                Ok::<_, StoreError>(walked)
            })
            .await
            .unwrap();
        let mut expected: Vec<u32> = (0..200).collect();
        if direction == Direction::Backward {
            expected.reverse();
        }
        assert_eq!(walked, expected);
    }
    assert!(store.check(vec![&PEOPLE]).await.unwrap().is_clean());
}

#[tokio::test]
async fn a_version_changes_only_with_its_table() {
    let Fixture { store, .. } = fixture();
    let (people, tenants) = (store.version(catalog::USERS), store.version(catalog::TENANTS));
    put(&store, (1, 1), person("a", &[])).await.unwrap();
    store.changed(catalog::USERS, people).await;
    assert!(store.version(catalog::USERS) > people);
    assert_eq!(store.version(catalog::TENANTS), tenants);
}

#[tokio::test]
async fn a_snapshot_of_a_damaged_store_is_refused() {
    let Fixture { store, directory } = fixture();
    store.set_checked_tables(vec![&PEOPLE]);
    put(&store, (1, 1), person("ada", &["t"])).await.unwrap();
    store.snapshot(directory.path().join("good")).await.unwrap();
    let damage = |tx: &mut WriteTx| {
        tx.raw_put(catalog::USERS.into(), (1_u8, 1_u32).to_bytes(), b"damaged".to_vec());
        Ok::<_, StoreError>(())
    };
    store.write(damage).await.unwrap();
    let refused = store.snapshot(directory.path().join("bad")).await.unwrap_err().to_string();
    assert!(refused.contains("the store itself is damaged"), "{refused}");
    assert!(!directory.path().join("bad").exists());
}

#[tokio::test]
async fn a_snapshot_of_the_live_store_has_the_same_content() {
    let Fixture { store, directory } = fixture();
    for number in 0..300 {
        put(&store, (1, number), person(&number.to_string(), &["t"])).await.unwrap();
    }
    let path = directory.path().join("copy");
    let report = store.snapshot(path.clone()).await.unwrap();
    assert_eq!(report.records(), 900);
    put(&store, (1, 999), person("later", &[])).await.unwrap();
    let copy = Store::new(RedbEngine::open(&path, 1 << 20, None).unwrap(), WRITER).unwrap();
    assert!(copy.check(vec![&PEOPLE]).await.unwrap().is_clean());
    assert_eq!(tagged(&copy, 1, "t").len(), 300);
    assert!(copy.read(|tx| PEOPLE.get(tx, &(1, 999))).unwrap().is_none());
    assert!(store.snapshot(path).await.is_err());
}

#[tokio::test]
async fn a_write_waits_for_space_unless_it_may_use_the_reserve() {
    let Fixture { store, .. } = fixture();
    store.volume().set_room(WriteRoom::Short);
    assert!(matches!(store.ensure_room(), Err(StoreError::NoRoom)));
    let waiting = tokio::spawn({
        let store = store.clone();
        async move { put(&store, (1, 1), person("waits", &[])).await }
    });
    within_reserve(put(&store, (1, 2), person("goes on", &[]))).await.unwrap();
    assert!(!waiting.is_finished());
    assert_eq!(store.read(|tx| PEOPLE.list(tx, &KeyRange::ALL, 10)).unwrap().len(), 1);
    store.volume().set_room(WriteRoom::Ample);
    waiting.await.unwrap().unwrap();
    assert_eq!(store.read(|tx| PEOPLE.list(tx, &KeyRange::ALL, 10)).unwrap().len(), 2);
    store.volume().set_room(WriteRoom::Exhausted);
    let refused = within_reserve(put(&store, (1, 4), person("refused", &[]))).await;
    assert!(matches!((refused, store.ensure_reserve()), (Err(StoreError::NoReserve), Err(StoreError::NoReserve))));
    let waiting = tokio::spawn({
        let store = store.clone();
        reserve::within_reserve_in_background(async move { put(&store, (1, 5), person("a task", &[])).await })
    });
    tokio::task::yield_now().await;
    assert!(!waiting.is_finished());
    store.volume().set_room(WriteRoom::Short);
    waiting.await.unwrap().unwrap();
    assert_eq!(store.read(|tx| PEOPLE.list(tx, &KeyRange::ALL, 10)).unwrap().len(), 3);
    store.begin_shutdown();
    store.volume().set_room(WriteRoom::Exhausted);
    put(&store, (1, 3), person("the last", &[])).await.unwrap();
}

#[tokio::test]
async fn damage_is_reported_with_table_and_key() {
    let Fixture { store, .. } = fixture();
    put(&store, (1, 1), person("a", &["t"])).await.unwrap();
    store
        .write(|tx| {
            tx.raw_put(catalog::USERS.into(), (1_u8, 1_u32).to_bytes(), b"not a record".to_vec());
            tx.raw_put(catalog::USERS_BY_EMAIL.into(), b"stray".to_vec(), Vec::new());
            Ok::<_, StoreError>(())
        })
        .await
        .unwrap();
    assert!(matches!(store.read(|tx| PEOPLE.get(tx, &(1, 1))), Err(StoreError::Damaged { table, .. }) if table == "users"));
    let report = store.check(vec![&PEOPLE]).await.unwrap();
    assert!(report.problems.iter().any(|problem| problem.contains("table users is damaged at key 0100000001")), "{report:?}");
    assert!(report.problems.iter().any(|problem| problem.contains("users_by_email has 2 entries")), "{report:?}");
}

/// An engine whose commits fail. The outcome of a write is then unknown.
struct FailingEngine(RedbEngine);

impl engine::Engine for FailingEngine {
    fn begin_read(&self) -> Result<Box<dyn engine::EngineRead>, StoreError> {
        self.0.begin_read()
    }

    fn commit(&self, _changes: changes::Changes, _durability: engine::Durability) -> Result<(), StoreError> {
        Err(StoreError::Engine("fdatasync: input/output error".to_owned()))
    }

    fn settle(&self) -> Result<(), StoreError> {
        self.0.settle()
    }

    fn rests_in(&self) -> Option<std::time::Duration> {
        self.0.rests_in()
    }
}

#[tokio::test]
async fn after_a_failed_commit_the_outcome_is_unknown_and_the_store_stops_writing() {
    let directory = tempfile::tempdir().unwrap();
    let engine = RedbEngine::create(&directory.path().join("store"), 1 << 20).unwrap();
    let store = Store::new(FailingEngine(engine), WRITER).unwrap();
    assert!(matches!(put(&store, (1, 1), person("a", &[])).await, Err(StoreError::OutcomeUnknown(_))));
    assert!(store.failed().await.contains("input/output error"));
    assert!(matches!(put(&store, (1, 2), person("b", &[])).await, Err(StoreError::Unavailable(_))));
    assert!(store.read(|tx| PEOPLE.get(tx, &(1, 1))).unwrap().is_none());
}

/// Opens the store of the directory as a process does that then dies without closing anything.
async fn write_and_die(data: &DataDirectory, number: u32) {
    let (store, _) = data.open_store(SETTINGS, None).unwrap();
    put(&store, (1, number), person(&number.to_string(), &["t"])).await.unwrap();
    for name in ["tenantd.redb", "tenantd.journal"] {
        std::fs::copy(data.path().join(name), data.path().join(format!("{name}.kept"))).unwrap();
    }
    drop(store);
    for name in ["tenantd.redb", "tenantd.journal"] {
        std::fs::rename(data.path().join(format!("{name}.kept")), data.path().join(name)).unwrap();
    }
}

#[tokio::test]
async fn a_start_replays_the_journal() {
    let directory = tempfile::tempdir().unwrap();
    let data = DataDirectory::lock(directory.path()).unwrap();
    data.initialize([7; 16], || Ok([1; 8])).unwrap();
    for number in 0..3 {
        write_and_die(&data, number).await;
    }
    let without = RedbEngine::open(&data.store_file(), 1 << 20, None).unwrap_err();
    assert!(without.to_string().contains("start tenantd there once"), "{without}");
    let (store, _) = data.open_store(SETTINGS, None).unwrap();
    assert_eq!(tagged(&store, 1, "t"), [0, 1, 2]);
    drop(store);
    RedbEngine::open(&data.store_file(), 1 << 20, None).unwrap();
}

#[tokio::test]
async fn a_lost_journal_is_reported_after_a_crash() {
    let directory = tempfile::tempdir().unwrap();
    let data = DataDirectory::lock(directory.path()).unwrap();
    data.initialize([7; 16], || Ok([1; 8])).unwrap();
    let journal = directory.path().join("tenantd.journal");
    write_and_die(&data, 1).await;
    let aside = directory.path().join("aside");
    std::fs::rename(&journal, &aside).unwrap();
    let refused = data.open_store(SETTINGS, None).unwrap_err();
    assert!(refused.to_string().contains("tenantd.journal is missing"), "{refused}");
    std::fs::rename(&aside, &journal).unwrap();
    drop(data.open_store(SETTINGS, None).unwrap());
    std::fs::remove_file(&journal).unwrap();
    let (store, _) = data.open_store(SETTINGS, None).unwrap();
    assert_eq!(tagged(&store, 1, "t"), [1]);
}

fn add_one(tx: &mut WriteTx) -> Result<Progress, StoreError> {
    let count = PEOPLE.list(tx, &KeyRange::ALL, 10)?.len();
    PEOPLE.put(tx, &(9, u32::try_from(count).unwrap()), &person(&count.to_string(), &[]))?;
    Ok(if count == 2 { Progress::Done } else { Progress::More })
}

static STEPS: [Step; 1] = [Step { from: FORMAT, advance: add_one }];

#[tokio::test]
async fn a_migration_runs_once_in_steps() {
    let directory = tempfile::tempdir().unwrap();
    let data = DataDirectory::lock(directory.path()).unwrap();
    data.initialize([7; 16], || Ok([1; 8])).unwrap();
    let (store, _) = data.open_store(SETTINGS, None).unwrap();
    store.migrate(&STEPS).await.unwrap();
    store.migrate(&STEPS).await.unwrap();
    assert_eq!(store.read(|tx| PEOPLE.list(tx, &KeyRange::ALL, 10)).unwrap().len(), 3);
    let format = store.read(Installation::read).unwrap().format;
    assert_eq!(format, FORMAT + 1);
    drop(store);
    let refused = data.open_store(SETTINGS, None);
    assert!(matches!(refused, Err(StoreError::Installation(text)) if text.contains("install tenantd")));
}

#[test]
fn an_installation_needs_both_store_and_id() {
    let directory = tempfile::tempdir().unwrap();
    let data = DataDirectory::lock(directory.path()).unwrap();
    assert!(!data.is_initialized().unwrap());
    data.initialize([7; 16], || Ok([1; 8])).unwrap();
    assert!(data.is_initialized().unwrap());
    assert!(data.initialize([8; 16], || Ok([1; 8])).is_err());
    let store_file = data.store_file();
    let aside = directory.path().join("aside");
    std::fs::rename(&store_file, &aside).unwrap();
    assert!(data.is_initialized().unwrap_err().to_string().contains("is the right volume mounted?"));
    std::fs::write(&store_file, "").unwrap();
    assert!(data.open_store(SETTINGS, None).is_err());
    std::fs::rename(&aside, &store_file).unwrap();
    data.open_store(SETTINGS, None).unwrap();
    std::fs::write(directory.path().join("installation.id"), "00").unwrap();
    let other = data.open_store(SETTINGS, None).unwrap_err();
    assert!(other.to_string().contains("different installations"));
}

#[test]
fn an_interrupted_initialization_starts_over() {
    let directory = tempfile::tempdir().unwrap();
    let data = DataDirectory::lock(directory.path()).unwrap();
    assert!(data.initialize([7; 16], || Err(StoreError::Engine("cut off".to_owned()))).is_err());
    assert!(!data.is_initialized().unwrap());
    data.initialize([9; 16], || Ok([1; 8])).unwrap();
    assert_eq!(data.open_store(SETTINGS, None).unwrap().1.id, [9; 16]);
}

#[test]
fn a_locked_directory_names_the_holder_s_pid() {
    let directory = tempfile::tempdir().unwrap();
    let _held = DataDirectory::lock(directory.path()).unwrap();
    let refused = DataDirectory::lock(directory.path()).unwrap_err().to_string();
    assert!(refused.contains(&format!("in use by process {}", std::process::id())), "{refused}");
}

/// Runs the futures concurrently and returns their results in order.
async fn futures<F>(work: impl IntoIterator<Item = F>) -> Vec<F::Output>
where
    F: Future<Output: Send + 'static> + Send + 'static,
{
    let tasks: Vec<_> = work.into_iter().map(tokio::spawn).collect();
    let mut results = Vec::new();
    for task in tasks {
        results.push(task.await.unwrap());
    }
    results
}

/// The journal is full after a few writes, so changes are flushed to the file again and again during the writes that follow.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn readers_see_every_write_once_during_a_flush() {
    let directory = tempfile::tempdir().unwrap();
    let data = DataDirectory::lock(directory.path()).unwrap();
    data.initialize([7; 16], || Ok([1; 8])).unwrap();
    let settings = StoreSettings { journal_bytes: 48 << 10, ..SETTINGS };
    let (store, _) = data.open_store(settings.clone(), None).unwrap();
    let writing = tokio::spawn({
        let store = store.clone();
        async move {
            for number in 0..600_u32 {
                put(&store, (1, number), person(&number.to_string(), &["t"])).await.unwrap();
                if number.is_multiple_of(3) {
                    store.write(move |tx| PEOPLE.remove(tx, &(1, number))).await.unwrap();
                }
            }
        }
    });
    let mut seen = 0;
    while !writing.is_finished() {
        let (records, tags) = store
            .read(|tx| {
                let records: Vec<u32> = PEOPLE.list(tx, &KeyRange::ALL, usize::MAX)?.into_iter().map(|((_, key), _)| key).collect();
                let prefix = (1_u8, "t".to_owned()).to_bytes();
                let tags: Vec<u32> =
                    BY_TAG.list(tx, &KeyRange::prefix(&prefix), usize::MAX)?.into_iter().map(|key| key.1).collect();
                Ok::<_, StoreError>((records, tags))
            })
            .unwrap();
        assert_eq!(records, tags);
        let gaps = records.windows(2).filter(|pair| pair[1] - pair[0] > 2).count();
        assert_eq!(gaps, 0, "{records:?}");
        assert!(records.len() + 1 >= seen, "{} after {seen}", records.len());
        seen = records.len();
        tokio::task::yield_now().await;
    }
    writing.await.unwrap();
    drop(store);
    let (store, _) = data.open_store(settings, None).unwrap();
    assert_eq!(tagged(&store, 1, "t").len(), 400);
    assert!(store.check(vec![&PEOPLE]).await.unwrap().is_clean());
}
