//! What the operator does with tenants.

use std::{sync::Arc, time::Duration};

use serde_json::value::RawValue;

use super::{
    error::TenantError,
    model::{NewTenant, PLATFORM_SLUG, Tenant, TenantStatus},
    repo,
};
use crate::kernel::{
    access::TenantKind,
    clocks::Clocks,
    events::{self, Act, Draft, EventKind},
    id::TenantId,
    store::{Direction, Flow, KeyRange, Read, ReadTx, Store, StoreError, VersionedCache, WriteTx, catalog},
};

pub(super) static CREATED: EventKind = EventKind {
    name: "tenant.created",
    summary: "The operator created a tenant. In the platform tenant's feed.",
    subject: "tenant",
    schema: "Tenant",
    has_changes: false,
};
pub(super) static SUSPENDED: EventKind =
    EventKind { name: "tenant.suspended", summary: "The operator suspended a tenant. In the platform tenant's feed.", ..CREATED };
pub(super) static RESUMED: EventKind =
    EventKind { name: "tenant.resumed", summary: "The operator resumed a tenant. In the platform tenant's feed.", ..CREATED };

pub(super) static CLOCK_ADVANCED: EventKind = EventKind {
    name: "tenant.clock_advanced",
    summary: "The operator advanced the clock of an evaluation tenant. In the platform tenant's feed.",
    ..CREATED
};

/// How a tenant is shown in an event.
pub(super) type Describe = fn(&Tenant) -> Result<Box<RawValue>, serde_json::Error>;

/// How many tenants are kept in memory for the check on every request.
const CACHED_TENANTS: u64 = 10_000;

#[derive(Clone, Debug)]
pub struct Tenants {
    store: Store,
    clocks: Clocks,
    describe: Describe,
    cache: Arc<VersionedCache<TenantId, Option<Tenant>, 1>>,
}

impl Tenants {
    pub(super) fn new(store: Store, clocks: Clocks, describe: Describe) -> Self {
        Self { store, clocks, describe, cache: Arc::new(VersionedCache::new([catalog::TENANTS], CACHED_TENANTS)) }
    }

    /// From memory, unless a tenant has changed: for the check on every request.
    pub fn cached(&self, id: TenantId) -> Result<Arc<Option<Tenant>>, StoreError> {
        self.cache.get(&self.store, id, || self.store.read(|tx| repo::get(tx, id)))
    }

    pub fn get(&self, tx: &impl Read, id: TenantId) -> Result<Tenant, TenantError> {
        repo::get(tx, id)?.ok_or(TenantError::NotFound)
    }

    /// The operator's own tenant, once the installation is initialised.
    pub fn platform(&self, tx: &impl Read) -> Result<Option<Tenant>, StoreError> {
        self.find(tx, PLATFORM_SLUG)
    }

    pub fn find(&self, tx: &impl Read, slug: &str) -> Result<Option<Tenant>, StoreError> {
        match repo::find_slug(tx, slug)? {
            Some(id) => repo::get(tx, id),
            None => Ok(None),
        }
    }

    pub fn create(&self, tx: &mut WriteTx, act: &mut Act, new: &NewTenant) -> Result<Tenant, TenantError> {
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
            status: TenantStatus::Active,
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
        self.announce(tx, act, &CREATED, &tenant)?;
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
        tenant.status = status;
        tenant.updated_at = act.now;
        tenant.version += 1;
        repo::put(tx, &tenant)?;
        let kind = match status {
            TenantStatus::Active => &RESUMED,
            TenantStatus::Suspended => &SUSPENDED,
        };
        self.announce(tx, act, kind, &tenant)?;
        Ok(tenant)
    }

    /// Advances the clock of an evaluation tenant. What follows from it begins once [`Tenants::follow_clock`] has seen it.
    pub fn advance_clock(&self, tx: &mut WriteTx, act: &mut Act, id: TenantId, span: Duration) -> Result<Tenant, TenantError> {
        let mut tenant = self.get(tx, id)?;
        tenant.clock_ahead = tenant.ahead_after(span)?;
        tenant.updated_at = act.now;
        tenant.version += 1;
        repo::put(tx, &tenant)?;
        self.announce(tx, act, &CLOCK_ADVANCED, &tenant)?;
        Ok(tenant)
    }

    /// Sets the clock of a tenant to what is stored. It never goes back, so that can be done at any time.
    pub fn follow_clock(&self, id: TenantId) -> Result<(), StoreError> {
        let tenant = self.store.read(|tx| repo::get(tx, id))?;
        self.clocks.set_ahead(id, tenant.map(|tenant| tenant.clock_ahead).unwrap_or_default());
        Ok(())
    }

    /// The same for all tenants.
    pub async fn follow_clocks(&self) -> Result<(), StoreError> {
        let clocks = self.clocks.clone();
        let set = move |tx: &ReadTx| {
            repo::TENANTS.scan(tx, &KeyRange::ALL, Direction::Forward, |id, record| {
                clocks.set_ahead(id, repo::to_model(id, record).clock_ahead);
                Ok(Flow::Continue)
            })
        };
        self.store.scan(set).await
    }

    fn announce(&self, tx: &mut WriteTx, act: &mut Act, kind: &'static EventKind, tenant: &Tenant) -> Result<(), TenantError> {
        let shown = (self.describe)(tenant)?;
        let draft = Draft::new(kind, tenant.id.to_string(), tenant.version, &shown, None)?;
        events::append(tx, act, &draft)?;
        Ok(())
    }

    /// Tenants in the order of their creation, after `after`: at most `limit`, and whether there are more.
    pub fn list(&self, tx: &impl Read, after: Option<TenantId>, limit: usize) -> Result<(Vec<Tenant>, bool), StoreError> {
        let range = match after {
            Some(id) => KeyRange::ALL.after(id.as_bytes(), Direction::Forward),
            None => KeyRange::ALL,
        };
        let mut found = Vec::new();
        repo::TENANTS.scan(tx, &range, Direction::Forward, |id, record| {
            found.push(repo::to_model(id, record));
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
