//! Whose rights a run acts with.
//!
//! A version acts for its author: whoever saved it must hold what its steps and triggers need. A run acts with what the author may do now,
//! met with what whoever started it may do now, and with the same of the run that has called it. An approval adds no rights.
//!
//! **Invariant:** a step acts only while those whom the run acts for may read everything that the run has read: a value of one step can be
//! in that of any other, so sending something out is using it.

use tenantd_base::{
    access::{Grants, Scope},
    authority::{Authority, Lacking, Within},
    clock::Timestamp,
    id::TenantId,
};
use tenantd_store::{
    ReadTx,
    events::{Actor, ActorKind},
};

use super::{
    super::{
        definition::{Definition, Step, StepKind, Trigger},
        error::WorkflowError,
        model::{Run, RunTrigger},
        repo,
    },
    Service,
};

/// Runs that lead to one another by calls, at most.
const MAX_CALLERS: usize = 16;

impl Service {
    /// The rights that a step needs from the person or key that it acts for.
    pub(crate) fn needs_of(&self, step: &Step) -> Grants {
        let secrets = if step.secrets.is_empty() { Grants::NONE } else { Grants::of(&[Scope::SecretsUse]) };
        secrets.union(match &step.kind {
            StepKind::Action => self.planners.get(&step.type_name).map_or(Grants::NONE, |known| known.scopes()),
            StepKind::WaitEvent { kind, .. } => self.kinds.reads(kind),
            StepKind::Call { .. } => Grants::of(&[Scope::WorkflowsRun]),
            _ => Grants::NONE,
        })
    }

    /// What a definition takes of whoever saves or starts it: the needs of its steps, and of the events that start it.
    pub(crate) fn needs(&self, definition: &Definition) -> Grants {
        let steps = definition.steps.iter().map(|step| self.needs_of(step));
        steps.chain(self.triggering(definition)).fold(Grants::NONE, Grants::union)
    }

    /// What a definition's steps and triggers need to read. A run carries what they have read, so those whom it acts for must keep it.
    pub(crate) fn carries(&self, definition: &Definition) -> Grants {
        let steps = definition.steps.iter().map(|step| match &step.kind {
            StepKind::WaitEvent { kind, .. } => self.kinds.reads(kind),
            _ => self.needs_of(step).reads(),
        });
        steps.chain(self.triggering(definition)).fold(Grants::NONE, Grants::union)
    }

    /// What reads the events that start a definition.
    pub(super) fn triggering(&self, definition: &Definition) -> impl Iterator<Item = Grants> {
        definition.triggers.iter().map(|trigger| match trigger {
            Trigger::Event { kind, .. } => self.kinds.reads(kind),
            Trigger::Manual | Trigger::Schedule { .. } => Grants::NONE,
        })
    }

    /// Whether somebody may save or start the definition. The scopes that lead here are tenant-wide, so only scopes can be missing.
    pub(crate) fn check_needs(&self, definition: &Definition, held: &Authority) -> Result<(), WorkflowError> {
        let lacking = self.needs(definition).without(held.scopes());
        if lacking == Grants::NONE { Ok(()) } else { Err(WorkflowError::NotHeld(Box::new(Lacking::scopes(lacking)))) }
    }

    /// What a run may do now. `None` if somebody whom it acts for may do nothing in the tenant as a whole.
    pub(crate) fn rights_of(&self, tx: &ReadTx, run: &Run, now: Timestamp) -> Result<Option<Authority>, WorkflowError> {
        let Some(mut rights) = self.own_rights(tx, run, now)? else { return Ok(None) };
        let mut caller = called_by(run);
        for _ in 0..MAX_CALLERS {
            let Some(id) = caller else { return Ok(Some(rights)) };
            // A run that is gone has nothing to give.
            let Some(above) = repo::runs::get(tx, (run.tenant_id, id))? else { return Ok(None) };
            let Some(callers) = self.own_rights(tx, &above, now)? else { return Ok(None) };
            rights = rights.meet(&callers);
            caller = called_by(&above);
        }
        Ok(if caller.is_some() { None } else { Some(rights) })
    }

    /// The rights of the author of a run's version, met with those of whoever started it.
    fn own_rights(&self, tx: &ReadTx, run: &Run, now: Timestamp) -> Result<Option<Authority>, WorkflowError> {
        let version = (run.tenant_id, run.workflow_id, run.workflow_version);
        let Some(rights) = self.author_rights(tx, version, now)? else { return Ok(None) };
        match run.started_by.kind {
            // The caller's rights come in by the run that has called.
            ActorKind::Workflow => Ok(Some(rights)),
            _ => Ok(self.holder_rights(tx, run.tenant_id, &run.started_by, now)?.map(|starter| rights.meet(&starter))),
        }
    }

    /// What somebody may do now. `None` for those who may do nothing any more, and for a key that was restricted to some organizations:
    /// a workflow is about the whole tenant.
    pub(super) fn holder_rights(
        &self,
        tx: &ReadTx,
        tenant: TenantId,
        holder: &Actor,
        now: Timestamp,
    ) -> Result<Option<Authority>, WorkflowError> {
        let rights = self.holders.authority(tx, tenant, holder, now)?;
        Ok(Some(rights).filter(|rights| rights.scopes() != Grants::NONE && *rights.organizations() == Within::All))
    }

    /// What the author of a version may do now, met with what somebody holds who wants to try it.
    pub(crate) fn rights_with(
        &self,
        tx: &ReadTx,
        version: super::VersionKey,
        held: &Authority,
        now: Timestamp,
    ) -> Result<Authority, WorkflowError> {
        let rights = self.author_rights(tx, version, now)?;
        Ok(rights.map_or_else(|| Authority::new(version.0, Grants::NONE), |rights| rights.meet(held)))
    }
}

pub(super) fn called_by(run: &Run) -> Option<tenantd_base::id::RunId> {
    match &run.trigger {
        RunTrigger::Call { run, .. } => Some(*run),
        _ => None,
    }
}
