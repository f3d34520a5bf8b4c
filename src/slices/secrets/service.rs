//! The use cases of named secrets. Each method runs in the caller's transaction: it checks, writes and appends the event. Events
//! never contain a value.

use serde_json::json;

use tenantd_base::{
    access::{Grants, Scope},
    change::Change,
    id::{SecretId, TenantId, WorkflowId},
    secrets::{Sealed, Sealer, Secret},
    versions::ExpectedVersion,
};
use tenantd_store::{
    StoreError, WriteTx,
    events::{self, Act, Changes, Describe, Draft, EventKind},
};

use super::{
    error::{self, SecretError},
    model::{Host, MAX_SECRETS, NamedSecret, is_name, sorted},
    repo::{self, sealed_place},
};

pub(super) static CREATED: EventKind = EventKind {
    name: "secret.created",
    summary: "A named secret was created.",
    subject: "secret",
    schema: "NamedSecret",
    reads: Grants::of(&[Scope::SecretsWrite]),
    has_changes: false,
};
pub(super) static UPDATED: EventKind =
    EventKind { name: "secret.updated", summary: "A named secret was changed.", has_changes: true, ..CREATED };
pub(super) static ROTATED: EventKind =
    EventKind { name: "secret.rotated", summary: "The value of a named secret was replaced.", ..CREATED };
pub(super) static DELETED: EventKind = EventKind { name: "secret.deleted", summary: "A named secret was deleted.", ..CREATED };

/// Checks whether a tenant has a workflow. The composition root provides it.
pub type KnowsWorkflow = fn(&WriteTx, TenantId, WorkflowId) -> Result<bool, StoreError>;

#[derive(Clone, Debug)]
pub(super) struct Service {
    pub(super) sealer: Sealer,
    pub(super) knows_workflow: KnowsWorkflow,
}

/// A secret to create.
#[derive(Clone, Debug)]
pub(super) struct NewSecret {
    pub(super) name: String,
    pub(super) description: Option<String>,
    pub(super) hosts: Vec<Host>,
    pub(super) workflow_ids: Option<Vec<WorkflowId>>,
    pub(super) value: Secret,
}

/// A change to a secret. The name cannot change because workflow definitions refer to it.
#[derive(Clone, Debug)]
pub(super) struct SecretChange {
    pub(super) description: Change<String>,
    pub(super) hosts: Option<Vec<Host>>,
    pub(super) workflow_ids: Change<Vec<WorkflowId>>,
    pub(super) value: Option<Secret>,
}

impl Service {
    pub(super) fn create(&self, tx: &mut WriteTx, act: &mut Act, new: &NewSecret) -> Result<NamedSecret, SecretError> {
        if !is_name(&new.name) {
            return Err(SecretError::Invalid(vec![error::bad_name()]));
        }
        self.check_workflows(tx, act, new.workflow_ids.as_deref())?;
        if repo::by_name(tx, act.tenant_id, &new.name)?.is_some() {
            return Err(SecretError::NameTaken);
        }
        if repo::list(tx, act.tenant_id)?.len() >= MAX_SECRETS {
            return Err(SecretError::LimitReached { most: MAX_SECRETS });
        }
        let id = SecretId::new(act.now, &mut act.entropy);
        let hosts = sorted(new.hosts.clone());
        let secret = NamedSecret {
            id,
            tenant_id: act.tenant_id,
            name: new.name.clone(),
            description: new.description.clone(),
            value: self.seal(act, id, &hosts, &new.value)?,
            hosts,
            workflow_ids: new.workflow_ids.clone().map(sorted),
            created_at: act.now,
            created_by: act.actor.clone(),
            updated_at: act.now,
            rotated_at: None,
            version: 1,
        };
        repo::put(tx, &secret)?;
        announce(tx, act, &CREATED, &secret, None)?;
        Ok(secret)
    }

    fn seal(&self, act: &mut Act, id: SecretId, hosts: &[Host], value: &Secret) -> Result<Sealed, SecretError> {
        let key = (act.tenant_id, id);
        Ok(self.sealer.seal(sealed_place(&key, hosts), value, &mut act.entropy)?)
    }

    fn check_workflows(&self, tx: &WriteTx, act: &Act, ids: Option<&[WorkflowId]>) -> Result<(), SecretError> {
        let mut faults = Vec::new();
        for (place, id) in ids.into_iter().flatten().enumerate() {
            if !(self.knows_workflow)(tx, act.tenant_id, *id)? {
                faults.push(error::unknown_workflow(place, *id));
            }
        }
        if faults.is_empty() { Ok(()) } else { Err(SecretError::Invalid(faults)) }
    }

    pub(super) fn update(
        &self,
        tx: &mut WriteTx,
        act: &mut Act,
        id: SecretId,
        expected: &ExpectedVersion,
        change: &SecretChange,
    ) -> Result<NamedSecret, SecretError> {
        let before = find(tx, act, id)?;
        expected.check(before.version)?;
        let mut after = before.clone();
        after.description = change.description.clone().apply(after.description);
        if let Change::Set(ids) = &change.workflow_ids {
            self.check_workflows(tx, act, Some(ids))?;
        }
        after.workflow_ids = change.workflow_ids.clone().apply(after.workflow_ids).map(sorted);
        if let Some(hosts) = &change.hosts {
            after.hosts = sorted(hosts.clone());
        }
        match &change.value {
            Some(value) => {
                after.value = self.seal(act, id, &after.hosts, value)?;
                after.rotated_at = Some(act.now);
            }
            None if after.hosts == before.hosts => {}
            // The new hosts are a subset of the old ones, so the value is already approved for them.
            None if after.hosts.iter().all(|host| before.hosts.contains(host)) => {
                let key = (act.tenant_id, id);
                let value = self.sealer.open(sealed_place(&key, &before.hosts), &before.value)?;
                after.value = self.seal(act, id, &after.hosts, &value)?;
            }
            None => return Err(SecretError::Invalid(vec![error::value_needed()])),
        }
        if after == before {
            return Ok(before);
        }
        after.updated_at = act.now;
        after.version += 1;
        repo::put(tx, &after)?;
        announce(tx, act, &UPDATED, &after, Some(changes(&before, &after, change.value.is_some())))?;
        Ok(after)
    }

    /// Replaces the value. The servers and workflows stay the same.
    pub(super) fn rotate(
        &self,
        tx: &mut WriteTx,
        act: &mut Act,
        id: SecretId,
        expected: &ExpectedVersion,
        value: &Secret,
    ) -> Result<NamedSecret, SecretError> {
        act.use_reserve();
        let mut secret = find(tx, act, id)?;
        expected.check(secret.version)?;
        secret.value = self.seal(act, id, &secret.hosts, value)?;
        secret.rotated_at = Some(act.now);
        secret.updated_at = act.now;
        secret.version += 1;
        repo::put(tx, &secret)?;
        announce(tx, act, &ROTATED, &secret, None)?;
        Ok(secret)
    }

    pub(super) fn delete(tx: &mut WriteTx, act: &mut Act, id: SecretId, expected: &ExpectedVersion) -> Result<(), SecretError> {
        let secret = find(tx, act, id)?;
        expected.check(secret.version)?;
        repo::remove(tx, (act.tenant_id, id))?;
        announce(tx, act, &DELETED, &secret, None)
    }
}

fn announce(
    tx: &mut WriteTx,
    act: &mut Act,
    kind: &'static EventKind,
    secret: &NamedSecret,
    changes: Option<Changes>,
) -> Result<(), SecretError> {
    let shown = secret.describe(())?;
    let draft = Draft::new(kind, secret.id.to_string(), secret.version, &shown).with_changes(changes.as_ref());
    events::append(tx, act, &draft)?;
    Ok(())
}

fn find(tx: &WriteTx, act: &Act, id: SecretId) -> Result<NamedSecret, SecretError> {
    repo::get(tx, (act.tenant_id, id))?.ok_or(SecretError::NotFound)
}

/// The changed fields. For the value, it records only that it changed.
fn changes(before: &NamedSecret, after: &NamedSecret, replaced: bool) -> Changes {
    let fields = |secret: &NamedSecret| {
        json!({
            "description": secret.description,
            "hosts": secret.hosts.iter().map(Host::shown).collect::<Vec<_>>(),
            "workflow_ids": secret.workflow_ids,
        })
    };
    let changes = Changes::between(&fields(before), &fields(after));
    if replaced { changes.with("value", "hidden", "hidden") } else { changes }
}
