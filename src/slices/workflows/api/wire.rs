//! Workflows as clients see them. The definition stands beside what the record itself has, so that a change can be sent in the form in
//! which the workflow was read.

use poem_openapi::{Enum, Object, types::Any};
use serde::{Deserialize, Serialize};
use serde_json::{Value, value::to_raw_value};
use serde_with::skip_serializing_none;

use tenantd_base::{
    clock::Timestamp,
    id::{RunId, WorkflowId},
};
use tenantd_http::{author::Author, page::Page};
use tenantd_store::events::{Describe, Described};

use super::super::{
    definition::DEFAULT_TIMEOUT_SECONDS,
    model::{self, Run, RunStatus},
};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Enum, Serialize, Deserialize)]
#[oai(rename_all = "snake_case")]
#[serde(rename_all = "snake_case")]
pub(super) enum WorkflowTriggerType {
    Manual,
    Event,
    Schedule,
}

/// What starts a run: `manual`; `event` with the kind of the event and a condition; `schedule` with a cron pattern of five fields.
#[skip_serializing_none]
#[derive(Clone, Debug, Object, Serialize, Deserialize)]
#[oai(skip_serializing_if_is_none)]
pub(super) struct WorkflowTrigger {
    #[oai(rename = "type")]
    #[serde(rename = "type")]
    kind: WorkflowTriggerType,
    /// The kind of event, such as `ticket.created`.
    event: Option<String>,
    /// An expression that must hold for the event.
    condition: Option<String>,
    /// When to start a run, as a cron expression.
    cron: Option<String>,
    /// The zone that the times of the schedule are in. UTC when absent.
    timezone: Option<String>,
    /// `skip` or `run_once`: what is done about times that were missed.
    catch_up: Option<String>,
}

/// How often and when a step that failed is tried again.
#[skip_serializing_none]
#[derive(Clone, Debug, Object, Serialize, Deserialize)]
#[oai(skip_serializing_if_is_none)]
pub(super) struct WorkflowRetry {
    /// 1 to 10.
    max_attempts: u32,
    /// `fixed` or `exponential`, which is the default.
    backoff: Option<String>,
    /// How long to wait before the first retry, in seconds.
    initial_seconds: Option<u32>,
    /// The longest wait between retries, in seconds.
    max_seconds: Option<u32>,
}

/// A step. `?view=catalog` lists the types with the schemas of their `with`.
#[skip_serializing_none]
#[derive(Clone, Debug, Object, Serialize, Deserialize)]
#[oai(skip_serializing_if_is_none)]
pub(super) struct WorkflowStep {
    /// Its name in expressions: `steps.ID.output`.
    id: String,
    #[oai(rename = "type")]
    #[serde(rename = "type")]
    kind: String,
    /// The input of the step, as its type describes it.
    with: Option<Any<Value>>,
    /// An expression; when it does not hold the step is left out.
    #[oai(rename = "if")]
    #[serde(rename = "if")]
    condition: Option<String>,
    retry: Option<WorkflowRetry>,
    /// How long the step may take, in seconds.
    timeout_seconds: Option<u64>,
    /// `fail`, which is the default, or `continue`.
    on_error: Option<String>,
}

/// How many runs with the same key go on at one time, and what becomes of one more.
#[skip_serializing_none]
#[derive(Clone, Debug, Object, Serialize, Deserialize)]
#[oai(skip_serializing_if_is_none)]
pub(super) struct WorkflowConcurrency {
    /// A template, such as `{{ inputs.user_id }}`.
    key: String,
    /// How many runs may be under way.
    limit: Option<u32>,
    /// `queue`, which is the default, `reject`, `use_existing` or `cancel_existing`.
    on_conflict: Option<String>,
}

/// A run, in short.
#[skip_serializing_none]
#[derive(Clone, Debug, Object, Serialize)]
#[oai(skip_serializing_if_is_none)]
pub(super) struct WorkflowLastRun {
    pub(super) id: RunId,
    pub(super) status: RunStatus,
    pub(super) created_at: Timestamp,
    pub(super) ended_at: Option<Timestamp>,
}

/// A workflow.
#[skip_serializing_none]
#[derive(Clone, Debug, Object, Serialize)]
#[oai(skip_serializing_if_is_none, example)]
pub(super) struct Workflow {
    pub(super) id: WorkflowId,
    /// A name for programs, unique among the tenant's workflows that are not archived.
    pub(super) key: String,
    pub(super) name: String,
    pub(super) description: Option<String>,
    /// A disabled workflow starts no runs; those that have begun go on.
    pub(super) enabled: bool,
    pub(super) triggers: Vec<WorkflowTrigger>,
    /// The JSON Schema of the inputs.
    pub(super) input_schema: Option<Any<Value>>,
    /// How long a run may take.
    pub(super) timeout_seconds: u64,
    pub(super) concurrency: Option<WorkflowConcurrency>,
    pub(super) steps: Vec<WorkflowStep>,
    /// Steps that are run when the others have failed.
    pub(super) on_failure: Option<Vec<WorkflowStep>>,
    /// When the workflow was archived.
    pub(super) archived_at: Option<Timestamp>,
    pub(super) last_run: Option<WorkflowLastRun>,
    pub(super) created_at: Timestamp,
    pub(super) created_by: Author,
    pub(super) updated_at: Timestamp,
    /// Counts the versions of the definition. Each stays readable with `version=`.
    pub(super) version: u64,
}

/// A member of a definition that was checked when it was stored.
fn member<T: for<'de> Deserialize<'de>>(definition: &Value, name: &str) -> Option<T> {
    definition.get(name).and_then(|value| T::deserialize(value).ok())
}

impl Workflow {
    pub(super) fn new(workflow: &model::Workflow, definition: &Value, last: Option<&Run>) -> Self {
        let manual = || {
            let (event, condition, cron, timezone, catch_up) = (None, None, None, None, None);
            vec![WorkflowTrigger { kind: WorkflowTriggerType::Manual, event, condition, cron, timezone, catch_up }]
        };
        Self {
            id: workflow.id,
            key: workflow.key.clone(),
            name: workflow.name.clone(),
            description: member(definition, "description"),
            enabled: workflow.enabled,
            triggers: member(definition, "triggers").unwrap_or_else(manual),
            input_schema: member(definition, "input_schema"),
            timeout_seconds: member(definition, "timeout_seconds").unwrap_or(DEFAULT_TIMEOUT_SECONDS),
            concurrency: member(definition, "concurrency"),
            steps: member(definition, "steps").unwrap_or_default(),
            on_failure: member(definition, "on_failure"),
            archived_at: workflow.archived_at,
            last_run: last.map(|run| WorkflowLastRun {
                id: run.id,
                status: run.status,
                created_at: run.created_at,
                ended_at: run.ended_at,
            }),
            created_at: workflow.created_at,
            created_by: workflow.created_by.clone().into(),
            updated_at: workflow.updated_at,
            version: workflow.version,
        }
    }
}

impl Describe<&Value> for model::Workflow {
    fn describe(&self, definition: &Value) -> Described {
        to_raw_value(&Workflow::new(self, definition, None))
    }
}

/// A page of workflows.
#[derive(Debug, Object, Serialize)]
pub(super) struct WorkflowList {
    pub(super) data: Vec<Workflow>,
    pub(super) page: Page,
}
