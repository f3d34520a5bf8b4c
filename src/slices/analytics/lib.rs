//! Analytics: metrics of tenants and of the installation over time, and the health of the server's components.
//!
//! Metrics come from the event log (`rollup`), from counters in memory (`usage`) and from samples (`gauges`). They are stored as
//! roll-ups by quarter of an hour. **Invariant:** a query reads roll-ups and nothing else. **Boundary:** this slice imports no
//! other slice; samples of other slices come in through [`GaugeSource`]s. A key restricted to organizations cannot read these
//! metrics, because it cannot hold `analytics:read`.

mod api;
mod erasure;
mod error;
mod gauges;
mod health;
mod model;
mod query;
mod repo;
mod rollup;
mod sample;
mod service;
mod upkeep;
mod usage;

#[cfg(test)]
mod tests;

use std::sync::{Arc, Mutex};

use poem_openapi::OpenApi;

use tenantd_base::{access::Grants, clock::Timestamp, clocks::Clocks, config, telemetry::Usage};
use tenantd_http::outgoing::Streams;
use tenantd_store::{
    Checked, Store, StoreError, TenantRows,
    events::ConsumerTask,
    portable::{Carrier, Portable},
    tasks::Tasks,
};

pub use gauges::{GaugeSource, Gauges, Moment, PlatformGauge, Sample, TenantGauge};
pub use health::{
    Component, ComponentState, DayOfHealth, Health, HealthMonitor, HealthParts, Incident, Queue, QueueProbe, SAFE_MODE,
};
pub use model::Series;
pub use sample::Backfill;

/// A metric of a tenant, as people read it.
#[derive(Clone, Copy, Debug)]
pub struct MetricDescription {
    pub name: &'static str,
    pub summary: &'static str,
    /// In words, such as `seconds`; empty for a number.
    pub unit: &'static str,
    /// The scopes that a reader needs for it in addition to `analytics:read`.
    pub reads: Grants,
}

/// The metrics of tenants.
pub fn metrics() -> impl Iterator<Item = MetricDescription> {
    let describe = |metric: &model::Metric| MetricDescription {
        name: metric.name,
        summary: metric.summary,
        unit: metric.unit.words(),
        reads: metric.reads(None),
    };
    model::METRICS.iter().filter(|metric| metric.is_for(false)).map(describe)
}

#[derive(Clone, Debug)]
pub struct Analytics {
    store: Store,
    clocks: Clocks,
    usage: Arc<Usage>,
    exports: Streams,
    started_at: Timestamp,
}

impl Analytics {
    /// The log consumers that retention waits for.
    pub const CONSUMERS: &'static [&'static str] = &[rollup::NAME];

    pub fn new(store: Store, clocks: Clocks, usage: Arc<Usage>, limits: &config::Limits) -> Self {
        let started_at = clocks.installation().now();
        let exports = Streams::new("analytics", limits, &store);
        Self { store, clocks, usage, exports, started_at }
    }

    pub fn api(&self) -> impl OpenApi + use<> {
        api::AnalyticsApi { store: self.store.clone(), exports: self.exports.clone(), started_at: self.started_at }
    }

    pub fn spawn(&self, tasks: &mut Tasks, gauges: Gauges, health: Arc<HealthMonitor>) {
        let (store, clocks) = (|| self.store.clone(), || self.clocks.clone());
        let clock = || self.clocks.installation().clone();
        tasks.spawn(ConsumerTask::new(store(), rollup::RollUps { clock: clock() }));
        tasks.spawn(usage::UsageFlush { store: store(), clocks: clocks(), usage: self.usage.clone() });
        tasks.spawn(gauges::Sampler { store: store(), clocks: clocks(), gauges, last: Mutex::default() });
        tasks.spawn(upkeep::RollUpUpkeep { store: store(), clock: clock() });
        tasks.spawn(health::HealthWatch::new(health));
    }

    /// Stores the counters in memory now, without waiting for the next scheduled flush.
    pub async fn flush(&self) -> Result<(), StoreError> {
        usage::UsageFlush { store: self.store.clone(), clocks: self.clocks.clone(), usage: self.usage.clone() }.flush().await
    }

    /// The tables with a tenant's metrics, which move with the tenant to another installation.
    pub fn portable() -> Vec<Box<dyn Portable>> {
        vec![
            Carrier::plain("analytics_hour", &repo::HOURS, |_, key, record| record.check(key)).boxed(),
            Carrier::plain("analytics_day", &repo::DAYS, |_, key, record| record.check(key)).boxed(),
        ]
    }

    pub fn tables() -> Vec<&'static dyn Checked> {
        vec![&repo::HOURS, &repo::DAYS, &health::DAYS, &health::INCIDENTS]
    }

    /// The rows in the installation's metrics that refer to tenants.
    pub fn tenant_rows() -> Vec<&'static dyn TenantRows> {
        vec![&erasure::IN_HOURS, &erasure::IN_DAYS]
    }
}
