//! Changes that are durable in the journal and not yet in the database's file, as a layer over it. Copies share what is the same, so
//! that every snapshot holds a copy of its own.

use std::{ops::Bound, sync::Arc};

use imbl::OrdMap;

use super::{
    changes::{Changes, walk_through},
    engine::{Direction, EngineRead, KeyRange, RawTable, Visitor},
    error::StoreError,
};

/// The new value of a key; `None` removes it.
type Change = Option<Arc<[u8]>>;

#[derive(Clone, Debug, Default)]
pub(super) struct RecentTable {
    /// Nothing of what lies below counts.
    pub(super) dropped: bool,
    entries: OrdMap<Arc<[u8]>, Change>,
}

impl RecentTable {
    pub(super) fn entries(&self) -> impl DoubleEndedIterator<Item = (&[u8], Option<&[u8]>)> {
        self.entries.iter().map(|(key, change)| (&**key, change.as_deref()))
    }
}

#[derive(Clone, Debug, Default)]
pub(super) struct Recent {
    tables: OrdMap<RawTable, RecentTable>,
}

impl Recent {
    /// The changed tables in the order of their codes, then of their segments.
    pub(super) fn tables(&self) -> impl Iterator<Item = (RawTable, &RecentTable)> {
        self.tables.iter().map(|(table, changes)| (*table, changes))
    }

    /// Puts a batch on top.
    pub(super) fn take_in(&mut self, changes: Changes) {
        for (table, changed) in changes.into_tables() {
            let recent = self.tables.entry(table).or_default();
            if changed.dropped {
                *recent = RecentTable { dropped: true, entries: OrdMap::new() };
            }
            for (key, change) in changed.entries {
                recent.entries.insert(Arc::from(key), change.map(Arc::from));
            }
        }
    }

    /// The database with these changes on top of it.
    pub(super) fn over<'a>(&'a self, below: &'a dyn EngineRead) -> Layer<'a> {
        Layer { recent: self, below }
    }
}

pub(super) struct Layer<'a> {
    recent: &'a Recent,
    below: &'a dyn EngineRead,
}

impl EngineRead for Layer<'_> {
    fn get(&self, table: RawTable, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        let Some(recent) = self.recent.tables.get(&table) else { return self.below.get(table, key) };
        match recent.entries.get(key) {
            Some(change) => Ok(change.as_deref().map(<[u8]>::to_vec)),
            None if recent.dropped => Ok(None),
            None => self.below.get(table, key),
        }
    }

    fn scan(&self, table: RawTable, range: &KeyRange, direction: Direction, visit: Visitor<'_>) -> Result<(), StoreError> {
        let Some(recent) = self.recent.tables.get(&table) else { return self.below.scan(table, range, direction, visit) };
        if range.is_empty() {
            return Ok(());
        }
        let changed = recent.entries.range::<(Bound<&[u8]>, Bound<&[u8]>), [u8]>(range.bounds());
        let changed = changed.map(|(key, change)| (&**key, change.as_deref()));
        let below = (!recent.dropped).then_some(self.below);
        match direction {
            Direction::Forward => walk_through(changed, below, table, range, direction, visit),
            Direction::Backward => walk_through(changed.rev(), below, table, range, direction, visit),
        }
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
    use crate::kernel::store::{catalog, engine::Flow};

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

    fn rows(layer: &dyn EngineRead, direction: Direction) -> Vec<(u8, u8)> {
        let mut rows = Vec::new();
        let collect = &mut |key: &[u8], value: &[u8]| {
            rows.push((key[0], value[0]));
            Ok(Flow::Continue)
        };
        layer.scan(TABLE, &KeyRange::ALL, direction, collect).unwrap();
        rows
    }

    /// Puts a value, removes the key, or drops the table.
    fn batch() -> impl Strategy<Value = Vec<(u8, Option<u8>, bool)>> {
        proptest::collection::vec((0..12_u8, any::<Option<u8>>(), proptest::bool::weighted(0.05)), 0..8)
    }

    proptest! {
        #[test]
        fn layers_show_what_one_table_would_and_older_copies_stay_as_they_were(
            batches in proptest::collection::vec(batch(), 1..8), turn in 0..8_usize,
        ) {
            let mut model = std::collections::BTreeMap::new();
            let (mut flushing, mut recent) = (Recent::default(), Recent::default());
            for (number, batch) in batches.into_iter().enumerate() {
                if number == turn {
                    flushing = std::mem::take(&mut recent);
                }
                let (before, copy) = (rows(&recent.over(&flushing.over(&Nothing)), Direction::Forward), recent.clone());
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
                prop_assert_eq!(rows(&copy.over(&flushing.over(&Nothing)), Direction::Forward), before);
                let below = flushing.over(&Nothing);
                let layers = recent.over(&below);
                let expected: Vec<(u8, u8)> = model.iter().map(|(key, value)| (*key, *value)).collect();
                prop_assert_eq!(rows(&layers, Direction::Forward), expected.clone());
                prop_assert_eq!(rows(&layers, Direction::Backward), expected.into_iter().rev().collect::<Vec<_>>());
                for key in 0..12_u8 {
                    prop_assert_eq!(layers.get(TABLE, &[key]).unwrap(), model.get(&key).map(|value| vec![*value]));
                }
            }
        }
    }
}
