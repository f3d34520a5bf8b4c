//! Workflows and their runs. No store, no clock: what a definition says is in `definition`, what drives a run is in `engine`.

mod run;
mod token;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _, ser::Error as _};
use serde_json::Value;

use tenantd_base::{
    clock::Timestamp,
    id::{TenantId, WorkflowId},
};
use tenantd_store::events::Actor;

pub(super) use run::{Decision, Run, RunTrigger, StepResult};
pub use run::{RunError, RunStatus, StepStatus, WaitingOn};
pub(super) use token::{Token, TokenState, Wait};

/// A JSON value that is stored as its text.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Json(pub(super) Value);

impl Serialize for Json {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if serializer.is_human_readable() {
            return self.0.serialize(serializer);
        }
        serde_json::to_string(&self.0).map_err(S::Error::custom)?.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        if deserializer.is_human_readable() {
            return Value::deserialize(deserializer).map(Self);
        }
        serde_json::from_str(&String::deserialize(deserializer)?).map(Self).map_err(D::Error::custom)
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Workflow {
    #[serde(skip)]
    pub tenant_id: TenantId,
    #[serde(skip)]
    pub id: WorkflowId,
    pub key: String,
    pub name: String,
    pub enabled: bool,
    pub archived_at: Option<Timestamp>,
    /// Of the newest definition, and of the record.
    pub version: u64,
    /// Kinds of events that start it.
    pub(super) events: Vec<String>,
    /// Events up to this number of the tenant are none of its business.
    pub(super) armed_seq: u64,
    /// Times of its schedules up to here are done with.
    pub(super) scheduled_until: Timestamp,
    pub(super) next_fire_at: Option<Timestamp>,
    pub created_at: Timestamp,
    pub created_by: Actor,
    pub updated_at: Timestamp,
    #[serde(default)]
    pub(super) origin: Origin,
}

/// Whether tenantd checked what the authors of a workflow's versions may do when they saved them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Origin {
    /// It did.
    #[default]
    Checked,
    /// An older release stored it, and this one has not looked at it yet.
    Unchecked,
    /// An older release stored it. When this one first looked, at this time, its author lacked rights. It was at this version.
    Legacy { since: Timestamp, version: u64 },
}

impl Workflow {
    pub(super) fn is_live(&self) -> bool {
        self.enabled && self.archived_at.is_none()
    }
}
