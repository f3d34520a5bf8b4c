//! Reads the whole store now and then and compares every checksum and index, so that damage is found before the record is needed.
//! Damage is reported by table and key; it does not stop the process.

use std::time::Duration;

use tenantd_base::clock::{Clock, Timestamp};

use super::{Done, Task, TaskError};
use crate::{Checked, Store};

pub struct Scrub {
    store: Store,
    clock: Clock,
    period: Duration,
    /// The first round comes a period after the start: a restart must not read everything.
    first_at: Timestamp,
    tables: Vec<&'static dyn Checked>,
}

impl std::fmt::Debug for Scrub {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Scrub").field("period", &self.period).finish_non_exhaustive()
    }
}

impl Scrub {
    pub fn new(store: Store, clock: Clock, days: u32, tables: Vec<&'static dyn Checked>) -> Self {
        let period = Duration::from_secs(u64::from(days) * 86_400);
        let first_at = clock.now() + period;
        Self { store, clock, period, first_at, tables }
    }
}

impl Task for Scrub {
    fn name(&self) -> &'static str {
        "store_scrub"
    }

    fn period(&self) -> Duration {
        self.period
    }

    async fn activate(&self) -> Result<Done, TaskError> {
        if self.clock.now() < self.first_at {
            return Ok(Done::All);
        }
        let report = self.store.check(self.tables.clone()).await?;
        for problem in &report.problems {
            tracing::error!(problem, "the store is damaged");
        }
        if report.is_clean() {
            return Ok(Done::All);
        }
        Err(TaskError(format!("{} records or index entries are damaged", report.problems.len() as u64 + report.more_problems)))
    }
}
