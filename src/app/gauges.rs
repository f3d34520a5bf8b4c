//! The gauge sources of analytics. Once an hour, each source reads one slice through its public interface.

use std::{
    ops::Bound,
    path::{Path, PathBuf},
    sync::Arc,
};

use tenantd_analytics::{GaugeSource, Gauges, HealthMonitor, Moment, PlatformGauge, Sample, TenantGauge};
use tenantd_backup as backup;
use tenantd_base::{id::TenantId, quotas::Quota};
use tenantd_cloud as cloud;
use tenantd_directory::{self as directory, AgentStatus, Directory, PatchStatus};
use tenantd_platform::{Tenant, Tenants};
use tenantd_quotas::TenantQuotas;
use tenantd_store::{Flow, ReadTx, StoreError};
use tenantd_tickets as tickets;

use super::{App, search_directory};

/// The number of tenants that are read at a time.
const PAGE: usize = 200;

/// All gauge sources of this server.
pub(super) fn all(app: &App) -> Gauges {
    let tenants = app.slices.platform.tenants.clone();
    let listed = tenants.clone();
    let data = app.data.path().to_owned();
    Gauges::new(move |tx| Ok(every_tenant(&listed, tx)?.into_iter().map(|tenant| tenant.id).collect()))
        .with(TicketGauges)
        .with(DeviceGauges(app.slices.directory))
        .with(VmGauges)
        .with(BackupGauges)
        .with(QuotaGauges(app.slices.quotas.clone()))
        .with(InstallationGauges { tenants, health: app.health.clone(), index: search_directory(&data), data })
}

fn every_tenant(tenants: &Tenants, tx: &ReadTx) -> Result<Vec<Tenant>, StoreError> {
    let mut found: Vec<Tenant> = Vec::new();
    loop {
        let (page, more) = tenants.list(tx, found.last().map(|tenant| tenant.id), PAGE, |_| true)?;
        found.extend(page);
        if !more {
            return Ok(found);
        }
    }
}

struct TicketGauges;

impl GaugeSource for TicketGauges {
    fn sample(&self, tx: &ReadTx, _moment: &Moment, tenants: &[TenantId], sample: &mut Sample) -> Result<(), StoreError> {
        for tenant in tenants {
            let backlog = tickets::backlog(tx, *tenant)?;
            if backlog.is_empty() {
                sample.tenant(*tenant, TenantGauge::TicketBacklog, "", 0);
            }
            for (status, count) in backlog {
                sample.tenant(*tenant, TenantGauge::TicketBacklog, status.name(), count);
            }
        }
        Ok(())
    }
}

struct DeviceGauges(Directory);

impl GaugeSource for DeviceGauges {
    fn sample(&self, tx: &ReadTx, moment: &Moment, tenants: &[TenantId], sample: &mut Sample) -> Result<(), StoreError> {
        for tenant in tenants {
            let (mut devices, mut online, mut scanned, mut patched) = (0, 0, 0, 0);
            directory::scan_devices(tx, *tenant, Bound::Unbounded, |folded| {
                let status = self.0.agent_status(folded.last_seen_at, moment.clocks.of(*tenant));
                let patch = folded.unfold()?.details.patch.map_or(PatchStatus::Unknown, |patch| patch.status);
                devices += 1;
                online += u64::from(status == AgentStatus::Online);
                scanned += u64::from(patch != PatchStatus::Unknown);
                patched += u64::from(patch == PatchStatus::Compliant);
                Ok(Flow::Continue)
            })?;
            sample.tenant(*tenant, TenantGauge::Devices, "", devices);
            sample.tenant(*tenant, TenantGauge::DevicesOnline, "", online);
            sample.tenant(*tenant, TenantGauge::DevicesScanned, "", scanned);
            sample.tenant(*tenant, TenantGauge::DevicesPatched, "", patched);
        }
        Ok(())
    }
}

struct VmGauges;

impl GaugeSource for VmGauges {
    fn sample(&self, tx: &ReadTx, _moment: &Moment, tenants: &[TenantId], sample: &mut Sample) -> Result<(), StoreError> {
        for tenant in tenants {
            let states = cloud::vms_by_state(tx, *tenant)?;
            if states.is_empty() {
                sample.tenant(*tenant, TenantGauge::Vms, "", 0);
            }
            for (state, count) in states {
                sample.tenant(*tenant, TenantGauge::Vms, state, count);
            }
        }
        Ok(())
    }
}

struct BackupGauges;

impl GaugeSource for BackupGauges {
    fn sample(&self, tx: &ReadTx, _moment: &Moment, tenants: &[TenantId], sample: &mut Sample) -> Result<(), StoreError> {
        for tenant in tenants {
            let coverage = backup::coverage(tx, *tenant)?;
            sample.tenant(*tenant, TenantGauge::BackupEligible, "", coverage.eligible);
            sample.tenant(*tenant, TenantGauge::BackupProtected, "", coverage.protected);
        }
        Ok(())
    }
}

struct QuotaGauges(TenantQuotas);

impl GaugeSource for QuotaGauges {
    fn sample(&self, tx: &ReadTx, moment: &Moment, tenants: &[TenantId], sample: &mut Sample) -> Result<(), StoreError> {
        let mut highest = std::collections::BTreeMap::new();
        for tenant in tenants {
            for standing in self.0.standings(tx, *tenant, moment.clocks.of(*tenant))? {
                let name = standing.quota.name();
                sample.tenant(*tenant, TenantGauge::QuotaLimit, name, standing.limit);
                let (Some(used), Some(percent)) = (standing.used, standing.percent()) else { continue };
                let most = highest.entry(name).or_insert(0);
                *most = percent.max(*most);
                sample.tenant(*tenant, TenantGauge::QuotaUsed, name, used);
                if standing.quota == Quota::StoredBytes {
                    sample.tenant(*tenant, TenantGauge::StoredBytes, "", used);
                }
            }
        }
        for (quota, percent) in highest {
            metrics::gauge!("tenantd_quota_highest_percent", "quota" => quota).set(percent as f64);
        }
        Ok(())
    }
}

struct InstallationGauges {
    tenants: Tenants,
    health: Arc<HealthMonitor>,
    data: PathBuf,
    index: PathBuf,
}

impl GaugeSource for InstallationGauges {
    fn sample(&self, tx: &ReadTx, _moment: &Moment, _tenants: &[TenantId], sample: &mut Sample) -> Result<(), StoreError> {
        let (mut kinds, mut statuses) = (std::collections::BTreeMap::new(), std::collections::BTreeMap::new());
        for tenant in every_tenant(&self.tenants, tx)? {
            *kinds.entry(tenant.kind.name()).or_insert(0) += 1;
            *statuses.entry(tenant.status.name()).or_insert(0) += 1;
        }
        for (kind, count) in kinds {
            sample.platform(PlatformGauge::TenantsByKind, kind, count);
        }
        for (status, count) in statuses {
            sample.platform(PlatformGauge::TenantsByStatus, status, count);
        }
        let queue = self.health.queue();
        sample.platform(PlatformGauge::QueueDepth, "deliveries", queue.depth);
        for (reader, lag) in self.health.lags()? {
            sample.platform(PlatformGauge::QueueDepth, &format!("log:{reader}"), lag);
        }
        sample.platform(PlatformGauge::OldestUndelivered, "", queue.oldest.map_or(0, |oldest| oldest.as_secs()));
        sample.platform(PlatformGauge::DatabaseBytes, "", file_bytes(&self.data, 0));
        sample.platform(PlatformGauge::IndexBytes, "", file_bytes(&self.index, INDEX_DEPTH));
        Ok(())
    }
}

/// The depth of the directories of the index.
const INDEX_DEPTH: u32 = 3;

/// The size of all files of a directory, and of its subdirectories down to a depth. A file that disappears meanwhile counts as
/// empty.
fn file_bytes(directory: &Path, depth: u32) -> u64 {
    let Ok(entries) = std::fs::read_dir(directory) else { return 0 };
    let bytes = |entry: std::fs::DirEntry| match entry.metadata() {
        Ok(data) if data.is_file() => data.len(),
        Ok(data) if data.is_dir() && depth > 0 => file_bytes(&entry.path(), depth - 1),
        _ => 0,
    };
    entries.filter_map(Result::ok).map(bytes).sum()
}
