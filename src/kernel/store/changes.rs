//! The pending changes of a batch of writes, in memory. The engine commits them, and reads within the batch see them on top of
//! the snapshot below.
//!
//! **Invariant:** the changes of one member of the batch can be rolled back without touching those of the others.

use std::{
    collections::{BTreeMap, btree_map::Entry},
    ops::Bound,
};

use super::{
    catalog,
    engine::{Direction, EngineRead, Flow, KeyRange, RawTable, Visitor},
    error::StoreError,
};

/// The new value of a key; `None` removes it.
type Change = Option<Vec<u8>>;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TableChanges {
    /// Everything in the table is dropped before the entries apply.
    pub dropped: bool,
    pub entries: BTreeMap<Vec<u8>, Change>,
}

/// How to undo a change: the value before it.
#[derive(Debug)]
enum Undo {
    Entry { table: RawTable, key: Vec<u8>, before: Option<Change> },
    Table { table: RawTable, before: Option<TableChanges> },
}

#[derive(Debug, Default)]
pub struct Changes {
    tables: BTreeMap<RawTable, TableChanges>,
    member: Vec<Undo>,
}

impl Changes {
    pub fn is_empty(&self) -> bool {
        self.tables.values().all(|table| !table.dropped && table.entries.is_empty())
    }

    /// The changed tables, ordered by code and then by segment.
    pub fn tables(&self) -> impl Iterator<Item = (RawTable, &TableChanges)> {
        self.tables.iter().map(|(table, changes)| (*table, changes))
    }

    pub(super) fn into_tables(self) -> impl Iterator<Item = (RawTable, TableChanges)> {
        self.tables.into_iter()
    }

    /// The new value of a key, if the changes put one.
    pub(super) fn put_under(&self, table: RawTable, key: &[u8]) -> Option<&[u8]> {
        self.tables.get(&table)?.entries.get(key)?.as_deref()
    }

    pub fn put(&mut self, table: RawTable, key: Vec<u8>, value: Vec<u8>) {
        self.change(table, key, Some(value));
    }

    pub fn remove(&mut self, table: RawTable, key: Vec<u8>) {
        self.change(table, key, None);
    }

    fn change(&mut self, table: RawTable, key: Vec<u8>, change: Change) {
        let (key, before) = match self.tables.entry(table).or_default().entries.entry(key) {
            Entry::Vacant(place) => {
                let key = place.key().clone();
                place.insert(change);
                (key, None)
            }
            Entry::Occupied(mut place) => (place.key().clone(), Some(place.insert(change))),
        };
        self.member.push(Undo::Entry { table, key, before });
    }

    pub fn drop_table(&mut self, table: RawTable) {
        let before = self.tables.insert(table, TableChanges { dropped: true, entries: BTreeMap::new() });
        self.member.push(Undo::Table { table, before });
    }

    /// Starts the next member. Earlier changes stay, even if the next member rolls back.
    pub fn begin_member(&mut self) {
        self.member.clear();
    }

    pub fn member_is_empty(&self) -> bool {
        self.member.is_empty()
    }

    /// A position in the member's changes, for [`Self::roll_back_to`].
    pub fn mark(&self) -> usize {
        self.member.len()
    }

    /// Undoes all changes of the member.
    pub fn roll_back_member(&mut self) {
        self.roll_back_to(0);
    }

    /// Undoes the member's changes after `mark`.
    pub fn roll_back_to(&mut self, mark: usize) {
        let undone = self.member.split_off(mark.min(self.member.len()));
        for undo in undone.into_iter().rev() {
            match undo {
                Undo::Entry { table, key, before } => {
                    let entries = &mut self.tables.entry(table).or_default().entries;
                    match before {
                        Some(before) => entries.insert(key, before),
                        None => entries.remove(&key),
                    };
                }
                Undo::Table { table, before: Some(before) } => {
                    self.tables.insert(table, before);
                }
                Undo::Table { table, before: None } => {
                    self.tables.remove(&table);
                }
            }
        }
    }

    /// Reads a key through the changes.
    pub fn get(&self, below: &dyn EngineRead, table: RawTable, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        match self.tables.get(&table) {
            None => below.get(table, key),
            Some(changes) => match changes.entries.get(key) {
                Some(change) => Ok(change.clone()),
                None if changes.dropped => Ok(None),
                None => below.get(table, key),
            },
        }
    }

    /// Walks a range of a table through the changes.
    pub fn scan(
        &self,
        below: &dyn EngineRead,
        table: RawTable,
        range: &KeyRange,
        direction: Direction,
        visit: Visitor<'_>,
    ) -> Result<(), StoreError> {
        let Some(changes) = self.tables.get(&table) else { return below.scan(table, range, direction, visit) };
        if range.is_empty() {
            return Ok(());
        }
        let changed = changes.entries.range::<[u8], (Bound<&[u8]>, Bound<&[u8]>)>(range.bounds());
        let changed = changed.map(|(key, change)| (key.as_slice(), change.as_deref()));
        let below = |visit: Visitor<'_>| if changes.dropped { Ok(()) } else { below.scan(table, range, direction, visit) };
        match direction {
            Direction::Forward => walk_through(changed, below, direction, visit),
            Direction::Backward => walk_through(changed.rev(), below, direction, visit),
        }
    }

    /// The changes as bytes, for the journal.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(4096);
        for (raw, changes) in &self.tables {
            out.push(raw.table.code());
            out.extend_from_slice(&raw.segment.map_or(u64::MAX, |segment| segment).to_le_bytes());
            out.push(u8::from(changes.dropped));
            write_length(&mut out, changes.entries.len());
            for (key, change) in &changes.entries {
                write_bytes(&mut out, key);
                out.push(u8::from(change.is_some()));
                if let Some(value) = change {
                    write_bytes(&mut out, value);
                }
            }
        }
        out
    }

    /// Reads what [`Changes::encode`] wrote.
    pub fn decode(mut input: &[u8]) -> Option<Self> {
        let mut changes = Self::default();
        while let [code, rest @ ..] = input {
            input = rest;
            let table = catalog::by_code(*code)?;
            let segment = Some(u64::from_le_bytes(take(&mut input)?)).filter(|segment| *segment != u64::MAX);
            let dropped = take::<1>(&mut input)? == [1];
            let mut entries = BTreeMap::new();
            for _ in 0..read_length(&mut input)? {
                let key = read_bytes(&mut input)?;
                let change = if take::<1>(&mut input)? == [1] { Some(read_bytes(&mut input)?) } else { None };
                entries.insert(key, change);
            }
            changes.tables.insert(RawTable { table, segment }, TableChanges { dropped, entries });
        }
        Some(changes)
    }
}

/// Walks a range of the layer below with changes on top. `changed` is in the order of the walk, and `below` walks the layer
/// below.
pub(super) fn walk_through<K: AsRef<[u8]>, V: AsRef<[u8]>>(
    mut changed: impl Iterator<Item = (K, Option<V>)>,
    below: impl FnOnce(Visitor<'_>) -> Result<(), StoreError>,
    direction: Direction,
    visit: Visitor<'_>,
) -> Result<(), StoreError> {
    let mut pending = changed.next();
    let mut stopped = false;
    below(&mut |key, value| {
        while let Some((changed_key, change)) = pending.take_if(|(changed_key, _)| match direction {
            Direction::Forward => changed_key.as_ref() <= key,
            Direction::Backward => changed_key.as_ref() >= key,
        }) {
            pending = changed.next();
            if let Some(value) = change
                && visit(changed_key.as_ref(), value.as_ref())? == Flow::Stop
            {
                stopped = true;
                return Ok(Flow::Stop);
            }
            if changed_key.as_ref() == key {
                return Ok(Flow::Continue);
            }
        }
        let flow = visit(key, value)?;
        stopped = flow == Flow::Stop;
        Ok(flow)
    })?;
    while let Some((key, change)) = pending.take_if(|_| !stopped) {
        pending = changed.next();
        if let Some(value) = change {
            stopped = visit(key.as_ref(), value.as_ref())? == Flow::Stop;
        }
    }
    Ok(())
}

fn write_length(out: &mut Vec<u8>, length: usize) {
    out.extend_from_slice(&(length as u64).to_le_bytes());
}

fn write_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    write_length(out, bytes.len());
    out.extend_from_slice(bytes);
}

fn take<const N: usize>(input: &mut &[u8]) -> Option<[u8; N]> {
    let (head, rest) = input.split_first_chunk::<N>()?;
    *input = rest;
    Some(*head)
}

fn read_length(input: &mut &[u8]) -> Option<usize> {
    usize::try_from(u64::from_le_bytes(take(input)?)).ok()
}

fn read_bytes(input: &mut &[u8]) -> Option<Vec<u8>> {
    let length = read_length(input)?;
    let (bytes, rest) = input.split_at_checked(length)?;
    *input = rest;
    Some(bytes.to_vec())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TABLE: RawTable = RawTable { table: catalog::TENANTS, segment: None };
    const SEGMENT: RawTable = RawTable { table: catalog::EVENTS, segment: Some(3) };

    type Rows = BTreeMap<Vec<u8>, Vec<u8>>;

    /// A snapshot that holds the same rows in every table.
    struct Below(Rows);

    impl EngineRead for Below {
        fn get(&self, _: RawTable, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
            Ok(self.0.get(key).cloned())
        }

        fn scan(&self, _: RawTable, range: &KeyRange, direction: Direction, visit: Visitor<'_>) -> Result<(), StoreError> {
            if range.is_empty() {
                return Ok(());
            }
            let mut rows: Vec<_> = self.0.range::<[u8], (Bound<&[u8]>, Bound<&[u8]>)>(range.bounds()).collect();
            if direction == Direction::Backward {
                rows.reverse();
            }
            for (key, value) in rows {
                if visit(key, value)? == Flow::Stop {
                    break;
                }
            }
            Ok(())
        }

        fn tables(&self) -> Result<Vec<String>, StoreError> {
            Ok(Vec::new())
        }
    }

    #[derive(Clone, Debug)]
    enum Step {
        Put(u8, u8),
        Remove(u8),
        Drop,
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            8 => (0..20_u8, any::<u8>()).prop_map(|(key, value)| Step::Put(key, value)),
            4 => (0..20_u8).prop_map(Step::Remove),
            1 => Just(Step::Drop),
        ]
    }

    fn run(changes: &mut Changes, table: RawTable, model: &mut Rows, steps: &[Step]) {
        for step in steps {
            match *step {
                Step::Put(key, value) => {
                    changes.put(table, vec![key], vec![value]);
                    model.insert(vec![key], vec![value]);
                }
                Step::Remove(key) => {
                    changes.remove(table, vec![key]);
                    model.remove([key].as_slice());
                }
                Step::Drop => {
                    changes.drop_table(table);
                    model.clear();
                }
            }
        }
    }

    fn scanned(changes: &Changes, below: &Below, range: &KeyRange, direction: Direction, limit: usize) -> Vec<(Vec<u8>, Vec<u8>)> {
        let mut found = Vec::new();
        let collect = &mut |key: &[u8], value: &[u8]| {
            found.push((key.to_vec(), value.to_vec()));
            Ok(if found.len() < limit { Flow::Continue } else { Flow::Stop })
        };
        changes.scan(below, TABLE, range, direction, collect).unwrap();
        found
    }

    proptest! {
        #[test]
        fn reads_see_changes_and_a_rollback_leaves_no_trace(
            rows in proptest::collection::btree_map(0..20_u8, any::<u8>(), 0..12),
            kept in proptest::collection::vec(step(), 0..12),
            refused in proptest::collection::vec(step(), 0..12),
            then_kept in proptest::collection::vec(step(), 0..12),
            from in 0..20_u8, to in 0..20_u8, limit in 1..6_usize, backward: bool,
        ) {
            let below = Below(rows.iter().map(|(key, value)| (vec![*key], vec![*value])).collect());
            let mut model = below.0.clone();
            let mut changes = Changes::default();
            run(&mut changes, TABLE, &mut model, &kept);
            changes.begin_member();
            run(&mut changes, TABLE, &mut below.0.clone(), &refused);
            changes.roll_back_member();
            run(&mut changes, TABLE, &mut model, &then_kept);
            let mark = changes.mark();
            run(&mut changes, TABLE, &mut below.0.clone(), &refused);
            changes.roll_back_to(mark);

            let direction = if backward { Direction::Backward } else { Direction::Forward };
            let range = KeyRange { start: Bound::Included(vec![from]), end: Bound::Excluded(vec![to]) };
            let mut expected: Vec<_> = if from < to {
                model.range::<[u8], (Bound<&[u8]>, Bound<&[u8]>)>(range.bounds()).map(|(key, value)| (key.clone(), value.clone())).collect()
            } else {
                Vec::new()
            };
            if backward {
                expected.reverse();
            }
            expected.truncate(limit);
            prop_assert_eq!(scanned(&changes, &below, &range, direction, limit), expected);
            for key in 0..20_u8 {
                prop_assert_eq!(changes.get(&below, TABLE, &[key]).unwrap(), model.get([key].as_slice()).cloned());
            }
        }

        #[test]
        fn changes_decode_whole_or_not_at_all(
            first in proptest::collection::vec(step(), 1..8), second in proptest::collection::vec(step(), 1..8),
        ) {
            let mut changes = Changes::default();
            run(&mut changes, TABLE, &mut Rows::new(), &first);
            run(&mut changes, SEGMENT, &mut Rows::new(), &second);
            let bytes = changes.encode();
            let read = Changes::decode(&bytes).unwrap();
            prop_assert_eq!(&read.tables, &changes.tables);
            for length in 0..bytes.len() {
                let part = Changes::decode(&bytes[..length]);
                prop_assert!(part.is_none_or(|part| part.tables != changes.tables));
            }
        }
    }
}
