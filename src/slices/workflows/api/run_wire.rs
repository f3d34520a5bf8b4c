//! Runs as clients see them.

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
    /// Stable, such as `rejected` or `http_status`.
    pub(super) code: String,
    pub(super) message: String,
    /// The path of the step that the run failed in.
    pub(super) step: Option<String>,
}

impl From<RunError> for WorkflowRunError {
    fn from(error: RunError) -> Self {
        Self { code: error.code, message: error.message, step: error.step }
    }
}

/// A record that a step has made or changed.
#[derive(Clone, Debug, Object, Serialize)]
pub(super) struct WorkflowEffect {
    pub(super) kind: String,
    pub(super) id: String,
}

/// What somebody decided.
#[skip_serializing_none]
#[derive(Clone, Debug, Object, Serialize)]
#[oai(skip_serializing_if_is_none)]
pub(super) struct WorkflowDecision {
    pub(super) by: Author,
    /// When it was decided.
    pub(super) at: Timestamp,
    /// Whether it was approved.
    pub(super) approved: bool,
    /// What they said about it.
    pub(super) comment: Option<String>,
}

/// A step of a run that has begun.
#[skip_serializing_none]
#[derive(Clone, Debug, Object, Serialize)]
#[oai(skip_serializing_if_is_none)]
pub(super) struct WorkflowRunStep {
    pub(super) id: String,
    /// Its id, behind the loops that it is in: `each[3]/notify`.
    pub(super) path: String,
    #[oai(rename = "type")]
    #[serde(rename = "type")]
    pub(super) kind: String,
    pub(super) status: StepStatus,
    /// How many attempts were made.
    pub(super) attempts: u32,
    pub(super) started_at: Timestamp,
    pub(super) ended_at: Option<Timestamp>,
    pub(super) next_attempt_at: Option<Timestamp>,
    /// What it was given, without secrets.
    pub(super) input: Option<Any<Value>>,
    /// What it returned.
    pub(super) output: Option<Any<Value>>,
    pub(super) error: Option<WorkflowRunError>,
    pub(super) effects: Vec<WorkflowEffect>,
    /// Of an approval.
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
    /// The key of the workflow.
    pub(super) key: String,
    pub(super) name: String,
    /// The version that the run goes by.
    pub(super) version: u64,
}

/// What started a run.
#[skip_serializing_none]
#[derive(Clone, Debug, Object, Serialize)]
#[oai(skip_serializing_if_is_none)]
pub(super) struct WorkflowRunTrigger {
    /// Absent for a run that another one has called.
    #[oai(rename = "type")]
    #[serde(rename = "type")]
    pub(super) kind: Option<WorkflowTriggerType>,
    /// The event that started the run.
    pub(super) event_id: Option<EventId>,
    /// The kind of the event.
    pub(super) event: Option<String>,
    /// The time that the run was scheduled for.
    pub(super) scheduled_at: Option<Timestamp>,
    /// The run whose step has called this one.
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
    pub(super) waiting_on: Option<WaitingOn>,
    pub(super) trigger: WorkflowRunTrigger,
    /// What it was started with. `{"redacted": true, "required_scopes": […]}` for readers who could not read what its steps have read, and
    /// those of runs that calls connect it with; so are the inputs and outputs of its steps. Absent in events.
    pub(super) inputs: Option<Any<Value>>,
    /// The record that it is about: that of the event, or the one that was named.
    pub(super) subject_id: Option<String>,
    /// The run that this one repeats.
    pub(super) retry_of: Option<RunId>,
    /// Runs with the same key count together.
    pub(super) concurrency_key: Option<String>,
    pub(super) started_by: Author,
    pub(super) created_at: Timestamp,
    /// When its first step began.
    pub(super) started_at: Option<Timestamp>,
    pub(super) ended_at: Option<Timestamp>,
    /// When the run is ended.
    pub(super) timeout_at: Timestamp,
    /// What `return` gave.
    pub(super) output: Option<Any<Value>>,
    pub(super) error: Option<WorkflowRunError>,
    /// The steps that have begun, in that order. Only where one run is read.
    pub(super) steps: Option<Vec<WorkflowRunStep>>,
    /// Whether there are more steps than are shown.
    pub(super) steps_truncated: Option<bool>,
    /// Counts the changes of this record.
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

/// Without what went through the run, which not all readers of events may see.
impl Describe for Run {
    fn describe(&self, (): ()) -> Described {
        let mut shown = WorkflowRun::new(self, None);
        shown.output = None;
        to_raw_value(&shown)
    }
}

/// What stands in place of values that a reader may not see.
pub(super) fn redacted(required: Grants) -> Value {
    let scopes: Vec<&str> = required.iter().map(Scope::name).collect();
    json!({"redacted": true, "required_scopes": scopes})
}

impl WorkflowRun {
    /// Takes out what went through the run, for readers who lack these scopes.
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
