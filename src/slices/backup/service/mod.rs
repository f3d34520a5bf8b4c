//! The use cases of backups. Each is a plain function in the caller's transaction: it checks, writes, appends the events, and opens
//! the resulting tickets. All of them commit together.

mod chain;
mod configs;
mod follow;
mod history;
mod jobs;
mod settle;

pub(super) use chain::Chains;
pub(super) use configs::{Impact, Read as ConfigRead, Replaced};
pub(super) use history::{Day, history};

use tenantd_base::access::{Grants, Scope as Permission};
use tenantd_directory::{DeviceLabel, OrganizationLabel};
use tenantd_store::events::EventKind;
use tenantd_tickets::Tickets;

pub(super) static CONFIG_UPDATED: EventKind = EventKind {
    name: "backup.config.updated",
    summary: "The backup configuration of a tenant, an organization or a device was changed.",
    subject: "backup_config",
    schema: "BackupOwnConfig",
    reads: Grants::of(&[Permission::BackupRead]),
    has_changes: true,
};
pub(super) static JOB_SUCCEEDED: EventKind = EventKind {
    name: "backup.job.succeeded",
    summary: "A backup left a restore point. The status shows whether it ended with a warning.",
    subject: "backup_job",
    schema: "BackupJob",
    reads: Grants::of(&[Permission::BackupRead]),
    has_changes: false,
};
pub(super) static JOB_FAILED: EventKind = EventKind { name: "backup.job.failed", summary: "A backup failed.", ..JOB_SUCCEEDED };
pub(super) static JOB_MISSED: EventKind = EventKind {
    name: "backup.job.missed",
    summary: "No backup succeeded within one and a half intervals. Emitted once until a backup succeeds.",
    subject: "backup_posture",
    schema: "BackupPosture",
    reads: Grants::of(&[Permission::BackupRead]),
    has_changes: false,
};
pub(super) static RPO_BREACHED: EventKind = EventKind {
    name: "backup.rpo_breached",
    summary: "The newest restore point of a device is older than its objective allows.",
    ..JOB_MISSED
};
pub(super) static RPO_RECOVERED: EventKind =
    EventKind { name: "backup.rpo_recovered", summary: "A device meets its objective again.", ..JOB_MISSED };

/// The names of a device and its organization.
#[derive(Clone, Debug)]
pub(super) struct BackupLabels {
    pub(super) device: DeviceLabel,
    pub(super) organization: OrganizationLabel,
}

#[derive(Clone, Debug)]
pub(super) struct Service {
    pub(super) tickets: Tickets,
    pub(super) job_retention_days: u32,
}
