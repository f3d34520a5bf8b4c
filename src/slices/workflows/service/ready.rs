//! Evaluates the tenant's programs on a worker, before the transaction: checks definitions, completes inputs, computes concurrency
//! keys. The use cases take the results, so the writer evaluates nothing.

use std::{collections::BTreeSet, sync::Arc};

use serde_json::{Map, Value, json};

use tenantd_base::{
    authority::Authority,
    clock::Timestamp,
    fault::Fault,
    id::{RunId, TenantId, WorkflowId},
    programs::Budget,
};
use tenantd_store::Read;

use super::{
    super::{
        definition::{Definition, Program, faults_of_new, outline},
        error::WorkflowError,
        language::{self, Context},
        model::{Run, RunTrigger, Workflow},
        repo::{self, runs::RunKey},
    },
    NewRun, Service, merge,
};

const MAX_INPUT_BYTES: usize = 65_536;
const MAX_KEY_BYTES: usize = 200;

/// A checked definition that can be stored.
#[derive(Clone, Debug)]
pub(crate) struct Accepted {
    pub(crate) value: Value,
    pub(crate) definition: Arc<Definition>,
    pub(super) next_fire_at: Option<Timestamp>,
}

/// The result of applying a patch to the newest version of a workflow.
#[derive(Clone, Debug)]
pub(crate) struct AcceptedChange {
    /// The version that the patch was applied to.
    pub(super) base: u64,
    /// `None` if nothing changes.
    pub(super) accepted: Option<Accepted>,
}

/// A run that is ready to start: its evaluated inputs and concurrency key, or their faults.
#[derive(Clone, Debug)]
pub(crate) struct ReadyRun {
    pub(crate) workflow_id: WorkflowId,
    pub(crate) version: u64,
    pub(super) new: NewRun,
    pub(super) definition: Arc<Definition>,
    pub(super) evaluated: Result<Evaluated, Vec<Fault>>,
}

impl ReadyRun {
    pub(crate) fn trigger(&self) -> &RunTrigger {
        &self.new.trigger
    }
}

#[derive(Clone, Debug)]
pub(super) struct Evaluated {
    pub(super) inputs: Value,
    pub(super) concurrency_key: Option<String>,
}

impl Service {
    /// Checks a definition, the workflows that it calls, and the rights of its author.
    pub(crate) fn accept(
        &self,
        tx: &impl Read,
        author: &Authority,
        value: Value,
        now: Timestamp,
        budget: &Budget,
    ) -> Result<Accepted, WorkflowError> {
        let program = self.compile_new(&value, budget)?;
        self.accept_program(tx, author, value, program, None, now)
    }

    /// As [`Self::accept`], for a version that may follow another.
    fn accept_program(
        &self,
        tx: &impl Read,
        author: &Authority,
        value: Value,
        program: Program,
        before: Option<&Definition>,
        now: Timestamp,
    ) -> Result<Accepted, WorkflowError> {
        self.check_calls(tx, author.tenant_id(), &program.definition)?;
        self.check_needs(&program.definition, author)?;
        self.check_credentials(tx, author.tenant_id(), &program.definition, before)?;
        Ok(Accepted { value, next_fire_at: program.next_fire(now), definition: program.definition })
    }

    /// Compiles a definition that is to be stored. It must also keep the rules that stored ones need not.
    fn compile_new(&self, value: &Value, budget: &Budget) -> Result<Program, WorkflowError> {
        let more = faults_of_new(&outline(value, &self.planners));
        match self.compile(value, budget) {
            Ok(program) if more.is_empty() => Ok(program),
            Ok(_) => Err(WorkflowError::Invalid(more)),
            Err(faults) => Err(WorkflowError::Invalid([faults, more].concat())),
        }
    }

    /// Applies a merge patch (RFC 7396) to the newest version and checks the result. The caller becomes the author of the new
    /// version. Disabling a workflow needs no rights of its steps, so that a less privileged administrator can stop a more
    /// privileged workflow.
    pub(crate) fn accept_change(
        &self,
        tx: &impl Read,
        author: &Authority,
        id: WorkflowId,
        patch: &Value,
        now: Timestamp,
        budget: &Budget,
    ) -> Result<AcceptedChange, WorkflowError> {
        let tenant = author.tenant_id();
        let workflow = repo::workflows::get(tx, tenant, id)?.ok_or(WorkflowError::NotFound)?;
        let stored = repo::workflows::version(tx, tenant, id, workflow.version)?.ok_or(WorkflowError::NotFound)?;
        let old = stored.definition.0;
        let mut value = old.clone();
        merge(&mut value, patch);
        let accepted = if value == old {
            None
        } else if *patch == json!({"enabled": false}) {
            let program = self.compile(&value, budget).map_err(WorkflowError::Invalid)?;
            Some(Accepted { value, next_fire_at: program.next_fire(now), definition: program.definition })
        } else {
            let before = self.outline(tx, (tenant, id, workflow.version))?;
            let program = self.compile_new(&value, budget)?;
            Some(self.accept_program(tx, author, value, program, Some(&before), now)?)
        };
        Ok(AcceptedChange { base: workflow.version, accepted })
    }

    /// Prepares the newest version again, with the caller as its author.
    pub(crate) fn accept_takeover(
        &self,
        tx: &impl Read,
        author: &Authority,
        id: WorkflowId,
        now: Timestamp,
        budget: &Budget,
    ) -> Result<AcceptedChange, WorkflowError> {
        let tenant = author.tenant_id();
        let workflow = repo::workflows::get(tx, tenant, id)?.ok_or(WorkflowError::NotFound)?;
        let stored = repo::workflows::version(tx, tenant, id, workflow.version)?.ok_or(WorkflowError::NotFound)?;
        let before = self.outline(tx, (tenant, id, workflow.version))?;
        let value = stored.definition.0;
        let program = self.compile(&value, budget).map_err(WorkflowError::Invalid)?;
        let accepted = self.accept_program(tx, author, value, program, Some(&before), now)?;
        Ok(AcceptedChange { base: workflow.version, accepted: Some(accepted) })
    }

    /// Evaluates the inputs and the concurrency key of a run. If this release refuses the definition, the run gets its faults.
    pub(crate) fn ready(
        &self,
        tx: &impl Read,
        workflow: &Workflow,
        version: u64,
        new: NewRun,
        budget: &Budget,
    ) -> Result<ReadyRun, WorkflowError> {
        let evaluated = match self.program(tx, budget, (workflow.tenant_id, workflow.id, version)) {
            Ok(program) => evaluate(&program, workflow, &new, budget),
            Err(WorkflowError::Invalid(faults)) => Err(faults),
            Err(error) => return Err(error),
        };
        let definition = self.outline(tx, (workflow.tenant_id, workflow.id, version))?;
        Ok(ReadyRun { workflow_id: workflow.id, version, new, definition, evaluated })
    }

    /// Prepares a new run with the inputs of an ended one.
    pub(crate) fn ready_again(&self, tx: &impl Read, key: RunKey, id: RunId, budget: &Budget) -> Result<ReadyRun, WorkflowError> {
        let run = repo::runs::get(tx, key)?.ok_or(WorkflowError::RunNotFound)?;
        let workflow = repo::workflows::get(tx, run.tenant_id, run.workflow_id)?.ok_or(WorkflowError::NotFound)?;
        let given = repo::runs::inputs(tx, key)?;
        let Run { trigger, subject_id, .. } = run;
        // A called run that is retried by a request has no step that waits for it.
        let trigger = match trigger {
            RunTrigger::Call { run, path, .. } => RunTrigger::Call { run, path, waits: false },
            other => other,
        };
        let event = given.event.map(|event| event.0);
        let new = NewRun { id, inputs: given.inputs.0, event, trigger, subject_id, depth: 0, retry_of: Some(key.1), cause: None };
        self.ready(tx, &workflow, run.workflow_version, new, budget)
    }

    /// Called workflows must exist and must not call this one, directly or indirectly. A concurrent change can still create a
    /// cycle; the depth limit of runs stops it.
    fn check_calls(&self, tx: &impl Read, tenant: TenantId, definition: &Definition) -> Result<(), WorkflowError> {
        let mut faults = Vec::new();
        for (key, pointer) in definition.calls() {
            let at = format!("{pointer}/with/workflow_key");
            if key == definition.key {
                faults.push(Fault::new(at, "cycle", "a workflow cannot call itself"));
                continue;
            }
            let (mut seen, mut open, mut found) = (BTreeSet::new(), vec![key.to_owned()], false);
            while let Some(next) = open.pop() {
                if !seen.insert(next.clone()) {
                    continue;
                }
                let Some(called) = repo::workflows::find_key(tx, tenant, &next)? else { continue };
                found = true;
                let inner = self.outline(tx, (tenant, called.id, called.version))?;
                if inner.calls().any(|(key, _)| key == definition.key) {
                    faults.push(Fault::new(&at, "cycle", format!("{next} calls this workflow, which would be a cycle")));
                    break;
                }
                open.extend(inner.calls().map(|(key, _)| key.to_owned()));
            }
            if !found {
                faults.push(Fault::new(&at, "unknown_workflow", format!("there is no workflow with the key {key}")));
            }
        }
        if faults.is_empty() { Ok(()) } else { Err(WorkflowError::Invalid(faults)) }
    }
}

fn evaluate(program: &Program, workflow: &Workflow, new: &NewRun, budget: &Budget) -> Result<Evaluated, Vec<Fault>> {
    let inputs = complete_inputs(program, &new.inputs, budget)?;
    let concurrency_key = concurrency_key(&program.definition, workflow, new, &inputs, budget).map_err(|fault| vec![fault])?;
    Ok(Evaluated { inputs, concurrency_key })
}

/// Returns the inputs with the defaults of the schema, or everything that is wrong with them.
pub(crate) fn complete_inputs(program: &Program, given: &Value, budget: &Budget) -> Result<Value, Vec<Fault>> {
    if given.to_string().len() > MAX_INPUT_BYTES {
        return Err(vec![Fault::new("/inputs", "too_long", format!("inputs can have at most {MAX_INPUT_BYTES} bytes"))]);
    }
    match &program.inputs {
        None => Ok(given.clone()),
        Some(schema) => schema
            .complete(given.clone(), budget)
            .map_err(|faults| faults.into_iter().map(|fault| fault.below("/inputs")).collect()),
    }
}

fn concurrency_key(
    definition: &Definition,
    workflow: &Workflow,
    new: &NewRun,
    inputs: &Value,
    budget: &Budget,
) -> Result<Option<String>, Fault> {
    let Some(policy) = &definition.concurrency else { return Ok(None) };
    let mut names = Map::new();
    names.insert("inputs".to_owned(), inputs.clone());
    names.insert("run".to_owned(), json!({"id": new.id, "workflow_key": workflow.key}));
    if let Some(event) = &new.event {
        names.insert("event".to_owned(), event.clone());
    }
    let invalid = |code: &str, message: String| Fault::new("/concurrency/key", code, message);
    let key = match language::render_text(&policy.key, &Context::new(&names), budget) {
        Ok(Value::String(text)) => text,
        Ok(other) => other.to_string(),
        Err(error) => return Err(invalid(error.code(), error.to_string())),
    };
    if key.len() > MAX_KEY_BYTES {
        return Err(invalid("too_long", format!("the concurrency key can have at most {MAX_KEY_BYTES} bytes")));
    }
    Ok(Some(key))
}
