//! Figures of a time before there was a log, for a tenant that evaluates: what its roll-ups would hold if it had been here for a year.
//!
//! Events of a year ago cannot be replayed: the log gives times and numbers of its own, in order, and a retention of weeks. So a made-up past is
//! written as roll-ups, through the same changes that the reader of the log makes. **Boundary:** only days before a moment are written, and
//! only for series that the log or the counters make; what is there already stays.

use tenantd_base::{clock::Timestamp, id::TenantId};
use tenantd_store::{Store, StoreError};

use super::{
    model::{Changes, Measure, Series},
    repo,
};

/// Hours of a series that share a transaction.
const HOURS_AT_ONCE: usize = 2_400;

/// A made-up past of one tenant. It is not added to the figures of the installation, which did not exist then.
#[derive(Debug)]
pub struct Backfill {
    tenant: TenantId,
    /// Everything is before this.
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

    /// One value of a distribution, in the unit of the series.
    pub fn spread(&mut self, series: Series, group: &str, at: Timestamp, value: u64) {
        self.add(series, group, at, &Measure::spread(value));
    }

    /// Several of the same value.
    pub fn spread_many(&mut self, series: Series, group: &str, at: Timestamp, value: u64, count: u64) {
        self.add(series, group, at, &Measure::spread_many(value, count));
    }

    pub fn gauge(&mut self, series: Series, group: &str, at: Timestamp, value: u64) {
        self.add(series, group, at, &Measure::gauge(value));
    }

    /// Writes it, as days that are over, in transactions that others need not wait for.
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
