//! Gauges: metrics that are sampled, not counted, such as open tickets or devices online. A background task samples them once an
//! hour, and whenever a tenant is created or removed.
//!
//! **Boundary:** other slices own the sampled data. The composition root passes in a [`GaugeSource`] for each; this slice imports
//! none of them.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tenantd_base::{
    clocks::{Clocks, Reading},
    id::TenantId,
};
use tenantd_store::{
    ReadTx, Store, StoreError,
    tasks::{Done, Task, TaskError},
};

use super::{
    model::{Changes, INSTALLATION, Measure, Series},
    repo,
};

/// A gauge of a tenant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TenantGauge {
    /// By status.
    TicketBacklog,
    Devices,
    DevicesOnline,
    /// Devices whose update status has been reported.
    DevicesScanned,
    DevicesPatched,
    /// By state.
    Vms,
    BackupEligible,
    BackupProtected,
    StoredBytes,
    /// By quota.
    QuotaUsed,
    /// By quota.
    QuotaLimit,
}

/// A gauge of the installation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PlatformGauge {
    TenantsByKind,
    TenantsByStatus,
    QueueDepth,
    OldestUndelivered,
    DatabaseBytes,
    IndexBytes,
}

impl TenantGauge {
    const fn series(self) -> Series {
        match self {
            Self::TicketBacklog => Series::TicketBacklog,
            Self::Devices => Series::Devices,
            Self::DevicesOnline => Series::DevicesOnline,
            Self::DevicesScanned => Series::DevicesScanned,
            Self::DevicesPatched => Series::DevicesPatched,
            Self::Vms => Series::Vms,
            Self::BackupEligible => Series::BackupEligible,
            Self::BackupProtected => Series::BackupProtected,
            Self::StoredBytes => Series::StoredBytes,
            Self::QuotaUsed => Series::QuotaUsed,
            Self::QuotaLimit => Series::QuotaLimit,
        }
    }
}

impl PlatformGauge {
    const fn series(self) -> Series {
        match self {
            Self::TenantsByKind => Series::TenantsByKind,
            Self::TenantsByStatus => Series::TenantsByStatus,
            Self::QueueDepth => Series::QueueDepth,
            Self::OldestUndelivered => Series::OldestUndelivered,
            Self::DatabaseBytes => Series::DatabaseBytes,
            Self::IndexBytes => Series::IndexBytes,
        }
    }
}

/// The time of a sample, on the clock of each tenant.
#[derive(Clone, Debug)]
pub struct Moment {
    pub clocks: Reading,
}

/// Collects sampled values. **Invariant:** a group is a predefined word or an id, never text from a tenant.
#[derive(Debug, Default)]
pub struct Sample {
    values: std::collections::BTreeMap<(TenantId, Series, String), u64>,
}

impl Sample {
    pub fn tenant(&mut self, tenant: TenantId, gauge: TenantGauge, group: &str, value: u64) {
        let series = gauge.series();
        self.values.insert((tenant, series, group.to_owned()), value);
        if series.is_shared() {
            *self.values.entry((INSTALLATION, series, group.to_owned())).or_default() += value;
        }
    }

    pub fn platform(&mut self, gauge: PlatformGauge, group: &str, value: u64) {
        self.values.insert((INSTALLATION, gauge.series(), group.to_owned()), value);
    }

    fn changes(&self, clocks: &Reading) -> Changes {
        let mut changes = Changes::default();
        for ((tenant, series, group), value) in &self.values {
            changes.add_to(*tenant, *series, group, clocks.of(*tenant), &Measure::gauge(*value));
        }
        changes
    }
}

/// Samples the data of one slice. Runs on a thread that may block, on one snapshot.
pub trait GaugeSource: Send + Sync + 'static {
    /// Adds values to `sample`. `tenants` lists every tenant.
    fn sample(&self, tx: &ReadTx, moment: &Moment, tenants: &[TenantId], sample: &mut Sample) -> Result<(), StoreError>;
}

pub(super) type Tenants = Arc<dyn Fn(&ReadTx) -> Result<Vec<TenantId>, StoreError> + Send + Sync>;

/// The sources to sample, and the list of tenants.
#[derive(Clone)]
pub struct Gauges {
    tenants: Tenants,
    sources: Vec<Arc<dyn GaugeSource>>,
}

impl std::fmt::Debug for Gauges {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Gauges").field("sources", &self.sources.len()).finish_non_exhaustive()
    }
}

impl Gauges {
    pub fn new(tenants: impl Fn(&ReadTx) -> Result<Vec<TenantId>, StoreError> + Send + Sync + 'static) -> Self {
        Self { tenants: Arc::new(tenants), sources: Vec::new() }
    }

    pub fn with(mut self, source: impl GaugeSource) -> Self {
        self.sources.push(Arc::new(source));
        self
    }

    /// Returns `None` if the tenants are the same as in the last sample.
    fn sample(&self, tx: &ReadTx, moment: &Moment, last: &[TenantId]) -> Result<Option<Sampled>, StoreError> {
        let tenants = (self.tenants)(tx)?;
        if tenants == last {
            return Ok(None);
        }
        let mut sample = Sample::default();
        for source in &self.sources {
            source.sample(tx, moment, &tenants, &mut sample)?;
        }
        let known: BTreeSet<TenantId> = tenants.iter().copied().chain([INSTALLATION]).collect();
        sample.values.retain(|(tenant, ..), _| known.contains(tenant));
        Ok(Some((sample.changes(&moment.clocks), tenants)))
    }
}

/// The sampled values, and the tenants at that time.
type Sampled = (Changes, Vec<TenantId>);

pub(super) struct Sampler {
    pub(super) store: Store,
    pub(super) clocks: Clocks,
    pub(super) gauges: Gauges,
    /// The hour of the last sample since the server started, and the tenants at that time.
    pub(super) last: Mutex<(i64, Vec<TenantId>)>,
}

const HOUR_SECONDS: i64 = 3600;

impl Task for Sampler {
    fn name(&self) -> &'static str {
        "analytics_gauges"
    }

    fn period(&self) -> Duration {
        // The hourly sample is at most this late, and a new tenant waits at most this long for its first sample.
        Duration::from_mins(5)
    }

    async fn activate(&self) -> Result<Done, TaskError> {
        let clocks = self.clocks.read();
        let now = clocks.installation();
        let hour = now.as_seconds().div_euclid(HOUR_SECONDS);
        let (of, tenants) = self.last.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let last = if of == hour { tenants } else { Vec::new() };
        let (gauges, moment) = (self.gauges.clone(), Moment { clocks });
        let Some((changes, tenants)) = self.store.scan(move |tx| gauges.sample(tx, &moment, &last)).await? else {
            return Ok(Done::All);
        };
        let changes = Arc::new(changes);
        self.store.write(move |tx| repo::add(tx, &changes, 0)).await?;
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = (hour, tenants);
        Ok(Done::All)
    }
}
