//! Workflows, and every version of their definitions.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use tenantd_base::{
    clock::Timestamp,
    clocks::Reading,
    id::{TenantId, WorkflowId},
};
use tenantd_store::{
    Counts, Due, Index, Key, KeyRange, Read, StoreError, Table, WriteTx, catalog,
    codec::{self, Record},
    due_key,
    events::Actor,
};

use super::{
    super::model::{Json, Origin, Workflow},
    count,
};

pub(crate) type WorkflowKey = (TenantId, WorkflowId);

impl Record for Workflow {
    const VERSION: u8 = 2;

    /// Version 1 had no origin, because the rights of authors were not checked.
    fn upgrade(version: u8, fields: &[u8]) -> Result<Self, String> {
        if version != 1 {
            return Err(format!("format version {version} is not known to this release"));
        }
        codec::decode_fields(&[fields, &codec::encode_fields(&Origin::Unchecked)?].concat())
    }

    fn take_key(&mut self, key: &[u8]) -> Option<()> {
        (self.tenant_id, self.id) = Key::from_bytes(key)?;
        Some(())
    }
}

static BY_KEY: Index<WorkflowKey, Workflow> = Index {
    table: catalog::WORKFLOWS_BY_KEY,
    unique: true,
    keys: |id, workflow| workflow.archived_at.is_none().then(|| (id.0, workflow.key.clone()).to_bytes()).into_iter().collect(),
};
static BY_EVENT: Index<WorkflowKey, Workflow> = Index {
    table: catalog::WORKFLOWS_BY_EVENT,
    unique: false,
    keys: |id, workflow| {
        let kinds = workflow.events.iter().filter(|_| workflow.is_live());
        kinds.map(|kind| (id.0, kind.clone()).to_bytes()).collect()
    },
};
static BY_SCHEDULE: Index<WorkflowKey, Workflow> = Index {
    table: catalog::WORKFLOWS_BY_SCHEDULE,
    unique: false,
    keys: |key, workflow| workflow.next_fire_at.filter(|_| workflow.is_live()).map(|at| due_key(key.0, at)).into_iter().collect(),
};

pub(crate) static WORKFLOWS: Table<WorkflowKey, Workflow> =
    Table::new(catalog::WORKFLOWS, &[&BY_KEY, &BY_EVENT, &BY_SCHEDULE]).counting(Counts::Records);

/// A definition at one version.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct VersionRecord {
    pub(crate) definition: Json,
    pub(crate) changed_at: Timestamp,
    pub(crate) changed_by: Actor,
    /// The authors of earlier versions, as long as one of their steps remains.
    #[serde(default)]
    pub(crate) earlier_authors: Vec<Actor>,
}

impl Record for VersionRecord {
    const VERSION: u8 = 2;

    /// Version 1 had no earlier authors.
    fn upgrade(version: u8, fields: &[u8]) -> Result<Self, String> {
        if version != 1 {
            return Err(format!("format version {version} is not known to this release"));
        }
        codec::decode_fields(&[fields, &codec::encode_fields(&Vec::<Actor>::new())?].concat())
    }
}

/// The maximum number of earlier authors that a version keeps; the newest ones are kept.
const MAX_AUTHORS: usize = 64;

impl VersionRecord {
    pub(crate) fn first(definition: Json, changed_at: Timestamp, changed_by: Actor) -> Self {
        Self { definition, changed_at, changed_by, earlier_authors: Vec::new() }
    }

    /// The version after this one.
    pub(crate) fn next(self, definition: Json, changed_at: Timestamp, changed_by: Actor) -> Self {
        let steps = |definition: &Json| definition.0.get("steps").and_then(Value::as_array).cloned().unwrap_or_default();
        let new = steps(&definition);
        let mut earlier_authors = Vec::new();
        if steps(&self.definition).iter().any(|step| new.contains(step)) {
            let mut seen = BTreeSet::from([changed_by.id.clone()]);
            earlier_authors = self.authors().filter(|author| seen.insert(author.id.clone())).take(MAX_AUTHORS).collect();
        }
        Self { definition, changed_at, changed_by, earlier_authors }
    }

    pub(crate) fn authors(self) -> impl Iterator<Item = Actor> {
        std::iter::once(self.changed_by).chain(self.earlier_authors)
    }
}

pub(crate) static VERSIONS: Table<(TenantId, WorkflowId, u64), VersionRecord> =
    Table::new(catalog::WORKFLOW_VERSIONS, &[]).counting(Counts::Bytes);

pub(crate) fn get(tx: &impl Read, tenant: TenantId, id: WorkflowId) -> Result<Option<Workflow>, StoreError> {
    WORKFLOWS.get(tx, &(tenant, id))
}

pub(crate) fn list_after(tx: &impl Read, after: Option<WorkflowKey>, limit: usize) -> Result<Vec<Workflow>, StoreError> {
    let found = WORKFLOWS.list_after(tx, after.as_ref(), limit)?;
    Ok(found.into_iter().map(|(_, workflow)| workflow).collect())
}

pub(crate) fn of_tenant(tx: &impl Read, tenant: TenantId, limit: usize) -> Result<Vec<Workflow>, StoreError> {
    let found = WORKFLOWS.list(tx, &KeyRange::prefix(&tenant.to_bytes()), limit)?;
    Ok(found.into_iter().map(|(_, workflow)| workflow).collect())
}

/// Finds a workflow that is not archived.
pub(crate) fn find_key(tx: &impl Read, tenant: TenantId, key: &str) -> Result<Option<Workflow>, StoreError> {
    match BY_KEY.find(tx, &(tenant, key.to_owned()).to_bytes())? {
        Some((tenant, id)) => get(tx, tenant, id),
        None => Ok(None),
    }
}

/// Stores the workflow and updates the counts. `before` is the stored workflow.
pub(crate) fn put(tx: &mut WriteTx, workflow: &Workflow, before: Option<&Workflow>) -> Result<(), StoreError> {
    WORKFLOWS.put(tx, &(workflow.tenant_id, workflow.id), workflow)?;
    let counted = |workflow: &Workflow| i64::from(workflow.archived_at.is_none());
    count(tx, workflow.tenant_id, counted(workflow) - before.map_or(0, counted), 0)
}

pub(crate) fn put_version(tx: &mut WriteTx, workflow: &Workflow, version: &VersionRecord) -> Result<(), StoreError> {
    VERSIONS.put(tx, &(workflow.tenant_id, workflow.id, workflow.version), version)
}

pub(crate) fn version(tx: &impl Read, tenant: TenantId, id: WorkflowId, version: u64) -> Result<Option<VersionRecord>, StoreError> {
    VERSIONS.get(tx, &(tenant, id, version))
}

/// Whether any tenant has a workflow with an event trigger.
pub(crate) fn any_by_event(tx: &impl Read) -> Result<bool, StoreError> {
    Ok(!BY_EVENT.list(tx, &KeyRange::ALL, 1)?.is_empty())
}

/// The tenant's workflows that this kind of event starts.
pub(crate) fn by_event(tx: &impl Read, tenant: TenantId, kind: &str) -> Result<Vec<Workflow>, StoreError> {
    let range = KeyRange::prefix(&(tenant, kind.to_owned()).to_bytes());
    let mut found = Vec::new();
    for (tenant, id) in BY_EVENT.list(tx, &range, usize::MAX)? {
        found.extend(get(tx, tenant, id)?);
    }
    Ok(found)
}

/// Due workflows of any tenant, longest overdue first, and when the next one is due.
pub(crate) fn scheduled(tx: &impl Read, reading: &Reading, limit: usize) -> Result<Due<Workflow>, StoreError> {
    let Due { found: keys, next } = BY_SCHEDULE.due(tx, reading, limit, |_| true)?;
    let mut found = Vec::with_capacity(keys.len());
    for (tenant, id) in keys {
        found.extend(get(tx, tenant, id)?);
    }
    Ok(Due { found, next })
}
