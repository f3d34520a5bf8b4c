//! Workflows and their runs. No store, no clock. `definition` reads definitions; `engine` drives runs.

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

/// A JSON value that is stored as text.
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
    /// The version of the newest definition and of the record.
    pub version: u64,
    /// The kinds of events that start it.
    pub(super) events: Vec<String>,
    /// Only events after this number start the workflow.
    pub(super) armed_seq: u64,
    /// Occurrences of its schedules up to this time are handled.
    pub(super) scheduled_until: Timestamp,
    pub(super) next_fire_at: Option<Timestamp>,
    pub created_at: Timestamp,
    pub created_by: Actor,
    pub updated_at: Timestamp,
    #[serde(default)]
    pub(super) origin: Origin,
}

/// Whether tenantd checked the rights of the authors when they saved the versions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Origin {
    /// tenantd checked them.
    #[default]
    Checked,
    /// An older release stored it, and this release has not checked it yet.
    Unchecked,
    /// An older release stored it, and its author lacked rights when this release first checked, at time `since`. `version` was the
    /// newest version then.
    Legacy { since: Timestamp, version: u64 },
}

impl Workflow {
    pub(super) fn is_live(&self) -> bool {
        self.enabled && self.archived_at.is_none()
    }
}
