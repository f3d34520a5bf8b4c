//! The errors of snapshots.

use tenantd_store::StoreError;

#[derive(Debug, thiserror::Error)]
pub enum UpkeepError {
    #[error("another snapshot is being written; retry when it has finished")]
    Busy,
    /// Neither of the two keys could open everything in the snapshot.
    #[error("the installation key is being rotated; retry when the rotation has finished")]
    KeyChanges,
    /// The path, the required and the available number of bytes.
    #[error("not enough space for a snapshot at {place}: it needs up to {needed} bytes, but only {free} are free")]
    NoRoom { place: String, needed: u64, free: u64 },
    /// The file exists already, or its directory is missing.
    #[error("{0}")]
    Place(String),
    /// The snapshot was written, but differs from the store.
    #[error("the snapshot is invalid: {0}")]
    Unproven(StoreError),
    #[error("cannot write an event: {0}")]
    Event(#[from] serde_json::Error),
    #[error(transparent)]
    Store(#[from] StoreError),
}
