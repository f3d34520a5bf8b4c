//! redb behind the engine seam. Every commit is durable and two-phase: tenants choose the bytes, and redb's one-phase commit
//! trusts a checksum that is not cryptographic. The crash simulator also finds one-phase files that no longer open after a failed
//! sync, a restart of the process and a later loss of power.

use std::{path::Path, sync::Arc};

use redb::{
    Database, Durability, ReadTransaction, ReadableDatabase, ReadableTable, StorageBackend, TableDefinition, TableError,
    TableHandle, WriteTransaction,
};

use super::{
    engine::{Direction, Engine, EngineRead, EngineWrite, Flow, KeyRange, RawTable, Visitor},
    error::StoreError,
};

type Definition<'a> = TableDefinition<'a, &'static [u8], &'static [u8]>;

pub struct RedbEngine {
    database: Database,
}

impl std::fmt::Debug for RedbEngine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("RedbEngine")
    }
}

/// Told how much of a repair after a crash is done, from 0 to 1.
pub type RepairProgress = Arc<dyn Fn(f64) + Send + Sync>;

impl RedbEngine {
    /// Opens a file that exists. redb would make a new database of a missing or an empty one, so both are refused here.
    pub fn open(path: &Path, cache_bytes: usize, progress: Option<RepairProgress>) -> Result<Self, StoreError> {
        let shown = path.display();
        let length = std::fs::metadata(path).map_err(|error| StoreError::Installation(format!("{shown}: {error}")))?.len();
        if length == 0 {
            return Err(StoreError::Installation(format!("{shown} is empty: this is not a store; restore a backup")));
        }
        let mut builder = Database::builder();
        builder.set_cache_size(cache_bytes);
        if let Some(progress) = progress {
            builder.set_repair_callback(move |session| progress(session.progress()));
        }
        let database = builder.open(path).map_err(|error| StoreError::Installation(format!("{shown}: {error}")))?;
        Ok(Self { database })
    }

    /// Makes a new file; one that exists is refused.
    pub fn create(path: &Path, cache_bytes: usize) -> Result<Self, StoreError> {
        let shown = path.display();
        let file =
            private_options().create_new(true).open(path).map_err(|error| StoreError::Installation(format!("{shown}: {error}")))?;
        let database = Database::builder().set_cache_size(cache_bytes).create_file(file).map_err(StoreError::engine)?;
        Ok(Self { database })
    }

    /// Opens or makes a database on a storage of the caller's, such as a disk that crashes in a test.
    pub fn on_backend(backend: impl StorageBackend, cache_bytes: usize) -> Result<Self, StoreError> {
        let database = Database::builder().set_cache_size(cache_bytes).create_with_backend(backend).map_err(StoreError::engine)?;
        Ok(Self { database })
    }
}

fn private_options() -> std::fs::OpenOptions {
    use std::os::unix::fs::OpenOptionsExt;
    let mut options = std::fs::OpenOptions::new();
    options.read(true).write(true).mode(0o600);
    options
}

impl Engine for RedbEngine {
    fn begin_read(&self) -> Result<Box<dyn EngineRead>, StoreError> {
        Ok(Box::new(Reader(self.database.begin_read().map_err(StoreError::engine)?)))
    }

    fn begin_write(&self) -> Result<Box<dyn EngineWrite>, StoreError> {
        let mut transaction = self.database.begin_write().map_err(StoreError::engine)?;
        transaction.set_durability(Durability::Immediate).map_err(StoreError::engine)?;
        transaction.set_two_phase_commit(true);
        Ok(Box::new(Writer(transaction)))
    }
}

struct Reader(ReadTransaction);
struct Writer(WriteTransaction);

fn get_from(table: &impl ReadableTable<&'static [u8], &'static [u8]>, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
    Ok(table.get(key).map_err(StoreError::engine)?.map(|value| value.value().to_vec()))
}

fn scan_in(
    table: &impl ReadableTable<&'static [u8], &'static [u8]>,
    range: &KeyRange,
    direction: Direction,
    visit: Visitor<'_>,
) -> Result<(), StoreError> {
    let bounds = (range.start.as_ref().map(Vec::as_slice), range.end.as_ref().map(Vec::as_slice));
    if is_empty(range) {
        return Ok(());
    }
    let mut entries = table.range::<&[u8]>(bounds).map_err(StoreError::engine)?;
    loop {
        let entry = match direction {
            Direction::Forward => entries.next(),
            Direction::Backward => entries.next_back(),
        };
        let Some(entry) = entry else { return Ok(()) };
        let (key, value) = entry.map_err(StoreError::engine)?;
        if visit(key.value(), value.value())? == Flow::Stop {
            return Ok(());
        }
    }
}

/// redb panics on a range whose start is behind its end.
fn is_empty(range: &KeyRange) -> bool {
    use std::ops::Bound::{Excluded, Included};
    match (&range.start, &range.end) {
        (Included(start), Included(end)) => start > end,
        (Included(start) | Excluded(start), Excluded(end)) | (Excluded(start), Included(end)) => start >= end,
        _ => false,
    }
}

impl EngineRead for Reader {
    fn get(&self, table: RawTable<'_>, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        match self.0.open_table(Definition::new(table)) {
            Ok(table) => get_from(&table, key),
            Err(TableError::TableDoesNotExist(_)) => Ok(None),
            Err(error) => Err(StoreError::engine(error)),
        }
    }

    fn scan(&self, table: RawTable<'_>, range: &KeyRange, direction: Direction, visit: Visitor<'_>) -> Result<(), StoreError> {
        match self.0.open_table(Definition::new(table)) {
            Ok(table) => scan_in(&table, range, direction, visit),
            Err(TableError::TableDoesNotExist(_)) => Ok(()),
            Err(error) => Err(StoreError::engine(error)),
        }
    }

    fn tables(&self) -> Result<Vec<String>, StoreError> {
        let tables = self.0.list_tables().map_err(StoreError::engine)?;
        Ok(tables.map(|table| table.name().to_owned()).collect())
    }
}

impl EngineRead for Writer {
    fn get(&self, table: RawTable<'_>, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        get_from(&self.0.open_table(Definition::new(table)).map_err(StoreError::engine)?, key)
    }

    fn scan(&self, table: RawTable<'_>, range: &KeyRange, direction: Direction, visit: Visitor<'_>) -> Result<(), StoreError> {
        scan_in(&self.0.open_table(Definition::new(table)).map_err(StoreError::engine)?, range, direction, visit)
    }

    fn tables(&self) -> Result<Vec<String>, StoreError> {
        let tables = self.0.list_tables().map_err(StoreError::engine)?;
        Ok(tables.map(|table| table.name().to_owned()).collect())
    }
}

impl EngineWrite for Writer {
    fn put(&mut self, table: RawTable<'_>, key: &[u8], value: &[u8]) -> Result<(), StoreError> {
        let mut table = self.0.open_table(Definition::new(table)).map_err(StoreError::engine)?;
        table.insert(key, value).map_err(StoreError::engine)?;
        Ok(())
    }

    fn remove(&mut self, table: RawTable<'_>, key: &[u8]) -> Result<bool, StoreError> {
        let mut table = self.0.open_table(Definition::new(table)).map_err(StoreError::engine)?;
        let removed = table.remove(key).map_err(StoreError::engine)?;
        Ok(removed.is_some())
    }

    fn drop_table(&mut self, table: RawTable<'_>) -> Result<(), StoreError> {
        self.0.delete_table(Definition::new(table)).map_err(StoreError::engine)?;
        Ok(())
    }

    fn commit(self: Box<Self>) -> Result<(), StoreError> {
        self.0.commit().map_err(StoreError::engine)
    }

    fn abort(self: Box<Self>) -> Result<(), StoreError> {
        self.0.abort().map_err(StoreError::engine)
    }
}
