//! What can go wrong with workflows and their runs.

use tenantd_base::{
    authority::Lacking,
    fault::{Fault, listed},
    id::RunId,
    programs::ProgramError,
    quotas::QuotaExceeded,
    versions::Stale,
};
use tenantd_store::{StoreError, steps::StepError};

use super::model::RunStatus;

#[derive(Debug, thiserror::Error)]
pub enum WorkflowError {
    #[error("there is no such workflow")]
    NotFound,
    #[error("there is no such run")]
    RunNotFound,
    #[error("the input is not valid: {}", listed(.0))]
    Invalid(Vec<Fault>),
    #[error("a workflow has the key {0} already")]
    KeyTaken(String),
    #[error(transparent)]
    Quota(#[from] QuotaExceeded),
    /// Between the check of a change and its transaction somebody else has made one.
    #[error("the workflow was changed at the same time")]
    ChangedMeanwhile,
    #[error(transparent)]
    Program(#[from] ProgramError),
    /// The caller lacks what the steps and triggers need.
    #[error("the caller lacks {0}")]
    NotHeld(Box<Lacking>),
    #[error("the workflow is archived")]
    Archived,
    #[error("the workflow is disabled")]
    Disabled,
    /// By hand only those workflows are started that have a manual trigger.
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
    #[error("no step waits for an approval")]
    NoApproval,
    #[error("the caller may not decide")]
    NotAnApprover { roles: Vec<String> },
    /// Or the person behind the caller's key did.
    #[error("the caller asked for the run and may not approve it")]
    SelfApproval,
    #[error("no person is behind the caller's key")]
    NoPerson,
    #[error("the caller has approved already")]
    ApprovedAlready,
    /// A step's effect and its result are one: what fails takes both back.
    #[error("the step failed: {0:?}")]
    Step(StepError),
    #[error(transparent)]
    Stale(#[from] Stale),
    #[error("an event could not be written: {0}")]
    Event(#[from] serde_json::Error),
    #[error(transparent)]
    Store(#[from] StoreError),
}
