//! The errors of off-site backups.

use tenantd_base::secrets::{SignatureError, age::AgeError};
use tenantd_store::StoreError;

use super::super::error::UpkeepError;

#[derive(Debug, thiserror::Error)]
pub enum OffsiteError {
    #[error("off-site backups are not configured: set offsite.url")]
    NotConfigured,
    /// The place is not usable as configured.
    #[error("{0}")]
    Place(String),
    #[error("the backup place failed: {0}")]
    Store(#[from] object_store::Error),
    #[error("{path}: {error}")]
    File { path: String, error: std::io::Error },
    #[error(transparent)]
    Encryption(#[from] AgeError),
    /// The stored backup differs from what was written.
    #[error("the stored backup differs from what was written: {0}")]
    Different(String),
    #[error("the manifest of backup {id} is unusable: {problem}")]
    Manifest { id: String, problem: String },
    #[error("{0}")]
    NotFound(String),
    #[error("cannot sign the manifest: {0}")]
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
