//! The wire types of dry runs and validations.

use poem_openapi::{Object, types::Any};
use serde::Serialize;
use serde_json::Value;
use serde_with::skip_serializing_none;

use tenantd_base::fault::Fault;
use tenantd_http::problem::MAX_ERRORS;

use super::{
    super::plan::{Forecast, PlannedStep, Prospect},
    run_wire::WorkflowRunError,
};

/// The expected outcome of a step.
#[skip_serializing_none]
#[derive(Clone, Debug, Object, Serialize)]
#[oai(skip_serializing_if_is_none)]
pub(super) struct WorkflowPlannedStep {
    id: String,
    /// The id of the step, after the loops that contain it: `each[3]/notify`.
    path: String,
    /// The type of the step, such as `ticket.create` or `if`.
    #[oai(rename = "type")]
    #[serde(rename = "type")]
    kind: String,
    status: Prospect,
    /// A description of what the step would do.
    summary: Option<String>,
    /// The input that the step would get, without secrets.
    input: Option<Any<Value>>,
    /// The expected output. Absent if it is unknown.
    output: Option<Any<Value>>,
    /// Why the step would fail. Absent if it would not.
    error: Option<WorkflowRunError>,
}

impl From<PlannedStep> for WorkflowPlannedStep {
    fn from(step: PlannedStep) -> Self {
        Self {
            id: step.step_id,
            path: step.path,
            kind: step.type_name,
            status: step.prospect,
            summary: step.summary,
            input: step.input.map(Any),
            output: step.output.map(Any),
            error: step.error.map(Into::into),
        }
    }
}

/// The expected outcome of a run. Nothing was changed or sent.
#[skip_serializing_none]
#[derive(Clone, Debug, Object, Serialize)]
#[oai(skip_serializing_if_is_none)]
pub(super) struct WorkflowPlan {
    /// Always `true`.
    dry_run: bool,
    /// The planned steps, in execution order.
    steps: Vec<WorkflowPlannedStep>,
    /// Why the run would fail. Absent if it would succeed.
    error: Option<WorkflowRunError>,
    /// The expected output of the run.
    output: Option<Any<Value>>,
    /// Whether the run would have more steps or items than are shown.
    truncated: bool,
}

impl From<Forecast> for WorkflowPlan {
    fn from(forecast: Forecast) -> Self {
        Self {
            dry_run: true,
            steps: forecast.steps.into_iter().map(Into::into).collect(),
            error: forecast.error.map(Into::into),
            output: forecast.output.map(Any),
            truncated: forecast.truncated,
        }
    }
}

/// A problem in a definition.
#[skip_serializing_none]
#[derive(Clone, Debug, Object, Serialize)]
#[oai(skip_serializing_if_is_none)]
pub(super) struct WorkflowFault {
    /// The JSON pointer to the problem in the request.
    pointer: String,
    code: String,
    message: String,
    /// The allowed values. Absent if they are not a fixed set.
    allowed: Option<Vec<String>>,
    /// The closest allowed value. Absent without one.
    suggestion: Option<String>,
}

/// The problems of a definition. Nothing was stored.
#[skip_serializing_none]
#[derive(Clone, Debug, Object, Serialize)]
#[oai(skip_serializing_if_is_none)]
pub(super) struct WorkflowValidation {
    /// Whether the definition is valid.
    valid: bool,
    /// The first 50 problems.
    errors: Vec<WorkflowFault>,
    /// The total number of problems. Absent if all are listed.
    total_errors: Option<u64>,
}

impl From<Vec<Fault>> for WorkflowValidation {
    fn from(faults: Vec<Fault>) -> Self {
        let error = |fault: Fault| WorkflowFault {
            pointer: fault.place.to_string(),
            code: fault.code,
            message: fault.message.into(),
            allowed: (!fault.allowed.is_empty()).then_some(fault.allowed.into()),
            suggestion: fault.suggestion.map(Into::into),
        };
        let total_errors = (faults.len() > MAX_ERRORS).then_some(faults.len() as u64);
        Self { valid: faults.is_empty(), errors: faults.into_iter().take(MAX_ERRORS).map(error).collect(), total_errors }
    }
}
