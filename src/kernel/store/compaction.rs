//! Gives free pages of the store's file back to the file system. redb moves pages towards the start of the file with durable commits
//! of its own and cuts the file at last, so it can be cut off at any point; but nobody may read or write meanwhile. So it is done in a
//! directory that this process holds and nobody serves.

use super::{DataDirectory, StoreError, StoreSettings, installation::io_error, redb_file::RedbFile};

/// What came of it, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Compaction {
    pub before: u64,
    pub after: u64,
}

impl DataDirectory {
    /// How long the file of the store is.
    pub fn store_bytes(&self) -> Result<u64, StoreError> {
        let path = self.store_file();
        std::fs::metadata(&path).map(|data| data.len()).map_err(|error| io_error(&path, &error))
    }

    /// Makes the file of the store as short as its content allows.
    pub fn compact(&self, settings: StoreSettings) -> Result<Compaction, StoreError> {
        // Closed in order it holds what is in the journal too, and says so.
        drop(self.open_store(settings.clone(), None)?);
        let before = self.store_bytes()?;
        RedbFile::open_on(self.volume(), &self.store_file(), settings.cache_bytes, None)?.compact()?;
        Ok(Compaction { before, after: self.store_bytes()? })
    }

    /// How many bytes of the file hold nothing.
    pub fn free_bytes(&self, settings: StoreSettings) -> Result<u64, StoreError> {
        drop(self.open_store(settings.clone(), None)?);
        RedbFile::open_on(self.volume(), &self.store_file(), settings.cache_bytes, None)?.free_bytes(self.store_bytes()?)
    }
}
