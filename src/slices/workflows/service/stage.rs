//! A change to a run in progress: its tokens move, its steps start and end. Nothing of the run is stored before [`Stage::save`].
//!
//! **Invariant:** a run that has ended has no tokens, and nothing changes it any more.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use tenantd_base::clock::Timestamp;
use tenantd_store::{
    WriteTx,
    events::{Act, last_number},
    steps::{Effect, StepError},
};

use super::{
    super::{
        definition::{BlockNumber, Definition, Step, StepKind},
        error::WorkflowError,
        model::{Json, Run, RunError, RunStatus, StepResult, StepStatus, Token, TokenState, Wait},
        repo::{self, runs::RunKey},
    },
    RUN_WAITING, Service, announce_run,
};

/// The maximum number of steps that start in one run.
const MAX_BEGUN: u32 = 20_000;
/// The maximum number of active tokens in one run.
const MAX_TOKENS: usize = 100;
/// The maximum size of a step's output.
const MAX_OUTPUT_BYTES: usize = 131_072;
/// The maximum size of the outputs that a loop collects.
const MAX_COLLECTED_BYTES: usize = MAX_OUTPUT_BYTES - 1024;

pub(crate) struct Stage<'a> {
    pub(crate) service: &'a Service,
    pub(crate) tx: &'a mut WriteTx,
    pub(crate) act: &'a mut Act,
    pub(crate) run: Run,
    pub(crate) definition: Arc<Definition>,
    /// Whether to check the run again immediately, regardless of what its tokens wait for.
    pub(super) check_again: bool,
    /// Whether the change requests an approval.
    pub(crate) asks: bool,
    /// Whether a failure fails the run even if the step has `on_error: continue`.
    pub(crate) stops: bool,
    before: RunStatus,
}

impl<'a> Stage<'a> {
    /// Opens the run. `None` if it does not exist or has ended.
    pub(crate) fn open(
        service: &'a Service,
        tx: &'a mut WriteTx,
        act: &'a mut Act,
        key: RunKey,
    ) -> Result<Option<Self>, WorkflowError> {
        let Some(run) = repo::runs::get(tx, key)?.filter(|run| !run.status.has_ended()) else { return Ok(None) };
        let definition = service.outline(tx, (run.tenant_id, run.workflow_id, run.workflow_version))?;
        let before = run.status;
        Ok(Some(Self { service, tx, act, run, definition, check_again: false, asks: false, stops: false, before }))
    }

    fn key(&self) -> RunKey {
        (self.run.tenant_id, self.run.id)
    }

    /// The step at which a token is, and its path.
    pub(crate) fn at(&self, token: u32) -> Option<(Arc<Step>, String)> {
        let token = self.run.token(token)?;
        let number = self.definition.block(token.block).get(token.at as usize)?;
        let step = self.definition.step(*number)?.clone();
        let path = token.path(&step.id);
        Some((step, path))
    }

    fn row(&self, path: &str) -> Result<Option<StepResult>, WorkflowError> {
        Ok(repo::runs::step(self.tx, self.key(), path)?)
    }

    fn put_row(&mut self, path: &str, row: StepResult) -> Result<(), WorkflowError> {
        let key = self.key();
        Ok(repo::runs::put_step(self.tx, key, path, row)?)
    }

    fn set(&mut self, token: u32, state: TokenState) {
        if let Some(token) = self.run.token_mut(token) {
            token.state = state;
        }
    }

    /// The record of the step at a token: a new one, or the existing one with another attempt.
    fn begin(&mut self, step: &Step, path: &str, input: Option<Value>) -> Result<StepResult, WorkflowError> {
        let now = self.act.now;
        self.run.started_at.get_or_insert(now);
        if let Some(mut row) = self.row(path)? {
            row.attempts += 1;
            row.next_attempt_at = None;
            row.input = input.map(Json).or(row.input);
            return Ok(row);
        }
        self.run.begun += 1;
        Ok(StepResult {
            ordinal: self.run.begun,
            step_id: step.id.clone(),
            type_name: step.type_name.clone(),
            status: StepStatus::Running,
            attempts: 1,
            started_at: now,
            ended_at: None,
            input: input.map(Json),
            output: None,
            error: None,
            effects: Vec::new(),
            decisions: Vec::new(),
            next_attempt_at: None,
            approvers: Vec::new(),
        })
    }

    /// Skips the step.
    pub(crate) fn skip(&mut self, token: u32) -> Result<(), WorkflowError> {
        let Some((step, path)) = self.at(token) else { return Ok(()) };
        let mut row = self.begin(&step, &path, None)?;
        row.status = StepStatus::Skipped;
        row.attempts = 0;
        row.ended_at = Some(self.act.now);
        self.put_row(&path, row)?;
        self.advance(token);
        Ok(())
    }

    /// Marks the step as calling another server.
    pub(crate) fn calls(&mut self, token: u32, input: Value) -> Result<(), WorkflowError> {
        let Some((step, path)) = self.at(token) else { return Ok(()) };
        let mut row = self.begin(&step, &path, Some(input))?;
        row.status = StepStatus::Running;
        self.put_row(&path, row)?;
        self.set(token, TokenState::Calling);
        Ok(())
    }

    /// Makes the step wait, because the users or keys that the run acts for lack a right. This is not an attempt.
    pub(crate) fn awaits_rights(&mut self, token: u32, input: Value, until: Timestamp) -> Result<(), WorkflowError> {
        let Some((step, path)) = self.at(token) else { return Ok(()) };
        let mut row = match self.row(&path)? {
            Some(row) => row,
            None => StepResult { attempts: 0, ..self.begin(&step, &path, None)? },
        };
        row.status = StepStatus::Waiting;
        row.input = Some(Json(input));
        self.put_row(&path, row)?;
        self.set(token, TokenState::Waiting { wait: Wait::Authority, until: Some(until) });
        Ok(())
    }

    pub(crate) fn waits(&mut self, token: u32, input: Value, wait: Wait, until: Option<Timestamp>) -> Result<(), WorkflowError> {
        let Some((step, path)) = self.at(token) else { return Ok(()) };
        let mut row = self.begin(&step, &path, Some(input))?;
        row.status = StepStatus::Waiting;
        if let Wait::Run { id } = &wait {
            row.effects = vec![(repo::runs::CALLED_RUN.to_owned(), id.to_string())];
        }
        self.put_row(&path, row)?;
        let wait = match wait {
            // Only events after this commit count.
            Wait::Event { kind, resource_id, .. } => {
                Wait::Event { kind, resource_id, after_seq: last_number(self.tx, self.run.tenant_id)? }
            }
            other => other,
        };
        self.set(token, TokenState::Waiting { wait, until });
        Ok(())
    }

    /// Finishes the step, whether it has just started or was in progress.
    pub(crate) fn finish(
        &mut self,
        token: u32,
        input: Option<Value>,
        output: Value,
        effects: &[Effect],
    ) -> Result<(), WorkflowError> {
        let Some((step, path)) = self.at(token) else { return Ok(()) };
        if output.to_string().len() > MAX_OUTPUT_BYTES {
            let error =
                StepError::new("output_too_large", format!("the output of a step can have at most {MAX_OUTPUT_BYTES} bytes"));
            return if effects.is_empty() {
                self.fail(token, input, &error, StepStatus::Failed)
            } else {
                Err(WorkflowError::Step(error))
            };
        }
        let mut row = match (input, self.row(&path)?) {
            // Continue the existing record.
            (None, Some(row)) => row,
            (input, _) => self.begin(&step, &path, input)?,
        };
        row.status = StepStatus::Succeeded;
        row.ended_at = Some(self.act.now);
        row.output = Some(Json(output));
        row.error = None;
        row.effects.extend(effects.iter().map(|effect| (effect.kind.to_owned(), effect.id.clone())));
        self.put_row(&path, row)?;
        self.advance(token);
        Ok(())
    }

    /// Fails the step: retries it, continues after it, or fails its block.
    pub(crate) fn fail(
        &mut self,
        token: u32,
        input: Option<Value>,
        error: &StepError,
        status: StepStatus,
    ) -> Result<(), WorkflowError> {
        let Some((step, path)) = self.at(token) else { return Ok(()) };
        let mut row = match (input, self.row(&path)?) {
            (None, Some(row)) => row,
            (input, _) => self.begin(&step, &path, input)?,
        };
        row.error = Some(RunError { code: error.code.clone(), message: error.message.clone(), step: None });
        let again = step.retry.filter(|retry| error.retryable && row.attempts < retry.max_attempts);
        if let Some(retry) = again {
            let until = self.act.now + retry.delay(row.attempts);
            row.status = StepStatus::Retrying;
            row.next_attempt_at = Some(until);
            self.put_row(&path, row)?;
            self.set(token, TokenState::Waiting { wait: Wait::Retry, until: Some(until) });
            return Ok(());
        }
        row.status = status;
        row.ended_at = Some(self.act.now);
        self.put_row(&path, row)?;
        if step.continues && !self.stops {
            self.advance(token);
            return Ok(());
        }
        let error = RunError { code: error.code.clone(), message: error.message.clone(), step: Some(path) };
        self.abandon(token, error)
    }

    /// Fails the step that contains the token's block, and cancels the parallel ones.
    fn abandon(&mut self, token: u32, error: RunError) -> Result<(), WorkflowError> {
        let parent = self.run.token(token).and_then(|token| token.parent);
        let Some(parent) = parent else { return self.fail_run(error) };
        self.drop_below(parent, Some(token))?;
        let Some((step, path)) = self.at(parent) else { return self.fail_run(error) };
        if let Some(mut row) = self.row(&path)? {
            row.status = StepStatus::Failed;
            row.ended_at = Some(self.act.now);
            row.error = Some(error.clone());
            self.put_row(&path, row)?;
        }
        if step.continues && !self.stops {
            self.advance(parent);
            return Ok(());
        }
        self.abandon(parent, error)
    }

    /// Removes all tokens below one. Their steps are cancelled, except the step of `failed`, which has already ended.
    fn drop_below(&mut self, above: u32, failed: Option<u32>) -> Result<(), WorkflowError> {
        let mut open = vec![above];
        let mut gone = Vec::new();
        while let Some(parent) = open.pop() {
            for token in self.run.tokens.iter().filter(|token| token.parent == Some(parent)) {
                open.push(token.id);
                gone.push(token.id);
            }
        }
        for token in &gone {
            if Some(*token) != failed {
                self.cancel_step(*token)?;
            }
        }
        self.run.tokens.retain(|token| !gone.contains(&token.id));
        Ok(())
    }

    /// Cancels the step of a token, and the run that it called.
    fn cancel_step(&mut self, token: u32) -> Result<(), WorkflowError> {
        let Some((_, path)) = self.at(token) else { return Ok(()) };
        if let Some(mut row) = self.row(&path)?.filter(|row| row.ended_at.is_none()) {
            row.status = StepStatus::Cancelled;
            row.ended_at = Some(self.act.now);
            row.next_attempt_at = None;
            self.put_row(&path, row)?;
        }
        let called = self.run.token(token).and_then(|token| match &token.state {
            TokenState::Waiting { wait: Wait::Run { id }, .. } => Some(*id),
            _ => None,
        });
        match called {
            Some(id) => self.service.cancel(self.tx, self.act, (self.run.tenant_id, id)).map(drop),
            None => Ok(()),
        }
    }

    fn fail_run(&mut self, error: RunError) -> Result<(), WorkflowError> {
        if self.run.failing {
            // The first failure is the one that counts.
            return self.end(RunStatus::Failed);
        }
        self.run.error = Some(error);
        let Some(block) = self.definition.on_failure else { return self.end(RunStatus::Failed) };
        self.clear(None)?;
        self.run.failing = true;
        let token = self.new_token(None, block, String::new(), None);
        self.run.tokens.push(token);
        Ok(())
    }

    fn clear(&mut self, except: Option<u32>) -> Result<(), WorkflowError> {
        let all: Vec<u32> = self.run.tokens.iter().map(|token| token.id).filter(|token| Some(*token) != except).collect();
        for token in all {
            self.cancel_step(token)?;
        }
        self.run.tokens.clear();
        Ok(())
    }

    /// Ends the run and cancels everything in progress.
    pub(crate) fn end(&mut self, status: RunStatus) -> Result<(), WorkflowError> {
        self.clear(None)?;
        self.run.status = status;
        Ok(())
    }

    /// Finishes a `return` step and ends the run.
    pub(crate) fn return_output(&mut self, token: u32, input: Value, output: Value) -> Result<(), WorkflowError> {
        self.finish(token, Some(input), output.clone(), &[])?;
        if self.run.failing {
            return self.end(RunStatus::Failed);
        }
        self.run.output = Some(Json(output));
        self.end(RunStatus::Succeeded)
    }

    fn new_token(&mut self, parent: Option<u32>, block: BlockNumber, scope: String, item: Option<u32>) -> Token {
        let id = self.run.next_token;
        self.run.next_token += 1;
        Token { id, parent, block, at: 0, scope, item, state: TokenState::Ready }
    }

    /// Starts the blocks of the step.
    pub(crate) fn enter(&mut self, token: u32, input: Value, blocks: &[BlockNumber]) -> Result<(), WorkflowError> {
        let Some((step, path)) = self.at(token) else { return Ok(()) };
        if self.is_crowded(blocks.len()) {
            return self.fail(token, Some(input), &too_many(), StepStatus::Failed);
        }
        let row = self.begin(&step, &path, Some(input))?;
        self.put_row(&path, row)?;
        let place = self.run.token(token).map(|token| (token.scope.clone(), token.item)).unwrap_or_default();
        for block in blocks {
            let inner = self.new_token(Some(token), *block, place.0.clone(), place.1);
            self.run.tokens.push(inner);
        }
        let count = u32::try_from(blocks.len()).unwrap_or(u32::MAX);
        self.set(token, TokenState::Joining { running: count, next: count, total: count, failed: 0 });
        Ok(())
    }

    /// Starts the first items of a loop.
    pub(crate) fn enter_loop(&mut self, token: u32, block: BlockNumber, items: Value, most: u32) -> Result<(), WorkflowError> {
        let Some((step, path)) = self.at(token) else { return Ok(()) };
        let total = u32::try_from(items.as_array().map_or(0, Vec::len)).unwrap_or(u32::MAX);
        let running = total.min(most);
        let input = json!({"items": items});
        if total == 0 {
            return self.finish(token, Some(input), json!({"count": 0, "outputs": []}), &[]);
        }
        if self.is_crowded(running as usize) {
            return self.fail(token, Some(input), &too_many(), StepStatus::Failed);
        }
        let row = self.begin(&step, &path, Some(input))?;
        self.put_row(&path, row)?;
        for item in 0..running {
            let inner = self.new_token(Some(token), block, format!("{path}[{item}]/"), Some(item));
            self.run.tokens.push(inner);
        }
        self.set(token, TokenState::Joining { running, next: running, total, failed: 0 });
        Ok(())
    }

    fn is_crowded(&self, more: usize) -> bool {
        self.run.tokens.len() + more > MAX_TOKENS || self.run.begun > MAX_BEGUN
    }

    fn advance(&mut self, token: u32) {
        if let Some(token) = self.run.token_mut(token) {
            token.at += 1;
            token.state = TokenState::Ready;
        }
    }

    /// Handles a token at the end of its block.
    pub(crate) fn leave(&mut self, token: u32) -> Result<(), WorkflowError> {
        let Some(parent) = self.run.token(token).and_then(|token| token.parent) else {
            let status = if self.run.failing { RunStatus::Failed } else { RunStatus::Succeeded };
            return self.end(status);
        };
        let Some((step, path)) = self.at(parent) else { return Ok(()) };
        let joining = self.run.token(parent).map(|token| token.state.clone());
        let Some(TokenState::Joining { running, next, total, failed }) = joining else { return Ok(()) };
        if next < total && matches!(step.kind, StepKind::ForEach { .. }) {
            if self.run.begun > MAX_BEGUN {
                return self.fail(parent, None, &too_many(), StepStatus::Failed);
            }
            if let Some(token) = self.run.token_mut(token) {
                (token.at, token.item, token.scope) = (0, Some(next), format!("{path}[{next}]/"));
            }
            self.set(parent, TokenState::Joining { running, next: next + 1, total, failed });
            return Ok(());
        }
        self.run.tokens.retain(|other| other.id != token);
        if running > 1 {
            self.set(parent, TokenState::Joining { running: running - 1, next, total, failed });
            return Ok(());
        }
        let output = match step.kind {
            StepKind::ForEach { block, .. } => self.collected(&path, block, total)?,
            _ => json!({"count": total}),
        };
        self.finish(parent, None, output, &[])
    }

    /// The collected outputs of a loop: for each item the outputs of its steps by their ids, up to the size limit.
    fn collected(&self, path: &str, block: BlockNumber, total: u32) -> Result<Value, WorkflowError> {
        let ids = self.definition.ids_of(block);
        let (mut outputs, mut bytes) = (Vec::new(), 0);
        for item in 0..total {
            let mut of_item = Map::new();
            for id in &ids {
                if let Some(output) = self.row(&format!("{path}[{item}]/{id}"))?.and_then(|row| row.output) {
                    of_item.insert(id.clone(), output.0);
                }
            }
            let of_item = Value::Object(of_item);
            bytes += of_item.to_string().len() + 1;
            if bytes > MAX_COLLECTED_BYTES {
                return Ok(json!({"count": total, "outputs": outputs, "truncated": true}));
            }
            outputs.push(of_item);
        }
        Ok(json!({"count": total, "outputs": outputs}))
    }

    /// Handles tokens at the end of their block. This is not a step, so it has no commit of its own.
    fn leave_finished(&mut self) -> Result<(), WorkflowError> {
        while !self.run.status.has_ended() {
            let at_end =
                |token: &&Token| token.state == TokenState::Ready && token.at as usize >= self.definition.block(token.block).len();
            let Some(token) = self.run.tokens.iter().find(at_end).map(|token| token.id) else { break };
            self.leave(token)?;
        }
        Ok(())
    }

    /// Stores the run. If it has ended, also handles its end.
    pub(crate) fn save(mut self) -> Result<Run, WorkflowError> {
        self.leave_finished()?;
        let now = self.act.now;
        self.run.version += 1;
        self.run.updated_at = now;
        if self.run.status.has_ended() {
            self.run.ended_at = Some(now);
            self.run.waiting_on = None;
            self.run.due_at = Some(now + self.service.retention());
            let run = repo::runs::update(self.tx, self.run, self.before)?;
            self.service.after_end(self.tx, self.act, &run)?;
            return Ok(run);
        }
        match self.run.status {
            RunStatus::Paused => self.run.due_at = None,
            RunStatus::Queued if self.run.queues() => self.run.due_at = Some(self.run.timeout_at),
            _ => self.run.settle(now),
        }
        if self.check_again {
            self.run.due_at = Some(now);
        }
        let begins_to_wait = self.run.status == RunStatus::Waiting && self.before != RunStatus::Waiting;
        let run = repo::runs::update(self.tx, self.run, self.before)?;
        if begins_to_wait || self.asks {
            announce_run(self.tx, self.act, &RUN_WAITING, &run)?;
        }
        Ok(run)
    }
}

fn too_many() -> StepError {
    StepError::new(
        "too_many_steps",
        format!("a run can have at most {MAX_BEGUN} steps, and at most {MAX_TOKENS} branches or items in progress"),
    )
}
