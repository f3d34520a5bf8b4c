//! Records with sealed values: how to find those under a given key, and how a slice lets them be sealed again.
//!
//! A sealed value contains the fingerprint of its key as plain bytes. So values under the old key are found in the bytes of all
//! tables, whichever slice owns them. **Invariant:** an undeclared table cannot be overlooked. If a value is found in one, the
//! rotation stops and the old key stays.

use std::marker::PhantomData;

use tenantd_base::{
    entropy::Entropy,
    secrets::{SealError, Sealed, SealedPlace, Sealer},
};

use super::super::{
    KeyFingerprint, SegmentedTable, StoreError,
    catalog::{self, TableName},
    codec::Record,
    engine::{Direction, Flow, KeyRange, RawTable},
    key::Key,
    table::Table,
    transaction::{Read, ReadTx, WriteTx},
};

/// Called for each sealed value, which it may replace.
pub type SealedVisitor<'a> = &'a mut dyn FnMut(SealedPlace<'_>, &mut Sealed) -> Result<(), SealError>;

/// A record with sealed values.
pub trait SealedRecord<K>: Record {
    /// Calls `visit` for each of them with the place that it is bound to.
    fn each_sealed(&mut self, key: &K, visit: SealedVisitor<'_>) -> Result<(), SealError>;
}

/// A table of such records, without its types.
pub trait SealedTable: Sync {
    fn name(&self) -> TableName;

    /// Seals values again that the current key has not sealed, or has sealed without their targets. Skips a removed record.
    fn reseal(
        &self,
        tx: &mut WriteTx,
        segment: Option<u64>,
        key: &[u8],
        sealer: &Sealer,
        entropy: &mut Entropy,
    ) -> Result<(), StoreError>;

    /// Opens every sealed value of the table. Returns their number.
    fn open_all(&self, tx: &ReadTx, sealer: &Sealer) -> Result<u64, StoreError>;

    /// The keys of records with a value that an earlier release sealed without its target.
    fn unbound(&self, tx: &ReadTx, sealer: &Sealer) -> Result<Vec<Vec<u8>>, StoreError>;
}

/// Seals every value of a record with the current key and returns the key and the record. `None` if nothing changed.
fn resealed<K: Key, V: SealedRecord<K>>(
    table: TableName,
    key_bytes: &[u8],
    found: Option<V>,
    sealer: &Sealer,
    entropy: &mut Entropy,
) -> Result<Option<(K, V)>, StoreError> {
    let Some(mut record) = found else { return Ok(None) };
    let key = parse_key::<K>(table, key_bytes)?;
    let mut changed = false;
    let visited = record.each_sealed(&key, &mut |place, sealed| {
        changed |= sealer.reseal(place, sealed, entropy)?;
        Ok(())
    });
    visited.map_err(|error| StoreError::damaged(table.name(), key_bytes, error.to_string()))?;
    Ok(changed.then_some((key, record)))
}

fn opened<K: Key, V: SealedRecord<K>>(table: TableName, key: &K, mut record: V, sealer: &Sealer) -> Result<u64, StoreError> {
    let mut count = 0;
    let visited = record.each_sealed(key, &mut |place, sealed| {
        count += 1;
        sealer.open_unbound(place, sealed).map(drop)
    });
    visited.map_err(|error| StoreError::damaged(table.name(), &key.to_bytes(), error.to_string()))?;
    Ok(count)
}

fn parse_key<K: Key>(table: TableName, bytes: &[u8]) -> Result<K, StoreError> {
    K::from_bytes(bytes).ok_or_else(|| StoreError::damaged(table.name(), bytes, "the key cannot be read"))
}

impl<K: Key, V: SealedRecord<K>> SealedTable for Table<K, V> {
    fn name(&self) -> TableName {
        Table::name(self)
    }

    fn reseal(
        &self,
        tx: &mut WriteTx,
        _segment: Option<u64>,
        key: &[u8],
        sealer: &Sealer,
        entropy: &mut Entropy,
    ) -> Result<(), StoreError> {
        let found = self.get(tx, &parse_key(Table::name(self), key)?)?;
        match resealed::<K, V>(Table::name(self), key, found, sealer, entropy)? {
            Some((key, record)) => self.put(tx, &key, &record),
            None => Ok(()),
        }
    }

    fn open_all(&self, tx: &ReadTx, sealer: &Sealer) -> Result<u64, StoreError> {
        let mut count = 0;
        self.scan(tx, &KeyRange::ALL, Direction::Forward, |key, record| {
            count += opened(Table::name(self), &key, record, sealer)?;
            Ok(Flow::Continue)
        })?;
        Ok(count)
    }

    fn unbound(&self, tx: &ReadTx, sealer: &Sealer) -> Result<Vec<Vec<u8>>, StoreError> {
        let mut keys = Vec::new();
        self.scan(tx, &KeyRange::ALL, Direction::Forward, |key, mut record| {
            let mut found = false;
            let visited = record.each_sealed(&key, &mut |place, sealed| {
                found |= sealer.is_unbound(place, sealed);
                Ok(())
            });
            visited.map_err(|error| StoreError::damaged(Table::name(self).name(), &key.to_bytes(), error.to_string()))?;
            if found {
                keys.push(key.to_bytes());
            }
            Ok(Flow::Continue)
        })?;
        Ok(keys)
    }
}

/// The rows of a segmented table whose keys start with `prefix`.
pub struct SealedSegments<K, V> {
    table: &'static SegmentedTable,
    name: TableName,
    prefix: u8,
    types: PhantomData<fn() -> (K, V)>,
}

impl<K, V> std::fmt::Debug for SealedSegments<K, V> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SealedSegments").field("name", &self.name).finish_non_exhaustive()
    }
}

impl<K, V> SealedSegments<K, V> {
    pub const fn new(table: &'static SegmentedTable, name: TableName, prefix: u8) -> Self {
        Self { table, name, prefix, types: PhantomData }
    }
}

impl<K: Key, V: SealedRecord<K>> SealedTable for SealedSegments<K, V> {
    fn name(&self) -> TableName {
        self.name
    }

    fn reseal(
        &self,
        tx: &mut WriteTx,
        segment: Option<u64>,
        key: &[u8],
        sealer: &Sealer,
        entropy: &mut Entropy,
    ) -> Result<(), StoreError> {
        let segment = segment.ok_or_else(|| StoreError::damaged(self.name.name(), key, "the row belongs to no segment"))?;
        let found = self.table.get::<V>(tx, segment, &parse_key::<K>(self.name, key)?)?;
        match resealed::<K, V>(self.name, key, found, sealer, entropy)? {
            Some((key, record)) => self.table.put(tx, segment, &key, &record),
            None => Ok(()),
        }
    }

    fn open_all(&self, tx: &ReadTx, sealer: &Sealer) -> Result<u64, StoreError> {
        let mut count = 0;
        for segment in self.table.segments(tx)? {
            self.table.scan(tx, segment, &KeyRange::prefix(&[self.prefix]), |key: K, record: V| {
                count += opened(self.name, &key, record, sealer)?;
                Ok(Flow::Continue)
            })?;
        }
        Ok(count)
    }

    /// Segments contain responses to requests. They are sent only to the caller, never to another target.
    fn unbound(&self, _tx: &ReadTx, _sealer: &Sealer) -> Result<Vec<Vec<u8>>, StoreError> {
        Ok(Vec::new())
    }
}

/// The position of a walk over all tables: a table name, and the last key examined in it.
pub(super) type Position = (String, Vec<u8>);

/// A part of a walk.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) places: Vec<(RawTable, Vec<u8>)>,
    /// Where to continue. `None` at the end.
    pub(super) next: Option<Position>,
}

/// How many records one transaction handles.
const MOST_PLACES: usize = 100;
/// How many bytes one step reads.
const MOST_BYTES: usize = 32 << 20;

/// Tables that name keys but contain no sealed values.
const BOOKKEEPING_TABLES: [TableName; 2] = [catalog::META, catalog::KEY_ROTATION];

pub(super) fn names_key(stored: &[u8], key: KeyFingerprint) -> bool {
    stored.windows(key.len()).any(|window| window == key)
}

/// Searches for records that name the key, after a position.
pub(super) fn find(tx: &ReadTx, key: KeyFingerprint, after: &Position) -> Result<Found, StoreError> {
    let mut names = tx.tables()?;
    names.retain(|name| *name >= after.0 && !BOOKKEEPING_TABLES.iter().any(|table| table.name() == name));
    names.sort_unstable();
    let (mut found, mut read) = (Found::default(), 0);
    for name in names {
        let table = RawTable::parse(&name).ok_or_else(|| StoreError::Engine(format!("table {name} is not in the catalog")))?;
        let range = if name == after.0 { KeyRange::ALL.after(&after.1, Direction::Forward) } else { KeyRange::ALL };
        let mut last = None;
        tx.raw_scan(table, &range, Direction::Forward, &mut |place, stored| {
            read += place.len() + stored.len();
            if names_key(stored, key) {
                found.places.push((table, place.to_vec()));
            }
            if read < MOST_BYTES && found.places.len() < MOST_PLACES {
                return Ok(Flow::Continue);
            }
            last = Some(place.to_vec());
            Ok(Flow::Stop)
        })?;
        if let Some(last) = last {
            found.next = Some((name, last));
            break;
        }
    }
    Ok(found)
}
