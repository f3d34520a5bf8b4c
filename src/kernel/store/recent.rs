//! Changes that are durable in the journal and not yet in the database's file, as a layer over it.
//!
//! Every copy shows what was there when it was made: all of them share one memory, in which each change stands under the number of its
//! batch, and a copy looks past those that came later. A change that no living copy shows any more is forgotten; the rest stays until
//! the whole memory goes, which is when the journal's half is full. **Invariant:** only the newest copy takes batches in.
//!
//! A queue removes nearly all that was ever put into it, and is read from its first entry. A walk over every removal would make that
//! slower with each entry that was ever there. So a removal that all living copies show leaves the walk: its key is *hidden*, which only
//! says that the value below no longer counts. That stays true for every later copy, whatever is put under the key.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque, btree_map::Entry},
    ops::Bound,
    sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, Weak},
};

use bytes::Bytes;

use super::{
    changes::{Changes, TableChanges, walk_through},
    engine::{Direction, EngineRead, Flow, KeyRange, RawTable, Visitor},
    error::StoreError,
};

/// The new value of a key; `None` removes it.
type Change = Option<Bytes>;

/// How many entries a walk takes at first, and how many at the most: the writer waits meanwhile. Most walks are short.
const FIRST_STRIDE: usize = 4;
const LONGEST_STRIDE: usize = 256;

/// The changes of one key, each with the number of its batch.
#[derive(Debug)]
struct Versions {
    newest: (u64, Change),
    /// In order.
    older: Vec<(u64, Change)>,
}

impl Versions {
    /// Adds a change and forgets those that no copy shows which has seen the batch `oldest`.
    fn add(&mut self, number: u64, change: Change, oldest: u64) {
        self.older.push(std::mem::replace(&mut self.newest, (number, change)));
        let shown = self.older.partition_point(|(number, _)| *number <= oldest).saturating_sub(1);
        self.older.drain(..shown);
    }

    /// The change that a copy shows which has seen the batches up to `seen`.
    fn at(&self, seen: u64) -> Option<&(u64, Change)> {
        if self.newest.0 <= seen {
            return Some(&self.newest);
        }
        let older = self.older.partition_point(|(number, _)| *number <= seen);
        self.older.get(older.checked_sub(1)?)
    }
}

#[derive(Debug, Default)]
struct Rows {
    /// The batches that dropped the table. What they put into it comes after that.
    drops: Vec<u64>,
    entries: BTreeMap<Bytes, Versions>,
    /// Keys whose value below counts for no copy.
    hidden: BTreeSet<Bytes>,
    /// Removals among the entries, in order: they leave once every copy shows them.
    removals: VecDeque<(u64, Bytes)>,
}

impl Rows {
    /// Takes in a batch. Every living copy has seen the batch `oldest`.
    fn take_in(&mut self, number: u64, changed: TableChanges, oldest: u64) {
        if changed.dropped {
            self.drops.push(number);
        }
        for (key, change) in changed.entries {
            let (key, change) = (Bytes::from(key), change.map(Bytes::from));
            if change.is_none() {
                self.removals.push_back((number, key.clone()));
            }
            match self.entries.entry(key) {
                Entry::Vacant(place) => drop(place.insert(Versions { newest: (number, change), older: Vec::new() })),
                Entry::Occupied(mut place) => place.get_mut().add(number, change, oldest),
            }
        }
        self.hide(oldest);
    }

    /// Takes the removals out of the entries that every copy shows which has seen the batch `oldest`.
    fn hide(&mut self, oldest: u64) {
        while self.removals.front().is_some_and(|(number, _)| *number <= oldest) {
            let Some((number, key)) = self.removals.pop_front() else { return };
            // A later change of the key stands in the entries still.
            if let Entry::Occupied(place) = self.entries.entry(key)
                && place.get().newest.0 == number
            {
                self.hidden.insert(place.remove_entry().0);
            }
        }
    }

    /// The last batch that dropped the table, of those up to `seen`.
    fn dropped_at(&self, seen: u64) -> Option<u64> {
        self.drops.iter().rev().find(|number| **number <= seen).copied()
    }

    /// The changes that a copy shows which has seen the batches up to `seen`, but for hidden keys.
    fn visible<'a>(
        &'a self,
        range: (Bound<&[u8]>, Bound<&[u8]>),
        seen: u64,
    ) -> impl DoubleEndedIterator<Item = (&'a Bytes, &'a Change)> {
        let dropped = self.dropped_at(seen).unwrap_or_default();
        self.entries.range::<[u8], _>(range).filter_map(move |(key, versions)| {
            let (_, change) = versions.at(seen).filter(|(number, _)| *number >= dropped)?;
            Some((key, change))
        })
    }
}

type SharedRows = Arc<RwLock<Rows>>;

#[derive(Clone, Debug)]
pub(super) struct Recent {
    /// Those that a batch has changed so far: copied when one more comes, which is soon no longer the case.
    tables: Arc<BTreeMap<RawTable, SharedRows>>,
    /// The number of the last batch that this copy shows. Copies of the same state share it.
    seen: Arc<u64>,
    /// The numbers that copies may still show, in order.
    shown: Arc<Mutex<VecDeque<Weak<u64>>>>,
}

impl Default for Recent {
    fn default() -> Self {
        let seen = Arc::default();
        let shown = Mutex::new(VecDeque::from([Arc::downgrade(&seen)]));
        Self { tables: Arc::default(), seen, shown: Arc::new(shown) }
    }
}

/// The changes of one table, as a copy shows them.
pub(super) struct RecentTable<'a> {
    rows: &'a RwLock<Rows>,
    seen: u64,
}

impl Recent {
    /// The changed tables in the order of their codes, then of their segments.
    pub(super) fn tables(&self) -> impl Iterator<Item = (RawTable, RecentTable<'_>)> {
        self.tables.iter().map(|(table, rows)| (*table, RecentTable { rows, seen: *self.seen }))
    }

    fn table(&self, table: RawTable) -> Option<RecentTable<'_>> {
        self.tables.get(&table).map(|rows| RecentTable { rows, seen: *self.seen })
    }

    /// Puts a batch on top. Copies that were made before do not show it.
    pub(super) fn take_in(&mut self, changes: Changes) {
        let number = *self.seen + 1;
        let oldest = self.next_shown(number);
        for (table, changed) in changes.into_tables() {
            if !self.tables.contains_key(&table) {
                Arc::make_mut(&mut self.tables).insert(table, SharedRows::default());
            }
            if let Some(rows) = self.tables.get(&table) {
                rows.write().unwrap_or_else(PoisonError::into_inner).take_in(number, changed, oldest);
            }
        }
    }

    /// Goes on to the next number, and gives the lowest that a living copy shows.
    fn next_shown(&mut self, number: u64) -> u64 {
        self.seen = Arc::new(number);
        let mut shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        shown.push_back(Arc::downgrade(&self.seen));
        loop {
            match shown.front().map(Weak::upgrade) {
                Some(Some(oldest)) => return *oldest,
                Some(None) => drop(shown.pop_front()),
                None => return number,
            }
        }
    }

    /// The database with these changes on top of it.
    pub(super) fn over<'a>(&'a self, below: &'a dyn EngineRead) -> Layer<'a> {
        Layer { recent: self, below }
    }
}

impl RecentTable<'_> {
    fn rows(&self) -> RwLockReadGuard<'_, Rows> {
        self.rows.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether nothing of what lies below counts.
    pub(super) fn is_dropped(&self) -> bool {
        self.rows().dropped_at(self.seen).is_some()
    }

    pub(super) fn is_empty(&self) -> bool {
        let rows = self.rows();
        rows.hidden.is_empty() && rows.visible(KeyRange::ALL.bounds(), self.seen).next().is_none()
    }

    /// Calls `visit` for each change in key order. A write to the table waits for the end.
    pub(super) fn each(&self, mut visit: impl FnMut(&[u8], Option<&[u8]>) -> Result<(), StoreError>) -> Result<(), StoreError> {
        let rows = self.rows();
        let mut hidden = rows.hidden.iter().peekable();
        for (key, change) in rows.visible(KeyRange::ALL.bounds(), self.seen) {
            while let Some(hidden) = hidden.next_if(|hidden| *hidden < key) {
                visit(hidden, None)?;
            }
            hidden.next_if_eq(&key);
            visit(key, change.as_deref())?;
        }
        hidden.try_for_each(|key| visit(key, None))
    }

    fn hides(&self, key: &[u8]) -> bool {
        self.rows().hidden.contains(key)
    }

    /// The changes of a range, but for hidden keys. The writer does not wait for the end: entries are taken a few at a time.
    fn walk(&self, range: KeyRange, direction: Direction) -> impl Iterator<Item = (Bytes, Change)> {
        let mut rest = Some((range, FIRST_STRIDE));
        let strides = std::iter::from_fn(move || {
            let (range, stride) = rest.take()?;
            let taken = self.stride(&range, direction, stride);
            if taken.len() == stride {
                rest = taken.last().map(|(last, _)| (range.after(last, direction), LONGEST_STRIDE.min(stride * 4)));
            }
            Some(taken)
        });
        strides.flatten()
    }

    fn stride(&self, range: &KeyRange, direction: Direction, length: usize) -> Vec<(Bytes, Change)> {
        // An end that came to lie before the start ends the walk, and a tree of the standard library would panic.
        if range.is_empty() {
            return Vec::new();
        }
        let rows = self.rows();
        let visible = rows.visible(range.bounds(), self.seen);
        let copy = |(key, change): (&Bytes, &Change)| (key.clone(), change.clone());
        match direction {
            Direction::Forward => visible.map(copy).take(length).collect(),
            Direction::Backward => visible.rev().map(copy).take(length).collect(),
        }
    }
}

pub(super) struct Layer<'a> {
    recent: &'a Recent,
    below: &'a dyn EngineRead,
}

impl EngineRead for Layer<'_> {
    fn get(&self, table: RawTable, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        let Some(recent) = self.recent.table(table) else { return self.below.get(table, key) };
        let (rows, seen) = (recent.rows(), recent.seen);
        let dropped = rows.dropped_at(seen);
        let found = rows.entries.get(key).and_then(|versions| versions.at(seen));
        match found.filter(|(number, _)| *number >= dropped.unwrap_or_default()) {
            Some((_, change)) => Ok(change.as_deref().map(<[u8]>::to_vec)),
            None if dropped.is_some() || rows.hidden.contains(key) => Ok(None),
            None => {
                drop(rows);
                self.below.get(table, key)
            }
        }
    }

    fn scan(&self, table: RawTable, range: &KeyRange, direction: Direction, visit: Visitor<'_>) -> Result<(), StoreError> {
        let Some(recent) = self.recent.table(table) else { return self.below.scan(table, range, direction, visit) };
        let below = |visit: Visitor<'_>| {
            let visit = &mut |key: &[u8], value: &[u8]| if recent.hides(key) { Ok(Flow::Continue) } else { visit(key, value) };
            if recent.is_dropped() { Ok(()) } else { self.below.scan(table, range, direction, visit) }
        };
        walk_through(recent.walk(range.clone(), direction), below, direction, visit)
    }

    fn tables(&self) -> Result<Vec<String>, StoreError> {
        let mut tables = self.below.tables()?;
        tables.extend(self.recent.tables.keys().map(RawTable::to_string));
        tables.sort_unstable();
        tables.dedup();
        Ok(tables)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{catalog, engine::Flow};

    /// So many that a walk takes several strides.
    const KEYS: u8 = 40;
    const TABLE: RawTable = RawTable { table: catalog::EVENTS, segment: Some(1) };

    /// Nothing at all, below everything.
    struct Nothing;

    impl EngineRead for Nothing {
        fn get(&self, _: RawTable, _: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
            Ok(None)
        }

        fn scan(&self, _: RawTable, _: &KeyRange, _: Direction, _: Visitor<'_>) -> Result<(), StoreError> {
            Ok(())
        }

        fn tables(&self) -> Result<Vec<String>, StoreError> {
            Ok(Vec::new())
        }
    }

    fn rows(layer: &dyn EngineRead, range: &KeyRange, direction: Direction) -> Vec<(u8, u8)> {
        let mut rows = Vec::new();
        let collect = &mut |key: &[u8], value: &[u8]| {
            rows.push((key[0], value[0]));
            Ok(Flow::Continue)
        };
        layer.scan(TABLE, range, direction, collect).unwrap();
        rows
    }

    fn all(layer: &dyn EngineRead) -> Vec<(u8, u8)> {
        rows(layer, &KeyRange::ALL, Direction::Forward)
    }

    /// Puts a value, removes the key, or drops the table.
    fn batch() -> impl Strategy<Value = Vec<(u8, Option<u8>, bool)>> {
        proptest::collection::vec((0..KEYS, any::<Option<u8>>(), proptest::bool::weighted(0.02)), 0..24)
    }

    proptest! {
        #[test]
        fn layers_show_what_one_table_would_and_older_copies_stay_as_they_were(
            batches in proptest::collection::vec(batch(), 1..12), turn in 0..12_usize, between in (0..KEYS, 0..=KEYS),
            kept in proptest::bits::u16::ANY,
        ) {
            let mut model = BTreeMap::new();
            let mut copies = Vec::new();
            let (mut flushing, mut recent) = (Recent::default(), Recent::default());
            for (number, batch) in batches.into_iter().enumerate() {
                if number == turn {
                    flushing = std::mem::take(&mut recent);
                }
                if kept & (1 << number) != 0 {
                    copies.push((flushing.clone(), recent.clone(), model.clone()));
                }
                let published = recent.clone();
                let mut changes = Changes::default();
                for (key, value, drops) in batch {
                    match value {
                        _ if drops => {
                            changes.drop_table(TABLE);
                            model.clear();
                        }
                        Some(value) => {
                            changes.put(TABLE, vec![key], vec![value]);
                            model.insert(key, value);
                        }
                        None => {
                            changes.remove(TABLE, vec![key]);
                            model.remove(&key);
                        }
                    }
                }
                recent.take_in(changes);
                drop(published);
                let below = flushing.over(&Nothing);
                let layers = recent.over(&below);
                let (first, last) = between;
                let range = KeyRange { start: Bound::Included(vec![first]), end: Bound::Excluded(vec![last]) };
                let within = model.iter().filter(|(key, _)| (first..last).contains(*key));
                let expected: Vec<(u8, u8)> = within.map(|(key, value)| (*key, *value)).collect();
                prop_assert_eq!(rows(&layers, &range, Direction::Forward), expected.clone());
                prop_assert_eq!(rows(&layers, &range, Direction::Backward), expected.into_iter().rev().collect::<Vec<_>>());
                for key in 0..KEYS {
                    prop_assert_eq!(layers.get(TABLE, &[key]).unwrap(), model.get(&key).map(|value| vec![*value]));
                }
            }
            for (flushing, recent, model) in copies {
                prop_assert_eq!(all(&recent.over(&flushing.over(&Nothing))), model.into_iter().collect::<Vec<_>>());
            }
        }
    }

    fn put(recent: &mut Recent, key: u8) {
        let mut changes = Changes::default();
        changes.put(TABLE, vec![key], vec![key]);
        recent.take_in(changes);
    }

    fn remove(recent: &mut Recent, key: u8) {
        let mut changes = Changes::default();
        changes.remove(TABLE, vec![key]);
        recent.take_in(changes);
    }

    fn entries(recent: &Recent) -> usize {
        recent.table(TABLE).unwrap().rows().entries.len()
    }

    #[test]
    fn a_walk_does_not_pass_what_a_queue_has_removed() {
        let mut recent = Recent::default();
        for key in 0..KEYS {
            put(&mut recent, key);
            remove(&mut recent, key);
        }
        put(&mut recent, KEYS);
        assert_eq!(all(&recent.over(&Nothing)), [(KEYS, KEYS)]);
        assert_eq!(entries(&recent), 1, "and none of the removals");
        let mut changes = Vec::new();
        let collect = |key: &[u8], change: Option<&[u8]>| {
            changes.push((key[0], change.is_some()));
            Ok(())
        };
        recent.table(TABLE).unwrap().each(collect).unwrap();
        assert_eq!(changes, (0..=KEYS).map(|key| (key, key == KEYS)).collect::<Vec<_>>(), "the file gets them all, in order");
    }

    #[test]
    fn what_a_copy_shows_stays_until_the_copy_ends() {
        let mut recent = Recent::default();
        put(&mut recent, 1);
        let copy = recent.clone();
        remove(&mut recent, 1);
        (0..KEYS).for_each(|_| put(&mut recent, 2));
        assert_eq!(all(&copy.over(&Nothing)), [(1, 1)]);
        assert_eq!(all(&recent.over(&Nothing)), [(2, 2)]);
        assert_eq!(entries(&recent), 2);
        drop(copy);
        put(&mut recent, 2);
        assert_eq!(entries(&recent), 1);
        let table = recent.table(TABLE).unwrap();
        assert!(table.rows().entries.values().all(|versions| versions.older.len() <= 1), "replaced values are forgotten");
    }

    #[test]
    fn a_key_that_comes_back_hides_what_lies_below() {
        let mut below = Recent::default();
        put(&mut below, 1);
        let mut recent = Recent::default();
        remove(&mut recent, 1);
        put(&mut recent, 2);
        let copy = recent.clone();
        put(&mut recent, 1);
        assert_eq!(all(&copy.over(&below.over(&Nothing))), [(2, 2)]);
        assert_eq!(copy.over(&below.over(&Nothing)).get(TABLE, &[1]).unwrap(), None);
        assert_eq!(all(&recent.over(&below.over(&Nothing))), [(1, 1), (2, 2)]);
    }
}
