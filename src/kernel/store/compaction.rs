//! Returns free pages of the store's file to the file system. redb moves pages toward the start of the file with its own durable
//! commits and truncates the file last. So a crash at any point is safe. Nothing else may read or write meanwhile, so this works
//! only on a data directory that this process holds and does not serve.

use super::{DataDirectory, StoreError, StoreSettings, installation::io_error, redb_file::RedbFile};

/// The file size before and after, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Compaction {
    pub before: u64,
    pub after: u64,
}

impl DataDirectory {
    /// The length of the store's file.
    pub fn store_bytes(&self) -> Result<u64, StoreError> {
        let path = self.store_file();
        std::fs::metadata(&path).map(|data| data.len()).map_err(|error| io_error(&path, &error))
    }

    /// Shrinks the store's file as far as its content allows.
    pub fn compact(&self, settings: StoreSettings) -> Result<Compaction, StoreError> {
        // An orderly close moves the journal's content into the file and marks the file as closed.
        drop(self.open_store(settings.clone(), None)?);
        let before = self.store_bytes()?;
        RedbFile::open_on(self.volume(), &self.store_file(), settings.cache_bytes, None)?.compact()?;
        Ok(Compaction { before, after: self.store_bytes()? })
    }

    /// The number of unused bytes in the file.
    pub fn free_bytes(&self, settings: StoreSettings) -> Result<u64, StoreError> {
        drop(self.open_store(settings.clone(), None)?);
        RedbFile::open_on(self.volume(), &self.store_file(), settings.cache_bytes, None)?.free_bytes(self.store_bytes()?)
    }
}
