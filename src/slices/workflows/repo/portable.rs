//! Moves workflows and their runs to and from another installation. Unfinished runs stay, with their inputs and steps, because
//! their effects would otherwise happen twice. Workflows from an unverified file arrive disabled. The counts are recomputed.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use tenantd_base::id::TenantId;
use tenantd_store::{
    StoreError, WriteTx,
    portable::{Arrival, Carrier, Departure, PortError, Portable, refuse_orphans},
};

use super::{
    super::model::{Origin, Run, Workflow},
    COUNTS, Counts,
    runs::{INPUTS, RUNS, RunKey, STEPS},
    workflows::{VERSIONS, WORKFLOWS, WorkflowKey},
};

/// The longest definition as JSON, which is larger than the API allows.
const MAX_DEFINITION: usize = 1 << 20;

/// The fields of a workflow record that come from its newest definition.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct DefinitionFields {
    pub(crate) key: String,
    pub(crate) name: String,
    pub(crate) enabled: bool,
    pub(crate) events: Vec<String>,
}

/// Reads a definition, or returns what is wrong with it.
type ReadDefinition = Box<dyn Fn(TenantId, &Value) -> Result<DefinitionFields, String> + Send + Sync>;

/// The rules that the service applies to a workflow.
pub(crate) struct Rules {
    pub(crate) max_workflows: u64,
    pub(crate) read: ReadDefinition,
}

fn has_ended(departure: &Departure<'_>, run: RunKey) -> Result<bool, StoreError> {
    Ok(RUNS.get(departure.tx, &run)?.is_some_and(|run| run.status.has_ended()))
}

/// Workflows come last, so that a due workflow always has its definition.
pub(crate) fn portable(rules: Rules) -> Vec<Box<dyn Portable>> {
    let Rules { max_workflows, read } = rules;
    vec![versions(read), inputs(), steps(), runs(), counts(), workflows(max_workflows)]
}

fn versions(read: ReadDefinition) -> Box<dyn Portable> {
    Carrier::turning(
        "workflow_version",
        &VERSIONS,
        |_, key, version| Ok(Some((key, version))),
        |arrival, key, mut version| {
            if version.definition.0.to_string().len() > MAX_DEFINITION {
                return Err(PortError::wrong("definition: too long"));
            }
            if !arrival.is_verified()
                && let Some(definition) = version.definition.0.as_object_mut()
            {
                definition.insert("enabled".to_owned(), json!(false));
            }
            Ok(Some((key, version)))
        },
    )
    // Versions come in order, so the last remembered one is the newest. Older versions that this release cannot read are never run.
    .examined(move |arrival, (_, id, version), record| {
        let read = read(arrival.tenant, &record.definition.0);
        let remembered = serde_json::to_string(&(version, read)).map_err(PortError::wrong)?;
        arrival.remember(*id.as_bytes(), remembered);
        Ok(())
    })
    .verified_by(|tx, arrival| {
        let tenant = arrival.tenant;
        refuse_orphans(
            tx,
            tenant,
            ("workflow_version", &VERSIONS),
            |key| key.1,
            |id| Ok(WORKFLOWS.get(tx, &(tenant, *id))?.is_some()),
        )
    })
    .boxed()
}

fn inputs() -> Box<dyn Portable> {
    Carrier::turning(
        "workflow_run_input",
        &INPUTS,
        |departure, key, inputs| Ok(has_ended(departure, key)?.then_some((key, inputs))),
        |_, key, inputs| Ok(Some((key, inputs))),
    )
    .verified_by(|tx, arrival| {
        let (tenant, exists) = (arrival.tenant, |key: &RunKey| Ok(RUNS.get(tx, key)?.is_some()));
        refuse_orphans(tx, tenant, ("workflow_run_input", &INPUTS), |key| *key, exists)?;
        refuse_orphans(tx, tenant, ("workflow_step", &STEPS), |key| (key.0, key.1), exists)
    })
    .boxed()
}

fn steps() -> Box<dyn Portable> {
    Carrier::turning(
        "workflow_step",
        &STEPS,
        |departure, key, step| Ok(has_ended(departure, (key.0, key.1))?.then_some((key, step))),
        |_, key, step| Ok(Some((key, step))),
    )
    .boxed()
}

fn runs() -> Box<dyn Portable> {
    Carrier::turning(
        "workflow_run",
        &RUNS,
        |_, key, run: Run| Ok(run.status.has_ended().then_some((key, run))),
        |_, key, run: Run| {
            // The run is stored under the ids that it contains.
            if key != (run.tenant_id, run.id) {
                return Err(PortError::wrong("its key and the ids in it are not the same"));
            }
            if !run.status.has_ended() || !run.tokens.is_empty() {
                return Err(PortError::wrong("an unfinished run cannot be moved"));
            }
            Ok(Some((key, run)))
        },
    )
    .kept_by(|tx, key, run| {
        let version = (key.0, run.workflow_id, run.workflow_version);
        if VERSIONS.get(tx, &version)?.is_none() {
            return Err(PortError::Wrong(format!(
                "it is a run of version {} of {}, which is not in the file",
                version.2, version.1
            )));
        }
        Ok(RUNS.put(tx, key, run)?)
    })
    .boxed()
}

fn counts() -> Box<dyn Portable> {
    Carrier::turning(
        "workflow_count",
        &COUNTS,
        |_, key, counts| Ok(Some((key, Counts { active_runs: 0, ..counts }))),
        // Workflows are counted as they arrive, after this record.
        |_, key, _: Counts| Ok(Some((key, Counts::default()))),
    )
    .boxed()
}

fn workflows(most: u64) -> Box<dyn Portable> {
    Carrier::turning(
        "workflow",
        &WORKFLOWS,
        |departure, key, mut workflow| {
            workflow.armed_seq = departure.place(workflow.armed_seq)?;
            Ok(Some((key, workflow)))
        },
        |arrival, key, mut workflow| {
            workflow.armed_seq = arrival.place(workflow.armed_seq)?;
            if !arrival.is_verified() {
                if workflow.is_live() {
                    arrival.switch_off("workflows", &workflow.name);
                }
                workflow.enabled = false;
                // Its rights in the other installation do not apply here.
                workflow.origin = Origin::Checked;
            }
            Ok(Some((key, workflow)))
        },
    )
    .examined(move |arrival, key, workflow| {
        if workflow.archived_at.is_none() {
            arrival.count_within("workflows", most)?;
        }
        check_definition(arrival, key, workflow)
    })
    .kept_by(|tx: &mut WriteTx, key, workflow| {
        if VERSIONS.get(tx, &(key.0, key.1, workflow.version))?.is_none() {
            return Err(PortError::wrong("its newest definition is not in the file"));
        }
        super::count(tx, key.0, i64::from(workflow.archived_at.is_none()), 0)?;
        Ok(WORKFLOWS.put(tx, key, workflow)?)
    })
    .boxed()
}

/// Checks that the record matches its newest definition. The definition must be readable, unless the workflow is archived.
fn check_definition(arrival: &Arrival, (_, id): &WorkflowKey, workflow: &Workflow) -> Result<(), PortError> {
    let newest: Option<(u64, Result<DefinitionFields, String>)> =
        arrival.recall(id.as_bytes()).and_then(|text| serde_json::from_str(text).ok());
    match newest {
        Some((version, _)) if version != workflow.version => Err(PortError::wrong("its newest definition is of another version")),
        Some((_, Ok(fields))) if matches_definition(workflow, &fields) => Ok(()),
        Some((_, Ok(_))) => Err(PortError::wrong("its key, name, events or state are not those of its newest definition")),
        Some((_, Err(_))) if workflow.archived_at.is_some() => Ok(()),
        Some((_, Err(fault))) => Err(PortError::Wrong(format!("its definition cannot be used: {fault}"))),
        None => Err(PortError::wrong("its newest definition is not in the file")),
    }
}

/// Whether the record matches the definition.
fn matches_definition(workflow: &Workflow, definition: &DefinitionFields) -> bool {
    let DefinitionFields { key, name, enabled, events } = definition;
    (&workflow.key, &workflow.name, workflow.enabled, &workflow.events) == (key, name, *enabled, events)
}
