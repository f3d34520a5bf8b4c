//! Typed tables that maintain their secondary indexes.
//!
//! A slice declares its tables as statics in its `repo.rs`. **Invariant:** every write goes through [`Table`], which changes the
//! record and its index entries together. `tenantd check` verifies that they match.

use std::{collections::BTreeMap, marker::PhantomData};

use super::{
    catalog::TableName,
    codec::{self, Record},
    engine::{Direction, Flow, KeyRange, RawTable},
    error::StoreError,
    key::{FixedKey, Key},
    migrate::Progress,
    transaction::{Read, ReadTx, WriteTx},
    usage::{self, Counts, size},
};

/// A secondary index: the keys that lead to a record. Each key starts with the tenant if the data belongs to tenants.
pub struct Index<K, V> {
    pub table: TableName,
    /// At most one record per key. A second one is refused as damage. A service checks first and returns its own error.
    pub unique: bool,
    pub keys: fn(&K, &V) -> Vec<Vec<u8>>,
}

impl<K, V> std::fmt::Debug for Index<K, V> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Index").field("table", &self.table).finish_non_exhaustive()
    }
}

impl<K: Key, V> Index<K, V> {
    /// The stored entries of one record, as key and value.
    pub(super) fn entries(&self, key: &K, primary: &[u8], record: &V) -> Vec<(Vec<u8>, Vec<u8>)> {
        let entry = |mut index_key: Vec<u8>| {
            if self.unique {
                (index_key, primary.to_vec())
            } else {
                index_key.extend_from_slice(primary);
                (index_key, Vec::new())
            }
        };
        let mut entries: Vec<_> = (self.keys)(key, record).into_iter().map(entry).collect();
        // A record with the same value twice needs one entry.
        entries.sort_unstable();
        entries.dedup();
        entries
    }

    /// Returns the record's key under `index_key` of a unique index.
    pub fn find(&self, tx: &impl Read, index_key: &[u8]) -> Result<Option<K>, StoreError> {
        let Some(primary) = tx.raw_get(self.table.into(), index_key)? else { return Ok(None) };
        let key = K::from_bytes(&primary)
            .ok_or_else(|| StoreError::damaged(self.table.name(), index_key, "the entry names no record"))?;
        Ok(Some(key))
    }
}

impl<K: FixedKey, V> Index<K, V> {
    /// Visits the entries of `range` in index order. The visitor gets the record's key and the entry's own bytes, from which a
    /// later scan can continue.
    pub fn scan(
        &self,
        tx: &impl Read,
        range: &KeyRange,
        direction: Direction,
        mut visit: impl FnMut(K, &[u8]) -> Result<Flow, StoreError>,
    ) -> Result<(), StoreError> {
        let table = self.table.name();
        tx.raw_scan(self.table.into(), range, direction, &mut |entry, value| {
            let primary = if self.unique { Some(value) } else { entry.len().checked_sub(K::LENGTH).and_then(|at| entry.get(at..)) };
            let key =
                primary.and_then(K::from_bytes).ok_or_else(|| StoreError::damaged(table, entry, "the entry names no record"))?;
            visit(key, entry)
        })
    }

    /// Returns the keys of at most `limit` records of `range`, in index order.
    pub fn list(&self, tx: &impl Read, range: &KeyRange, limit: usize) -> Result<Vec<K>, StoreError> {
        let mut found = Vec::new();
        self.scan(tx, range, Direction::Forward, |key, _| {
            found.push(key);
            Ok(if found.len() < limit { Flow::Continue } else { Flow::Stop })
        })?;
        Ok(found)
    }
}

/// How many entries one transaction converts.
const BATCH: usize = 2_000;

impl<K: Key, V> Index<K, V> {
    /// Converts the entries of a formerly unique index to non-unique ones, a batch at a time. `key` converts an old key to the
    /// new one. Only entries of a unique index have a value, so the entries themselves show which ones are left.
    pub fn share(&self, tx: &mut WriteTx, key: impl Fn(&[u8]) -> Option<Vec<u8>>) -> Result<Progress, StoreError> {
        let mut entries = Vec::new();
        tx.raw_scan(self.table.into(), &KeyRange::ALL, Direction::Forward, &mut |entry, primary| {
            if !primary.is_empty() {
                entries.push((entry.to_vec(), primary.to_vec()));
            }
            Ok(if entries.len() < BATCH { Flow::Continue } else { Flow::Stop })
        })?;
        let progress = if entries.is_empty() { Progress::Done } else { Progress::More };
        for (entry, primary) in entries {
            let unreadable = || StoreError::damaged(self.table.name(), &entry, "the entry cannot be read");
            let shared = [key(&entry).ok_or_else(unreadable)?, primary].concat();
            tx.raw_remove(self.table.into(), entry);
            tx.raw_put(self.table.into(), shared, Vec::new());
        }
        Ok(progress)
    }
}

pub struct Table<K: 'static, V: 'static> {
    name: TableName,
    indexes: &'static [&'static Index<K, V>],
    counts: Counts,
    types: PhantomData<fn() -> (K, V)>,
}

/// Counts the entries of a table whose keys start with `prefix`.
pub fn rows_under(tx: &impl Read, table: TableName, prefix: &[u8]) -> Result<u64, StoreError> {
    let mut rows = 0;
    tx.raw_scan(table.into(), &KeyRange::prefix(prefix), Direction::Forward, &mut |_, _| {
        rows += 1;
        Ok(Flow::Continue)
    })?;
    Ok(rows)
}

/// The size of a table with all of its segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableSize {
    pub name: &'static str,
    pub segments: u64,
    pub rows: u64,
    pub bytes: u64,
}

/// Returns the sizes of all tables that are not empty, ordered by name.
pub fn table_sizes(tx: &ReadTx) -> Result<Vec<TableSize>, StoreError> {
    let mut sizes: BTreeMap<&'static str, TableSize> = BTreeMap::new();
    for raw in tx.tables()?.iter().filter_map(|name| RawTable::parse(name)) {
        let name = raw.table.name();
        let size = sizes.entry(name).or_insert(TableSize { name, segments: 0, rows: 0, bytes: 0 });
        size.segments += u64::from(raw.segment.is_some());
        tx.raw_scan(raw, &KeyRange::ALL, Direction::Forward, &mut |key, value| {
            size.rows += 1;
            size.bytes += (key.len() + value.len()) as u64;
            Ok(Flow::Continue)
        })?;
    }
    Ok(sizes.into_values().collect())
}

impl<K, V> std::fmt::Debug for Table<K, V> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Table").field("name", &self.name).finish_non_exhaustive()
    }
}

impl<K: Key, V: Record> Table<K, V> {
    pub const fn new(name: TableName, indexes: &'static [&'static Index<K, V>]) -> Self {
        Self { name, indexes, counts: Counts::Nothing, types: PhantomData }
    }

    /// Makes the rows count for their tenants.
    pub const fn counting(mut self, counts: Counts) -> Self {
        assert!(K::OF_TENANT, "only rows of a tenant count for it");
        self.counts = counts;
        self
    }

    pub(super) const fn counts(&self) -> Counts {
        self.counts
    }

    pub const fn name(&self) -> TableName {
        self.name
    }

    pub(super) fn indexes(&self) -> &'static [&'static Index<K, V>] {
        self.indexes
    }

    /// The names of its indexes, whose content follows from its records.
    pub fn index_names(&self) -> Vec<TableName> {
        self.indexes.iter().map(|index| index.table).collect()
    }

    /// Returns the unique indexes in which another record already has a key of this one. A record from another installation may
    /// conflict.
    pub fn claimed(&self, tx: &impl Read, key: &K, record: &V) -> Result<Vec<TableName>, StoreError> {
        let primary = key.to_bytes();
        let mut claimed = Vec::new();
        for index in self.indexes.iter().filter(|index| index.unique) {
            for (entry, _) in index.entries(key, &primary, record) {
                if tx.raw_get(index.table.into(), &entry)?.is_some_and(|holder| holder != primary) {
                    claimed.push(index.table);
                }
            }
        }
        Ok(claimed)
    }

    pub fn get(&self, tx: &impl Read, key: &K) -> Result<Option<V>, StoreError> {
        self.get_bytes(tx, &key.to_bytes())
    }

    fn get_bytes(&self, tx: &impl Read, key: &[u8]) -> Result<Option<V>, StoreError> {
        Ok(self.get_stored(tx, key)?.map(|(record, _)| record))
    }

    /// The record and its size in bytes.
    fn get_stored(&self, tx: &impl Read, key: &[u8]) -> Result<Option<(V, usize)>, StoreError> {
        tx.raw_get(self.name.into(), key)?.map(|stored| Ok((self.decode(key, &stored)?, stored.len()))).transpose()
    }

    fn decode(&self, key: &[u8], stored: &[u8]) -> Result<V, StoreError> {
        let table = self.name.name();
        codec::decode(table, key, stored).map_err(|reason| StoreError::damaged(table, key, reason))
    }

    /// Stores the record under the key, replaces an existing one, and updates its index entries.
    pub fn put(&self, tx: &mut WriteTx, key: &K, record: &V) -> Result<(), StoreError> {
        let primary = key.to_bytes();
        let needs_old = !self.indexes.is_empty() || self.counts != Counts::Nothing;
        let old = if needs_old { self.get_stored(tx, &primary)? } else { None };
        self.write(tx, key, &primary, old.as_ref(), Some(record))
    }

    /// Stores the record under a key that is known to be free, such as a new id. This saves the read of a previous record.
    pub fn insert(&self, tx: &mut WriteTx, key: &K, record: &V) -> Result<(), StoreError> {
        self.write(tx, key, &key.to_bytes(), None, Some(record))
    }

    /// Removes the record and returns it.
    pub fn remove(&self, tx: &mut WriteTx, key: &K) -> Result<Option<V>, StoreError> {
        let primary = key.to_bytes();
        let old = self.get_stored(tx, &primary)?;
        if old.is_some() {
            self.write(tx, key, &primary, old.as_ref(), None)?;
        }
        Ok(old.map(|(record, _)| record))
    }

    fn write(
        &self,
        tx: &mut WriteTx,
        key: &K,
        primary: &[u8],
        old: Option<&(V, usize)>,
        new: Option<&V>,
    ) -> Result<(), StoreError> {
        for index in self.indexes {
            let before = old.map(|(record, _)| index.entries(key, primary, record)).unwrap_or_default();
            let after = new.map(|record| index.entries(key, primary, record)).unwrap_or_default();
            let table = index.table;
            let gone: Vec<_> = before.iter().filter(|entry| !after.contains(entry)).map(|(entry, _)| entry.clone()).collect();
            for entry in gone {
                tx.raw_remove(table.into(), entry);
            }
            for (entry, value) in after.into_iter().filter(|entry| !before.contains(entry)) {
                if index.unique && tx.raw_get(table.into(), &entry)?.is_some() {
                    return Err(StoreError::damaged(table.name(), &entry, "two records have the same unique key"));
                }
                tx.raw_put(table.into(), entry, value);
            }
        }
        let table = self.name;
        let mut bytes = old.map_or(0, |(_, stored)| -size(primary.len() + stored));
        match new {
            Some(record) => {
                let stored = codec::encode(table.name(), primary, record)
                    .map_err(|reason| StoreError::damaged(table.name(), primary, reason))?;
                bytes += size(primary.len() + stored.len());
                tx.raw_put(table.into(), primary.to_vec(), stored);
            }
            None => tx.raw_remove(table.into(), primary.to_vec()),
        }
        if self.counts != Counts::Nothing
            && let Some(tenant) = usage::tenant_of_key(primary, &[])
        {
            let more = i64::from(new.is_some()) - i64::from(old.is_some());
            usage::note_rows(tx, tenant, if self.counts == Counts::Records { more } else { 0 }, bytes);
        }
        Ok(())
    }

    /// Creates all entries of an index that was added after its records, in one transaction. For tables with few records.
    pub fn fill(&self, tx: &mut WriteTx, index: &Index<K, V>) -> Result<(), StoreError> {
        for (key, record) in self.list(tx, &KeyRange::ALL, usize::MAX)? {
            for (entry, value) in index.entries(&key, &key.to_bytes(), &record) {
                tx.raw_put(index.table.into(), entry, value);
            }
        }
        Ok(())
    }

    /// Creates the missing entries of an index for the records that need them, in one transaction. For few records of a large table.
    pub fn fill_some(&self, tx: &mut WriteTx, index: &Index<K, V>, needs: impl Fn(&V) -> bool) -> Result<(), StoreError> {
        let mut found = Vec::new();
        self.scan(tx, &KeyRange::ALL, Direction::Forward, |key, record| {
            if needs(&record) {
                found.extend(index.entries(&key, &key.to_bytes(), &record));
            }
            Ok(Flow::Continue)
        })?;
        for (entry, value) in found {
            tx.raw_put(index.table.into(), entry, value);
        }
        Ok(())
    }

    /// Visits the records of `range` in key order.
    pub fn scan(
        &self,
        tx: &impl Read,
        range: &KeyRange,
        direction: Direction,
        mut visit: impl FnMut(K, V) -> Result<Flow, StoreError>,
    ) -> Result<(), StoreError> {
        let table = self.name.name();
        tx.raw_scan(self.name.into(), range, direction, &mut |key, stored| {
            let record = self.decode(key, stored)?;
            let key = K::from_bytes(key).ok_or_else(|| StoreError::damaged(table, key, "the key cannot be read"))?;
            visit(key, record)
        })
    }

    /// Returns at most `limit` records after a key, in key order. For callers that read the whole table in parts.
    pub fn list_after(&self, tx: &impl Read, after: Option<&K>, limit: usize) -> Result<Vec<(K, V)>, StoreError> {
        let range = after.map_or(KeyRange::ALL, |key| KeyRange::ALL.after(&key.to_bytes(), Direction::Forward));
        self.list(tx, &range, limit)
    }

    /// Returns at most `limit` records of `range`, in key order.
    pub fn list(&self, tx: &impl Read, range: &KeyRange, limit: usize) -> Result<Vec<(K, V)>, StoreError> {
        let mut found = Vec::new();
        if limit == 0 {
            return Ok(found);
        }
        self.scan(tx, range, Direction::Forward, |key, record| {
            found.push((key, record));
            Ok(if found.len() < limit { Flow::Continue } else { Flow::Stop })
        })?;
        Ok(found)
    }
}
