//! `/api/psa/workflows/trigger/{id}` and `/api/psa/workflows/trigger/runs/{id}`: one workflow, one run. The methods of the
//! collection are implemented here too.

use std::{sync::Arc, time::Duration};

use poem_openapi::{Object, OpenApi, param::Path};
use serde_json::{Map, Value, json};

use tenantd_base::{
    access::{Grants, Principal, Scope},
    id::{RunId, TenantId, WorkflowId},
    programs::Budget,
    versions::ExpectedVersion,
};
use tenantd_http::{
    context::RequestContext,
    idempotency::{IdempotencyKey, Refused},
    input::{Body, Filter, Lenient},
    need::{Allowed, Need, WorkflowsDecide, WorkflowsRead, WorkflowsRun, WorkflowsWrite},
    precondition::{IfMatch, IfNoneMatch},
    problem::Problem,
    reply::{Changed, Found, Replayable, Triggered},
};
use tenantd_store::{
    Read, ReadTx, WriteTx, catalog,
    events::{Act, Intent},
};

use super::{
    super::{
        Core,
        error::WorkflowError,
        model::Run,
        repo,
        service::{Approver, CANCELLED_AT_ONCE, Service, Steering, Verdict},
    },
    Area,
    bodies::{SteerWorkflowRun, WorkflowPatch},
    run_wire::{WorkflowRun, WorkflowRunStep},
    wire::Workflow,
};

/// How often a patch is applied again when others change the workflow at the same time.
const CHANGE_TRIES: usize = 8;
/// How many steps of a run are returned.
const MAX_STEPS_SHOWN: usize = 2_000;

pub(super) fn workflow_path(id: WorkflowId) -> String {
    format!("/api/psa/workflows/trigger/{id}")
}

pub(super) fn run_path(id: RunId) -> String {
    format!("/api/psa/workflows/trigger/runs/{id}")
}

/// The caller, and the time of the request.
#[derive(Clone, Debug)]
pub(super) struct Caller {
    pub(super) principal: Arc<Principal>,
    pub(super) context: Arc<RequestContext>,
}

impl<R> From<&Allowed<R>> for Caller {
    fn from(auth: &Allowed<R>) -> Self {
        Self { principal: auth.principal.clone(), context: auth.context.clone() }
    }
}

impl Caller {
    pub(super) fn needs(&self, scope: Scope) -> Result<(), Problem> {
        Need::Scope(scope).check(&self.principal)
    }

    /// The id of the run that the caller is about to start.
    pub(super) fn run_id(&self) -> RunId {
        let mut act = self.context.intent(&self.principal).begin();
        RunId::new(act.now, &mut act.entropy)
    }

    fn tenant(&self) -> TenantId {
        self.principal.tenant_id
    }
}

#[derive(Debug, Object)]
pub(super) struct WorkflowVersionQuery {
    /// The version of the definition to return. Defaults to the newest.
    #[oai(validator(minimum(value = "1"), maximum(value = "9007199254740991")))]
    pub(super) version: Option<u64>,
}

#[derive(Debug, Object)]
struct WorkflowWaitQuery {
    /// How long to wait for the end of the run, in seconds. Defaults to 0.
    #[oai(validator(minimum(value = "0"), maximum(value = "30")))]
    wait_seconds: Option<u32>,
}

#[derive(Debug, Object)]
struct ArchiveWorkflowQuery {
    /// Whether to cancel the unfinished runs. Without it, the request fails while there are any.
    cancel_runs: Option<bool>,
}

pub(crate) struct WorkflowApi {
    pub(crate) core: Arc<Core>,
}

#[OpenApi(prefix_path = "/api/psa/workflows/trigger", tag = "Area::Workflows")]
impl WorkflowApi {
    /// Read a workflow
    ///
    /// Returns the newest version of its definition, or an earlier one.
    #[oai(path = "/:id", method = "get", operation_id = "read_workflow")]
    async fn read_workflow(
        &self,
        auth: Allowed<WorkflowsRead>,
        id: Path<WorkflowId>,
        query: Filter<WorkflowVersionQuery>,
        if_none_match: IfNoneMatch,
    ) -> Result<Found<Workflow>, Problem> {
        let workflow = read_workflow(&self.core, &(&auth).into(), id.0, query.0.version)?;
        let version = workflow.version;
        Ok(if if_none_match.knows(version) { Found::not_modified(version) } else { Found::new(&workflow, version) })
    }

    /// Change a workflow by its path
    ///
    /// Applies a merge patch to the definition and stores it as the next version. Unfinished runs continue with their version.
    #[oai(path = "/:id", method = "patch", operation_id = "update_workflow_by_id")]
    async fn update_workflow_by_id(
        &self,
        auth: Allowed<WorkflowsWrite>,
        id: Path<WorkflowId>,
        if_match: IfMatch,
        body: Lenient<WorkflowPatch>,
    ) -> Result<Changed<Workflow>, Problem> {
        change(&self.core, &(&auth).into(), id.0, if_match.into(), None, body.0.into_json()).await
    }

    /// Archive a workflow by its path
    ///
    /// Archives the workflow: it starts no more runs, stays readable, and its key can be used again.
    #[oai(path = "/:id", method = "delete", operation_id = "archive_workflow_by_id")]
    async fn archive_workflow_by_id(
        &self,
        auth: Allowed<WorkflowsWrite>,
        id: Path<WorkflowId>,
        query: Filter<ArchiveWorkflowQuery>,
        if_match: IfMatch,
    ) -> Result<Changed<Workflow>, Problem> {
        let cancel = query.0.cancel_runs.unwrap_or(false);
        let workflow = archive(&self.core, &(&auth).into(), id.0, if_match.into(), cancel).await?;
        Ok(Changed::new(&workflow, workflow.version))
    }
}

pub(crate) struct RunApi {
    pub(crate) core: Arc<Core>,
}

#[OpenApi(prefix_path = "/api/psa/workflows/trigger/runs", tag = "Area::Workflows")]
impl RunApi {
    /// Read a run
    ///
    /// Returns the run with its steps. With `wait_seconds`, the request waits until the run has ended or the time is over.
    #[oai(path = "/:id", method = "get", operation_id = "read_workflow_run")]
    async fn read_workflow_run(
        &self,
        auth: Allowed<WorkflowsRead>,
        id: Path<RunId>,
        query: Filter<WorkflowWaitQuery>,
        if_none_match: IfNoneMatch,
    ) -> Result<Found<WorkflowRun>, Problem> {
        let run = read_run(&self.core, &(&auth).into(), id.0, query.0.wait_seconds).await?;
        let version = run.version;
        Ok(if if_none_match.knows(version) { Found::not_modified(version) } else { Found::new(&run, version) })
    }

    /// Control a run by its path
    ///
    /// Cancels, pauses, resumes, retries, approves or rejects the run. `retry` returns a new run with `retry_of`. With an
    /// `Idempotency-Key`, a request that is sent again acts once: a repeated `retry` returns the run that the first one started.
    #[oai(path = "/:id", method = "patch", operation_id = "steer_workflow_run_by_id")]
    async fn steer_workflow_run_by_id(
        &self,
        auth: Allowed<WorkflowsDecide>,
        id: Path<RunId>,
        if_match: IfMatch,
        idempotency_key: IdempotencyKey,
        body: Body<SteerWorkflowRun>,
    ) -> Result<Changed<WorkflowRun>, Problem> {
        steer(&self.core, &(&auth).into(), id.0, if_match.into(), Some(&idempotency_key), body.0).await
    }

    /// Cancel a run by its path
    ///
    /// Cancels the run and stops its steps in progress. Completed steps are not undone. Returns a conflict if the run has already
    /// ended.
    #[oai(path = "/:id", method = "delete", operation_id = "cancel_workflow_run_by_id")]
    async fn cancel_workflow_run_by_id(
        &self,
        auth: Allowed<WorkflowsRun>,
        id: Path<RunId>,
        if_match: IfMatch,
    ) -> Result<Changed<WorkflowRun>, Problem> {
        cancel(&self.core, &(&auth).into(), id.0, if_match.into()).await
    }
}

/// The parts of the definition that the caller may see.
pub(super) fn visible(core: &Core, caller: &Caller, definition: Value) -> Value {
    if caller.principal.grants.allows(Scope::WorkflowsWrite) { definition } else { core.service.without_secrets(&definition) }
}

pub(super) fn read_workflow(core: &Core, caller: &Caller, id: WorkflowId, version: Option<u64>) -> Result<Workflow, Problem> {
    let tenant = caller.tenant();
    let found = core.store.read(|tx| {
        let mut workflow = repo::workflows::get(tx, tenant, id)?.ok_or(WorkflowError::NotFound)?;
        let wanted = version.unwrap_or(workflow.version);
        let stored = repo::workflows::version(tx, tenant, id, wanted)?.ok_or(WorkflowError::NotFound)?;
        if wanted != workflow.version {
            let text = |name: &str| stored.definition.0.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
            (workflow.key, workflow.name) = (text("key"), text("name"));
            workflow.enabled = stored.definition.0.get("enabled").and_then(Value::as_bool).unwrap_or(true);
            (workflow.version, workflow.updated_at, workflow.archived_at) = (wanted, stored.changed_at, None);
        }
        let last = repo::runs::last_of(tx, tenant, id)?;
        let definition = visible(core, caller, stored.definition.0);
        Ok::<_, WorkflowError>(Workflow::new(&workflow, &definition, last.as_ref()))
    })?;
    Ok(found)
}

/// A run as in a list, for a reader with these scopes.
pub(super) fn show_to(service: &Service, tx: &impl Read, run: &Run, held: Grants) -> Result<WorkflowRun, WorkflowError> {
    let inputs = repo::runs::inputs(tx, (run.tenant_id, run.id))?.inputs.0;
    let mut shown = WorkflowRun::new(run, Some(inputs));
    redact(service, tx, run, held, &mut shown)?;
    Ok(shown)
}

/// Hides the values that the reader could not read elsewhere.
fn redact(service: &Service, tx: &impl Read, run: &Run, held: Grants, shown: &mut WorkflowRun) -> Result<(), WorkflowError> {
    let lacking = service.label_of(tx, run)?.without(held);
    if lacking != Grants::NONE {
        shown.redact(lacking);
    }
    Ok(())
}

/// A run with its steps, for a reader with these scopes.
pub(super) fn show_all(service: &Service, tx: &impl Read, run: &Run, held: Grants) -> Result<WorkflowRun, WorkflowError> {
    let mut shown = WorkflowRun::new(run, Some(repo::runs::inputs(tx, (run.tenant_id, run.id))?.inputs.0));
    let (steps, more) = repo::runs::steps(tx, (run.tenant_id, run.id), MAX_STEPS_SHOWN)?;
    shown.steps = Some(steps.into_iter().map(|(path, step)| WorkflowRunStep::new(path, step)).collect());
    shown.steps_truncated = more.then_some(true);
    redact(service, tx, run, held, &mut shown)?;
    Ok(shown)
}

pub(super) async fn read_run(core: &Core, caller: &Caller, id: RunId, wait_seconds: Option<u32>) -> Result<WorkflowRun, Problem> {
    let key = (caller.tenant(), id);
    let deadline = core.clocks.installation().now() + Duration::from_secs(u64::from(wait_seconds.unwrap_or(0)));
    loop {
        let seen = core.store.version(catalog::WORKFLOW_RUNS);
        let run = core.store.read(|tx| repo::runs::get(tx, key)?.ok_or(WorkflowError::RunNotFound))?;
        if run.status.has_ended() || core.clocks.installation().now() >= deadline {
            let (service, held) = (core.service.clone(), caller.principal.grants);
            return Ok(core.store.scan_for(caller.principal.tenant_id, move |tx| show_all(&service, tx, &run, held)).await?);
        }
        tokio::select! {
            () = core.store.changed(catalog::WORKFLOW_RUNS, seen) => {}
            () = core.clocks.installation().sleep_until(deadline) => {}
        }
    }
}

/// Runs the effect in one transaction. With a key, the same transaction stores the answer.
async fn commit<T: Replayable>(
    core: &Core,
    key: Option<&IdempotencyKey>,
    intent: Intent,
    mut effect: impl FnMut(&mut WriteTx, &mut Act) -> Result<T, WorkflowError> + Send + 'static,
) -> Result<T, Refused<WorkflowError>> {
    match key {
        Some(key) => key.attempt(intent, effect).await,
        None => core.store.write(move |tx| effect(tx, &mut intent.begin())).await.map_err(Refused::Effect),
    }
}

pub(super) async fn change<R: 'static>(
    core: &Core,
    caller: &Caller,
    id: WorkflowId,
    expected: ExpectedVersion,
    key: Option<&IdempotencyKey>,
    patch: Value,
) -> Result<Changed<R>, Problem> {
    let shown = |workflow: &Workflow| Changed::shaped(workflow, Some(workflow.version));
    rewrite(core, caller, id, expected, key, Rewrite::Patch(Arc::new(patch)), shown).await
}

/// Makes the caller the owner of a workflow.
pub(super) async fn take_over<R: 'static>(
    core: &Core,
    caller: &Caller,
    id: WorkflowId,
    key: &IdempotencyKey,
) -> Result<Triggered<R>, Problem> {
    let expected = ExpectedVersion::Unspecified;
    rewrite(core, caller, id, expected, Some(key), Rewrite::TakeOver, |workflow| Triggered::ok(workflow)).await
}

/// The source of a workflow's next version.
#[derive(Clone, Debug)]
enum Rewrite {
    Patch(Arc<Value>),
    TakeOver,
}

async fn rewrite<T: Replayable>(
    core: &Core,
    caller: &Caller,
    id: WorkflowId,
    expected: ExpectedVersion,
    key: Option<&IdempotencyKey>,
    rewrite: Rewrite,
    shown: fn(&Workflow) -> T,
) -> Result<T, Problem> {
    let intent = caller.context.intent(&caller.principal);
    let mut tries = 0;
    loop {
        let (rewrite, author, now) = (rewrite.clone(), caller.principal.authority(), intent.now);
        let accept = move |service: &Service, tx: &ReadTx, budget: &Budget| match &rewrite {
            Rewrite::Patch(patch) => service.accept_change(tx, &author, id, patch, now, budget),
            Rewrite::TakeOver => service.accept_takeover(tx, &author, id, now, budget),
        };
        let change = core.on_worker(caller.tenant(), accept).await?;
        let (service, expected) = (core.service.clone(), expected.clone());
        let written = commit(core, key, intent.clone(), move |tx, act| {
            let (workflow, definition) = service.change(tx, act, id, &expected, &change)?;
            let last = repo::runs::last_of(tx, workflow.tenant_id, id)?;
            Ok(shown(&Workflow::new(&workflow, &definition, last.as_ref())))
        });
        tries += 1;
        match written.await {
            // Without `If-Match`, the patch applies to the newest version.
            Err(Refused::Effect(WorkflowError::ChangedMeanwhile)) if tries < CHANGE_TRIES => {}
            other => return other.map_err(Refused::into_problem),
        }
    }
}

pub(super) async fn archive(
    core: &Core,
    caller: &Caller,
    id: WorkflowId,
    expected: ExpectedVersion,
    cancel: bool,
) -> Result<Workflow, Problem> {
    let intent = caller.context.intent(&caller.principal);
    let service = core.service.clone();
    // Cancels many runs in parts, so that other requests do not have to wait for all of them.
    let mut more = cancel;
    while more {
        let (service, intent, expected) = (service.clone(), intent.clone(), expected.clone());
        let part = core.store.write(move |tx| service.cancel_some(tx, &mut intent.begin(), id, &expected));
        more = part.await? == CANCELLED_AT_ONCE;
    }
    let written = core.store.write(move |tx| {
        let (workflow, definition) = service.archive(tx, &mut intent.begin(), id, &expected, cancel)?;
        let last = repo::runs::last_of(tx, workflow.tenant_id, id)?;
        Ok::<_, WorkflowError>(Workflow::new(&workflow, &definition, last.as_ref()))
    });
    let workflow = written.await?;
    core.engine.wake(caller.principal.tenant_id);
    Ok(workflow)
}

pub(super) async fn steer<R: 'static>(
    core: &Core,
    caller: &Caller,
    id: RunId,
    expected: ExpectedVersion,
    idempotency_key: Option<&IdempotencyKey>,
    body: SteerWorkflowRun,
) -> Result<Changed<R>, Problem> {
    body.check()?;
    let SteerWorkflowRun { action: steering, comment, step } = body;
    if !matches!(steering, Steering::Approve | Steering::Reject) {
        caller.needs(Scope::WorkflowsRun)?;
    }
    let key = (caller.tenant(), id);
    let approved = steering == Steering::Approve;
    let verdict = Verdict { approver: Approver::of(&caller.principal), step, approved, comment };
    let intent = caller.context.intent(&caller.principal);
    let run_id = caller.run_id();
    let ready = match steering {
        Steering::Retry => {
            Some(core.on_worker(key.0, move |service, tx, budget| service.ready_again(tx, key, run_id, budget)).await?)
        }
        _ => None,
    };
    if matches!(steering, Steering::Retry | Steering::Resume) {
        // A caller that resumes or retries a run makes it act, so the caller must have the needed scopes.
        let (service, held) = (core.service.clone(), caller.principal.authority());
        core.store.read(|tx| {
            let run = repo::runs::get(tx, key)?.ok_or(WorkflowError::RunNotFound)?;
            service.check_needs(&*service.outline(tx, (key.0, run.workflow_id, run.workflow_version))?, &held)
        })?;
    }
    let (service, held) = (core.service.clone(), caller.principal.grants);
    let steered = commit(core, idempotency_key, intent, move |tx, act| {
        let run = match (steering, &ready) {
            (Steering::Retry, Some(ready)) => service.retry(tx, act, key, &expected, ready)?,
            (Steering::Approve | Steering::Reject, _) => service.decide(tx, act, key, &expected, &verdict)?,
            _ => service.steer(tx, act, key, &expected, steering)?,
        };
        Ok(Changed::shaped(&show_all(&service, tx, &run, held)?, Some(run.version)))
    });
    let steered = steered.await.map_err(Refused::into_problem)?;
    core.engine.wake(caller.principal.tenant_id);
    Ok(steered)
}

pub(super) async fn cancel<R: 'static>(
    core: &Core,
    caller: &Caller,
    id: RunId,
    expected: ExpectedVersion,
) -> Result<Changed<R>, Problem> {
    let body = SteerWorkflowRun { action: Steering::Cancel, comment: None, step: None };
    steer(core, caller, id, expected, None, body).await
}

/// The names that the expressions of a dry run can use.
pub(super) fn rehearsal(
    workflow_key: &str,
    workflow_name: &str,
    caller: &Caller,
    inputs: Value,
    event: Option<Value>,
) -> Map<String, Value> {
    let mut names = Map::new();
    names.insert("inputs".to_owned(), inputs);
    if let Some(event) = event {
        names.insert("event".to_owned(), event);
    }
    let run = json!({
        "id": RunId::example(),
        "workflow_key": workflow_key,
        "workflow_name": workflow_name,
        "created_at": caller.context.now,
        "started_by": {"id": tenantd_store::events::Actor::of(&caller.principal).id},
    });
    names.insert("run".to_owned(), run);
    names
}
