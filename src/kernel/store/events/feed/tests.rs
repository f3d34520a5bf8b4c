//! Tests of the tenants' sequences on a real store: interleaved, across segments, after retention, and above the numbers of
//! earlier releases.

use proptest::prelude::*;
use serde_json::value::RawValue;

use tenantd_base::{access::Grants, clock::Timestamp, id::EventId};

use super::*;
use crate::{
    RedbEngine, Store, WriterSettings,
    codec::assert_golden,
    end_of_segment,
    events::{Actor, Draft, EventKind, Intent, append, read_batch},
};

static HAPPENED: EventKind =
    EventKind { name: "thing.happened", summary: "", subject: "thing", schema: "Thing", reads: Grants::NONE, has_changes: false };

#[test]
fn the_stored_forms_match_the_golden_files() {
    assert_golden("event_by_tenant", &TenantEntry { seq: 70_000 });
    assert_golden("event_sequence", &Sequence { last: 300, removed: 20, first: 250 });
    assert_golden("event_segment", &Segment(7));
}

const fn tenant(id: u8) -> TenantId {
    TenantId::from_bytes([id; 16])
}

fn store(directory: &tempfile::TempDir) -> Store {
    let path = directory.path().join("store");
    let engine = if path.exists() { RedbEngine::open(&path, 1 << 20, None) } else { RedbEngine::create(&path, 1 << 20) };
    Store::new(engine.unwrap(), WriterSettings { batch_size: 64, queue_length: 64 }).unwrap()
}

fn record(tx: &mut WriteTx, id: u8) -> u64 {
    let intent = Intent::new(tenant(id), Timestamp::from_millis(5), Actor::system("test"));
    let data = RawValue::from_string("{}".to_owned()).unwrap();
    append(tx, &mut intent.begin(), &Draft::new(&HAPPENED, "thing_1".to_owned(), 1, &data)).unwrap()
}

/// The numbers of all events after `after`, read in pages, and the last page.
fn read_all(tx: &impl Read, id: u8, mut after: u64, limit: usize) -> (Vec<u64>, FeedPage) {
    let mut numbers = Vec::new();
    loop {
        let query = FeedQuery { tenant_id: tenant(id), after, patterns: Vec::new(), readable: None, limit };
        let page = read_feed(tx, &query).unwrap();
        for event in &page.events {
            let body: serde_json::Value = serde_json::from_slice(&event.record.body).unwrap();
            assert_eq!((body["seq"].as_u64(), event.record.tenant_id), (Some(event.record.number), tenant(id)));
            numbers.push(event.record.number);
        }
        if !page.more {
            return (numbers, page);
        }
        after = page.next_after;
    }
}

/// The same numbers, read from the newest event back.
fn read_all_back(tx: &impl Read, id: u8, limit: usize) -> Vec<u64> {
    let (mut numbers, mut after) = (Vec::new(), 0);
    loop {
        let query = FeedQuery { tenant_id: tenant(id), after, patterns: Vec::new(), readable: None, limit };
        let page = read_feed_back(tx, &query).unwrap();
        numbers.extend(page.events.iter().map(|event| event.record.number));
        if !page.more {
            assert_eq!(page.truncated, sequence(tx, tenant(id)).unwrap().removed > 0);
            let beyond = FeedQuery { after: page.next_after, ..query };
            assert!(read_feed_back(tx, &beyond).unwrap().events.is_empty());
            return numbers;
        }
        assert_eq!(page.events.len(), limit);
        after = page.next_after;
    }
}

/// The expected events of a tenant, tracked independently.
#[derive(Clone, Debug, Default)]
struct Known {
    /// Numbers and places.
    kept: Vec<(u64, u64)>,
    last: u64,
    removed: u64,
}

impl Known {
    fn prove(&self, tx: &impl Read, id: u8, head: u64) {
        for after in 0..=self.last + 1 {
            let (numbers, page) = read_all(tx, id, after, 2);
            if after == 0 {
                let mut back = read_all_back(tx, id, 2);
                back.reverse();
                assert_eq!(back, numbers);
            }
            let rest: Vec<u64> = self.kept.iter().map(|(number, _)| *number).filter(|number| *number > after).collect();
            assert_eq!(numbers, rest, "after {after}");
            assert_eq!(page.next_after, after.max(self.last), "after {after}");
        }
        for after in 0..=self.last + 1 {
            let query = FeedQuery { tenant_id: tenant(id), after, patterns: Vec::new(), readable: None, limit: 1 };
            assert_eq!(read_feed(tx, &query).unwrap().truncated, after < self.removed, "after {after}");
        }
        for (number, seq) in &self.kept {
            assert_eq!(place_of(tx, tenant(id), *number).unwrap(), Some(*seq));
            let event = read_numbered(tx, tenant(id), *number).unwrap().unwrap();
            assert_eq!((event.seq, event.record.number), (*seq, *number));
        }
        for number in [0, self.removed, self.last + 1, u64::MAX] {
            assert_eq!(place_of(tx, tenant(id), number).unwrap(), None);
        }
        for at in self.kept.iter().flat_map(|(_, seq)| [seq - 1, *seq, seq + 1]).chain([0, head]) {
            let is_all = self.kept.iter().all(|(_, seq)| *seq <= at);
            let seen = self.kept.iter().rfind(|(_, seq)| *seq <= at).map_or(self.removed, |(number, _)| *number);
            assert_eq!(number_at(tx, tenant(id), at).unwrap(), if is_all { self.last } else { seen }, "at {at}");
        }
    }
}

#[derive(Clone, Debug)]
enum Step {
    Event(u8),
    /// Other tenants fill the segment up to the last few places.
    NearlyFill(u64),
    /// Retention removes the oldest segment, if it is full.
    Retain,
    Restart,
    Erase(u8),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        12 => (1..4_u8).prop_map(Step::Event),
        3 => (0..3_u64).prop_map(Step::NearlyFill),
        2 => Just(Step::Retain),
        1 => Just(Step::Restart),
        1 => (1..4_u8).prop_map(Step::Erase),
    ];
    proptest::collection::vec(step, 1..40)
}

/// Erases a tenant in the app's order: the entries first, then the tables that number them.
async fn erase_all(store: &Store, id: u8) {
    let rows: [&'static dyn TenantRows; 3] = [&TenantEvents, &SEGMENTS, &SEQUENCES];
    while crate::erase(store, &rows, tenant(id), 40).await.unwrap() {}
}

async fn take(steps: Vec<Step>) {
    let directory = tempfile::tempdir().unwrap();
    let mut open = store(&directory);
    let mut known: [Known; 4] = Default::default();
    for step in steps {
        match step {
            Step::Event(id) => {
                let own = &mut known[usize::from(id)];
                let (number, seq) = open
                    .write(move |tx| {
                        let number = record(tx, id);
                        Ok::<_, StoreError>((number, log::head(tx)?))
                    })
                    .await
                    .unwrap();
                own.last += 1;
                assert_eq!(number, own.last, "a gap");
                own.kept.push((number, seq));
            }
            Step::NearlyFill(left) => {
                let fill = move |tx: &mut WriteTx| {
                    let head = log::head(tx)?;
                    log::skip_to(tx, head.max(end_of_segment(segment_of(head + 1)) - 1 - left))
                };
                open.write(fill).await.unwrap();
            }
            Step::Retain => {
                let retain = |tx: &mut WriteTx| {
                    let (first, head) = (log::first_kept(tx)?, log::head(tx)?);
                    if segment_of(first) < segment_of(head) {
                        log::drop_segment(tx, segment_of(first))?;
                    }
                    log::first_kept(tx)
                };
                let first_kept = open.write(retain).await.unwrap();
                for own in &mut known {
                    let gone = own.kept.iter().rfind(|(_, seq)| *seq < first_kept).map(|(number, _)| *number);
                    own.removed = gone.unwrap_or(own.removed);
                    own.kept.retain(|(_, seq)| *seq >= first_kept);
                }
            }
            Step::Restart => {
                drop(open);
                open = store(&directory);
            }
            Step::Erase(id) => {
                erase_all(&open, id).await;
                known[usize::from(id)] = Known::default();
            }
        }
    }
    open.read(|tx| {
        let head = log::head(tx)?;
        (1..4_u8).for_each(|id| known[usize::from(id)].prove(tx, id, head));
        let rows =
            |id: u8| known[usize::from(id)].kept.iter().map(|(_, seq)| segment_of(*seq)).collect::<std::collections::BTreeSet<_>>();
        let expected: usize = (1..4).map(|id| rows(id).len()).sum();
        assert_eq!(SEGMENTS.list(tx, &KeyRange::ALL, usize::MAX)?.len(), expected, "one row for each tenant and segment");
        Ok::<_, StoreError>(())
    })
    .unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn every_number_leads_to_the_rest_of_the_tenant_s_events(steps in steps()) {
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(take(steps));
    }
}

#[tokio::test]
async fn other_tenants_do_not_move_an_idle_tenant_s_numbers() {
    let directory = tempfile::tempdir().unwrap();
    let store = store(&directory);
    let page = |after: u64| store.read(|tx| Ok::<_, StoreError>(read_all(tx, 1, after, 9).1)).unwrap();
    store.write(|tx| Ok::<_, StoreError>([1; 3].map(|id| record(tx, id)))).await.unwrap();
    let before = (page(0), page(2), page(3));
    let others = |tx: &mut WriteTx| {
        let first = [2; 50].map(|id| record(tx, id));
        log::skip_to(tx, end_of_segment(1))?;
        Ok::<_, StoreError>((first, [2; 50].map(|id| record(tx, id))))
    };
    store.write(others).await.unwrap();
    assert_eq!((page(0), page(2), page(3)), before);
    let nobody = store.read(|tx| Ok::<_, StoreError>(read_all(tx, 3, 0, 9).1)).unwrap();
    assert_eq!((nobody.next_after, nobody.truncated), (0, false));
    // Once its own events are removed, its feed reports it.
    store.write(|tx| log::drop_segment(tx, 0)).await.unwrap();
    assert_eq!([0, 2, 3, 9].map(|after| page(after).truncated), [true, true, false, false]);
    assert_eq!([0, 3, 9].map(|after| page(after).next_after), [3, 3, 9]);
    store.write(|tx| log::drop_segment(tx, 1)).await.unwrap();
    assert_eq!([0, 2, 3].map(|after| page(after).truncated), [true, true, false]);
}

/// An event as the previous release stored it.
#[derive(Serialize, Deserialize)]
struct OldEvent {
    id: EventId,
    tenant_id: TenantId,
    kind: String,
    at: Timestamp,
    #[serde(with = "codec::bytes")]
    body: Vec<u8>,
    imported_at: Option<Timestamp>,
}

impl Record for OldEvent {
    const VERSION: u8 = 2;
}

#[derive(Serialize, Deserialize)]
struct OldEntry;

impl Record for OldEntry {
    const VERSION: u8 = 1;
}

fn put_old(tx: &mut WriteTx, id: u8, seq: u64) -> Result<(), StoreError> {
    let body = format!(r#"{{"id":"x","seq":{seq}}}"#).into_bytes();
    let (event_id, at) = (EventId::from_bytes(u128::from(seq).to_be_bytes()), Timestamp::from_millis(5));
    let event = OldEvent { id: event_id, tenant_id: tenant(id), kind: HAPPENED.name.to_owned(), at, body, imported_at: None };
    EVENTS.put(tx, segment_of(seq), &(EVENT_ROW, seq), &event)?;
    EVENTS.put(tx, segment_of(seq), &(TENANT_ROW, tenant(id), seq), &OldEntry)?;
    log::skip_to(tx, seq)
}

#[tokio::test]
async fn numbers_of_an_earlier_release_continue_above_its_places() {
    let directory = tempfile::tempdir().unwrap();
    let store = store(&directory);
    // Tenant 3 exists and has no kept event.
    let old = [(1, 70_000), (2, 70_001), (1, 70_002), (2, 140_000), (2, 140_001)];
    let head = 140_001;
    let make = move |tx: &mut WriteTx| {
        log::drop_segment(tx, 0)?;
        old.into_iter().try_for_each(|(id, seq)| put_old(tx, id, seq))?;
        number_tenants(tx, &[tenant(1), tenant(2), tenant(3)])?;
        Ok::<_, StoreError>([1, 3, 2, 1].map(|id| record(tx, id)))
    };
    assert_eq!(store.write(make).await.unwrap(), [head + 1, head + 1, head + 1, head + 2]);
    let read = |id: u8, after: u64| store.read(|tx| Ok::<_, StoreError>(read_all(tx, id, after, 1).0)).unwrap();
    // Whatever number a client stores, it gets the remaining events once: numbers of events, numbers between them, and the newest
    // number of all tenants.
    assert_eq!(read(1, 0), [70_000, 70_002, head + 1, head + 2]);
    assert_eq!((read(1, 70_000), read(1, 70_001)), (vec![70_002, head + 1, head + 2], vec![70_002, head + 1, head + 2]));
    assert_eq!((read(1, 70_002), read(1, head)), (vec![head + 1, head + 2], vec![head + 1, head + 2]));
    assert_eq!((read(1, head + 1), read(1, head + 2)), (vec![head + 2], vec![]));
    assert_eq!((read(2, 70_001), read(2, 140_000)), (vec![140_000, 140_001, head + 1], vec![140_001, head + 1]));
    assert_eq!((read(3, 0), read(3, head)), (vec![head + 1], vec![head + 1]));
    store
        .read(|tx| {
            let log = read_batch(tx, 131_072, 99)?;
            let found: Vec<(u64, u64)> = log.iter().map(|event| (event.seq, event.record.number)).collect();
            let new = [(140_002, head + 1), (140_003, head + 1), (140_004, head + 1), (140_005, head + 2)];
            assert_eq!(found, [&[(140_000, 140_000), (140_001, 140_001)][..], &new].concat());
            assert_eq!(place_of(tx, tenant(1), 70_002)?, Some(70_002));
            assert_eq!(place_of(tx, tenant(1), head + 2)?, Some(140_005));
            // A reader at the end of the old log has seen all of the tenant's events.
            assert_eq!(
                [70_001, 140_001, 140_002, 140_005].map(|seq| number_at(tx, tenant(1), seq).unwrap()),
                [70_000, 70_002, head + 1, head + 2]
            );
            Ok::<_, StoreError>(())
        })
        .unwrap();
    // A feed reports removed events only if some of them belonged to its tenant.
    store.write(|tx| log::drop_segment(tx, 1)).await.unwrap();
    let truncated = |id: u8, after: u64| {
        let query = FeedQuery { tenant_id: tenant(id), after, patterns: Vec::new(), readable: None, limit: 9 };
        store.read(|tx| read_feed(tx, &query)).unwrap().truncated
    };
    assert_eq!(
        [(1, 70_001), (1, 70_002), (2, 70_000), (2, 70_001), (3, 65_535)].map(|(id, after)| truncated(id, after)),
        [true, false, true, false, false]
    );
    assert_eq!((read(1, 0), read(2, 0)), (vec![head + 1, head + 2], vec![140_000, 140_001, head + 1]));
    // Nothing of an erased tenant remains, in the old form or the new one.
    erase_all(&store, 2).await;
    let left = store.read(|tx| read_batch(tx, 131_072, 99)).unwrap();
    assert_eq!(left.iter().filter(|event| event.record.is_erased()).count(), 3);
    assert!(left.iter().all(|event| event.record.tenant_id != tenant(2)));
}
