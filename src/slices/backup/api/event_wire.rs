//! What events tell of backups: a job that ended, and how well a device is backed up.

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
        service::Whose,
    },
    aggregate_wire::BackupDevice,
};

/// A backup that ran.
#[skip_serializing_none]
#[derive(Clone, Debug, Object, Serialize)]
#[oai(skip_serializing_if_is_none)]
pub(super) struct BackupJob {
    id: BackupJobId,
    external_id: String,
    device: BackupDevice,
    organization: OrganizationReference,
    /// `success`, `warning`, `failed`, `running` or `cancelled`.
    status: String,
    started_at: Timestamp,
    ended_at: Option<Timestamp>,
    duration_seconds: Option<u64>,
    /// How much was backed up, in bytes.
    bytes: Option<u64>,
    /// Where the backup is kept.
    target: Option<String>,
    /// When a restore from it was tried with success.
    verified_at: Option<Timestamp>,
    version: u64,
}

impl Describe<&Whose> for model::Job {
    fn describe(&self, whose: &Whose) -> Described {
        to_raw_value(&BackupJob {
            id: self.id,
            external_id: self.external_id.clone(),
            device: (&whose.device).into(),
            organization: whose.organization.clone().into(),
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

/// How well a device is backed up.
#[skip_serializing_none]
#[derive(Clone, Debug, Object, Serialize)]
#[oai(skip_serializing_if_is_none)]
pub(super) struct BackupPosture {
    device: BackupDevice,
    organization: OrganizationReference,
    workload: Option<Workload>,
    /// Whether the device has a recent restore point.
    protected: bool,
    /// Whether the last backup that was due did not run.
    missed: bool,
    rpo: Option<Rpo>,
    /// How old the newest restore point may be, in minutes.
    rpo_minutes: u32,
    /// When it last succeeded.
    last_success_at: Option<Timestamp>,
    /// When it last failed.
    last_failure_at: Option<Timestamp>,
    /// Restore points that the retention leaves.
    restore_points: u64,
    version: u64,
}

impl Describe<(&Whose, u32)> for Posture {
    fn describe(&self, (whose, rpo_minutes): (&Whose, u32)) -> Described {
        to_raw_value(&BackupPosture {
            device: (&whose.device).into(),
            organization: whose.organization.clone().into(),
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
