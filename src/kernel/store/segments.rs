//! Tables of time-bounded data, split into segments by a sequence number or by day. Retention drops a whole segment at once,
//! because removing rows one by one is redb's slowest operation.

use tenantd_base::id::TenantId;

use super::{
    catalog::TableName,
    codec::{self, Record},
    engine::{Direction, Flow, KeyRange, RawTable},
    erasure::TenantRow,
    error::StoreError,
    key::Key,
    transaction::{Read, ReadTx, WriteTx},
    usage::{self, CountedSegments, Counts, size},
};

/// How many sequence numbers share a segment, as a power of two.
const SEGMENT_BITS: u32 = 16;

pub fn segment_of(number: u64) -> u64 {
    number >> SEGMENT_BITS
}

/// The first sequence number after a segment.
pub fn end_of_segment(segment: u64) -> u64 {
    (segment + 1) << SEGMENT_BITS
}

/// A table whose rows each belong to a segment. Rows of several kinds may share it if their keys cannot collide.
#[derive(Debug)]
pub struct SegmentedTable {
    name: TableName,
    counts: Counts,
}

impl SegmentedTable {
    pub const fn new(name: TableName) -> Self {
        Self { name, counts: Counts::Nothing }
    }

    /// Makes the rows count for the tenant that their keys start with.
    pub const fn counting(mut self, counts: Counts) -> Self {
        self.counts = counts;
        self
    }

    /// How its rows count, for code that counts them again.
    pub const fn counted(&self) -> CountedSegments {
        CountedSegments { table: self.name, counts: self.counts, tenant_of: usage::tenant_of_key }
    }

    fn raw(&self, segment: u64) -> RawTable {
        RawTable { table: self.name, segment: Some(segment) }
    }

    pub fn put<V: Record>(&self, tx: &mut WriteTx, segment: u64, key: &impl Key, record: &V) -> Result<(), StoreError> {
        let key = key.to_bytes();
        let Some(tenant) = usage::tenant_of_key(&key, &[]).filter(|_| self.counts != Counts::Nothing) else {
            return self.write(tx, segment, key, record).map(drop);
        };
        let (table, key_length) = (self.raw(segment), key.len());
        let old = tx.raw_get(table, &key)?;
        let before = old.as_ref().map_or(0, |stored| size(key_length + stored.len()));
        let after = size(key_length + self.write(tx, segment, key, record)?);
        usage::note_segment(tx, table, tenant, i64::from(self.counts == Counts::Records && old.is_none()), after - before);
        Ok(())
    }

    /// Stores the record and returns its size in bytes.
    fn write<V: Record>(&self, tx: &mut WriteTx, segment: u64, key: Vec<u8>, record: &V) -> Result<usize, StoreError> {
        let stored =
            codec::encode(self.name.name(), &key, record).map_err(|reason| StoreError::damaged(self.name.name(), &key, reason))?;
        let length = stored.len();
        tx.raw_put(self.raw(segment), key, stored);
        Ok(length)
    }

    /// Like [`Self::put`], for a new row that counts for a tenant although its key does not start with it.
    pub fn insert_for<V: Record>(
        &self,
        tx: &mut WriteTx,
        tenant: TenantId,
        segment: u64,
        key: &impl Key,
        record: &V,
    ) -> Result<(), StoreError> {
        let key = key.to_bytes();
        let bytes = size(key.len() + self.write(tx, segment, key.clone(), record)?);
        usage::note_segment(tx, self.raw(segment), tenant, 0, bytes);
        Ok(())
    }

    pub fn get<V: Record>(&self, tx: &impl Read, segment: u64, key: &impl Key) -> Result<Option<V>, StoreError> {
        let key = key.to_bytes();
        let stored = tx.raw_get(self.raw(segment), &key)?;
        stored.map(|stored| self.decode(&key, &stored)).transpose()
    }

    pub const fn name(&self) -> TableName {
        self.name
    }

    fn decode<V: Record>(&self, key: &[u8], stored: &[u8]) -> Result<V, StoreError> {
        let table = self.name.name();
        codec::decode(table, key, stored).map_err(|reason| StoreError::damaged(table, key, reason))
    }

    /// Visits the part of `range` that is in one segment.
    pub fn scan<K: Key, V: Record>(
        &self,
        tx: &impl Read,
        segment: u64,
        range: &KeyRange,
        visit: impl FnMut(K, V) -> Result<Flow, StoreError>,
    ) -> Result<(), StoreError> {
        self.walk(tx, segment, range, Direction::Forward, visit)
    }

    /// Like [`Self::scan`], in either direction.
    pub fn walk<K: Key, V: Record>(
        &self,
        tx: &impl Read,
        segment: u64,
        range: &KeyRange,
        direction: Direction,
        mut visit: impl FnMut(K, V) -> Result<Flow, StoreError>,
    ) -> Result<(), StoreError> {
        let table = self.name.name();
        tx.raw_scan(self.raw(segment), range, direction, &mut |key, stored| {
            let record = self.decode(key, stored)?;
            let key = K::from_bytes(key).ok_or_else(|| StoreError::damaged(table, key, "the key cannot be read"))?;
            visit(key, record)
        })
    }

    /// Removes one row by its key. For rows that cannot wait until their segment is dropped.
    pub fn remove_row(&self, tx: &mut WriteTx, segment: u64, key: Vec<u8>) {
        tx.raw_remove(self.raw(segment), key);
    }

    /// Returns at most `most` rows of any segment whose keys start with `prefix`.
    pub fn rows_under(&self, tx: &ReadTx, prefix: &[u8], most: usize) -> Result<Vec<TenantRow>, StoreError> {
        let mut rows = Vec::new();
        for segment in self.segments(tx)? {
            tx.raw_scan(self.raw(segment), &KeyRange::prefix(prefix), Direction::Forward, &mut |key, _| {
                rows.push(TenantRow { segment: Some(segment), key: key.to_vec() });
                Ok(if rows.len() < most { Flow::Continue } else { Flow::Stop })
            })?;
            if rows.len() >= most {
                break;
            }
        }
        Ok(rows)
    }

    /// The segments that are not empty.
    pub fn segments(&self, tx: &ReadTx) -> Result<Vec<u64>, StoreError> {
        tx.segments(self.name)
    }

    pub fn drop_segment(&self, tx: &mut WriteTx, segment: u64) -> Result<(), StoreError> {
        usage::note_dropped(tx, self.raw(segment))?;
        tx.raw_drop(self.raw(segment));
        Ok(())
    }
}
