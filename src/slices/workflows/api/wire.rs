//! The wire types of workflows. The fields of the definition are next to those of the record, so that a change has the same form as
//! the workflow that was read.

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

/// What starts a run: `manual` for requests, `event` for a kind of event with an optional condition, `schedule` for a cron pattern.
#[skip_serializing_none]
#[derive(Clone, Debug, Object, Serialize, Deserialize)]
#[oai(skip_serializing_if_is_none)]
pub(super) struct WorkflowTrigger {
    #[oai(rename = "type")]
    #[serde(rename = "type")]
    kind: WorkflowTriggerType,
    /// The kind of event, such as `ticket.created`. Only for `event`.
    event: Option<String>,
    /// An expression that the event must satisfy. Only for `event`.
    condition: Option<String>,
    /// A cron pattern of five fields. Only for `schedule`.
    cron: Option<String>,
    /// The IANA name of the time zone of the schedule. Defaults to UTC.
    timezone: Option<String>,
    /// How to handle missed occurrences: `skip` (the default) or `run_once`.
    catch_up: Option<String>,
}

/// How often and when a failed step is retried.
#[skip_serializing_none]
#[derive(Clone, Debug, Object, Serialize, Deserialize)]
#[oai(skip_serializing_if_is_none)]
pub(super) struct WorkflowRetry {
    /// The maximum number of attempts, from 1 to 10.
    max_attempts: u32,
    /// How the wait grows: `exponential` (the default) or `fixed`.
    backoff: Option<String>,
    /// The wait before the first retry, in seconds. Defaults to 10.
    initial_seconds: Option<u32>,
    /// The longest wait between retries, in seconds. Defaults to 3,600.
    max_seconds: Option<u32>,
}

/// A step. `?view=catalog` lists the types and the schemas of their `with`.
#[skip_serializing_none]
#[derive(Clone, Debug, Object, Serialize, Deserialize)]
#[oai(skip_serializing_if_is_none)]
pub(super) struct WorkflowStep {
    /// The id of the step. Expressions use it in `steps.ID.output`.
    id: String,
    /// The type of the step, such as `ticket.create` or `if`.
    #[oai(rename = "type")]
    #[serde(rename = "type")]
    kind: String,
    /// The input of the step, as its type describes it. Texts can contain templates.
    with: Option<Any<Value>>,
    /// An expression. If it does not hold, the step is skipped.
    #[oai(rename = "if")]
    #[serde(rename = "if")]
    condition: Option<String>,
    /// How to retry the step. Without it, a failed step is not retried.
    retry: Option<WorkflowRetry>,
    /// The time limit of the step, in seconds.
    timeout_seconds: Option<u64>,
    /// What happens if the step fails: `fail` (the default) fails the run, `continue` goes on with the next step.
    on_error: Option<String>,
}

/// The limit for concurrent runs with the same key, and what happens to further runs.
#[skip_serializing_none]
#[derive(Clone, Debug, Object, Serialize, Deserialize)]
#[oai(skip_serializing_if_is_none)]
pub(super) struct WorkflowConcurrency {
    /// A template that yields the key, such as `{{ inputs.user_id }}`.
    key: String,
    /// The maximum number of active runs with the same key. Defaults to 1.
    limit: Option<u32>,
    /// What happens to a further run: `queue` (the default), `reject`, `use_existing` or `cancel_existing`.
    on_conflict: Option<String>,
}

/// A summary of a run.
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
    /// Whether the triggers start runs. Unfinished runs of a disabled workflow continue.
    pub(super) enabled: bool,
    /// What starts runs.
    pub(super) triggers: Vec<WorkflowTrigger>,
    /// The JSON Schema of the inputs. Absent if any inputs are allowed.
    pub(super) input_schema: Option<Any<Value>>,
    /// The time limit of a run, in seconds.
    pub(super) timeout_seconds: u64,
    /// The limit for concurrent runs. Absent without one.
    pub(super) concurrency: Option<WorkflowConcurrency>,
    /// The steps, in order.
    pub(super) steps: Vec<WorkflowStep>,
    /// The steps to run after a run has failed.
    pub(super) on_failure: Option<Vec<WorkflowStep>>,
    /// When the workflow was archived. Absent if it is not.
    pub(super) archived_at: Option<Timestamp>,
    /// The newest run. Absent if there is none, and in events.
    pub(super) last_run: Option<WorkflowLastRun>,
    pub(super) created_at: Timestamp,
    pub(super) created_by: Author,
    pub(super) updated_at: Timestamp,
    /// The version of the definition, which increases with every change. You can read earlier versions with `version=`.
    pub(super) version: u64,
}

/// Reads a member of a stored definition, which was checked before.
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
