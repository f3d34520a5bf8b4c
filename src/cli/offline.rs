//! The store without a server: for commands that look at a data directory which nobody serves, or at a snapshot.

use std::path::{Path, PathBuf};

use tenantd_base::clock::Clock;
use tenantd_store::{DataDirectory, RedbEngine, Store, StoreError, StoreSettings, WriterSettings};

use super::{Common, Failure};
use crate::app::{App, Operator};

/// Little or nothing is written here.
pub(super) const SETTINGS: StoreSettings = StoreSettings {
    cache_bytes: 64 << 20,
    journal_bytes: 1 << 20,
    writer: WriterSettings { batch_size: 1, queue_length: 1 },
    clock: Clock::System,
};

/// Takes hold of the configured data directory, which must hold an installation. Fails while a server runs.
pub(super) fn hold(common: &Common) -> Result<DataDirectory, Failure> {
    let data = DataDirectory::lock(&common.settings(&[])?.data.directory).map_err(|error| error.to_string())?;
    if !data.is_initialized().map_err(|error| error.to_string())? {
        return Err(Failure::Failed(format!("{} holds no installation", data.path().display())));
    }
    Ok(data)
}

/// The same, and opens the store in it.
pub(super) fn open(common: &Common) -> Result<(DataDirectory, Store), Failure> {
    let data = hold(common)?;
    let (store, _) = data.open_store(SETTINGS, None).map_err(|error| error.to_string())?;
    Ok((data, store))
}

/// The whole installation, without tasks and listeners: answers requests of the local operator.
pub(super) async fn open_app(common: &Common) -> Result<App, Failure> {
    let config = common.settings(&[])?;
    ensure_owner(&config.data.directory)?;
    let data = hold(common)?;
    Ok(Box::pin(App::open(config, data, Clock::System, Operator::default(), None)).await?)
}

/// Files that somebody else writes here could not be opened by the server afterwards.
fn ensure_owner(directory: &Path) -> Result<(), Failure> {
    use std::os::unix::fs::MetadataExt;
    let (own, shown) = (rustix::process::geteuid().as_raw(), directory.display());
    match std::fs::metadata(directory) {
        Ok(found) if found.uid() != own => Err(Failure::Denied(format!(
            "{shown} belongs to user {}, and this command runs as {own}: run it as the owner, such as with `sudo -u tenantd`",
            found.uid()
        ))),
        // What else is wrong with the directory is told by whoever takes hold of it.
        _ => Ok(()),
    }
}

/// Where the store of a data directory is, without taking hold of it.
pub(super) fn store_file(data_directory: &Path) -> PathBuf {
    DataDirectory::store_file_in(data_directory)
}

/// Opens a snapshot.
pub(super) fn open_snapshot(path: &Path) -> Result<Store, Failure> {
    let fail = |error: StoreError| Failure::Failed(error.to_string());
    let engine = RedbEngine::open(path, SETTINGS.cache_bytes, None).map_err(fail)?;
    Store::new(engine, SETTINGS.writer).map_err(fail)
}
