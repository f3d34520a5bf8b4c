//! The target of a request on the shared path: the record or list that its query and body name. Parameters that do not apply to the
//! target are refused.

use poem_openapi::{Enum, Object};

use tenantd_base::{
    clock::Timestamp,
    id::{RunId, WorkflowId},
};
use tenantd_http::{
    page::PageQuery,
    problem::{Code, FieldError, Problem},
};

use super::super::model::RunStatus;

/// `runs` lists runs. `catalog` lists the building blocks of definitions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Enum)]
#[oai(rename_all = "snake_case")]
pub(super) enum WorkflowViewName {
    Runs,
    Catalog,
}

#[derive(Debug, Object)]
pub(super) struct ReadWorkflows {
    /// Return this workflow.
    pub(super) id: Option<WorkflowId>,
    /// With `id`: the version of the definition to return. Defaults to the newest.
    #[oai(validator(minimum(value = "1"), maximum(value = "9007199254740991")))]
    pub(super) version: Option<u64>,
    /// Return this run with its steps.
    pub(super) run_id: Option<RunId>,
    /// With `run_id`: how long to wait for the end of the run, in seconds. Defaults to 0.
    #[oai(validator(minimum(value = "0"), maximum(value = "30")))]
    pub(super) wait_seconds: Option<u32>,
    pub(super) view: Option<WorkflowViewName>,
    /// With `view=runs`: return only runs of this workflow.
    pub(super) workflow_id: Option<WorkflowId>,
    /// With `view=runs`: return only runs in these states.
    #[oai(validator(min_items = 1, max_items = 8))]
    pub(super) status: Option<Vec<RunStatus>>,
    /// With `view=runs`: return only runs about this record. Accepts its id, or a ticket such as `T-1042` or `1042`.
    #[oai(validator(min_length = 1, max_length = 100))]
    pub(super) subject_id: Option<String>,
    /// With `view=runs`: return only runs that were created after this time.
    pub(super) started_after: Option<Timestamp>,
    /// In the list of workflows: return only enabled (`true`) or only disabled (`false`) workflows.
    pub(super) enabled: Option<bool>,
    /// In the list of workflows: whether to return the archived workflows instead of the others. Defaults to `false`.
    pub(super) archived: Option<bool>,
    #[oai(flatten)]
    pub(super) page: PageQuery,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum ReadTarget {
    Workflows,
    Workflow(WorkflowId),
    Run(RunId),
    Runs,
    Catalog,
}

impl ReadWorkflows {
    /// The target of the request. Refuses parameters that do not apply to it.
    pub(super) fn read_target(&self) -> Result<ReadTarget, Problem> {
        let requested = match (self.id, self.run_id, self.view) {
            (None, None, None) => ReadTarget::Workflows,
            (Some(id), None, None) => ReadTarget::Workflow(id),
            (None, Some(id), None) => ReadTarget::Run(id),
            (None, None, Some(WorkflowViewName::Runs)) => ReadTarget::Runs,
            (None, None, Some(WorkflowViewName::Catalog)) => ReadTarget::Catalog,
            _ => return Err(one_of("id, run_id, view")),
        };
        let (list, runs) = (requested == ReadTarget::Workflows, requested == ReadTarget::Runs);
        let given = [
            ("version", self.version.is_some(), matches!(requested, ReadTarget::Workflow(_))),
            ("wait_seconds", self.wait_seconds.is_some(), matches!(requested, ReadTarget::Run(_))),
            ("workflow_id", self.workflow_id.is_some(), runs),
            ("status", self.status.is_some(), runs),
            ("subject_id", self.subject_id.is_some(), runs),
            ("started_after", self.started_after.is_some(), runs),
            ("enabled", self.enabled.is_some(), list),
            ("archived", self.archived.is_some(), list),
            ("limit", self.page.limit.is_some(), list || runs),
            ("cursor", self.page.cursor.is_some(), list || runs),
            ("include_total", self.page.include_total.is_some(), list || runs),
        ];
        let errors: Vec<FieldError> = given
            .iter()
            .filter(|(_, given, meant)| *given && !*meant)
            .map(|(name, ..)| {
                FieldError::parameter(*name, "not_applicable", format!("{name} does not apply to this request; remove it"))
            })
            .collect();
        if errors.is_empty() { Ok(requested) } else { Err(Problem::invalid(errors)) }
    }
}

fn one_of(names: &str) -> Problem {
    let place = names.split(',').next().unwrap_or_default();
    Problem::invalid(vec![FieldError::parameter(place, "ambiguous", format!("use exactly one of {names}"))])
}

/// A target of one of two kinds, named in the query or in the body.
pub(super) enum Target {
    Workflow(WorkflowId),
    Run(RunId),
}

pub(super) fn target(
    query: (Option<WorkflowId>, Option<RunId>),
    body: (Option<WorkflowId>, Option<RunId>),
) -> Result<Target, Problem> {
    let differ = |left: Option<[u8; 16]>, right: Option<[u8; 16]>| left.zip(right).is_some_and(|(left, right)| left != right);
    let bytes = |id: Option<WorkflowId>| id.map(|id| *id.as_bytes());
    let run_bytes = |id: Option<RunId>| id.map(|id| *id.as_bytes());
    if differ(bytes(query.0), bytes(body.0)) || differ(run_bytes(query.1), run_bytes(body.1)) {
        return Err(Problem::plain(Code::IdMismatch));
    }
    match (query.0.or(body.0), query.1.or(body.1)) {
        (Some(id), None) => Ok(Target::Workflow(id)),
        (None, Some(id)) => Ok(Target::Run(id)),
        (Some(_), Some(_)) => Err(one_of("id, run_id")),
        (None, None) => {
            let message = "name a workflow with id or a run with run_id, in the query or in the body";
            Err(Problem::invalid(vec![FieldError::parameter("id", "required", message)]))
        }
    }
}
