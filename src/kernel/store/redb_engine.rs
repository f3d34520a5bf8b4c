//! The engine: a batch becomes durable in the journal, is shown to readers as a layer in memory over redb's file, and reaches the file
//! later with many others.
//!
//! The journal has two halves. When one is full, what it holds is written to redb with a durable commit on a thread of its own, while
//! the writer goes on in the other half. Readers see three layers, the newest first: what is in the half that is being written, what
//! is on its way into the file, and the file. A start replays what the journal has and the file has not.
//! **Invariant:** a half is written over only after its changes are durable in the file.

use std::{
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    thread::JoinHandle,
    time::Duration,
};

use redb::{StorageBackend, backends::FileBackend};

use tenantd_base::{entropy::quick_bytes, telemetry::panic_text};

use super::{
    changes::Changes,
    engine::{Direction, Durability, Engine, EngineRead, KeyRange, RawTable, Visitor},
    error::StoreError,
    journal::{Journal, JournalId},
    recent::Recent,
    redb_file::{FileSnapshot, Mark, RedbFile, RepairProgress, private_options},
};

/// How long the last changes may wait for the disk at the most.
const SETTLES_AFTER: Duration = Duration::from_millis(50);

/// Where the journal is, and how much it holds.
pub(super) struct JournalFile {
    pub path: PathBuf,
    pub bytes: u64,
}

pub struct RedbEngine {
    core: Arc<Core>,
    /// Without one, every batch goes straight into the file.
    journal: Option<Mutex<Journaling>>,
}

/// What the writer shares with a flush.
struct Core {
    published: Mutex<Arc<View>>,
    file: RedbFile,
}

/// What a snapshot sees.
struct View {
    recent: Recent,
    /// On its way into the file; it may be there already.
    flushing: Option<Recent>,
    file: Arc<FileSnapshot>,
}

/// Who brings the changes of a full half into the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flushing {
    /// A thread, while the writer goes on.
    Beside,
    /// The writer itself, so that the same writes always give the same operations on the disk.
    InTurn,
}

struct Journaling {
    journal: Journal,
    mark: Mark,
    mode: Flushing,
    flush: Option<JoinHandle<Result<(), StoreError>>>,
    /// After a failure nothing is known of the file, so it is not marked as closed.
    failed: bool,
}

impl std::fmt::Debug for RedbEngine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("RedbEngine")
    }
}

impl RedbEngine {
    /// Opens a file without a journal: a copy, or one that was closed in order.
    pub fn open(path: &Path, cache_bytes: usize, progress: Option<RepairProgress>) -> Result<Self, StoreError> {
        let file = RedbFile::open(path, cache_bytes, progress)?;
        match file.mark()? {
            Some(mark) if !mark.closed => Err(StoreError::Installation(format!(
                "{} was not closed in order, and its last changes are in the journal of its data directory: start tenantd there once",
                path.display()
            ))),
            _ => Self::without_journal(file),
        }
    }

    /// Opens the store of an installation, together with its journal.
    pub(super) fn open_with_journal(
        path: &Path,
        journal: &JournalFile,
        cache_bytes: usize,
        progress: Option<RepairProgress>,
    ) -> Result<Self, StoreError> {
        let file = RedbFile::open(path, cache_bytes, progress)?;
        let fail = |error: &dyn std::fmt::Display| StoreError::Installation(format!("{}: {error}", journal.path.display()));
        let beside = private_options().create(true).truncate(false).open(&journal.path).map_err(|error| fail(&error))?;
        let beside = FileBackend::new(beside).map_err(|error| fail(&error))?;
        Self::with_journal(file, Box::new(beside), journal.bytes, quick_bytes(), Flushing::Beside)
    }

    /// Makes a new file without a journal; one that exists is refused.
    pub fn create(path: &Path, cache_bytes: usize) -> Result<Self, StoreError> {
        Self::without_journal(RedbFile::create(path, cache_bytes)?)
    }

    /// Opens or makes a store on storage of the caller's, such as a disk that crashes in a test. It works on one thread.
    pub fn on_backends(
        store: impl StorageBackend,
        journal: impl StorageBackend,
        journal_bytes: u64,
        journal_id: JournalId,
        cache_bytes: usize,
    ) -> Result<Self, StoreError> {
        let file = RedbFile::on_backend(store, cache_bytes)?;
        Self::with_journal(file, Box::new(journal), journal_bytes, journal_id, Flushing::InTurn)
    }

    fn without_journal(file: RedbFile) -> Result<Self, StoreError> {
        Ok(Self { core: Arc::new(Core::new(file)?), journal: None })
    }

    /// `new_id` is for the journal of this opening: no other has had it.
    fn with_journal(
        file: RedbFile,
        beside: Box<dyn StorageBackend>,
        capacity: u64,
        new_id: JournalId,
        mode: Flushing,
    ) -> Result<Self, StoreError> {
        let beside = match file.mark()?.filter(|mark| !mark.closed) {
            None => beside,
            Some(mark) => take_up(&file, beside, mark)?,
        };
        // Nothing needs the journal of before any more, and a start that ends here finds a store that was closed in order.
        let journal = Journal::create(beside, new_id, capacity).map_err(StoreError::engine)?;
        let mark = Mark { id: new_id, number: 0, closed: false };
        file.apply(&Recent::default(), Some(mark))?;
        let journaling = Journaling { journal, mark, mode, flush: None, failed: false };
        Ok(Self { core: Arc::new(Core::new(file)?), journal: Some(Mutex::new(journaling)) })
    }
}

/// Brings into the file what only the journal of the last opening has, and gives the journal's file back.
fn take_up(file: &RedbFile, beside: Box<dyn StorageBackend>, mark: Mark) -> Result<Box<dyn StorageBackend>, StoreError> {
    let Ok(journal) = Journal::open(beside, mark.id).map_err(StoreError::engine)? else {
        return Err(StoreError::Installation(
            "the store was not closed in order, and the journal with its last changes is missing or another one's: \
             put it back beside the store, or restore a backup into an empty directory"
                .to_owned(),
        ));
    };
    let mut missed = Recent::default();
    let number = journal.replay(mark.number, |changes| {
        let changes = Changes::decode(changes)
            .ok_or_else(|| StoreError::Installation("the journal was written by a newer release".to_owned()))?;
        missed.take_in(changes);
        Ok(())
    })?;
    file.apply(&missed, Some(Mark { number, closed: true, ..mark }))?;
    Ok(journal.into_file())
}

impl Core {
    fn new(file: RedbFile) -> Result<Self, StoreError> {
        let view = View { recent: Recent::default(), flushing: None, file: Arc::new(file.snapshot()?) };
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
    fn publish(&self, changes: Changes) {
        let mut recent = self.view().recent.clone();
        recent.take_in(changes);
        self.show(|view| View { recent, flushing: view.flushing.clone(), file: view.file.clone() });
    }

    /// Sets everything recent apart to be flushed, and gives it back.
    fn set_apart(&self) -> Recent {
        let recent = self.view().recent.clone();
        self.show(|view| View { recent: Recent::default(), flushing: Some(recent.clone()), file: view.file.clone() });
        recent
    }

    /// Brings what was set apart into the file, and shows the file in its place.
    fn flush(&self, changes: &Recent, mark: Mark) -> Result<(), StoreError> {
        self.file.apply(changes, Some(mark))?;
        let file = Arc::new(self.file.snapshot()?);
        self.show(|view| View { recent: view.recent.clone(), flushing: None, file });
        Ok(())
    }

    /// Brings everything recent into the file together with a batch that is in no journal. Nothing may be on its way.
    fn flush_with(&self, changes: Changes, mark: Option<Mark>) -> Result<(), StoreError> {
        let mut all = self.view().recent.clone();
        all.take_in(changes);
        self.file.apply(&all, mark)?;
        let file = Arc::new(self.file.snapshot()?);
        self.show(|_| View { recent: Recent::default(), flushing: None, file });
        Ok(())
    }
}

impl Journaling {
    fn commit(&mut self, core: &Arc<Core>, changes: Changes, durability: Durability) -> Result<(), StoreError> {
        let bytes = changes.encode();
        let mark = Mark { number: self.mark.number + 1, ..self.mark };
        if !self.journal.fits(bytes.len()) {
            self.await_flush()?;
            if !self.journal.ever_fits(bytes.len()) {
                core.flush_with(changes, Some(mark))?;
                self.mark = mark;
                self.journal.turn_over();
                return Ok(());
            }
            self.begin_flush(core)?;
        }
        self.journal.append(mark.number, &bytes).map_err(StoreError::engine)?;
        if durability == Durability::Now {
            self.journal.sync().map_err(StoreError::engine)?;
        }
        core.publish(changes);
        self.mark = mark;
        Ok(())
    }

    /// Remembers a failure. Until the end is reached, a panic in redb counts as one too.
    fn guarded(&mut self, work: impl FnOnce(&mut Self) -> Result<(), StoreError>) -> Result<(), StoreError> {
        self.failed = true;
        work(self)?;
        self.failed = false;
        Ok(())
    }

    /// Goes on in the other half, which must be free, and has the changes of this one brought into the file.
    fn begin_flush(&mut self, core: &Arc<Core>) -> Result<(), StoreError> {
        let (recent, mark) = (core.set_apart(), self.mark);
        self.journal.turn_over();
        match self.mode {
            Flushing::InTurn => core.flush(&recent, mark),
            Flushing::Beside => {
                let core = core.clone();
                let flush = std::thread::Builder::new().name("store-flush".to_owned());
                let flush = flush.spawn(move || core.flush(&recent, mark)).map_err(StoreError::engine)?;
                self.flush = Some(flush);
                Ok(())
            }
        }
    }

    /// Waits until the flush under way, if there is one, has ended, and tells how.
    fn await_flush(&mut self) -> Result<(), StoreError> {
        match self.flush.take().map(JoinHandle::join) {
            None => Ok(()),
            Some(Ok(flushed)) => flushed,
            Some(Err(cause)) => Err(StoreError::Panicked(panic_text(cause.as_ref()))),
        }
    }

    /// A flush that has failed is told to the next write, not only to the one that waits for it.
    fn check_flush(&mut self) -> Result<(), StoreError> {
        if self.flush.as_ref().is_some_and(JoinHandle::is_finished) { self.await_flush() } else { Ok(()) }
    }
}

impl Engine for RedbEngine {
    fn begin_read(&self) -> Result<Box<dyn EngineRead>, StoreError> {
        Ok(Box::new(Snapshot(self.core.view())))
    }

    fn commit(&self, changes: Changes, durability: Durability) -> Result<(), StoreError> {
        let Some(journal) = &self.journal else { return self.core.flush_with(changes, None) };
        journal.lock().unwrap_or_else(PoisonError::into_inner).guarded(|journaling| {
            journaling.check_flush()?;
            journaling.commit(&self.core, changes, durability)
        })
    }

    fn settle(&self) -> Result<(), StoreError> {
        let Some(journal) = &self.journal else { return Ok(()) };
        let sync = |journaling: &mut Journaling| journaling.journal.sync().map_err(StoreError::engine);
        journal.lock().unwrap_or_else(PoisonError::into_inner).guarded(sync)
    }

    fn settles_after(&self) -> Option<Duration> {
        let journal = self.journal.as_ref()?.lock().unwrap_or_else(PoisonError::into_inner);
        (journal.mode == Flushing::Beside).then_some(SETTLES_AFTER)
    }
}

impl Drop for RedbEngine {
    fn drop(&mut self) {
        let Some(journal) = self.journal.take() else { return };
        let mut journaling = journal.into_inner().unwrap_or_else(PoisonError::into_inner);
        let flushed = journaling.await_flush();
        if journaling.failed {
            return;
        }
        let mark = Mark { closed: true, ..journaling.mark };
        let closed = flushed.and_then(|()| self.core.flush_with(Changes::default(), Some(mark)));
        if let Err(error) = closed {
            tracing::warn!(%error, "the store could not be closed in order; the next start replays its journal");
        }
    }
}

/// A view in the hands of one reader.
struct Snapshot(Arc<View>);

impl Snapshot {
    fn read<T>(&self, work: impl FnOnce(&dyn EngineRead) -> T) -> T {
        let View { recent, flushing, file } = &*self.0;
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
}
