//! What can go wrong with named secrets.

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
    #[error("there is no such secret")]
    NotFound,
    #[error("another secret has this name already")]
    NameTaken,
    #[error("the tenant has {most} secrets already")]
    LimitReached { most: usize },
    #[error("the input is not valid: {}", listed(.0))]
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

pub(super) fn bad_name() -> Fault {
    Fault::new("/name", "wrong_form", "a name has letters, digits and underscores, at most 64, and does not begin with a digit")
}

/// `place` is that of the host in the list.
pub(super) fn bad_host(place: usize, problem: HostProblem) -> Fault {
    Fault::new(format!("/hosts/{place}"), "wrong_form", problem.to_string())
}

/// `place` is that of the workflow in the list.
pub(super) fn unknown_workflow(place: usize, id: WorkflowId) -> Fault {
    Fault::new(format!("/workflow_ids/{place}"), "not_found", format!("there is no workflow {id}"))
}

/// A host is added without the value.
pub(super) fn value_needed() -> Fault {
    Fault::new("/value", "required", "the stored value is bound to its hosts: send it again to add a host")
}
