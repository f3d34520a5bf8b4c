//! The two views of the store: a read-only snapshot, and the transaction of a write.
//!
//! **Invariant:** a [`WriteTx`] exists only on the writer thread, and the code that runs in it may run again. That code gets
//! time, ids and randomness as arguments and does no I/O of its own.

use std::{cell::Cell, collections::BTreeMap};

use tenantd_base::{id::TenantId, quotas::Quotas};

use super::{
    catalog::TableName,
    changes::Changes,
    engine::{Direction, EngineRead, Flow, KeyRange, RawTable, Visitor},
    error::StoreError,
    journal::Position,
    usage::Growth,
};

/// The read operations that tables need. Both views provide them.
pub trait Read {
    fn raw_get(&self, table: RawTable, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError>;
    fn raw_scan(&self, table: RawTable, range: &KeyRange, direction: Direction, visit: Visitor<'_>) -> Result<(), StoreError>;
}

/// A view that counts the bytes read through it.
#[derive(Debug)]
pub struct Metered<'a, R> {
    tx: &'a R,
    bytes: Cell<usize>,
}

impl<'a, R: Read> Metered<'a, R> {
    pub fn new(tx: &'a R) -> Self {
        Self { tx, bytes: Cell::new(0) }
    }

    /// The size of the keys and values read so far.
    pub fn bytes(&self) -> usize {
        self.bytes.get()
    }

    fn count(&self, bytes: usize) {
        self.bytes.set(self.bytes.get().saturating_add(bytes));
    }
}

impl<R: Read> Read for Metered<'_, R> {
    fn raw_get(&self, table: RawTable, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        let found = self.tx.raw_get(table, key)?;
        self.count(key.len() + found.as_ref().map_or(0, Vec::len));
        Ok(found)
    }

    fn raw_scan(&self, table: RawTable, range: &KeyRange, direction: Direction, visit: Visitor<'_>) -> Result<(), StoreError> {
        self.tx.raw_scan(table, range, direction, &mut |key, value| {
            self.count(key.len() + value.len());
            visit(key, value)
        })
    }
}

/// One consistent snapshot.
pub struct ReadTx {
    engine: Box<dyn EngineRead>,
}

impl ReadTx {
    pub(super) fn new(engine: Box<dyn EngineRead>) -> Self {
        Self { engine }
    }

    /// The last commit that it shows.
    pub(super) fn position(&self) -> Position {
        self.engine.position()
    }

    /// The names of all tables that are not empty.
    pub(super) fn tables(&self) -> Result<Vec<String>, StoreError> {
        let mut filled = Vec::new();
        for name in self.engine.tables()? {
            // The caller decides what an unknown table means.
            if RawTable::parse(&name).map_or(Ok(true), |table| self.is_filled(table))? {
                filled.push(name);
            }
        }
        Ok(filled)
    }

    /// The segments of a table that are not empty.
    pub(super) fn segments(&self, table: TableName) -> Result<Vec<u64>, StoreError> {
        let names = self.engine.tables()?;
        let ours = names.iter().filter_map(|name| RawTable::parse(name)).filter(|raw| raw.table == table);
        let mut filled = Vec::new();
        for (segment, raw) in ours.filter_map(|raw| Some((raw.segment?, raw))) {
            if self.is_filled(raw)? {
                filled.push(segment);
            }
        }
        Ok(filled)
    }

    fn is_filled(&self, table: RawTable) -> Result<bool, StoreError> {
        let mut filled = false;
        self.engine.scan(table, &KeyRange::ALL, Direction::Forward, &mut |_, _| {
            filled = true;
            Ok(Flow::Stop)
        })?;
        Ok(filled)
    }
}

impl std::fmt::Debug for ReadTx {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ReadTx")
    }
}

impl Read for ReadTx {
    fn raw_get(&self, table: RawTable, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        self.engine.get(table, key)
    }

    fn raw_scan(&self, table: RawTable, range: &KeyRange, direction: Direction, visit: Visitor<'_>) -> Result<(), StoreError> {
        self.engine.scan(table, range, direction, visit)
    }
}

/// The state that all writes of one batch share: the newest snapshot, and the changes so far on top of it.
pub struct WriteTx {
    snapshot: Box<dyn EngineRead>,
    changes: Changes,
    /// What the current member adds to the usage of tenants.
    growths: BTreeMap<TenantId, Growth>,
    quotas: Quotas,
}

impl std::fmt::Debug for WriteTx {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WriteTx").field("empty", &self.changes.is_empty()).finish_non_exhaustive()
    }
}

impl WriteTx {
    /// `quotas` are the limits of tenants for which the operator has set none.
    pub(super) fn new(snapshot: Box<dyn EngineRead>, quotas: Quotas) -> Self {
        Self { snapshot, changes: Changes::default(), growths: BTreeMap::new(), quotas }
    }

    pub(super) fn quotas(&self) -> Quotas {
        self.quotas
    }

    pub(super) fn growth(&mut self, tenant: TenantId) -> &mut Growth {
        self.growths.entry(tenant).or_default()
    }

    pub(super) fn pending_growth(&self, tenant: TenantId) -> Option<&Growth> {
        self.growths.get(&tenant)
    }

    pub(super) fn take_growths(&mut self) -> BTreeMap<TenantId, Growth> {
        std::mem::take(&mut self.growths)
    }

    /// The segments of a table, without the changes of the transaction itself.
    pub(super) fn stored_segments(&self, table: TableName) -> Result<Vec<u64>, StoreError> {
        let names = self.snapshot.tables()?;
        Ok(names
            .iter()
            .filter_map(|name| RawTable::parse(name))
            .filter(|raw| raw.table == table)
            .filter_map(|raw| raw.segment)
            .collect())
    }

    /// Starts the next member of the batch. Earlier changes stay, even if it rolls back.
    pub(super) fn begin_member(&mut self) {
        self.changes.begin_member();
        self.growths.clear();
    }

    /// Runs part of a write that may fail separately. On an error, its changes are rolled back and the write can continue.
    pub fn attempt<T, E>(&mut self, part: impl FnOnce(&mut Self) -> Result<T, E>) -> Result<T, E> {
        let (mark, growths) = (self.changes.mark(), self.growths.clone());
        let result = part(self);
        if result.is_err() {
            self.changes.roll_back_to(mark);
            self.growths = growths;
        }
        result
    }

    /// The changes so far.
    pub(super) fn changes(&mut self) -> &mut Changes {
        &mut self.changes
    }

    pub(super) fn into_changes(self) -> Changes {
        self.changes
    }

    pub(super) fn raw_put(&mut self, table: RawTable, key: Vec<u8>, value: Vec<u8>) {
        self.changes.put(table, key, value);
    }

    pub(super) fn raw_remove(&mut self, table: RawTable, key: Vec<u8>) {
        self.changes.remove(table, key);
    }

    pub(super) fn raw_drop(&mut self, table: RawTable) {
        self.changes.drop_table(table);
    }
}

impl Read for WriteTx {
    fn raw_get(&self, table: RawTable, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        self.changes.get(self.snapshot.as_ref(), table, key)
    }

    fn raw_scan(&self, table: RawTable, range: &KeyRange, direction: Direction, visit: Visitor<'_>) -> Result<(), StoreError> {
        self.changes.scan(self.snapshot.as_ref(), table, range, direction, visit)
    }
}
