//! `/api/psa/workflows/trigger`: the query and the body determine the target. Each operation uses the same code as the path of the
//! record.

use std::sync::Arc;

use poem_openapi::{
    Object, OpenApi,
    registry::{MetaSchema, MetaSchemaRef},
};
use serde_json::{Value, json};

use tenantd_base::{
    access::{Grants, Scope},
    fault::Fault,
    id::{RunId, TenantId, WorkflowId},
    programs::Budget,
    vocabulary::nearest,
};
use tenantd_http::{
    idempotency::IdempotencyKey,
    input::{Body, Filter, Lenient, OptionalBody},
    need::{Allowed, WorkflowsRead, WorkflowsSteer, WorkflowsTrigger},
    page::PageRequest,
    precondition::{IfMatch, IfNoneMatch},
    problem::{FieldError, Problem},
    reply::{Changed, Triggered, Viewed},
    wire::document_type,
};
use tenantd_store::{Read, ReadTx, steps::Planning};

use super::{
    super::{
        Core, IdByName,
        error::WorkflowError,
        listing::{self, RunQuery, WorkflowQuery},
        model::Workflow as WorkflowModel,
        name_subject,
        plan::Planner,
        repo,
        service::{Accepted, NewRun, Service, Started, complete_inputs, merge},
        starters,
    },
    Area,
    asked::{ReadTarget, ReadWorkflows, Target, target},
    bodies::{DeleteWorkflow, SteerWorkflowRun, TriggerWorkflow, UpdateWorkflow, WorkflowAction},
    catalog::{WorkflowCatalog, catalog},
    plan_wire::{WorkflowPlan, WorkflowValidation},
    record::{self, Caller},
    run_wire::{WorkflowRun, WorkflowRunList},
    wire::{Workflow, WorkflowList},
};

const UNKNOWN_TICKET: &str = "this ticket does not exist, or you cannot read it";

#[derive(Debug, Object)]
struct WorkflowTarget {
    /// The id of the workflow. Leave it out if the body has `id`.
    id: Option<WorkflowId>,
    /// The id of the run. Leave it out if the body has `run_id`.
    run_id: Option<RunId>,
}

#[derive(Debug, Object)]
struct DeleteWorkflowQuery {
    /// The id of the workflow to archive. Leave it out if the body has `id`.
    id: Option<WorkflowId>,
    /// The id of the run to cancel. Leave it out if the body has `run_id`.
    run_id: Option<RunId>,
    /// With `id`: whether to cancel the unfinished runs. Without it, the request fails while there are any.
    cancel_runs: Option<bool>,
}

#[derive(Debug, Object)]
struct WorkflowDryRunQuery {
    /// Whether to plan every step of a run without changing anything. Same as `dry_run` in the body.
    dry_run: Option<bool>,
}

/// Responses with one of several shapes.
macro_rules! shapes {
    ($name:ident, $label:literal, [$($shape:ty),*]) => {
        #[derive(Debug)]
        pub(super) struct $name;

        document_type!(
            [] $name,
            $label,
            MetaSchemaRef::Inline(Box::new(MetaSchema { any_of: vec![$(<$shape as poem_openapi::types::Type>::schema_ref()),*], ..MetaSchema::ANY })),
            |registry| { $(<$shape as poem_openapi::types::Type>::register(registry);)* }
        );
    };
}

shapes!(WorkflowView, "WorkflowView", [WorkflowList, Workflow, WorkflowRunList, WorkflowRun, WorkflowCatalog]);
shapes!(WorkflowOutcome, "WorkflowOutcome", [WorkflowRun, Workflow, WorkflowPlan, WorkflowValidation]);
shapes!(WorkflowOrRun, "WorkflowOrRun", [Workflow, WorkflowRun]);

pub(crate) struct TriggerApi {
    pub(crate) core: Arc<Core>,
}

#[OpenApi(prefix_path = "/api/psa/workflows/trigger", tag = "Area::Workflows")]
impl TriggerApi {
    /// Read workflows and runs
    ///
    /// Returns the list of workflows, each with its last run. `id` returns one workflow, and `run_id` one run with its steps.
    /// `view=runs` lists runs. `view=catalog` lists the types of steps and triggers with their schemas. Use at most one of the
    /// three parameters.
    #[oai(path = "/", method = "get", operation_id = "read_workflows")]
    async fn read_workflows(
        &self,
        auth: Allowed<WorkflowsRead>,
        query: Filter<ReadWorkflows>,
        if_none_match: IfNoneMatch,
    ) -> Result<Viewed<WorkflowView>, Problem> {
        let (core, caller) = (&self.core, Caller::from(&auth));
        match query.0.read_target()? {
            ReadTarget::Workflows => self.list_workflows(&caller, &query.0).await,
            ReadTarget::Runs => self.list_runs(&caller, &query.0).await,
            ReadTarget::Catalog => Ok(Viewed::record(&catalog(&core.service.planners), None)),
            ReadTarget::Workflow(id) => {
                let workflow = record::read_workflow(core, &caller, id, query.0.version)?;
                let version = workflow.version;
                let known = if_none_match.knows(version);
                Ok(if known { Viewed::not_modified(version) } else { Viewed::record(&workflow, Some(version)) })
            }
            ReadTarget::Run(id) => {
                let run = record::read_run(core, &caller, id, query.0.wait_seconds).await?;
                let known = if_none_match.knows(run.version);
                Ok(if known { Viewed::not_modified(run.version) } else { Viewed::record(&run, Some(run.version)) })
            }
        }
    }

    /// Start a run, or create a workflow
    ///
    /// `action` selects the operation:
    ///
    /// - `run` (the default) starts a run and returns it with 202, or returns the existing run with 200 if the concurrency policy
    ///   uses it instead.
    /// - `create` creates a workflow from a definition or a starter of the catalog.
    /// - `validate` returns every problem of a definition and stores nothing.
    /// - `take_over` makes you the owner of a workflow: its next version is identical and acts for you.
    ///
    /// A workflow acts for the author of its newest version. A run also acts for the user or key that started it. You need every
    /// scope that the steps and triggers need (`required_scopes` in the catalog).
    #[oai(path = "/", method = "post", operation_id = "trigger_workflow")]
    async fn trigger_workflow(
        &self,
        auth: Allowed<WorkflowsTrigger>,
        query: Filter<WorkflowDryRunQuery>,
        idempotency_key: IdempotencyKey,
        body: Body<TriggerWorkflow>,
    ) -> Result<Triggered<WorkflowOutcome>, Problem> {
        let caller = Caller::from(&auth);
        let mut body = body.0;
        if query.0.dry_run.is_some() {
            body.dry_run = query.0.dry_run;
        }
        match body.check()? {
            WorkflowAction::Run if body.dry_run == Some(true) => {
                caller.needs(Scope::WorkflowsRun)?;
                self.rehearse(&caller, body).await
            }
            WorkflowAction::Run => {
                caller.needs(Scope::WorkflowsRun)?;
                self.run(&caller, idempotency_key, body).await
            }
            WorkflowAction::Create => {
                caller.needs(Scope::WorkflowsWrite)?;
                self.create(&caller, idempotency_key, &body).await
            }
            WorkflowAction::TakeOver => {
                caller.needs(Scope::WorkflowsWrite)?;
                self.take_over(&caller, &idempotency_key, &body).await
            }
            WorkflowAction::Validate => {
                caller.needs(Scope::WorkflowsWrite)?;
                self.validate(&caller, &body).await
            }
        }
    }

    /// Change a workflow, or control a run
    ///
    /// With `id`, applies a merge patch to the definition and stores it as the next version. With `run_id` and `action`, cancels,
    /// pauses, resumes, retries, approves or rejects a run. Returns a conflict if the state of the run does not allow the action.
    /// With an `Idempotency-Key`, a request that is sent again acts once: a repeated `retry` returns the run that the first one
    /// started.
    #[oai(path = "/", method = "patch", operation_id = "update_workflow")]
    async fn update_workflow(
        &self,
        auth: Allowed<WorkflowsSteer>,
        query: Filter<WorkflowTarget>,
        if_match: IfMatch,
        idempotency_key: IdempotencyKey,
        body: Lenient<UpdateWorkflow>,
    ) -> Result<Changed<WorkflowOrRun>, Problem> {
        let caller = Caller::from(&auth);
        let UpdateWorkflow { id, run_id, action, comment, step, patch } = body.0;
        let patch = patch.into_json();
        match target((query.0.id, query.0.run_id), (id, run_id))? {
            Target::Workflow(id) => {
                caller.needs(Scope::WorkflowsWrite)?;
                let given = [("action", action.is_some()), ("comment", comment.is_some()), ("step", step.is_some())];
                refuse(given.iter().filter(|(_, given)| *given).map(|(name, _)| *name), "a run, which run_id names")?;
                record::change(&self.core, &caller, id, if_match.into(), Some(&idempotency_key), patch).await
            }
            Target::Run(id) => {
                refuse(patch.as_object().into_iter().flatten().map(|(name, _)| name.as_str()), "a workflow, which id names")?;
                let action = action.ok_or_else(|| {
                    Problem::invalid(vec![FieldError::pointer("/action", "required", "action is required for a run")])
                })?;
                let steering = SteerWorkflowRun { action, comment, step };
                record::steer(&self.core, &caller, id, if_match.into(), Some(&idempotency_key), steering).await
            }
        }
    }

    /// Archive a workflow, or cancel a run
    ///
    /// With `id`, archives the workflow: it starts no more runs and stays readable. The request fails while runs have not ended,
    /// unless `cancel_runs` is true. With `run_id`, cancels the run. Returns a conflict if the run has already ended.
    #[oai(path = "/", method = "delete", operation_id = "delete_workflow")]
    async fn delete_workflow(
        &self,
        auth: Allowed<WorkflowsTrigger>,
        query: Filter<DeleteWorkflowQuery>,
        if_match: IfMatch,
        body: OptionalBody<DeleteWorkflow>,
    ) -> Result<Changed<WorkflowOrRun>, Problem> {
        let caller = Caller::from(&auth);
        match target((query.0.id, query.0.run_id), (body.0.id, body.0.run_id))? {
            Target::Workflow(id) => {
                caller.needs(Scope::WorkflowsWrite)?;
                let cancel = query.0.cancel_runs.unwrap_or(false);
                let workflow = record::archive(&self.core, &caller, id, if_match.into(), cancel).await?;
                Ok(Changed::shaped(&workflow, Some(workflow.version)))
            }
            Target::Run(_) if query.0.cancel_runs.is_some() => {
                let error = FieldError::parameter("cancel_runs", "not_applicable", "cancel_runs is allowed only with id");
                Err(Problem::invalid(vec![error]))
            }
            Target::Run(id) => record::cancel(&self.core, &caller, id, if_match.into()).await,
        }
    }
}

fn refuse<'a>(names: impl Iterator<Item = &'a str>, what: &str) -> Result<(), Problem> {
    let error =
        |name: &str| FieldError::pointer(format!("/{name}"), "not_applicable", format!("{name} is allowed only for {what}"));
    let errors: Vec<FieldError> = names.map(error).collect();
    if errors.is_empty() { Ok(()) } else { Err(Problem::invalid(errors)) }
}

/// Finds the workflow that a request names.
fn find(tx: &impl Read, tenant: TenantId, id: Option<WorkflowId>, key: Option<&str>) -> Result<WorkflowModel, WorkflowError> {
    let found = match (id, key) {
        (Some(id), _) => repo::workflows::get(tx, tenant, id)?,
        (None, Some(key)) => repo::workflows::find_key(tx, tenant, key)?,
        (None, None) => None,
    };
    let workflow = found.ok_or(WorkflowError::NotFound)?;
    if workflow.archived_at.is_some() { Err(WorkflowError::Archived) } else { Ok(workflow) }
}

/// The definition of a request: its own, that of a starter, or a starter with changes.
fn definition(body: &TriggerWorkflow) -> Result<Value, Problem> {
    let given = body.definition.as_ref().map(|definition| definition.0.clone());
    let Some(name) = body.starter.as_deref() else { return Ok(given.unwrap_or_default()) };
    let Some(starter) = starters::find(name) else {
        let error = FieldError::pointer("/starter", "unknown_starter", format!("there is no starter with the name {name}"))
            .with_allowed(starters::STARTERS.iter().map(|starter| starter.name.to_owned()).collect())
            .with_suggestion(nearest(name, starters::STARTERS.iter().map(|starter| starter.name)));
        return Err(Problem::invalid(vec![error]));
    };
    let mut definition = starter.clone();
    if let Some(patch) = given {
        merge(&mut definition, &patch);
    }
    Ok(definition)
}

/// The subject of a run, with the id of a ticket in place of its reference. Refuses a ticket that the caller cannot read.
fn check_subject(
    mut subject: Option<String>,
    tx: &ReadTx,
    tenant: TenantId,
    id_by_name: Option<IdByName>,
) -> Result<Option<String>, WorkflowError> {
    if let Some(named) = &mut subject
        && !name_subject(named, tx, tenant, id_by_name)?
    {
        return Err(WorkflowError::Invalid(vec![Fault::new("/subject_id", "unknown_reference", UNKNOWN_TICKET)]));
    }
    Ok(subject)
}

fn placed(error: WorkflowError) -> WorkflowError {
    match error {
        WorkflowError::Invalid(faults) => {
            WorkflowError::Invalid(faults.into_iter().map(|fault: Fault| fault.below("/definition")).collect())
        }
        other => other,
    }
}

impl TriggerApi {
    async fn list_workflows(&self, caller: &Caller, query: &ReadWorkflows) -> Result<Viewed<WorkflowView>, Problem> {
        let request = PageRequest::new(&caller.context, &query.page)?;
        let wanted = WorkflowQuery {
            tenant_id: caller.principal.tenant_id,
            enabled: query.enabled,
            archived: query.archived.unwrap_or(false),
        };
        let (after, limit, include_total) = (request.after.clone(), request.limit, request.include_total);
        let (core, caller) = (self.core.clone(), caller.clone());
        let read = self.core.store.scan_for(caller.principal.tenant_id, move |tx| {
            let listed = listing::workflows(tx, &wanted, after.as_deref(), limit)?;
            let total = if include_total { Some(listing::count_workflows(tx, &wanted)?) } else { None };
            let mut data = Vec::with_capacity(listed.found.len());
            for workflow in &listed.found {
                let stored = repo::workflows::version(tx, workflow.tenant_id, workflow.id, workflow.version)?;
                let definition = record::visible(&core, &caller, stored.map(|stored| stored.definition.0).unwrap_or_default());
                let last = repo::runs::last_of(tx, workflow.tenant_id, workflow.id)?;
                data.push(Workflow::new(workflow, &definition, last.as_ref()));
            }
            Ok::<_, WorkflowError>((data, listed.last, total))
        });
        let (data, last, total) = read.await?;
        Ok(Viewed::page(&data, &request.page(last, total)))
    }

    /// Only callers that can read tickets may use ticket references.
    fn id_by_name(&self, caller: &Caller) -> Option<IdByName> {
        caller.principal.grants.covers(Grants::of(&[Scope::TicketsRead])).then_some(self.core.id_by_name)
    }

    async fn list_runs(&self, caller: &Caller, query: &ReadWorkflows) -> Result<Viewed<WorkflowView>, Problem> {
        let request = PageRequest::new(&caller.context, &query.page)?;
        let mut wanted = RunQuery {
            tenant_id: caller.principal.tenant_id,
            workflow_id: query.workflow_id,
            statuses: query.status.clone().unwrap_or_default(),
            subject_id: query.subject_id.clone(),
            started_after: query.started_after,
        };
        let (after, limit, include_total) = (request.after.clone(), request.limit, request.include_total);
        let (service, grants, id_by_name) = (self.core.service.clone(), caller.principal.grants, self.id_by_name(caller));
        let read = self.core.store.scan_for(caller.principal.tenant_id, move |tx| {
            wanted.name_subject(tx, id_by_name)?;
            let listed = listing::runs(tx, &wanted, after.as_deref(), limit)?;
            let total = if include_total { Some(listing::count_runs(tx, &wanted)?) } else { None };
            let data: Result<Vec<WorkflowRun>, WorkflowError> =
                listed.found.iter().map(|run| record::show_to(&service, tx, run, grants)).collect();
            Ok::<_, WorkflowError>((data?, listed.last, total))
        });
        let (data, last, total) = read.await?;
        Ok(Viewed::page(&data, &request.page(last, total)))
    }

    async fn run(
        &self,
        caller: &Caller,
        idempotency_key: IdempotencyKey,
        body: TriggerWorkflow,
    ) -> Result<Triggered<WorkflowOutcome>, Problem> {
        let inputs = body.inputs.map_or_else(|| json!({}), |inputs| inputs.0);
        let tenant = caller.principal.tenant_id;
        let mut new = NewRun::manual(caller.run_id(), inputs, body.subject_id);
        let id_by_name = self.id_by_name(caller);
        let (id, key) = (body.workflow_id, body.workflow_key);
        let starter = caller.principal.authority();
        let ready = move |service: &Service, tx: &ReadTx, budget: &Budget| {
            let workflow = find(tx, tenant, id, key.as_deref())?;
            let outline = service.outline(tx, (tenant, workflow.id, workflow.version))?;
            if !outline.is_manual() {
                return Err(WorkflowError::NotManual);
            }
            service.check_needs(&outline, &starter)?;
            new.subject_id = check_subject(new.subject_id.take(), tx, tenant, id_by_name)?;
            service.ready(tx, &workflow, workflow.version, new, budget)
        };
        let ready = self.core.on_worker(tenant, ready).await?;
        let (service, grants) = (self.core.service.clone(), caller.principal.grants);
        let tenant = caller.principal.tenant_id;
        let started = idempotency_key
            .run(caller.context.intent(&caller.principal), move |tx, act| {
                let workflow = find(tx, act.tenant_id, Some(ready.workflow_id), None)?;
                if !workflow.enabled {
                    return Err(WorkflowError::Disabled);
                }
                match service.start(tx, act, &workflow, &ready)? {
                    Started::New(run) => {
                        Ok(Triggered::accepted(&record::show_to(&service, tx, &run, grants)?, &record::run_path(run.id)))
                    }
                    Started::Existing(run) => Ok(Triggered::ok(&record::show_to(&service, tx, &run, grants)?)),
                }
            })
            .await?;
        self.core.engine.wake(tenant);
        Ok(started)
    }

    async fn rehearse(&self, caller: &Caller, body: TriggerWorkflow) -> Result<Triggered<WorkflowOutcome>, Problem> {
        let (service, store) = (self.core.service.clone(), self.core.store.clone());
        let (tenant, id_by_name, caller) = (caller.principal.tenant_id, self.id_by_name(caller), caller.clone());
        let plan = move |tx: &ReadTx, budget: &Budget| {
            let workflow = find(tx, tenant, body.workflow_id, body.workflow_key.as_deref())?;
            check_subject(body.subject_id.clone(), tx, tenant, id_by_name)?;
            let program = service.program(tx, budget, (tenant, workflow.id, workflow.version))?;
            let inputs = body.inputs.map_or_else(|| json!({}), |inputs| inputs.0);
            let inputs = complete_inputs(&program, &inputs, budget).map_err(WorkflowError::Invalid)?;
            let names = record::rehearsal(&workflow.key, &workflow.name, &caller, inputs, body.event.map(|event| event.0));
            let intent = caller.context.intent(&caller.principal);
            let authority =
                service.rights_with(tx, (tenant, workflow.id, workflow.version), &caller.principal.authority(), intent.now)?;
            let planning = Planning { intent, authority };
            let planner = Planner { service: &service, tx, planning: &planning, program: &program, budget };
            Ok::<_, WorkflowError>(WorkflowPlan::from(planner.plan(names)?))
        };
        let planned = self.core.rehearsals.run(tenant, move |budget| store.read(|tx| plan(tx, budget))).await;
        Ok(Triggered::ok(&planned.map_err(WorkflowError::from)??))
    }

    async fn create(
        &self,
        caller: &Caller,
        idempotency_key: IdempotencyKey,
        body: &TriggerWorkflow,
    ) -> Result<Triggered<WorkflowOutcome>, Problem> {
        let accepted = self.accept(caller, definition(body)?).await.map_err(placed)?;
        let service = self.core.service.clone();
        idempotency_key
            .run(caller.context.intent(&caller.principal), move |tx, act| {
                let workflow = service.create(tx, act, &accepted).map_err(placed)?;
                let shown = Workflow::new(&workflow, &accepted.value, None);
                Ok::<_, WorkflowError>(Triggered::created(&shown, workflow.version, &record::workflow_path(workflow.id)))
            })
            .await
    }

    async fn validate(&self, caller: &Caller, body: &TriggerWorkflow) -> Result<Triggered<WorkflowOutcome>, Problem> {
        let faults = match self.accept(caller, definition(body)?).await {
            Ok(_) => Vec::new(),
            Err(WorkflowError::Invalid(faults)) => faults,
            Err(error) => return Err(error.into()),
        };
        let faults: Vec<Fault> = faults.into_iter().map(|fault| fault.below("/definition")).collect();
        Ok(Triggered::ok(&WorkflowValidation::from(faults)))
    }

    async fn take_over(
        &self,
        caller: &Caller,
        key: &IdempotencyKey,
        body: &TriggerWorkflow,
    ) -> Result<Triggered<WorkflowOutcome>, Problem> {
        let tenant = caller.principal.tenant_id;
        let (id, workflow_key) = (body.workflow_id, body.workflow_key.as_deref());
        let workflow = self.core.store.read(|tx| find(tx, tenant, id, workflow_key))?;
        record::take_over(&self.core, caller, workflow.id, key).await
    }

    async fn accept(&self, caller: &Caller, value: Value) -> Result<Accepted, WorkflowError> {
        let (tenant, now) = (caller.principal.tenant_id, caller.context.intent(&caller.principal).now);
        let author = caller.principal.authority();
        self.core.on_worker(tenant, move |service, tx, budget| service.accept(tx, &author, value, now, budget)).await
    }
}
