//! The history of a device: its jobs by day. Reads the jobs of a bounded number of days.

use std::time::Duration;

use tenantd_base::{
    access::Reach,
    clock::Timestamp,
    id::{DeviceId, TenantId},
};
use tenantd_directory::{self as directory, JobStatus};
use tenantd_store::ReadTx;

use super::super::{
    error::BackupError,
    model::{Job, day_of},
    repo,
};

const DAY: Duration = Duration::from_hours(24);
/// The most jobs of one day that are counted.
const MOST_JOBS: usize = 1_000;

/// The jobs of a device that started on one day.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Day {
    pub(crate) start: Timestamp,
    pub(crate) succeeded: u32,
    pub(crate) warned: u32,
    pub(crate) failed: u32,
    pub(crate) cancelled: u32,
    pub(crate) running: u32,
    /// `None` if no job reported a size.
    pub(crate) bytes: Option<u64>,
    /// Whether there are more jobs than were counted.
    pub(crate) more: bool,
}

impl Day {
    fn new(start: Timestamp, jobs: &[Job], more: bool) -> Self {
        let count = |status: JobStatus| u32::try_from(jobs.iter().filter(|job| job.status == status).count()).unwrap_or(u32::MAX);
        Self {
            start,
            succeeded: count(JobStatus::Success),
            warned: count(JobStatus::Warning),
            failed: count(JobStatus::Failed),
            cancelled: count(JobStatus::Cancelled),
            running: count(JobStatus::Running),
            bytes: jobs.iter().filter(|job| job.has_succeeded()).filter_map(|job| job.bytes).reduce(u64::saturating_add),
            more,
        }
    }
}

/// The last days of a device, oldest first. A device out of reach counts as not found.
pub(crate) fn history(
    tx: &ReadTx,
    (tenant, device): (TenantId, DeviceId),
    reach: &Reach,
    now: Timestamp,
    days: u16,
) -> Result<Vec<Day>, BackupError> {
    let found = directory::device(tx, tenant, device)?;
    found.filter(|device| reach.covers(Some(device.organization_id))).ok_or(BackupError::NotFound)?;
    let today = Timestamp::from_millis(day_of(now) * 86_400_000);
    (0..days)
        .rev()
        .map(|ago| {
            let start = today - DAY * u32::from(ago);
            let (jobs, more) = repo::jobs::on_day(tx, tenant, device, start, MOST_JOBS)?;
            Ok(Day::new(start, &jobs, more))
        })
        .collect()
}
