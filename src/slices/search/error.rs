//! The reasons why a search fails. No HTTP in here.

use tenantd_base::fault::Fault;
use tenantd_store::StoreError;

#[derive(Debug, thiserror::Error)]
pub enum SearchError {
    #[error("the query is invalid")]
    Invalid(Vec<Fault>),
    /// There is no index yet, or it does not contain the newest changes yet.
    #[error("the search index is catching up")]
    NotReady,
    #[error("too many searches of this tenant are queued")]
    Busy,
    #[error("the index cannot be read")]
    Index(#[source] IndexError),
    #[error("the store failed")]
    Store(#[from] StoreError),
}

/// A failure of the index. The index is derived data, so the remedy is always to rebuild it.
#[derive(Debug, thiserror::Error)]
pub enum IndexError {
    #[error("{0}")]
    Engine(String),
    #[error("{0}")]
    File(#[from] std::io::Error),
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl From<IndexError> for SearchError {
    fn from(error: IndexError) -> Self {
        match error {
            IndexError::Store(error) => Self::Store(error),
            other => Self::Index(other),
        }
    }
}
