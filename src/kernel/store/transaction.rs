//! The two views of the store: a snapshot that is read, and the transaction that a write runs in.
//!
//! **Invariant:** a [`WriteTx`] exists on the writer thread only, and code that runs in it may run again: it takes time, ids and
//! randomness as arguments and does no I/O of its own.

use super::{
    catalog::{self, TableName},
    engine::{Direction, EngineRead, EngineWrite, KeyRange, Visitor},
    error::StoreError,
};

/// What tables need to read: both views offer it.
pub trait Read {
    fn raw_get(&self, table: &str, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError>;
    fn raw_scan(&self, table: &str, range: &KeyRange, direction: Direction, visit: Visitor<'_>) -> Result<(), StoreError>;
    fn raw_tables(&self) -> Result<Vec<String>, StoreError>;
}

/// One consistent snapshot.
pub struct ReadTx {
    engine: Box<dyn EngineRead>,
}

impl ReadTx {
    pub(super) fn new(engine: Box<dyn EngineRead>) -> Self {
        Self { engine }
    }
}

impl std::fmt::Debug for ReadTx {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ReadTx")
    }
}

impl Read for ReadTx {
    fn raw_get(&self, table: &str, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        self.engine.get(table, key)
    }

    fn raw_scan(&self, table: &str, range: &KeyRange, direction: Direction, visit: Visitor<'_>) -> Result<(), StoreError> {
        self.engine.scan(table, range, direction, visit)
    }

    fn raw_tables(&self) -> Result<Vec<String>, StoreError> {
        self.engine.tables()
    }
}

/// The transaction that all writes of one batch share.
pub struct WriteTx {
    engine: Box<dyn EngineWrite>,
    /// Whether the member of the batch that runs now has changed anything.
    dirty: bool,
    /// Tables changed by the batch, by their place in the catalogue.
    touched: [bool; catalog::COUNT],
    /// The engine's own failure, after which the transaction must not be committed.
    failure: Option<StoreError>,
}

impl std::fmt::Debug for WriteTx {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WriteTx").field("dirty", &self.dirty).finish_non_exhaustive()
    }
}

impl WriteTx {
    pub(super) fn new(engine: Box<dyn EngineWrite>) -> Self {
        Self { engine, dirty: false, touched: [false; catalog::COUNT], failure: None }
    }

    pub(super) fn begin_member(&mut self) {
        self.dirty = false;
    }

    pub(super) fn member_is_dirty(&self) -> bool {
        self.dirty
    }

    pub(super) fn failure(&self) -> Option<&StoreError> {
        self.failure.as_ref()
    }

    pub(super) fn touched(&self) -> impl Iterator<Item = usize> + use<> {
        self.touched.into_iter().enumerate().filter_map(|(place, touched)| touched.then_some(place))
    }

    pub(super) fn commit(self) -> Result<(), StoreError> {
        self.engine.commit()
    }

    pub(super) fn abort(self) -> Result<(), StoreError> {
        self.engine.abort()
    }

    /// `raw` is the engine's table: `table` itself or one of its segments.
    pub(super) fn raw_put(&mut self, table: TableName, raw: &str, key: &[u8], value: &[u8]) -> Result<(), StoreError> {
        self.touch(table);
        let done = self.engine.put(raw, key, value);
        self.keep_failure(done)
    }

    pub(super) fn raw_remove(&mut self, table: TableName, raw: &str, key: &[u8]) -> Result<bool, StoreError> {
        self.touch(table);
        let done = self.engine.remove(raw, key);
        self.keep_failure(done)
    }

    pub(super) fn raw_drop(&mut self, table: TableName, raw: &str) -> Result<(), StoreError> {
        self.touch(table);
        let done = self.engine.drop_table(raw);
        self.keep_failure(done)
    }

    fn touch(&mut self, table: TableName) {
        self.dirty = true;
        if let Some(touched) = self.touched.get_mut(table.index()) {
            *touched = true;
        }
    }

    fn keep_failure<T>(&mut self, done: Result<T, StoreError>) -> Result<T, StoreError> {
        if let Err(error) = &done {
            self.failure = Some(error.clone());
        }
        done
    }
}

impl Read for WriteTx {
    fn raw_get(&self, table: &str, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        self.engine.get(table, key)
    }

    fn raw_scan(&self, table: &str, range: &KeyRange, direction: Direction, visit: Visitor<'_>) -> Result<(), StoreError> {
        self.engine.scan(table, range, direction, visit)
    }

    fn raw_tables(&self) -> Result<Vec<String>, StoreError> {
        self.engine.tables()
    }
}
