//! Ages the roll-ups in bounded steps. Hours move into their days once the days are over. Days keep their quarters of an hour for
//! 400 days, then become one value, and are removed after five years.

use std::time::Duration;

use tenantd_base::{
    clock::{Clock, Timestamp},
    id::TenantId,
};
use tenantd_store::{
    Store, StoreError,
    tasks::{Done, Task, TaskError},
};

use super::{
    model::{RowKey, Series},
    repo,
};

/// How many days keep their quarters of an hour.
pub(super) const FINE_DAYS: u32 = 400;
/// How many days are kept.
pub(super) const KEPT_DAYS: u32 = 5 * 366;
/// The number of rows per transaction.
const STEP: usize = 200;

fn day_of(now: Timestamp) -> u32 {
    u32::try_from(now.as_seconds().div_euclid(86_400)).unwrap_or_default()
}

/// Returns the first hour that has its own row. Hours of today and yesterday have one, so that a slightly late event finds its
/// hour.
pub(super) fn first_hour(now: Timestamp) -> u32 {
    day_of(now).saturating_sub(1) * 24
}

#[derive(Debug)]
pub(super) struct RollUpUpkeep {
    pub(super) store: Store,
    pub(super) clock: Clock,
}

impl RollUpUpkeep {
    async fn fold(&self, end: u32) -> Result<(), StoreError> {
        let mut after: Option<RowKey> = None;
        loop {
            let hours = self.store.scan(move |tx| repo::hours_before(tx, end, after, STEP)).await?;
            let Some(last) = hours.last().copied() else { return Ok(()) };
            after = Some(last);
            self.store.write(move |tx| repo::fold(tx, &hours)).await?;
        }
    }

    async fn age(&self, tenant: TenantId, today: u32) -> Result<(), StoreError> {
        let (fine, kept) = (today.saturating_sub(FINE_DAYS), today.saturating_sub(KEPT_DAYS));
        for series in Series::ALL.iter().map(|series| (tenant, *series)) {
            // Check first: a read costs no commit, and there is rarely anything to do.
            while self.store.read(|tx| repo::is_due(tx, series, kept, fine))? {
                self.store
                    .write(move |tx| {
                        repo::forget(tx, series, kept, STEP)?;
                        repo::flatten(tx, series, fine, STEP)
                    })
                    .await?;
            }
        }
        Ok(())
    }
}

impl Task for RollUpUpkeep {
    fn name(&self) -> &'static str {
        "analytics_upkeep"
    }

    fn period(&self) -> Duration {
        Duration::from_hours(6)
    }

    fn goes_on_when_full(&self) -> bool {
        true
    }

    async fn activate(&self) -> Result<Done, TaskError> {
        let now = self.clock.now();
        let today = day_of(now);
        self.fold(first_hour(now)).await?;
        let mut tenant = None;
        loop {
            tenant = self.store.read(|tx| repo::tenant_after(tx, tenant))?;
            match tenant {
                Some(tenant) => self.age(tenant, today).await?,
                None => return Ok(Done::All),
            }
        }
    }
}
