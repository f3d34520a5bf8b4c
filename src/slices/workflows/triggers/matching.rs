//! Determines on a worker what an event causes: which workflows start and which waiting runs continue.

use serde_json::{Map, Value};

use tenantd_base::{clock::Timestamp, id::RunId, programs::Budget};
use tenantd_store::{
    Read,
    events::{Actor, Event, Intent},
};

use super::super::{
    definition::{Program, StepKind, Trigger},
    engine::names,
    error::WorkflowError,
    language::{self, Context},
    model::{Run, RunTrigger, Token, Workflow},
    repo::{self, runs::RunKey},
    service::{MAX_DEPTH, NewRun, ReadyRun, Service, depth_below},
};

/// What an event causes.
#[derive(Debug)]
pub(super) struct Consequences {
    /// The number of the event.
    pub(super) number: u64,
    pub(super) intent: Intent,
    pub(super) body: Value,
    pub(super) starts: Vec<(Workflow, ReadyRun)>,
    /// Runs that may wait for the event. Each is checked separately.
    pub(super) waiting: Vec<RunKey>,
}

/// A step of a run that continues because of the event.
#[derive(Clone, Debug)]
pub(super) struct Woken {
    pub(super) key: RunKey,
    pub(super) token: Token,
}

/// What the event causes. `None` if nothing.
pub(super) fn consequences(
    service: &Service,
    tx: &impl Read,
    event: &Event,
    now: Timestamp,
    budget: &Budget,
) -> Result<Option<Consequences>, WorkflowError> {
    let tenant = event.record.tenant_id;
    let mut workflows = repo::workflows::by_event(tx, tenant, &event.record.kind)?;
    workflows.retain(|workflow| workflow.armed_seq < event.record.number);
    let Ok(body) = serde_json::from_slice::<Value>(&event.record.body) else { return Ok(None) };
    let about = body.pointer("/resource/id").and_then(Value::as_str).unwrap_or_default();
    let waiting = repo::runs::waiting_for(tx, tenant, &event.record.kind, about)?;
    let cause: Option<RunId> = body.pointer("/cause/run_id").and_then(Value::as_str).and_then(|id| id.parse().ok());
    let depth = cause.map(|run| depth_below(tx, (tenant, run))).transpose()?.unwrap_or(0);
    // A run that exceeds the depth limit is reported once, and starts nothing itself.
    if depth > MAX_DEPTH + 1 {
        workflows.clear();
    }
    let mut intent = Intent::new(tenant, now, Actor::system("Workflow triggers"));
    intent.cause.event_id = Some(event.record.id);
    let mut names = Map::new();
    names.insert("event".to_owned(), body.clone());
    names.insert("inputs".to_owned(), Value::Object(Map::new()));
    let context = Context::new(&names);
    // Separate from the ids that the transaction draws.
    let mut ids = Intent::new(tenant, now, intent.actor.clone()).begin().entropy;
    let mut starts = Vec::new();
    for workflow in workflows {
        let Some(program) = program(service, tx, &workflow, budget)? else { continue };
        if !wanted(&program, &workflow, &event.record.kind, &context, budget) {
            continue;
        }
        let new = NewRun {
            id: RunId::new(now, &mut ids),
            inputs: Value::Object(Map::new()),
            event: Some(body.clone()),
            trigger: RunTrigger::Event { id: event.record.id, kind: event.record.kind.clone() },
            subject_id: body.pointer("/resource/id").and_then(Value::as_str).map(str::to_owned),
            depth,
            retry_of: None,
            cause,
        };
        let ready = service.ready(tx, &workflow, workflow.version, new, budget)?;
        starts.push((workflow, ready));
    }
    if starts.is_empty() && waiting.is_empty() {
        return Ok(None);
    }
    Ok(Some(Consequences { number: event.record.number, intent, body, starts, waiting }))
}

fn program(
    service: &Service,
    tx: &impl Read,
    workflow: &Workflow,
    budget: &Budget,
) -> Result<Option<std::sync::Arc<Program>>, WorkflowError> {
    match service.program(tx, budget, (workflow.tenant_id, workflow.id, workflow.version)) {
        Ok(program) => Ok(Some(program)),
        Err(WorkflowError::Invalid(faults)) => {
            tracing::warn!(workflow = %workflow.id, ?faults, "this release refuses the workflow's definition, so the event does not start it");
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// Whether one of the workflow's triggers matches the event. A condition that fails to evaluate does not hold.
fn wanted(program: &Program, workflow: &Workflow, kind: &str, context: &Context, budget: &Budget) -> bool {
    let wants = |trigger: &Trigger| match trigger {
        Trigger::Event { kind: wanted, condition } if wanted == kind => match condition {
            None => true,
            Some(text) => language::holds(text, context, budget).unwrap_or_else(|error| {
                tracing::debug!(workflow = %workflow.id, %error, "could not evaluate a trigger condition");
                metrics::counter!("tenantd_workflow_conditions_failed_total", "code" => error.code()).increment(1);
                false
            }),
        },
        _ => false,
    };
    program.definition.triggers.iter().any(wants)
}

/// The steps of a run that continue because of the event.
pub(super) fn woken(
    service: &Service,
    tx: &impl Read,
    key: RunKey,
    number: u64,
    body: &Value,
    budget: &Budget,
) -> Result<Vec<Woken>, WorkflowError> {
    let Some(run) = repo::runs::get(tx, key)?.filter(|run| !run.status.has_ended()) else { return Ok(Vec::new()) };
    let mut found = Vec::new();
    for token in run.tokens.iter().filter(|token| is_about(token, number, body)) {
        if holds(service, tx, &run, token, body, budget)? {
            found.push(Woken { key, token: token.clone() });
        }
    }
    Ok(found)
}

/// Whether a token waits for this kind of event about this resource, and has waited since before it.
pub(super) fn is_about(token: &Token, number: u64, body: &Value) -> bool {
    let Some((kind, resource, after)) = token.awaited() else { return false };
    let about = body.pointer("/resource/id").and_then(Value::as_str);
    let same = body.get("type").and_then(Value::as_str) == Some(kind);
    same && number > after && resource.is_none_or(|wanted| Some(wanted) == about)
}

fn holds(
    service: &Service,
    tx: &impl Read,
    run: &Run,
    token: &Token,
    body: &Value,
    budget: &Budget,
) -> Result<bool, WorkflowError> {
    let program = match service.program(tx, budget, (run.tenant_id, run.workflow_id, run.workflow_version)) {
        Ok(program) => program,
        // The engine ends a run whose definition this release refuses.
        Err(WorkflowError::Invalid(_) | WorkflowError::NotFound) => return Ok(false),
        Err(error) => return Err(error),
    };
    let number = program.definition.block(token.block).get(token.at as usize);
    let Some(step) = number.and_then(|number| program.definition.step(*number)) else { return Ok(false) };
    let StepKind::WaitEvent { condition, .. } = &step.kind else { return Ok(false) };
    let Some(condition) = condition else { return Ok(true) };
    let mut names = names(tx, run, &program, token, step)?;
    names.insert("event".to_owned(), body.clone());
    // A condition that fails to evaluate for this event does not hold for it.
    Ok(language::holds(condition, &Context::new(&names), budget).unwrap_or(false))
}
