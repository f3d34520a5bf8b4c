//! Where a run is. A token stands before or in one step; a step that holds steps has a token for each list or item that is under way,
//! and one of its own that waits for them.

use serde::{Deserialize, Serialize};

use tenantd_base::{clock::Timestamp, id::RunId};

use super::WaitingOn;

/// What a step waits for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Wait {
    Time,
    /// The next attempt.
    Retry,
    /// An event with a higher number than that of the newest one when the wait began.
    Event {
        kind: String,
        resource_id: Option<String>,
        after_seq: u64,
    },
    Approval,
    /// The end of a run that was called.
    Run {
        id: RunId,
    },
    /// Rights that those lack whom the run acts for.
    Authority,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum TokenState {
    /// Before its step.
    Ready,
    /// Its step calls out.
    Calling,
    Waiting {
        wait: Wait,
        until: Option<Timestamp>,
    },
    /// Its step holds steps that are under way: so many, the next item, of so many.
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
    /// The token of the step that holds this one's list.
    pub(crate) parent: Option<u32>,
    pub(crate) block: u32,
    /// The place in the list.
    pub(crate) at: u32,
    /// The loops that it is in, each with its item: what the paths of its steps start with, such as `each[3]/`.
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

    /// The event that it waits for: kind, resource, and the number above which its own must be.
    pub(crate) fn awaited(&self) -> Option<(&str, Option<&str>, u64)> {
        match &self.state {
            TokenState::Waiting { wait: Wait::Event { kind, resource_id, after_seq }, .. } => {
                Some((kind, resource_id.as_deref(), *after_seq))
            }
            _ => None,
        }
    }
}
