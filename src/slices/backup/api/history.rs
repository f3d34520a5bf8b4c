//! `/api/backup/devices/{id}/history`: the jobs of a device by the day on which they started.

use poem_openapi::{Object, OpenApi, param::Path};
use serde::Serialize;
use serde_with::skip_serializing_none;

use tenantd_base::{clock::Timestamp, id::DeviceId};
use tenantd_http::{
    input::Filter,
    need::{Allowed, BackupRead},
    problem::Problem,
    reply::Answer,
};
use tenantd_store::Store;

use super::{
    super::service::{self, Day},
    Area,
};

const DEFAULT_DAYS: u16 = 30;

#[derive(Debug, Object)]
struct ReadBackupHistory {
    /// The number of days, with today as the last. Defaults to 30.
    #[oai(validator(minimum(value = "1"), maximum(value = "120")))]
    days: Option<u16>,
}

/// The backup jobs of a device by day.
#[derive(Debug, Object, Serialize)]
#[oai(example)]
pub(super) struct BackupHistory {
    /// The ID of the device.
    device_id: DeviceId,
    /// The days in UTC, oldest first. A day without jobs has zeros.
    days: Vec<BackupDay>,
}

/// The jobs of a device that started on one day.
#[skip_serializing_none]
#[derive(Debug, Object, Serialize)]
#[oai(skip_serializing_if_is_none)]
pub(super) struct BackupDay {
    /// The start of the day in UTC.
    start: Timestamp,
    /// The number of jobs that made a restore point.
    succeeded: u32,
    /// The number of jobs that made a restore point and reported a warning.
    warning: u32,
    /// The number of jobs that failed.
    failed: u32,
    /// The number of jobs that were cancelled.
    cancelled: u32,
    /// The number of jobs that have not ended.
    running: u32,
    /// The size of the restore points, in bytes. Absent if no job reported one.
    bytes: Option<u64>,
    /// Whether the day has more jobs than are counted. Only the first 1,000 are.
    more: bool,
}

impl From<Day> for BackupDay {
    fn from(day: Day) -> Self {
        let Day { start, succeeded, warned, failed, cancelled, running, bytes, more } = day;
        Self { start, succeeded, warning: warned, failed, cancelled, running, bytes, more }
    }
}

pub(crate) struct HistoryApi {
    pub(crate) store: Store,
}

#[OpenApi(prefix_path = "/api/backup/devices", tag = "Area::Backup")]
impl HistoryApi {
    /// Read the backup history of a device
    ///
    /// Counts the jobs that the device has started on each of the last days. tenantd removes jobs after the configured time
    /// (`backup.job_retention_days`), so earlier days have none.
    #[oai(path = "/:id/history", method = "get", operation_id = "read_backup_history")]
    async fn read_backup_history(
        &self,
        auth: Allowed<BackupRead>,
        id: Path<DeviceId>,
        query: Filter<ReadBackupHistory>,
    ) -> Result<Answer<BackupHistory>, Problem> {
        let (tenant, reach, now) = (auth.principal.tenant_id, auth.principal.reach.clone(), auth.context.now);
        let (device_id, days) = (id.0, query.0.days.unwrap_or(DEFAULT_DAYS));
        let read = self.store.scan_for(tenant, move |tx| service::history(tx, (tenant, device_id), &reach, now, days));
        let days = read.await?.into_iter().map(BackupDay::from).collect();
        Ok(Answer::new(&BackupHistory { device_id, days }))
    }
}
