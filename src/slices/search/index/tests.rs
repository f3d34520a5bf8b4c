//! The overlay and its views without a store: every document is found, and only in its newest version.

use tenantd_base::{
    access::{Grants, Reach},
    clock::Timestamp,
    id::{OrganizationId, TenantId},
};
use tenantd_store::{
    RedbEngine, WriteRoom, WriteTx, WriterSettings,
    events::{Actor, Draft, EventKind, Intent},
    tasks::{Done, Task as _},
};

use super::{
    super::{
        model::{Attribute, Document, DocumentKey, Facets, Kind, Mode, Options, Order, State, Visibility},
        text,
    },
    *,
};
use crate::query::Query;

static HAPPENED: EventKind =
    EventKind { name: "thing.happened", summary: "", subject: "thing", schema: "Thing", reads: Grants::NONE, has_changes: false };

fn tenant(number: u8) -> TenantId {
    TenantId::from_bytes([number; 16])
}

fn document(tenant_id: TenantId, number: u8, name: &str) -> Document {
    let mut id = [number; 16];
    id[0] = 1;
    Document {
        tenant_id,
        kind: Kind::Device,
        id,
        shown_id: format!("dev_{number}"),
        name: name.to_owned(),
        subtitle: None,
        texts: vec![("model", "Latitude 7440".to_owned())],
        identifiers: vec![("serial", format!("SN{number}"))],
        attributes: Vec::new(),
        software: Vec::new(),
        organization_id: None,
        state: None,
        updated_at: Timestamp::from_millis(1_767_225_600_000 + i64::from(number)),
    }
}

fn options() -> Options {
    Options {
        kinds: Vec::new(),
        organization_id: None,
        mode: Mode::Full,
        fuzzy: true,
        order: Order::Relevance,
        facets: Facets::default(),
        limit: 10,
        after: None,
    }
}

fn empty_overlay(directory: &std::path::Path) -> Overlay {
    let mut disk = Disk::create(directory).unwrap();
    disk.commit(disk::Position::new(0, None)).unwrap();
    Overlay::new(1, disk.part().unwrap(), 0)
}

fn put(overlay: &mut Overlay, document: &Document) {
    overlay.put(document.key(), Some(document));
}

/// The last bytes of the ids of the matches, the best first, and the total.
fn found(view: &View, tenant_id: TenantId, q: &str) -> (Vec<u8>, u64) {
    let (visibility, options) = (Visibility::new(tenant_id, Grants::all(), Reach::Everything), options());
    let plan = Planner::new(view, &visibility, &options).unwrap().plan(&Query::parse(q).unwrap()).unwrap();
    let mut best = Best::new(10, None);
    let counts = run(view, &plan, &options, &mut best).unwrap();
    (best.into_sorted().into_iter().map(|ranked| ranked.what.id[15]).collect(), counts.total)
}

#[test]
fn only_the_newest_version_of_a_document_is_found() {
    let directory = tempfile::tempdir().unwrap();
    let mut overlay = empty_overlay(directory.path());
    let one = tenant(1);
    for round in 0..20_u8 {
        put(&mut overlay, &document(one, 1, &format!("heron{round}")));
        put(&mut overlay, &document(one, 10 + round, "stork"));
        let view = overlay.publish().unwrap();
        assert_eq!(found(&view, one, &format!("heron{round}")), (vec![1], 1));
        assert_eq!(found(&view, one, "heron*"), (vec![1], 1));
        assert_eq!(found(&view, one, "stork").1, u64::from(round) + 1);
        assert!(view.parts.len() <= 7, "layers are joined: {}", view.parts.len());
    }
    overlay.put(DocumentKey { tenant_id: one, kind: Kind::Device, id: document(one, 1, "").id }, None);
    assert_eq!(found(&overlay.publish().unwrap(), one, "heron*"), (Vec::new(), 0));
}

#[test]
fn adding_a_term_never_adds_matches() {
    let directory = tempfile::tempdir().unwrap();
    let (mut overlay, one) = (empty_overlay(directory.path()), tenant(1));
    let organizations = ["Juniper Law", "Juniper Bakery", "Harbor Law Group"];
    let words = ["juniper", "law", "bakery", "group", "printer", "laptop", "latitude", "hall", "harbour"];
    for (number, name) in (1_u8..).zip(organizations) {
        let organization_id = OrganizationId::from_bytes([number; 16]);
        let organization = Document { kind: Kind::Organization, id: [number; 16], ..document(one, number, name) };
        put(&mut overlay, &Document { organization_id: Some(organization_id), texts: Vec::new(), ..organization });
        for (place, device) in (0_u8..).zip(["printer hall", "laptop", "law printer", "juniper laptop"]) {
            let device = document(one, 50 + number * 10 + place, device);
            put(&mut overlay, &Document { organization_id: Some(organization_id), ..device });
        }
    }
    let view = overlay.publish().unwrap();
    let total = |q: &str| found(&view, one, q).1;
    for first in words {
        for second in words {
            let both = total(&format!("{first} {second}"));
            assert!(both <= total(first).min(total(second)), "{first} {second}");
            for third in words {
                assert!(total(&format!("{first} {second} {third}")) <= both, "{first} {second} {third}");
            }
        }
    }
    assert_eq!(total("bakery printer"), 2, "records are found by the name of their organization");
    assert_eq!(found(&view, one, "bakery").0.first(), Some(&2), "the organization comes before its records");
}

#[test]
fn identifiers_are_found_in_every_spelling() {
    let directory = tempfile::tempdir().unwrap();
    let (mut overlay, one) = (empty_overlay(directory.path()), tenant(1));
    let identifiers = |serial: &str, ip: &str, mac: &str| {
        [("serial", serial), ("ip", ip), ("mac", mac)].map(|(field, value)| (field, value.to_owned())).to_vec()
    };
    let attributes = |ip: &str, mac: &str| vec![(Attribute::Ip, ip.to_owned()), (Attribute::Mac, text::identifier(mac))];
    for (number, serial, ip, mac) in
        [(1, "5CG-9283-X7", "10.3.88.7", "AC:CC:8E:3D:E7:27"), (2, "VMware-42", "10.30.1.1", "00:1a:2b:3c:4d:5e")]
    {
        let device = document(one, number, "box");
        let texts = vec![("custom_field", format!("call +49 (30) 55512{number}3"))];
        let (identifiers, attributes) = (identifiers(serial, ip, mac), attributes(ip, mac));
        put(&mut overlay, &Document { texts, identifiers, attributes, ..device });
    }
    let view = overlay.publish().unwrap();
    for q in [
        "AC:CC:8E:3D:E7:27",
        "accc8e3de727",
        "accc-8e3d-e727",
        "AC:CC:8E",
        "mac:ac-cc-8e-3d-e7-27",
        "5CG9283X7",
        "5cg 9283-x7",
        "+49 30 555 1213",
        "49305551213",
        "10.3.88.0/24",
        "10.3",
        "ip:10.3.88.0/29",
        "ip:10.3",
        "ip:10.3.88.*",
    ] {
        assert_eq!(found(&view, one, q), (vec![1], 1), "{q}");
    }
    for q in ["10.4", "10.3.89.0/24", "ip:10.0.0.0/15", "AC:CC:8F", "49305551219"] {
        assert_eq!(found(&view, one, q).1, 0, "{q}");
    }
}

#[test]
fn phone_numbers_are_found_in_every_form() {
    let directory = tempfile::tempdir().unwrap();
    let (mut overlay, one) = (empty_overlay(directory.path()), tenant(1));
    let names = [
        (1, "Call back 044 123 45 67 today"),
        (2, "Missed call: +41 44 765 43 21"),
        (3, "Maintenance 2026-11-18 on 192.168.100.200"),
        (4, "Case 4471234567"),
    ];
    for (number, name) in names {
        put(&mut overlay, &document(one, number, name));
    }
    let view = overlay.publish().unwrap();
    for (expected, q) in [
        (1, "0441234567"),
        (1, "044 123 45 67"),
        (1, "044/123-45-67"),
        (1, "+41 44 123 45 67"),
        (1, "0041441234567"),
        (1, "call +41 (0)44 1234567"),
        (2, "+41447654321"),
        (2, "0447654321"),
        (2, "044 765 43 21"),
        (3, "2026-11-18"),
        (3, "192.168.100.200"),
    ] {
        assert_eq!(found(&view, one, q), (vec![expected], 1), "{q}");
    }
    for q in ["+49 44 765 43 21", "1234568", "7654321", "20261118", "192168100200", "045 123 45 67"] {
        assert_eq!(found(&view, one, q).1, 0, "{q}");
    }
    assert_eq!(found(&view, one, "call 044 123 45 67").1, 1);
    assert_eq!(found(&view, one, "printer 044 123 45 67").1, 0, "more terms never find more");
}

#[test]
fn a_query_by_time_counts_no_records_of_other_tenants() {
    let directory = tempfile::tempdir().unwrap();
    let mut overlay = empty_overlay(directory.path());
    for number in 0..6 {
        put(&mut overlay, &document(tenant(1 + number % 2), number, "heron"));
    }
    let view = overlay.publish().unwrap();
    for (q, total) in [
        ("updated:>=2026-01-01", 3),
        ("updated:<2027-01-01", 3),
        ("updated:<2025-01-01", 0),
        ("updated:>=2026-01-01 OR stork", 3),
        ("-updated:<2025-01-01", 3),
        ("-updated:>=2026-01-01", 0),
        ("heron updated:>=2026-01-01", 3),
    ] {
        assert_eq!(found(&view, tenant(1), q).1, total, "{q}");
    }
}

fn new_store(directory: &std::path::Path) -> Store {
    let engine = RedbEngine::create(&directory.join("store"), 1 << 20).unwrap();
    Store::new(engine, WriterSettings { batch_size: 4, queue_length: 4 }).unwrap()
}

/// Appends an event of the first tenant.
fn happens(tx: &mut WriteTx) -> Result<u64, StoreError> {
    let intent = Intent::new(tenant(1), Timestamp::from_millis(5), Actor::system("test"));
    let data = serde_json::value::RawValue::from_string("{}".to_owned()).unwrap();
    events::append(tx, &mut intent.begin(), &Draft::new(&HAPPENED, "thing_1".to_owned(), 1, &data))
}

#[tokio::test]
async fn a_shutdown_waits_for_one_batch_of_events() {
    let directory = tempfile::tempdir().unwrap();
    let store = new_store(directory.path());
    let index = SearchIndex::new(store.clone(), Clock::System, directory.path().join("index"));
    let task = index.task();
    while task.activate().await.unwrap() == Done::Some {}
    let events = 2 * BATCH as u64 + 1;
    store.write(move |tx| (0..events).try_for_each(|_| happens(tx).map(drop))).await.unwrap();
    let applied = || lock(&index.inner.overlay).as_ref().map(|overlay| overlay.applied);
    store.begin_shutdown();
    assert_eq!(task.activate().await.unwrap(), Done::All);
    assert_eq!(applied(), Some(BATCH as u64));
    assert!(matches!(index.current(tenant(1)).await, Err(SearchError::NotReady)), "a batch is not enough");
    assert!(index.current(tenant(1)).await.is_ok(), "the last batch is");
    assert_eq!(applied(), Some(events));

    index.rebuild();
    assert_eq!(task.activate().await.unwrap(), Done::All);
    assert!(lock(&index.inner.build).is_none() && index.status().building.is_some(), "no build starts");
}

#[tokio::test]
async fn a_search_waits_only_for_events_of_its_tenant() {
    let directory = tempfile::tempdir().unwrap();
    let store = new_store(directory.path());
    let index = SearchIndex::new(store.clone(), Clock::System, directory.path().join("index"));
    let seen = empty_overlay(&directory.path().join("overlay")).publish().unwrap();
    index.inner.view.send_replace(Some(seen));
    assert_eq!(store.write(happens).await.unwrap(), 1);
    assert!(index.current(tenant(2)).await.is_ok(), "all its events are indexed");
    let waiting = tokio::time::timeout(std::time::Duration::from_millis(1), index.current(tenant(1)));
    assert!(waiting.await.is_err(), "its event is not in the index yet");
}

#[test]
fn changes_during_a_disk_write_stay_in_memory() {
    let directory = tempfile::tempdir().unwrap();
    let mut disk = Disk::create(directory.path()).unwrap();
    disk.commit(disk::Position::new(0, None)).unwrap();
    let mut overlay = Overlay::new(1, disk.part().unwrap(), 0);
    let one = tenant(1);
    put(&mut overlay, &document(one, 1, "heron"));
    put(&mut overlay, &document(one, 2, "heron"));
    overlay.applied = 2;
    let (removed_tenants, written, seq) = overlay.snapshot();
    for (key, fresh) in &written {
        disk.write(key, fresh).unwrap();
    }
    put(&mut overlay, &document(one, 2, "stork"));
    overlay.applied = 3;
    disk.commit(disk::Position::new(seq, None)).unwrap();
    overlay.settle(disk.part().unwrap(), seq, &removed_tenants, &written);
    assert_eq!(overlay.snapshot().1.len(), 1);
    let view = overlay.publish().unwrap();
    assert_eq!((found(&view, one, "heron"), found(&view, one, "stork")), ((vec![1], 1), (vec![2], 1)));
    assert_eq!((view.durable, view.seq), (2, 3));
}

#[test]
fn tenants_do_not_see_each_other() {
    let directory = tempfile::tempdir().unwrap();
    let mut overlay = empty_overlay(directory.path());
    put(&mut overlay, &document(tenant(1), 1, "heron"));
    put(&mut overlay, &document(tenant(2), 2, "heron"));
    let view = overlay.publish().unwrap();
    assert_eq!(found(&view, tenant(1), "heron"), (vec![1], 1));
    assert_eq!(found(&view, tenant(2), "SN2"), (vec![2], 1));
    assert_eq!(found(&view, tenant(1), "SN2"), (Vec::new(), 0));
    assert_eq!(found(&view, tenant(3), "latitude"), (Vec::new(), 0));
    let terms = schema::Terms::new(tenant(1));
    let similar = words::similar(&view, &terms, &[schema::fields().name], "herom", 1).unwrap();
    assert_eq!(similar.iter().map(|word| (word.word.as_str(), word.frequency)).collect::<Vec<_>>(), [("heron", 1)]);
}

#[test]
fn pages_over_many_matches_are_contiguous() {
    let directory = tempfile::tempdir().unwrap();
    let mut overlay = empty_overlay(directory.path());
    let one = tenant(1);
    let mut expected = Vec::new();
    for number in 0..6000_u16 {
        let mut document = document(one, 1, "heron");
        document.id[14..].copy_from_slice(&number.to_be_bytes());
        // The first half has one update time. In the second half each document is newer than the one before.
        let updated = i64::from(number.saturating_sub(3000));
        document.updated_at = Timestamp::from_millis(1_767_225_600_000 + updated);
        expected.push((updated, document.id));
        put(&mut overlay, &document);
    }
    expected.sort_unstable_by(|left, right| right.cmp(left));
    let view = overlay.publish().unwrap().of(one).unwrap();
    let (visibility, options) = (Visibility::new(one, Grants::all(), Reach::Everything), options());
    let plan = Planner::new(&view, &visibility, &options).unwrap().plan(&Query::parse("heron").unwrap()).unwrap();
    let (mut seen, mut after) = (Vec::new(), None);
    loop {
        let mut best = Best::new(900, after);
        assert_eq!(run(&view, &plan, &options, &mut best).unwrap().total, 6000);
        let page = best.into_sorted();
        let Some(last) = page.last() else { break };
        after = Some(last.place);
        seen.extend(page.into_iter().map(|ranked| ranked.what.id));
    }
    assert_eq!(seen, expected.into_iter().map(|(_, id)| id).collect::<Vec<_>>());
}

/// Documents whose names, times and states are independent of the order in which they were written.
fn mixed(tenant_id: TenantId, number: u16) -> Document {
    let scattered = u32::from(number).wrapping_mul(2_654_435_761) >> 7;
    let name = ["heron", "heron station", "grey heron", "stork"][scattered as usize % 4];
    let mut document = document(tenant_id, 1, name);
    document.id[14..].copy_from_slice(&number.to_be_bytes());
    document.texts.push(("notes", "heron ".repeat(scattered as usize / 4 % 5)));
    document.identifiers = vec![("serial", if number % 1500 == 7 { "HERON".to_owned() } else { format!("SN{number}") })];
    (document.kind, document.state) = match scattered / 64 % 3 {
        0 => (Kind::Device, None),
        1 => (Kind::Ticket, Some(State::Open)),
        _ => (Kind::Ticket, Some(State::Closed)),
    };
    document.organization_id = Some(OrganizationId::from_bytes([(scattered / 256 % 9) as u8 + 1; 16]));
    document.updated_at = Timestamp::from_millis(1_767_225_600_000 + i64::from(scattered % 4000));
    document
}

#[test]
fn short_pages_equal_one_long_page_and_counts_are_exact() {
    let directory = tempfile::tempdir().unwrap();
    let mut disk = Disk::create(directory.path()).unwrap();
    disk.commit(disk::Position::new(0, None)).unwrap();
    let mut overlay = Overlay::new(1, disk.part().unwrap(), 0);
    let one = tenant(1);
    let documents: Vec<Document> = (0..7000).map(|number| mixed(one, number)).collect();
    for half in documents.chunks(3500) {
        for document in half {
            put(&mut overlay, document);
        }
        let (removed_tenants, written, seq) = overlay.snapshot();
        for (key, fresh) in &written {
            disk.write(key, fresh).unwrap();
        }
        disk.commit(disk::Position::new(seq, None)).unwrap();
        overlay.settle(disk.part().unwrap(), seq, &removed_tenants, &written);
    }
    let view = overlay.publish().unwrap().of(one).unwrap();
    assert!(view.parts[0].sections().len() > 1);
    let visibility = Visibility::new(one, Grants::all(), Reach::Everything);
    for (q, mode, order) in [
        ("heron", Mode::Full, Order::Relevance),
        ("heron", Mode::Full, Order::Recent),
        ("he", Mode::Suggest, Order::Relevance),
        ("latitude heron", Mode::Full, Order::Relevance),
        ("type:ticket heron", Mode::Full, Order::Relevance),
    ] {
        let facets = Facets { kind: true, organization: true, state: true };
        let options = Options { mode, order, facets, ..options() };
        let plan = Planner::new(&view, &visibility, &options).unwrap().plan(&Query::parse(q).unwrap()).unwrap();
        let mut all = Best::new(10_000, None);
        let counts = run(&view, &plan, &options, &mut all).unwrap();
        let all = all.into_sorted();
        let found: std::collections::HashSet<_> = all.iter().map(|ranked| ranked.what.id).collect();
        let found = documents.iter().filter(|document| found.contains(&document.id));
        let organization = OrganizationId::from_bytes([3; 16]);
        assert_eq!((counts.total, all.len()), (all.len() as u64, found.clone().count()), "{q}");
        let count = |wanted: &dyn Fn(&Document) -> bool| found.clone().filter(|document| wanted(document)).count() as u64;
        assert_eq!(counts.kinds[&Kind::Ticket], count(&|document| document.kind == Kind::Ticket), "{q}");
        assert_eq!(counts.states[&State::Open], count(&|document| document.state == Some(State::Open)), "{q}");
        assert_eq!(counts.organizations[&organization], count(&|document| document.organization_id == Some(organization)), "{q}");
        let (mut paged, mut after) = (Vec::new(), None);
        for _ in 0..30 {
            let mut best = Best::new(21, after);
            assert_eq!(run(&view, &plan, &options, &mut best).unwrap().total, counts.total, "{q}");
            let page = best.into_sorted();
            after = page.last().map(|last| last.place);
            paged.extend(page.into_iter().map(|ranked| (ranked.place, ranked.what.id)));
        }
        let all: Vec<_> = all.into_iter().map(|ranked| (ranked.place, ranked.what.id)).take(paged.len()).collect();
        assert_eq!(paged, all, "{q}");
    }
}

#[tokio::test]
async fn nothing_is_written_while_the_disk_is_full() {
    let directory = tempfile::tempdir().unwrap();
    let store = new_store(directory.path());
    let root = directory.path().join("index");
    let index = SearchIndex::new(store.clone(), Clock::System, root.clone());
    let task = index.task();
    store.volume().set_room(WriteRoom::Short);
    assert_eq!(task.activate().await.unwrap(), Done::All, "it does not loop");
    assert!(!root.exists() && !index.status().ready);
    assert!(task.concern().unwrap().contains("has room again"));
    store.volume().set_room(WriteRoom::Ample);
    while task.activate().await.unwrap() == Done::Some {}
    assert!(index.status().ready && root.join("generation-1").exists());

    // Abandoning a running build frees its space.
    index.rebuild();
    *lock(&index.inner.build) = Some(Build::start(&root, &store).unwrap());
    assert!(root.join("generation-2").exists());
    store.volume().set_room(WriteRoom::Short);
    assert_eq!(task.activate().await.unwrap(), Done::All);
    assert!(!root.join("generation-2").exists() && root.join("generation-1").exists());
    assert!(index.status().ready && index.status().building.is_some());
    store.volume().set_room(WriteRoom::Ample);
    while task.activate().await.unwrap() == Done::Some {}
    assert_eq!((index.status().building, index.status().rebuilds), (None, 2));
}
