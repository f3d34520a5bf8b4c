//! The position of a run. A token is at a step. A step that contains steps has one token for each active block or item, and its own
//! token waits for them.

use serde::{Deserialize, Serialize};

use tenantd_base::{clock::Timestamp, id::RunId};

use super::WaitingOn;

/// What a step waits for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Wait {
    Time,
    /// The next attempt.
    Retry,
    /// An event with a number greater than `after_seq`, the newest number when the wait began.
    Event {
        kind: String,
        resource_id: Option<String>,
        after_seq: u64,
    },
    Approval,
    /// The end of a called run.
    Run {
        id: RunId,
    },
    /// Rights that the owners of the run lack.
    Authority,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum TokenState {
    /// Before its step.
    Ready,
    /// Its step is calling another server.
    Calling,
    Waiting {
        wait: Wait,
        until: Option<Timestamp>,
    },
    /// Its step contains steps in progress: how many run, the next item, and the number of all items.
    Joining {
        running: u32,
        next: u32,
        total: u32,
        failed: u32,
    },
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Token {
    pub(crate) id: u32,
    /// The token of the step that contains this token's block.
    pub(crate) parent: Option<u32>,
    pub(crate) block: u32,
    /// The position in the block.
    pub(crate) at: u32,
    /// The loops that contain the token, each with its item. The paths of its steps start with it, such as `each[3]/`.
    pub(crate) scope: String,
    /// The item of the innermost loop.
    pub(crate) item: Option<u32>,
    pub(crate) state: TokenState,
}

impl Token {
    pub(crate) fn path(&self, step_id: &str) -> String {
        format!("{}{step_id}", self.scope)
    }

    pub(super) fn waiting_on(&self) -> Option<WaitingOn> {
        match &self.state {
            TokenState::Waiting { wait, .. } => Some(match wait {
                Wait::Time => WaitingOn::Time,
                Wait::Retry => WaitingOn::Retry,
                Wait::Event { .. } | Wait::Run { .. } => WaitingOn::Event,
                Wait::Approval => WaitingOn::Approval,
                Wait::Authority => WaitingOn::Authority,
            }),
            _ => None,
        }
    }

    pub(crate) fn until(&self) -> Option<Timestamp> {
        match &self.state {
            TokenState::Waiting { until, .. } => *until,
            _ => None,
        }
    }

    /// The event that it waits for: kind, resource, and the number that the event's own number must exceed.
    pub(crate) fn awaited(&self) -> Option<(&str, Option<&str>, u64)> {
        match &self.state {
            TokenState::Waiting { wait: Wait::Event { kind, resource_id, after_seq }, .. } => {
                Some((kind, resource_id.as_deref(), *after_seq))
            }
            _ => None,
        }
    }
}
