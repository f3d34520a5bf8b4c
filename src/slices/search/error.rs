//! Why a search cannot be answered. No HTTP in here.

use tenantd_base::fault::Fault;
use tenantd_store::StoreError;

#[derive(Debug, thiserror::Error)]
pub enum SearchError {
    #[error("the query cannot be read")]
    Invalid(Vec<Fault>),
    /// There is no index yet, or it does not hold the newest changes yet.
    #[error("the index is being brought up to date")]
    NotReady,
    #[error("too many searches of this tenant wait for their turn")]
    Busy,
    #[error("the index cannot be read")]
    Index(#[source] IndexError),
    #[error("the store failed")]
    Store(#[from] StoreError),
}

/// What goes wrong with the index. It is derived data: the remedy is always to build it anew.
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
