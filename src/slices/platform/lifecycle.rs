//! Background work on whole tenants: fills a tenant with sample data, and removes a tenant in bounded steps when the operator
//! deletes it or it expires.
//!
//! The work is stored, so it continues after a crash or a restart. Each pass removes the rows that it finds. The tenant's own
//! record is removed only after a pass that found none. Work that was in progress when the tenant was removed (a request, a
//! delivery, a counter in memory) may still write. A last pass, an hour later, removes those rows.

use std::{
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use tenantd_base::{
    clock::{Clock, Timestamp},
    id::TenantId,
};
use tenantd_store::{
    Store, TenantRows, catalog, erase,
    events::{Actor, Intent},
    tasks::{Done, Task, TaskError},
    within_reserve,
};

use super::{
    error::TenantError,
    evaluation::SampleGenerator,
    model::{LifecycleJob, TenantStatus, Work},
    repo,
    service::Tenants,
};

/// The number of transactions for one job before the next job gets its turn.
const STEPS: usize = 40;
const EXPIRED_AT_ONCE: usize = 100;

pub(super) struct Lifecycle {
    pub(super) store: Store,
    pub(super) clock: Clock,
    pub(super) tenants: Tenants,
    /// The rows of tenants in all tables, except the tenants' own records.
    pub(super) rows: Arc<[&'static dyn TenantRows]>,
    pub(super) generator: Arc<OnceLock<Arc<dyn SampleGenerator>>>,
    /// The version of the job table at the last check.
    pub(super) seen_version: AtomicU64,
}

impl From<TenantError> for TaskError {
    fn from(error: TenantError) -> Self {
        Self(error.to_string())
    }
}

impl Lifecycle {
    /// Continues a job. Returns whether there is more to do at once.
    async fn continue_job(&self, tenant: TenantId, job: &LifecycleJob) -> Result<Done, TaskError> {
        if job.work == Work::Prepare {
            self.close_interrupted(tenant, job).await?;
        }
        // Event numbers continue after a refill, because clients keep cursors.
        let goes = |rows: &&&dyn TenantRows| job.work != Work::Prepare || !rows.tables().contains(&catalog::EVENT_SEQUENCES);
        let rows: Vec<&'static dyn TenantRows> = self.rows.iter().filter(goes).copied().collect();
        // A removal frees space, so it continues when the disk is full.
        if within_reserve(erase(&self.store, &rows, tenant, STEPS)).await? {
            return Ok(Done::Some);
        }
        let now = self.clock.now();
        let Some(platform) = self.store.read(|tx| self.tenants.platform(tx))? else { return Ok(Done::All) };
        let intent = |now: Timestamp| Intent::new(platform.id, now, job.actor.clone());
        match job.work {
            Work::Delete => {
                let intent = intent(now);
                let finish = self.store.write(move |tx| Tenants::finish_deletion(tx, &mut intent.begin(), tenant));
                within_reserve(finish).await?;
                tracing::info!(%tenant, "removed a tenant");
            }
            Work::Sweep => self.store.write(move |tx| repo::remove_job(tx, tenant)).await?,
            Work::Prepare => self.fill(tenant, intent).await?,
        }
        Ok(Done::All)
    }

    /// Closes the tenant if an earlier filling was interrupted, because it is emptied next.
    async fn close_interrupted(&self, tenant: TenantId, job: &LifecycleJob) -> Result<(), TaskError> {
        let known = self.tenants.cached(tenant)?;
        if known.as_ref().as_ref().is_none_or(|tenant| tenant.status != TenantStatus::Filling) {
            return Ok(());
        }
        let intent = Intent::new(tenant, self.clock.now(), job.actor.clone());
        Ok(self.store.write(move |tx| Tenants::begin_emptying(tx, &mut intent.begin(), tenant)).await?)
    }

    /// Fills an empty tenant. After an interruption, the tenant is emptied and filled again.
    async fn fill(&self, tenant: TenantId, intent: impl Fn(Timestamp) -> Intent) -> Result<(), TaskError> {
        let Some(generator) = self.generator.get() else { return Ok(()) };
        let begin = intent(self.clock.now());
        let started = self.store.write(move |tx| Tenants::begin_filling(tx, &mut begin.begin(), tenant)).await?;
        let Some((found, evaluation)) = started else {
            // The tenant is being removed, or is already filled.
            return Ok(());
        };
        self.tenants.follow_clocks()?;
        generator.generate(&found, &evaluation).await?;
        let end = intent(self.clock.now());
        self.store.write(move |tx| Tenants::finish_filling(tx, &mut end.begin(), tenant)).await?;
        tracing::info!(%tenant, tickets = evaluation.story.tickets, "filled an evaluation tenant");
        Ok(())
    }

    /// Starts the removal of expired tenants.
    async fn expire(&self) -> Result<(), TaskError> {
        let now = self.clock.now();
        for tenant in self.store.read(|tx| repo::expired(tx, now, EXPIRED_AT_ONCE))? {
            let tenants = self.tenants.clone();
            let Some(platform) = self.store.read(|tx| tenants.platform(tx))? else { return Ok(()) };
            let intent = Intent::new(platform.id, now, Actor::system("tenant expiry"));
            within_reserve(self.store.write(move |tx| tenants.expire(tx, &mut intent.begin(), tenant))).await?;
            tracing::info!(%tenant, "an evaluation tenant has expired and is being removed");
        }
        Ok(())
    }
}

impl Task for Lifecycle {
    fn name(&self) -> &'static str {
        "tenant_lifecycle"
    }

    fn period(&self) -> Duration {
        Duration::from_mins(1)
    }

    async fn wake(&self) {
        self.store.changed(catalog::TENANT_ERRANDS, self.seen_version.load(Ordering::SeqCst)).await;
    }

    async fn activate(&self) -> Result<Done, TaskError> {
        self.seen_version.store(self.store.version(catalog::TENANT_ERRANDS), Ordering::SeqCst);
        self.expire().await?;
        let now = self.clock.now();
        let (mut done, mut failure) = (Done::All, None);
        for (tenant, job) in self.store.read(|tx| repo::due_jobs(tx, now))? {
            // A failed job is retried. It does not block the others.
            match self.continue_job(tenant, &job).await {
                Ok(Done::All) => {}
                Ok(Done::Some) => done = Done::Some,
                Err(error) => failure = Some(error),
            }
        }
        failure.map_or(Ok(done), Err)
    }
}
