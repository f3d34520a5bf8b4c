//! Workflows: created, changed version by version, archived.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::{
    super::{
        definition::Definition,
        error::{Fault, WorkflowError},
        model::{Json, Workflow},
        repo,
    },
    CREATED, DELETED, Service, UPDATED,
};
use crate::kernel::{
    events::{Act, head},
    http::precondition::IfMatch,
    id::WorkflowId,
    store::{Read, WriteTx},
};

/// How many runs one transaction cancels.
pub(in super::super) const CANCELLED_AT_ONCE: usize = 500;

impl Service {
    pub(in super::super) fn create(&self, tx: &mut WriteTx, act: &mut Act, value: &Value) -> Result<Workflow, WorkflowError> {
        let definition = self.read(value).map_err(WorkflowError::Invalid)?;
        check_calls(self, tx, act, &definition)?;
        let most = self.settings.max_workflows;
        if repo::counts(tx, act.tenant_id)?.workflows >= most {
            return Err(WorkflowError::LimitReached { what: "workflows", most });
        }
        if repo::workflows::find_key(tx, act.tenant_id, &definition.key)?.is_some() {
            return Err(WorkflowError::KeyTaken(definition.key));
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
        };
        arm(tx, act, &mut workflow, &definition)?;
        repo::workflows::put(tx, &workflow, None)?;
        repo::workflows::put_version(tx, &workflow, &Json(value.clone()), &act.actor)?;
        self.announce(tx, act, &CREATED, &workflow, value, None)?;
        Ok(workflow)
    }

    /// All that is wrong with a definition, also with what it calls.
    pub(in super::super) fn validate(&self, tx: &impl Read, act: &Act, value: &Value) -> Result<Vec<Fault>, WorkflowError> {
        let definition = match self.read(value) {
            Ok(definition) => definition,
            Err(faults) => return Ok(faults),
        };
        match check_calls(self, tx, act, &definition) {
            Ok(()) => Ok(Vec::new()),
            Err(WorkflowError::Invalid(faults)) => Ok(faults),
            Err(other) => Err(other),
        }
    }

    /// A merge patch (RFC 7396) of the newest version makes the next one.
    pub(in super::super) fn change(
        &self,
        tx: &mut WriteTx,
        act: &mut Act,
        id: WorkflowId,
        if_match: &IfMatch,
        patch: &Value,
    ) -> Result<(Workflow, Value), WorkflowError> {
        let before = repo::workflows::get(tx, act.tenant_id, id)?.ok_or(WorkflowError::NotFound)?;
        if_match.check(before.version)?;
        if before.archived_at.is_some() {
            return Err(WorkflowError::Archived);
        }
        let stored = repo::workflows::version(tx, act.tenant_id, id, before.version)?.ok_or(WorkflowError::NotFound)?;
        let old = stored.definition.0;
        let mut value = old.clone();
        merge(&mut value, patch);
        if value == old {
            return Ok((before, old));
        }
        let definition = self.read(&value).map_err(WorkflowError::Invalid)?;
        check_calls(self, tx, act, &definition)?;
        if definition.key != before.key && repo::workflows::find_key(tx, act.tenant_id, &definition.key)?.is_some() {
            return Err(WorkflowError::KeyTaken(definition.key));
        }
        let mut workflow = before.clone();
        workflow.version += 1;
        workflow.updated_at = act.now;
        arm(tx, act, &mut workflow, &definition)?;
        repo::workflows::put(tx, &workflow, Some(&before))?;
        repo::workflows::put_version(tx, &workflow, &Json(value.clone()), &act.actor)?;
        self.announce(
            tx,
            act,
            &UPDATED,
            &workflow,
            &value,
            Some(changes(&self.without_secrets(&old), &self.without_secrets(&value))),
        )?;
        Ok((workflow, value))
    }

    /// Cancels a bounded part of the workflow's runs, to be repeated before it is archived. How many.
    pub(in super::super) fn cancel_some(
        &self,
        tx: &mut WriteTx,
        act: &mut Act,
        id: WorkflowId,
        if_match: &IfMatch,
    ) -> Result<usize, WorkflowError> {
        let workflow = repo::workflows::get(tx, act.tenant_id, id)?.ok_or(WorkflowError::NotFound)?;
        if_match.check(workflow.version)?;
        let active = repo::runs::active_of(tx, act.tenant_id, id, CANCELLED_AT_ONCE)?;
        for key in &active {
            self.cancel(tx, act, *key)?;
        }
        Ok(active.len())
    }

    /// Takes the workflow out of use. Its runs are cancelled, or stand in the way.
    pub(in super::super) fn archive(
        &self,
        tx: &mut WriteTx,
        act: &mut Act,
        id: WorkflowId,
        if_match: &IfMatch,
        cancel_runs: bool,
    ) -> Result<(Workflow, Value), WorkflowError> {
        let before = repo::workflows::get(tx, act.tenant_id, id)?.ok_or(WorkflowError::NotFound)?;
        if_match.check(before.version)?;
        let stored = repo::workflows::version(tx, act.tenant_id, id, before.version)?.ok_or(WorkflowError::NotFound)?;
        let definition = stored.definition;
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
        repo::workflows::put_version(tx, &workflow, &definition, &act.actor)?;
        self.announce(tx, act, &DELETED, &workflow, &definition.0, None)?;
        Ok((workflow, definition.0))
    }
}

/// Takes over from the definition what the record is found by. Events and times from before are none of its business.
fn arm(tx: &impl Read, act: &Act, workflow: &mut Workflow, definition: &Definition) -> Result<(), WorkflowError> {
    workflow.key.clone_from(&definition.key);
    workflow.name.clone_from(&definition.name);
    workflow.enabled = definition.enabled;
    workflow.events = definition.events();
    workflow.armed_seq = head(tx)?;
    workflow.scheduled_until = act.now;
    workflow.next_fire_at = definition.schedules().filter_map(|schedule| schedule.next(act.now)).min();
    Ok(())
}

/// The workflows that are called must be there, and must not lead back here.
fn check_calls(service: &Service, tx: &impl Read, act: &Act, definition: &Definition) -> Result<(), WorkflowError> {
    let mut faults = Vec::new();
    for (key, pointer) in definition.calls() {
        let at = format!("{pointer}/with/workflow_key");
        if key == definition.key {
            faults.push(Fault::new(at, "cycle", "the workflow would call itself"));
            continue;
        }
        let (mut seen, mut open, mut found) = (BTreeSet::new(), vec![key.to_owned()], false);
        while let Some(next) = open.pop() {
            if !seen.insert(next.clone()) {
                continue;
            }
            let Some(called) = repo::workflows::find_key(tx, act.tenant_id, &next)? else { continue };
            found = true;
            let inner = service.definition(tx, act.tenant_id, called.id, called.version)?;
            if inner.calls().any(|(key, _)| key == definition.key) {
                faults.push(Fault::new(&at, "cycle", format!("{next} leads back to this workflow")));
                break;
            }
            open.extend(inner.calls().map(|(key, _)| key.to_owned()));
        }
        if !found {
            faults.push(Fault::new(&at, "unknown_workflow", format!("there is no workflow {key}")));
        }
    }
    if faults.is_empty() { Ok(()) } else { Err(WorkflowError::Invalid(faults)) }
}

/// A merge patch: members replace members, `null` removes.
pub(in super::super) fn merge(target: &mut Value, patch: &Value) {
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

/// What changed, member by member of the definition.
fn changes(before: &Value, after: &Value) -> Value {
    let names = |value: &Value| value.as_object().into_iter().flatten().map(|(name, _)| name.clone()).collect::<BTreeSet<_>>();
    let all: BTreeSet<String> = names(before).union(&names(after)).cloned().collect();
    let changed = all.into_iter().filter(|name| before.get(name) != after.get(name));
    Value::Object(changed.map(|name| (name.clone(), json!({"from": before.get(&name), "to": after.get(&name)}))).collect())
}
