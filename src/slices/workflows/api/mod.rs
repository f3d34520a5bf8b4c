//! The API of workflows: one path with four methods for everything, and a path for each record.

mod admin;
mod asked;
mod bodies;
mod catalog;
mod collection;
mod examples;
mod plan_wire;
mod record;
mod run_wire;
mod vocabulary;
mod wire;

pub(super) use admin::AdminWorkflowsApi;
pub(super) use collection::TriggerApi;
pub(super) use record::{RunApi, WorkflowApi};

use poem_openapi::Tags;

use tenantd_base::programs::ProgramError;
use tenantd_http::problem::{Code, Problem};

use super::error::WorkflowError;

#[derive(Tags)]
enum Area {
    /// Workflows and their runs.
    Workflows,
}

impl From<WorkflowError> for Problem {
    fn from(error: WorkflowError) -> Self {
        match error {
            WorkflowError::NotFound | WorkflowError::RunNotFound => Self::plain(Code::NotFound),
            WorkflowError::Invalid(faults) => faults.into(),
            WorkflowError::KeyTaken(key) => Self::new(
                Code::AlreadyExists,
                format!("Another workflow of this tenant has the key {key}. Choose a different key, or archive that workflow."),
            ),
            WorkflowError::Quota(exceeded) => exceeded.into(),
            WorkflowError::ChangedMeanwhile => {
                Self::unavailable("Other requests keep changing this workflow. Retry the request.", 1)
            }
            WorkflowError::Program(ProgramError::Busy) => Self::unavailable(
                "Too many workflow definitions and expressions of this tenant are being evaluated. Retry later.",
                2,
            ),
            WorkflowError::Program(error @ ProgramError::Failed) => Self::internal(error),
            WorkflowError::NotHeld(lacking) => Self::from(*lacking),
            WorkflowError::Archived => Self::new(Code::InvalidTransition, "The workflow is archived. Create a new one."),
            WorkflowError::Disabled => Self::new(Code::InvalidTransition, "The workflow is disabled. Enable it first."),
            WorkflowError::NotManual => {
                Self::new(Code::InvalidTransition, "The workflow has no manual trigger. Only its events and schedules start it.")
            }
            WorkflowError::InUse(count) => {
                let detail =
                    format!("{count} runs of the workflow have not ended. Wait for them, or set cancel_runs=true to cancel them.");
                Self::new(Code::InUse, detail).with("active_runs", count)
            }
            WorkflowError::Conflict(run) => {
                Self::new(Code::InUse, format!("The run {run} has the same concurrency key and has not ended."))
                    .with("run_id", run.to_string())
            }
            WorkflowError::Ended(status) => {
                Self::new(Code::RunNotCancellable, format!("The run is {}, so it can no longer change.", status.name()))
            }
            WorkflowError::NotPossible { from, action } => {
                Self::new(Code::InvalidTransition, format!("A run that is {} cannot {action}.", from.name()))
            }
            WorkflowError::NoApproval => Self::new(Code::InvalidTransition, "No matching step of the run waits for an approval."),
            WorkflowError::Decided { path, by, at, approved } => {
                let verb = if approved { "approved" } else { "rejected" };
                let detail = format!("{} {verb} the step {path} at {at}. Your decision came later and was not recorded.", by.name);
                Self::new(Code::InvalidTransition, detail).with("decided_by", by.id).with("decided_at", at.to_string())
            }
            WorkflowError::NotAnApprover { roles } if roles.is_empty() => {
                Self::new(Code::InsufficientScope, "This needs the scope workflows:approve.")
                    .with("required_scopes", vec!["workflows:approve"])
            }
            WorkflowError::NotAnApprover { roles } => Self::new(
                Code::InsufficientScope,
                format!("Only people with one of these roles can approve or reject: {}.", roles.join(", ")),
            )
            .with("required_roles", roles),
            WorkflowError::SelfApproval => Self::new(
                Code::InvalidTransition,
                "You asked for this run: you started it or the run that it comes from, caused its event, or wrote steps of its definition. Another person must \
                 approve it.",
            ),
            WorkflowError::NoPerson => Self::new(
                Code::InvalidTransition,
                "No person is responsible for this key, so its approval does not count. Let a person approve, or take over the key.",
            ),
            WorkflowError::ApprovedAlready => {
                Self::new(Code::InvalidTransition, "You have already decided about this step, yourself or with one of your keys.")
            }
            WorkflowError::Step(error) => Self::internal(format!("{}: {}", error.code, error.message)),
            WorkflowError::Stale(stale) => stale.into(),
            WorkflowError::Event(error) => Self::internal(error),
            WorkflowError::Store(error) => error.into(),
        }
    }
}
