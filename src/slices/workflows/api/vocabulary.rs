//! The words of workflows and their runs as JSON and as parameters: the model's own types, with their schemas.

use tenantd_http::wire::word_type;

use super::super::{
    model::{RunStatus, StepStatus, WaitingOn},
    plan::Prospect,
    service::Steering,
};

word_type! {
    RunStatus, "WorkflowRunStatus", "`queued`, `running`, `waiting` and `paused` have not ended.";
    StepStatus, "WorkflowStepStatus";
    WaitingOn, "WorkflowWaitingOn", "What a run waits for. `authority`: those whom it acts for lack a right that its next step needs, or one to read what the run has read,\nor they may do nothing in the tenant any more.";
    Prospect, "WorkflowPlanStatus", "`unknown`: it depends on what another step comes to.";
    Steering, "WorkflowSteering", "What is done with a run. `approve` and `reject` decide about a step that waits for an approval.";
}
