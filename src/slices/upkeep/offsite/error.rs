//! What can go wrong with backups that leave the host.

use tenantd_base::secrets::{SignatureError, age::AgeError};
use tenantd_store::StoreError;

use super::super::error::UpkeepError;

#[derive(Debug, thiserror::Error)]
pub enum OffsiteError {
    #[error("there is no place for backups outside of this host: set offsite.url")]
    NotConfigured,
    /// The place cannot be used as it is configured.
    #[error("{0}")]
    Place(String),
    #[error("the place of the backups: {0}")]
    Store(#[from] object_store::Error),
    #[error("{path}: {error}")]
    File { path: String, error: std::io::Error },
    #[error(transparent)]
    Encryption(#[from] AgeError),
    /// What is stored is not what was written.
    #[error("the stored backup is not what was written: {0}")]
    Different(String),
    #[error("the manifest of backup {id} cannot be used: {problem}")]
    Manifest { id: String, problem: String },
    #[error("{0}")]
    NotFound(String),
    #[error("the manifest cannot be signed: {0}")]
    Signature(#[from] SignatureError),
    #[error("a worker ended early: {0}")]
    Worker(#[from] tokio::task::JoinError),
    #[error(transparent)]
    Snapshot(#[from] UpkeepError),
}

impl OffsiteError {
    pub(super) fn file(path: &std::path::Path, error: std::io::Error) -> Self {
        Self::File { path: path.display().to_string(), error }
    }
}

impl From<StoreError> for OffsiteError {
    fn from(error: StoreError) -> Self {
        Self::Snapshot(error.into())
    }
}
