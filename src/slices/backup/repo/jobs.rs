//! Jobs, in segments by the day on which they started, so that retention drops whole days.

use std::time::Duration;

use tenantd_base::{
    clock::Timestamp,
    id::{DeviceId, TenantId},
};
use tenantd_store::{
    Counts, Flow, Key, KeyRange, Read, ReadTx, RowsOfSegments, SegmentedTable, StoreError, WriteTx, catalog,
    codec::Record,
    portable::{PortError, Portable, SegmentCarrier},
    usage::CountedSegments,
};

use super::super::model::{Job, day_of};

type JobKey = (TenantId, DeviceId, String);

impl Record for Job {
    const VERSION: u8 = 1;

    fn take_key(&mut self, key: &[u8]) -> Option<()> {
        (_, self.device_id, self.external_id) = JobKey::from_bytes(key)?;
        Some(())
    }
}

/// The allowed range of job days: ten years back and, for a tenant whose clock is ahead, ten years forward.
const LONGEST_AGO: Duration = Duration::from_hours(24 * 3_660);
const TOMORROW: Duration = Duration::from_hours(24);
/// In characters, as in the lines that agents send.
const MAX_EXTERNAL_ID: usize = 200;
const MAX_TARGET: usize = 100;

static JOBS: SegmentedTable = SegmentedTable::new(catalog::BACKUP_JOBS).counting(Counts::Records);
pub(crate) static COUNTED_JOBS: CountedSegments = JOBS.counted();
pub(crate) static JOBS_OF_TENANTS: RowsOfSegments = RowsOfSegments(&JOBS);

/// Exports and imports jobs. Each day is a separate table, so a job must match the day of its table, and that day must be within
/// the allowed range.
pub(super) fn portable() -> Box<dyn Portable> {
    SegmentCarrier::<JobKey, Job>::plain("backup_job", &JOBS, |arrival, day, key, job| {
        let ahead = if key.0.has_own_clock() { LONGEST_AGO } else { TOMORROW };
        let (first, last) = (arrival.now - LONGEST_AGO, arrival.now + ahead);
        if day != segment(job.started_at) || !(first..=last).contains(&job.started_at) {
            return Err(PortError::wrong("started_at: does not match the day of its segment, or is out of range"));
        }
        let is_long = |text: &str, most: usize| text.is_empty() || text.chars().count() > most;
        if is_long(&job.external_id, MAX_EXTERNAL_ID) || job.target.as_deref().is_some_and(|target| is_long(target, MAX_TARGET)) {
            return Err(PortError::wrong("external_id or target: empty or too long"));
        }
        Ok(())
    })
}

fn segment(started_at: Timestamp) -> u64 {
    u64::try_from(day_of(started_at)).unwrap_or(0)
}

/// The job that started on the day of `started_at`.
pub(crate) fn get(
    tx: &impl Read,
    tenant: TenantId,
    device_id: DeviceId,
    external_id: &str,
    started_at: Timestamp,
) -> Result<Option<Job>, StoreError> {
    JOBS.get(tx, segment(started_at), &(tenant, device_id, external_id.to_owned()))
}

/// The jobs of a device that started on the day of `start`: at most `most`, and whether there are more.
pub(crate) fn on_day(
    tx: &impl Read,
    tenant: TenantId,
    device: DeviceId,
    start: Timestamp,
    most: usize,
) -> Result<(Vec<Job>, bool), StoreError> {
    let (mut found, mut more) = (Vec::new(), false);
    JOBS.scan(tx, segment(start), &KeyRange::prefix(&(tenant, device).to_bytes()), |_: JobKey, job| {
        more = found.len() == most;
        if !more {
            found.push(job);
        }
        Ok(if more { Flow::Stop } else { Flow::Continue })
    })?;
    Ok((found, more))
}

pub(crate) fn put(tx: &mut WriteTx, tenant: TenantId, job: &Job) -> Result<(), StoreError> {
    JOBS.put(tx, segment(job.started_at), &(tenant, job.device_id, job.external_id.clone()), job)
}

/// The days before `first` that have jobs.
pub(crate) fn days_before(tx: &ReadTx, first: Timestamp) -> Result<Vec<u64>, StoreError> {
    let mut days = JOBS.segments(tx)?;
    days.retain(|day| *day < segment(first));
    Ok(days)
}

pub(crate) fn drop_day(tx: &mut WriteTx, day: u64) -> Result<(), StoreError> {
    JOBS.drop_segment(tx, day)
}
