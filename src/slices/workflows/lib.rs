//! Workflows: definitions that people, events and schedules start, and an engine that runs them step by step.
//!
//! **Invariant:** the result of a step is on disk before the next step begins. A step that changes tenantd's own data commits its
//! effect together with its result: exactly once. A step that calls another server sends the same idempotency key in every attempt:
//! at least once. **Boundary:** slices register the types of steps that act on their records; the engine knows none by name. A dry
//! run has no access to code with effects.

mod api;
mod calendar;
mod definition;
mod engine;
mod error;
mod language;
mod listing;
mod model;
mod plan;
mod repo;
mod service;
mod starters;
mod steps;
mod triggers;

use std::sync::Arc;

use poem_openapi::OpenApi;
use serde_json::Value;

use tenantd_base::{
    authority::Authority,
    clocks::Clocks,
    config,
    fault::Fault,
    id::{RunId, TenantId, WorkflowId},
    programs::{Budget, Programs},
};
use tenantd_egress::Egress;
use tenantd_platform::Tenants;
use tenantd_secrets::Vault;
use tenantd_store::{
    Checked, Read, ReadTx, Store, StoreError, WriteTx, catalog,
    events::{EventKind, Intent, Kinds},
    holders::Holders,
    portable::Portable,
    steps::StepEntry,
    tasks::{Alarm, Tasks},
};

pub use error::WorkflowError;
pub use model::{RunStatus, Workflow};

use engine::Engine;
use model::Origin;
use service::{NewRun, Service, Started};
use steps::{HttpRequest, catalogue};

pub const EVENTS: &[&EventKind] = &[
    &service::CREATED,
    &service::UPDATED,
    &service::DELETED,
    &service::RUN_STARTED,
    &service::RUN_WAITING,
    &service::RUN_SUCCEEDED,
    &service::RUN_FAILED,
    &service::RUN_CANCELLED,
    &service::RUN_TIMED_OUT,
];

/// The state that all handlers share.
#[derive(Debug)]
struct Core {
    store: Store,
    clocks: Clocks,
    service: Arc<Service>,
    tenants: Tenants,
    engine: Engine,
    programs: Programs,
    rehearsals: Programs,
    id_by_name: IdByName,
}

impl Core {
    /// Runs `work` on a snapshot when it is the tenant's turn.
    async fn on_worker<T: Send + 'static>(
        &self,
        tenant: TenantId,
        work: impl FnOnce(&Service, &ReadTx, &Budget) -> Result<T, WorkflowError> + Send + 'static,
    ) -> Result<T, WorkflowError> {
        let (service, store) = (self.service.clone(), self.store.clone());
        self.programs.run(tenant, move |budget| store.read(|tx| work(&service, tx, budget))).await?
    }
}

/// What workflows need from the rest of the server.
#[derive(Clone, Debug)]
pub struct Dependencies {
    /// Evaluates the programs of tenants.
    pub programs: Programs,
    /// The same for dry runs, which read many records in addition to evaluating.
    pub rehearsals: Programs,
    pub tenants: Tenants,
    pub egress: Egress,
    /// Opens the named secrets that steps send.
    pub vault: Vault,
    /// Looks up the rights of the users and keys that workflows act for.
    pub holders: Holders,
    pub id_by_name: IdByName,
}

/// Finds the id of a ticket by its reference, such as `T-1042` or `1042`.
pub type IdByName = fn(&ReadTx, TenantId, &str) -> Result<Option<String>, StoreError>;

/// Replaces the reference of a ticket with its id. Returns false if the ticket does not exist, or if `by_name` is `None`: a caller
/// that cannot read tickets must not learn which ones exist. A bare number without a ticket stays as it is, because it can be the
/// subject of a run by itself.
fn name_subject(subject: &mut String, tx: &ReadTx, tenant: TenantId, by_name: Option<IdByName>) -> Result<bool, StoreError> {
    let is_reference = subject.strip_prefix(['T', 't']).is_some_and(|rest| rest.starts_with('-'));
    let is_number = subject.bytes().all(|byte| byte.is_ascii_digit());
    let Some(by_name) = by_name.filter(|_| is_reference || is_number) else { return Ok(!is_reference) };
    let found = by_name(tx, tenant, subject)?;
    Ok(found.map(|id| *subject = id).is_some() || is_number)
}

#[derive(Clone, Debug)]
pub struct Workflows {
    core: Arc<Core>,
}

impl Workflows {
    /// The readers of the log. Retention keeps events until all of them have read them.
    pub const CONSUMERS: &'static [&'static str] = &[triggers::CURSOR];

    /// `steps` are the steps of the other slices.
    pub fn new(
        store: Store,
        clocks: Clocks,
        settings: config::Workflows,
        steps: Vec<StepEntry>,
        kinds: Kinds,
        around: Dependencies,
    ) -> Result<Self, String> {
        let Dependencies { programs, rehearsals, tenants, egress, vault, holders, id_by_name } = around;
        let request = StepEntry::remote(HttpRequest { egress, tenants: tenants.clone(), vault });
        let (planners, appliers) = catalogue(steps.into_iter().chain([request]))?;
        let service = Arc::new(Service::new(planners, Arc::new(kinds), settings, holders));
        let engine = Engine::new(store.clone(), clocks.clone(), service.clone(), tenants.clone(), appliers, programs.clone());
        Ok(Self { core: Arc::new(Core { store, clocks, service, tenants, engine, programs, rehearsals, id_by_name }) })
    }

    pub fn api(&self) -> impl OpenApi + use<> {
        let core = || self.core.clone();
        (api::TriggerApi { core: core() }, api::WorkflowApi { core: core() }, api::RunApi { core: core() })
    }

    /// The operations that only the admin socket serves.
    pub fn admin_api(&self) -> impl OpenApi + use<> {
        api::AdminWorkflowsApi { core: self.core.clone() }
    }

    pub fn spawn(&self, tasks: &mut Tasks) {
        let Core { store, clocks, service, tenants, engine, programs, .. } = self.core.as_ref();
        tasks.spawn(engine.task());
        tasks.spawn(triggers::EventReader::new(store.clone(), tenants.clone()));
        tasks.spawn(triggers::TriggerWorkers::new(
            store.clone(),
            clocks.clone(),
            service.clone(),
            engine.clone(),
            programs.clone(),
            tenants.clone(),
        ));
        tasks.spawn(calendar::Calendar {
            store: store.clone(),
            alarm: Alarm::new(store.clone(), clocks.clone(), &[catalog::WORKFLOWS_BY_SCHEDULE]),
            service: service.clone(),
            engine: engine.clone(),
            programs: programs.clone(),
            tenants: tenants.clone(),
        });
    }

    /// Checks each workflow of an older release once, before anything starts it. Returns how many have no author with enough
    /// rights.
    pub async fn adopt(&self) -> Result<u64, WorkflowError> {
        const AT_ONCE: usize = 256;
        let Core { store, clocks, service, .. } = self.core.as_ref();
        let (mut after, mut legacy) = (None, 0);
        loop {
            let found = store.read(|tx| repo::workflows::list_after(tx, after, AT_ONCE))?;
            let Some(last) = found.last() else { return Ok(legacy) };
            after = Some((last.tenant_id, last.id));
            let mut adopted = Vec::new();
            for mut workflow in found.into_iter().filter(|workflow| workflow.origin == Origin::Unchecked) {
                workflow.origin = match store.read(|tx| service.origin_of(tx, &workflow, clocks.now(workflow.tenant_id))) {
                    // Without a definition there is nothing to run.
                    Err(WorkflowError::NotFound) => Origin::Checked,
                    origin => origin?,
                };
                legacy += u64::from(workflow.origin != Origin::Checked && workflow.archived_at.is_none());
                adopted.push(workflow);
            }
            if !adopted.is_empty() {
                let keep = move |tx: &mut WriteTx| adopted.iter().try_for_each(|one| repo::workflows::put(tx, one, Some(one)));
                store.write(keep).await?;
            }
        }
    }

    /// The parts of a tenant's workflows that move to another installation. Unfinished runs stay and continue where they are.
    pub fn portable(&self) -> Vec<Box<dyn Portable>> {
        let (service, programs) = (self.core.service.clone(), self.core.programs.clone());
        let read = move |tenant: TenantId, definition: &Value| {
            let first_fault = |faults: Vec<Fault>| {
                let first = faults.into_iter().next().map(|fault| fault.to_string());
                first.unwrap_or_else(|| "it is not readable".to_owned())
            };
            let (service, definition) = (service.clone(), definition.clone());
            let read = programs.run_blocking(tenant, move |budget| service.compile(&definition, budget));
            let read = read.map_err(|error| error.to_string())?.map_err(first_fault)?.definition;
            let (key, name, events) = (read.key.clone(), read.name.clone(), read.events());
            Ok(repo::portable::DefinitionFields { key, name, enabled: read.enabled, events })
        };
        let max_workflows = self.core.store.default_quotas().workflows;
        repo::portable::portable(repo::portable::Rules { max_workflows, read: Box::new(read) })
    }

    pub fn tables() -> Vec<&'static dyn Checked> {
        vec![
            &repo::workflows::WORKFLOWS,
            &repo::workflows::VERSIONS,
            &repo::runs::RUNS,
            &repo::runs::INPUTS,
            &repo::runs::STEPS,
            &repo::COUNTS,
            &repo::queue::QUEUE,
            &repo::causes::CAUSES,
        ]
    }
}

/// The number of workflows that are not archived, and the number of unfinished runs.
pub fn counts(tx: &impl Read, tenant: TenantId) -> Result<(u64, u64), StoreError> {
    let counts = repo::counts(tx, tenant)?;
    Ok((counts.workflows, counts.active_runs))
}

/// A workflow of the tenant, archived or not.
pub fn workflow(tx: &impl Read, tenant: TenantId, id: WorkflowId) -> Result<Option<Workflow>, StoreError> {
    repo::workflows::get(tx, tenant, id)
}

/// Workflows of all tenants after a given one, in key order.
pub fn workflows_after(tx: &impl Read, after: Option<(TenantId, WorkflowId)>, limit: usize) -> Result<Vec<Workflow>, StoreError> {
    repo::workflows::list_after(tx, after, limit)
}

/// The use cases that build the history of an evaluation tenant.
impl Workflows {
    /// Installs a starter definition, changed by a merge patch.
    pub async fn install(&self, intent: Intent, starter: &str, patch: &Value) -> Result<Workflow, WorkflowError> {
        let mut definition = starters::find(starter).cloned().ok_or(WorkflowError::NotFound)?;
        service::merge(&mut definition, patch);
        let (tenant, now) = (intent.tenant_id, intent.now);
        let author = Authority::everything(tenant);
        let accept = move |service: &Service, tx: &ReadTx, budget: &Budget| service.accept(tx, &author, definition, now, budget);
        let accepted = self.core.on_worker(tenant, accept).await?;
        let service = self.core.service.clone();
        self.core.store.write(move |tx| service.create(tx, &mut intent.begin(), &accepted)).await
    }

    /// Starts a run. The engine finds it within a minute, or immediately after a call of [`wake`](Self::wake).
    pub async fn start(&self, intent: Intent, workflow: Workflow, inputs: Value) -> Result<RunId, WorkflowError> {
        let mut act = intent.begin();
        let new = NewRun::manual(RunId::new(act.now, &mut act.entropy), inputs, None);
        let seen = workflow.clone();
        let ready = move |service: &Service, tx: &ReadTx, budget: &Budget| service.ready(tx, &seen, seen.version, new, budget);
        let ready = self.core.on_worker(workflow.tenant_id, ready).await?;
        let service = self.core.service.clone();
        let start = move |tx: &mut WriteTx| {
            let mut act = intent.begin();
            // `begin` restarts the random numbers: skip the id that the run already has.
            RunId::new(act.now, &mut act.entropy);
            service.start(tx, &mut act, &workflow, &ready)
        };
        match self.core.store.write(start).await? {
            Started::New(run) | Started::Existing(run) => Ok(run.id),
        }
    }

    /// Makes the engine look for started runs of a tenant.
    pub fn wake(&self, tenant: TenantId) {
        self.core.engine.wake(tenant);
    }
}
