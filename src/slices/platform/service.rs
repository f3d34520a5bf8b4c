//! The operator's use cases for tenants.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tenantd_base::{
    access::{Grants, TenantKind},
    clock::Timestamp,
    clocks::Clocks,
    id::TenantId,
    versions::ExpectedVersion,
};
use tenantd_store::{
    Direction, Flow, KeyRange, Read, Store, StoreError, VersionedCache, WriteTx, catalog,
    events::{self, Act, Actor, Describe, Draft, EventKind, Intent},
};

use super::{
    activity,
    error::TenantError,
    evaluation::Evaluation,
    model::{LifecycleJob, NewTenant, PLATFORM_SLUG, Tenant, TenantStatus, Work},
    repo,
};

pub(super) static CREATED: EventKind = EventKind {
    name: "tenant.created",
    summary: "The operator created a tenant. In the platform tenant's feed.",
    subject: "tenant",
    schema: "Tenant",
    reads: Grants::NONE,
    has_changes: false,
};
pub(super) static SUSPENDED: EventKind =
    EventKind { name: "tenant.suspended", summary: "The operator suspended a tenant. In the platform tenant's feed.", ..CREATED };
pub(super) static RESUMED: EventKind =
    EventKind { name: "tenant.resumed", summary: "The operator resumed a tenant. In the platform tenant's feed.", ..CREATED };

pub(super) static EMPTIED: EventKind = EventKind {
    name: "tenant.emptied",
    summary: "An evaluation tenant was emptied and is being filled with sample data. In the platform tenant's feed.",
    ..CREATED
};
pub(super) static READY: EventKind = EventKind {
    name: "tenant.ready",
    summary: "An evaluation tenant was filled with sample data and is active. In the platform tenant's feed.",
    ..CREATED
};
pub(super) static EXPIRED: EventKind = EventKind {
    name: "tenant.expired",
    summary: "An evaluation tenant expired, and its removal started. In the platform tenant's feed.",
    ..CREATED
};
pub(super) static DELETION_STARTED: EventKind = EventKind {
    name: "tenant.deletion_started",
    summary: "The removal of a tenant started, because the operator deleted it or it expired. In the platform tenant's feed.",
    ..CREATED
};
pub(super) static DELETED: EventKind = EventKind {
    name: "tenant.deleted",
    summary: "All data of a tenant was removed. Its slug and email addresses are free again. In the platform tenant's feed.",
    ..CREATED
};
pub(super) static CLOCK_ADVANCED: EventKind = EventKind {
    name: "tenant.clock_advanced",
    summary: "The operator advanced the clock of an evaluation tenant. In the platform tenant's feed.",
    ..CREATED
};

/// The longest time that work started before a removal can take: requests, deliveries, orders, counters in memory.
const MAX_WORK_DURATION: Duration = Duration::from_hours(1);

/// The maximum number of tenants in the cache that every request uses.
const CACHED_TENANTS: u64 = 10_000;

fn find(tx: &impl Read, slug: &str) -> Result<Option<Tenant>, StoreError> {
    match repo::find_slug(tx, slug)? {
        Some(id) => repo::get(tx, id),
        None => Ok(None),
    }
}

/// The operator's own tenant, if the installation is initialized.
pub fn platform_tenant(tx: &impl Read) -> Result<Option<Tenant>, StoreError> {
    find(tx, PLATFORM_SLUG)
}

#[derive(Clone, Debug)]
pub struct Tenants {
    store: Store,
    clocks: Clocks,
    evaluation_events: u64,
    following: Arc<Mutex<()>>,
    cache: Arc<VersionedCache<TenantId, Option<Tenant>, 1>>,
}

impl Tenants {
    pub(super) fn new(store: Store, clocks: Clocks, evaluation_events: u64) -> Self {
        let cache = Arc::new(VersionedCache::new([catalog::TENANTS], CACHED_TENANTS));
        Self { store, clocks, evaluation_events, following: Arc::default(), cache }
    }

    /// Reads the tenant from the cache, which is refreshed when a tenant changes. Every request uses this.
    pub fn cached(&self, id: TenantId) -> Result<Arc<Option<Tenant>>, StoreError> {
        self.cache.get(&self.store, id, || self.store.read(|tx| repo::get(tx, id)))
    }

    /// Whether the operator has suspended the tenant. A suspended tenant runs no background work. Uses the cache.
    pub fn is_suspended(&self, id: TenantId) -> Result<bool, StoreError> {
        let tenant = self.cached(id)?;
        Ok(tenant.as_ref().as_ref().is_some_and(|tenant| tenant.status == TenantStatus::Suspended))
    }

    /// The maximum number of events of an evaluation tenant. Every change emits an event, so this also limits its data.
    pub fn evaluation_events(&self) -> u64 {
        self.evaluation_events
    }

    /// The number of events since the tenant was created or last emptied.
    pub fn events_of(&self, tx: &impl Read, id: TenantId) -> Result<u64, StoreError> {
        Ok(activity::get(tx, id)?.map_or(0, |activity| activity.events))
    }

    pub fn get(&self, tx: &impl Read, id: TenantId) -> Result<Tenant, TenantError> {
        repo::get(tx, id)?.ok_or(TenantError::NotFound)
    }

    /// The operator's own tenant, if the installation is initialized.
    pub fn platform(&self, tx: &impl Read) -> Result<Option<Tenant>, StoreError> {
        platform_tenant(tx)
    }

    pub fn find(&self, tx: &impl Read, slug: &str) -> Result<Option<Tenant>, StoreError> {
        find(tx, slug)
    }

    pub fn create(&self, tx: &mut WriteTx, act: &mut Act, new: &NewTenant) -> Result<Tenant, TenantError> {
        Self::create_as(tx, act, new, TenantStatus::Active)
    }

    /// Creates a tenant that is filled with sample data in the background. It becomes active when that is done.
    pub fn create_evaluation(
        &self,
        tx: &mut WriteTx,
        act: &mut Act,
        new: &NewTenant,
        evaluation: &Evaluation,
    ) -> Result<Tenant, TenantError> {
        evaluation.story.check(act.now)?;
        let tenant = Self::create_as(tx, act, new, TenantStatus::Preparing)?;
        repo::put_evaluation(tx, tenant.id, evaluation)?;
        repo::put_job(tx, tenant.id, &LifecycleJob { work: Work::Prepare, due_at: act.now, actor: act.actor.clone() })?;
        Ok(tenant)
    }

    /// Starts a reset to the state after creation. The tenant becomes active again when the reset is done.
    pub fn begin_reset(&self, tx: &mut WriteTx, act: &mut Act, id: TenantId) -> Result<Tenant, TenantError> {
        let mut tenant = self.get(tx, id)?;
        if repo::evaluation(tx, id)?.is_none() {
            return Err(TenantError::NoSample);
        }
        match tenant.status {
            TenantStatus::Active => {}
            TenantStatus::Preparing | TenantStatus::Filling => return Ok(tenant),
            busy => return Err(TenantError::Busy(busy)),
        }
        tenant.clock_ahead = Duration::ZERO;
        change_status(tx, act, &mut tenant, TenantStatus::Preparing)?;
        repo::put_job(tx, id, &LifecycleJob { work: Work::Prepare, due_at: act.now, actor: act.actor.clone() })?;
        Ok(tenant)
    }

    /// Closes a tenant whose filling was interrupted, before it is emptied and filled again.
    pub(super) fn begin_emptying(tx: &mut WriteTx, act: &mut Act, id: TenantId) -> Result<(), TenantError> {
        if let Some(mut tenant) = repo::get(tx, id)?.filter(|tenant| tenant.status == TenantStatus::Filling) {
            change_status(tx, act, &mut tenant, TenantStatus::Preparing)?;
        }
        Ok(())
    }

    /// Announces that the tenant is empty, and opens it before it is filled. Returns `None` if it should no longer be filled.
    pub(super) fn begin_filling(
        tx: &mut WriteTx,
        act: &mut Act,
        id: TenantId,
    ) -> Result<Option<(Tenant, Evaluation)>, TenantError> {
        let tenant = repo::get(tx, id)?.filter(|tenant| tenant.status == TenantStatus::Preparing);
        let (Some(mut tenant), Some(evaluation)) = (tenant, repo::evaluation(tx, id)?) else { return Ok(None) };
        change_status(tx, act, &mut tenant, TenantStatus::Filling)?;
        announce(tx, act, &EMPTIED, &tenant)?;
        Ok(Some((tenant, evaluation)))
    }

    pub(super) fn finish_filling(tx: &mut WriteTx, act: &mut Act, id: TenantId) -> Result<(), TenantError> {
        let filling = repo::get(tx, id)?.filter(|tenant| tenant.status == TenantStatus::Filling);
        let Some(mut tenant) = filling else { return Ok(()) };
        change_status(tx, act, &mut tenant, TenantStatus::Active)?;
        repo::remove_job(tx, id)?;
        announce(tx, act, &READY, &tenant)
    }

    fn create_as(tx: &mut WriteTx, act: &mut Act, new: &NewTenant, status: TenantStatus) -> Result<Tenant, TenantError> {
        let slug = new.slug()?;
        if repo::find_slug(tx, &slug)?.is_some() {
            return Err(TenantError::SlugTaken(slug));
        }
        let id = match new.kind {
            TenantKind::Evaluation => TenantId::with_own_clock(act.now, &mut act.entropy),
            TenantKind::Standard | TenantKind::Platform => TenantId::with_shared_clock(act.now, &mut act.entropy),
        };
        let tenant = Tenant {
            id,
            name: new.name.clone(),
            slug,
            kind: new.kind,
            status,
            created_at: act.now,
            updated_at: act.now,
            expires_at: new.expires_days.map(|days| act.now.plus_days(days)),
            clock_ahead: Duration::ZERO,
            version: 1,
        };
        if tenant.kind == TenantKind::Platform {
            // This is the first record of an installation. Its event log starts here.
            act.tenant_id = tenant.id;
        }
        repo::put(tx, &tenant)?;
        announce(tx, act, &CREATED, &tenant)?;
        Ok(tenant)
    }

    /// Suspends or resumes a tenant. Has no effect if it already has this status.
    pub fn set_status(&self, tx: &mut WriteTx, act: &mut Act, id: TenantId, status: TenantStatus) -> Result<Tenant, TenantError> {
        let mut tenant = self.get(tx, id)?;
        if tenant.kind == TenantKind::Platform {
            return Err(TenantError::PlatformTenant);
        }
        if tenant.status == status {
            return Ok(tenant);
        }
        let kind = match (tenant.status, status) {
            (TenantStatus::Suspended, TenantStatus::Active) => &RESUMED,
            (TenantStatus::Active, TenantStatus::Suspended) => &SUSPENDED,
            (now, _) => return Err(TenantError::Busy(now)),
        };
        change_status(tx, act, &mut tenant, status)?;
        announce(tx, act, kind, &tenant)?;
        Ok(tenant)
    }

    /// Starts the removal of a tenant with all of its data. The tenant stops working at once. `confirmed` must be its slug.
    pub fn begin_deletion(
        &self,
        tx: &mut WriteTx,
        act: &mut Act,
        id: TenantId,
        expected: &ExpectedVersion,
        confirmed: &str,
    ) -> Result<Tenant, TenantError> {
        let mut tenant = self.get(tx, id)?;
        if tenant.kind == TenantKind::Platform {
            return Err(TenantError::PlatformTenant);
        }
        if tenant.slug != confirmed {
            return Err(TenantError::NotConfirmed { slug: tenant.slug });
        }
        if tenant.status == TenantStatus::Deleting {
            return Ok(tenant);
        }
        expected.check(tenant.version)?;
        change_status(tx, act, &mut tenant, TenantStatus::Deleting)?;
        repo::put_job(tx, id, &LifecycleJob { work: Work::Delete, due_at: act.now, actor: act.actor.clone() })?;
        announce(tx, act, &DELETION_STARTED, &tenant)?;
        Ok(tenant)
    }

    /// Starts the removal of an expired tenant. Has no effect on other tenants.
    pub(super) fn expire(&self, tx: &mut WriteTx, act: &mut Act, id: TenantId) -> Result<(), TenantError> {
        let Some(tenant) = repo::get(tx, id)?.filter(|tenant| tenant.is_over(act.now)) else { return Ok(()) };
        announce(tx, act, &EXPIRED, &tenant)?;
        self.begin_deletion(tx, act, id, &ExpectedVersion::Unspecified, &tenant.slug)?;
        Ok(())
    }

    /// Completes a deletion, when only the tenant's own record is left.
    pub(super) fn finish_deletion(tx: &mut WriteTx, act: &mut Act, id: TenantId) -> Result<(), TenantError> {
        let deleting = repo::get(tx, id)?.filter(|tenant| tenant.status == TenantStatus::Deleting);
        let Some(tenant) = deleting else { return Ok(repo::remove_job(tx, id)?) };
        repo::remove(tx, id)?;
        repo::put_job(tx, id, &LifecycleJob { work: Work::Sweep, due_at: act.now + MAX_WORK_DURATION, actor: act.actor.clone() })?;
        announce(tx, act, &DELETED, &tenant)
    }

    /// Advances the clock of an evaluation tenant. Takes effect when [`Tenants::follow_clocks`] applies it.
    pub fn advance_clock(&self, tx: &mut WriteTx, act: &mut Act, id: TenantId, span: Duration) -> Result<Tenant, TenantError> {
        let mut tenant = self.get(tx, id)?;
        tenant.clock_ahead = tenant.ahead_after(span)?;
        tenant.updated_at = act.now;
        tenant.version += 1;
        repo::put(tx, &tenant)?;
        announce(tx, act, &CLOCK_ADVANCED, &tenant)?;
        Ok(tenant)
    }

    /// An intent to change access data of a tenant, such as sessions and tokens. `now` is the installation's time.
    pub fn guarding_intent(&self, tenant: TenantId, now: Timestamp, actor: Actor) -> Intent {
        Intent::new(tenant, now, actor).guarding(self.clocks.read().ahead(tenant))
    }

    /// Converts a time of access data, such as sessions and tokens, to the tenant's clock.
    pub fn guard_time_in(&self, tenant: TenantId, at: Timestamp) -> Timestamp {
        at + self.clocks.read().ahead(tenant)
    }

    /// Moves an act on access data into a tenant.
    pub fn enter(&self, act: &mut Act, tenant: TenantId) {
        act.enter(tenant, self.clocks.read().ahead(tenant));
    }

    /// Sets the clocks of all tenants that have their own to the stored values.
    pub fn follow_clocks(&self) -> Result<(), StoreError> {
        // One caller at a time, so that no caller overwrites newer values with older ones.
        let _turn = self.following.lock().unwrap_or_else(PoisonError::into_inner);
        let mut ahead = Vec::new();
        self.store.read(|tx| {
            repo::TENANTS.scan(tx, &KeyRange::ALL, Direction::Forward, |id, tenant| {
                ahead.push((id, tenant.clock_ahead));
                Ok(Flow::Continue)
            })
        })?;
        self.clocks.set(ahead);
        Ok(())
    }

    /// Removes the pending job of a deleted tenant, so that it does not run on an imported tenant with the same ID.
    pub fn remove_pending_job(&self, tx: &mut WriteTx, id: TenantId) -> Result<(), StoreError> {
        repo::remove_job(tx, id)
    }

    /// Announces an imported tenant, which is new on this installation.
    pub fn announce_imported(&self, tx: &mut WriteTx, act: &mut Act, id: TenantId) -> Result<(), TenantError> {
        let tenant = self.get(tx, id)?;
        announce(tx, act, &CREATED, &tenant)
    }

    /// Returns at most `limit` tenants after `after`, oldest first, and whether there are more.
    pub fn list(
        &self,
        tx: &impl Read,
        after: Option<TenantId>,
        limit: usize,
        matches: impl Fn(&Tenant) -> bool,
    ) -> Result<(Vec<Tenant>, bool), StoreError> {
        let range = match after {
            Some(id) => KeyRange::ALL.after(id.as_bytes(), Direction::Forward),
            None => KeyRange::ALL,
        };
        let mut found = Vec::new();
        repo::TENANTS.scan(tx, &range, Direction::Forward, |_, tenant| {
            if matches(&tenant) {
                found.push(tenant);
            }
            Ok(if found.len() <= limit { Flow::Continue } else { Flow::Stop })
        })?;
        let more = found.len() > limit;
        found.truncate(limit);
        Ok((found, more))
    }

    pub fn count(&self, tx: &impl Read, matches: impl Fn(&Tenant) -> bool) -> Result<u64, StoreError> {
        let mut count = 0;
        repo::TENANTS.scan(tx, &KeyRange::ALL, Direction::Forward, |_, tenant| {
            count += u64::from(matches(&tenant));
            Ok(Flow::Continue)
        })?;
        Ok(count)
    }
}

fn announce(tx: &mut WriteTx, act: &mut Act, kind: &'static EventKind, tenant: &Tenant) -> Result<(), TenantError> {
    let shown = tenant.describe(())?;
    let draft = Draft::new(kind, tenant.id.to_string(), tenant.version, &shown);
    events::append(tx, act, &draft)?;
    Ok(())
}

/// Changes the status of a tenant.
fn change_status(tx: &mut WriteTx, act: &Act, tenant: &mut Tenant, status: TenantStatus) -> Result<(), StoreError> {
    tenant.status = status;
    tenant.updated_at = act.now;
    tenant.version += 1;
    repo::put(tx, tenant)
}
