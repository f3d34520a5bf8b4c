//! The engine. A batch becomes durable in the journal, is visible to readers as a layer in memory over redb's file, and reaches
//! the file later together with many others.
//!
//! Readers see three layers, the newest first: the changes in the current half of the journal, the changes that are being
//! flushed, and the file. `journaling.rs` is the writer's side. A start continues from the state that `recovery.rs` finds.

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
    recovery::{self, StoreState},
    redb_file::{FileSnapshot, Mark, RedbFile, RepairProgress, private_options},
    spare::preallocate,
    spare_backend::SpareBackend,
    transaction::ReadTx,
    volume::Volume,
    witness::{Witness, WitnessRecord},
};

/// The paths of the journal and the witness, the size of the journal, and the volume of all files of the store.
pub(super) struct JournalFiles {
    pub(super) journal: PathBuf,
    pub(super) witness: PathBuf,
    pub(super) bytes: u64,
    pub(super) volume: Arc<Volume>,
    /// The directory of commits that leave the host, if commits leave it.
    pub(super) outgoing: Option<OutgoingDirectory>,
}

/// The files beside the store's file.
pub(super) struct SideFiles {
    pub(super) journal: Box<dyn StorageBackend>,
    pub(super) witness: Box<dyn StorageBackend>,
    outgoing: Option<OutgoingDirectory>,
}

/// How to open a store with a journal.
#[derive(Clone, Debug)]
pub struct Opening {
    pub cache_bytes: usize,
    pub journal_bytes: u64,
    /// The id of this opening's journal. It must be unique.
    pub journal_id: JournalId,
    pub flushing: Flushing,
    /// The clock for the times of commits.
    pub clock: Clock,
}

pub struct RedbEngine {
    core: Arc<Core>,
    /// Without a journal, every batch goes straight into the file.
    journal: Option<Mutex<Journaling>>,
    /// Whether the store was not closed cleanly before.
    recovered: bool,
}

/// The state that the writer and a flush share.
pub(super) struct Core {
    published: Mutex<Arc<View>>,
    file: RedbFile,
}

/// The state that a snapshot shows.
pub(super) struct View {
    position: Position,
    recent: Recent,
    /// Changes that are being flushed. The file may already contain them.
    flushing: Option<Recent>,
    file: Arc<FileSnapshot>,
}

impl std::fmt::Debug for RedbEngine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("RedbEngine")
    }
}

impl JournalFiles {
    /// Opens or creates both files. Allocates all blocks of the journal, so that appending to it never needs a new block.
    pub(super) fn open(&self) -> Result<SideFiles, StoreError> {
        let journal = open_file(&self.journal)?;
        if let Err(error) = preallocate(&journal, self.bytes) {
            let path = self.journal.display();
            tracing::warn!(%error, %path, "the disk has no space for the whole journal; the reserve is used instead");
        }
        let witness = open_file(&self.witness)?;
        self.journal.parent().map_or(Ok(()), sync_directory)?;
        let backend = |file, path: &Path| -> Result<Box<dyn StorageBackend>, StoreError> {
            let opened = FileBackend::new(file);
            let opened = opened.map_err(|error| StoreError::Installation(format!("{}: {error}", path.display())))?;
            Ok(Box::new(SpareBackend::new(opened, self.volume.clone())))
        };
        let (journal, witness) = (backend(journal, &self.journal)?, backend(witness, &self.witness)?);
        Ok(SideFiles { journal, witness, outgoing: self.outgoing.clone() })
    }
}

fn open_file(path: &Path) -> Result<std::fs::File, StoreError> {
    private_options().create(true).truncate(false).open(path).map_err(|error| io_error(path, &error))
}

impl RedbEngine {
    /// Opens a file without a journal: a copy, or a store that was closed cleanly.
    pub fn open(path: &Path, cache_bytes: usize, progress: Option<RepairProgress>) -> Result<Self, StoreError> {
        let file = RedbFile::open(path, cache_bytes, progress)?;
        if file.mark()?.closed {
            return Self::without_journal(file);
        }
        Err(StoreError::Installation(format!(
            "{} was not closed cleanly, and its last changes are in the journal of its data directory: start tenantd there once",
            path.display()
        )))
    }

    /// Opens the store of an installation with its journal. `accept` checks that it is the right store before anything is
    /// written.
    pub(super) fn open_with_journal(
        path: &Path,
        files: &JournalFiles,
        (cache_bytes, clock): (usize, Clock),
        progress: Option<RepairProgress>,
        accept: impl FnOnce(&ReadTx) -> Result<(), StoreError>,
    ) -> Result<Self, StoreError> {
        let file = RedbFile::open_on(&files.volume, path, cache_bytes, progress)?;
        let opening =
            Opening { cache_bytes, journal_bytes: files.bytes, journal_id: quick_bytes(), flushing: Flushing::Background, clock };
        Self::with_journal(file, files.open()?, opening, accept)
    }

    /// Creates a new file without a journal. Fails if the file exists.
    pub fn create(path: &Path, cache_bytes: usize) -> Result<Self, StoreError> {
        Self::without_journal(RedbFile::create(path, cache_bytes)?)
    }

    /// Opens or creates a store on the caller's storage, for example a simulated crashing disk in a test.
    pub fn on_backends(
        store: impl StorageBackend,
        journal: impl StorageBackend,
        witness: impl StorageBackend,
        opening: Opening,
    ) -> Result<Self, StoreError> {
        let file = RedbFile::on_backend(store, opening.cache_bytes)?;
        let side_files = SideFiles { journal: Box::new(journal), witness: Box::new(witness), outgoing: None };
        Self::with_journal(file, side_files, opening, |_| Ok(()))
    }

    /// Sets the commit that the file ends with. The openings of a restored snapshot follow this commit.
    pub(super) fn set_end(&self, position: Position) -> Result<(), StoreError> {
        self.core.flush_with(Changes::default(), Some(Mark::at(position)))
    }

    fn without_journal(file: RedbFile) -> Result<Self, StoreError> {
        Ok(Self { core: Arc::new(Core::new(file)?), journal: None, recovered: false })
    }

    fn with_journal(
        file: RedbFile,
        side_files: SideFiles,
        opening: Opening,
        accept: impl FnOnce(&ReadTx) -> Result<(), StoreError>,
    ) -> Result<Self, StoreError> {
        let before = file.mark()?;
        let StoreState { unflushed, commits, mark, damage } =
            recovery::examine(before, side_files.journal.as_ref(), side_files.witness.as_ref())?;
        if let Some(damage) = damage {
            return Err(damage.refusal());
        }
        let log_end = {
            let tx = ReadTx::new(Box::new(snapshot_of(&file, unflushed.clone())?));
            accept(&tx)?;
            events::head(&tx)?
        };
        // Write the segments before the commits leave the journal.
        if let Some(directory) = &side_files.outgoing {
            directory.settle(before.position())?;
            let mut outgoing = Outgoing::new(directory.clone(), mark.id, mark.before);
            for commit in &commits {
                outgoing.add(mark.commit(commit.number).number, commit.at, &commit.changes);
            }
            outgoing.cut();
            outgoing.writer().write();
        }
        if !before.closed {
            file.apply(&unflushed, Some(Mark { closed: true, ..mark }))?;
        }
        // The previous journal is no longer needed, and a start that ends here finds a store that was closed cleanly. The
        // witness names the next journal before the file does. It is trusted as long as that journal is empty.
        let id = opening.journal_id;
        let journal = Journal::create(side_files.journal, id, opening.journal_bytes).map_err(StoreError::engine)?;
        let record = WitnessRecord { id, before: mark.id, number: 0, log_end };
        let witness = Witness::begin(side_files.witness, record).map_err(StoreError::engine)?;
        let outgoing = side_files.outgoing.map(|directory| Outgoing::new(directory, id, mark.position()));
        let mark = Mark { id, number: 0, closed: false, before: mark.position() };
        file.apply(&Recent::default(), Some(mark))?;
        let journaling = Journaling::new((journal, witness), mark, log_end, outgoing, (opening.clock, opening.flushing));
        Ok(Self { core: Arc::new(Core::new(file)?), journal: Some(Mutex::new(journaling)), recovered: !before.closed })
    }
}

/// The file with changes on top.
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

    /// Publishes the next view to readers.
    fn show(&self, next: impl FnOnce(&View) -> View) {
        let mut published = self.published.lock().unwrap_or_else(PoisonError::into_inner);
        let next = Arc::new(next(&published));
        let before = std::mem::replace(&mut *published, next);
        drop(published);
        // It may hold the last reference to many entries. Free them without the lock.
        drop(before);
    }

    /// Publishes a batch to readers. Only the writer changes `recent`, so nothing is lost between reading and publishing.
    pub(super) fn publish(&self, changes: Changes, position: Position) {
        let mut recent = self.view().recent.clone();
        recent.add_batch(changes);
        self.show(|view| View { position, recent, flushing: view.flushing.clone(), file: view.file.clone() });
    }

    /// Moves all recent changes to the layer that is being flushed, and returns them.
    pub(super) fn freeze_recent(&self) -> Recent {
        let recent = self.view().recent.clone();
        self.show(|view| {
            let (position, flushing, file) = (view.position, Some(recent.clone()), view.file.clone());
            View { position, recent: Recent::default(), flushing, file }
        });
        recent
    }

    /// Writes the changes of a flush into the file, and publishes the file in their place.
    pub(super) fn flush(&self, changes: &Recent, mark: Mark) -> Result<(), StoreError> {
        self.file.apply(changes, Some(mark))?;
        let file = Arc::new(self.file.snapshot()?);
        self.show(|view| View { position: view.position, recent: view.recent.clone(), flushing: None, file });
        Ok(())
    }

    /// Writes all recent changes into the file, together with a batch that is in no journal. No flush may be in progress.
    pub(super) fn flush_with(&self, changes: Changes, mark: Option<Mark>) -> Result<(), StoreError> {
        let mut all = self.view().recent.clone();
        all.add_batch(changes);
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
        let writer = journal.lock().unwrap_or_else(PoisonError::into_inner).cut()?;
        if let Some(writer) = writer {
            writer.write();
        }
        Ok(())
    }
}

impl Drop for RedbEngine {
    fn drop(&mut self) {
        let Some(journal) = self.journal.take() else { return };
        let journaling = journal.into_inner().unwrap_or_else(PoisonError::into_inner);
        // redb panics on a damaged page.
        let closed = catch_unwind(AssertUnwindSafe(|| journaling.close(&self.core)))
            .unwrap_or_else(|cause| Err(StoreError::Panicked(panic_text(cause.as_ref()))));
        if let Err(error) = closed {
            tracing::warn!(%error, "the store could not be closed cleanly; the next start replays the journal");
        }
    }
}

/// A view that one reader holds.
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
