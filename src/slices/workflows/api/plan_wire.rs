//! Dry runs and validations as clients see them.

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

/// What would become of a step.
#[skip_serializing_none]
#[derive(Clone, Debug, Object, Serialize)]
#[oai(skip_serializing_if_is_none)]
pub(super) struct WorkflowPlannedStep {
    id: String,
    /// Where the step is in the definition.
    path: String,
    #[oai(rename = "type")]
    #[serde(rename = "type")]
    kind: String,
    status: Prospect,
    /// What the step would do.
    summary: Option<String>,
    /// What the step would be given, without secrets.
    input: Option<Any<Value>>,
    /// What it would come to, as far as that is known.
    output: Option<Any<Value>>,
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

/// What a run would do. Nothing was changed, and nobody was called.
#[skip_serializing_none]
#[derive(Clone, Debug, Object, Serialize)]
#[oai(skip_serializing_if_is_none)]
pub(super) struct WorkflowPlan {
    /// Always true.
    dry_run: bool,
    steps: Vec<WorkflowPlannedStep>,
    /// Why the run would fail, if it would.
    error: Option<WorkflowRunError>,
    /// What the run would return.
    output: Option<Any<Value>>,
    /// Whether there would be more steps than are shown.
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

/// One thing that is wrong with a definition.
#[skip_serializing_none]
#[derive(Clone, Debug, Object, Serialize)]
#[oai(skip_serializing_if_is_none)]
pub(super) struct WorkflowFault {
    /// Where, as a JSON pointer into the request.
    pointer: String,
    code: String,
    message: String,
    /// What is allowed instead.
    allowed: Option<Vec<String>>,
    /// What was probably meant.
    suggestion: Option<String>,
}

/// What is wrong with a definition. Nothing was stored.
#[skip_serializing_none]
#[derive(Clone, Debug, Object, Serialize)]
#[oai(skip_serializing_if_is_none)]
pub(super) struct WorkflowValidation {
    /// Whether the definition is valid.
    valid: bool,
    /// At most 50.
    errors: Vec<WorkflowFault>,
    /// How many there are in all, if more than are listed.
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
