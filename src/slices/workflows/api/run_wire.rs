//! The wire types of runs.

use poem_openapi::{Object, types::Any};
use serde::Serialize;
use serde_json::{Value, json, value::to_raw_value};
use serde_with::skip_serializing_none;

use tenantd_base::{
    access::{Grants, Scope},
    clock::Timestamp,
    id::{EventId, RunId, WorkflowId},
};
use tenantd_http::{author::Author, page::Page};
use tenantd_store::events::{Describe, Described};

use super::{
    super::model::{Run, RunError, RunStatus, RunTrigger, StepResult, StepStatus, WaitingOn},
    wire::WorkflowTriggerType,
};

/// Why a run or a step failed.
#[skip_serializing_none]
#[derive(Clone, Debug, Object, Serialize)]
#[oai(skip_serializing_if_is_none)]
pub(super) struct WorkflowRunError {
    /// A stable code, such as `rejected` or `http_status`.
    pub(super) code: String,
    pub(super) message: String,
    /// The path of the step in which the run failed. Absent for errors of a step.
    pub(super) step: Option<String>,
}

impl From<RunError> for WorkflowRunError {
    fn from(error: RunError) -> Self {
        Self { code: error.code, message: error.message, step: error.step }
    }
}

/// A record that a step created or changed.
#[derive(Clone, Debug, Object, Serialize)]
pub(super) struct WorkflowEffect {
    /// The kind of the record, such as `ticket`.
    pub(super) kind: String,
    pub(super) id: String,
}

/// A decision about an approval.
#[skip_serializing_none]
#[derive(Clone, Debug, Object, Serialize)]
#[oai(skip_serializing_if_is_none)]
pub(super) struct WorkflowDecision {
    pub(super) by: Author,
    /// When the decision was made.
    pub(super) at: Timestamp,
    /// Whether the step was approved (`true`) or rejected (`false`).
    pub(super) approved: bool,
    /// The reason for the decision. Absent if none was given.
    pub(super) comment: Option<String>,
}

/// A step of a run that has started.
#[skip_serializing_none]
#[derive(Clone, Debug, Object, Serialize)]
#[oai(skip_serializing_if_is_none)]
pub(super) struct WorkflowRunStep {
    pub(super) id: String,
    /// The id of the step, after the loops that contain it: `each[3]/notify`.
    pub(super) path: String,
    /// The type of the step, such as `ticket.create` or `if`.
    #[oai(rename = "type")]
    #[serde(rename = "type")]
    pub(super) kind: String,
    pub(super) status: StepStatus,
    /// The number of attempts so far.
    pub(super) attempts: u32,
    pub(super) started_at: Timestamp,
    pub(super) ended_at: Option<Timestamp>,
    pub(super) next_attempt_at: Option<Timestamp>,
    /// The input of the step, without secrets.
    pub(super) input: Option<Any<Value>>,
    /// The output of the step. Absent until it has succeeded.
    pub(super) output: Option<Any<Value>>,
    /// Why the last attempt failed. Absent if it did not.
    pub(super) error: Option<WorkflowRunError>,
    /// The records that the step created or changed.
    pub(super) effects: Vec<WorkflowEffect>,
    /// The decisions about an approval. Absent without any.
    pub(super) decisions: Option<Vec<WorkflowDecision>>,
}

impl WorkflowRunStep {
    pub(super) fn new(path: String, step: StepResult) -> Self {
        let decisions: Vec<WorkflowDecision> = step
            .decisions
            .into_iter()
            .map(|decision| WorkflowDecision {
                by: decision.by.into(),
                at: decision.at,
                approved: decision.approved,
                comment: decision.comment,
            })
            .collect();
        Self {
            id: step.step_id,
            path,
            kind: step.type_name,
            status: step.status,
            attempts: step.attempts,
            started_at: step.started_at,
            ended_at: step.ended_at,
            next_attempt_at: step.next_attempt_at,
            input: step.input.map(|input| Any(input.0)),
            output: step.output.map(|output| Any(output.0)),
            error: step.error.map(Into::into),
            effects: step.effects.into_iter().map(|(kind, id)| WorkflowEffect { kind, id }).collect(),
            decisions: (!decisions.is_empty()).then_some(decisions),
        }
    }
}

/// The workflow of a run.
#[derive(Clone, Debug, Object, Serialize)]
pub(super) struct WorkflowReference {
    pub(super) id: WorkflowId,
    /// The key of the workflow when the run was created.
    pub(super) key: String,
    pub(super) name: String,
    /// The version of the definition that the run uses.
    pub(super) version: u64,
}

/// What started a run.
#[skip_serializing_none]
#[derive(Clone, Debug, Object, Serialize)]
#[oai(skip_serializing_if_is_none)]
pub(super) struct WorkflowRunTrigger {
    /// The type of the trigger. Absent if another run called this one.
    #[oai(rename = "type")]
    #[serde(rename = "type")]
    pub(super) kind: Option<WorkflowTriggerType>,
    /// The event that started the run.
    pub(super) event_id: Option<EventId>,
    /// The kind of the event.
    pub(super) event: Option<String>,
    /// The time that the run was scheduled for.
    pub(super) scheduled_at: Option<Timestamp>,
    /// The run that called this one.
    pub(super) run_id: Option<RunId>,
}

impl From<&RunTrigger> for WorkflowRunTrigger {
    fn from(trigger: &RunTrigger) -> Self {
        let mut shown = Self { kind: None, event_id: None, event: None, scheduled_at: None, run_id: None };
        match trigger {
            RunTrigger::Manual => shown.kind = Some(WorkflowTriggerType::Manual),
            RunTrigger::Event { id, kind } => {
                shown.kind = Some(WorkflowTriggerType::Event);
                shown.event_id = Some(*id);
                shown.event = Some(kind.clone());
            }
            RunTrigger::Schedule { at } => {
                shown.kind = Some(WorkflowTriggerType::Schedule);
                shown.scheduled_at = Some(*at);
            }
            RunTrigger::Call { run, .. } => shown.run_id = Some(*run),
        }
        shown
    }
}

/// A run of a workflow.
#[skip_serializing_none]
#[derive(Clone, Debug, Object, Serialize)]
#[oai(skip_serializing_if_is_none, example)]
pub(super) struct WorkflowRun {
    pub(super) id: RunId,
    pub(super) workflow: WorkflowReference,
    pub(super) status: RunStatus,
    /// What the run waits for. Absent if it does not wait.
    pub(super) waiting_on: Option<WaitingOn>,
    pub(super) trigger: WorkflowRunTrigger,
    /// The inputs of the run. Absent in events. If you lack the scopes to read everything that the run and the runs connected to it
    /// by calls have read, this is `{"redacted": true, "required_scopes": […]}`. The inputs and outputs of the steps are then
    /// redacted too.
    pub(super) inputs: Option<Any<Value>>,
    /// The record that the run is about: the resource of the event, or the record named when the run was started.
    pub(super) subject_id: Option<String>,
    /// The run that this run retries.
    pub(super) retry_of: Option<RunId>,
    /// The concurrency key. The limit applies to runs with the same key.
    pub(super) concurrency_key: Option<String>,
    pub(super) started_by: Author,
    pub(super) created_at: Timestamp,
    /// When the first step started. Absent before that.
    pub(super) started_at: Option<Timestamp>,
    pub(super) ended_at: Option<Timestamp>,
    /// When the run times out.
    pub(super) timeout_at: Timestamp,
    /// The output of the `return` step. Absent without one.
    pub(super) output: Option<Any<Value>>,
    /// Why the run failed. Absent if it did not.
    pub(super) error: Option<WorkflowRunError>,
    /// The started steps, in the order in which they started. Present only when you read a single run.
    pub(super) steps: Option<Vec<WorkflowRunStep>>,
    /// Whether the run has more steps than are shown. Absent if it has not.
    pub(super) steps_truncated: Option<bool>,
    /// Increases with every change of this record.
    pub(super) version: u64,
}

impl WorkflowRun {
    pub(super) fn new(run: &Run, inputs: Option<Value>) -> Self {
        Self {
            id: run.id,
            workflow: WorkflowReference {
                id: run.workflow_id,
                key: run.workflow_key.clone(),
                name: run.workflow_name.clone(),
                version: run.workflow_version,
            },
            status: run.status,
            waiting_on: run.waiting_on,
            trigger: (&run.trigger).into(),
            inputs: inputs.map(Any),
            subject_id: run.subject_id.clone(),
            retry_of: run.retry_of,
            concurrency_key: run.concurrency_key.clone(),
            started_by: run.started_by.clone().into(),
            created_at: run.created_at,
            started_at: run.started_at,
            ended_at: run.ended_at,
            timeout_at: run.timeout_at,
            output: run.output.clone().map(|output| Any(output.0)),
            error: run.error.clone().map(Into::into),
            steps: None,
            steps_truncated: None,
            version: run.version,
        }
    }
}

/// Omits the inputs and the output, because not all readers of events may see them.
impl Describe for Run {
    fn describe(&self, (): ()) -> Described {
        let mut shown = WorkflowRun::new(self, None);
        shown.output = None;
        to_raw_value(&shown)
    }
}

/// Replaces values that a reader may not see.
pub(super) fn redacted(required: Grants) -> Value {
    let scopes: Vec<&str> = required.iter().map(Scope::name).collect();
    json!({"redacted": true, "required_scopes": scopes})
}

impl WorkflowRun {
    /// Hides the values of the run from readers that lack these scopes.
    pub(super) fn redact(&mut self, lacking: Grants) {
        let hidden = || Some(Any(redacted(lacking)));
        self.inputs = hidden();
        self.output = self.output.take().and_then(|_| hidden());
        self.concurrency_key = None;
        let hide = |error: &mut WorkflowRunError| "The message is hidden.".clone_into(&mut error.message);
        self.error.iter_mut().for_each(hide);
        for step in self.steps.iter_mut().flatten() {
            step.input = step.input.take().and_then(|_| hidden());
            step.output = step.output.take().and_then(|_| hidden());
            step.error.iter_mut().for_each(hide);
        }
    }
}

/// A page of runs.
#[derive(Debug, Object, Serialize)]
pub(super) struct WorkflowRunList {
    pub(super) data: Vec<WorkflowRun>,
    pub(super) page: Page,
}
