//! redb behind the engine seam, with the journal in front of it.
//!
//! A batch becomes durable in the journal and is then committed to redb without waiting for redb's own file. When the journal is
//! full, a batch goes into redb with a durable commit instead, which takes everything before it along, and the journal starts
//! over. A start replays what the journal has and redb has not. Durable commits of redb are two-phase: tenants choose the
//! bytes, and redb's one-phase commit trusts a checksum that is not cryptographic. The crash simulator also finds one-phase files
//! that no longer open after a failed sync, a restart of the process and a later loss of power.
//!
//! All tables of the catalogue share one table of redb, each under its code in front of the key: a commit pays for every redb
//! table that it touches, and one small change touches a dozen of ours. Segments have redb tables of their own, to be dropped whole.

use std::{
    cell::{OnceCell, RefCell},
    collections::BTreeMap,
    ops::Bound,
    path::{Path, PathBuf},
    rc::Rc,
    sync::{Arc, Mutex, PoisonError},
};

use redb::{
    Database, Durability, ReadOnlyTable, ReadTransaction, ReadableDatabase, StorageBackend, TableDefinition, TableError,
    TableHandle, WriteTransaction, backends::FileBackend,
};

use super::{
    catalog::{self, ENGINE_CODE},
    changes::{Changes, TableChanges},
    engine::{Direction, Engine, EngineRead, Flow, KeyRange, RawTable, Visitor},
    error::StoreError,
    journal::{Journal, JournalId},
};
use crate::kernel::entropy::quick_bytes;

type Definition<'a> = TableDefinition<'a, &'static [u8], &'static [u8]>;
type OpenTable = ReadOnlyTable<&'static [u8], &'static [u8]>;

/// The redb table that the tables of the catalogue share.
const SHARED: &str = "records";

/// Where the journal is, and how much it holds before a batch goes into redb durably.
pub(super) struct JournalFile {
    pub path: PathBuf,
    pub bytes: u64,
}

pub struct RedbEngine {
    database: Database,
    /// Without one, every commit is a durable one of redb.
    journal: Option<Mutex<Journaling>>,
}

struct Journaling {
    journal: Journal,
    mark: Mark,
    /// After a failure nothing is known of the file, so it is not marked as closed.
    failed: bool,
}

impl std::fmt::Debug for RedbEngine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("RedbEngine")
    }
}

/// Told how much of a repair after a crash is done, from 0 to 1.
pub type RepairProgress = Arc<dyn Fn(f64) + Send + Sync>;

/// What redb's file says of the journal beside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Mark {
    id: JournalId,
    /// The last frame that the file holds the changes of.
    number: u64,
    /// Whether the journal holds nothing that the file does not.
    closed: bool,
}

impl Mark {
    fn to_bytes(self) -> Vec<u8> {
        [&self.id[..], &self.number.to_le_bytes(), &[u8::from(self.closed)]].concat()
    }

    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (id, rest) = bytes.split_first_chunk()?;
        let (number, rest) = rest.split_first_chunk()?;
        let [closed] = rest else { return None };
        Some(Self { id: *id, number: u64::from_le_bytes(*number), closed: *closed == 1 })
    }
}

/// How a commit reaches the disk.
#[derive(Clone, Copy)]
enum Reach {
    /// The journal has it.
    Memory,
    /// Now, with everything before it, and with the mark.
    Disk(Option<Mark>),
}

impl RedbEngine {
    /// Opens a file that exists, without a journal: a copy, or one that was closed in order. redb would make a new database of a
    /// missing or an empty file, so both are refused here.
    pub fn open(path: &Path, cache_bytes: usize, progress: Option<RepairProgress>) -> Result<Self, StoreError> {
        let engine = Self { database: open_database(path, cache_bytes, progress)?, journal: None };
        match engine.mark()? {
            Some(mark) if !mark.closed => Err(StoreError::Installation(format!(
                "{} was not closed in order, and its last changes are in the journal of its data directory: start tenantd there once",
                path.display()
            ))),
            _ => Ok(engine),
        }
    }

    /// Opens the store of an installation, together with its journal.
    pub(super) fn open_with_journal(
        path: &Path,
        journal: &JournalFile,
        cache_bytes: usize,
        progress: Option<RepairProgress>,
    ) -> Result<Self, StoreError> {
        let database = open_database(path, cache_bytes, progress)?;
        let fail = |error: &dyn std::fmt::Display| StoreError::Installation(format!("{}: {error}", journal.path.display()));
        let file = private_options().create(true).truncate(false).open(&journal.path).map_err(|error| fail(&error))?;
        let file = FileBackend::new(file).map_err(|error| fail(&error))?;
        Self::with_journal(database, Box::new(file), journal.bytes, quick_bytes())
    }

    /// Makes a new file; one that exists is refused.
    pub fn create(path: &Path, cache_bytes: usize) -> Result<Self, StoreError> {
        let shown = path.display();
        let file =
            private_options().create_new(true).open(path).map_err(|error| StoreError::Installation(format!("{shown}: {error}")))?;
        let database = Database::builder().set_cache_size(cache_bytes).create_file(file).map_err(StoreError::engine)?;
        Ok(Self { database, journal: None })
    }

    /// Opens or makes a store on storage of the caller's, such as a disk that crashes in a test.
    pub fn on_backends(
        store: impl StorageBackend,
        journal: impl StorageBackend,
        journal_bytes: u64,
        journal_id: JournalId,
        cache_bytes: usize,
    ) -> Result<Self, StoreError> {
        let database = Database::builder().set_cache_size(cache_bytes).create_with_backend(store).map_err(StoreError::engine)?;
        Self::with_journal(database, Box::new(journal), journal_bytes, journal_id)
    }

    /// `new_id` is for a journal that has to be made.
    fn with_journal(
        database: Database,
        file: Box<dyn StorageBackend>,
        capacity: u64,
        new_id: JournalId,
    ) -> Result<Self, StoreError> {
        let mut engine = Self { database, journal: None };
        let found = engine.mark()?;
        let id = found.map_or(new_id, |mark| mark.id);
        let (journal, mark) = match Journal::open(file, id, capacity).map_err(StoreError::engine)? {
            Ok(journal) => {
                let number = journal.replay(found.map_or(0, |mark| mark.number), |changes| {
                    let changes = Changes::decode(changes)
                        .ok_or_else(|| StoreError::Installation("the journal was written by a newer release".to_owned()))?;
                    engine.apply(&changes, Reach::Memory)
                })?;
                (journal, Mark { id, number, closed: false })
            }
            Err(_) if found.is_some_and(|mark| !mark.closed) => {
                return Err(StoreError::Installation(
                    "the store was not closed in order, and the journal with its last changes is missing or another one's: \
                     put it back beside the store, or restore a backup into an empty directory"
                        .to_owned(),
                ));
            }
            Err(file) => {
                let mark = Mark { id: new_id, number: 0, closed: false };
                (Journal::create(file, mark.id, capacity).map_err(StoreError::engine)?, mark)
            }
        };
        engine.apply(&Changes::default(), Reach::Disk(Some(mark)))?;
        engine.journal = Some(Mutex::new(Journaling { journal, mark, failed: false }));
        Ok(engine)
    }

    fn mark(&self) -> Result<Option<Mark>, StoreError> {
        let reader = Reader::new(self.database.begin_read().map_err(StoreError::engine)?);
        let Some(shared) = reader.table(Place::ENGINE)? else { return Ok(None) };
        let found = shared.get([ENGINE_CODE].as_slice()).map_err(StoreError::engine)?;
        let mark = found.map(|value| Mark::from_bytes(value.value()).ok_or("it does not say which journal is its own"));
        mark.transpose().map_err(|problem| StoreError::Installation(format!("the store is damaged: {problem}")))
    }

    fn apply(&self, changes: &Changes, reach: Reach) -> Result<(), StoreError> {
        let mut transaction = self.database.begin_write().map_err(StoreError::engine)?;
        let durability = match reach {
            Reach::Memory => Durability::None,
            Reach::Disk(_) => Durability::Immediate,
        };
        transaction.set_durability(durability).map_err(StoreError::engine)?;
        transaction.set_two_phase_commit(true);
        write_changes(&transaction, changes)?;
        if let Reach::Disk(Some(mark)) = reach {
            let mut shared = transaction.open_table(Definition::new(SHARED)).map_err(StoreError::engine)?;
            shared.insert([ENGINE_CODE].as_slice(), mark.to_bytes().as_slice()).map_err(StoreError::engine)?;
        }
        transaction.commit().map_err(StoreError::engine)
    }

    fn commit_journaled(&self, journaling: &mut Journaling, changes: &Changes) -> Result<(), StoreError> {
        let mark = Mark { number: journaling.mark.number + 1, ..journaling.mark };
        let bytes = changes.encode();
        if journaling.journal.fits(bytes.len()) {
            journaling.journal.append(mark.number, &bytes).map_err(StoreError::engine)?;
            self.apply(changes, Reach::Memory)?;
        } else {
            self.apply(changes, Reach::Disk(Some(mark)))?;
            journaling.journal.rewind();
        }
        journaling.mark = mark;
        Ok(())
    }
}

fn open_database(path: &Path, cache_bytes: usize, progress: Option<RepairProgress>) -> Result<Database, StoreError> {
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
    builder.open(path).map_err(|error| StoreError::Installation(format!("{shown}: {error}")))
}

fn private_options() -> std::fs::OpenOptions {
    use std::os::unix::fs::OpenOptionsExt;
    let mut options = std::fs::OpenOptions::new();
    options.read(true).write(true).mode(0o600);
    options
}

impl Engine for RedbEngine {
    fn begin_read(&self) -> Result<Box<dyn EngineRead>, StoreError> {
        Ok(Box::new(Reader::new(self.database.begin_read().map_err(StoreError::engine)?)))
    }

    fn commit(&self, changes: &Changes) -> Result<(), StoreError> {
        let Some(journal) = &self.journal else { return self.apply(changes, Reach::Disk(None)) };
        let mut journaling = journal.lock().unwrap_or_else(PoisonError::into_inner);
        // Until the end is reached, a panic in redb counts as a failure too.
        journaling.failed = true;
        self.commit_journaled(&mut journaling, changes)?;
        journaling.failed = false;
        Ok(())
    }
}

impl Drop for RedbEngine {
    fn drop(&mut self) {
        let Some(journal) = self.journal.take() else { return };
        let journaling = journal.into_inner().unwrap_or_else(PoisonError::into_inner);
        if journaling.failed {
            return;
        }
        let mark = Mark { closed: true, ..journaling.mark };
        if let Err(error) = self.apply(&Changes::default(), Reach::Disk(Some(mark))) {
            tracing::warn!(%error, "the store could not be closed in order; the next start replays its journal");
        }
    }
}

/// Where a table of ours is in redb: a table, and what our keys start with in it.
#[derive(Clone, Copy)]
struct Place {
    segment: Option<RawTable>,
    code: u8,
}

impl Place {
    const ENGINE: Self = Self { segment: None, code: ENGINE_CODE };

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

    /// The key as our table has it.
    fn strip(self, key: &[u8]) -> &[u8] {
        key.get(usize::from(self.segment.is_none())..).unwrap_or_default()
    }
}

/// Writes in key order, which spares redb half of its work.
fn write_changes(transaction: &WriteTransaction, changes: &Changes) -> Result<(), StoreError> {
    let mut shared = changes.tables().filter(|(table, _)| table.segment.is_none()).peekable();
    if shared.peek().is_some() {
        let mut open = transaction.open_table(Definition::new(SHARED)).map_err(StoreError::engine)?;
        for (table, changes) in shared {
            if changes.dropped {
                return Err(StoreError::Engine(format!("{table} shares its redb table with others and cannot be dropped")));
            }
            write_entries(&mut open, Place::of(table), changes)?;
        }
    }
    for (table, changes) in changes.tables().filter(|(table, _)| table.segment.is_some()) {
        let name = table.to_string();
        if changes.dropped {
            transaction.delete_table(Definition::new(&name)).map_err(StoreError::engine)?;
        }
        if !changes.entries.is_empty() {
            let mut open = transaction.open_table(Definition::new(&name)).map_err(StoreError::engine)?;
            write_entries(&mut open, Place::of(table), changes)?;
        }
    }
    Ok(())
}

fn write_entries(
    open: &mut redb::Table<'_, &'static [u8], &'static [u8]>,
    place: Place,
    changes: &TableChanges,
) -> Result<(), StoreError> {
    for (key, change) in &changes.entries {
        let key = place.key(key);
        match change {
            Some(value) => drop(open.insert(key.as_slice(), value.as_slice()).map_err(StoreError::engine)?),
            None => drop(open.remove(key.as_slice()).map_err(StoreError::engine)?),
        }
    }
    Ok(())
}

/// A snapshot. Tables stay open once they were used: opening one costs as much as reading from it.
struct Reader {
    transaction: ReadTransaction,
    shared: OnceCell<Option<Rc<OpenTable>>>,
    segments: RefCell<BTreeMap<RawTable, Option<Rc<OpenTable>>>>,
}

impl Reader {
    fn new(transaction: ReadTransaction) -> Self {
        Self { transaction, shared: OnceCell::new(), segments: RefCell::default() }
    }

    fn table(&self, place: Place) -> Result<Option<Rc<OpenTable>>, StoreError> {
        match place.segment {
            None => {
                if let Some(open) = self.shared.get() {
                    return Ok(open.clone());
                }
                let open = self.open(SHARED)?;
                Ok(self.shared.get_or_init(|| open).clone())
            }
            Some(segment) => {
                if let Some(open) = self.segments.borrow().get(&segment) {
                    return Ok(open.clone());
                }
                let open = self.open(&segment.to_string())?;
                self.segments.borrow_mut().insert(segment, open.clone());
                Ok(open)
            }
        }
    }

    fn open(&self, name: &str) -> Result<Option<Rc<OpenTable>>, StoreError> {
        match self.transaction.open_table(Definition::new(name)) {
            Ok(table) => Ok(Some(Rc::new(table))),
            Err(TableError::TableDoesNotExist(_)) => Ok(None),
            Err(error) => Err(StoreError::engine(error)),
        }
    }
}

impl EngineRead for Reader {
    fn get(&self, table: RawTable, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        let place = Place::of(table);
        let Some(open) = self.table(place)? else { return Ok(None) };
        let found = open.get(place.key(key).as_slice()).map_err(StoreError::engine)?;
        Ok(found.map(|value| value.value().to_vec()))
    }

    fn scan(&self, table: RawTable, range: &KeyRange, direction: Direction, visit: Visitor<'_>) -> Result<(), StoreError> {
        let place = Place::of(table);
        // redb panics on a range whose start is behind its end.
        if range.is_empty() {
            return Ok(());
        }
        let Some(open) = self.table(place)? else { return Ok(()) };
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
    }

    /// Our tables: those of redb, and in place of the shared one those of the catalogue that have an entry in it.
    fn tables(&self) -> Result<Vec<String>, StoreError> {
        let tables = self.transaction.list_tables().map_err(StoreError::engine)?;
        let mut names: Vec<String> = tables.map(|table| table.name().to_owned()).filter(|name| name != SHARED).collect();
        for table in catalog::ALL {
            let mut found = false;
            self.scan((*table).into(), &KeyRange::ALL, Direction::Forward, &mut |_, _| {
                found = true;
                Ok(Flow::Stop)
            })?;
            if found {
                names.push(table.name().to_owned());
            }
        }
        Ok(names)
    }
}
