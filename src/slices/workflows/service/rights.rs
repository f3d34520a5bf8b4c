//! The rights that a run acts with.
//!
//! A version acts for its author, who must hold the scopes that its steps and triggers need. A run acts with the current rights
//! that its author, the user or key that started it, and the run that called it have in common. An approval adds no rights.
//!
//! **Invariant:** a step acts only while everyone that the run acts for may read everything that the run has read. The value of one
//! step can be part of any other value, so sending data out uses it.

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

/// The maximum length of a chain of calling runs.
const MAX_CALLERS: usize = 16;

impl Service {
    /// The rights that a step needs from the user or key that it acts for.
    pub(crate) fn needs_of(&self, step: &Step) -> Grants {
        let secrets = if step.secrets.is_empty() { Grants::NONE } else { Grants::of(&[Scope::SecretsUse]) };
        secrets.union(match &step.kind {
            StepKind::Action => self.planners.get(&step.type_name).map_or(Grants::NONE, |known| known.scopes()),
            StepKind::WaitEvent { kind, .. } => self.kinds.reads(kind),
            StepKind::Call { .. } => Grants::of(&[Scope::WorkflowsRun]),
            _ => Grants::NONE,
        })
    }

    /// The rights that a caller needs to save or start a definition: those of its steps, and those to read the events that start
    /// it.
    pub(crate) fn needs(&self, definition: &Definition) -> Grants {
        let steps = definition.steps.iter().map(|step| self.needs_of(step));
        steps.chain(self.triggering(definition)).fold(Grants::NONE, Grants::union)
    }

    /// The read rights that a definition's steps and triggers need. A run carries the data that they read, so its owners must keep
    /// these rights.
    pub(crate) fn carries(&self, definition: &Definition) -> Grants {
        let steps = definition.steps.iter().map(|step| match &step.kind {
            StepKind::WaitEvent { kind, .. } => self.kinds.reads(kind),
            _ => self.needs_of(step).reads(),
        });
        steps.chain(self.triggering(definition)).fold(Grants::NONE, Grants::union)
    }

    /// The rights to read the events that start a definition.
    pub(super) fn triggering(&self, definition: &Definition) -> impl Iterator<Item = Grants> {
        definition.triggers.iter().map(|trigger| match trigger {
            Trigger::Event { kind, .. } => self.kinds.reads(kind),
            Trigger::Manual | Trigger::Schedule { .. } => Grants::NONE,
        })
    }

    /// Checks whether a caller may save or start the definition. The scopes that allow this request are tenant-wide, so only scopes
    /// can be missing.
    pub(crate) fn check_needs(&self, definition: &Definition, held: &Authority) -> Result<(), WorkflowError> {
        let lacking = self.needs(definition).without(held.scopes());
        if lacking == Grants::NONE { Ok(()) } else { Err(WorkflowError::NotHeld(Box::new(Lacking::scopes(lacking)))) }
    }

    /// The current rights of a run. `None` if someone that it acts for has no tenant-wide rights.
    pub(crate) fn rights_of(&self, tx: &ReadTx, run: &Run, now: Timestamp) -> Result<Option<Authority>, WorkflowError> {
        let Some(mut rights) = self.own_rights(tx, run, now)? else { return Ok(None) };
        let mut caller = called_by(run);
        for _ in 0..MAX_CALLERS {
            let Some(id) = caller else { return Ok(Some(rights)) };
            // A deleted calling run has no rights to share.
            let Some(above) = repo::runs::get(tx, (run.tenant_id, id))? else { return Ok(None) };
            let Some(callers) = self.own_rights(tx, &above, now)? else { return Ok(None) };
            rights = rights.meet(&callers);
            caller = called_by(&above);
        }
        Ok(if caller.is_some() { None } else { Some(rights) })
    }

    /// The rights that the author of a run's version and the user or key that started it have in common.
    fn own_rights(&self, tx: &ReadTx, run: &Run, now: Timestamp) -> Result<Option<Authority>, WorkflowError> {
        let version = (run.tenant_id, run.workflow_id, run.workflow_version);
        let Some(rights) = self.author_rights(tx, version, now)? else { return Ok(None) };
        match run.started_by.kind {
            // The calling run contributes the caller's rights.
            ActorKind::Workflow => Ok(Some(rights)),
            _ => Ok(self.holder_rights(tx, run.tenant_id, &run.started_by, now)?.map(|starter| rights.meet(&starter))),
        }
    }

    /// The current rights of a user or key. `None` if there are none, and for a key that is restricted to organizations: a workflow
    /// acts on the whole tenant.
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

    /// The current rights that the author of a version has in common with the caller of a dry run.
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
