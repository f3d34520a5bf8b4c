//! The engine: a batch becomes durable in the journal, is shown to readers as a layer in memory over redb's file, and reaches the file
//! later with many others.
//!
//! Readers see three layers, the newest first: what is in the half of the journal that is being written, what is on its way into the
//! file, and the file. `journaling.rs` is the writer's side of it; a start goes on from what `recovery.rs` finds.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use redb::{StorageBackend, backends::FileBackend};

use tenantd_base::{clock::Clock, entropy::quick_bytes, telemetry::panic_text};

use super::{
    changes::Changes,
    engine::{Direction, Durability, Engine, EngineRead, KeyRange, RawTable, Visitor},
    error::StoreError,
    events,
    installation::{io_error, sync_directory},
    journal::{Journal, JournalId, Position},
    journaling::{Flushing, Journaling},
    outgoing::{Outgoing, OutgoingDirectory},
    recent::Recent,
    recovery::{self, Examined},
    redb_file::{FileSnapshot, Mark, RedbFile, RepairProgress, private_options},
    spare::preallocate,
    spare_backend::SpareBackend,
    transaction::ReadTx,
    volume::Volume,
    witness::{Testimony, Witness},
};

/// Where the journal and the witness are, how much the journal holds, and the volume that all files of the store are on.
pub(super) struct JournalFiles {
    pub(super) journal: PathBuf,
    pub(super) witness: PathBuf,
    pub(super) bytes: u64,
    pub(super) volume: Arc<Volume>,
    /// Where commits go that are to leave the host.
    pub(super) outgoing: Option<OutgoingDirectory>,
}

/// What stands beside the file of a store.
pub(super) struct Beside {
    pub(super) journal: Box<dyn StorageBackend>,
    pub(super) witness: Box<dyn StorageBackend>,
    outgoing: Option<OutgoingDirectory>,
}

/// How a store with a journal is opened.
#[derive(Clone, Debug)]
pub struct Opening {
    pub cache_bytes: usize,
    pub journal_bytes: u64,
    /// For the journal of this opening: no other has had it.
    pub journal_id: JournalId,
    pub flushing: Flushing,
    /// What the times of commits are taken from.
    pub clock: Clock,
}

pub struct RedbEngine {
    core: Arc<Core>,
    /// Without one, every batch goes straight into the file.
    journal: Option<Mutex<Journaling>>,
    /// Whether the store was not closed in order before.
    recovered: bool,
}

/// What the writer shares with a flush.
pub(super) struct Core {
    published: Mutex<Arc<View>>,
    file: RedbFile,
}

/// What a snapshot sees.
pub(super) struct View {
    position: Position,
    recent: Recent,
    /// On its way into the file; it may be there already.
    flushing: Option<Recent>,
    file: Arc<FileSnapshot>,
}

impl std::fmt::Debug for RedbEngine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("RedbEngine")
    }
}

impl JournalFiles {
    /// Opens both files, or makes them. The journal gets all of its blocks, so that appending to it never needs one.
    pub(super) fn open(&self) -> Result<Beside, StoreError> {
        let journal = open_file(&self.journal)?;
        if let Err(error) = preallocate(&journal, self.bytes) {
            let path = self.journal.display();
            tracing::warn!(%error, %path, "the disk has no room for the whole journal; the reserve stands in for it");
        }
        let witness = open_file(&self.witness)?;
        self.journal.parent().map_or(Ok(()), sync_directory)?;
        let backend = |file, path: &Path| -> Result<Box<dyn StorageBackend>, StoreError> {
            let opened = FileBackend::new(file);
            let opened = opened.map_err(|error| StoreError::Installation(format!("{}: {error}", path.display())))?;
            Ok(Box::new(SpareBackend::new(opened, self.volume.clone())))
        };
        let (journal, witness) = (backend(journal, &self.journal)?, backend(witness, &self.witness)?);
        Ok(Beside { journal, witness, outgoing: self.outgoing.clone() })
    }
}

fn open_file(path: &Path) -> Result<std::fs::File, StoreError> {
    private_options().create(true).truncate(false).open(path).map_err(|error| io_error(path, &error))
}

impl RedbEngine {
    /// Opens a file without a journal: a copy, or one that was closed in order.
    pub fn open(path: &Path, cache_bytes: usize, progress: Option<RepairProgress>) -> Result<Self, StoreError> {
        let file = RedbFile::open(path, cache_bytes, progress)?;
        if file.mark()?.closed {
            return Self::without_journal(file);
        }
        Err(StoreError::Installation(format!(
            "{} was not closed in order, and its last changes are in the journal of its data directory: start tenantd there once",
            path.display()
        )))
    }

    /// Opens the store of an installation, together with its journal. Before anything is written, `accept` is asked whether it is the
    /// right one.
    pub(super) fn open_with_journal(
        path: &Path,
        files: &JournalFiles,
        (cache_bytes, clock): (usize, Clock),
        progress: Option<RepairProgress>,
        accept: impl FnOnce(&ReadTx) -> Result<(), StoreError>,
    ) -> Result<Self, StoreError> {
        let file = RedbFile::open_on(&files.volume, path, cache_bytes, progress)?;
        let opening =
            Opening { cache_bytes, journal_bytes: files.bytes, journal_id: quick_bytes(), flushing: Flushing::Beside, clock };
        Self::with_journal(file, files.open()?, opening, accept)
    }

    /// Makes a new file without a journal; one that exists is refused.
    pub fn create(path: &Path, cache_bytes: usize) -> Result<Self, StoreError> {
        Self::without_journal(RedbFile::create(path, cache_bytes)?)
    }

    /// Opens or makes a store on storage of the caller's, such as a disk that crashes in a test.
    pub fn on_backends(
        store: impl StorageBackend,
        journal: impl StorageBackend,
        witness: impl StorageBackend,
        opening: Opening,
    ) -> Result<Self, StoreError> {
        let file = RedbFile::on_backend(store, opening.cache_bytes)?;
        let beside = Beside { journal: Box::new(journal), witness: Box::new(witness), outgoing: None };
        Self::with_journal(file, beside, opening, |_| Ok(()))
    }

    /// Says which commit the file ends with, so that the openings of a restored snapshot follow it.
    pub(super) fn end_with(&self, position: Position) -> Result<(), StoreError> {
        self.core.flush_with(Changes::default(), Some(Mark::at(position)))
    }

    fn without_journal(file: RedbFile) -> Result<Self, StoreError> {
        Ok(Self { core: Arc::new(Core::new(file)?), journal: None, recovered: false })
    }

    fn with_journal(
        file: RedbFile,
        beside: Beside,
        opening: Opening,
        accept: impl FnOnce(&ReadTx) -> Result<(), StoreError>,
    ) -> Result<Self, StoreError> {
        let before = file.mark()?;
        let Examined { missed, commits, mark, damage } =
            recovery::examine(before, beside.journal.as_ref(), beside.witness.as_ref())?;
        if let Some(damage) = damage {
            return Err(damage.refusal());
        }
        let log_end = {
            let tx = ReadTx::new(Box::new(snapshot_of(&file, missed.clone())?));
            accept(&tx)?;
            events::head(&tx)?
        };
        // Before they leave the journal.
        if let Some(directory) = &beside.outgoing {
            directory.settle(before.position())?;
            let mut outgoing = Outgoing::new(directory.clone(), mark.id, mark.before);
            for commit in &commits {
                outgoing.add(mark.commit(commit.number).number, commit.at, &commit.changes);
            }
            outgoing.cut();
            outgoing.pen().write();
        }
        if !before.closed {
            file.apply(&missed, Some(Mark { closed: true, ..mark }))?;
        }
        // Nothing needs the journal of before any more, and a start that ends here finds a store that was closed in order. The witness speaks
        // of the next journal before the file does, and is believed as long as that journal is empty.
        let id = opening.journal_id;
        let journal = Journal::create(beside.journal, id, opening.journal_bytes).map_err(StoreError::engine)?;
        let testimony = Testimony { id, before: mark.id, number: 0, log_end };
        let witness = Witness::begin(beside.witness, testimony).map_err(StoreError::engine)?;
        let outgoing = beside.outgoing.map(|directory| Outgoing::new(directory, id, mark.position()));
        let mark = Mark { id, number: 0, closed: false, before: mark.position() };
        file.apply(&Recent::default(), Some(mark))?;
        let journaling = Journaling::new((journal, witness), mark, log_end, outgoing, (opening.clock, opening.flushing));
        Ok(Self { core: Arc::new(Core::new(file)?), journal: Some(Mutex::new(journaling)), recovered: !before.closed })
    }
}

/// The file as it is, with changes on top of it.
pub(super) fn snapshot_of(file: &RedbFile, recent: Recent) -> Result<Snapshot, StoreError> {
    let position = file.mark()?.position();
    Ok(Snapshot(Arc::new(View { position, recent, flushing: None, file: Arc::new(file.snapshot()?) })))
}

impl Core {
    fn new(file: RedbFile) -> Result<Self, StoreError> {
        let position = file.mark()?.position();
        let view = View { position, recent: Recent::default(), flushing: None, file: Arc::new(file.snapshot()?) };
        Ok(Self { published: Mutex::new(Arc::new(view)), file })
    }

    fn view(&self) -> Arc<View> {
        self.published.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Shows readers another view from now on.
    fn show(&self, next: impl FnOnce(&View) -> View) {
        let mut published = self.published.lock().unwrap_or_else(PoisonError::into_inner);
        let next = Arc::new(next(&published));
        let before = std::mem::replace(&mut *published, next);
        drop(published);
        // It may be the last to hold many entries, and nobody is to wait for their end.
        drop(before);
    }

    /// Shows a batch to readers. Only the writer changes what is recent, so nothing is lost between the reading and the showing.
    pub(super) fn publish(&self, changes: Changes, position: Position) {
        let mut recent = self.view().recent.clone();
        recent.take_in(changes);
        self.show(|view| View { position, recent, flushing: view.flushing.clone(), file: view.file.clone() });
    }

    /// Sets everything recent apart to be flushed, and gives it back.
    pub(super) fn set_apart(&self) -> Recent {
        let recent = self.view().recent.clone();
        self.show(|view| {
            let (position, flushing, file) = (view.position, Some(recent.clone()), view.file.clone());
            View { position, recent: Recent::default(), flushing, file }
        });
        recent
    }

    /// Brings what was set apart into the file, and shows the file in its place.
    pub(super) fn flush(&self, changes: &Recent, mark: Mark) -> Result<(), StoreError> {
        self.file.apply(changes, Some(mark))?;
        let file = Arc::new(self.file.snapshot()?);
        self.show(|view| View { position: view.position, recent: view.recent.clone(), flushing: None, file });
        Ok(())
    }

    /// Brings everything recent into the file together with a batch that is in no journal. Nothing may be on its way.
    pub(super) fn flush_with(&self, changes: Changes, mark: Option<Mark>) -> Result<(), StoreError> {
        let mut all = self.view().recent.clone();
        all.take_in(changes);
        self.file.apply(&all, mark)?;
        let file = Arc::new(self.file.snapshot()?);
        self.show(|view| {
            let position = mark.map_or(view.position, Mark::position);
            View { position, recent: Recent::default(), flushing: None, file }
        });
        Ok(())
    }
}

impl Engine for RedbEngine {
    fn begin_read(&self) -> Result<Box<dyn EngineRead>, StoreError> {
        Ok(Box::new(Snapshot(self.core.view())))
    }

    fn commit(&self, changes: Changes, durability: Durability) -> Result<(), StoreError> {
        let Some(journal) = &self.journal else { return self.core.flush_with(changes, None) };
        journal.lock().unwrap_or_else(PoisonError::into_inner).commit(&self.core, changes, durability)
    }

    fn settle(&self) -> Result<(), StoreError> {
        let Some(journal) = &self.journal else { return Ok(()) };
        journal.lock().unwrap_or_else(PoisonError::into_inner).settle()
    }

    fn rest(&self) -> Result<(), StoreError> {
        let Some(journal) = &self.journal else { return Ok(()) };
        journal.lock().unwrap_or_else(PoisonError::into_inner).rest()
    }

    fn rests_in(&self) -> Option<Duration> {
        self.journal.as_ref()?.lock().unwrap_or_else(PoisonError::into_inner).rests_in()
    }

    fn was_recovered(&self) -> bool {
        self.recovered
    }

    fn cut_outgoing(&self) -> Result<(), StoreError> {
        let Some(journal) = &self.journal else { return Ok(()) };
        let pen = journal.lock().unwrap_or_else(PoisonError::into_inner).cut()?;
        if let Some(pen) = pen {
            pen.write();
        }
        Ok(())
    }
}

impl Drop for RedbEngine {
    fn drop(&mut self) {
        let Some(journal) = self.journal.take() else { return };
        let journaling = journal.into_inner().unwrap_or_else(PoisonError::into_inner);
        // A damaged page makes redb panic.
        let closed = catch_unwind(AssertUnwindSafe(|| journaling.close(&self.core)))
            .unwrap_or_else(|cause| Err(StoreError::Panicked(panic_text(cause.as_ref()))));
        if let Err(error) = closed {
            tracing::warn!(%error, "the store could not be closed in order; the next start replays its journal");
        }
    }
}

/// A view in the hands of one reader.
pub(super) struct Snapshot(Arc<View>);

impl Snapshot {
    fn read<T>(&self, work: impl FnOnce(&dyn EngineRead) -> T) -> T {
        let View { recent, flushing, file, .. } = &*self.0;
        match flushing {
            None => work(&recent.over(file.as_ref())),
            Some(flushing) => work(&recent.over(&flushing.over(file.as_ref()))),
        }
    }
}

impl EngineRead for Snapshot {
    fn get(&self, table: RawTable, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        self.read(|layers| layers.get(table, key))
    }

    fn scan(&self, table: RawTable, range: &KeyRange, direction: Direction, visit: Visitor<'_>) -> Result<(), StoreError> {
        self.read(|layers| layers.scan(table, range, direction, visit))
    }

    fn tables(&self) -> Result<Vec<String>, StoreError> {
        self.read(|layers| layers.tables())
    }

    fn position(&self) -> Position {
        self.0.position
    }
}
