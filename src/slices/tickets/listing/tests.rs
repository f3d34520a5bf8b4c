//! Tests every order and filter with every kind of plan. Whatever the limits of work are, the pages together equal a simple
//! filter and sort over all tickets.

use proptest::prelude::*;

use tenantd_base::{
    clock::Timestamp,
    id::{OrganizationId, TenantId, TicketId},
};
use tenantd_store::{Direction, RedbEngine, Store, WriterSettings};

use super::*;
use crate::{
    model::{Priority, Status},
    sla::{Sla, SlaPolicy},
};

const TENANT: TenantId = TenantId::from_bytes([7; 16]);
const TICKETS: u64 = 60;

fn organization(number: u8) -> OrganizationId {
    OrganizationId::from_bytes([number; 16])
}

fn ticket(number: u64, dice: &mut impl FnMut(u64) -> u64) -> Ticket {
    let day = |days: u64| Timestamp::from_millis(i64::try_from(days).unwrap() * 86_400_000);
    let pick = |choices: u64, dice: &mut dyn FnMut(u64) -> u64| usize::try_from(dice(choices)).unwrap();
    let created_at = day(number / 3);
    let priority = Priority::ALL[pick(4, dice)];
    let tags = ["vip", "remote"].iter().take(pick(3, dice)).map(|tag| (*tag).to_owned()).collect();
    Ticket {
        tenant_id: TENANT,
        number,
        id: TicketId::from_bytes([u8::try_from(number).unwrap(); 16]),
        subject: ["Printer jams", "VPN down", "Print queue"][pick(3, dice)].to_owned(),
        status: Status::ALL[pick(4, dice)],
        priority,
        organization_id: organization(u8::try_from(dice(3)).unwrap()),
        tags,
        sla: Sla::start(&SlaPolicy::standard("UTC"), priority, created_at),
        due_at: (dice(2) == 0).then(|| day(40 + dice(5))),
        created_at,
        // Few different times, so that the number often decides the order.
        updated_at: day(30 + dice(6)),
        last_seq: dice(100),
        ..Ticket::default()
    }
}

fn query(filter: u64, sort: SortField, direction: Direction) -> TicketQuery {
    let day = |days: i64| Some(Timestamp::from_millis(days * 86_400_000));
    let mut query = TicketQuery {
        tenant_id: TENANT,
        statuses: None,
        priorities: Vec::new(),
        kinds: Vec::new(),
        sources: Vec::new(),
        organizations: None,
        contacts: Vec::new(),
        assignees: Vec::new(),
        devices: Vec::new(),
        tags: Vec::new(),
        sla_states: Vec::new(),
        dedup_key: None,
        parents: None,
        external_system: None,
        external_id: None,
        created_after: None,
        created_before: None,
        updated_after: None,
        updated_before: None,
        due_before: None,
        words: Vec::new(),
        since_seq: None,
        sort,
        direction,
    };
    match filter {
        0 => {}
        1 => query.organizations = Some(vec![organization(0), organization(1)]),
        2 => query.tags = vec!["vip".to_owned(), "remote".to_owned()],
        3 => (query.priorities, query.organizations) = (vec![Priority::High, Priority::Low], Some(vec![organization(2)])),
        4 => query.words = vec!["print".to_owned()],
        5 => (query.since_seq, query.statuses) = (Some(50), Some(vec![Status::New, Status::InProgress])),
        6 => (query.updated_after, query.updated_before) = (day(31), day(34)),
        7 => (query.created_after, query.created_before) = (day(3), day(15)),
        8 => query.due_before = day(42),
        9 => (query.updated_after, query.updated_before) = (day(34), day(31)),
        _ => (query.due_before, query.updated_after, query.tags) = (day(44), day(32), vec!["vip".to_owned()]),
    }
    query
}

fn store_of(tickets: &[Ticket]) -> (Store, tempfile::TempDir) {
    let directory = tempfile::tempdir().unwrap();
    let engine = RedbEngine::create(&directory.path().join("store"), 1 << 20).unwrap();
    let store = Store::new(engine, WriterSettings { batch_size: 8, queue_length: 8 }).unwrap();
    let tickets = tickets.to_vec();
    let written = store.write(move |tx| tickets.iter().try_for_each(|ticket| repo::insert(tx, ticket)));
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(written).map_err(|error: StoreError| error).unwrap();
    (store, directory)
}

#[test]
fn a_repeated_value_is_read_once() {
    let mut query = query(2, SortField::UpdatedAt, Direction::Forward);
    query.tags = vec!["vip".to_owned(); 50];
    let ranges: Vec<usize> = numbers::filters(&query).iter().map(|(_, ranges)| ranges.len()).collect();
    assert_eq!(ranges, [1]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(6))]

    #[test]
    fn pages_do_not_depend_on_the_effort(seed in any::<u64>(), limit in 1_usize..20) {
        let mut state = seed;
        let mut dice = move |end: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % end
        };
        let tickets: Vec<Ticket> = (1..=TICKETS).map(|number| ticket(number, &mut dice)).collect();
        let (store, _directory) = store_of(&tickets);
        let efforts = [
            EFFORT,
            Effort { sorted: 0, ..EFFORT },
            Effort { set: 0, sorted: 0, ..EFFORT },
            Effort { bytes: 7_000, ..EFFORT },
            Effort { read: 3, passed: 5, set: 10, sorted: 4, bytes: 5_000 },
            Effort { read: 1, passed: 1, set: 0, sorted: 0, bytes: 1 },
        ];
        for sort in [SortField::UpdatedAt, SortField::CreatedAt, SortField::Priority, SortField::DueAt] {
            for (direction, filter) in [Direction::Forward, Direction::Backward].into_iter().flat_map(|way| (0..11).map(move |filter| (way, filter))) {
                let query = query(filter, sort, direction);
                let mut expected: Vec<&Ticket> = tickets.iter().filter(|ticket| query.matches(ticket)).collect();
                expected.sort_by(|left, right| Place::of(left, sort).compare(&Place::of(right, sort), sort, direction));
                let expected: Vec<u64> = expected.iter().map(|ticket| ticket.number).collect();
                let total = store.read(|tx| total(tx, &query)).unwrap();
                prop_assert_eq!(total, expected.len() as u64);
                let mut numbers = expected.clone();
                numbers.sort_unstable();
                let matching = store.read(|tx| numbers::matching(tx, &query)).unwrap();
                prop_assert_eq!(matching.numbers(), numbers);
                let fields = [Field::Status, Field::Priority, Field::Organization, Field::Assignee];
                for few in [0, 1_000] {
                    let counted = store.read(|tx| counts_within(tx, &query, &fields, few)).unwrap();
                    for (counts, field) in counted.iter().zip(fields) {
                        let has = |ticket: &&Ticket, value: &Vec<u8>| query.matches(ticket) && value_of(ticket, field) == *value;
                        let of_value = |value: &Vec<u8>| tickets.iter().filter(|ticket| has(ticket, value)).count();
                        prop_assert_eq!(counts.iter().map(|(_, count)| *count).sum::<u64>(), total);
                        prop_assert!(counts.iter().all(|(value, count)| of_value(value) as u64 == *count));
                    }
                }
                for most in [1, 4, 1_000] {
                    let within = store.read(|tx| total_within(tx, &query, most)).unwrap();
                    prop_assert!(if within.is_minimum { within.count <= total && most < 1_000 } else { within.count == total }, "{within:?} of {total}");
                }
                for start in 0..efforts.len() {
                    let (mut found, mut after, mut pages) = (Vec::new(), None::<Vec<u8>>, 0);
                    loop {
                        // Each page uses a different plan: cursors must not depend on it.
                        let effort = if start == 0 { efforts[pages % efforts.len()] } else { efforts[start] };
                        let page = store.read(|tx| list_within(tx, &query, after.as_deref(), limit, effort)).unwrap();
                        found.extend(page.tickets.iter().map(|ticket| ticket.number));
                        prop_assert!(page.tickets.len() <= limit);
                        let bytes: usize = page.tickets.iter().map(Ticket::json_bytes).sum();
                        prop_assert!(bytes <= effort.bytes || page.tickets.len() == 1);
                        pages += 1;
                        match page.last {
                            Some(last) => after = Some(last),
                            None => break,
                        }
                    }
                    prop_assert_eq!(&found, &expected, "filter {} by {:?} {:?}, effort {}", filter, sort, direction, start);
                }
            }
        }
    }
}
