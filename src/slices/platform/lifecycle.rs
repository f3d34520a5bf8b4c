//! Carries out what is to be done with a tenant as a whole: fills it with its sample; removes everything of it, in bounded steps, when the operator asks for it or
//! when its time is over.
//!
//! What is to be done is in the store, so a restart goes on where a crash left off: whatever rows are still found are removed, and only
//! when a whole pass has found none is the tenant itself let go. Work that was under way when the tenant was removed (a request, a
//! delivery, a counter in memory) may still write; a last pass a while later takes that too.

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
    evaluation::Storyteller,
    model::{Errand, Work},
    repo,
    service::Tenants,
};

/// How many transactions an errand gets before the next has its turn.
const STEPS: usize = 40;
const EXPIRED_AT_ONCE: usize = 100;

pub(super) struct Lifecycle {
    pub(super) store: Store,
    pub(super) clock: Clock,
    pub(super) tenants: Tenants,
    /// Everything that tenants have anywhere, but for their own records.
    pub(super) rows: Arc<[&'static dyn TenantRows]>,
    pub(super) storyteller: Arc<OnceLock<Arc<dyn Storyteller>>>,
    /// The version of the errands when this task last looked.
    pub(super) seen: AtomicU64,
}

impl From<TenantError> for TaskError {
    fn from(error: TenantError) -> Self {
        Self(error.to_string())
    }
}

impl Lifecycle {
    /// Goes on with an errand; whether there is more of it to do at once.
    async fn go_on(&self, tenant: TenantId, errand: &Errand) -> Result<Done, TaskError> {
        // The numbers of a tenant's events go on when it is filled again: clients keep cursors.
        let goes = |rows: &&&dyn TenantRows| errand.work != Work::Prepare || !rows.tables().contains(&catalog::EVENT_SEQUENCES);
        let rows: Vec<&'static dyn TenantRows> = self.rows.iter().filter(goes).copied().collect();
        // A removal makes room, so it goes on when the disk is full.
        if within_reserve(erase(&self.store, &rows, tenant, STEPS)).await? {
            return Ok(Done::Some);
        }
        let now = self.clock.now();
        let Some(platform) = self.store.read(|tx| self.tenants.platform(tx))? else { return Ok(Done::All) };
        let intent = |now: Timestamp| Intent::new(platform.id, now, errand.actor.clone());
        match errand.work {
            Work::Delete => {
                let intent = intent(now);
                let finish = self.store.write(move |tx| Tenants::finish_deletion(tx, &mut intent.begin(), tenant));
                within_reserve(finish).await?;
                tracing::info!(%tenant, "a tenant was removed");
            }
            Work::Sweep => self.store.write(move |tx| repo::end_errand(tx, tenant)).await?,
            Work::Prepare => self.fill(tenant, intent).await?,
        }
        Ok(Done::All)
    }

    /// Fills a tenant in which there is nothing. Cut off, it is emptied and begins anew.
    async fn fill(&self, tenant: TenantId, intent: impl Fn(Timestamp) -> Intent) -> Result<(), TaskError> {
        let Some(storyteller) = self.storyteller.get() else { return Ok(()) };
        let begin = intent(self.clock.now());
        let begun = self.store.write(move |tx| Tenants::begin_filling(tx, &mut begin.begin(), tenant)).await?;
        let Some((found, evaluation)) = begun else {
            // It is being removed instead, or was filled already.
            return Ok(());
        };
        self.tenants.follow_clocks()?;
        storyteller.tell(&found, &evaluation).await?;
        let end = intent(self.clock.now());
        self.store.write(move |tx| Tenants::finish_filling(tx, &mut end.begin(), tenant)).await?;
        tracing::info!(%tenant, tickets = evaluation.story.tickets, "an evaluation tenant is filled");
        Ok(())
    }

    /// Lets go of tenants whose time is over.
    async fn expire(&self) -> Result<(), TaskError> {
        let now = self.clock.now();
        for tenant in self.store.read(|tx| repo::expired(tx, now, EXPIRED_AT_ONCE))? {
            let tenants = self.tenants.clone();
            let Some(platform) = self.store.read(|tx| tenants.platform(tx))? else { return Ok(()) };
            let intent = Intent::new(platform.id, now, Actor::system("tenant expiry"));
            within_reserve(self.store.write(move |tx| tenants.expire(tx, &mut intent.begin(), tenant))).await?;
            tracing::info!(%tenant, "the time of an evaluation tenant is over; it is removed");
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
        self.store.changed(catalog::TENANT_ERRANDS, self.seen.load(Ordering::SeqCst)).await;
    }

    async fn activate(&self) -> Result<Done, TaskError> {
        self.seen.store(self.store.version(catalog::TENANT_ERRANDS), Ordering::SeqCst);
        self.expire().await?;
        let now = self.clock.now();
        let (mut done, mut failure) = (Done::All, None);
        for (tenant, errand) in self.store.read(|tx| repo::due_errands(tx, now))? {
            // One that fails is tried again, and holds up no other.
            match self.go_on(tenant, &errand).await {
                Ok(Done::All) => {}
                Ok(Done::Some) => done = Done::Some,
                Err(error) => failure = Some(error),
            }
        }
        failure.map_or(Ok(done), Err)
    }
}
