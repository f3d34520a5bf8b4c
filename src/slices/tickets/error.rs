//! The errors of tickets.

use tenantd_base::{
    fault::{Fault, listed},
    versions::Stale,
};
use tenantd_store::StoreError;

use super::model::{Status, TicketLink};

#[derive(Debug, thiserror::Error)]
pub enum TicketError {
    #[error("ticket not found")]
    NotFound,
    /// The query and the body name different tickets.
    #[error("the query and the body name different tickets")]
    OtherTarget,
    #[error("the input is invalid: {}", listed(.0))]
    Invalid(Vec<Fault>),
    #[error("a ticket cannot change from {from:?} to {to:?}")]
    InvalidTransition { from: Status, to: Status },
    #[error("an open ticket has the same dedup_key")]
    Duplicate(TicketLink),
    /// What a contact cannot do with a ticket in this status.
    #[error("a ticket that is {status:?} cannot be {act} in the portal")]
    NotInPortal { status: Status, act: &'static str },
    #[error("the contact created {most} records within an hour")]
    TooManyFromContact { most: usize, retry_after_seconds: u64 },
    /// The failed items of an all-or-nothing request, by position.
    #[error("{} items failed", items.len())]
    Bulk { member: &'static str, items: Vec<(usize, TicketError)> },
    #[error(transparent)]
    Stale(#[from] Stale),
    #[error("cannot write an event: {0}")]
    Event(#[from] serde_json::Error),
    #[error(transparent)]
    Store(#[from] StoreError),
}
