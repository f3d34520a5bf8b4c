//! A run, its states, and the results of its steps.

use serde::{Deserialize, Serialize};

use tenantd_base::{
    clock::Timestamp,
    id::{EventId, RunId, TenantId, UserId, WorkflowId},
    vocabulary::vocabulary,
};
use tenantd_store::events::Actor;

use super::{Json, Token, TokenState};

vocabulary! {
    RunStatus:
    Queued "queued", Running "running", Waiting "waiting", Paused "paused", Succeeded "succeeded", Failed "failed",
    Cancelled "cancelled", TimedOut "timed_out",
}

vocabulary! {
    /// What a run waits for.
    WaitingOn:
    Approval "approval", Event "event", Time "time", Retry "retry", Concurrency "concurrency", Provider "provider",
    Authority "authority",
}

vocabulary! {
    StepStatus:
    Pending "pending", Running "running", Waiting "waiting", Retrying "retrying", Succeeded "succeeded", Failed "failed",
    Skipped "skipped", Cancelled "cancelled", TimedOut "timed_out",
}

impl RunStatus {
    /// The number of the status in keys.
    pub const fn code(self) -> u8 {
        self as u8
    }

    pub const fn has_ended(self) -> bool {
        matches!(self, Self::Succeeded | Self::Failed | Self::Cancelled | Self::TimedOut)
    }
}

/// Why a run or a step failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunError {
    pub code: String,
    pub message: String,
    /// The step in which a run failed.
    pub step: Option<String>,
}

/// What started a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum RunTrigger {
    Manual,
    Event {
        id: EventId,
        kind: String,
    },
    Schedule {
        at: Timestamp,
    },
    /// A step of another run. `waits`: it waits until this run ends.
    Call {
        run: RunId,
        path: String,
        waits: bool,
    },
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Run {
    pub(crate) tenant_id: TenantId,
    pub(crate) id: RunId,
    pub(crate) workflow_id: WorkflowId,
    pub(crate) workflow_key: String,
    pub(crate) workflow_name: String,
    pub(crate) workflow_version: u64,
    pub(crate) status: RunStatus,
    pub(crate) waiting_on: Option<WaitingOn>,
    pub(crate) trigger: RunTrigger,
    pub(crate) retry_of: Option<RunId>,
    pub(crate) subject_id: Option<String>,
    /// How many runs led to this one, each by an event or a call.
    pub(crate) depth: u8,
    pub(crate) concurrency_key: Option<String>,
    pub(crate) started_by: Actor,
    pub(crate) created_at: Timestamp,
    pub(crate) started_at: Option<Timestamp>,
    pub(crate) ended_at: Option<Timestamp>,
    pub(crate) updated_at: Timestamp,
    pub(crate) timeout_at: Timestamp,
    pub(crate) output: Option<Json>,
    pub(crate) error: Option<RunError>,
    /// Whether the `on_failure` steps are running.
    pub(crate) failing: bool,
    pub(crate) tokens: Vec<Token>,
    pub(crate) next_token: u32,
    /// How many steps have started.
    pub(crate) begun: u32,
    /// When the engine must look at the run next.
    pub(crate) due_at: Option<Timestamp>,
    pub(crate) version: u64,
}

impl Run {
    /// Derives the status and the due time from the tokens. Not for runs that have ended, are queued or are paused.
    pub(crate) fn settle(&mut self, now: Timestamp) {
        let works = |token: &Token| matches!(token.state, TokenState::Ready | TokenState::Calling);
        if self.tokens.iter().any(works) {
            (self.status, self.waiting_on, self.due_at) = (RunStatus::Running, None, Some(now));
            return;
        }
        let first = self.tokens.iter().find_map(Token::waiting_on);
        let next = self.tokens.iter().filter_map(Token::until).min();
        self.status = RunStatus::Waiting;
        self.waiting_on = first;
        self.due_at = Some(next.map_or(self.timeout_at, |at| at.min(self.timeout_at)));
    }

    pub(crate) fn token(&self, id: u32) -> Option<&Token> {
        self.tokens.iter().find(|token| token.id == id)
    }

    pub(crate) fn token_mut(&mut self, id: u32) -> Option<&mut Token> {
        self.tokens.iter_mut().find(|token| token.id == id)
    }

    /// Whether it waits behind other runs with its concurrency key.
    pub(crate) fn queues(&self) -> bool {
        self.status == RunStatus::Queued && self.waiting_on == Some(WaitingOn::Concurrency)
    }
}

/// A decision about an approval step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Decision {
    pub(crate) by: Actor,
    pub(crate) at: Timestamp,
    pub(crate) approved: bool,
    pub(crate) comment: Option<String>,
}

/// The current result of a step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct StepResult {
    /// The position of the step in the order in which the steps started.
    pub(crate) ordinal: u32,
    pub(crate) step_id: String,
    pub(crate) type_name: String,
    pub(crate) status: StepStatus,
    pub(crate) attempts: u32,
    pub(crate) started_at: Timestamp,
    pub(crate) ended_at: Option<Timestamp>,
    /// Without values that must stay hidden.
    pub(crate) input: Option<Json>,
    pub(crate) output: Option<Json>,
    pub(crate) error: Option<RunError>,
    /// Kinds and ids of records.
    pub(crate) effects: Vec<(String, String)>,
    pub(crate) decisions: Vec<Decision>,
    pub(crate) next_attempt_at: Option<Timestamp>,
    /// The people whose approvals count, each once, no matter which of their keys they used.
    #[serde(default)]
    pub(crate) approvers: Vec<UserId>,
}

impl StepResult {
    /// The decision that ended an approval. `None` if it is open, or ended in another way.
    pub(crate) fn deciding(&self) -> Option<&Decision> {
        let last = self.decisions.last()?;
        match self.status {
            StepStatus::Succeeded => Some(last).filter(|last| last.approved),
            StepStatus::Failed => Some(last).filter(|last| !last.approved),
            _ => None,
        }
    }
}
