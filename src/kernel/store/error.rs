//! What can go wrong below the domain. Slices carry it inside their own error; `tenantd_http::problem` maps it once.

use tenantd_base::{programs::LaneError, quotas::QuotaExceeded};

#[derive(Clone, Debug, thiserror::Error)]
pub enum StoreError {
    /// The store no longer takes writes: it failed earlier, or it is being closed.
    #[error("the store takes no writes: {0}")]
    Unavailable(String),
    /// The disk is nearly full; what is left of it is kept for what must go on.
    #[error("the disk is nearly full, so the store takes no changes until there is room")]
    NoRoom,
    /// The disk is full, and what was kept for deletions and for signing in is used up.
    #[error("the disk is full, so the store takes no changes and no deletions until there is room")]
    NoReserve,
    /// A tenant would use more than it may.
    #[error("{0}")]
    Quota(QuotaExceeded),
    /// A tenant asks for more than is read for it.
    #[error("too many reads of this tenant wait for their turn")]
    Busy,
    /// The write would have succeeded, and was undone: see [`rehearse`](super::rehearse).
    #[error("the change was only rehearsed")]
    Rehearsed,
    /// One write holds up all others.
    #[error("the writer has not come back for {seconds} seconds, so the store takes no changes")]
    Stalled { seconds: u64 },
    /// The commit failed: whether the change is stored shows after the restart.
    #[error("the commit failed, so its outcome is unknown: {0}")]
    OutcomeUnknown(String),
    /// A record cannot be what was written.
    #[error("table {table} is damaged at key {key}: {reason}")]
    Damaged { table: String, key: String, reason: String },
    /// The engine failed outside of a commit.
    #[error("the storage engine failed: {0}")]
    Engine(String),
    /// The code that ran inside of the transaction panicked; nothing of it was stored.
    #[error("a transaction panicked: {0}")]
    Panicked(String),
    /// The directory or the file cannot be used as it is.
    #[error("{0}")]
    Installation(String),
}

impl From<LaneError> for StoreError {
    fn from(error: LaneError) -> Self {
        match error {
            LaneError::Busy => Self::Busy,
            LaneError::Panicked(cause) => Self::Panicked(cause),
        }
    }
}

impl StoreError {
    pub fn damaged(table: &str, key: &[u8], reason: impl Into<String>) -> Self {
        let key = data_encoding::HEXLOWER.encode(key);
        Self::Damaged { table: table.to_owned(), key, reason: reason.into() }
    }

    pub fn engine(error: impl std::fmt::Display) -> Self {
        Self::Engine(error.to_string())
    }
}
