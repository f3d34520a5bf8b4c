//! The HTTP API of backups.

mod aggregate;
mod aggregate_wire;
mod config;
mod config_wire;
mod event_wire;
mod evidence;
mod examples;
mod export;
pub(super) mod forms;
mod history;
mod vocabulary;

pub(super) use aggregate::AggregateApi;
pub(super) use config::ConfigApi;
pub(super) use config_wire::settings_bounds;
pub(super) use history::HistoryApi;

use poem_openapi::Tags;
use serde_json::{Map, Value};

use tenantd_http::{
    openapi,
    problem::{Code, Problem},
};

use super::error::BackupError;

#[derive(Tags)]
enum Area {
    /// The backup configuration, and the backup status of each organization.
    Backup,
}

/// The schemas of the records in events.
pub(super) fn record_schemas() -> Map<String, Value> {
    let config = openapi::schemas::<config_wire::BackupOwnConfig>();
    let job = openapi::schemas::<event_wire::BackupJob>();
    config.into_iter().chain(job).chain(openapi::schemas::<event_wire::BackupPosture>()).collect()
}

impl From<BackupError> for Problem {
    fn from(error: BackupError) -> Self {
        match error {
            BackupError::NotFound => Self::plain(Code::NotFound),
            BackupError::TenantWideSettings => {
                let detail =
                    "A key restricted to organizations cannot change tenant-wide settings. Use a key for the whole tenant.";
                Self::new(Code::InsufficientScope, detail)
            }
            BackupError::Invalid(faults) => faults.into(),
            BackupError::LimitReached { most } => Self::new(
                Code::LimitReached,
                format!(
                    "At most {most} organizations and devices can have their own settings. Remove the settings of another one first."
                ),
            ),
            BackupError::Stale(stale) => stale.into(),
            BackupError::Ticket(error) => Self::internal(error),
            BackupError::Signing(error) => Self::internal(error),
            BackupError::Event(error) => Self::internal(error),
            BackupError::Store(error) => error.into(),
        }
    }
}
