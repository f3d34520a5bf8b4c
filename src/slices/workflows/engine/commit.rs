//! Writes a move of a run: the effect of a step and its result in one transaction, and only if the run has not changed since.

use serde_json::{Value, json};

use tenantd_store::{
    Read, WriteTx,
    events::Act,
    steps::{Applier, LocalError, StepDone, StepError},
    usage,
};

use super::{
    super::{
        error::WorkflowError,
        model::{Run, RunStatus, StepStatus, TokenState, Wait, Workflow},
        repo::{self, runs::RunKey},
        service::{ReadyRun, Service, Stage, Started, ensure_room},
        steps::{Appliers, QUOTA_EXCEEDED},
    },
    prepare::{Action, Move},
};

/// The condition under which the move is written.
#[derive(Clone, Copy, Debug)]
pub(super) enum Expected {
    /// The run still has the version that the decision was based on.
    Version(u64),
    /// The token still waits for the result of its call.
    Calling,
}

/// Returns the run after the move, or `None` if the run does not meet `expected`. If the tenant has no room for the move, that is
/// an error of the step.
pub(super) fn commit(
    service: &Service,
    appliers: &Appliers,
    tx: &mut WriteTx,
    act: &mut Act,
    key: RunKey,
    expected: Expected,
    next: &Move,
) -> Result<Option<Run>, WorkflowError> {
    let Some(seen) = repo::runs::get(tx, key)?.filter(|run| fits(run, expected, next.token)) else { return Ok(None) };
    let token = next.token;
    let redacted = |name: &str, with: &Value| {
        let mut shown = with.clone();
        if let Some(step) = service.planners.get(name) {
            step.redact(&mut shown);
        }
        shown
    };
    if matches!(next.action, Action::Apply { .. } | Action::Call { begin: true, .. } | Action::StartRun { .. })
        && let Some(exceeded) = usage::used_up(tx, key.0, act.now)?
    {
        return Err(WorkflowError::Step(StepError::new(QUOTA_EXCEEDED, exceeded.to_string())));
    }
    // The effect comes first: its events precede the events of the run in the log.
    let done = match &next.action {
        Action::Apply { name, with } => {
            let done = apply(appliers, tx, act, name, with)?;
            service.count_effects(tx, key, done.effects.len())?;
            Some(done)
        }
        _ => None,
    };
    let started = match &next.action {
        Action::StartRun { key, wait, ready, .. } => match start_run(service, tx, act, &seen, key, *wait, ready)? {
            Some(run) => Some(run),
            None => return Ok(None),
        },
        _ => None,
    };
    let Some(mut stage) = Stage::open(service, tx, act, key)? else { return Ok(None) };
    match &next.action {
        Action::TimeOut => stage.end(RunStatus::TimedOut)?,
        Action::Leave => stage.leave(token)?,
        Action::Skip => stage.skip(token)?,
        Action::Fail { input, error, status } => stage.fail(token, input.clone(), error, *status)?,
        Action::Stop { error } => {
            stage.stops = true;
            stage.fail(token, None, error, StepStatus::Failed)?;
        }
        Action::Finish { input, output } => stage.finish(token, input.clone(), output.clone(), &[])?,
        Action::Return { input, output } => stage.return_output(token, input.clone(), output.clone())?,
        Action::Enter { input, blocks } => stage.enter(token, input.clone(), blocks)?,
        Action::Loop { block, items, most } => stage.enter_loop(token, *block, items.clone(), *most)?,
        Action::Wait { input, wait, until, approval } => {
            stage.asks = *approval;
            stage.waits(token, input.clone(), wait.clone(), *until)?;
        }
        Action::Apply { name, with } => {
            if let Some(done) = done {
                stage.finish(token, Some(redacted(name, with)), done.output, &done.effects)?;
            }
        }
        Action::Call { name, with, .. } => stage.calls(token, redacted(name, with))?,
        Action::AwaitRights { input, until } => stage.awaits_rights(token, input.clone(), *until)?,
        Action::StartRun { input, wait, until, .. } => {
            if let Some(run) = started {
                if *wait {
                    stage.waits(token, input.clone(), Wait::Run { id: run.id }, *until)?;
                } else {
                    stage.finish(token, Some(input.clone()), json!({"run_id": run.id}), &[])?;
                }
            }
        }
    }
    let run = stage.save()?;
    // A move that ends the run is always written.
    if !matches!(next.action, Action::TimeOut | Action::Leave | Action::Stop { .. }) {
        ensure_room(tx, &run)?;
    }
    Ok(Some(run))
}

fn fits(run: &Run, expected: Expected, token: u32) -> bool {
    match expected {
        Expected::Version(version) => run.version == version,
        Expected::Calling => run.token(token).is_some_and(|token| token.state == TokenState::Calling),
    }
}

fn apply(appliers: &Appliers, tx: &mut WriteTx, act: &mut Act, name: &str, with: &Value) -> Result<StepDone, WorkflowError> {
    let unknown = || WorkflowError::Step(StepError::new("unknown_step_type", format!("this release has no step type {name}")));
    match appliers.get(name) {
        Some(Applier::Local(step)) => step.apply(tx, act, with).map_err(|error| match error {
            LocalError::Step(error) => WorkflowError::Step(error),
            LocalError::Store(error) => error.into(),
        }),
        _ => Err(unknown()),
    }
}

/// Starts the run that a step calls. `None` if the workflow has changed in the meantime.
fn start_run(
    service: &Service,
    tx: &mut WriteTx,
    act: &mut Act,
    caller: &Run,
    key: &str,
    waits: bool,
    ready: &ReadyRun,
) -> Result<Option<Run>, WorkflowError> {
    let workflow = repo::workflows::find_key(tx, caller.tenant_id, key)?;
    let same = |workflow: &Workflow| workflow.enabled && (workflow.id, workflow.version) == (ready.workflow_id, ready.version);
    let Some(workflow) = workflow.filter(same) else { return Ok(None) };
    match service.start_or_record_failure(tx, act, &workflow, ready)? {
        // This run would not be woken by the end of a run that another caller started.
        Started::Existing(run) if waits => {
            let message = format!("{} has the same concurrency key and has not ended", run.id);
            Err(WorkflowError::Step(StepError::retryable("concurrency_conflict", message)))
        }
        Started::New(run) | Started::Existing(run) => Ok(Some(run)),
    }
}

pub(super) fn path_of(service: &Service, tx: &impl Read, run: &Run, token: u32) -> Result<String, WorkflowError> {
    let definition = service.outline(tx, (run.tenant_id, run.workflow_id, run.workflow_version))?;
    let found = run.token(token).and_then(|token| {
        let number = definition.block(token.block).get(token.at as usize)?;
        Some(token.path(&definition.step(*number)?.id))
    });
    Ok(found.unwrap_or_default())
}
