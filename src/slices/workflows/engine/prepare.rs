//! Decides the next move of a run, on a snapshot and on a worker: expressions are evaluated here, outside of the writer. The
//! decision is written only if the run has not changed since.

use std::{collections::BTreeSet, time::Duration};

use serde_json::{Value, json};

use tenantd_base::{
    access::{Grants, Scope},
    authority::Authority,
    clock::Timestamp,
    fault::listed,
    id::RunId,
    programs::Budget,
    secrets::SecretText,
};
use tenantd_store::{
    ReadTx,
    events::{Actor, Intent},
    steps::{Applier, StepError},
};

use super::{
    super::{
        definition::{BlockNumber, OnTimeout, Program, Step, StepKind},
        error::WorkflowError,
        language::{self, Context, ExpressionError},
        model::{Run, RunStatus, RunTrigger, StepStatus, Token, TokenState, Wait},
        repo,
        service::{NewRun, ReadyRun, Service},
        steps::Appliers,
    },
    context,
};

const MAX_ITEMS: usize = 1_000;
/// The maximum size of a step's input after its templates are filled in. It is stored with the step.
const MAX_INPUT_BYTES: usize = 262_144;
/// The maximum duration of a call, regardless of its step.
const LONGEST_CALL: Duration = Duration::from_mins(5);
const USUAL_CALL: Duration = Duration::from_secs(30);

/// How long a run waits before it checks missing rights again.
const RIGHTS_RECHECK: Duration = Duration::from_mins(5);

/// What to do with a token of a run.
#[derive(Clone, Debug)]
pub(super) struct Move {
    pub(super) token: u32,
    pub(super) action: Action,
}

#[derive(Clone, Debug)]
pub(super) enum Action {
    /// The run's time limit is over.
    TimeOut,
    Leave,
    Skip,
    Fail {
        input: Option<Value>,
        error: StepError,
        status: StepStatus,
    },
    /// The tenant has no room to store the run's data, not even the failure of the step: the run fails.
    Stop {
        error: StepError,
    },
    Finish {
        input: Option<Value>,
        output: Value,
    },
    Return {
        input: Value,
        output: Value,
    },
    Enter {
        input: Value,
        blocks: Vec<BlockNumber>,
    },
    Loop {
        block: BlockNumber,
        items: Value,
        most: u32,
    },
    Wait {
        input: Value,
        wait: Wait,
        until: Option<Timestamp>,
        approval: bool,
    },
    Apply {
        name: String,
        with: Value,
    },
    /// `begin` is false if an earlier process already started the call.
    Call {
        name: String,
        with: Value,
        secrets: Vec<SecretText>,
        timeout: Duration,
        begin: bool,
        authority: Authority,
    },
    /// The users or keys that the run acts for lack a right. It is checked again later.
    AwaitRights {
        input: Value,
        until: Timestamp,
    },
    StartRun {
        input: Value,
        key: String,
        wait: bool,
        until: Option<Timestamp>,
        ready: Box<ReadyRun>,
    },
}

/// What a decision is based on.
#[derive(Clone, Copy)]
pub(super) struct DecisionContext<'a> {
    pub(super) service: &'a Service,
    pub(super) appliers: &'a Appliers,
    pub(super) budget: &'a Budget,
    pub(super) now: Timestamp,
}

/// The next move of a run. `None` if there is none now. `calling` are the tokens with calls in progress.
pub(super) fn next_move(
    deciding: DecisionContext<'_>,
    tx: &ReadTx,
    run: &Run,
    calling: &BTreeSet<u32>,
) -> Result<Option<Move>, WorkflowError> {
    if run.status.has_ended() || run.status == RunStatus::Paused {
        return Ok(None);
    }
    if deciding.now >= run.timeout_at {
        return Ok(Some(Move { token: 0, action: Action::TimeOut }));
    }
    if run.queues() {
        return Ok(None);
    }
    let version = (run.tenant_id, run.workflow_id, run.workflow_version);
    let program = deciding.service.program(tx, deciding.budget, version)?;
    // Each commit increases the version, so tokens take turns.
    let first = usize::try_from(run.version).unwrap_or_default() % run.tokens.len().max(1);
    let (before, behind) = run.tokens.split_at_checked(first).unwrap_or((&run.tokens, &[]));
    for token in behind.iter().chain(before) {
        let view = TokenView { deciding, tx, run, program: &program, token };
        let action = match &token.state {
            TokenState::Ready => Some(view.at_step()?),
            TokenState::Calling if !calling.contains(&token.id) => view.repeat_call()?,
            TokenState::Calling | TokenState::Joining { .. } => None,
            TokenState::Waiting { wait, until } => view.waiting(wait, *until)?,
        };
        if let Some(action) = action {
            return Ok(Some(Move { token: token.id, action }));
        }
    }
    Ok(None)
}

struct TokenView<'a> {
    deciding: DecisionContext<'a>,
    tx: &'a ReadTx,
    run: &'a Run,
    program: &'a Program,
    token: &'a Token,
}

fn failed(error: &ExpressionError, at: &str) -> Action {
    let message = if at.is_empty() { error.to_string() } else { format!("{at}: {error}") };
    Action::Fail { input: None, error: StepError::new(error.code(), message), status: StepStatus::Failed }
}

fn invalid(message: String) -> Action {
    Action::Fail { input: None, error: StepError::new("invalid_input", message), status: StepStatus::Failed }
}

impl TokenView<'_> {
    fn step(&self) -> Option<&Step> {
        let definition = &self.program.definition;
        let number = definition.block(self.token.block).get(self.token.at as usize)?;
        definition.step(*number).map(AsRef::as_ref)
    }

    fn context(&self, step: &Step) -> Result<Context, WorkflowError> {
        Ok(Context::new(&context::names(self.tx, self.run, self.program, self.token, step)?))
    }

    /// Returns the rights that the step may use now, or the action that waits for missing rights.
    fn rights(&self, step: &Step) -> Result<Result<Authority, Action>, WorkflowError> {
        let DecisionContext { service, now, .. } = self.deciding;
        let needed = service.needs_of(step).union(service.carries(&self.program.definition));
        let rights = service.rights_of(self.tx, self.run, now)?;
        let lacking = rights.as_ref().map_or(needed, |rights| needed.without(rights.scopes()));
        if let Some(rights) = rights.filter(|_| lacking == Grants::NONE) {
            return Ok(Ok(rights));
        }
        let scopes: Vec<&str> = lacking.iter().map(Scope::name).collect();
        Ok(Err(Action::AwaitRights { input: json!({"required_scopes": scopes}), until: now + RIGHTS_RECHECK }))
    }

    fn at_step(&self) -> Result<Action, WorkflowError> {
        let Some(step) = self.step() else { return Ok(Action::Leave) };
        let context = self.context(step)?;
        match step.when.as_deref().map(|condition| language::holds(condition, &context, self.deciding.budget)) {
            Some(Ok(false)) => return Ok(Action::Skip),
            Some(Err(error)) => return Ok(failed(&error, "if")),
            Some(Ok(true)) | None => {}
        }
        let with = match language::render(&step.with, &context, self.deciding.budget) {
            Ok(with) => with,
            Err((at, error)) => return Ok(failed(&error, &at)),
        };
        if with.to_string().len() > MAX_INPUT_BYTES {
            return Ok(invalid(format!("with can have at most {MAX_INPUT_BYTES} bytes")));
        }
        self.decide(step, &context, with)
    }

    fn decide(&self, step: &Step, context: &Context, with: Value) -> Result<Action, WorkflowError> {
        let now = self.deciding.now;
        let until = |timeout: Option<Duration>| timeout.map(|timeout| now + timeout);
        let text = |name: &str| with.get(name).and_then(Value::as_str).map(str::to_owned);
        Ok(match &step.kind {
            StepKind::Action => self.act(step, with, true)?,
            StepKind::If { condition, then, otherwise } => match language::holds(condition, context, self.deciding.budget) {
                Err(error) => failed(&error, "/condition"),
                Ok(holds) => {
                    let input = json!({"condition": holds});
                    match if holds { Some(*then) } else { *otherwise } {
                        Some(block) => Action::Enter { input, blocks: vec![block] },
                        None => Action::Finish { input: Some(input), output: json!({"count": 0}) },
                    }
                }
            },
            StepKind::Parallel { branches } => Action::Enter { input: json!({}), blocks: branches.clone() },
            StepKind::ForEach { block, max_parallel } => match with.get("items") {
                Some(Value::Array(items)) if items.len() <= MAX_ITEMS => {
                    Action::Loop { block: *block, items: Value::Array(items.clone()), most: *max_parallel }
                }
                Some(Value::Array(_)) => invalid(format!("items can have at most {MAX_ITEMS} entries")),
                _ => invalid("items must be a list".to_owned()),
            },
            StepKind::WaitDuration => match with.get("seconds").and_then(Value::as_u64) {
                Some(seconds @ 1..=2_592_000) => {
                    let until = Some(now + Duration::from_secs(seconds));
                    Action::Wait { input: with, wait: Wait::Time, until, approval: false }
                }
                _ => invalid("seconds must be from 1 to 2592000".to_owned()),
            },
            StepKind::WaitEvent { kind, .. } => {
                if let Err(waits) = self.rights(step)? {
                    return Ok(waits);
                }
                let wait = Wait::Event { kind: kind.clone(), resource_id: text("resource_id"), after_seq: 0 };
                Action::Wait { input: with, wait, until: until(step.timeout), approval: false }
            }
            StepKind::Approval(approval) => {
                let until = until(approval.timeout.or(step.timeout));
                Action::Wait { input: with, wait: Wait::Approval, until, approval: true }
            }
            StepKind::Set => Action::Finish { input: Some(json!({})), output: with },
            StepKind::Assert { condition } => match language::holds(condition, context, self.deciding.budget) {
                Err(error) => failed(&error, "/condition"),
                Ok(true) => Action::Finish { input: Some(json!({"condition": condition})), output: json!({}) },
                Ok(false) => {
                    let message = text("message").unwrap_or_else(|| format!("{condition} does not hold"));
                    let error = StepError::new("assertion_failed", message);
                    Action::Fail { input: Some(json!({"condition": condition})), error, status: StepStatus::Failed }
                }
            },
            StepKind::Fail => {
                let code = text("code").unwrap_or_else(|| "failed".to_owned());
                let error = StepError::new(&code, text("message").unwrap_or_default());
                Action::Fail { input: Some(with), error, status: StepStatus::Failed }
            }
            StepKind::Return => {
                let output = with.get("output").cloned().unwrap_or_default();
                Action::Return { input: json!({}), output }
            }
            StepKind::Call { wait } => {
                if let Err(waits) = self.rights(step)? {
                    return Ok(waits);
                }
                let key = text("workflow_key").unwrap_or_default();
                if let Some(ready) = self.called(step, &key, &with, *wait)? {
                    let ready = Box::new(ready);
                    Action::StartRun { input: with, key, wait: *wait, until: until(step.timeout), ready }
                } else {
                    let error = StepError::new("workflow_not_found", format!("there is no enabled workflow with the key {key}"));
                    Action::Fail { input: Some(with), error, status: StepStatus::Failed }
                }
            }
        })
    }

    /// The run that the step starts.
    fn called(&self, step: &Step, key: &str, with: &Value, waits: bool) -> Result<Option<ReadyRun>, WorkflowError> {
        let DecisionContext { service, budget, now, .. } = self.deciding;
        let workflow = repo::workflows::find_key(self.tx, self.run.tenant_id, key)?.filter(|workflow| workflow.enabled);
        let Some(workflow) = workflow else { return Ok(None) };
        let mut act = Intent::new(workflow.tenant_id, now, Actor::system("Workflow engine")).begin();
        let new = NewRun {
            id: RunId::new(now, &mut act.entropy),
            inputs: with.get("inputs").cloned().unwrap_or_else(|| json!({})),
            event: None,
            trigger: RunTrigger::Call { run: self.run.id, path: self.token.path(&step.id), waits },
            subject_id: self.run.subject_id.clone(),
            depth: self.run.depth.saturating_add(1),
            retry_of: None,
            cause: Some(self.run.id),
        };
        service.ready(self.tx, &workflow, workflow.version, new, budget).map(Some)
    }

    fn act(&self, step: &Step, with: Value, begin: bool) -> Result<Action, WorkflowError> {
        let authority = match self.rights(step)? {
            Ok(authority) => authority,
            Err(waits) => return Ok(waits),
        };
        let name = step.type_name.clone();
        let faults = self.deciding.service.planners.check(&name, &with);
        if !faults.is_empty() {
            return Ok(invalid(listed(&faults)));
        }
        Ok(match self.deciding.appliers.get(&name) {
            Some(Applier::Local(_)) => Action::Apply { name, with },
            Some(Applier::Remote(_)) => {
                let timeout = step.timeout.unwrap_or(USUAL_CALL).min(LONGEST_CALL);
                Action::Call { name, with, secrets: step.secrets.clone(), timeout, begin, authority }
            }
            None => Action::Fail {
                input: None,
                error: StepError::new("unknown_step_type", format!("this release has no step type {name}")),
                status: StepStatus::Failed,
            },
        })
    }

    /// Repeats an interrupted call with the same input.
    fn repeat_call(&self) -> Result<Option<Action>, WorkflowError> {
        let Some(step) = self.step() else { return Ok(Some(Action::Leave)) };
        let context = self.context(step)?;
        Ok(Some(match language::render(&step.with, &context, self.deciding.budget) {
            Ok(with) => self.act(step, with, false)?,
            Err((at, error)) => failed(&error, &at),
        }))
    }

    fn waiting(&self, wait: &Wait, until: Option<Timestamp>) -> Result<Option<Action>, WorkflowError> {
        let over = until.is_some_and(|until| self.deciding.now >= until);
        if let Wait::Run { id } = wait {
            let called = repo::runs::get(self.tx, (self.run.tenant_id, *id))?;
            if let Some(action) = called.map_or_else(|| Some(gone()), |called| ended(&called)) {
                return Ok(Some(action));
            }
        }
        if !over {
            return Ok(None);
        }
        let timed_out = |code: &str, message: &str| Action::Fail {
            input: None,
            error: StepError::new(code, message),
            status: StepStatus::TimedOut,
        };
        Ok(Some(match wait {
            Wait::Time => Action::Finish { input: None, output: json!({}) },
            Wait::Retry | Wait::Authority => self.at_step()?,
            Wait::Event { .. } => timed_out("timed_out", "the event did not happen in time"),
            Wait::Run { .. } => timed_out("timed_out", "the called run did not end in time"),
            Wait::Approval => match self.step().map(|step| &step.kind) {
                Some(StepKind::Approval(approval)) if approval.on_timeout == OnTimeout::Approve => {
                    Action::Finish { input: None, output: json!({"approved": true, "by": []}) }
                }
                Some(StepKind::Approval(approval)) if approval.on_timeout == OnTimeout::Reject => Action::Fail {
                    input: None,
                    error: StepError::new("rejected", "nobody approved it in time"),
                    status: StepStatus::Failed,
                },
                _ => timed_out("approval_timed_out", "nobody decided in time"),
            },
        }))
    }
}

fn gone() -> Action {
    Action::Fail {
        input: None,
        error: StepError::new("run_not_found", "the called run no longer exists"),
        status: StepStatus::Failed,
    }
}

/// What the end of a called run means for the step that waits for it.
fn ended(called: &Run) -> Option<Action> {
    if !called.status.has_ended() {
        return None;
    }
    if called.status == RunStatus::Succeeded {
        let output = called.output.clone().unwrap_or_default().0;
        return Some(Action::Finish { input: None, output });
    }
    let why = called.error.as_ref().map(|error| format!(": {}", error.message)).unwrap_or_default();
    let message = format!("{} is {}{why}", called.id, called.status.name());
    Some(Action::Fail { input: None, error: StepError::retryable("called_run_failed", message), status: StepStatus::Failed })
}
