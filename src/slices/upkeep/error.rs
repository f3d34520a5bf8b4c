//! What can go wrong with snapshots.

use tenantd_store::StoreError;

#[derive(Debug, thiserror::Error)]
pub enum UpkeepError {
    #[error("another snapshot is being written; wait for it")]
    Busy,
    /// Neither of the two keys alone would open all that is in it.
    #[error("a change of the installation key is under way; write the snapshot when it has ended")]
    KeyChanges,
    /// The place, and how many bytes it would need and has.
    #[error("there is no room for a snapshot at {place}: it takes up to {needed} bytes, and {free} are free")]
    NoRoom { place: String, needed: u64, free: u64 },
    /// The file is there already, or its directory is not.
    #[error("{0}")]
    Place(String),
    /// It was written, and is not what was to be written.
    #[error("the snapshot is not good: {0}")]
    Unproven(StoreError),
    #[error("an event could not be written: {0}")]
    Event(#[from] serde_json::Error),
    #[error(transparent)]
    Store(#[from] StoreError),
}
