//! Errors of the store. Slices carry them inside their own errors; `tenantd_http::problem` maps them once.

use tenantd_base::{programs::LaneError, quotas::QuotaExceeded};

#[derive(Clone, Debug, thiserror::Error)]
pub enum StoreError {
    /// The store no longer accepts writes: it failed earlier, or it is closing.
    #[error("the store accepts no writes: {0}")]
    Unavailable(String),
    /// The disk is nearly full. The remaining space is reserved for writes that must go on.
    #[error("the disk is nearly full, so the store accepts no changes until space is free")]
    NoRoom,
    /// The disk is full, and the reserve for deletions and sign-ins is used up.
    #[error("the disk is full, so the store accepts no changes and no deletions until space is free")]
    NoReserve,
    /// The tenant would exceed a quota.
    #[error("{0}")]
    Quota(QuotaExceeded),
    /// Too many reads of this tenant are waiting.
    #[error("too many reads of this tenant are waiting")]
    Busy,
    /// The write would have succeeded and was rolled back: see [`rehearse`](super::rehearse).
    #[error("the write was only a rehearsal")]
    Rehearsed,
    /// One write blocks all others.
    #[error("the writer has been stalled for {seconds} seconds, so the store accepts no changes")]
    Stalled { seconds: u64 },
    /// The commit failed. Only a restart shows whether the change is stored.
    #[error("the commit failed, so its outcome is unknown: {0}")]
    OutcomeUnknown(String),
    /// A stored record is not what was written.
    #[error("table {table} is damaged at key {key}: {reason}")]
    Damaged { table: String, key: String, reason: String },
    /// The engine failed outside a commit.
    #[error("the storage engine failed: {0}")]
    Engine(String),
    /// The code inside the transaction panicked. Nothing of it was stored.
    #[error("a transaction panicked: {0}")]
    Panicked(String),
    /// The directory or file cannot be used in its current state.
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
