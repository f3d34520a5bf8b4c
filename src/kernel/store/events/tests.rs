//! Tests of the log as its readers see it, on a real store.

use std::{sync::Arc, time::Duration};

use serde_json::value::RawValue;
use tokio::sync::watch;

use tenantd_base::{
    access::Grants,
    clock::{Clock, Timestamp},
    id::TenantId,
};

use super::*;
use crate::{RedbEngine, Store, StoreError, TenantRows, WriteTx, WriterSettings, tasks::Tasks};

static CREATED: EventKind =
    EventKind { name: "thing.created", summary: "", subject: "thing", schema: "Thing", reads: Grants::NONE, has_changes: false };
static UPDATED: EventKind = EventKind { name: "thing.updated", ..CREATED };

fn store(directory: &tempfile::TempDir) -> Store {
    let path = directory.path().join("store");
    let engine = if path.exists() { RedbEngine::open(&path, 1 << 20, None) } else { RedbEngine::create(&path, 1 << 20) };
    Store::new(engine.unwrap(), WriterSettings { batch_size: 64, queue_length: 64 }).unwrap()
}

async fn record(store: &Store, tenant: u8, kind: &'static EventKind) -> u64 {
    record_many(store, tenant, kind, 1).await
}

/// Returns the number of the last event.
async fn record_many(store: &Store, tenant: u8, kind: &'static EventKind, count: usize) -> u64 {
    record_data(store, (tenant, kind), count, "{\"a\":1}".to_owned()).await
}

async fn record_data(store: &Store, (tenant, kind): (u8, &'static EventKind), count: usize, data: String) -> u64 {
    let intent = Intent::new(TenantId::from_bytes([tenant; 16]), Timestamp::from_millis(5), Actor::system("test"));
    store
        .write(move |tx| {
            let data = RawValue::from_string(data.clone()).unwrap();
            let draft = Draft::new(kind, "thing_1".to_owned(), 1, &data);
            let mut act = intent.begin();
            (0..count).try_fold(0, |_, _| append(tx, &mut act, &draft))
        })
        .await
        .unwrap()
}

fn query(tenant: u8, after: u64, patterns: Vec<EventPattern>, limit: usize) -> FeedQuery {
    FeedQuery { tenant_id: TenantId::from_bytes([tenant; 16]), after, patterns, readable: None, limit }
}

fn numbers(page: &FeedPage) -> Vec<u64> {
    page.events.iter().map(|event| event.record.number).collect()
}

#[tokio::test]
async fn a_feed_pages_through_its_tenant_s_events() {
    let directory = tempfile::tempdir().unwrap();
    let store = store(&directory);
    for tenant in [1, 2, 1, 1, 2] {
        record(&store, tenant, if tenant == 1 { &CREATED } else { &UPDATED }).await;
    }
    let read = |query: FeedQuery| store.read(|tx| read_feed(tx, &query)).unwrap();
    let first = read(query(1, 0, vec![], 2));
    assert_eq!((numbers(&first), first.next_after, first.more), (vec![1, 2], 2, true));
    let second = read(query(1, first.next_after, vec![], 2));
    assert_eq!((numbers(&second), second.next_after, second.more), (vec![3], 3, false));
    let none = read(query(1, 0, vec![EventPattern::Exact("thing.updated".to_owned())], 2));
    assert_eq!((numbers(&none), none.next_after), (vec![], 3));
    let area = read(query(2, 0, vec![EventPattern::Area("thing".to_owned())], 9));
    assert_eq!(numbers(&area), [1, 2]);
    let body: serde_json::Value = serde_json::from_slice(&area.events[1].record.body).unwrap();
    assert_eq!(body["seq"], 2);
    assert_eq!(body["type"], "thing.updated");
    assert_eq!(body["data"], serde_json::json!({"thing": {"a": 1}}));
}

#[tokio::test]
async fn a_filter_finds_events_far_apart_in_a_long_log() {
    let directory = tempfile::tempdir().unwrap();
    let store = store(&directory);
    record_many(&store, 1, &CREATED, feed::MAX_EXAMINED + 10).await;
    let wanted = record(&store, 1, &UPDATED).await;
    let read = |after: u64| {
        let query = query(1, after, vec![EventPattern::Exact("thing.updated".to_owned())], 5);
        store.read(|tx| read_feed(tx, &query)).unwrap()
    };
    let first = read(0);
    assert_eq!((numbers(&first), first.next_after, first.more), (vec![], feed::MAX_EXAMINED as u64, true));
    let second = read(first.next_after);
    assert_eq!((numbers(&second), second.more), (vec![wanted], false));
}

#[tokio::test]
async fn a_refused_write_leaves_no_gap() {
    let directory = tempfile::tempdir().unwrap();
    let store = store(&directory);
    record(&store, 1, &CREATED).await;
    let intent = Intent::new(TenantId::from_bytes([1; 16]), Timestamp::EPOCH, Actor::system("test"));
    let refused: Result<(), StoreError> = store
        .write(move |tx| {
            let data = RawValue::from_string("{}".to_owned()).unwrap();
            append(tx, &mut intent.begin(), &Draft::new(&CREATED, "x".to_owned(), 1, &data))?;
            Err(StoreError::Engine("refused".to_owned()))
        })
        .await;
    assert!(refused.is_err());
    assert_eq!(record(&store, 1, &CREATED).await, 2);
}

/// Counts events and fails if one comes twice.
struct Counting {
    seen: Arc<watch::Sender<u64>>,
}

impl Consumer for Counting {
    fn name(&self) -> &'static str {
        "counting"
    }

    fn handle(&self, _tx: &mut WriteTx, events: &[Event]) -> Result<(), StoreError> {
        for event in events {
            let last = *self.seen.borrow();
            assert_eq!(event.seq, last + 1, "an event came twice or out of order");
            self.seen.send_replace(event.seq);
        }
        Ok(())
    }
}

#[tokio::test]
async fn a_consumer_wakes_on_commits_and_resumes_after_a_restart() {
    let directory = tempfile::tempdir().unwrap();
    let seen = Arc::new(watch::Sender::new(0));
    for round in 1..=2_u64 {
        let store = store(&directory);
        let mut tasks = Tasks::new(Clock::movable(Timestamp::EPOCH));
        tasks.spawn(ConsumerTask::new(store.clone(), Counting { seen: seen.clone() }));
        for _ in 0..300 {
            record(&store, 1, &CREATED).await;
        }
        let mut watching = seen.subscribe();
        watching.wait_for(|seq| *seq == round * 300).await.unwrap();
        tasks.shutdown().await;
    }
}

#[tokio::test]
async fn retention_keeps_recent_and_unread_events() {
    let directory = tempfile::tempdir().unwrap();
    let store = store(&directory);
    record(&store, 1, &CREATED).await;
    let clock = Clock::movable(Timestamp::EPOCH);
    let retention = Retention::new(store.clone(), clock.clone(), 30, vec!["nobody"]);
    clock.advance(Duration::from_hours(24 * 365));
    // The only segment is still being written, so it stays regardless of its age.
    assert_eq!(crate::tasks::Task::activate(&retention).await.unwrap(), crate::tasks::Done::All);
    assert_eq!(store.read(|tx| read_feed(tx, &query(1, 0, vec![], 9))).unwrap().events.len(), 1);
}

/// Writes more events than a segment has, in parts. `at` gives the time of each part.
async fn fill_a_segment(store: &Store, at: fn(u32) -> Timestamp) {
    for part in 0..17 {
        let intent = Intent::new(TenantId::from_bytes([1; 16]), at(part), Actor::system("test"));
        store
            .write(move |tx| {
                let mut act = intent.begin();
                let data = RawValue::from_string("{}".to_owned()).unwrap();
                let draft = Draft::new(&CREATED, "x".to_owned(), 1, &data);
                for _ in 0..4096 {
                    append(tx, &mut act, &draft)?;
                }
                Ok::<_, StoreError>(())
            })
            .await
            .unwrap();
    }
}

#[tokio::test]
async fn retention_keeps_a_segment_with_any_recent_event() {
    let directory = tempfile::tempdir().unwrap();
    let store = store(&directory);
    // Events with an old time come after newer ones.
    fill_a_segment(&store, |part| Timestamp::EPOCH.plus_days(if part == 3 { 20 } else { 0 })).await;
    let clock = Clock::movable(Timestamp::EPOCH.plus_days(31));
    let retention = Retention::new(store.clone(), clock.clone(), 30, vec![]);
    assert_eq!(crate::tasks::Task::activate(&retention).await.unwrap(), crate::tasks::Done::All);
    clock.advance(Duration::from_hours(24 * 20));
    assert_eq!(crate::tasks::Task::activate(&retention).await.unwrap(), crate::tasks::Done::Some);
}

#[tokio::test]
async fn erased_events_keep_only_their_places() {
    let directory = tempfile::tempdir().unwrap();
    let store = store(&directory);
    for tenant in [1, 2, 1, 1, 2] {
        record(&store, tenant, &CREATED).await;
    }
    let gone = TenantId::from_bytes([1; 16]);
    let found = store.read(|tx| TenantEvents.find(tx, gone, 2)).unwrap();
    assert_eq!(found.len(), 2, "no more than the limit");
    let found = store.read(|tx| TenantEvents.find(tx, gone, 9)).unwrap();
    store.write(move |tx| TenantEvents.remove(tx, gone, &found)).await.unwrap();
    assert!(store.read(|tx| TenantEvents.find(tx, gone, 9)).unwrap().is_empty());
    assert!(store.read(|tx| read_feed(tx, &query(1, 0, vec![], 9))).unwrap().events.is_empty());
    assert_eq!(numbers(&store.read(|tx| read_feed(tx, &query(2, 0, vec![], 9))).unwrap()), [1, 2]);
    let log = store.read(|tx| read_batch(tx, 0, 9)).unwrap();
    assert_eq!(log.iter().map(|event| event.seq).collect::<Vec<_>>(), [1, 2, 3, 4, 5]);
    assert_eq!(log.iter().filter(|event| event.record.is_erased()).count(), 3);
    assert!(log.iter().filter(|event| event.record.is_erased()).all(|event| event.record.body.is_empty()));
    assert_eq!(store.read(|tx| read_one(tx, 3)).unwrap(), None);
}

#[tokio::test]
async fn a_batch_of_large_events_is_short() {
    let directory = tempfile::tempdir().unwrap();
    let store = store(&directory);
    record_data(&store, (1, &CREATED), 3, format!("\"{}\"", "x".repeat(300 << 10))).await;
    let batch = |after: u64| store.read(|tx| read_batch(tx, after, 9)).unwrap().iter().map(|event| event.seq).collect::<Vec<_>>();
    assert_eq!((batch(0), batch(2)), (vec![1, 2], vec![3]));
}

#[tokio::test]
async fn retention_drops_an_old_segment_and_truncates_the_feed() {
    let directory = tempfile::tempdir().unwrap();
    let store = store(&directory);
    fill_a_segment(&store, |_| Timestamp::EPOCH).await;
    let clock = Clock::movable(Timestamp::EPOCH);
    clock.advance(Duration::from_hours(24 * 31));
    let unread = Retention::new(store.clone(), clock.clone(), 30, vec!["nobody"]);
    assert_eq!(crate::tasks::Task::activate(&unread).await.unwrap(), crate::tasks::Done::All);
    let retention = Retention::new(store.clone(), clock, 30, vec![]);
    assert_eq!(crate::tasks::Task::activate(&retention).await.unwrap(), crate::tasks::Done::Some);
    assert_eq!(crate::tasks::Task::activate(&retention).await.unwrap(), crate::tasks::Done::All);
    let page = store.read(|tx| read_feed(tx, &query(1, 0, vec![], 1))).unwrap();
    assert_eq!((numbers(&page), page.truncated), (vec![65_536], true));
    assert!(store.check(vec![]).await.unwrap().is_clean());
}

#[test]
fn an_unknown_kind_suggests_the_nearest_one() {
    let kinds = Kinds::new([&CREATED, &UPDATED]);
    assert_eq!(kinds.parse("*"), Ok(EventPattern::All));
    assert_eq!(kinds.parse("thing.*"), Ok(EventPattern::Area("thing".to_owned())));
    assert_eq!(kinds.parse("thing.create").unwrap_err().suggestion.as_deref(), Some("thing.created"));
    assert!(kinds.parse("thin.*").is_err());
    assert!(!EventPattern::Area("thing".to_owned()).matches("things.created"));
}

#[tokio::test]
async fn a_tenant_with_its_clock_ahead_does_not_delay_retention() {
    let directory = tempfile::tempdir().unwrap();
    let store = store(&directory);
    let own = TenantId::with_own_clock(Timestamp::EPOCH, &mut tenantd_base::entropy::Entropy::from_seed(1));
    let (ahead, shared) = (Timestamp::EPOCH.plus_days(365), TenantId::from_bytes([1; 16]));
    for _ in 0..17 {
        store
            .write(move |tx| {
                let data = RawValue::from_string("{}".to_owned()).unwrap();
                let draft = Draft::new(&CREATED, "x".to_owned(), 1, &data);
                let mut intents = [(shared, Timestamp::EPOCH), (own, ahead)]
                    .map(|(tenant, at)| Intent::new(tenant, at, Actor::system("test")).begin());
                for number in 0..4096 {
                    // The segment ends with events of the tenant whose clock is ahead.
                    append(tx, &mut intents[usize::from(number % 8 > 0)], &draft)?;
                }
                Ok::<_, StoreError>(())
            })
            .await
            .unwrap();
    }
    let clock = Clock::movable(Timestamp::EPOCH);
    let retention = Retention::new(store.clone(), clock.clone(), 30, vec![]);
    clock.advance(Duration::from_hours(24 * 29));
    assert_eq!(crate::tasks::Task::activate(&retention).await.unwrap(), crate::tasks::Done::All);
    clock.advance(Duration::from_hours(24 * 2));
    assert_eq!(crate::tasks::Task::activate(&retention).await.unwrap(), crate::tasks::Done::Some);
}
