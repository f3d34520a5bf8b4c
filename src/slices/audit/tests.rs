//! Tests chains on a real store: crash recovery, concurrent recorders, and retention.

use std::{sync::Arc, time::Duration};

use serde_json::value::RawValue;

use tenantd_base::{
    access::Grants,
    clock::{Clock, Timestamp},
    entropy::Entropy,
    id::TenantId,
    secrets::{InstallationKey, Signer},
};
use tenantd_store::{
    RedbEngine, Store, StoreError, WriterSettings,
    events::{Actor, ConsumerTask, Draft, EventKind, Intent, append},
    tasks::{Done, Task},
};

use super::{model, recorder::Recorder, repo, upkeep::Retention, verify};

static CHANGED: EventKind = EventKind {
    name: "setting.changed",
    summary: "",
    subject: "setting",
    schema: "Setting",
    reads: Grants::NONE,
    has_changes: false,
};
static WORK: EventKind = EventKind { name: "ticket.created", ..CHANGED };
const START: i64 = 1_767_225_600_000;

fn store(directory: &tempfile::TempDir) -> Store {
    let path = directory.path().join("store");
    let engine = if path.exists() { RedbEngine::open(&path, 1 << 20, None) } else { RedbEngine::create(&path, 1 << 20) };
    Store::new(engine.unwrap(), WriterSettings { batch_size: 64, queue_length: 64 }).unwrap()
}

fn signer() -> Arc<Signer> {
    let key = InstallationKey::generate(&mut Entropy::from_seed(1));
    Arc::new(Signer::of(&key, model::PURPOSE).unwrap())
}

fn recorder(store: &Store) -> ConsumerTask<Recorder> {
    ConsumerTask::new(store.clone(), Recorder { signer: signer() })
}

fn tenant(number: u8) -> TenantId {
    TenantId::from_bytes([number; 16])
}

async fn append_events(store: &Store, number: u8, kind: &'static EventKind, at: Timestamp, times: usize) {
    let intent = Intent::new(tenant(number), at, Actor::system("test"));
    let write = move |tx: &mut _| {
        let mut act = intent.begin();
        for _ in 0..times {
            let data = RawValue::from_string("{}".to_owned()).unwrap();
            append(tx, &mut act, &Draft::new(kind, "setting_1".to_owned(), 1, &data))?;
        }
        Ok::<_, StoreError>(())
    };
    store.write(write).await.unwrap();
}

fn assert_sound(store: &Store, chains: u64, records: u64) {
    let key = signer().public_key().unwrap();
    let verified = store.read(|tx| super::verify(tx, &key, &[])).unwrap();
    assert!(verified.is_sound(), "{:?}", verified.breaks);
    assert_eq!((verified.chains, verified.records), (chains, records));
}

#[tokio::test]
async fn every_event_is_recorded_exactly_once() {
    let directory = tempfile::tempdir().unwrap();
    let at = Timestamp::from_millis(START);
    {
        let store = store(&directory);
        append_events(&store, 1, &CHANGED, at, 300).await;
        append_events(&store, 2, &CHANGED, at, 5).await;
        append_events(&store, 2, &WORK, at, 50).await;
        let (first, second) = (recorder(&store), recorder(&store));
        let (left, right) = tokio::join!(first.catch_up(), second.catch_up());
        left.and(right).unwrap();
        // Events that are not recorded yet when the store closes, as after a crash.
        append_events(&store, 1, &CHANGED, at, 7).await;
    }
    let store = store(&directory);
    assert_sound(&store, 2, 305);
    recorder(&store).catch_up().await.unwrap();
    assert_sound(&store, 2, 312);
    let head = store.read(|tx| repo::head(tx, tenant(1))).unwrap().unwrap();
    assert_eq!(head.end.checkpoint.statement.number, 307);
    let kept = store.read(|tx| repo::checkpoints_after(tx, tenant(1), 0, 10)).unwrap();
    let numbers: Vec<u64> = kept.iter().map(|placed| placed.checkpoint.statement.number).collect();
    assert_eq!(numbers, [64, 128, 192, 256]);
}

#[tokio::test]
async fn expired_records_are_removed_and_the_rest_verifies() {
    let directory = tempfile::tempdir().unwrap();
    let store = store(&directory);
    let clock = Clock::movable(Timestamp::from_millis(START));
    for _ in 0..30 {
        append_events(&store, 1, &CHANGED, clock.now(), 40).await;
        recorder(&store).catch_up().await.unwrap();
        clock.advance(Duration::from_hours(24));
    }
    append_events(&store, 2, &CHANGED, clock.now(), 1).await;
    recorder(&store).catch_up().await.unwrap();
    assert_sound(&store, 2, 1201);
    let keep = Duration::from_hours(24 * 10);
    let retention = Retention { store: store.clone(), clock: clock.clone(), keep, signer: signer() };
    while retention.activate().await.unwrap() == Done::Some {}
    let head = store.read(|tx| repo::head(tx, tenant(1))).unwrap().unwrap();
    let first = head.end.checkpoint.statement.first;
    // 20 days of 40 records have expired. A chain begins after a checkpoint, and there is at least one per day.
    assert!((740..=801).contains(&first), "{first}");
    assert_sound(&store, 2, 1202 - first);
    let older = store.read(|tx| repo::checkpoints_after(tx, tenant(1), 0, 1)).unwrap();
    assert_eq!(older[0].checkpoint.statement.number, first - 1, "the checkpoint before the first record stays");
    clock.advance(Duration::from_hours(24 * 400));
    while retention.activate().await.unwrap() == Done::Some {}
    append_events(&store, 1, &CHANGED, clock.now(), 1).await;
    recorder(&store).catch_up().await.unwrap();
    let verified = store.read(|tx| verify::verify_store(tx, Some(&signer().public_key().unwrap()), &[])).unwrap();
    assert!(verified.is_sound(), "{:?}", verified.breaks);
}
