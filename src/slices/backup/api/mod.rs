//! Backups on the wire.

mod aggregate;
mod aggregate_wire;
mod config;
mod config_wire;
mod event_wire;
mod evidence;
mod examples;
mod export;
pub(super) mod forms;
mod vocabulary;

pub(super) use aggregate::AggregateApi;
pub(super) use config::ConfigApi;
pub(super) use config_wire::settings_bounds;

use poem_openapi::Tags;
use serde_json::{Map, Value};

use tenantd_http::{
    openapi,
    problem::{Code, Problem},
};

use super::error::BackupError;

#[derive(Tags)]
enum Area {
    /// What is set for backups, and how well each organization is backed up.
    Backup,
}

/// The schemas of the records that events carry.
pub(super) fn record_schemas() -> Map<String, Value> {
    let config = openapi::schemas::<config_wire::BackupOwnConfig>();
    let job = openapi::schemas::<event_wire::BackupJob>();
    config.into_iter().chain(job).chain(openapi::schemas::<event_wire::BackupPosture>()).collect()
}

impl From<BackupError> for Problem {
    fn from(error: BackupError) -> Self {
        match error {
            BackupError::NotFound => Self::plain(Code::NotFound),
            BackupError::OverTenant => {
                let detail = "These settings hold for the whole tenant; this key is for some of its organizations.";
                Self::new(Code::InsufficientScope, detail)
            }
            BackupError::Invalid(faults) => faults.into(),
            BackupError::LimitReached { most } => {
                Self::new(Code::LimitReached, format!("{most} organizations and devices have settings of their own already."))
            }
            BackupError::Stale(stale) => stale.into(),
            BackupError::Ticket(error) => Self::internal(error),
            BackupError::Signing(error) => Self::internal(error),
            BackupError::Event(error) => Self::internal(error),
            BackupError::Store(error) => error.into(),
        }
    }
}
