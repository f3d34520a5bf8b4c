//! Sample history for an evaluation tenant: the roll-ups that it would have after a year of use.
//!
//! Events of the past year cannot be replayed, because the log assigns its own times and numbers in order, and keeps only weeks. So
//! the history is written directly as roll-ups, with the same changes that the log consumer makes. **Boundary:** writes only days
//! before a given moment, and only series that come from the log or the counters. Existing values stay.

use tenantd_base::{clock::Timestamp, id::TenantId};
use tenantd_store::{Store, StoreError};

use super::{
    model::{Changes, Measure, Series},
    repo,
};

/// The number of hour rows per transaction.
const HOURS_AT_ONCE: usize = 2_400;

/// The sample history of one tenant. It does not count for the installation, which did not exist at that time.
#[derive(Debug)]
pub struct Backfill {
    tenant: TenantId,
    /// Values at or after this moment are dropped.
    end: Timestamp,
    changes: Changes,
}

impl Backfill {
    pub fn new(tenant: TenantId, end: Timestamp) -> Self {
        Self { tenant, end, changes: Changes::default() }
    }

    fn add(&mut self, series: Series, group: &str, at: Timestamp, measure: &Measure) {
        if at < self.end {
            self.changes.add_to(self.tenant, series, group, at, measure);
        }
    }

    pub fn count(&mut self, series: Series, group: &str, at: Timestamp, count: u64) {
        self.add(series, group, at, &Measure::counted(count));
    }

    /// Adds one value of a distribution, in the unit of the series.
    pub fn spread(&mut self, series: Series, group: &str, at: Timestamp, value: u64) {
        self.add(series, group, at, &Measure::spread(value));
    }

    /// Adds the same value several times.
    pub fn spread_many(&mut self, series: Series, group: &str, at: Timestamp, value: u64, count: u64) {
        self.add(series, group, at, &Measure::spread_many(value, count));
    }

    pub fn gauge(&mut self, series: Series, group: &str, at: Timestamp, value: u64) {
        self.add(series, group, at, &Measure::gauge(value));
    }

    /// Writes the history as completed days, in small transactions so that other writers do not wait long.
    pub async fn write(self, store: &Store) -> Result<(), StoreError> {
        let mut rest = self.changes.rows;
        while !rest.is_empty() {
            let next = rest.keys().nth(HOURS_AT_ONCE).copied();
            let later = next.map(|key| rest.split_off(&key)).unwrap_or_default();
            let part = std::sync::Arc::new(Changes::of_rows(std::mem::replace(&mut rest, later)));
            store.write(move |tx| repo::add(tx, &part, u32::MAX)).await?;
        }
        Ok(())
    }
}
