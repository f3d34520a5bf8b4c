//! The errors of backups. Contains no HTTP.

use tenantd_base::{
    fault::{Fault, listed},
    versions::Stale,
};
use tenantd_store::StoreError;
use tenantd_tickets::TicketError;

#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    /// The organization or device does not exist or is out of reach.
    #[error("record not found")]
    NotFound,
    #[error("a key restricted to organizations cannot change tenant-wide settings")]
    TenantWideSettings,
    #[error("the input is not valid: {}", listed(.0))]
    Invalid(Vec<Fault>),
    #[error("{most} scopes already have their own settings")]
    LimitReached { most: usize },
    #[error(transparent)]
    Stale(#[from] Stale),
    #[error("cannot open a ticket: {0}")]
    Ticket(TicketError),
    #[error("cannot sign the evidence: {0}")]
    Signing(String),
    #[error("cannot write an event: {0}")]
    Event(#[from] serde_json::Error),
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl From<TicketError> for BackupError {
    fn from(error: TicketError) -> Self {
        match error {
            TicketError::Store(error) => Self::Store(error),
            other => Self::Ticket(other),
        }
    }
}
