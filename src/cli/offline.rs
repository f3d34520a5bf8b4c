//! The store without a server: for commands that look at a data directory which nobody serves, or at a snapshot.

use std::path::{Path, PathBuf};

use super::{Common, Failure};
use crate::kernel::store::{DataDirectory, RedbEngine, Store, StoreError, StoreSettings, WriterSettings};

/// Little or nothing is written here.
pub(super) const SETTINGS: StoreSettings =
    StoreSettings { cache_bytes: 64 << 20, journal_bytes: 1 << 20, writer: WriterSettings { batch_size: 1, queue_length: 1 } };

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
