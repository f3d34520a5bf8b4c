//! What can go wrong with named secrets.

use tenantd_base::{id::WorkflowId, secrets::SealError, versions::Stale};
use tenantd_store::StoreError;

use super::model::HostProblem;

/// One thing that is wrong with the input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    Name,
    /// A host, and its place in the list.
    Host(usize, HostProblem),
    /// The tenant has no such workflow; its place in the list.
    Workflow(usize, WorkflowId),
    /// A host is added, and the value did not come along.
    ValueNeeded,
}

#[derive(Debug, thiserror::Error)]
pub enum SecretError {
    #[error("there is no such secret")]
    NotFound,
    #[error("another secret has this name already")]
    NameTaken,
    #[error("the tenant has {most} secrets already")]
    LimitReached { most: usize },
    #[error("the input is not valid: {0:?}")]
    Invalid(Vec<Fault>),
    #[error(transparent)]
    Stale(#[from] Stale),
    #[error("an event could not be written: {0}")]
    Event(#[from] serde_json::Error),
    #[error(transparent)]
    Sealing(#[from] SealError),
    #[error(transparent)]
    Store(#[from] StoreError),
}
