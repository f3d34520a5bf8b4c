//! What can go wrong with tickets.

use tenantd_base::{
    fault::{Fault, listed},
    versions::Stale,
};
use tenantd_store::StoreError;

use super::model::{Status, TicketLink};

#[derive(Debug, thiserror::Error)]
pub enum TicketError {
    #[error("there is no such ticket")]
    NotFound,
    /// The query and the body name different tickets.
    #[error("two different tickets are named")]
    OtherTarget,
    #[error("the input is not valid: {}", listed(.0))]
    Invalid(Vec<Fault>),
    #[error("a ticket cannot go from {from:?} to {to:?}")]
    InvalidTransition { from: Status, to: Status },
    #[error("an unfinished ticket has this dedup_key already")]
    Duplicate(TicketLink),
    /// Items of a request that is done as a whole or not at all, by their places.
    #[error("{} items failed", items.len())]
    Bulk { member: &'static str, items: Vec<(usize, TicketError)> },
    #[error(transparent)]
    Stale(#[from] Stale),
    #[error("an event could not be written: {0}")]
    Event(#[from] serde_json::Error),
    #[error(transparent)]
    Store(#[from] StoreError),
}
