//! The import lines of the directory: one record per line, identified by its external ID. Absent fields keep their values.

use tenantd_base::{
    change::Change,
    clock::Timestamp,
    id::{DeviceId, OrganizationId},
    vocabulary::vocabulary,
};

use super::change::DeviceChange;

/// A reference to another record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reference<T> {
    Id(T),
    External(String),
}

/// A parsed line: a directory record, or a backup job for another slice.
#[derive(Clone, Debug)]
pub enum SentLine {
    Record(IngestLine),
    BackupJob(JobLine),
}

#[derive(Clone, Debug)]
pub enum IngestLine {
    Organization(OrganizationLine),
    User(ContactLine),
    Device(Box<DeviceLine>),
    /// Remove the record with this kind and external ID.
    Removal(RecordKind, String),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordKind {
    Organization,
    User,
    Device,
}

#[derive(Clone, Debug)]
pub struct OrganizationLine {
    pub external_id: String,
    pub name: Option<String>,
}

/// A contact. Imports cannot contain staff: a caller that may send devices must not be able to create administrators.
#[derive(Clone, Debug)]
pub struct ContactLine {
    pub external_id: String,
    pub name: Option<String>,
    pub email: Change<String>,
    pub organization: Change<Reference<OrganizationId>>,
}

#[derive(Clone, Debug)]
pub struct DeviceLine {
    pub external_id: String,
    pub change: DeviceChange,
}

/// A backup job. The directory does not interpret it and passes it on.
#[derive(Clone, Debug)]
pub struct JobLine {
    pub external_id: String,
    pub device: Reference<DeviceId>,
    pub started_at: Timestamp,
    pub ended_at: Option<Timestamp>,
    pub status: JobStatus,
    pub bytes: Option<u64>,
    pub target: Option<String>,
    pub verified: bool,
}

vocabulary! {
    JobStatus as variants:
    /// The job made a restore point.
    Success "success",
    /// The job made a restore point and reported a warning.
    Warning "warning",
    Failed "failed",
    /// The job has not ended.
    Running "running",
    Cancelled "cancelled",
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineStatus {
    Created,
    Updated,
    Unchanged,
    Removed,
}

/// The result of a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LineResult {
    pub status: LineStatus,
    /// The ID of the record; `None` if the record to remove does not exist.
    pub id: Option<String>,
}
