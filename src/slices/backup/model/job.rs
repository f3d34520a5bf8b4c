//! A backup job of a device.

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
    /// The end of a job that has ended. Equal to the start if the end was not reported.
    pub ended_at: Option<Timestamp>,
    pub status: JobStatus,
    pub bytes: Option<u64>,
    pub target: Option<String>,
    /// When a test restore from it succeeded.
    pub verified_at: Option<Timestamp>,
    pub version: u64,
}

impl Job {
    pub fn has_ended(&self) -> bool {
        self.status != JobStatus::Running
    }

    /// Whether the job left a restore point.
    pub fn has_succeeded(&self) -> bool {
        matches!(self.status, JobStatus::Success | JobStatus::Warning)
    }
}
