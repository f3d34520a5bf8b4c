//! Opens the store without a server: the data directory of a stopped server, or a snapshot.

use std::path::{Path, PathBuf};

use tenantd_base::clock::Clock;
use tenantd_store::{DataDirectory, RedbEngine, Store, StoreError, StoreSettings, WriterSettings};

use super::{Common, Failure};
use crate::app::{App, Operator};

/// Small buffers, because these commands write little or nothing.
pub(super) const SETTINGS: StoreSettings = StoreSettings {
    cache_bytes: 64 << 20,
    journal_bytes: 1 << 20,
    writer: WriterSettings { batch_size: 1, queue_length: 1 },
    clock: Clock::System,
};

/// Locks the configured data directory, which must contain an installation. Fails while a server runs.
pub(super) fn lock(common: &Common) -> Result<DataDirectory, Failure> {
    let data = DataDirectory::lock(&common.settings(&[])?.data.directory).map_err(|error| error.to_string())?;
    if !data.is_initialized().map_err(|error| error.to_string())? {
        return Err(Failure::Failed(format!("{} contains no installation; create one with `tenantd init`", data.path().display())));
    }
    Ok(data)
}

/// Locks the configured data directory and opens its store.
pub(super) fn open(common: &Common) -> Result<(DataDirectory, Store), Failure> {
    let data = lock(common)?;
    let (store, _) = data.open_store(SETTINGS, None).map_err(|error| error.to_string())?;
    Ok((data, store))
}

/// Opens the whole installation without tasks and listeners. It answers requests of the local operator.
pub(super) async fn open_app(common: &Common) -> Result<App, Failure> {
    let config = common.settings(&[])?;
    ensure_owner(&config.data.directory)?;
    let data = lock(common)?;
    Ok(Box::pin(App::open(config, data, Clock::System, Operator::default(), None)).await?)
}

/// Refuses to run as another user, because the server could not open the files that this user creates.
fn ensure_owner(directory: &Path) -> Result<(), Failure> {
    use std::os::unix::fs::MetadataExt;
    let (own, shown) = (rustix::process::geteuid().as_raw(), directory.display());
    match std::fs::metadata(directory) {
        Ok(found) if found.uid() != own => Err(Failure::Denied(format!(
            "{shown} belongs to user {}, but this command runs as user {own}: run it as the owner, for example with `sudo -u tenantd`",
            found.uid()
        ))),
        // Locking the directory reports all other errors.
        _ => Ok(()),
    }
}

/// The store file of a data directory, without locking the directory.
pub(super) fn store_file(data_directory: &Path) -> PathBuf {
    DataDirectory::store_file_in(data_directory)
}

/// Opens a snapshot.
pub(super) fn open_snapshot(path: &Path) -> Result<Store, Failure> {
    let fail = |error: StoreError| Failure::Failed(error.to_string());
    let engine = RedbEngine::open(path, SETTINGS.cache_bytes, None).map_err(fail)?;
    Store::new(engine, SETTINGS.writer).map_err(fail)
}
