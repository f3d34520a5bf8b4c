//! The data directory: which process holds it, whether it contains an installation, and how to create one atomically.
//!
//! redb creates a new database when the file is missing, so a lost mount would look like a first start. **Invariant:** only
//! initialization creates the store. Any other start needs the store *and* the installation id beside it, and both must match.

mod restore;

use std::{
    fs::File,
    io::{Read as _, Seek, Write},
    panic::{AssertUnwindSafe, catch_unwind},
    path::{Path, PathBuf},
    sync::Arc,
};

use serde::{Deserialize, Serialize};

use tenantd_base::{quotas::Quotas, telemetry::panic_text};

use super::{
    RedbEngine, RepairProgress, Store, StoreError, StoreSettings, Table, Volume, catalog,
    codec::Record,
    engine::{Durability, Engine},
    migrate::FORMAT,
    outgoing::OutgoingDirectory,
    privacy::make_private,
    redb_engine::JournalFiles,
    reserve::within_reserve,
    transaction::{Read, ReadTx, WriteTx},
};

const STORE_FILE: &str = "tenantd.redb";
/// Changes that are durable but not yet in the store's own file.
const JOURNAL_FILE: &str = "tenantd.journal";
/// How far the journal was synced.
const WITNESS_FILE: &str = "tenantd.witness";
const ID_FILE: &str = "installation.id";
const LOCK_FILE: &str = "tenantd.lock";
/// Exists during an initialization. What an interrupted initialization leaves behind holds no acknowledged data.
const MARKER_FILE: &str = "initializing";
/// A new or restored store before it is renamed.
const NEW_STORE_FILE: &str = "tenantd.redb.new";

pub type InstallationId = [u8; 16];
/// Distinguishes installation keys without revealing them.
pub type KeyFingerprint = [u8; 8];

/// The store's metadata.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Installation {
    pub format: u32,
    pub id: InstallationId,
    pub key_fingerprint: KeyFingerprint,
}

impl Record for Installation {
    const VERSION: u8 = 1;
}

/// The release that last opened the store, so that an older release can name it in an error.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct ReleaseRecord {
    version: String,
}

impl Record for ReleaseRecord {
    const VERSION: u8 = 1;
}

static RELEASE: Table<u8, ReleaseRecord> = Table::new(catalog::RELEASE, &[]);
const THIS_RELEASE: &str = env!("CARGO_PKG_VERSION");

/// Returns the release that last opened the store, if it is recorded.
pub fn last_release(tx: &impl Read) -> Option<String> {
    // A newer release may store it in a form that this release cannot read.
    RELEASE.get(tx, &0).ok().flatten().map(|record| record.version)
}

/// Records that this release has opened the store.
pub(super) async fn note_release(store: &Store) -> Result<(), StoreError> {
    if store.read(|tx| Ok::<_, StoreError>(last_release(tx)))?.as_deref() == Some(THIS_RELEASE) {
        return Ok(());
    }
    within_reserve(store.write(|tx| RELEASE.put(tx, &0, &ReleaseRecord { version: THIS_RELEASE.to_owned() }))).await
}

static META: Table<u8, Installation> = Table::new(catalog::META, &[]);
const META_KEY: u8 = 0;

impl Installation {
    pub fn read(tx: &ReadTx) -> Result<Self, StoreError> {
        Self::find(tx)?.ok_or_else(|| StoreError::Installation("the file is a database that tenantd did not create".to_owned()))
    }

    pub(super) fn find(tx: &ReadTx) -> Result<Option<Self>, StoreError> {
        META.get(tx, &META_KEY)
    }

    pub(super) fn write(&self, tx: &mut WriteTx) -> Result<(), StoreError> {
        META.put(tx, &META_KEY, self)
    }
}

/// A data directory that this process holds. No other process can hold it until this value is dropped.
#[derive(Debug)]
pub struct DataDirectory {
    path: PathBuf,
    volume: Arc<Volume>,
    _lock: File,
}

pub(super) fn io_error(path: &Path, error: &std::io::Error) -> StoreError {
    StoreError::Installation(format!("{}: {error}", path.display()))
}

impl DataDirectory {
    /// Locks the directory, creates it if it is missing, and makes it private to its owner. If another process holds it, the
    /// error names the process id.
    pub fn lock(path: &Path) -> Result<Self, StoreError> {
        use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
        let fail = |error: std::io::Error| io_error(path, &error);
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(fail)?;
        let lock_path = path.join(LOCK_FILE);
        let mut lock = std::fs::OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(&lock_path)
            .map_err(|error| io_error(&lock_path, &error))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(std::fs::TryLockError::WouldBlock) => {
                let mut pid = String::new();
                lock.read_to_string(&mut pid).map_err(|error| io_error(&lock_path, &error))?;
                let problem = format!("{} is in use by process {}: stop that process first", path.display(), pid.trim());
                return Err(StoreError::Installation(problem));
            }
            Err(std::fs::TryLockError::Error(error)) => return Err(io_error(&lock_path, &error)),
        }
        let volume = Arc::new(Volume::of(path).map_err(fail)?);
        // Overwrite the previous process's line in place. On a full volume, truncating first could lose the block and never get
        // it back.
        let write_pid = |lock: &mut File| {
            let line = format!("{}\n", std::process::id());
            lock.rewind()?;
            lock.write_all(line.as_bytes())?;
            lock.set_len(line.len() as u64)
        };
        if let Err(error) = write_pid(&mut lock) {
            tracing::warn!(%error, path = %lock_path.display(), "cannot write the process id to the lock file");
        }
        make_private(path);
        Ok(Self { path: path.to_owned(), volume, _lock: lock })
    }

    /// The volume that the directory is on.
    pub fn volume(&self) -> &Arc<Volume> {
        &self.volume
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The path of the store's file in a data directory.
    pub fn store_file_in(path: &Path) -> PathBuf {
        path.join(STORE_FILE)
    }

    pub fn store_file(&self) -> PathBuf {
        Self::store_file_in(&self.path)
    }

    /// Whether the directory contains an installation. Returns an error that names the missing file if it contains only part of
    /// one.
    pub fn is_initialized(&self) -> Result<bool, StoreError> {
        if self.path.join(MARKER_FILE).exists() {
            return Ok(false);
        }
        let (store, id) = (self.store_file(), self.path.join(ID_FILE));
        match (store.exists(), id.exists()) {
            (true, true) => Ok(true),
            (false, false) => {
                match [JOURNAL_FILE, WITNESS_FILE].map(|name| self.path.join(name)).iter().find(|path| path.exists()) {
                    Some(left) => Err(StoreError::Installation(format!(
                        "found {}, but {} is missing: put the file back, or restore a backup into an empty directory",
                        left.display(),
                        store.display()
                    ))),
                    None => Ok(false),
                }
            }
            (has_store, _) => {
                let (there, missing) = if has_store { (&store, &id) } else { (&id, &store) };
                Err(StoreError::Installation(format!(
                    "found {}, but {} is missing: is the right volume mounted? Put the file back, or restore a backup into an empty directory",
                    there.display(),
                    missing.display()
                )))
            }
        }
    }

    /// Creates the installation. `prepare` writes everything else that must exist before the first start, such as the
    /// installation key, and returns the key's fingerprint. After a crash at any point, the directory can be initialized again.
    pub fn initialize(
        &self,
        id: InstallationId,
        prepare: impl FnOnce() -> Result<KeyFingerprint, StoreError>,
    ) -> Result<(), StoreError> {
        self.begin_initialization()?;
        let key_fingerprint = prepare()?;
        let new = self.path.join(NEW_STORE_FILE);
        let engine = RedbEngine::create(&new, 1 << 20)?;
        let mut tx = WriteTx::new(engine.begin_read()?, Quotas::UNLIMITED);
        Installation { format: FORMAT, id, key_fingerprint }.write(&mut tx)?;
        engine.commit(tx.into_changes(), Durability::Now)?;
        drop(engine);
        self.finish_initialization(&new, id)
    }

    fn begin_initialization(&self) -> Result<(), StoreError> {
        self.ensure_empty()?;
        let copy = self.path.join(NEW_STORE_FILE);
        if copy.exists() && !self.path.join(MARKER_FILE).exists() {
            return Err(StoreError::Installation(format!(
                "an interrupted restore left {}: run the restore again, or remove the file to create a new installation",
                copy.display()
            )));
        }
        self.mark_initialization(&[NEW_STORE_FILE, STORE_FILE, JOURNAL_FILE, WITNESS_FILE, ID_FILE])
    }

    fn ensure_empty(&self) -> Result<(), StoreError> {
        if self.is_initialized()? {
            return Err(StoreError::Installation(format!("{} already holds an installation", self.path.display())));
        }
        Ok(())
    }

    /// Marks the directory as incomplete: from now on its content can be removed.
    fn mark_initialization(&self, leftovers: &[&str]) -> Result<(), StoreError> {
        write_private_file(&self.path.join(MARKER_FILE), b"")?;
        self.remove_all(leftovers)
    }

    fn remove_all(&self, names: &[&str]) -> Result<(), StoreError> {
        for name in names {
            let path = self.path.join(name);
            if path.exists() {
                std::fs::remove_file(&path).map_err(|error| io_error(&path, &error))?;
            }
        }
        sync_directory(&self.path)
    }

    fn finish_initialization(&self, new: &Path, id: InstallationId) -> Result<(), StoreError> {
        let sync = File::open(new).and_then(|file| file.sync_all());
        sync.map_err(|error| io_error(new, &error))?;
        let store = self.store_file();
        std::fs::rename(new, &store).map_err(|error| io_error(&store, &error))?;
        write_private_file(&self.path.join(ID_FILE), format!("{}\n", data_encoding::HEXLOWER.encode(&id)).as_bytes())?;
        let marker = self.path.join(MARKER_FILE);
        std::fs::remove_file(&marker).map_err(|error| io_error(&marker, &error))?;
        sync_directory(&self.path)
    }

    /// Opens the installation's store.
    pub fn open_store(
        &self,
        settings: StoreSettings,
        progress: Option<RepairProgress>,
    ) -> Result<(Store, Installation), StoreError> {
        let mut found = None;
        let accept = |tx: &ReadTx| {
            found = Some(self.accept(tx)?);
            Ok(())
        };
        let mut files = self.journal_files(settings.journal_bytes);
        files.outgoing = Some(self.outgoing()).filter(OutgoingDirectory::exists);
        let opening = (settings.cache_bytes, settings.clock);
        let open = || RedbEngine::open_with_journal(&self.store_file(), &files, opening, progress, accept);
        let engine = self.readable(open)?;
        let installation = found.ok_or_else(|| StoreError::Engine("the store was opened without a check".to_owned()))?;
        Ok((Store::on_volume(engine, settings.writer, self.volume.clone())?, installation))
    }

    /// Runs code that reads the store's file. redb panics on a damaged page, and this turns the panic into an error.
    pub(super) fn readable<T>(&self, work: impl FnOnce() -> Result<T, StoreError>) -> Result<T, StoreError> {
        catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|cause| {
            let (file, cause) = (self.store_file(), panic_text(cause.as_ref()));
            let problem = format!("{} is damaged and cannot be read: restore a backup into an empty directory", file.display());
            Err(StoreError::Installation(format!("{problem} ({cause})")))
        })
    }

    /// The directory of commits that wait to leave the host.
    pub fn outgoing(&self) -> OutgoingDirectory {
        OutgoingDirectory::of(&self.path)
    }

    pub(super) fn journal_files(&self, bytes: u64) -> JournalFiles {
        let (journal, witness) = (self.path.join(JOURNAL_FILE), self.path.join(WITNESS_FILE));
        JournalFiles { journal, witness, bytes, volume: self.volume.clone(), outgoing: None }
    }

    /// Checks that a store belongs to this directory and has a format that this release knows. Returns its metadata.
    pub(super) fn accept(&self, tx: &ReadTx) -> Result<Installation, StoreError> {
        let installation = Installation::read(tx)?;
        let id_path = self.path.join(ID_FILE);
        let stored = std::fs::read_to_string(&id_path).map_err(|error| io_error(&id_path, &error))?;
        if stored.trim() != data_encoding::HEXLOWER.encode(&installation.id) {
            return Err(StoreError::Installation(format!(
                "{} does not match {}: the two files belong to different installations",
                id_path.display(),
                self.store_file().display()
            )));
        }
        if installation.format > FORMAT {
            return Err(newer_format(installation.format, last_release(tx).as_deref()));
        }
        Ok(installation)
    }
}

pub(super) fn newer_format(format: u32, release: Option<&str>) -> StoreError {
    let writer = release.map(|release| format!(" and was last opened by tenantd {release}")).unwrap_or_default();
    let wanted = release.map_or_else(|| "the newer release".to_owned(), |release| format!("tenantd {release} or newer"));
    StoreError::Installation(format!(
        "the store has format {format}{writer}, and this release, {THIS_RELEASE}, knows only up to {FORMAT}: install {wanted} again, or restore a snapshot made before the upgrade"
    ))
}

/// Removes a file if it exists. After this returns, a loss of power does not bring it back.
pub fn remove_file(path: &Path) -> Result<(), StoreError> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(io_error(path, &error)),
        _ => path.parent().map_or(Ok(()), sync_directory),
    }
}

pub(super) fn sync_directory(path: &Path) -> Result<(), StoreError> {
    File::open(path).and_then(|directory| directory.sync_all()).map_err(|error| io_error(path, &error))
}

/// Writes a file that only its owner can read. The write is atomic and durable.
pub fn write_private_file(path: &Path, content: &[u8]) -> Result<(), StoreError> {
    use std::os::unix::fs::OpenOptionsExt;
    let temporary = path.with_extension("tmp");
    let write = || -> std::io::Result<()> {
        let mut file = std::fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&temporary)?;
        file.write_all(content)?;
        file.sync_all()?;
        std::fs::rename(&temporary, path)
    };
    write().map_err(|error| io_error(path, &error))?;
    path.parent().map_or(Ok(()), sync_directory)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::assert_golden;

    #[test]
    fn the_stored_form_matches_the_golden_file() {
        assert_golden("installation", &Installation { format: 1, id: [7; 16], key_fingerprint: [9; 8] });
        assert_golden("release", &ReleaseRecord { version: "0.1.0".to_owned() });
    }
}
