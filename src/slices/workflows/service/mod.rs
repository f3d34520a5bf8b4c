//! The use cases of workflows and runs. Each method runs in the caller's transaction: check, write, append the event.

mod credentials;
mod definitions;
mod labels;
mod legacy;
mod people;
mod ready;
mod rights;
mod room;
mod stage;
mod start;
mod steer;

use std::{sync::Arc, time::Duration};

use serde_json::Value;

use tenantd_base::{
    access::{Grants, Scope},
    cache::Cache,
    config,
    fault::Fault,
    id::{TenantId, WorkflowId},
    programs::Budget,
};
use tenantd_store::{
    Read, WriteTx,
    events::{self, Act, Actor, Changes, Describe, Draft, EventKind, Kinds},
    holders::Holders,
    steps::StepType,
};

use super::{
    definition::{self, Definition, Program},
    error::WorkflowError,
    model::{Run, Workflow},
    repo,
    steps::Planners,
};

pub(super) use definitions::{CANCELLED_AT_ONCE, merge};
pub(super) use ready::{Accepted, ReadyRun, complete_inputs};
pub(super) use room::ensure_room;
pub(super) use stage::Stage;
pub(super) use start::{MAX_DEPTH, NewRun, Started, depth_below};
pub(super) use steer::{Approver, Steering, Verdict};

pub(super) static CREATED: EventKind = EventKind {
    name: "workflow.created",
    summary: "A workflow was created.",
    subject: "workflow",
    schema: "Workflow",
    reads: Grants::of(&[Scope::WorkflowsRead]),
    has_changes: false,
};
pub(super) static UPDATED: EventKind =
    EventKind { name: "workflow.updated", summary: "A workflow was changed and has a new version.", has_changes: true, ..CREATED };
pub(super) static DELETED: EventKind = EventKind { name: "workflow.deleted", summary: "A workflow was archived.", ..CREATED };
pub(super) static RUN_STARTED: EventKind = EventKind {
    name: "workflow.run.started",
    summary: "A run of a workflow was started.",
    subject: "run",
    schema: "WorkflowRun",
    reads: Grants::of(&[Scope::WorkflowsRead]),
    has_changes: false,
};
pub(super) static RUN_SUCCEEDED: EventKind =
    EventKind { name: "workflow.run.succeeded", summary: "A run of a workflow succeeded.", ..RUN_STARTED };
pub(super) static RUN_FAILED: EventKind =
    EventKind { name: "workflow.run.failed", summary: "A run of a workflow failed.", ..RUN_STARTED };
pub(super) static RUN_CANCELLED: EventKind =
    EventKind { name: "workflow.run.cancelled", summary: "A run of a workflow was cancelled.", ..RUN_STARTED };
pub(super) static RUN_TIMED_OUT: EventKind =
    EventKind { name: "workflow.run.timed_out", summary: "A run of a workflow exceeded its time limit.", ..RUN_STARTED };
pub(super) static RUN_WAITING: EventKind = EventKind {
    name: "workflow.run.waiting",
    summary: "A run waits for an approval, an event, a time, another run or its next attempt.",
    ..RUN_STARTED
};

/// A version of a workflow. It never changes, so cached data about it stays valid.
pub(super) type VersionKey = (TenantId, WorkflowId, u64);
type VersionCache<T> = Cache<VersionKey, Arc<T>>;

/// The maximum size of the cached definitions, in bytes.
const MAX_CACHED_BYTES: u64 = 64 << 20;
const MAX_CACHED_AUTHORS: u64 = 10_000;

#[derive(Clone, Debug)]
pub(super) struct Service {
    pub(super) planners: Planners,
    pub(super) kinds: Arc<Kinds>,
    pub(super) settings: config::Workflows,
    /// Looks up current rights.
    holders: Holders,
    outlines: VersionCache<Definition>,
    compiled: VersionCache<Program>,
    authors: VersionCache<Actor>,
}

impl Service {
    pub(super) fn new(planners: Planners, kinds: Arc<Kinds>, settings: config::Workflows, holders: Holders) -> Self {
        let outlines = VersionCache::weighed(MAX_CACHED_BYTES, |_, outline: &Arc<Definition>| outline.weight);
        let compiled = VersionCache::weighed(MAX_CACHED_BYTES, |_, program: &Arc<Program>| program.weight);
        let authors = VersionCache::new(MAX_CACHED_AUTHORS);
        Self { planners, kinds, settings, holders, outlines, compiled, authors }
    }

    pub(super) fn retention(&self) -> Duration {
        Duration::from_secs(u64::from(self.settings.retention_days) * 86_400)
    }

    /// Reads a definition and compiles its programs, or returns everything that is wrong with the definition itself.
    pub(super) fn compile(&self, value: &Value, budget: &Budget) -> Result<Program, Vec<Fault>> {
        definition::compile(value, &self.planners, &self.kinds, budget)
    }

    /// The structure of a version, without its programs. The writer may use it.
    pub(super) fn outline(&self, tx: &impl Read, key: VersionKey) -> Result<Arc<Definition>, WorkflowError> {
        if let Some(found) = self.outlines.get(&key) {
            return Ok(found);
        }
        let stored = repo::workflows::version(tx, key.0, key.1, key.2)?.ok_or(WorkflowError::NotFound)?;
        let outline = Arc::new(definition::outline(&stored.definition.0, &self.planners));
        self.outlines.insert(key, outline.clone());
        Ok(outline)
    }

    /// The author who saved a version.
    fn author(&self, tx: &impl Read, key: VersionKey) -> Result<Arc<Actor>, WorkflowError> {
        if let Some(found) = self.authors.get(&key) {
            return Ok(found);
        }
        let stored = repo::workflows::version(tx, key.0, key.1, key.2)?.ok_or(WorkflowError::NotFound)?;
        let author = Arc::new(stored.changed_by);
        self.authors.insert(key, author.clone());
        Ok(author)
    }

    /// A version with its programs. A version that an older release accepted and this one refuses is an error with its faults.
    pub(super) fn program(&self, tx: &impl Read, budget: &Budget, key: VersionKey) -> Result<Arc<Program>, WorkflowError> {
        if let Some(found) = self.compiled.get(&key) {
            return Ok(found);
        }
        let stored = repo::workflows::version(tx, key.0, key.1, key.2)?.ok_or(WorkflowError::NotFound)?;
        let program = Arc::new(self.compile(&stored.definition.0, budget).map_err(WorkflowError::Invalid)?);
        self.compiled.insert(key, program.clone());
        Ok(program)
    }

    /// A definition without the parts that only callers with write access may see, such as the credentials that its steps send.
    pub(super) fn without_secrets(&self, definition: &Value) -> Value {
        let mut shown = definition.clone();
        redact(&self.planners, &mut shown, StepType::redact);
        shown
    }

    /// A definition as events show it.
    fn in_event(&self, definition: &Value) -> Value {
        let mut shown = definition.clone();
        redact(&self.planners, &mut shown, StepType::redact_in_event);
        shown
    }

    fn announce(
        &self,
        tx: &mut WriteTx,
        act: &mut Act,
        kind: &'static EventKind,
        workflow: &Workflow,
        definition: &Value,
        changes: Option<Changes>,
    ) -> Result<(), WorkflowError> {
        let shown = workflow.describe(&self.in_event(definition))?;
        let draft = Draft::new(kind, workflow.id.to_string(), workflow.version, &shown).with_changes(changes.as_ref());
        events::append(tx, act, &draft)?;
        Ok(())
    }
}

/// Appends the event of a run. The event names the run as its cause, which distinguishes what it starts from what people start.
fn announce_run(tx: &mut WriteTx, act: &mut Act, kind: &'static EventKind, run: &Run) -> Result<(), WorkflowError> {
    let shown = run.describe(())?;
    let draft = Draft::new(kind, run.id.to_string(), run.version, &shown);
    let before = act.cause.run_id.replace(run.id);
    let appended = events::append(tx, act, &draft);
    act.cause.run_id = before;
    appended?;
    Ok(())
}

/// Removes the secrets from every step, including nested ones.
fn redact(planners: &Planners, value: &mut Value, take_out: fn(&dyn StepType, &mut Value)) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(|item| redact(planners, item, take_out)),
        Value::Object(members) => {
            let step = members.get("type").and_then(Value::as_str).and_then(|name| planners.get(name)).cloned();
            if let (Some(step), Some(with)) = (step, members.get_mut("with")) {
                take_out(step.as_ref(), with);
            }
            members.values_mut().for_each(|member| redact(planners, member, take_out));
        }
        _ => {}
    }
}
