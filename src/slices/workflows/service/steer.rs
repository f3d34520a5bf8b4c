//! Controls runs: cancels, pauses, resumes, retries, approves and rejects. Also handles the end of a run.

use std::sync::Arc;

use serde_json::json;

use tenantd_api_keys::person_behind;
use tenantd_base::{
    access::{Identity, Principal, Scope},
    versions::ExpectedVersion,
    vocabulary::vocabulary,
};
use tenantd_store::{
    Read, WriteTx,
    events::{Act, Actor},
    steps::StepError,
};

use super::{
    super::{
        definition::{Approval, Step, StepKind},
        error::WorkflowError,
        model::{Decision, Run, RunError, RunStatus, RunTrigger, StepResult, StepStatus, TokenState, Wait},
        repo::{self, runs::RunKey},
    },
    RUN_CANCELLED, RUN_FAILED, RUN_SUCCEEDED, RUN_TIMED_OUT, ReadyRun, Service, Started, announce_run, people,
    stage::Stage,
};

vocabulary! {
    /// An action on a run.
    Steering:
    Cancel "cancel", Pause "pause", Resume "resume", Retry "retry", Approve "approve", Reject "reject",
}

/// The caller that decides about a step.
#[derive(Clone, Debug)]
pub(crate) struct Approver {
    pub(crate) actor: Actor,
    /// The role of a person; keys have none.
    role: Option<String>,
    has_scope: bool,
}

impl Approver {
    pub(crate) fn of(principal: &Principal) -> Self {
        let role = match &principal.identity {
            Identity::User { role, .. } => Some(role.to_string()),
            Identity::Contact { .. } | Identity::ApiKey { .. } | Identity::LocalOperator => None,
        };
        let has_scope = principal.grants.allows(Scope::WorkflowsApprove);
        Self { actor: Actor::of(principal), role, has_scope }
    }

    fn check(&self, approval: &Approval) -> Result<(), WorkflowError> {
        let by_role = self.role.as_ref().is_some_and(|role| approval.roles.contains(role));
        if by_role || (approval.roles.is_empty() && self.has_scope) {
            return Ok(());
        }
        Err(WorkflowError::NotAnApprover { roles: approval.roles.clone() })
    }
}

/// A decision about a step.
#[derive(Clone, Debug)]
pub(crate) struct Verdict {
    pub(crate) approver: Approver,
    /// The path of the step, if several wait.
    pub(crate) step: Option<String>,
    pub(crate) approved: bool,
    pub(crate) comment: Option<String>,
}

fn expect(tx: &impl Read, key: RunKey, expected: &ExpectedVersion) -> Result<Run, WorkflowError> {
    let run = repo::runs::get(tx, key)?.ok_or(WorkflowError::RunNotFound)?;
    expected.check(run.version)?;
    Ok(run)
}

impl Service {
    /// Cancels a run. Returns false if it had already ended.
    pub(crate) fn cancel(&self, tx: &mut WriteTx, act: &mut Act, key: RunKey) -> Result<bool, WorkflowError> {
        act.use_reserve();
        let Some(mut stage) = Stage::open(self, tx, act, key)? else { return Ok(false) };
        stage.end(RunStatus::Cancelled)?;
        stage.save()?;
        Ok(true)
    }

    /// Cancels, pauses or resumes a run, and returns it.
    pub(crate) fn steer(
        &self,
        tx: &mut WriteTx,
        act: &mut Act,
        key: RunKey,
        expected: &ExpectedVersion,
        steering: Steering,
    ) -> Result<Run, WorkflowError> {
        let run = expect(tx, key, expected)?;
        if run.status.has_ended() {
            return Err(WorkflowError::Ended(run.status));
        }
        let Some(mut stage) = Stage::open(self, tx, act, key)? else { return Err(WorkflowError::RunNotFound) };
        match (steering, stage.run.status) {
            (Steering::Cancel, _) => stage.end(RunStatus::Cancelled)?,
            (Steering::Pause, from) if from != RunStatus::Paused && !stage.run.queues() => {
                stage.run.status = RunStatus::Paused;
                stage.run.waiting_on = None;
            }
            (Steering::Resume, RunStatus::Paused) => {
                // What it waits for may have happened in the meantime.
                stage.run.status = RunStatus::Running;
                stage.check_again = true;
            }
            (Steering::Pause, from) => return Err(WorkflowError::NotPossible { from, action: "be paused" }),
            (_, from) => return Err(WorkflowError::NotPossible { from, action: "be resumed" }),
        }
        stage.save()
    }

    /// Starts a new run with the inputs of an ended one.
    pub(crate) fn retry(
        &self,
        tx: &mut WriteTx,
        act: &mut Act,
        key: RunKey,
        expected: &ExpectedVersion,
        ready: &ReadyRun,
    ) -> Result<Run, WorkflowError> {
        let run = expect(tx, key, expected)?;
        if !run.status.has_ended() || run.status == RunStatus::Succeeded {
            return Err(WorkflowError::NotPossible { from: run.status, action: "be retried" });
        }
        let workflow = repo::workflows::get(tx, run.tenant_id, run.workflow_id)?.ok_or(WorkflowError::NotFound)?;
        if workflow.archived_at.is_some() {
            return Err(WorkflowError::Archived);
        }
        match self.start(tx, act, &workflow, ready)? {
            Started::New(run) | Started::Existing(run) => Ok(run),
        }
    }

    /// Records a decision about the step that waits for an approval. Each person counts once, no matter which of their keys they
    /// use.
    pub(crate) fn decide(
        &self,
        tx: &mut WriteTx,
        act: &mut Act,
        key: RunKey,
        expected: &ExpectedVersion,
        verdict: &Verdict,
    ) -> Result<Run, WorkflowError> {
        let Verdict { approver, step: step_path, approved, comment } = verdict;
        let approved = *approved;
        let run = expect(tx, key, expected)?;
        if run.status.has_ended() {
            return Err(self.late(tx, &run, verdict, WorkflowError::Ended(run.status))?);
        }
        let Some(mut stage) = Stage::open(self, tx, act, key)? else { return Err(WorkflowError::RunNotFound) };
        let waits = |state: &TokenState| matches!(state, TokenState::Waiting { wait: Wait::Approval, .. });
        let waiting: Vec<u32> = stage.run.tokens.iter().filter(|token| waits(&token.state)).map(|token| token.id).collect();
        let found = waiting.into_iter().find_map(|token| {
            let (step, path) = stage.at(token)?;
            step_path.as_ref().is_none_or(|wanted| *wanted == path).then_some((token, step, path))
        });
        let Some((token, step, path)) = found else { return Err(self.late(tx, &run, verdict, WorkflowError::NoApproval)?) };
        let StepKind::Approval(approval) = &step.kind else { return Err(WorkflowError::NoApproval) };
        approver.check(approval)?;
        let mut row = repo::runs::step(stage.tx, key, &path)?.ok_or(WorkflowError::NoApproval)?;
        row.approvers = people::approvers(stage.tx, key.0, &row)?;
        let person = person_behind(stage.tx, key.0, &approver.actor)?;
        if row.decisions.iter().any(|decision| decision.by.id == approver.actor.id)
            || person.is_some_and(|person| row.approvers.contains(&person))
        {
            return Err(WorkflowError::ApprovedAlready);
        }
        if approved {
            let person = person.ok_or(WorkflowError::NoPerson)?;
            if !approval.by_requester && people::requesters(stage.tx, &stage.run)?.contains(&person) {
                return Err(WorkflowError::SelfApproval);
            }
            row.approvers.push(person);
        }
        let at = stage.act.now;
        row.decisions.push(Decision { by: approver.actor.clone(), at, approved, comment: comment.clone() });
        // People who approved earlier may have lost the right since.
        if approved && row.approvers.len() >= approval.required {
            let mut still = Vec::with_capacity(row.approvers.len());
            for person in &row.approvers {
                if people::still_approves(stage.tx, key.0, approval, *person)? {
                    still.push(*person);
                }
            }
            row.approvers = still;
        }
        let approvals = row.approvers.len();
        let names: Vec<String> = row.decisions.iter().map(|decision| decision.by.name.clone()).collect();
        repo::runs::put_step(stage.tx, key, &path, row)?;
        if !approved {
            let error = StepError::new("rejected", format!("{} rejected it", approver.actor.name));
            stage.fail(token, None, &error, StepStatus::Failed)?;
        } else if approvals >= approval.required {
            stage.finish(token, None, json!({"approved": true, "by": names}), &[])?;
        }
        stage.save()
    }

    /// Why a decision comes too late: the decision that was made before it, or `otherwise` if there is none.
    fn late(&self, tx: &impl Read, run: &Run, verdict: &Verdict, otherwise: WorkflowError) -> Result<WorkflowError, WorkflowError> {
        let key = (run.tenant_id, run.id);
        let definition = self.outline(tx, (run.tenant_id, run.workflow_id, run.workflow_version))?;
        let asks = |step: &&Arc<Step>| matches!(step.kind, StepKind::Approval(_));
        // Without a path, the steps of loops are not searched: a run can have very many of them.
        let paths: Vec<String> = match &verdict.step {
            Some(path) => vec![path.clone()],
            None => definition.steps.iter().filter(asks).map(|step| step.id.clone()).collect(),
        };
        let mut latest: Option<(String, StepResult, Decision)> = None;
        for path in paths {
            let Some(row) = repo::runs::step(tx, key, &path)? else { continue };
            let Some(decision) = row.deciding().cloned() else { continue };
            if latest.as_ref().is_none_or(|(.., known)| known.at <= decision.at) {
                latest = Some((path, row, decision));
            }
        }
        let Some((path, row, Decision { by, at, approved, .. })) = latest else { return Ok(otherwise) };
        let step = definition.steps.iter().find(|step| step.id == row.step_id);
        let Some(StepKind::Approval(approval)) = step.map(|step| &step.kind) else { return Ok(otherwise) };
        verdict.approver.check(approval)?;
        Ok(WorkflowError::Decided { path, by: Box::new(by), at, approved })
    }

    /// Fails a run whose definition is not readable.
    pub(crate) fn fail_unreadable(&self, tx: &mut WriteTx, act: &mut Act, key: RunKey, message: &str) -> Result<(), WorkflowError> {
        let Some(mut run) = repo::runs::get(tx, key)?.filter(|run| !run.status.has_ended()) else { return Ok(()) };
        let before = run.status;
        run.error = Some(RunError { code: "definition_invalid".to_owned(), message: message.to_owned(), step: None });
        run.tokens.clear();
        run.status = RunStatus::Failed;
        (run.waiting_on, run.ended_at, run.updated_at) = (None, Some(act.now), act.now);
        run.due_at = Some(act.now + self.retention());
        run.version += 1;
        let run = repo::runs::update(tx, run, before)?;
        self.after_end(tx, act, &run)
    }

    /// Appends the event of a run's end, starts the next queued run, and wakes the run that waits for it.
    pub(super) fn after_end(&self, tx: &mut WriteTx, act: &mut Act, run: &Run) -> Result<(), WorkflowError> {
        let kind = match run.status {
            RunStatus::Succeeded => &RUN_SUCCEEDED,
            RunStatus::Cancelled => &RUN_CANCELLED,
            RunStatus::TimedOut => &RUN_TIMED_OUT,
            _ => &RUN_FAILED,
        };
        announce_run(tx, act, kind, run)?;
        if let Some(key) = &run.concurrency_key {
            let limit = match self.outline(tx, (run.tenant_id, run.workflow_id, run.workflow_version)) {
                Ok(definition) => definition.concurrency.as_ref().map_or(1, |policy| policy.limit),
                // A missing version must not block its queue.
                Err(WorkflowError::NotFound) => 1,
                Err(error) => return Err(error),
            };
            let going = repo::runs::with_concurrency_key(tx, run.tenant_id, run.workflow_id, key, false, limit)?;
            let queue = repo::runs::with_concurrency_key(tx, run.tenant_id, run.workflow_id, key, true, 1)?;
            // A run that was still queued when it ended frees no place.
            if let Some(next) = queue.first().filter(|_| going.len() < limit)
                && let Some(mut next) = repo::runs::get(tx, *next)?
            {
                next.waiting_on = None;
                next.due_at = Some(act.now);
                next.version += 1;
                let before = next.status;
                repo::runs::update(tx, next, before)?;
            }
        }
        if let RunTrigger::Call { run: caller, waits: true, .. } = &run.trigger
            && let Some(mut caller) = repo::runs::get(tx, (run.tenant_id, *caller))?
            && !caller.status.has_ended()
            && caller.status != RunStatus::Paused
        {
            caller.due_at = Some(act.now);
            caller.version += 1;
            let before = caller.status;
            repo::runs::update(tx, caller, before)?;
        }
        Ok(())
    }
}
