//! Whose rights a run acts with.
//!
//! A version acts for its author: whoever saved it must hold what its steps and triggers need. A run acts with what the author may do now,
//! met with what whoever started it may do now, and with the same of the run that has called it. An approval adds no rights.

use super::{
    super::{
        definition::{Definition, Step, StepKind, Trigger},
        error::WorkflowError,
        model::{Run, RunTrigger},
        repo,
    },
    Service,
};
use crate::kernel::{
    access::{Grants, Scope},
    authority::{Authority, Lacking},
    clock::Timestamp,
    events::{Actor, ActorKind},
    store::ReadTx,
};

/// Runs that lead to one another by calls, at most.
const MAX_CALLERS: usize = 16;

impl Service {
    /// What a step takes of whoever it acts for.
    pub(in super::super) fn needs_of(&self, step: &Step) -> Grants {
        let secrets = if step.secrets.is_empty() { Grants::NONE } else { Grants::of(&[Scope::SecretsUse]) };
        secrets.union(match &step.kind {
            StepKind::Action => self.planners.get(&step.type_name).map_or(Grants::NONE, |known| known.scopes()),
            StepKind::WaitEvent { kind, .. } => self.kinds.reads(kind),
            StepKind::Call { .. } => Grants::of(&[Scope::WorkflowsRun]),
            _ => Grants::NONE,
        })
    }

    /// What a definition takes of whoever saves or starts it: the needs of its steps, and of the events that start it.
    pub(in super::super) fn needs(&self, definition: &Definition) -> Grants {
        let steps = definition.steps.iter().map(|step| self.needs_of(step));
        let triggers = definition.triggers.iter().map(|trigger| match trigger {
            Trigger::Event { kind, .. } => self.kinds.reads(kind),
            Trigger::Manual | Trigger::Schedule { .. } => Grants::NONE,
        });
        steps.chain(triggers).fold(Grants::NONE, Grants::union)
    }

    /// What a reader must hold to see what went through a run: values of one step can be in those of any other.
    pub(in super::super) fn reads(&self, definition: &Definition) -> Grants {
        self.needs(definition).iter().filter(|scope| scope.is_read()).collect()
    }

    /// Whether somebody may save or start the definition. The scopes that lead here are tenant-wide, so only scopes can be missing.
    pub(in super::super) fn check_needs(&self, definition: &Definition, held: &Authority) -> Result<(), WorkflowError> {
        let lacking = self.needs(definition).without(held.scopes());
        if lacking == Grants::NONE { Ok(()) } else { Err(WorkflowError::NotHeld(Box::new(Lacking::scopes(lacking)))) }
    }

    /// What a run may do now.
    pub(in super::super) fn rights_of(&self, tx: &ReadTx, run: &Run, now: Timestamp) -> Result<Authority, WorkflowError> {
        let mut rights = self.own_rights(tx, run, now)?;
        let mut caller = called_by(run);
        for _ in 0..MAX_CALLERS {
            let Some(id) = caller else { return Ok(rights) };
            // A run that is gone has nothing to give.
            let Some(above) = repo::runs::get(tx, (run.tenant_id, id))? else { break };
            rights = rights.meet(&self.own_rights(tx, &above, now)?);
            caller = called_by(&above);
        }
        if caller.is_some() {
            return Ok(Authority::new(run.tenant_id, Grants::NONE));
        }
        Ok(rights)
    }

    /// The rights of the author of a run's version, met with those of whoever started it.
    fn own_rights(&self, tx: &ReadTx, run: &Run, now: Timestamp) -> Result<Authority, WorkflowError> {
        let author = self.author(tx, (run.tenant_id, run.workflow_id, run.workflow_version))?;
        let rights = self.holder_rights(tx, run, &author, now)?;
        match run.started_by.kind {
            // The caller's rights come in by the run that has called.
            ActorKind::Workflow => Ok(rights),
            _ => Ok(rights.meet(&self.holder_rights(tx, run, &run.started_by, now)?)),
        }
    }

    fn holder_rights(&self, tx: &ReadTx, run: &Run, holder: &Actor, now: Timestamp) -> Result<Authority, WorkflowError> {
        Ok(self.holders.authority(tx, run.tenant_id, holder, now)?)
    }

    /// What the author of a version may do now, met with what somebody holds who wants to try it.
    pub(in super::super) fn rights_with(
        &self,
        tx: &ReadTx,
        version: super::VersionKey,
        held: &Authority,
        now: Timestamp,
    ) -> Result<Authority, WorkflowError> {
        let author = self.author(tx, version)?;
        Ok(self.holders.authority(tx, version.0, &author, now)?.meet(held))
    }
}

fn called_by(run: &Run) -> Option<crate::kernel::id::RunId> {
    match &run.trigger {
        RunTrigger::Call { run, .. } => Some(*run),
        _ => None,
    }
}
