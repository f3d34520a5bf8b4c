//! Workflows: definitions that people, events and schedules start, and an engine that carries them out step by step.
//!
//! **Invariant:** the result of a step is on the disk before the next begins. A step that changes our own data commits its effect and
//! its result together: exactly once. A step that calls out carries a key that stays the same: at least once. **Boundary:** types of
//! steps register in a [`StepCatalogue`]; the engine knows none by name. A dry run has no way to an effect.

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
pub mod steps;
mod triggers;

use std::sync::Arc;

use poem_openapi::OpenApi;
use serde_json::Value;

use crate::kernel::{
    clocks::Clocks,
    config,
    events::{Act, EventKind, Kinds},
    id::{RunId, TenantId, WorkflowId},
    portable::Portable,
    store::{Checked, Read, Store, StoreError, WriteTx, catalog},
    tasks::{Alarm, Tasks},
};

pub use error::WorkflowError;
pub use model::{RunStatus, Workflow};
pub use steps::StepCatalogue;

use engine::Engine;
use service::Service;

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

/// What the handlers share.
#[derive(Debug)]
struct Core {
    store: Store,
    clocks: Clocks,
    service: Arc<Service>,
    engine: Engine,
}

#[derive(Clone, Debug)]
pub struct Workflows {
    core: Arc<Core>,
}

impl Workflows {
    /// The readers of the log that retention waits for.
    pub const CONSUMERS: &'static [&'static str] = &[triggers::CURSOR];

    pub fn new(store: Store, clocks: Clocks, settings: config::Workflows, catalogue: StepCatalogue, kinds: Kinds) -> Self {
        let StepCatalogue { planners, appliers } = catalogue;
        let service = Arc::new(Service::new(planners, Arc::new(kinds), settings, api::DESCRIBE));
        let engine = Engine::new(store.clone(), clocks.clone(), service.clone(), appliers);
        Self { core: Arc::new(Core { store, clocks, service, engine }) }
    }

    pub fn api(&self) -> impl OpenApi + use<> {
        let core = || self.core.clone();
        (api::TriggerApi { core: core() }, api::WorkflowApi { core: core() }, api::RunApi { core: core() })
    }

    pub fn spawn(&self, tasks: &mut Tasks) {
        let Core { store, clocks, service, engine } = self.core.as_ref();
        tasks.spawn(engine.task());
        tasks.spawn(triggers::EventReader::new(store.clone(), clocks.clone(), service.clone(), engine.clone()));
        tasks.spawn(calendar::Calendar {
            store: store.clone(),
            alarm: Alarm::new(store.clone(), clocks.clone(), &[catalog::WORKFLOWS_BY_SCHEDULE]),
            service: service.clone(),
            engine: engine.clone(),
        });
    }

    /// What of a tenant's workflows goes along to another installation. Runs that have not ended go on where they are.
    pub fn portable() -> Vec<Box<dyn Portable>> {
        repo::portable::portable()
    }

    pub fn tables() -> Vec<&'static dyn Checked> {
        vec![
            &repo::workflows::WORKFLOWS,
            &repo::workflows::VERSIONS,
            &repo::runs::RUNS,
            &repo::runs::INPUTS,
            &repo::runs::STEPS,
            &repo::COUNTS,
        ]
    }
}

/// A workflow of the tenant, archived or not.
pub fn workflow(tx: &impl Read, tenant: TenantId, id: WorkflowId) -> Result<Option<Workflow>, StoreError> {
    repo::workflows::get(tx, tenant, id)
}

/// Workflows of all tenants behind one of them, in the order of their keys.
pub fn workflows_after(tx: &impl Read, after: Option<(TenantId, WorkflowId)>, limit: usize) -> Result<Vec<Workflow>, StoreError> {
    repo::workflows::list_after(tx, after, limit)
}

/// The use cases, for those who compose them with their own.
impl Workflows {
    /// Installs a definition that comes with the binary, with what differs as a merge patch.
    pub fn install(&self, tx: &mut WriteTx, act: &mut Act, starter: &str, patch: &Value) -> Result<Workflow, WorkflowError> {
        let mut definition = starters::find(starter).cloned().ok_or(WorkflowError::NotFound)?;
        service::merge(&mut definition, patch);
        self.core.service.create(tx, act, &definition)
    }

    /// Starts a run. The engine looks for it within a minute, or at once when it is [woken](Self::wake) after the commit.
    pub fn start(&self, tx: &mut WriteTx, act: &mut Act, workflow: &Workflow, inputs: Value) -> Result<RunId, WorkflowError> {
        let new = service::NewRun::manual(inputs, None);
        match self.core.service.start(tx, act, workflow, workflow.version, &new)? {
            service::Started::New(run) | service::Started::Existing(run) => Ok(run.id),
        }
    }

    /// Lets the engine look for runs that were started.
    pub fn wake(&self) {
        self.core.engine.wake();
    }
}
