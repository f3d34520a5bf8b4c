//! The HTTP interface of snapshots, the disk and the state of the server.

mod maintenance;
mod status;
mod wire;

pub(super) use maintenance::UpkeepApi;
pub(super) use status::Readiness;
pub use status::StatusSource;
pub(super) use wire::record_schemas;

use tenantd_http::problem::{Code, Problem};

use super::{error::UpkeepError, offsite::OffsiteError};

impl From<UpkeepError> for Problem {
    fn from(error: UpkeepError) -> Self {
        match error {
            UpkeepError::Busy => Self::new(Code::InUse, "Another snapshot is being written. Retry when it has finished."),
            UpkeepError::KeyChanges => {
                Self::new(Code::InvalidTransition, "The installation key is being rotated. Retry when the rotation has finished.")
            }
            UpkeepError::NoRoom { place, needed, free } => {
                let detail =
                    format!("Not enough space for a snapshot at {place}: it needs up to {needed} bytes, but only {free} are free.");
                Self::unavailable(detail, 60)
            }
            UpkeepError::Place(reason) => Self::new(Code::InvalidTransition, reason),
            UpkeepError::Unproven(error) => {
                Self::unavailable(format!("The snapshot was invalid and has been removed: {error}."), 60).because(error)
            }
            UpkeepError::Event(error) => Self::internal(error),
            UpkeepError::Store(error) => error.into(),
        }
    }
}

impl From<OffsiteError> for Problem {
    fn from(error: OffsiteError) -> Self {
        match error {
            OffsiteError::Snapshot(error) => error.into(),
            OffsiteError::NotConfigured => {
                Self::new(Code::InvalidTransition, "Off-site backups are not configured. Set offsite.url.")
            }
            OffsiteError::Worker(error) => Self::internal(error),
            other => Self::unavailable(format!("The backup failed: {other}."), 60).because(other),
        }
    }
}
