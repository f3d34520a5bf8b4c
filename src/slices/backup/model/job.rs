//! A backup of a device that ran or is running.

use serde::{Deserialize, Serialize};

use tenantd_base::{
    clock::Timestamp,
    id::{BackupJobId, DeviceId},
};
use tenantd_directory::JobStatus;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Job {
    pub id: BackupJobId,
    #[serde(skip)]
    pub external_id: String,
    #[serde(skip)]
    pub device_id: DeviceId,
    pub started_at: Timestamp,
    /// Of one that has ended, when; its beginning where nobody has told.
    pub ended_at: Option<Timestamp>,
    pub status: JobStatus,
    pub bytes: Option<u64>,
    pub target: Option<String>,
    /// When a restore from it was tried with success.
    pub verified_at: Option<Timestamp>,
    pub version: u64,
}

impl Job {
    pub fn has_ended(&self) -> bool {
        self.status != JobStatus::Running
    }

    /// Whether it left a restore point.
    pub fn has_succeeded(&self) -> bool {
        matches!(self.status, JobStatus::Success | JobStatus::Warning)
    }
}
