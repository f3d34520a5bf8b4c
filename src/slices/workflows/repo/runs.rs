//! Runs, their inputs, and the results of their steps. Steps have their own rows, so that the commit of one step of a long run does
//! not rewrite the others.

use serde::{Deserialize, Serialize};

use tenantd_base::{
    clock::Timestamp,
    clocks::Timeline,
    id::{EventId, RunId, TenantId, UserId, WorkflowId},
};
use tenantd_store::{
    Counts, Direction, Due, Flow, Index, Key, KeyRange, Read, StoreError, Table, WriteTx, catalog,
    codec::{Record, decode_fields, encode_fields},
    tenant_due_key,
};

use super::{
    super::model::{Json, Run, RunStatus, RunTrigger, StepResult},
    count,
};

pub(crate) type RunKey = (TenantId, RunId);
type StepKey = (TenantId, RunId, String);

/// The effect kind of a step that called a run.
pub(crate) const CALLED_RUN: &str = "run";

impl Record for Run {
    const VERSION: u8 = 1;
}

pub(crate) static BY_WORKFLOW: Index<RunKey, Run> =
    Index { table: catalog::WORKFLOW_RUNS_BY_WORKFLOW, unique: false, keys: |key, run| vec![(key.0, run.workflow_id).to_bytes()] };
pub(crate) static BY_STATUS: Index<RunKey, Run> =
    Index { table: catalog::WORKFLOW_RUNS_BY_STATUS, unique: false, keys: |key, run| vec![(key.0, run.status.code()).to_bytes()] };
pub(crate) static BY_SUBJECT: Index<RunKey, Run> = Index {
    table: catalog::WORKFLOW_RUNS_BY_SUBJECT,
    unique: false,
    keys: |key, run| run.subject_id.iter().map(|subject| (key.0, subject.clone()).to_bytes()).collect(),
};
static BY_DUE: Index<RunKey, Run> = Index {
    table: catalog::WORKFLOW_RUNS_BY_DUE,
    unique: false,
    keys: |key, run| run.due_at.iter().map(|at| tenant_due_key(key.0, *at)).collect(),
};
static BY_WAIT: Index<RunKey, Run> = Index {
    table: catalog::WORKFLOW_RUNS_BY_WAIT,
    unique: false,
    keys: |key, run| {
        let awaited = run.tokens.iter().filter_map(|token| token.awaited()).filter(|_| !run.status.has_ended());
        awaited.map(|(kind, resource, _)| (key.0, kind.to_owned(), resource.map(str::to_owned)).to_bytes()).collect()
    },
};
static BY_CONCURRENCY: Index<RunKey, Run> = Index {
    table: catalog::WORKFLOW_RUNS_BY_CONCURRENCY,
    unique: false,
    keys: |key, run| {
        let slot = || slots(key.0, run.workflow_id, run.concurrency_key.as_deref(), run.queues());
        (!run.status.has_ended()).then(slot).into_iter().collect()
    },
};
static BY_EVENT: Index<RunKey, Run> = Index {
    table: catalog::WORKFLOW_RUNS_BY_EVENT,
    unique: false,
    keys: |key, run| match &run.trigger {
        RunTrigger::Event { id, .. } if run.retry_of.is_none() => vec![(key.0, run.workflow_id, *id).to_bytes()],
        _ => Vec::new(),
    },
};

pub(crate) static RUNS: Table<RunKey, Run> =
    Table::new(catalog::WORKFLOW_RUNS, &[&BY_WORKFLOW, &BY_STATUS, &BY_SUBJECT, &BY_DUE, &BY_WAIT, &BY_CONCURRENCY, &BY_EVENT])
        .counting(Counts::Records);

/// What a run was started with.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct RunInputs {
    pub(crate) inputs: Json,
    /// The event as it was published.
    pub(crate) event: Option<Json>,
}

impl Record for RunInputs {
    const VERSION: u8 = 1;
}

pub(crate) static INPUTS: Table<RunKey, RunInputs> = Table::new(catalog::WORKFLOW_RUN_INPUTS, &[]).counting(Counts::Bytes);

impl Record for StepResult {
    const VERSION: u8 = 2;

    /// Version 1 had no approvers.
    fn upgrade(version: u8, fields: &[u8]) -> Result<Self, String> {
        if version != 1 {
            return Err(format!("format version {version} is not known to this release"));
        }
        decode_fields(&[fields, &encode_fields(&Vec::<UserId>::new())?].concat())
    }
}

pub(crate) static STEPS: Table<StepKey, StepResult> = Table::new(catalog::WORKFLOW_STEPS, &[]).counting(Counts::Bytes);

fn slots(tenant: TenantId, workflow: WorkflowId, key: Option<&str>, queues: bool) -> Vec<u8> {
    (tenant, workflow, key.map(str::to_owned), u8::from(queues)).to_bytes()
}

pub(crate) fn get(tx: &impl Read, key: RunKey) -> Result<Option<Run>, StoreError> {
    RUNS.get(tx, &key)
}

/// Stores a new run.
pub(crate) fn insert(tx: &mut WriteTx, run: Run, inputs: &RunInputs) -> Result<Run, StoreError> {
    let key = (run.tenant_id, run.id);
    INPUTS.insert(tx, &key, inputs)?;
    count(tx, run.tenant_id, 0, i64::from(!run.status.has_ended()))?;
    RUNS.insert(tx, &key, &run)?;
    Ok(run)
}

/// Stores an existing run. `before` is its stored status.
pub(crate) fn update(tx: &mut WriteTx, run: Run, before: RunStatus) -> Result<Run, StoreError> {
    RUNS.put(tx, &(run.tenant_id, run.id), &run)?;
    let active = |status: RunStatus| i64::from(!status.has_ended());
    count(tx, run.tenant_id, 0, active(run.status) - active(before))?;
    Ok(run)
}

/// Postpones a due run without any other change.
pub(crate) fn postpone(tx: &mut WriteTx, key: RunKey, until: Timestamp) -> Result<(), StoreError> {
    let Some(mut run) = RUNS.get(tx, &key)? else { return Ok(()) };
    if run.due_at.is_none_or(|at| at >= until) {
        return Ok(());
    }
    run.due_at = Some(until);
    RUNS.put(tx, &key, &run)
}

pub(crate) fn inputs(tx: &impl Read, key: RunKey) -> Result<RunInputs, StoreError> {
    Ok(INPUTS.get(tx, &key)?.unwrap_or(RunInputs { inputs: Json::default(), event: None }))
}

pub(crate) fn step(tx: &impl Read, key: RunKey, path: &str) -> Result<Option<StepResult>, StoreError> {
    STEPS.get(tx, &(key.0, key.1, path.to_owned()))
}

pub(crate) fn put_step(tx: &mut WriteTx, key: RunKey, path: &str, step: StepResult) -> Result<(), StoreError> {
    STEPS.put(tx, &(key.0, key.1, path.to_owned()), &step)
}

/// The started steps with their paths, in the order in which they started: at most `limit`, and whether there are more.
pub(crate) fn steps(tx: &impl Read, key: RunKey, limit: usize) -> Result<(Vec<(String, StepResult)>, bool), StoreError> {
    let mut found = Vec::new();
    STEPS.scan(tx, &KeyRange::prefix(&key.to_bytes()), Direction::Forward, |(_, _, path), step| {
        found.push((path, step));
        Ok(Flow::Continue)
    })?;
    found.sort_by_key(|(_, step)| step.ordinal);
    let more = found.len() > limit;
    found.truncate(limit);
    Ok((found, more))
}

/// The results of a run's steps. `None` if there are more than `most`.
pub(crate) fn results(tx: &impl Read, key: RunKey, most: usize) -> Result<Option<Vec<StepResult>>, StoreError> {
    let mut found = Vec::new();
    STEPS.scan(tx, &KeyRange::prefix(&key.to_bytes()), Direction::Forward, |_, step| {
        found.push(step);
        Ok(if found.len() <= most { Flow::Continue } else { Flow::Stop })
    })?;
    Ok(Some(found).filter(|found| found.len() <= most))
}

/// Due runs of a tenant, longest overdue first, and when the next one is due. `wanted` selects runs; the search ends when it has
/// `limit` of them.
pub(crate) fn due_of(
    tx: &impl Read,
    tenant: TenantId,
    now: Timestamp,
    limit: usize,
    wanted: impl FnMut(&RunKey) -> bool,
) -> Result<Due<RunKey>, StoreError> {
    BY_DUE.due_on(tx, Timeline::Own(tenant), now, limit, wanted)
}

/// When the first run of each tenant is due.
pub(crate) fn first_due(tx: &impl Read) -> Result<Vec<(TenantId, Timestamp)>, StoreError> {
    BY_DUE.first_due(tx)
}

/// Whether a run of any tenant waits for an event.
pub(crate) fn any_waiting(tx: &impl Read) -> Result<bool, StoreError> {
    Ok(!BY_WAIT.list(tx, &KeyRange::ALL, 1)?.is_empty())
}

/// Whether a run of the tenant waits for this kind of event.
pub(crate) fn any_waiting_for(tx: &impl Read, tenant: TenantId, kind: &str) -> Result<bool, StoreError> {
    Ok(!BY_WAIT.list(tx, &KeyRange::prefix(&(tenant, kind.to_owned()).to_bytes()), 1)?.is_empty())
}

/// Runs that wait for this kind of event of this resource, or of any resource.
pub(crate) fn waiting_for(tx: &impl Read, tenant: TenantId, kind: &str, resource_id: &str) -> Result<Vec<RunKey>, StoreError> {
    let mut found = Vec::new();
    for resource in [None, Some(resource_id.to_owned())] {
        let range = KeyRange::prefix(&(tenant, kind.to_owned(), resource).to_bytes());
        found.extend(BY_WAIT.list(tx, &range, usize::MAX)?);
    }
    Ok(found)
}

/// Unfinished runs with the concurrency key, oldest first: either active or queued ones.
pub(crate) fn with_concurrency_key(
    tx: &impl Read,
    tenant: TenantId,
    workflow: WorkflowId,
    key: &str,
    queues: bool,
    limit: usize,
) -> Result<Vec<RunKey>, StoreError> {
    BY_CONCURRENCY.list(tx, &KeyRange::prefix(&slots(tenant, workflow, Some(key), queues)), limit)
}

/// The run that the event has already started.
pub(crate) fn started_by(
    tx: &impl Read,
    tenant: TenantId,
    workflow: WorkflowId,
    event: EventId,
) -> Result<Option<RunKey>, StoreError> {
    let range = KeyRange::prefix(&(tenant, workflow, event).to_bytes());
    Ok(BY_EVENT.list(tx, &range, 1)?.pop())
}

/// The newest run of a workflow.
pub(crate) fn last_of(tx: &impl Read, tenant: TenantId, workflow: WorkflowId) -> Result<Option<Run>, StoreError> {
    let mut newest = None;
    let range = KeyRange::prefix(&(tenant, workflow).to_bytes());
    BY_WORKFLOW.scan(tx, &range, Direction::Backward, |key, _| {
        newest = get(tx, key)?;
        Ok(Flow::Stop)
    })?;
    Ok(newest)
}

/// The unfinished runs of a workflow: at most `limit`.
pub(crate) fn active_of(tx: &impl Read, tenant: TenantId, workflow: WorkflowId, limit: usize) -> Result<Vec<RunKey>, StoreError> {
    BY_CONCURRENCY.list(tx, &KeyRange::prefix(&(tenant, workflow).to_bytes()), limit)
}

/// Removes a run and at most `limit` of its steps. Returns whether everything is removed.
pub(crate) fn remove(tx: &mut WriteTx, key: RunKey, limit: usize) -> Result<bool, StoreError> {
    let mut paths = Vec::new();
    STEPS.scan(tx, &KeyRange::prefix(&key.to_bytes()), Direction::Forward, |step, _| {
        paths.push(step);
        Ok(if paths.len() < limit { Flow::Continue } else { Flow::Stop })
    })?;
    for path in &paths {
        STEPS.remove(tx, path)?;
    }
    if paths.len() == limit {
        return Ok(false);
    }
    INPUTS.remove(tx, &key)?;
    super::causes::remove(tx, key)?;
    RUNS.remove(tx, &key)?;
    Ok(true)
}

/// The range of an index for a list: the entries with the prefix, after a position.
pub(crate) fn after(prefix: &[u8], position: Option<&[u8]>, direction: Direction) -> KeyRange {
    let range = KeyRange::prefix(prefix);
    match position {
        Some(position) => range.after(&[prefix, position].concat(), direction),
        None => range,
    }
}
