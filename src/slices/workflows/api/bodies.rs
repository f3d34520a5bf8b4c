//! The request bodies for starting, creating, changing and controlling workflows and runs.

use poem_openapi::{Enum, Object, types::Any};
use serde_json::{Map, Value};

use tenantd_base::{
    change::Change,
    id::{RunId, WorkflowId},
};
use tenantd_http::problem::{FieldError, Problem};

use super::super::service::Steering;

/// `run` (the default) starts a run. `create` creates a workflow. `validate` checks a definition. `take_over` makes you the owner
/// of a workflow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Enum)]
#[oai(rename_all = "snake_case")]
pub(super) enum WorkflowAction {
    Run,
    Create,
    Validate,
    TakeOver,
}

/// A run to start, or a workflow to create, validate or take over.
#[derive(Clone, Debug, Object)]
#[oai(skip_serializing_if_is_none, example)]
pub(super) struct TriggerWorkflow {
    /// What to do. Defaults to `run`.
    pub(super) action: Option<WorkflowAction>,
    /// The id of the workflow. Set this or `workflow_key`.
    pub(super) workflow_id: Option<WorkflowId>,
    /// The key of the workflow. Set this or `workflow_id`.
    #[oai(validator(min_length = 1, max_length = 64))]
    pub(super) workflow_key: Option<String>,
    /// The inputs of the run: an object that matches the workflow's `input_schema`. Defaults to `{}`.
    pub(super) inputs: Option<Any<Value>>,
    /// The id of the record that the run is about, or a ticket such as `T-1042` or `1042`. You can list runs by it.
    #[oai(validator(min_length = 1, max_length = 100))]
    pub(super) subject_id: Option<String>,
    /// Whether to plan every step without changing anything. Defaults to `false`.
    pub(super) dry_run: Option<bool>,
    /// With `dry_run`: an event in the format of the event feed, to plan a workflow with an event trigger.
    pub(super) event: Option<Any<Value>>,
    /// With `create` and `validate`: the definition, as `definition_schema` of the catalog describes it. With `starter`: a merge
    /// patch that changes the starter.
    pub(super) definition: Option<Any<Value>>,
    /// With `create` and `validate`: the name of a starter of the catalog.
    #[oai(validator(min_length = 1, max_length = 64))]
    pub(super) starter: Option<String>,
}

impl TriggerWorkflow {
    /// The workflow must be named in exactly one of the two ways.
    fn unnamed(named: &[(&str, bool)]) -> Option<FieldError> {
        let message = "set either workflow_id or workflow_key";
        let ways = named.iter().filter(|(_, given)| *given).count();
        (ways != 1).then(|| FieldError::pointer("/workflow_id", "required", message))
    }

    /// Refuses members that the action does not use.
    pub(super) fn check(&self) -> Result<WorkflowAction, Problem> {
        let action = self.action.unwrap_or(WorkflowAction::Run);
        let runs = [
            ("workflow_id", self.workflow_id.is_some()),
            ("workflow_key", self.workflow_key.is_some()),
            ("inputs", self.inputs.is_some()),
            ("subject_id", self.subject_id.is_some()),
            ("dry_run", self.dry_run.is_some()),
            ("event", self.event.is_some()),
        ];
        let makes = [("definition", self.definition.is_some()), ("starter", self.starter.is_some())];
        let (named, run_only) = runs.split_at(2);
        let unused: Vec<(&str, bool)> = match action {
            WorkflowAction::Run => makes.to_vec(),
            WorkflowAction::Create | WorkflowAction::Validate => runs.to_vec(),
            WorkflowAction::TakeOver => [&makes, run_only].concat(),
        };
        let refuse = |name: &str| {
            FieldError::pointer(format!("/{name}"), "not_applicable", format!("{name} is not allowed with this action"))
        };
        let mut errors: Vec<FieldError> = unused.iter().filter(|(_, given)| *given).map(|(name, _)| refuse(name)).collect();
        match action {
            WorkflowAction::TakeOver => errors.extend(Self::unnamed(named)),
            WorkflowAction::Run => {
                errors.extend(Self::unnamed(named));
                if self.inputs.as_ref().is_some_and(|inputs| !inputs.0.is_object()) {
                    errors.push(FieldError::pointer("/inputs", "wrong_type", "must be an object"));
                }
                if self.event.is_some() && self.dry_run != Some(true) {
                    errors.push(FieldError::pointer("/event", "not_applicable", "event is allowed only with dry_run"));
                }
            }
            WorkflowAction::Create | WorkflowAction::Validate => {
                if self.definition.is_none() && self.starter.is_none() {
                    errors.push(FieldError::pointer("/definition", "required", "set definition, starter or both"));
                }
            }
        }
        if errors.is_empty() { Ok(action) } else { Err(Problem::invalid(errors)) }
    }
}

/// An action on a run.
#[derive(Clone, Debug, Object)]
#[oai(skip_serializing_if_is_none)]
pub(super) struct SteerWorkflowRun {
    pub(super) action: Steering,
    /// With `approve` and `reject`: the reason for the decision.
    #[oai(validator(min_length = 1, max_length = 1000))]
    pub(super) comment: Option<String>,
    /// With `approve` and `reject`: the path of the step. Required only if several steps wait.
    #[oai(validator(min_length = 1, max_length = 200))]
    pub(super) step: Option<String>,
}

impl SteerWorkflowRun {
    pub(super) fn check(&self) -> Result<(), Problem> {
        let decides = matches!(self.action, Steering::Approve | Steering::Reject);
        let given = [("comment", self.comment.is_some()), ("step", self.step.is_some())];
        let refuse = |name: &str| {
            FieldError::pointer(format!("/{name}"), "not_applicable", format!("{name} is allowed only with approve and reject"))
        };
        let errors: Vec<FieldError> = given.iter().filter(|(_, given)| *given && !decides).map(|(name, _)| refuse(name)).collect();
        if errors.is_empty() { Ok(()) } else { Err(Problem::invalid(errors)) }
    }
}

/// Changes to a workflow as a JSON merge patch (RFC 7396) of its definition. Absent fields keep their values, `null` removes a
/// field, and lists are replaced.
#[derive(Clone, Debug, Object)]
#[oai(skip_serializing_if_is_none)]
pub(super) struct WorkflowPatch {
    /// The key of the workflow, unique among the tenant's workflows that are not archived.
    pub(super) key: Change<Any<Value>>,
    pub(super) name: Change<Any<Value>>,
    pub(super) description: Change<Any<Value>>,
    pub(super) enabled: Change<Any<Value>>,
    /// The triggers that start runs.
    pub(super) triggers: Change<Any<Value>>,
    /// The JSON Schema of the inputs.
    pub(super) input_schema: Change<Any<Value>>,
    /// The time limit of a run, in seconds.
    pub(super) timeout_seconds: Change<Any<Value>>,
    /// The limit for concurrent runs with the same key.
    pub(super) concurrency: Change<Any<Value>>,
    /// The steps, in order.
    pub(super) steps: Change<Any<Value>>,
    /// The steps to run after a run has failed.
    pub(super) on_failure: Change<Any<Value>>,
}

impl WorkflowPatch {
    /// Converts the patch to JSON.
    pub(super) fn into_json(self) -> Value {
        let members = [
            ("key", self.key),
            ("name", self.name),
            ("description", self.description),
            ("enabled", self.enabled),
            ("triggers", self.triggers),
            ("input_schema", self.input_schema),
            ("timeout_seconds", self.timeout_seconds),
            ("concurrency", self.concurrency),
            ("steps", self.steps),
            ("on_failure", self.on_failure),
        ];
        let member = |(name, change): (&str, Change<Any<Value>>)| match change {
            Change::Keep => None,
            Change::Clear => Some((name.to_owned(), Value::Null)),
            Change::Set(value) => Some((name.to_owned(), value.0)),
        };
        Value::Object(members.into_iter().filter_map(member).collect::<Map<_, _>>())
    }
}

/// Changes to a workflow, or with `action` an action on a run.
#[derive(Clone, Debug, Object)]
#[oai(skip_serializing_if_is_none, example)]
pub(super) struct UpdateWorkflow {
    /// The id of the workflow. Leave it out if the query has `id`.
    pub(super) id: Option<WorkflowId>,
    /// The id of the run. Leave it out if the query has `run_id`.
    pub(super) run_id: Option<RunId>,
    /// The action on the run. Required with `run_id`.
    pub(super) action: Option<Steering>,
    /// With `approve` and `reject`: the reason for the decision.
    #[oai(validator(min_length = 1, max_length = 1000))]
    pub(super) comment: Option<String>,
    /// With `approve` and `reject`: the path of the step. Required only if several steps wait.
    #[oai(validator(min_length = 1, max_length = 200))]
    pub(super) step: Option<String>,
    #[oai(flatten)]
    pub(super) patch: WorkflowPatch,
}

/// The workflow to archive, or the run to cancel.
#[derive(Clone, Debug, Object)]
#[oai(skip_serializing_if_is_none)]
pub(super) struct DeleteWorkflow {
    /// The id of the workflow. Leave it out if the query has `id`.
    pub(super) id: Option<WorkflowId>,
    /// The id of the run. Leave it out if the query has `run_id`.
    pub(super) run_id: Option<RunId>,
}
