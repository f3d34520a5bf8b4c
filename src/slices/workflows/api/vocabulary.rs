//! The schemas of the workflow words in JSON and in parameters. The model defines the words.

use tenantd_http::wire::word_type;

use super::super::{
    model::{RunStatus, StepStatus, WaitingOn},
    plan::Prospect,
    service::Steering,
};

word_type! {
    RunStatus, "WorkflowRunStatus", "The status of a run. Runs that are `queued`, `running`, `waiting` or `paused` have not ended.";
    StepStatus, "WorkflowStepStatus";
    WaitingOn, "WorkflowWaitingOn", "What a run waits for. `authority`: the workflow's owner, or the user or key that started the run or a run that called it, lacks a scope that the next step needs,\nlacks a scope to read what the run has read, or has no rights in the tenant any more.";
    Prospect, "WorkflowPlanStatus", "The expected outcome of a step. `unknown`: it depends on the result of another step.";
    Steering, "WorkflowSteering", "An action on a run. `approve` and `reject` decide about a step that waits for an approval.";
}
