//! What clients send to start, create, change and steer.

use poem_openapi::{Enum, Object, types::Any};
use serde_json::{Map, Value};

use tenantd_base::{
    change::Change,
    id::{RunId, WorkflowId},
};
use tenantd_http::problem::{FieldError, Problem};

use super::super::service::Steering;

/// `run` starts a run, and is the default; `create` makes a workflow; `validate` says what is wrong with a definition; `take_over` makes you
/// the owner of a workflow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Enum)]
#[oai(rename_all = "snake_case")]
pub(super) enum WorkflowAction {
    Run,
    Create,
    Validate,
    TakeOver,
}

/// A run to start, or a workflow to create.
#[derive(Clone, Debug, Object)]
#[oai(skip_serializing_if_is_none, example)]
pub(super) struct TriggerWorkflow {
    pub(super) action: Option<WorkflowAction>,
    /// The workflow to run, by its id.
    pub(super) workflow_id: Option<WorkflowId>,
    /// The workflow to run, by its key.
    #[oai(validator(min_length = 1, max_length = 64))]
    pub(super) workflow_key: Option<String>,
    /// An object that the workflow's `input_schema` allows.
    pub(super) inputs: Option<Any<Value>>,
    /// The id of the record that the run is about, or a ticket such as `T-1042`, to find the run by.
    #[oai(validator(min_length = 1, max_length = 100))]
    pub(super) subject_id: Option<String>,
    /// Plan every step and change nothing.
    pub(super) dry_run: Option<bool>,
    /// With `dry_run`: an event as the feed has it, to plan a workflow with that events start.
    pub(super) event: Option<Any<Value>>,
    /// With `create` and `validate`: the definition, as the catalogue describes it. With `starter`: what differs from that, as a merge
    /// patch.
    pub(super) definition: Option<Any<Value>>,
    /// With `create` and `validate`: the name of a definition of the catalogue.
    #[oai(validator(min_length = 1, max_length = 64))]
    pub(super) starter: Option<String>,
}

impl TriggerWorkflow {
    /// The workflow must be named, in one of the two ways.
    fn unnamed(named: &[(&str, bool)]) -> Option<FieldError> {
        let message = "name the workflow once: by workflow_id or by workflow_key";
        let ways = named.iter().filter(|(_, given)| *given).count();
        (ways != 1).then(|| FieldError::pointer("/workflow_id", "required", message))
    }

    /// Refuses members that the action has no use for.
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
        let refuse =
            |name: &str| FieldError::pointer(format!("/{name}"), "not_applicable", format!("{name} does not go with this action"));
        let mut errors: Vec<FieldError> = unused.iter().filter(|(_, given)| *given).map(|(name, _)| refuse(name)).collect();
        match action {
            WorkflowAction::TakeOver => errors.extend(Self::unnamed(named)),
            WorkflowAction::Run => {
                errors.extend(Self::unnamed(named));
                if self.inputs.as_ref().is_some_and(|inputs| !inputs.0.is_object()) {
                    errors.push(FieldError::pointer("/inputs", "wrong_type", "must be an object"));
                }
                if self.event.is_some() && self.dry_run != Some(true) {
                    errors.push(FieldError::pointer("/event", "not_applicable", "an event is given for a dry run only"));
                }
            }
            WorkflowAction::Create | WorkflowAction::Validate => {
                if self.definition.is_none() && self.starter.is_none() {
                    errors.push(FieldError::pointer("/definition", "required", "definition is required, or starter"));
                }
            }
        }
        if errors.is_empty() { Ok(action) } else { Err(Problem::invalid(errors)) }
    }
}

/// What to do with a run.
#[derive(Clone, Debug, Object)]
#[oai(skip_serializing_if_is_none)]
pub(super) struct SteerWorkflowRun {
    pub(super) action: Steering,
    /// With `approve` and `reject`: why.
    #[oai(validator(min_length = 1, max_length = 1000))]
    pub(super) comment: Option<String>,
    /// With `approve` and `reject`: the path of the step, when several wait.
    #[oai(validator(min_length = 1, max_length = 200))]
    pub(super) step: Option<String>,
}

impl SteerWorkflowRun {
    pub(super) fn check(&self) -> Result<(), Problem> {
        let decides = matches!(self.action, Steering::Approve | Steering::Reject);
        let given = [("comment", self.comment.is_some()), ("step", self.step.is_some())];
        let refuse = |name: &str| {
            FieldError::pointer(format!("/{name}"), "not_applicable", format!("{name} goes with approve and reject only"))
        };
        let errors: Vec<FieldError> = given.iter().filter(|(_, given)| *given && !decides).map(|(name, _)| refuse(name)).collect();
        if errors.is_empty() { Ok(()) } else { Err(Problem::invalid(errors)) }
    }
}

/// A change of a workflow, as a JSON merge patch (RFC 7396) of its definition: what is absent stays, `null` removes, lists are replaced.
#[derive(Clone, Debug, Object)]
#[oai(skip_serializing_if_is_none)]
pub(super) struct WorkflowPatch {
    /// The key of the workflow.
    pub(super) key: Change<Any<Value>>,
    pub(super) name: Change<Any<Value>>,
    pub(super) description: Change<Any<Value>>,
    pub(super) enabled: Change<Any<Value>>,
    /// What starts a run.
    pub(super) triggers: Change<Any<Value>>,
    /// The JSON Schema of the inputs.
    pub(super) input_schema: Change<Any<Value>>,
    /// How long a run may take, in seconds.
    pub(super) timeout_seconds: Change<Any<Value>>,
    /// How many runs may be under way at the same time.
    pub(super) concurrency: Change<Any<Value>>,
    /// The steps, in order.
    pub(super) steps: Change<Any<Value>>,
    /// The steps to run when a run fails.
    pub(super) on_failure: Change<Any<Value>>,
}

impl WorkflowPatch {
    /// The patch as JSON.
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

/// A change of a workflow; or, with `action`, what to do with a run.
#[derive(Clone, Debug, Object)]
#[oai(skip_serializing_if_is_none, example)]
pub(super) struct UpdateWorkflow {
    /// The workflow, unless the query names it.
    pub(super) id: Option<WorkflowId>,
    /// The run, unless the query names it.
    pub(super) run_id: Option<RunId>,
    pub(super) action: Option<Steering>,
    /// A comment for people.
    #[oai(validator(min_length = 1, max_length = 1000))]
    pub(super) comment: Option<String>,
    /// The step to decide about.
    #[oai(validator(min_length = 1, max_length = 200))]
    pub(super) step: Option<String>,
    #[oai(flatten)]
    pub(super) patch: WorkflowPatch,
}

/// What to archive or to cancel.
#[derive(Clone, Debug, Object)]
#[oai(skip_serializing_if_is_none)]
pub(super) struct DeleteWorkflow {
    /// The workflow, unless the query names it.
    pub(super) id: Option<WorkflowId>,
    /// The run, unless the query names it.
    pub(super) run_id: Option<RunId>,
}
