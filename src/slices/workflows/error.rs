//! Errors of workflows and their runs.

use tenantd_base::{
    authority::Lacking,
    clock::Timestamp,
    fault::{Fault, listed},
    id::RunId,
    programs::ProgramError,
    quotas::QuotaExceeded,
    versions::Stale,
};
use tenantd_store::{StoreError, events::Actor, steps::StepError};

use super::model::RunStatus;

#[derive(Debug, thiserror::Error)]
pub enum WorkflowError {
    #[error("the workflow does not exist")]
    NotFound,
    #[error("the run does not exist")]
    RunNotFound,
    #[error("the input is not valid: {}", listed(.0))]
    Invalid(Vec<Fault>),
    #[error("another workflow has the key {0}")]
    KeyTaken(String),
    #[error(transparent)]
    Quota(#[from] QuotaExceeded),
    /// Another request changed the workflow between the check of this change and its transaction.
    #[error("the workflow was changed at the same time")]
    ChangedMeanwhile,
    #[error(transparent)]
    Program(#[from] ProgramError),
    /// The caller lacks scopes that the steps and triggers need.
    #[error("the caller lacks {0}")]
    NotHeld(Box<Lacking>),
    #[error("the workflow is archived")]
    Archived,
    #[error("the workflow is disabled")]
    Disabled,
    /// Only workflows with a manual trigger can be started by a request.
    #[error("the workflow has no manual trigger")]
    NotManual,
    #[error("{0} runs of the workflow are active")]
    InUse(u64),
    #[error("another run has the concurrency key")]
    Conflict(RunId),
    #[error("the run is {}", .0.name())]
    Ended(RunStatus),
    #[error("a run that is {} cannot {action}", from.name())]
    NotPossible { from: RunStatus, action: &'static str },
    #[error("no matching step waits for an approval")]
    NoApproval,
    /// The decision came too late.
    #[error("the step {path} is already decided")]
    Decided { path: String, by: Box<Actor>, at: Timestamp, approved: bool },
    #[error("the caller may not approve or reject")]
    NotAnApprover { roles: Vec<String> },
    /// Or the person behind the caller's key requested it.
    #[error("the caller requested the run and may not approve it")]
    SelfApproval,
    #[error("no person is responsible for the caller's key")]
    NoPerson,
    #[error("the caller has already decided")]
    ApprovedAlready,
    /// A step's effect and its result are one unit: a failure rolls back both.
    #[error("the step failed: {0:?}")]
    Step(StepError),
    #[error(transparent)]
    Stale(#[from] Stale),
    #[error("an event could not be written: {0}")]
    Event(#[from] serde_json::Error),
    #[error(transparent)]
    Store(#[from] StoreError),
}
