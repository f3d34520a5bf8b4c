//! What a reader must hold to see what went through a run.
//!
//! A value of one step can be in that of any other, so a run has one label: everything that its steps and triggers read. What is handed to
//! a called run and what comes back from it is in both, so all runs that calls connect have the label of all of them.

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

/// Connected runs that are looked at, and steps of each. Of more, nobody says what they have read.
const MOST_RUNS: usize = 32;
const MOST_STEPS: usize = 2_000;

impl Service {
    /// What a reader needs for the values of a run.
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
                let Some(results) = repo::runs::results(tx, (run.tenant_id, run.id), MOST_STEPS)? else { return Ok(everything()) };
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
                    Some(other) if seen.len() + open.len() < MOST_RUNS => open.push(other),
                    _ => return Ok(everything()),
                }
            }
        }
        Ok(label)
    }

    /// What the steps and triggers of a definition can bring into a run.
    fn shows(&self, definition: &Definition) -> Grants {
        let steps = definition.steps.iter().map(|step| self.shown_by(step));
        steps.chain(self.triggering(definition)).fold(Grants::NONE, Grants::union)
    }

    /// Whether what a step has brought into a run can be told from its result alone.
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

/// The label of what nobody can say any more where it comes from.
fn everything() -> Grants {
    Role::Admin.grants()
}
