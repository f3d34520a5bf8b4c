//! redb behind the engine seam. Every commit is durable and two-phase: tenants choose the bytes, and redb's one-phase commit
//! trusts a checksum that is not cryptographic. The crash simulator also finds one-phase files that no longer open after a failed
//! sync, a restart of the process and a later loss of power.
//!
//! All tables of the catalogue share one table of redb, each under its code in front of the key: a commit pays for every redb
//! table that it touches, and one small change touches a dozen of ours. Segments have redb tables of their own, to be dropped whole.

use std::{ops::Bound, path::Path, sync::Arc};

use redb::{
    Database, Durability, ReadTransaction, ReadableDatabase, ReadableTable, StorageBackend, TableDefinition, TableError,
    TableHandle, UntypedTableHandle, WriteTransaction,
};

use super::{
    catalog,
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

/// The redb table that the tables of the catalogue share.
const SHARED: &str = "records";

/// How many entries a scan within a write reads at once, at first and at most.
const FIRST_CHUNK: usize = 16;
const LARGEST_CHUNK: usize = 1024;

/// Where a table of ours is in redb: a table, and what our keys start with in it.
#[derive(Clone, Copy)]
struct Place<'a> {
    table: &'a str,
    code: Option<u8>,
}

impl<'a> Place<'a> {
    fn of(table: RawTable<'a>) -> Self {
        match catalog::code(table) {
            Some(code) => Self { table: SHARED, code: Some(code) },
            None => Self { table, code: None },
        }
    }

    fn definition(self) -> Definition<'a> {
        Definition::new(self.table)
    }

    fn key(self, key: &[u8]) -> Vec<u8> {
        let mut placed = Vec::with_capacity(key.len() + 1);
        placed.extend(self.code);
        placed.extend_from_slice(key);
        placed
    }

    fn range(self, range: &KeyRange) -> KeyRange {
        let Some(code) = self.code else { return range.clone() };
        let whole = KeyRange::prefix(&[code]);
        let place = |bound: &Bound<Vec<u8>>, open: Bound<Vec<u8>>| match bound {
            Bound::Included(key) => Bound::Included(self.key(key)),
            Bound::Excluded(key) => Bound::Excluded(self.key(key)),
            Bound::Unbounded => open,
        };
        KeyRange { start: place(&range.start, whole.start), end: place(&range.end, whole.end) }
    }

    /// The key as our table has it.
    fn strip(self, key: &[u8]) -> &[u8] {
        key.get(usize::from(self.code.is_some())..).unwrap_or_default()
    }
}

fn get_from(
    table: &impl ReadableTable<&'static [u8], &'static [u8]>,
    place: Place<'_>,
    key: &[u8],
) -> Result<Option<Vec<u8>>, StoreError> {
    let found = table.get(place.key(key).as_slice()).map_err(StoreError::engine)?;
    Ok(found.map(|value| value.value().to_vec()))
}

fn scan_in(
    table: &impl ReadableTable<&'static [u8], &'static [u8]>,
    place: Place<'_>,
    range: &KeyRange,
    direction: Direction,
    visit: Visitor<'_>,
) -> Result<(), StoreError> {
    if is_empty(range) {
        return Ok(());
    }
    let range = place.range(range);
    let bounds = (range.start.as_ref().map(Vec::as_slice), range.end.as_ref().map(Vec::as_slice));
    let mut entries = table.range::<&[u8]>(bounds).map_err(StoreError::engine)?;
    loop {
        let entry = match direction {
            Direction::Forward => entries.next(),
            Direction::Backward => entries.next_back(),
        };
        let Some(entry) = entry else { return Ok(()) };
        let (key, value) = entry.map_err(StoreError::engine)?;
        if visit(place.strip(key.value()), value.value())? == Flow::Stop {
            return Ok(());
        }
    }
}

/// redb panics on a range whose start is behind its end.
fn is_empty(range: &KeyRange) -> bool {
    match (&range.start, &range.end) {
        (Bound::Included(start), Bound::Included(end)) => start > end,
        (Bound::Included(start) | Bound::Excluded(start), Bound::Excluded(end))
        | (Bound::Excluded(start), Bound::Included(end)) => start >= end,
        _ => false,
    }
}

/// Our tables: those of redb, and in place of the shared one those of the catalogue that have an entry in it.
fn table_names(redb_tables: impl Iterator<Item = UntypedTableHandle>, reader: &impl EngineRead) -> Result<Vec<String>, StoreError> {
    let mut names: Vec<String> = redb_tables.map(|table| table.name().to_owned()).filter(|name| name != SHARED).collect();
    for table in catalog::ALL {
        let mut found = false;
        reader.scan(table.name(), &KeyRange::ALL, Direction::Forward, &mut |_, _| {
            found = true;
            Ok(Flow::Stop)
        })?;
        if found {
            names.push(table.name().to_owned());
        }
    }
    Ok(names)
}

impl EngineRead for Reader {
    fn get(&self, table: RawTable<'_>, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        let place = Place::of(table);
        match self.0.open_table(place.definition()) {
            Ok(table) => get_from(&table, place, key),
            Err(TableError::TableDoesNotExist(_)) => Ok(None),
            Err(error) => Err(StoreError::engine(error)),
        }
    }

    fn scan(&self, table: RawTable<'_>, range: &KeyRange, direction: Direction, visit: Visitor<'_>) -> Result<(), StoreError> {
        let place = Place::of(table);
        match self.0.open_table(place.definition()) {
            Ok(table) => scan_in(&table, place, range, direction, visit),
            Err(TableError::TableDoesNotExist(_)) => Ok(()),
            Err(error) => Err(StoreError::engine(error)),
        }
    }

    fn tables(&self) -> Result<Vec<String>, StoreError> {
        table_names(self.0.list_tables().map_err(StoreError::engine)?, self)
    }
}

impl EngineRead for Writer {
    fn get(&self, table: RawTable<'_>, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        let place = Place::of(table);
        get_from(&self.0.open_table(place.definition()).map_err(StoreError::engine)?, place, key)
    }

    fn scan(&self, table: RawTable<'_>, range: &KeyRange, direction: Direction, visit: Visitor<'_>) -> Result<(), StoreError> {
        // redb opens a table once at a time, and the visitor may well ask for more of the same one: so it is called while the
        // table is closed, with what was read of it before.
        let place = Place::of(table);
        let (mut rest, mut size) = (range.clone(), FIRST_CHUNK);
        loop {
            let mut chunk: Vec<(Vec<u8>, Vec<u8>)> = Vec::with_capacity(size);
            let open = self.0.open_table(place.definition()).map_err(StoreError::engine)?;
            scan_in(&open, place, &rest, direction, &mut |key, value| {
                chunk.push((key.to_vec(), value.to_vec()));
                Ok(if chunk.len() < size { Flow::Continue } else { Flow::Stop })
            })?;
            drop(open);
            for (key, value) in &chunk {
                if visit(key, value)? == Flow::Stop {
                    return Ok(());
                }
            }
            match chunk.last() {
                Some((key, _)) if chunk.len() == size => rest = rest.after(key, direction),
                _ => return Ok(()),
            }
            size = (size * 4).min(LARGEST_CHUNK);
        }
    }

    fn tables(&self) -> Result<Vec<String>, StoreError> {
        let tables: Vec<UntypedTableHandle> = self.0.list_tables().map_err(StoreError::engine)?.collect();
        table_names(tables.into_iter(), self)
    }
}

impl EngineWrite for Writer {
    fn put(&mut self, table: RawTable<'_>, key: &[u8], value: &[u8]) -> Result<(), StoreError> {
        let place = Place::of(table);
        let mut table = self.0.open_table(place.definition()).map_err(StoreError::engine)?;
        table.insert(place.key(key).as_slice(), value).map_err(StoreError::engine)?;
        Ok(())
    }

    fn remove(&mut self, table: RawTable<'_>, key: &[u8]) -> Result<bool, StoreError> {
        let place = Place::of(table);
        let mut table = self.0.open_table(place.definition()).map_err(StoreError::engine)?;
        let removed = table.remove(place.key(key).as_slice()).map_err(StoreError::engine)?;
        Ok(removed.is_some())
    }

    fn drop_table(&mut self, table: RawTable<'_>) -> Result<(), StoreError> {
        if Place::of(table).code.is_some() {
            return Err(StoreError::Engine(format!("{table} shares its redb table with others and cannot be dropped")));
        }
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
