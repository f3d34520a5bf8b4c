//! Tests of the layer: what every copy shows, what walks examine, and how much the layer holds.

use std::{cell::Cell, collections::HashMap, ops::Bound};

use proptest::prelude::*;

use super::*;
use crate::catalog;

/// Enough rows for a walk to take several steps.
const KEYS: u8 = 40;
const TABLE: RawTable = RawTable { table: catalog::EVENTS, segment: Some(1) };
const OTHER: RawTable = RawTable { table: catalog::EVENTS, segment: Some(2) };

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

thread_local! {
    static VISITS: Cell<usize> = const { Cell::new(0) };
}

/// Counts an entry that a walk examines.
pub(super) fn count_visit() {
    VISITS.set(VISITS.get() + 1);
}

/// Rows below the layers. Counts how many of them are read.
#[derive(Default)]
struct Below {
    rows: Model,
    reads: Cell<usize>,
}

impl EngineRead for Below {
    fn get(&self, _: RawTable, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        Ok(self.rows.get(key).cloned())
    }

    fn scan(&self, _: RawTable, range: &KeyRange, direction: Direction, visit: Visitor<'_>) -> Result<(), StoreError> {
        for (key, value) in within(&self.rows, range, direction) {
            self.reads.set(self.reads.get() + 1);
            if visit(&key, &value)? == Flow::Stop {
                break;
            }
        }
        Ok(())
    }

    fn tables(&self) -> Result<Vec<String>, StoreError> {
        Ok(Vec::new())
    }
}

fn within(model: &Model, range: &KeyRange, direction: Direction) -> Vec<(Vec<u8>, Vec<u8>)> {
    if range.is_empty() {
        return Vec::new();
    }
    let rows = model.range::<[u8], (Bound<&[u8]>, Bound<&[u8]>)>(range.bounds());
    let mut rows: Vec<_> = rows.map(|(key, value)| (key.clone(), value.clone())).collect();
    if direction == Direction::Backward {
        rows.reverse();
    }
    rows
}

fn scanned(layer: &dyn EngineRead, range: &KeyRange, direction: Direction, limit: usize) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut found = Vec::new();
    let collect = &mut |key: &[u8], value: &[u8]| {
        found.push((key.to_vec(), value.to_vec()));
        Ok(if found.len() < limit { Flow::Continue } else { Flow::Stop })
    };
    layer.scan(TABLE, range, direction, collect).unwrap();
    found
}

/// The content of the file after a flush of this layer.
fn flushed(recent: &Recent, mut file: Model) -> Model {
    let Some(table) = recent.table(TABLE) else { return file };
    if table.is_dropped() {
        file.clear();
    }
    let mut before = None;
    let write = |key: &[u8], change: Option<&[u8]>| {
        assert!(before.replace(key.to_vec()) < Some(key.to_vec()), "in key order");
        match change {
            Some(value) => drop(file.insert(key.to_vec(), value.to_vec())),
            None => drop(file.remove(key)),
        }
        Ok(())
    };
    table.each(write).unwrap();
    assert_eq!(table.is_empty(), before.is_none());
    file
}

#[derive(Clone, Debug)]
enum Change {
    Put(u8, u8),
    Remove(u8),
    Drop,
}

/// What happens before a batch.
#[derive(Clone, Debug)]
enum Event {
    Nothing,
    Copy,
    EndCopy(prop::sample::Index),
    /// The half is full: its changes are being flushed.
    TurnOver,
}

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        24 => (0..KEYS, any::<u8>()).prop_map(|(key, value)| Change::Put(key, value)),
        24 => (0..KEYS).prop_map(Change::Remove),
        1 => Just(Change::Drop),
    ]
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        4 => Just(Event::Nothing),
        6 => Just(Event::Copy),
        4 => any::<prop::sample::Index>().prop_map(Event::EndCopy),
        1 => Just(Event::TurnOver),
    ]
}

/// Both layers as a reader has them, and the rows that it must see.
struct Copy {
    flushing: Recent,
    recent: Recent,
    model: Model,
}

impl Copy {
    fn check(&self, below: &Below, range: &KeyRange, limit: usize) -> Result<(), TestCaseError> {
        let flushing = self.flushing.over(below);
        let layers = self.recent.over(&flushing);
        for direction in [Direction::Forward, Direction::Backward] {
            prop_assert_eq!(
                scanned(&layers, &KeyRange::ALL, direction, usize::MAX),
                within(&self.model, &KeyRange::ALL, direction)
            );
            let mut expected = within(&self.model, range, direction);
            expected.truncate(limit);
            prop_assert_eq!(scanned(&layers, range, direction, limit), expected);
        }
        for key in 0..KEYS {
            prop_assert_eq!(layers.get(TABLE, &[key]).unwrap(), self.model.get([key].as_slice()).cloned());
        }
        let file = flushed(&self.flushing, below.rows.clone());
        prop_assert_eq!(&flushed(&self.recent, file), &self.model);
        Ok(())
    }
}

proptest! {
    #[test]
    fn every_copy_shows_its_own_state(
        rows in proptest::collection::btree_map(0..KEYS, any::<u8>(), 0..24),
        steps in proptest::collection::vec((event(), proptest::collection::vec(change(), 0..24)), 1..24),
        between in (0..KEYS, 0..=KEYS), limit in 1..12_usize,
    ) {
        let rows: Model = rows.into_iter().map(|(key, value)| (vec![key], vec![value])).collect();
        let below = Below { rows, ..Below::default() };
        let range = KeyRange { start: Bound::Included(vec![between.0]), end: Bound::Excluded(vec![between.1]) };
        let mut model = below.rows.clone();
        let (mut flushing, mut recent) = (Recent::default(), Recent::default());
        let mut copies: Vec<Copy> = Vec::new();
        for (event, batch) in steps {
            match event {
                Event::Copy => copies.push(Copy { flushing: flushing.clone(), recent: recent.clone(), model: model.clone() }),
                Event::EndCopy(which) if !copies.is_empty() => drop(copies.swap_remove(which.index(copies.len()))),
                Event::Nothing | Event::EndCopy(_) => {}
                Event::TurnOver => {
                    // Only one layer is being flushed into the file at a time, and the rows below it never change.
                    if flushing.tables.is_empty() {
                        flushing = std::mem::take(&mut recent);
                    }
                }
            }
            let (published, changed) = (recent.clone(), !batch.is_empty());
            let mut changes = Changes::default();
            for change in batch {
                match change {
                    Change::Put(key, value) => {
                        changes.put(TABLE, vec![key], vec![value]);
                        model.insert(vec![key], vec![value]);
                    }
                    Change::Remove(key) => {
                        changes.remove(TABLE, vec![key]);
                        model.remove([key].as_slice());
                    }
                    Change::Drop => {
                        changes.drop_table(TABLE);
                        model.clear();
                    }
                }
            }
            recent.add_batch(changes);
            drop(published);
            Copy { flushing: flushing.clone(), recent: recent.clone(), model: model.clone() }.check(&below, &range, limit)?;
            if let Some(oldest) = copies.first() {
                oldest.check(&below, &range, limit)?;
            }
            if let Some(table) = recent.table(TABLE).filter(|_| changed) {
                let rows = table.rows.read();
                prop_assert!(rows.undo.len() <= recent.seen.living().count(), "at most one undo for each older copy");
                prop_assert!(rows.newest.hidden.iter().all(|key| !rows.newest.entries.contains_key(key)));
            }
        }
        for copy in copies {
            copy.check(&below, &range, limit)?;
        }
    }
}

/// Adds a batch as the engine does: the previous state stays published until the batch is.
fn commit(recent: &mut Recent, changes: Changes) {
    let published = recent.clone();
    recent.add_batch(changes);
    drop(published);
}

fn put(recent: &mut Recent, table: RawTable, number: u32) {
    let mut changes = Changes::default();
    changes.put(table, number.to_be_bytes().to_vec(), vec![7; 20]);
    commit(recent, changes);
}

fn remove(recent: &mut Recent, table: RawTable, number: u32) {
    let mut changes = Changes::default();
    changes.remove(table, number.to_be_bytes().to_vec());
    commit(recent, changes);
}

/// The first row of a copy, and how many entries the walk to it examined.
fn first_row(recent: &Recent) -> (Option<u32>, usize) {
    VISITS.set(0);
    let found = scanned(&recent.over(&Below::default()), &KeyRange::ALL, Direction::Forward, 1);
    let key = found.first().map(|(key, _)| u32::from_be_bytes(key.as_slice().try_into().unwrap()));
    (key, VISITS.get())
}

#[test]
fn walks_do_not_examine_removals() {
    let mut recent = Recent::default();
    put(&mut recent, TABLE, 0);
    let old = recent.clone();
    let mut copies = Vec::new();
    for number in 1..2_000 {
        put(&mut recent, TABLE, number);
        remove(&mut recent, TABLE, number - 1);
        if number % 500 == 0 {
            copies.push((number, recent.clone()));
        }
    }
    let behind = recent.clone();
    put(&mut recent, TABLE, 2_000);
    remove(&mut recent, TABLE, 1_999);

    let (first, visits) = first_row(&recent);
    assert_eq!(first, Some(2_000));
    assert_eq!(visits, 1, "the newest copy examines the only row");
    let (first, visits) = first_row(&behind);
    assert_eq!(first, Some(1_999));
    assert!(visits <= 2, "a copy two batches behind examines its own row and the newest: {visits}");
    for (number, copy) in &copies {
        let (first, visits) = first_row(copy);
        assert_eq!(first, Some(*number));
        assert!(visits <= 16, "a few rows for each living copy: {visits}");
    }
    let (first, visits) = first_row(&old);
    assert_eq!(first, Some(0));
    assert!(visits <= 16, "a few rows for each living copy: {visits}");
}

#[test]
fn removed_rows_of_the_file_are_read_once() {
    const ROWS: u32 = 2_000;
    let below = Below { rows: (0..ROWS).map(|number| (number.to_be_bytes().to_vec(), vec![9])).collect(), ..Below::default() };
    let first = |recent: &Recent, direction| {
        below.reads.set(0);
        let found = scanned(&recent.over(&below), &KeyRange::ALL, direction, 1);
        (u32::from_be_bytes(found[0].0.as_slice().try_into().unwrap()), below.reads.get())
    };
    for direction in [Direction::Forward, Direction::Backward] {
        let nth = |number| if direction == Direction::Forward { number } else { ROWS - 1 - number };
        let mut recent = Recent::default();
        remove(&mut recent, TABLE, nth(0));
        let old = recent.clone();
        for number in 1..ROWS - 10 {
            remove(&mut recent, TABLE, nth(number));
            let (found, reads) = first(&recent, direction);
            assert_eq!(found, nth(number + 1));
            assert!(reads <= cleared::SHORTEST_RUN + 1, "{reads} rows read after {number} removals");
        }
        assert_eq!(first(&old, direction).0, nth(1), "an older copy does not skip rows that it shows");
        assert_eq!(recent.table(TABLE).unwrap().rows.cleared.read().unwrap().len(), 1, "adjacent runs are joined");
        put(&mut recent, TABLE, nth(5));
        assert_eq!(first(&recent, direction).0, nth(5), "a row that was put again is shown");
        let rows = scanned(&recent.over(&below), &KeyRange::ALL, direction, usize::MAX);
        assert_eq!(rows.len(), 11);
    }
}

/// The memory that the layer holds: keys and values, each counted once, however many places share it.
fn held(recent: &Recent) -> usize {
    let mut found = HashMap::new();
    let mut count = |bytes: &Bytes| {
        found.insert(bytes.as_ptr(), bytes.len());
    };
    for (_, table) in recent.tables() {
        let rows = table.rows.read();
        for state in rows.undo.iter().filter_map(|undo| undo.whole.as_ref()).chain([&rows.newest]) {
            state.entries.iter().flat_map(|(key, value)| [key, value]).chain(&state.hidden).for_each(&mut count);
        }
        for undo in &rows.undo {
            undo.puts.iter().flat_map(|(key, value)| [key, value]).chain(undo.absent.keys()).for_each(&mut count);
        }
    }
    found.values().sum()
}

fn undone(recent: &Recent) -> usize {
    recent.tables().map(|(_, table)| table.rows.read().undo.iter().map(state::Undo::len).sum::<usize>()).sum()
}

#[test]
fn an_old_reader_keeps_only_its_own_state() {
    const ROWS: u32 = 50;
    const ROW_BYTES: usize = 4 + 20;
    let mut recent = Recent::default();
    (0..ROWS).for_each(|number| put(&mut recent, TABLE, number));
    let reader = recent.clone();
    let state = ROWS as usize * ROW_BYTES;
    for round in 0..20 {
        (0..ROWS).for_each(|number| remove(&mut recent, TABLE, number));
        (0..ROWS).for_each(|number| put(&mut recent, TABLE, number));
        // One state of the reader and one of the newest copy. Keys of both may be separate.
        assert!(held(&recent) <= 3 * state, "round {round}: {} bytes", held(&recent));
    }
    assert_eq!(scanned(&reader.over(&Below::default()), &KeyRange::ALL, Direction::Forward, usize::MAX).len(), ROWS as usize);
    drop(reader);
    put(&mut recent, TABLE, 0);
    assert!(undone(&recent) <= 1, "only the undo of the last batch");
    assert!(held(&recent) <= state + ROW_BYTES);
}

#[test]
fn the_layer_stays_small_and_shrinks_after_the_reader() {
    const QUEUE: u32 = 20;
    let mut recent = Recent::default();
    put(&mut recent, OTHER, 1);
    let (mut taken_in, mut next) = (24, 0_u32);
    let mut readers = vec![recent.clone()];
    put(&mut recent, OTHER, 1);
    taken_in += 24;
    for round in 0..30 {
        for number in next..next + QUEUE {
            put(&mut recent, TABLE, number);
            remove(&mut recent, TABLE, number);
            taken_in += 24 + 4;
        }
        next += QUEUE;
        if round % 10 == 5 {
            readers.push(recent.clone());
        }
        assert!(held(&recent) <= taken_in, "round {round}: {} of {taken_in} bytes", held(&recent));
        let table = recent.table(TABLE).unwrap();
        assert!(table.rows.read().undo.len() <= readers.len() + 1);
    }
    drop(readers);
    // The other table is not changed again and shrinks too.
    for _ in 0..TRIM_ALL_EVERY {
        put(&mut recent, TABLE, next);
    }
    assert!(undone(&recent) <= 1);
    let newest = next as usize * 4 + 2 * 24;
    assert!(held(&recent) <= newest + 24, "{} of {newest} bytes", held(&recent));
}

#[test]
fn undo_that_takes_long_to_join_stays_separate() {
    let mut recent = Recent::default();
    let first = recent.clone();
    let mut second = None;
    for half in 0..2 {
        for number in 0..2_000 {
            put(&mut recent, TABLE, half * 2_000 + number);
        }
        second.get_or_insert_with(|| recent.clone());
    }
    drop(second);
    put(&mut recent, TABLE, 4_000);
    assert_eq!(recent.table(TABLE).unwrap().rows.read().undo.len(), 3);
    assert_eq!(first_row(&first).0, None);
    assert_eq!(first.over(&Below::default()).get(TABLE, &3_000_u32.to_be_bytes()).unwrap(), None);
}

#[test]
fn a_key_put_again_hides_the_row_below() {
    let below = Below { rows: Model::from([(1_u32.to_be_bytes().to_vec(), vec![9])]), ..Below::default() };
    let mut recent = Recent::default();
    remove(&mut recent, TABLE, 1);
    put(&mut recent, TABLE, 2);
    let copy = recent.clone();
    put(&mut recent, TABLE, 1);
    let keys = |recent: &Recent| -> Vec<u8> {
        let rows = scanned(&recent.over(&below), &KeyRange::ALL, Direction::Forward, usize::MAX);
        rows.into_iter().map(|(key, _)| key[3]).collect()
    };
    assert_eq!(keys(&copy), [2]);
    assert_eq!(copy.over(&below).get(TABLE, &1_u32.to_be_bytes()).unwrap(), None);
    assert_eq!(keys(&recent), [1, 2]);
}

#[test]
fn the_file_gets_removals_in_key_order() {
    let mut recent = Recent::default();
    for number in 0..40 {
        put(&mut recent, TABLE, number);
        remove(&mut recent, TABLE, number);
    }
    put(&mut recent, TABLE, 20);
    let mut changes = Vec::new();
    let collect = |key: &[u8], change: Option<&[u8]>| {
        changes.push((u32::from(key[3]), change.is_some()));
        Ok(())
    };
    recent.table(TABLE).unwrap().each(collect).unwrap();
    assert_eq!(changes, (0..40).map(|number| (number, number == 20)).collect::<Vec<_>>());
}
