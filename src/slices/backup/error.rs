//! What can go wrong with backups. No HTTP here.

use tenantd_base::{
    fault::{Fault, listed},
    versions::Stale,
};
use tenantd_store::StoreError;
use tenantd_tickets::TicketError;

#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    /// No such organization or device, or none within reach.
    #[error("there is no such record")]
    NotFound,
    #[error("what holds for the whole tenant is not for a key of some organizations to change")]
    OverTenant,
    #[error("the input is not valid: {}", listed(.0))]
    Invalid(Vec<Fault>),
    #[error("{most} scopes have settings of their own already")]
    LimitReached { most: usize },
    #[error(transparent)]
    Stale(#[from] Stale),
    #[error("a ticket could not be opened: {0}")]
    Ticket(TicketError),
    #[error("evidence could not be signed: {0}")]
    Signing(String),
    #[error("an event could not be written: {0}")]
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
