//! Workflows and their runs as they leave for another installation and arrive there. A run that has not ended stays, with what it was
//! started with and its steps: in two places its effects would come twice.

use super::{
    COUNTS, Counts,
    runs::{INPUTS, RUNS, RunKey, STEPS},
    workflows::{VERSIONS, WORKFLOWS},
};
use crate::kernel::{
    portable::{Carrier, Departure, Portable},
    store::StoreError,
};

fn has_ended(departure: &Departure<'_>, run: RunKey) -> Result<bool, StoreError> {
    Ok(RUNS.get(departure.tx, &run)?.is_some_and(|run| run.0.status.has_ended()))
}

/// Workflows come last: one that is due finds all of its definition.
pub(in super::super) fn portable() -> Vec<Box<dyn Portable>> {
    vec![
        Carrier::plain("workflow_version", &VERSIONS),
        Carrier::turning(
            "workflow_run_input",
            &INPUTS,
            |departure, key, inputs| Ok(has_ended(departure, key)?.then_some((key, inputs))),
            |_, key, inputs| Ok((key, inputs)),
        ),
        Carrier::turning(
            "workflow_step",
            &STEPS,
            |departure, key, step| Ok(has_ended(departure, (key.0, key.1))?.then_some((key, step))),
            |_, key, step| Ok((key, step)),
        ),
        Carrier::turning(
            "workflow_run",
            &RUNS,
            |_, key, run| Ok(run.0.status.has_ended().then_some((key, run))),
            |_, key, run| Ok((key, run)),
        ),
        Carrier::turning(
            "workflow_count",
            &COUNTS,
            |_, key, counts| Ok(Some((key, Counts { active_runs: 0, ..counts }))),
            |_, key, counts| Ok((key, counts)),
        ),
        Carrier::turning(
            "workflow",
            &WORKFLOWS,
            |departure, key, mut workflow| {
                workflow.armed_seq = departure.place(workflow.armed_seq)?;
                Ok(Some((key, workflow)))
            },
            |arrival, key, mut workflow| {
                workflow.armed_seq = arrival.place(workflow.armed_seq)?;
                Ok((key, workflow))
            },
        ),
    ]
}
