//! The scopes that a reader needs to see the values of a run.
//!
//! The value of one step can be part of any other value, so a run has one label: everything that its steps and triggers read. A
//! called run shares its input and output with its caller, so all runs that calls connect have the combined label of all of them.

use std::collections::BTreeSet;

use tenantd_base::{
    access::{Grants, Role},
    id::RunId,
};
use tenantd_store::Read;

use super::{
    super::{
        definition::{Definition, Step, StepKind},
        error::WorkflowError,
        model::Run,
        repo,
    },
    Service,
    rights::called_by,
};

/// The maximum number of connected runs, and of steps in each. Beyond these limits the label is [`everything`].
const MAX_RUNS: usize = 32;
const MAX_STEPS: usize = 2_000;

impl Service {
    /// The scopes that a reader needs for the values of a run.
    pub(crate) fn label_of(&self, tx: &impl Read, run: &Run) -> Result<Grants, WorkflowError> {
        let (mut label, mut seen, mut open) = (Grants::NONE, BTreeSet::new(), vec![run.clone()]);
        while let Some(run) = open.pop() {
            seen.insert(run.id);
            let definition = match self.outline(tx, (run.tenant_id, run.workflow_id, run.workflow_version)) {
                Ok(definition) => definition,
                Err(WorkflowError::NotFound) => return Ok(everything()),
                Err(error) => return Err(error),
            };
            label = label.union(self.shows(&definition));
            let mut connected: Vec<RunId> = called_by(&run).into_iter().collect();
            if definition.steps.iter().any(|step| self.has_read_more(step)) {
                let Some(results) = repo::runs::results(tx, (run.tenant_id, run.id), MAX_STEPS)? else { return Ok(everything()) };
                for result in results {
                    let called = result.effects.iter().filter(|(kind, _)| kind == repo::runs::CALLED_RUN);
                    connected.extend(called.filter_map(|(_, id)| id.parse::<RunId>().ok()));
                    if let (Some(known), Some(output)) = (self.planners.get(&result.type_name), &result.output) {
                        label = label.union(known.has_read(&output.0));
                    }
                }
            }
            for id in connected.into_iter().filter(|id| !seen.contains(id)).collect::<Vec<_>>() {
                match repo::runs::get(tx, (run.tenant_id, id))? {
                    Some(other) if seen.len() + open.len() < MAX_RUNS => open.push(other),
                    _ => return Ok(everything()),
                }
            }
        }
        Ok(label)
    }

    /// The scopes for the values that the steps and triggers of a definition can bring into a run.
    fn shows(&self, definition: &Definition) -> Grants {
        let steps = definition.steps.iter().map(|step| self.shown_by(step));
        steps.chain(self.triggering(definition)).fold(Grants::NONE, Grants::union)
    }

    /// Whether only the result of a step shows what it brought into the run.
    fn has_read_more(&self, step: &Step) -> bool {
        match step.kind {
            StepKind::Call { .. } => true,
            StepKind::Action => self.planners.get(&step.type_name).is_some_and(|known| known.reads_more()),
            _ => false,
        }
    }

    fn shown_by(&self, step: &Step) -> Grants {
        match &step.kind {
            StepKind::Action => self.planners.get(&step.type_name).map_or_else(everything, |known| known.scopes().reads()),
            StepKind::WaitEvent { kind, .. } => self.kinds.reads(kind),
            _ => Grants::NONE,
        }
    }
}

/// The label of values whose origin is unknown.
fn everything() -> Grants {
    Role::Admin.grants()
}
