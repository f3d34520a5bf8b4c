//! The event data of backups: jobs, and the backup status of devices.

use poem_openapi::Object;
use serde::Serialize;
use serde_json::value::to_raw_value;
use serde_with::skip_serializing_none;

use tenantd_base::{clock::Timestamp, id::BackupJobId};
use tenantd_directory::OrganizationReference;
use tenantd_store::events::{Describe, Described};

use super::{
    super::{
        model::{self, Posture, Rpo, Workload},
        service::BackupLabels,
    },
    aggregate_wire::BackupDevice,
};

/// A backup job.
#[skip_serializing_none]
#[derive(Clone, Debug, Object, Serialize)]
#[oai(skip_serializing_if_is_none)]
pub(super) struct BackupJob {
    /// The ID of the job.
    id: BackupJobId,
    /// The ID of the job in the backup system.
    external_id: String,
    /// The device that was backed up.
    device: BackupDevice,
    /// The organization of the device.
    organization: OrganizationReference,
    /// The status: `success`, `warning`, `failed`, `running` or `cancelled`.
    status: String,
    /// When the job started.
    started_at: Timestamp,
    /// When the job ended. Absent while it is running.
    ended_at: Option<Timestamp>,
    /// The duration of the job in seconds. Absent while it is running.
    duration_seconds: Option<u64>,
    /// The size of the backup in bytes. Absent if it is unknown.
    bytes: Option<u64>,
    /// The name of the target that stores the backup. Absent if it is unknown.
    target: Option<String>,
    /// When a test restore from this backup succeeded. Absent if there was none.
    verified_at: Option<Timestamp>,
    /// The version of the record. It increases with each change.
    version: u64,
}

impl Describe<&BackupLabels> for model::Job {
    fn describe(&self, labels: &BackupLabels) -> Described {
        to_raw_value(&BackupJob {
            id: self.id,
            external_id: self.external_id.clone(),
            device: (&labels.device).into(),
            organization: labels.organization.clone().into(),
            status: self.status.name().to_owned(),
            started_at: self.started_at,
            ended_at: self.ended_at,
            duration_seconds: self.ended_at.map(|at| at.since(self.started_at).as_secs()),
            bytes: self.bytes,
            target: self.target.clone(),
            verified_at: self.verified_at,
            version: self.version,
        })
    }
}

/// The backup status of a device.
#[skip_serializing_none]
#[derive(Clone, Debug, Object, Serialize)]
#[oai(skip_serializing_if_is_none)]
pub(super) struct BackupPosture {
    /// The device.
    device: BackupDevice,
    /// The organization of the device.
    organization: OrganizationReference,
    /// The kind of device. Absent for a device of a class that is not backed up.
    workload: Option<Workload>,
    /// Whether the device has a restore point from the last 30 days.
    protected: bool,
    /// Whether the last backup that was due did not run.
    missed: bool,
    /// The RPO state. Absent if the device is not eligible for backup.
    rpo: Option<Rpo>,
    /// The maximum age of the newest restore point, in minutes.
    rpo_minutes: u32,
    /// When a backup of the device last succeeded. Absent if none did.
    last_success_at: Option<Timestamp>,
    /// When a backup of the device last failed. Absent if none did.
    last_failure_at: Option<Timestamp>,
    /// The number of restore points within the retention.
    restore_points: u64,
    /// The version of the backup status. It increases with each change.
    version: u64,
}

impl Describe<(&BackupLabels, u32)> for Posture {
    fn describe(&self, (labels, rpo_minutes): (&BackupLabels, u32)) -> Described {
        to_raw_value(&BackupPosture {
            device: (&labels.device).into(),
            organization: labels.organization.clone().into(),
            workload: self.workload,
            protected: self.standing.protected,
            missed: self.standing.missed,
            rpo: self.standing.rpo,
            rpo_minutes,
            last_success_at: self.last_success_at,
            last_failure_at: self.last_failure_at,
            restore_points: self.points.len() as u64,
            version: self.version + 1,
        })
    }
}
