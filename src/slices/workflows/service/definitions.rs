//! Creates, changes and archives workflows.

use serde_json::{Map, Value, json};

use tenantd_base::{
    id::WorkflowId,
    quotas::{Quota, QuotaExceeded},
    versions::ExpectedVersion,
};
use tenantd_store::{
    Read, WriteTx,
    events::{Act, Changes, last_number},
    usage,
};

use super::{
    super::{
        error::WorkflowError,
        model::{Json, Origin, Workflow},
        repo::{self, workflows::VersionRecord},
    },
    CREATED, DELETED, Service, UPDATED,
    ready::{Accepted, AcceptedChange},
};

/// How many runs one transaction cancels.
pub(crate) const CANCELLED_AT_ONCE: usize = 500;

impl Service {
    pub(crate) fn create(&self, tx: &mut WriteTx, act: &mut Act, accepted: &Accepted) -> Result<Workflow, WorkflowError> {
        let Accepted { value, definition, .. } = accepted;
        let (limit, used) = (usage::limits_in(tx, act.tenant_id)?.workflows, repo::counts(tx, act.tenant_id)?.workflows);
        if used >= limit {
            return Err(WorkflowError::Quota(QuotaExceeded { quota: Quota::Workflows, limit, used }));
        }
        if repo::workflows::find_key(tx, act.tenant_id, &definition.key)?.is_some() {
            return Err(WorkflowError::KeyTaken(definition.key.clone()));
        }
        let mut workflow = Workflow {
            tenant_id: act.tenant_id,
            id: WorkflowId::new(act.now, &mut act.entropy),
            key: String::new(),
            name: String::new(),
            enabled: false,
            archived_at: None,
            version: 1,
            events: Vec::new(),
            armed_seq: 0,
            scheduled_until: act.now,
            next_fire_at: None,
            created_at: act.now,
            created_by: act.actor.clone(),
            updated_at: act.now,
            origin: Origin::Checked,
        };
        apply_definition(tx, act, &mut workflow, accepted)?;
        repo::workflows::put(tx, &workflow, None)?;
        let version = VersionRecord::first(Json(value.clone()), act.now, act.actor.clone());
        repo::workflows::put_version(tx, &workflow, &version)?;
        self.announce(tx, act, &CREATED, &workflow, value, None)?;
        Ok(workflow)
    }

    /// Stores the result of a patch to the newest version as the next version.
    pub(crate) fn change(
        &self,
        tx: &mut WriteTx,
        act: &mut Act,
        id: WorkflowId,
        expected: &ExpectedVersion,
        change: &AcceptedChange,
    ) -> Result<(Workflow, Value), WorkflowError> {
        let before = repo::workflows::get(tx, act.tenant_id, id)?.ok_or(WorkflowError::NotFound)?;
        expected.check(before.version)?;
        if before.archived_at.is_some() {
            return Err(WorkflowError::Archived);
        }
        let stored = repo::workflows::version(tx, act.tenant_id, id, before.version)?.ok_or(WorkflowError::NotFound)?;
        let old = stored.definition.0.clone();
        if before.version != change.base {
            return Err(WorkflowError::ChangedMeanwhile);
        }
        let Some(accepted @ Accepted { value, definition, .. }) = &change.accepted else { return Ok((before, old)) };
        if definition.key != before.key && repo::workflows::find_key(tx, act.tenant_id, &definition.key)?.is_some() {
            return Err(WorkflowError::KeyTaken(definition.key.clone()));
        }
        let mut workflow = before.clone();
        workflow.version += 1;
        workflow.updated_at = act.now;
        apply_definition(tx, act, &mut workflow, accepted)?;
        repo::workflows::put(tx, &workflow, Some(&before))?;
        let version = stored.next(Json(value.clone()), act.now, act.actor.clone());
        repo::workflows::put_version(tx, &workflow, &version)?;
        let changes = Changes::between(&self.in_event(&old), &self.in_event(value));
        self.announce(tx, act, &UPDATED, &workflow, value, Some(changes))?;
        Ok((workflow, value.clone()))
    }

    /// Disables a workflow without reading its definition: nothing starts it any more. Unfinished runs continue. Does nothing if it
    /// is already disabled or archived.
    pub(crate) fn disable(&self, tx: &mut WriteTx, act: &mut Act, id: WorkflowId) -> Result<Workflow, WorkflowError> {
        let before = repo::workflows::get(tx, act.tenant_id, id)?.ok_or(WorkflowError::NotFound)?;
        if !before.is_live() {
            return Ok(before);
        }
        let stored = repo::workflows::version(tx, act.tenant_id, id, before.version)?.ok_or(WorkflowError::NotFound)?;
        let mut value = stored.definition.0.clone();
        merge(&mut value, &json!({"enabled": false}));
        let mut workflow = before.clone();
        workflow.enabled = false;
        workflow.version += 1;
        workflow.updated_at = act.now;
        repo::workflows::put(tx, &workflow, Some(&before))?;
        let version = stored.next(Json(value.clone()), act.now, act.actor.clone());
        repo::workflows::put_version(tx, &workflow, &version)?;
        let changes = Changes::default().with("enabled", true, false);
        self.announce(tx, act, &UPDATED, &workflow, &value, Some(changes))?;
        Ok(workflow)
    }

    /// Cancels a limited number of the workflow's runs; repeat it before archiving. Returns how many it cancelled.
    pub(crate) fn cancel_some(
        &self,
        tx: &mut WriteTx,
        act: &mut Act,
        id: WorkflowId,
        expected: &ExpectedVersion,
    ) -> Result<usize, WorkflowError> {
        let workflow = repo::workflows::get(tx, act.tenant_id, id)?.ok_or(WorkflowError::NotFound)?;
        expected.check(workflow.version)?;
        let active = repo::runs::active_of(tx, act.tenant_id, id, CANCELLED_AT_ONCE)?;
        for key in &active {
            self.cancel(tx, act, *key)?;
        }
        Ok(active.len())
    }

    /// Archives the workflow. Cancels its unfinished runs, or refuses to archive if there are any.
    pub(crate) fn archive(
        &self,
        tx: &mut WriteTx,
        act: &mut Act,
        id: WorkflowId,
        expected: &ExpectedVersion,
        cancel_runs: bool,
    ) -> Result<(Workflow, Value), WorkflowError> {
        let before = repo::workflows::get(tx, act.tenant_id, id)?.ok_or(WorkflowError::NotFound)?;
        expected.check(before.version)?;
        let stored = repo::workflows::version(tx, act.tenant_id, id, before.version)?.ok_or(WorkflowError::NotFound)?;
        let definition = stored.definition.clone();
        if before.archived_at.is_some() {
            return Ok((before, definition.0));
        }
        let active = repo::runs::active_of(tx, act.tenant_id, id, CANCELLED_AT_ONCE + 1)?;
        if !active.is_empty() && (!cancel_runs || active.len() > CANCELLED_AT_ONCE) {
            return Err(WorkflowError::InUse(active.len() as u64));
        }
        for key in active {
            self.cancel(tx, act, key)?;
        }
        let mut workflow = before.clone();
        workflow.version += 1;
        workflow.archived_at = Some(act.now);
        workflow.updated_at = act.now;
        repo::workflows::put(tx, &workflow, Some(&before))?;
        let version = stored.next(definition.clone(), act.now, act.actor.clone());
        repo::workflows::put_version(tx, &workflow, &version)?;
        self.announce(tx, act, &DELETED, &workflow, &definition.0, None)?;
        Ok((workflow, definition.0))
    }
}

/// Copies from the definition the fields that the record is found by. Earlier events and occurrences do not start it.
fn apply_definition(tx: &impl Read, act: &Act, workflow: &mut Workflow, accepted: &Accepted) -> Result<(), WorkflowError> {
    let definition = &accepted.definition;
    workflow.key.clone_from(&definition.key);
    workflow.name.clone_from(&definition.name);
    workflow.enabled = definition.enabled;
    workflow.events = definition.events();
    workflow.armed_seq = last_number(tx, workflow.tenant_id)?;
    workflow.scheduled_until = act.now;
    workflow.next_fire_at = accepted.next_fire_at;
    Ok(())
}

/// Applies a merge patch: members replace members, `null` removes them.
pub(crate) fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    let Some(members) = target.as_object_mut() else { return };
    for (name, change) in patch {
        if change.is_null() {
            members.remove(name);
        } else {
            merge(members.entry(name).or_insert(Value::Null), change);
        }
    }
}
