//! The errors of named secrets.

use tenantd_base::{
    fault::{Fault, listed},
    id::WorkflowId,
    secrets::SealError,
    versions::Stale,
};
use tenantd_store::StoreError;

use super::model::HostProblem;

#[derive(Debug, thiserror::Error)]
pub enum SecretError {
    #[error("secret not found")]
    NotFound,
    #[error("a secret with this name already exists")]
    NameTaken,
    #[error("the tenant already has {most} secrets")]
    LimitReached { most: usize },
    #[error("the input is not valid: {}", listed(.0))]
    Invalid(Vec<Fault>),
    #[error(transparent)]
    Stale(#[from] Stale),
    #[error("cannot write an event: {0}")]
    Event(#[from] serde_json::Error),
    #[error(transparent)]
    Sealing(#[from] SealError),
    #[error(transparent)]
    Store(#[from] StoreError),
}

pub(super) fn bad_name() -> Fault {
    Fault::new("/name", "wrong_form", "use 1 to 64 letters, digits and underscores, and do not start with a digit")
}

/// `place` is the position of the host in the list.
pub(super) fn bad_host(place: usize, problem: HostProblem) -> Fault {
    Fault::new(format!("/hosts/{place}"), "wrong_form", problem.to_string())
}

/// `place` is the position of the workflow in the list.
pub(super) fn unknown_workflow(place: usize, id: WorkflowId) -> Fault {
    Fault::new(format!("/workflow_ids/{place}"), "not_found", format!("workflow {id} does not exist"))
}

/// The request adds a host without sending the value.
pub(super) fn value_needed() -> Fault {
    Fault::new("/value", "required", "the stored value is bound to its hosts: to add a host, send the value again")
}
