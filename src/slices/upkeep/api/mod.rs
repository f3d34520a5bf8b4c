//! Snapshots and the disk on the wire, and the status page.

mod maintenance;
mod status;
mod wire;

pub(super) use maintenance::UpkeepApi;
pub(super) use status::{Readiness, StatusPage};
pub(super) use wire::record_schemas;

use tenantd_http::problem::{Code, Problem};

use super::{error::UpkeepError, offsite::OffsiteError};

impl From<UpkeepError> for Problem {
    fn from(error: UpkeepError) -> Self {
        match error {
            UpkeepError::Busy => Self::new(Code::InUse, "Another snapshot is being written; wait for it."),
            UpkeepError::KeyChanges => Self::new(
                Code::InvalidTransition,
                "A change of the installation key is under way. Write the snapshot when it has ended.",
            ),
            UpkeepError::NoRoom { place, needed, free } => {
                let detail =
                    format!("There is no room for a snapshot at {place}: it takes up to {needed} bytes, and {free} are free.");
                Self::unavailable(detail, 60)
            }
            UpkeepError::Place(reason) => Self::new(Code::InvalidTransition, reason),
            UpkeepError::Unproven(error) => {
                Self::unavailable(format!("The snapshot is not good, and was removed: {error}."), 60).because(error)
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
                Self::new(Code::InvalidTransition, "There is no place for backups outside of this host: set offsite.url.")
            }
            OffsiteError::Worker(error) => Self::internal(error),
            other => Self::unavailable(format!("The backup did not become complete: {other}."), 60).because(other),
        }
    }
}
