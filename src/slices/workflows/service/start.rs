//! Starts runs: for people, events, schedules and other runs, and retries of failed runs. The concurrency policy decides what
//! happens if other runs have the same key.

use serde_json::Value;

use tenantd_base::{
    fault::listed,
    id::RunId,
    quotas::{Quota, QuotaExceeded},
};
use tenantd_store::{Read, WriteTx, events::Act, steps::StepError, usage};

use super::{
    super::{
        definition::{Definition, OnConflict},
        error::WorkflowError,
        model::{Json, Run, RunError, RunStatus, RunTrigger, Token, TokenState, WaitingOn, Workflow},
        repo::{
            self,
            runs::{RunInputs, RunKey},
        },
        steps::QUOTA_EXCEEDED,
    },
    RUN_FAILED, RUN_STARTED, Service, announce_run,
    ready::{Evaluated, ReadyRun},
};

/// How many runs may start one another in a row, by events and calls.
pub(crate) const MAX_DEPTH: u8 = 8;

/// The parameters of a new run.
#[derive(Clone, Debug)]
pub(crate) struct NewRun {
    pub(crate) id: RunId,
    pub(crate) inputs: Value,
    pub(crate) event: Option<Value>,
    pub(crate) trigger: RunTrigger,
    pub(crate) subject_id: Option<String>,
    pub(crate) depth: u8,
    pub(crate) retry_of: Option<RunId>,
    /// The run that caused this one, by a call or an event.
    pub(crate) cause: Option<RunId>,
}

impl NewRun {
    pub(crate) fn manual(id: RunId, inputs: Value, subject_id: Option<String>) -> Self {
        Self { id, inputs, event: None, trigger: RunTrigger::Manual, subject_id, depth: 0, retry_of: None, cause: None }
    }
}

/// The result of starting a run.
#[derive(Clone, Debug)]
pub(crate) enum Started {
    New(Run),
    /// An existing run is used instead.
    Existing(Run),
}

impl Service {
    /// Starts a run of the workflow version that `ready` was prepared for.
    pub(crate) fn start(
        &self,
        tx: &mut WriteTx,
        act: &mut Act,
        workflow: &Workflow,
        ready: &ReadyRun,
    ) -> Result<Started, WorkflowError> {
        let ReadyRun { new, definition, version, .. } = ready;
        let (limit, used) = (usage::limits_in(tx, act.tenant_id)?.concurrent_runs, repo::counts(tx, act.tenant_id)?.active_runs);
        if used >= limit {
            return Err(WorkflowError::Quota(QuotaExceeded { quota: Quota::ConcurrentRuns, limit, used }));
        }
        let Evaluated { inputs, concurrency_key } = ready.evaluated.clone().map_err(WorkflowError::Invalid)?;
        let mut run = fresh(act, workflow, *version, new);
        run.timeout_at = act.now + definition.timeout;
        if new.depth > MAX_DEPTH {
            let error = RunError {
                code: "loop_detected".to_owned(),
                message: format!("more than {MAX_DEPTH} runs led to this one"),
                step: None,
            };
            return self.fail_at_once(tx, act, run, new, error).map(Started::New);
        }
        if let Some(error) = self.descend(tx, (act.tenant_id, run.id), new.cause)? {
            return self.fail_at_once(tx, act, run, new, error).map(Started::New);
        }
        run.concurrency_key = concurrency_key;
        if let Some(existing) = self.apply_concurrency(tx, act, definition, &mut run)? {
            return Ok(Started::Existing(existing));
        }
        let stored = RunInputs { inputs: Json(inputs), event: new.event.clone().map(Json) };
        let run = repo::runs::insert(tx, run, &stored)?;
        announce_run(tx, act, &RUN_STARTED, &run)?;
        Ok(Started::New(run))
    }

    /// Starts a run without a caller to report a refusal to: a failed run records the refusal.
    pub(crate) fn start_or_record_failure(
        &self,
        tx: &mut WriteTx,
        act: &mut Act,
        workflow: &Workflow,
        ready: &ReadyRun,
    ) -> Result<Started, WorkflowError> {
        let refused = match self.start(tx, act, workflow, ready) {
            Err(WorkflowError::Invalid(faults)) => ("inputs_invalid", listed(&faults)),
            Err(WorkflowError::Quota(exceeded)) => (QUOTA_EXCEEDED, exceeded.to_string()),
            Err(WorkflowError::Conflict(other)) => {
                ("concurrency_conflict", format!("{other} has the same concurrency key and has not ended"))
            }
            other => return other,
        };
        let error = RunError { code: refused.0.to_owned(), message: refused.1, step: None };
        let run = fresh(act, workflow, ready.version, &ready.new);
        self.fail_at_once(tx, act, run, &ready.new, error).map(Started::New)
    }

    /// Starts a run automatically, unless the tenant has used up a quota: then not even a failed run is stored.
    pub(crate) fn start_within_quotas(
        &self,
        tx: &mut WriteTx,
        act: &mut Act,
        workflow: &Workflow,
        ready: &ReadyRun,
    ) -> Result<(), WorkflowError> {
        match usage::used_up(tx, act.tenant_id, act.now)? {
            Some(exceeded) => {
                tracing::warn!(tenant = %act.tenant_id, workflow = %workflow.id, %exceeded, "did not start a run because of a quota");
                Ok(())
            }
            None => self.start_or_record_failure(tx, act, workflow, ready).map(drop),
        }
    }

    /// Counts a run among the descendants of its root. Returns an error if the limit is reached.
    fn descend(&self, tx: &mut WriteTx, run: RunKey, cause: Option<RunId>) -> Result<Option<RunError>, WorkflowError> {
        let Some(cause) = cause else { return Ok(None) };
        let root = repo::causes::root_of(tx, (run.0, cause))?;
        if repo::causes::add(tx, run.0, root, 1, self.settings.max_descendants)? {
            repo::causes::set_root(tx, run, root)?;
            return Ok(None);
        }
        let StepError { code, message, .. } = self.too_many_descendants(root, cause);
        Ok(Some(RunError { code, message, step: None }))
    }

    /// Counts the records that a step of a run created.
    pub(crate) fn count_effects(&self, tx: &mut WriteTx, run: RunKey, effects: usize) -> Result<(), WorkflowError> {
        if effects == 0 {
            return Ok(());
        }
        let root = repo::causes::root_of(tx, run)?;
        if repo::causes::add(tx, run.0, root, effects as u64, self.settings.max_descendants)? {
            return Ok(());
        }
        Err(WorkflowError::Step(self.too_many_descendants(root, run.1)))
    }

    fn too_many_descendants(&self, root: RunId, cause: RunId) -> StepError {
        let most = self.settings.max_descendants;
        let by = if root == cause { String::new() } else { format!(", here by {cause}") };
        StepError::new("too_many_descendants", format!("{root} has caused {most} runs and records{by}, which is the limit"))
    }

    fn fail_at_once(
        &self,
        tx: &mut WriteTx,
        act: &mut Act,
        mut run: Run,
        new: &NewRun,
        error: RunError,
    ) -> Result<Run, WorkflowError> {
        run.status = RunStatus::Failed;
        run.error = Some(error);
        run.tokens.clear();
        run.ended_at = Some(act.now);
        run.due_at = Some(act.now + self.retention());
        let stored = RunInputs { inputs: Json(new.inputs.clone()), event: new.event.clone().map(Json) };
        let run = repo::runs::insert(tx, run, &stored)?;
        announce_run(tx, act, &RUN_FAILED, &run)?;
        Ok(run)
    }

    /// Applies the concurrency policy. Returns the existing run that is used instead, if any.
    fn apply_concurrency(
        &self,
        tx: &mut WriteTx,
        act: &mut Act,
        definition: &Definition,
        run: &mut Run,
    ) -> Result<Option<Run>, WorkflowError> {
        let (Some(policy), Some(key)) = (&definition.concurrency, run.concurrency_key.clone()) else { return Ok(None) };
        let going = repo::runs::with_concurrency_key(tx, run.tenant_id, run.workflow_id, &key, false, policy.limit)?;
        let (Some(oldest), true) = (going.first().copied(), going.len() >= policy.limit) else { return Ok(None) };
        match policy.on_conflict {
            OnConflict::Queue => {
                run.waiting_on = Some(WaitingOn::Concurrency);
                run.due_at = Some(run.timeout_at);
                Ok(None)
            }
            OnConflict::Reject => Err(WorkflowError::Conflict(oldest.1)),
            OnConflict::UseExisting => Ok(repo::runs::get(tx, oldest)?),
            OnConflict::CancelExisting => {
                self.cancel(tx, act, oldest)?;
                Ok(None)
            }
        }
    }
}

/// The depth of runs that `cause` starts.
pub(crate) fn depth_below(tx: &impl Read, cause: RunKey) -> Result<u8, WorkflowError> {
    Ok(repo::runs::get(tx, cause)?.map_or(0, |run| run.depth.saturating_add(1)))
}

fn fresh(act: &Act, workflow: &Workflow, version: u64, new: &NewRun) -> Run {
    let first = Token { id: 0, parent: None, block: 0, at: 0, scope: String::new(), item: None, state: TokenState::Ready };
    Run {
        tenant_id: workflow.tenant_id,
        id: new.id,
        workflow_id: workflow.id,
        workflow_key: workflow.key.clone(),
        workflow_name: workflow.name.clone(),
        workflow_version: version,
        status: RunStatus::Queued,
        waiting_on: None,
        trigger: new.trigger.clone(),
        retry_of: new.retry_of,
        subject_id: new.subject_id.clone(),
        depth: new.depth,
        concurrency_key: None,
        started_by: act.actor.clone(),
        created_at: act.now,
        started_at: None,
        ended_at: None,
        updated_at: act.now,
        timeout_at: act.now,
        output: None,
        error: None,
        failing: false,
        tokens: vec![first],
        next_token: 1,
        begun: 0,
        due_at: Some(act.now),
        version: 1,
    }
}
