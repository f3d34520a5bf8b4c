//! Runs as clients see them.

use poem_openapi::{Enum, Object, types::Any};
use serde::Serialize;
use serde_json::{
    Value, json,
    value::{RawValue, to_raw_value},
};

use super::{
    super::model::{self, Run, RunTrigger, StepResult},
    wire::WorkflowTriggerType,
};
use crate::kernel::{
    access::{Grants, Scope},
    clock::Timestamp,
    http::{author::Author, page::Page},
    id::{EventId, RunId, WorkflowId},
};

macro_rules! wire_words {
    ($(#[$doc:meta])* $type:ident $model:ty: $($variant:ident),*) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Enum, Serialize)]
        #[oai(rename_all = "snake_case")]
        #[serde(rename_all = "snake_case")]
        pub(super) enum $type { $($variant),* }

        impl From<$model> for $type {
            fn from(word: $model) -> Self {
                match word { $(<$model>::$variant => Self::$variant),* }
            }
        }

        impl From<$type> for $model {
            fn from(word: $type) -> Self {
                match word { $($type::$variant => Self::$variant),* }
            }
        }
    };
}

wire_words! {
    /// `queued`, `running`, `waiting` and `paused` have not ended.
    WorkflowRunStatus model::RunStatus: Queued, Running, Waiting, Paused, Succeeded, Failed, Cancelled, TimedOut
}

wire_words! {
    /// What a run waits for. `authority`: those whom it acts for lack a right that its next step needs, or one to read what the run has read,
    /// or they may do nothing in the tenant any more.
    WorkflowWaitingOn model::WaitingOn: Approval, Event, Time, Retry, Concurrency, Provider, Authority
}

wire_words! {
    WorkflowStepStatus model::StepStatus: Pending, Running, Waiting, Retrying, Succeeded, Failed, Skipped, Cancelled, TimedOut
}

/// Why a run or a step failed.
#[derive(Clone, Debug, Object, Serialize)]
#[oai(skip_serializing_if_is_none)]
pub(super) struct WorkflowRunError {
    /// Stable, such as `rejected` or `http_status`.
    pub(super) code: String,
    pub(super) message: String,
    /// The path of the step that the run failed in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) step: Option<String>,
}

impl From<model::RunError> for WorkflowRunError {
    fn from(error: model::RunError) -> Self {
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
#[derive(Clone, Debug, Object, Serialize)]
#[oai(skip_serializing_if_is_none)]
pub(super) struct WorkflowDecision {
    pub(super) by: Author,
    pub(super) at: Timestamp,
    pub(super) approved: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) comment: Option<String>,
}

/// A step of a run that has begun.
#[derive(Clone, Debug, Object, Serialize)]
#[oai(skip_serializing_if_is_none)]
pub(super) struct WorkflowRunStep {
    pub(super) id: String,
    /// Its id, behind the loops that it is in: `each[3]/notify`.
    pub(super) path: String,
    #[oai(rename = "type")]
    #[serde(rename = "type")]
    pub(super) kind: String,
    pub(super) status: WorkflowStepStatus,
    pub(super) attempts: u32,
    pub(super) started_at: Timestamp,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) ended_at: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) next_attempt_at: Option<Timestamp>,
    /// What it was given, without secrets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) input: Option<Any<Value>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) output: Option<Any<Value>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) error: Option<WorkflowRunError>,
    pub(super) effects: Vec<WorkflowEffect>,
    /// Of an approval.
    #[serde(skip_serializing_if = "Option::is_none")]
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
            status: step.status.into(),
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
    pub(super) key: String,
    pub(super) name: String,
    /// The version that the run goes by.
    pub(super) version: u64,
}

/// What started a run.
#[derive(Clone, Debug, Object, Serialize)]
#[oai(skip_serializing_if_is_none)]
pub(super) struct WorkflowRunTrigger {
    /// Absent for a run that another one has called.
    #[oai(rename = "type")]
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub(super) kind: Option<WorkflowTriggerType>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) event_id: Option<EventId>,
    /// The kind of the event.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) event: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) scheduled_at: Option<Timestamp>,
    /// The run whose step has called this one.
    #[serde(skip_serializing_if = "Option::is_none")]
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
#[derive(Clone, Debug, Object, Serialize)]
#[oai(skip_serializing_if_is_none, example)]
pub(super) struct WorkflowRun {
    pub(super) id: RunId,
    pub(super) workflow: WorkflowReference,
    pub(super) status: WorkflowRunStatus,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) waiting_on: Option<WorkflowWaitingOn>,
    pub(super) trigger: WorkflowRunTrigger,
    /// What it was started with. `{"redacted": true, "required_scopes": […]}` for readers who could not read what its steps have read, and
    /// those of runs that calls connect it with; so are the inputs and outputs of its steps. Absent in events.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) inputs: Option<Any<Value>>,
    /// The record that it is about: that of the event, or the one that was named.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) subject_id: Option<String>,
    /// The run that this one repeats.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) retry_of: Option<RunId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) concurrency_key: Option<String>,
    pub(super) started_by: Author,
    pub(super) created_at: Timestamp,
    /// When its first step began.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) started_at: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) ended_at: Option<Timestamp>,
    pub(super) timeout_at: Timestamp,
    /// What `return` gave.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) output: Option<Any<Value>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) error: Option<WorkflowRunError>,
    /// The steps that have begun, in that order. Only where one run is read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) steps: Option<Vec<WorkflowRunStep>>,
    /// Whether there are more steps than are shown.
    #[serde(skip_serializing_if = "Option::is_none")]
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
            status: run.status.into(),
            waiting_on: run.waiting_on.map(Into::into),
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

/// A run as its events show it: without what went through it, which not all readers of events may see.
pub(super) fn describe(run: &Run) -> Result<Box<RawValue>, serde_json::Error> {
    let mut shown = WorkflowRun::new(run, None);
    shown.output = None;
    to_raw_value(&shown)
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
