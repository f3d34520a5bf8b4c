//! The examples of the OpenAPI document, one file per schema.

use tenantd_http::examples;

use super::{
    bodies::{TriggerWorkflow, UpdateWorkflow},
    run_wire::WorkflowRun,
    wire::Workflow,
};

examples! {
    Workflow => "workflow.json",
    WorkflowRun => "workflow_run.json",
    TriggerWorkflow => "trigger_workflow.json",
    UpdateWorkflow => "update_workflow.json",
}
