//! What the operator does with tenants.

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
    model::{Errand, NewTenant, PLATFORM_SLUG, Tenant, TenantStatus, Work},
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
    summary: "Nothing is in an evaluation tenant, which is filled with its sample now. In the platform tenant's feed.",
    ..CREATED
};
pub(super) static READY: EventKind = EventKind {
    name: "tenant.ready",
    summary: "An evaluation tenant is filled with its sample and works. In the platform tenant's feed.",
    ..CREATED
};
pub(super) static EXPIRED: EventKind = EventKind {
    name: "tenant.expired",
    summary: "The time of an evaluation tenant is over; it is removed now. In the platform tenant's feed.",
    ..CREATED
};
pub(super) static DELETION_STARTED: EventKind = EventKind {
    name: "tenant.deletion_started",
    summary: "A tenant is being removed, by the operator or because its evaluation has ended. In the platform tenant's feed.",
    ..CREATED
};
pub(super) static DELETED: EventKind = EventKind {
    name: "tenant.deleted",
    summary: "Everything of a tenant is gone; its slug and its sign-ins are free. In the platform tenant's feed.",
    ..CREATED
};
pub(super) static CLOCK_ADVANCED: EventKind = EventKind {
    name: "tenant.clock_advanced",
    summary: "The operator advanced the clock of an evaluation tenant. In the platform tenant's feed.",
    ..CREATED
};

/// How long work can be under way that was begun for a tenant before it was removed: requests, deliveries, orders, counters in memory.
const LINGERS: Duration = Duration::from_hours(1);

/// How many tenants are kept in memory for the check on every request.
const CACHED_TENANTS: u64 = 10_000;

fn find(tx: &impl Read, slug: &str) -> Result<Option<Tenant>, StoreError> {
    match repo::find_slug(tx, slug)? {
        Some(id) => repo::get(tx, id),
        None => Ok(None),
    }
}

/// The tenant of the operator of the installation.
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

    /// From memory, unless a tenant has changed: for the check on every request.
    pub fn cached(&self, id: TenantId) -> Result<Arc<Option<Tenant>>, StoreError> {
        self.cache.get(&self.store, id, || self.store.read(|tx| repo::get(tx, id)))
    }

    /// Whether the operator has suspended the tenant: then nothing of it acts by itself, until it is resumed. From memory, unless a
    /// tenant has changed.
    pub fn is_suspended(&self, id: TenantId) -> Result<bool, StoreError> {
        let tenant = self.cached(id)?;
        Ok(tenant.as_ref().as_ref().is_some_and(|tenant| tenant.status == TenantStatus::Suspended))
    }

    /// How many events an evaluation tenant has room for. Every change is one, so this bounds whatever it holds.
    pub fn evaluation_events(&self) -> u64 {
        self.evaluation_events
    }

    /// How many events a tenant has had since it was created, or last emptied.
    pub fn events_of(&self, tx: &impl Read, id: TenantId) -> Result<u64, StoreError> {
        Ok(activity::get(tx, id)?.map_or(0, |activity| activity.events))
    }

    pub fn get(&self, tx: &impl Read, id: TenantId) -> Result<Tenant, TenantError> {
        repo::get(tx, id)?.ok_or(TenantError::NotFound)
    }

    /// The operator's own tenant, once the installation is initialised.
    pub fn platform(&self, tx: &impl Read) -> Result<Option<Tenant>, StoreError> {
        platform_tenant(tx)
    }

    pub fn find(&self, tx: &impl Read, slug: &str) -> Result<Option<Tenant>, StoreError> {
        find(tx, slug)
    }

    pub fn create(&self, tx: &mut WriteTx, act: &mut Act, new: &NewTenant) -> Result<Tenant, TenantError> {
        Self::create_as(tx, act, new, TenantStatus::Active)
    }

    /// Creates a tenant that is filled with a sample in the background, and works when that is done.
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
        repo::put_errand(tx, tenant.id, &Errand { work: Work::Prepare, due_at: act.now, actor: act.actor.clone() })?;
        Ok(tenant)
    }

    /// Begins to make an evaluation tenant what it was after its creation. It works again when that is done.
    pub fn begin_reset(&self, tx: &mut WriteTx, act: &mut Act, id: TenantId) -> Result<Tenant, TenantError> {
        let mut tenant = self.get(tx, id)?;
        if repo::evaluation(tx, id)?.is_none() {
            return Err(TenantError::NoStory);
        }
        match tenant.status {
            TenantStatus::Active => {}
            TenantStatus::Preparing => return Ok(tenant),
            busy => return Err(TenantError::Busy(busy)),
        }
        tenant.clock_ahead = Duration::ZERO;
        turn(tx, act, &mut tenant, TenantStatus::Preparing)?;
        repo::put_errand(tx, id, &Errand { work: Work::Prepare, due_at: act.now, actor: act.actor.clone() })?;
        Ok(tenant)
    }

    /// Says that nothing is in the tenant, before it is filled. `None` when it is no longer to be.
    pub(super) fn begin_filling(
        tx: &mut WriteTx,
        act: &mut Act,
        id: TenantId,
    ) -> Result<Option<(Tenant, Evaluation)>, TenantError> {
        let tenant = repo::get(tx, id)?.filter(|tenant| tenant.status == TenantStatus::Preparing);
        let (Some(tenant), Some(evaluation)) = (tenant, repo::evaluation(tx, id)?) else { return Ok(None) };
        announce(tx, act, &EMPTIED, &tenant)?;
        Ok(Some((tenant, evaluation)))
    }

    pub(super) fn finish_filling(tx: &mut WriteTx, act: &mut Act, id: TenantId) -> Result<(), TenantError> {
        let preparing = repo::get(tx, id)?.filter(|tenant| tenant.status == TenantStatus::Preparing);
        let Some(mut tenant) = preparing else { return Ok(()) };
        turn(tx, act, &mut tenant, TenantStatus::Active)?;
        repo::end_errand(tx, id)?;
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
            // The first record of an installation: its own log begins with it.
            act.tenant_id = tenant.id;
        }
        repo::put(tx, &tenant)?;
        announce(tx, act, &CREATED, &tenant)?;
        Ok(tenant)
    }

    /// Suspends or resumes; nothing happens when it is so already.
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
        turn(tx, act, &mut tenant, status)?;
        announce(tx, act, kind, &tenant)?;
        Ok(tenant)
    }

    /// Begins to remove a tenant with everything in it: from now on nothing of it works. `confirmed` is its slug once more.
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
        turn(tx, act, &mut tenant, TenantStatus::Deleting)?;
        repo::put_errand(tx, id, &Errand { work: Work::Delete, due_at: act.now, actor: act.actor.clone() })?;
        announce(tx, act, &DELETION_STARTED, &tenant)?;
        Ok(tenant)
    }

    /// Begins to remove a tenant whose time is over. Nothing happens to one that still has time.
    pub(super) fn expire(&self, tx: &mut WriteTx, act: &mut Act, id: TenantId) -> Result<(), TenantError> {
        let Some(tenant) = repo::get(tx, id)?.filter(|tenant| tenant.is_over(act.now)) else { return Ok(()) };
        announce(tx, act, &EXPIRED, &tenant)?;
        self.begin_deletion(tx, act, id, &ExpectedVersion::Unspecified, &tenant.slug)?;
        Ok(())
    }

    /// Ends a deletion, once nothing is left of the tenant but its own record.
    pub(super) fn finish_deletion(tx: &mut WriteTx, act: &mut Act, id: TenantId) -> Result<(), TenantError> {
        let deleting = repo::get(tx, id)?.filter(|tenant| tenant.status == TenantStatus::Deleting);
        let Some(tenant) = deleting else { return Ok(repo::end_errand(tx, id)?) };
        repo::remove(tx, id)?;
        repo::put_errand(tx, id, &Errand { work: Work::Sweep, due_at: act.now + LINGERS, actor: act.actor.clone() })?;
        announce(tx, act, &DELETED, &tenant)
    }

    /// Advances the clock of an evaluation tenant. What follows from it begins once [`Tenants::follow_clocks`] has seen it.
    pub fn advance_clock(&self, tx: &mut WriteTx, act: &mut Act, id: TenantId, span: Duration) -> Result<Tenant, TenantError> {
        let mut tenant = self.get(tx, id)?;
        tenant.clock_ahead = tenant.ahead_after(span)?;
        tenant.updated_at = act.now;
        tenant.version += 1;
        repo::put(tx, &tenant)?;
        announce(tx, act, &CLOCK_ADVANCED, &tenant)?;
        Ok(tenant)
    }

    /// What the system is about to do with what guards people of a tenant. `now` is the installation's time.
    pub fn guarding_intent(&self, tenant: TenantId, now: Timestamp, actor: Actor) -> Intent {
        Intent::new(tenant, now, actor).guarding(self.clocks.read().ahead(tenant))
    }

    /// A time of what guards people, as the people of a tenant see it.
    pub fn guard_time_in(&self, tenant: TenantId, at: Timestamp) -> Timestamp {
        at + self.clocks.read().ahead(tenant)
    }

    /// Lets an act on what guards people go on in a tenant.
    pub fn enter(&self, act: &mut Act, tenant: TenantId) {
        act.enter(tenant, self.clocks.read().ahead(tenant));
    }

    /// Sets the clocks of all tenants that have one to what is stored.
    pub fn follow_clocks(&self) -> Result<(), StoreError> {
        // One after the other: nobody sets what another has read before.
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

    /// Forgets what was still to be done with a tenant that is gone: it would be done to one that comes in its place.
    pub fn forget_errand(&self, tx: &mut WriteTx, id: TenantId) -> Result<(), StoreError> {
        repo::end_errand(tx, id)
    }

    /// Tells of a tenant that came from another installation: it is a new one here.
    pub fn arrived(&self, tx: &mut WriteTx, act: &mut Act, id: TenantId) -> Result<(), TenantError> {
        let tenant = self.get(tx, id)?;
        announce(tx, act, &CREATED, &tenant)
    }

    /// Tenants in the order of their creation, after `after`: at most `limit`, and whether there are more.
    pub fn list(&self, tx: &impl Read, after: Option<TenantId>, limit: usize) -> Result<(Vec<Tenant>, bool), StoreError> {
        let range = match after {
            Some(id) => KeyRange::ALL.after(id.as_bytes(), Direction::Forward),
            None => KeyRange::ALL,
        };
        let mut found = Vec::new();
        repo::TENANTS.scan(tx, &range, Direction::Forward, |_, tenant| {
            found.push(tenant);
            Ok(if found.len() <= limit { Flow::Continue } else { Flow::Stop })
        })?;
        let more = found.len() > limit;
        found.truncate(limit);
        Ok((found, more))
    }

    pub fn count(&self, tx: &impl Read) -> Result<u64, StoreError> {
        let mut count = 0;
        repo::TENANTS.scan(tx, &KeyRange::ALL, Direction::Forward, |_, _| {
            count += 1;
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

/// Puts a tenant into another status.
fn turn(tx: &mut WriteTx, act: &Act, tenant: &mut Tenant, status: TenantStatus) -> Result<(), StoreError> {
    tenant.status = status;
    tenant.updated_at = act.now;
    tenant.version += 1;
    repo::put(tx, tenant)
}
