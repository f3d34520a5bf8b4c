//! redb's file: opens it, makes one durable commit of a set of changes, and provides a snapshot with its tables open.
//!
//! All tables of the catalog share one redb table, each under its code as a key prefix. A commit pays for every redb table that
//! it touches, and one small change touches a dozen tables. Segments have their own redb tables, so that they can be dropped
//! whole. Commits are two-phase: tenants choose the bytes, and redb's one-phase commit trusts a checksum that is not
//! cryptographic. The crash simulator also finds one-phase files that no longer open after a failed sync, a restart of the
//! process and a later loss of power.

use std::{
    collections::BTreeMap,
    ops::Bound,
    path::Path,
    sync::{Arc, OnceLock, PoisonError, RwLock},
};

use redb::{
    Database, Durability, ReadOnlyTable, ReadTransaction, ReadableDatabase, StorageBackend, TableDefinition, TableError,
    TableHandle, WriteTransaction, backends::FileBackend,
};

use super::{
    catalog::{self, ENGINE_CODE},
    engine::{Direction, EngineRead, Flow, KeyRange, RawTable, Visitor},
    error::StoreError,
    journal::{JournalId, Position},
    recent::{Recent, RecentTable},
    spare_backend::SpareBackend,
    volume::Volume,
};

type Definition<'a> = TableDefinition<'a, &'static [u8], &'static [u8]>;
type OpenTable = ReadOnlyTable<&'static [u8], &'static [u8]>;

/// The redb table that the tables of the catalog share.
const SHARED: &str = "records";

/// Receives the progress of a repair after a crash, from 0 to 1.
pub type RepairProgress = Arc<dyn Fn(f64) + Send + Sync>;

/// The record in redb's file about the journal beside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mark {
    pub(super) id: JournalId,
    /// The last frame whose changes are in the file.
    pub(super) number: u64,
    /// Whether the journal contains no change that the file lacks.
    pub(super) closed: bool,
    /// The commit that the first commit of this opening follows.
    pub(super) before: Position,
}

impl Mark {
    /// The last commit. An opening without commits ends where the previous one ended, unless it begins a history.
    pub(super) fn position(self) -> Position {
        if self.number == 0 && !self.before.is_root() { self.before } else { self.commit(self.number) }
    }

    /// The commit in a frame of this opening. Commits are counted through all openings.
    pub(super) fn commit(self, frame: u64) -> Position {
        Position { journal: self.id, number: self.before.number + frame }
    }

    /// The mark of a file that ends with this commit and has no journal.
    pub(super) fn at(position: Position) -> Self {
        Self { id: position.journal, number: 0, closed: true, before: position }
    }

    /// The mark of a file that never had a journal.
    const NONE: Self = Self { id: [0; 16], number: 0, closed: true, before: Position { journal: [0; 16], number: 0 } };

    fn to_bytes(self) -> Vec<u8> {
        let before = [&self.before.journal[..], &self.before.number.to_le_bytes()].concat();
        [&self.id[..], &self.number.to_le_bytes(), &[u8::from(self.closed)], &before].concat()
    }

    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (id, rest) = bytes.split_first_chunk()?;
        let (number, rest) = rest.split_first_chunk()?;
        let ([closed], rest) = rest.split_first_chunk()?;
        // Stores of earlier releases do not record the previous commit.
        let before = match rest.split_first_chunk() {
            Some((journal, number)) => Position { journal: *journal, number: u64::from_le_bytes(*number.first_chunk()?) },
            None => Position::default(),
        };
        Some(Self { id: *id, number: u64::from_le_bytes(*number), closed: *closed == 1, before })
    }
}

pub(super) struct RedbFile {
    database: Database,
}

impl RedbFile {
    /// Opens an existing file.
    pub(super) fn open(path: &Path, cache_bytes: usize, progress: Option<RepairProgress>) -> Result<Self, StoreError> {
        Self::open_backend(path, cache_bytes, progress, |file| file)
    }

    /// Does the same for the file of an installation, which may use the reserve of its volume.
    pub(super) fn open_on(
        volume: &Arc<Volume>,
        path: &Path,
        cache_bytes: usize,
        progress: Option<RepairProgress>,
    ) -> Result<Self, StoreError> {
        Self::open_backend(path, cache_bytes, progress, |file| SpareBackend::new(file, volume.clone()))
    }

    /// redb would create a new database if the file is missing or empty, so both cases are refused here.
    fn open_backend<B: StorageBackend>(
        path: &Path,
        cache_bytes: usize,
        progress: Option<RepairProgress>,
        backend: impl FnOnce(FileBackend) -> B,
    ) -> Result<Self, StoreError> {
        let shown = path.display();
        let refused = |error: &dyn std::fmt::Display| StoreError::Installation(format!("{shown}: {error}"));
        let file = private_options().open(path).map_err(|error| refused(&error))?;
        if file.metadata().map_err(|error| refused(&error))?.len() == 0 {
            return Err(StoreError::Installation(format!("{shown} is empty and not a store: restore a backup")));
        }
        let mut builder = Database::builder();
        builder.set_cache_size(cache_bytes);
        if let Some(progress) = progress {
            builder.set_repair_callback(move |session| progress(session.progress()));
        }
        let file = FileBackend::new(file).map_err(|error| refused(&error))?;
        let database = builder.create_with_backend(backend(file)).map_err(|error| refused(&error))?;
        Ok(Self { database })
    }

    /// Creates a new file. Fails if it exists.
    pub(super) fn create(path: &Path, cache_bytes: usize) -> Result<Self, StoreError> {
        let shown = path.display();
        let file =
            private_options().create_new(true).open(path).map_err(|error| StoreError::Installation(format!("{shown}: {error}")))?;
        let database = Database::builder().set_cache_size(cache_bytes).create_file(file).map_err(StoreError::engine)?;
        Ok(Self { database })
    }

    pub(super) fn on_backend(backend: impl StorageBackend, cache_bytes: usize) -> Result<Self, StoreError> {
        let database = Database::builder().set_cache_size(cache_bytes).create_with_backend(backend).map_err(StoreError::engine)?;
        Ok(Self { database })
    }

    /// Reads the mark.
    pub(super) fn mark(&self) -> Result<Mark, StoreError> {
        let base = self.snapshot()?;
        let Some(shared) = &base.shared else { return Ok(Mark::NONE) };
        let Some(found) = shared.get([ENGINE_CODE].as_slice()).map_err(StoreError::engine)? else { return Ok(Mark::NONE) };
        let problem = "the store is damaged: the mark that names its journal cannot be read";
        Mark::from_bytes(found.value()).ok_or_else(|| StoreError::Installation(problem.to_owned()))
    }

    /// Applies all of the changes or none. They are on the disk when this returns.
    pub(super) fn apply(&self, changes: &Recent, mark: Option<Mark>) -> Result<(), StoreError> {
        let mut transaction = self.database.begin_write().map_err(StoreError::engine)?;
        transaction.set_durability(Durability::Immediate).map_err(StoreError::engine)?;
        transaction.set_two_phase_commit(true);
        // A start after a crash then finds the free pages without walking over all pages.
        transaction.set_quick_repair(true);
        write_changes(&transaction, changes)?;
        if let Some(mark) = mark {
            let mut shared = transaction.open_table(Definition::new(SHARED)).map_err(StoreError::engine)?;
            shared.insert([ENGINE_CODE].as_slice(), mark.to_bytes().as_slice()).map_err(StoreError::engine)?;
        }
        transaction.commit().map_err(StoreError::engine)
    }

    /// Moves pages to the front and truncates the file after the last one. Needs exclusive access.
    pub(super) fn compact(mut self) -> Result<(), StoreError> {
        self.database.compact().map(drop).map_err(StoreError::engine)
    }

    /// The number of bytes in a file of this length that no page in use occupies. Examines every page.
    pub(super) fn free_bytes(&self, length: u64) -> Result<u64, StoreError> {
        let transaction = self.database.begin_write().map_err(StoreError::engine)?;
        let stats = transaction.stats().map_err(StoreError::engine)?;
        transaction.abort().map_err(StoreError::engine)?;
        Ok(length.saturating_sub(stats.allocated_pages() * stats.page_size() as u64))
    }

    /// The state after the last commit.
    pub(super) fn snapshot(&self) -> Result<FileSnapshot, StoreError> {
        let transaction = self.database.begin_read().map_err(StoreError::engine)?;
        let shared = open_table(&transaction, SHARED)?;
        Ok(FileSnapshot { transaction, shared, segments: RwLock::default(), names: OnceLock::new() })
    }
}

pub(super) fn private_options() -> std::fs::OpenOptions {
    use std::os::unix::fs::OpenOptionsExt;
    let mut options = std::fs::OpenOptions::new();
    options.read(true).write(true).mode(0o600);
    options
}

/// Where a table of the catalog is in redb: a redb table, and a key prefix in it.
#[derive(Clone, Copy)]
struct Place {
    segment: Option<RawTable>,
    code: u8,
}

impl Place {
    fn of(table: RawTable) -> Self {
        Self { segment: table.segment.is_some().then_some(table), code: table.table.code() }
    }

    fn key(self, key: &[u8]) -> Vec<u8> {
        let mut placed = Vec::with_capacity(key.len() + 1);
        if self.segment.is_none() {
            placed.push(self.code);
        }
        placed.extend_from_slice(key);
        placed
    }

    fn range(self, range: &KeyRange) -> KeyRange {
        if self.segment.is_some() {
            return range.clone();
        }
        let whole = KeyRange::prefix(&[self.code]);
        let place = |bound: &Bound<Vec<u8>>, open: Bound<Vec<u8>>| match bound {
            Bound::Included(key) => Bound::Included(self.key(key)),
            Bound::Excluded(key) => Bound::Excluded(self.key(key)),
            Bound::Unbounded => open,
        };
        KeyRange { start: place(&range.start, whole.start), end: place(&range.end, whole.end) }
    }

    /// Removes the prefix from a key.
    fn strip(self, key: &[u8]) -> &[u8] {
        key.get(usize::from(self.segment.is_none())..).unwrap_or_default()
    }
}

/// Writes in key order, which halves redb's work.
fn write_changes(transaction: &WriteTransaction, changes: &Recent) -> Result<(), StoreError> {
    let (shared, segments): (Vec<_>, Vec<_>) = changes.tables().partition(|(table, _)| table.segment.is_none());
    if !shared.is_empty() {
        let mut open = transaction.open_table(Definition::new(SHARED)).map_err(StoreError::engine)?;
        for (table, changes) in shared {
            if changes.is_dropped() {
                return Err(StoreError::Engine(format!("{table} shares its redb table with others and cannot be dropped")));
            }
            write_entries(&mut open, Place::of(table), &changes)?;
        }
    }
    for (table, changes) in segments {
        let name = table.to_string();
        if changes.is_dropped() {
            transaction.delete_table(Definition::new(&name)).map_err(StoreError::engine)?;
        }
        if !changes.is_empty() {
            let mut open = transaction.open_table(Definition::new(&name)).map_err(StoreError::engine)?;
            write_entries(&mut open, Place::of(table), &changes)?;
        }
    }
    Ok(())
}

fn write_entries(
    open: &mut redb::Table<'_, &'static [u8], &'static [u8]>,
    place: Place,
    changes: &RecentTable<'_>,
) -> Result<(), StoreError> {
    changes.each(|key, change| {
        let key = place.key(key);
        match change {
            Some(value) => drop(open.insert(key.as_slice(), value).map_err(StoreError::engine)?),
            None => drop(open.remove(key.as_slice()).map_err(StoreError::engine)?),
        }
        Ok(())
    })
}

fn open_table(transaction: &ReadTransaction, name: &str) -> Result<Option<OpenTable>, StoreError> {
    match transaction.open_table(Definition::new(name)) {
        Ok(table) => Ok(Some(table)),
        Err(TableError::TableDoesNotExist(_)) => Ok(None),
        Err(error) => Err(StoreError::engine(error)),
    }
}

/// The file as it was after a commit, for any number of readers. A table stays open once it was used, because opening it costs as
/// much as reading from it.
pub(super) struct FileSnapshot {
    transaction: ReadTransaction,
    shared: Option<OpenTable>,
    segments: RwLock<BTreeMap<RawTable, Option<Arc<OpenTable>>>>,
    names: OnceLock<Vec<String>>,
}

impl FileSnapshot {
    fn segment(&self, table: RawTable) -> Result<Option<Arc<OpenTable>>, StoreError> {
        if let Some(open) = self.segments.read().unwrap_or_else(PoisonError::into_inner).get(&table) {
            return Ok(open.clone());
        }
        let open = open_table(&self.transaction, &table.to_string())?.map(Arc::new);
        self.segments.write().unwrap_or_else(PoisonError::into_inner).insert(table, open.clone());
        Ok(open)
    }

    fn with_table<T: Default>(
        &self,
        table: RawTable,
        work: impl FnOnce(&OpenTable, Place) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let place = Place::of(table);
        match (place.segment, &self.shared) {
            (None, Some(shared)) => work(shared, place),
            (None, None) => Ok(T::default()),
            (Some(segment), _) => match self.segment(segment)? {
                Some(open) => work(&open, place),
                None => Ok(T::default()),
            },
        }
    }
}

impl EngineRead for FileSnapshot {
    fn get(&self, table: RawTable, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        self.with_table(table, |open, place| {
            let found = open.get(place.key(key).as_slice()).map_err(StoreError::engine)?;
            Ok(found.map(|value| value.value().to_vec()))
        })
    }

    fn scan(&self, table: RawTable, range: &KeyRange, direction: Direction, visit: Visitor<'_>) -> Result<(), StoreError> {
        // redb panics on a range whose start is after its end.
        if range.is_empty() {
            return Ok(());
        }
        self.with_table(table, |open, place| {
            let mut entries = open.range::<&[u8]>(place.range(range).bounds()).map_err(StoreError::engine)?;
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
        })
    }

    /// The tables of redb, with those of the catalog in place of the shared one.
    fn tables(&self) -> Result<Vec<String>, StoreError> {
        if let Some(names) = self.names.get() {
            return Ok(names.clone());
        }
        let own = self.transaction.list_tables().map_err(StoreError::engine)?.map(|table| table.name().to_owned());
        let cataloged = catalog::ALL.iter().map(|table| table.name().to_owned());
        let names = own.filter(|name| name != SHARED).chain(cataloged).collect();
        Ok(self.names.get_or_init(|| names).clone())
    }
}
