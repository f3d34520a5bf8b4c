//! Snapshots and the disk on the wire, and the status page.

mod maintenance;
mod status;
mod wire;

pub(super) use maintenance::UpkeepApi;
pub(super) use status::{Readiness, StatusPage};
pub(super) use wire::record_schemas;

use tenantd_http::problem::{Code, Problem};

use super::error::UpkeepError;

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
