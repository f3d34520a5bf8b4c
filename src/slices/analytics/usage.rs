//! Writes the counters in memory (requests, deliveries) to the roll-ups: once a minute, and when the server shuts down.
//! A crash loses at most the counts since the last write. A request counts for the quarter of an hour in which it is stored.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use tenantd_base::{
    clocks::{Clocks, Reading},
    id::TenantId,
    telemetry::{Caller, Counted, Usage, UsageTaken},
};
use tenantd_store::{
    Store, StoreError,
    tasks::{Done, Task, TaskError},
};

use super::{
    model::{Changes, INSTALLATION, Measure, OTHER, Series},
    repo,
};

/// How long counts stay in memory.
pub(super) const INTERVAL: Duration = Duration::from_mins(1);

#[derive(Debug)]
pub(super) struct UsageFlush {
    pub(super) store: Store,
    pub(super) clocks: Clocks,
    pub(super) usage: Arc<Usage>,
}

impl UsageFlush {
    pub(super) async fn flush(&self) -> Result<(), StoreError> {
        let taken = self.usage.take();
        if taken.is_empty() {
            return Ok(());
        }
        let changes = Arc::new(changes(&taken, &self.clocks.read()));
        let written = self.store.write(move |tx| repo::add(tx, &changes, 0)).await;
        // If the outcome of the commit is unknown, putting the counts back could count them twice. The store accepts no more writes
        // then.
        if written.is_err() && self.store.failure().is_none() {
            self.usage.put_back(&taken);
        }
        written
    }
}

fn measure(counted: &Counted, spread: bool) -> Measure {
    if spread { Measure { count: counted.count, total: 0, sketch: counted.took.clone() } } else { Measure::counted(counted.count) }
}

fn changes(taken: &UsageTaken, reading: &Reading) -> Changes {
    let now = reading.installation();
    let mut changes = Changes::at(now);
    let mut by_tenant: BTreeMap<TenantId, u64> = BTreeMap::new();
    for (key, counted) in &taken.requests {
        let route = key.route.and_then(|route| taken.routes.get(usize::from(route))).map_or(OTHER, String::as_str);
        // Requests without a credential count for the installation only.
        let tenant = key.tenant.unwrap_or(INSTALLATION);
        let mut add = |series: Series, group: &str, spread: bool| match key.tenant {
            Some(tenant) => changes.add(tenant, series, group, reading.of(tenant), &measure(counted, spread)),
            None => changes.add_to(INSTALLATION, series, group, now, &measure(counted, spread)),
        };
        add(Series::Requests, key.class.name(), false);
        add(Series::RequestLatency, "", true);
        add(Series::RequestsByRoute, route, true);
        if key.tenant.is_some() {
            *by_tenant.entry(tenant).or_default() += counted.count;
            let caller = match key.caller {
                Caller::User(id) => id.to_string(),
                Caller::ApiKey(id) => id.to_string(),
                Caller::Other => OTHER.to_owned(),
            };
            changes.add(tenant, Series::RequestsByCaller, &caller, reading.of(tenant), &measure(counted, false));
        }
    }
    for (tenant, count) in by_tenant {
        changes.add_to(INSTALLATION, Series::RequestsByTenant, &tenant.to_string(), now, &Measure::counted(count));
    }
    for ((tenant, delivered), counted) in &taken.deliveries {
        let outcome = if *delivered { "delivered" } else { "failed" };
        let now = reading.of(*tenant);
        changes.add(*tenant, Series::Deliveries, outcome, now, &measure(counted, false));
        if *delivered {
            changes.add(*tenant, Series::DeliveryLag, "", now, &measure(counted, true));
        }
    }
    changes
}

impl Task for UsageFlush {
    fn name(&self) -> &'static str {
        "analytics_usage"
    }

    fn period(&self) -> Duration {
        INTERVAL
    }

    async fn activate(&self) -> Result<Done, TaskError> {
        self.flush().await?;
        Ok(Done::All)
    }

    async fn finish(&self) -> Result<(), TaskError> {
        Ok(self.flush().await?)
    }
}
