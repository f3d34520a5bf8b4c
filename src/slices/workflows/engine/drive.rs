//! Drives one run until there is nothing more to do now: one commit per step, with the calls of its steps in parallel. A run has
//! only one driver at a time. Its state in memory can be lost: the run continues from its last commit.

use std::{collections::BTreeSet, future::Future, pin::Pin, sync::Arc, time::Duration};

use futures_util::stream::{FuturesUnordered, StreamExt};
use serde_json::Value;

use tenantd_base::{clock::Timestamp, fault::listed, programs::Budget};
use tenantd_store::{
    events::{Actor, ActorKind, Intent},
    steps::{Applier, Call, StepDone, StepError},
};

use super::{
    super::{
        error::WorkflowError,
        model::{Run, StepStatus, Token},
        repo::{self, runs::RunKey},
    },
    Shared,
    commit::{self, Expected},
    prepare::{Action, DecisionContext, Move, next_move},
};

type Answer = (u32, Result<StepDone, StepError>);
type Answering = Pin<Box<dyn Future<Output = Answer> + Send>>;

/// How many steps of an expired run one commit removes.
const REMOVED_AT_ONCE: usize = 500;

/// How long a run of a suspended tenant waits before the engine checks the tenant again.
const SUSPENDED_RECHECK: Duration = Duration::from_mins(15);

/// The state of a run, and what to do with it.
enum RunState {
    Gone,
    /// It has ended, and its retention is over.
    Expired,
    Idle {
        until: Option<Timestamp>,
    },
    Next {
        version: u64,
        run: Box<Run>,
        next: Move,
    },
    /// Its definition is not readable any more.
    Broken(String),
}

pub(super) async fn drive(shared: Arc<Shared>, key: RunKey) -> Result<(), WorkflowError> {
    let mut calls: FuturesUnordered<Answering> = FuturesUnordered::new();
    let mut calling = BTreeSet::new();
    while !shared.is_stopping() {
        // Registered before the check, so that no later change is missed.
        let woken = shared.woken.notified();
        let turn = shared.store.shares().turn_in_background(key.0).await;
        let suspended = shared.tenants.is_suspended(key.0)?;
        let state = if suspended { RunState::Idle { until: None } } else { look(&shared, key, &calling).await? };
        match state {
            RunState::Gone => return Ok(()),
            RunState::Expired => {
                shared.store.write(move |tx| repo::runs::remove(tx, key, REMOVED_AT_ONCE)).await?;
            }
            RunState::Broken(message) => {
                let intent = Intent::new(key.0, shared.clocks.now(key.0), Actor::system("Workflow engine"));
                let service = shared.service.clone();
                shared.store.write(move |tx| service.fail_unreadable(tx, &mut intent.begin(), key, &message)).await?;
            }
            RunState::Next { version, run, next } => {
                if let Some(call) = step(&shared, key, version, &run, next).await? {
                    calling.insert(call.0);
                    calls.push(call.1);
                }
            }
            RunState::Idle { .. } if calls.is_empty() && suspended => {
                let until = shared.clocks.now(key.0) + SUSPENDED_RECHECK;
                return Ok(shared.store.write(move |tx| repo::runs::postpone(tx, key, until)).await?);
            }
            RunState::Idle { .. } if calls.is_empty() => return Ok(()),
            RunState::Idle { until } => {
                drop(turn);
                let timer = async {
                    match until {
                        Some(until) => shared.clocks.sleep_until(key.0, until).await,
                        None => std::future::pending().await,
                    }
                };
                tokio::select! {
                    answer = calls.next() => {
                        if let Some((token, result)) = answer {
                            settle(&shared, key, token, result).await?;
                            calling.remove(&token);
                        }
                    }
                    () = timer => {}
                    () = woken => {}
                    () = shared.stopped() => {}
                }
            }
        }
    }
    Ok(())
}

/// Decides the next move on a worker, in the turn of the run's tenant.
async fn look(shared: &Arc<Shared>, key: RunKey, calling: &BTreeSet<u32>) -> Result<RunState, WorkflowError> {
    let (here, calling) = (shared.clone(), calling.clone());
    shared.programs.run(key.0, move |budget| decide(&here, key, &calling, budget)).await?
}

fn decide(shared: &Shared, key: RunKey, calling: &BTreeSet<u32>, budget: &Budget) -> Result<RunState, WorkflowError> {
    let now = shared.clocks.now(key.0);
    let deciding = DecisionContext { service: &shared.service, appliers: &shared.appliers, budget, now };
    shared.store.read(|tx| {
        let Some(run) = repo::runs::get(tx, key)? else { return Ok(RunState::Gone) };
        if run.status.has_ended() {
            let expired = run.due_at.is_some_and(|at| at <= now);
            return Ok(if expired { RunState::Expired } else { RunState::Gone });
        }
        match next_move(deciding, tx, &run, calling) {
            Ok(Some(next)) => Ok(RunState::Next { version: run.version, run: Box::new(run), next }),
            Ok(None) => Ok(RunState::Idle { until: run.tokens.iter().filter_map(Token::until).chain([run.timeout_at]).min() }),
            Err(WorkflowError::Invalid(faults)) => Ok(RunState::Broken(listed(&faults))),
            Err(WorkflowError::NotFound) => Ok(RunState::Broken("the version of the workflow no longer exists".to_owned())),
            Err(error) => Err(error),
        }
    })
}

/// The workflow is the actor of everything that its run does, and the run is the cause.
fn intent(run: &Run, now: Timestamp) -> Intent {
    let actor = Actor { kind: ActorKind::Workflow, id: run.workflow_id.to_string(), name: run.workflow_name.clone() };
    let mut intent = Intent::new(run.tenant_id, now, actor);
    intent.cause.run_id = Some(run.id);
    intent
}

/// Makes a move. Returns the call that it starts, if any.
async fn step(
    shared: &Arc<Shared>,
    key: RunKey,
    version: u64,
    run: &Run,
    next: Move,
) -> Result<Option<(u32, Answering)>, WorkflowError> {
    let intent = intent(run, shared.clocks.now(key.0));
    let token = next.token;
    if !matches!(next.action, Action::Call { begin: false, .. }) {
        // If another change came first or the step failed, decide again.
        if !make(shared, key, Expected::Version(version), &intent, &next).await? {
            return Ok(None);
        }
    }
    let Action::Call { name, with, secrets, timeout, authority, .. } = next.action else { return Ok(None) };
    let path = shared.store.read(|tx| commit::path_of(&shared.service, tx, run, token))?;
    let call = Call {
        tenant_id: run.tenant_id,
        workflow_id: run.workflow_id,
        authority,
        with,
        secrets,
        idempotency_key: format!("{}/{path}", run.id),
        timeout,
    };
    Ok(Some((token, answering(shared, token, &name, call))))
}

/// Writes a move. A move that fails makes its step fail. If the tenant has no room to store that failure either, the run fails.
/// Returns whether the move was written.
async fn make(shared: &Arc<Shared>, key: RunKey, expected: Expected, intent: &Intent, next: &Move) -> Result<bool, WorkflowError> {
    let error = match write(shared, key, expected, intent.clone(), next.clone()).await {
        Err(WorkflowError::Step(error)) => error,
        written => return Ok(written?.is_some()),
    };
    let input = match &next.action {
        Action::Apply { name, with } => Some(redacted(shared, name, with)),
        _ => None,
    };
    let token = next.token;
    let failed = Move { token, action: Action::Fail { input, error, status: StepStatus::Failed } };
    match write(shared, key, expected, intent.clone(), failed).await {
        Err(WorkflowError::Step(error)) => {
            write(shared, key, expected, intent.clone(), Move { token, action: Action::Stop { error } }).await?;
        }
        written => drop(written?),
    }
    Ok(false)
}

fn redacted(shared: &Shared, name: &str, with: &Value) -> Value {
    let mut shown = with.clone();
    if let Some(step) = shared.service.planners.get(name) {
        step.redact(&mut shown);
    }
    shown
}

fn answering(shared: &Shared, token: u32, name: &str, call: Call) -> Answering {
    let Some(Applier::Remote(step)) = shared.appliers.get(name) else {
        let error = StepError::new("unknown_step_type", format!("this release has no step type {name}"));
        return Box::pin(std::future::ready((token, Err(error))));
    };
    let timeout = call.timeout;
    let answering = step.call(call);
    Box::pin(async move {
        let late = || StepError::retryable("timed_out", "there was no response in time");
        (token, tokio::time::timeout(timeout, answering).await.unwrap_or_else(|_| Err(late())))
    })
}

/// Writes the result of a call, if the run still waits for it.
async fn settle(shared: &Arc<Shared>, key: RunKey, token: u32, result: Result<StepDone, StepError>) -> Result<(), WorkflowError> {
    let Some(run) = shared.store.read(|tx| repo::runs::get(tx, key))? else { return Ok(()) };
    let action = match result {
        Ok(done) => Action::Finish { input: None, output: done.output },
        Err(error) => {
            let status = if error.code == "timed_out" { StepStatus::TimedOut } else { StepStatus::Failed };
            Action::Fail { input: None, error, status }
        }
    };
    let intent = intent(&run, shared.clocks.now(key.0));
    make(shared, key, Expected::Calling, &intent, &Move { token, action }).await?;
    Ok(())
}

async fn write(
    shared: &Arc<Shared>,
    key: RunKey,
    expected: Expected,
    intent: Intent,
    next: Move,
) -> Result<Option<Run>, WorkflowError> {
    let (service, appliers) = (shared.service.clone(), shared.appliers.clone());
    let written =
        shared.store.write(move |tx| commit::commit(&service, &appliers, tx, &mut intent.begin(), key, expected, &next)).await?;
    if let Some(run) = written.as_ref().filter(|run| run.status.has_ended()) {
        metrics::counter!("tenantd_workflow_runs_total", "status" => run.status.name()).increment(1);
    }
    Ok(written)
}
