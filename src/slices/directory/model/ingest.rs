//! What agents and imports send of the directory: one record a line, named by its external id. What a line leaves out stays as it is.

use tenantd_base::{
    change::Change,
    clock::Timestamp,
    id::{DeviceId, OrganizationId},
    vocabulary::vocabulary,
};

use super::change::DeviceChange;

/// A record that another one refers to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reference<T> {
    Id(T),
    External(String),
}

/// A line as it comes in: for the directory itself, or to be handed on.
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
    /// The record of this kind and external id goes.
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

/// A contact. Staff come in through the API of users alone: whoever may send devices may not make administrators.
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

/// A backup that ran or is running. What it means is nobody's business here: lines of this kind are handed on.
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
    /// It made a restore point.
    Success "success",
    /// It made a restore point, and has something to tell.
    Warning "warning",
    Failed "failed",
    /// It has not ended.
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

/// What became of a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LineDone {
    pub status: LineStatus,
    /// The record; absent when one was to be removed that is not there.
    pub id: Option<String>,
}
