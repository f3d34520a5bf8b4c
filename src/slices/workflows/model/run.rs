//! A run, its states, and what came of its steps.

use serde::{Deserialize, Serialize};

use super::{Json, Token, TokenState};
use crate::kernel::{
    clock::Timestamp,
    events::Actor,
    id::{EventId, RunId, TenantId, UserId, WorkflowId},
};

/// A closed list of words. The place of a word is what is stored, so words are only ever added at the end.
macro_rules! words {
    ($(#[$doc:meta])* $type:ident: $($variant:ident $name:literal,)*) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        pub enum $type { $($variant),* }

        impl $type {
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name),* }
            }
        }
    };
}

words! {
    RunStatus:
    Queued "queued", Running "running", Waiting "waiting", Paused "paused", Succeeded "succeeded", Failed "failed",
    Cancelled "cancelled", TimedOut "timed_out",
}

/// What a run waits for. The place of a word is what is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WaitingOn {
    Approval,
    Event,
    Time,
    Retry,
    Concurrency,
    Provider,
    Authority,
}

words! {
    StepStatus:
    Pending "pending", Running "running", Waiting "waiting", Retrying "retrying", Succeeded "succeeded", Failed "failed",
    Skipped "skipped", Cancelled "cancelled", TimedOut "timed_out",
}

impl RunStatus {
    /// The place of the word, in keys.
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
    /// The step that a run failed in.
    pub step: Option<String>,
}

/// What started a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(in super::super) enum RunTrigger {
    Manual,
    Event {
        id: EventId,
        kind: String,
    },
    Schedule {
        at: Timestamp,
    },
    /// A step of another run, which waits for the end of this one or not.
    Call {
        run: RunId,
        path: String,
        waits: bool,
    },
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(in super::super) struct Run {
    pub(in super::super) tenant_id: TenantId,
    pub(in super::super) id: RunId,
    pub(in super::super) workflow_id: WorkflowId,
    pub(in super::super) workflow_key: String,
    pub(in super::super) workflow_name: String,
    pub(in super::super) workflow_version: u64,
    pub(in super::super) status: RunStatus,
    pub(in super::super) waiting_on: Option<WaitingOn>,
    pub(in super::super) trigger: RunTrigger,
    pub(in super::super) retry_of: Option<RunId>,
    pub(in super::super) subject_id: Option<String>,
    /// How many runs led to this one, each by an event or a call.
    pub(in super::super) depth: u8,
    pub(in super::super) concurrency_key: Option<String>,
    pub(in super::super) started_by: Actor,
    pub(in super::super) created_at: Timestamp,
    pub(in super::super) started_at: Option<Timestamp>,
    pub(in super::super) ended_at: Option<Timestamp>,
    pub(in super::super) updated_at: Timestamp,
    pub(in super::super) timeout_at: Timestamp,
    pub(in super::super) output: Option<Json>,
    pub(in super::super) error: Option<RunError>,
    /// Whether the steps for a failure are running.
    pub(in super::super) failing: bool,
    pub(in super::super) tokens: Vec<Token>,
    pub(in super::super) next_token: u32,
    /// How many steps have begun.
    pub(in super::super) begun: u32,
    /// When there is next something to do with it.
    pub(in super::super) due_at: Option<Timestamp>,
    pub(in super::super) version: u64,
}

impl Run {
    /// Sets the status and the next time from what its tokens are doing. Not for runs that have ended, queue or are paused.
    pub(in super::super) fn settle(&mut self, now: Timestamp) {
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

    pub(in super::super) fn token(&self, id: u32) -> Option<&Token> {
        self.tokens.iter().find(|token| token.id == id)
    }

    pub(in super::super) fn token_mut(&mut self, id: u32) -> Option<&mut Token> {
        self.tokens.iter_mut().find(|token| token.id == id)
    }

    /// Whether it waits for its turn behind others with its concurrency key.
    pub(in super::super) fn queues(&self) -> bool {
        self.status == RunStatus::Queued && self.waiting_on == Some(WaitingOn::Concurrency)
    }
}

/// What somebody decided about a step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(in super::super) struct Decision {
    pub(in super::super) by: Actor,
    pub(in super::super) at: Timestamp,
    pub(in super::super) approved: bool,
    pub(in super::super) comment: Option<String>,
}

/// What came of a step so far.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(in super::super) struct StepResult {
    /// The steps of a run in the order in which they began.
    pub(in super::super) ordinal: u32,
    pub(in super::super) step_id: String,
    pub(in super::super) type_name: String,
    pub(in super::super) status: StepStatus,
    pub(in super::super) attempts: u32,
    pub(in super::super) started_at: Timestamp,
    pub(in super::super) ended_at: Option<Timestamp>,
    /// Without what nobody may read.
    pub(in super::super) input: Option<Json>,
    pub(in super::super) output: Option<Json>,
    pub(in super::super) error: Option<RunError>,
    /// Kinds and ids of records.
    pub(in super::super) effects: Vec<(String, String)>,
    pub(in super::super) decisions: Vec<Decision>,
    pub(in super::super) next_attempt_at: Option<Timestamp>,
    /// The people whose approval counts, each once, through whichever of their keys.
    #[serde(default)]
    pub(in super::super) approvers: Vec<UserId>,
}
