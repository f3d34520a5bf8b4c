//! Computes the use of quotas, warns tenants, and stores the limits that the operator sets.

use tenantd_base::{
    access::{Grants, Scope},
    clock::Timestamp,
    id::TenantId,
    quotas::{Quota, Quotas},
};
use tenantd_platform::{TenantError, Tenants};
use tenantd_store::{
    Read, StoreError, WriteTx,
    events::{self, Act, Describe, Draft, EventKind},
    usage,
};
use tenantd_workflows as workflows;

use super::{
    model::{Level, Standing, TenantStandings},
    repo,
};

pub(super) static WARNING: EventKind = EventKind {
    name: "quota.warning",
    summary: "The tenant uses at least 80 % of a quota.",
    subject: "quota",
    schema: "QuotaStanding",
    reads: Grants::of(&[Scope::QuotasRead]),
    has_changes: false,
};
pub(super) static REACHED: EventKind =
    EventKind { name: "quota.reached", summary: "The tenant reached the limit of a quota.", ..WARNING };
pub(super) static CHANGED: EventKind = EventKind {
    name: "tenant.quotas_changed",
    summary: "The operator set limits for a tenant. In the platform tenant's feed.",
    subject: "tenant",
    schema: "TenantQuotas",
    reads: Grants::NONE,
    has_changes: false,
};

#[derive(Debug, thiserror::Error)]
pub enum QuotaError {
    #[error(transparent)]
    Tenant(#[from] TenantError),
    #[error(transparent)]
    Event(#[from] serde_json::Error),
    #[error(transparent)]
    Store(#[from] StoreError),
}

#[derive(Clone, Debug)]
pub(super) struct Service {
    pub(super) tenants: Tenants,
    /// The limits of tenants for which the operator has not set any.
    pub(super) defaults: Quotas,
}

impl Service {
    /// Returns the limit and the use of each quota. `now` is the time on the tenant's clock.
    pub(super) fn standings(&self, tx: &impl Read, tenant: TenantId, now: Timestamp) -> Result<Vec<Standing>, StoreError> {
        let (usage, own) = (usage::usage(tx, tenant)?, usage::overrides(tx, tenant)?);
        let (workflows, runs) = workflows::counts(tx, tenant)?;
        let limits = self.defaults.with(&own);
        let used = |quota| match quota {
            Quota::EventsPerDay => Some(usage.events_today(now)),
            Quota::Records => Some(usage.records),
            Quota::StoredBytes => Some(usage.stored_bytes),
            Quota::Workflows => Some(workflows),
            Quota::ConcurrentRuns => Some(runs),
            Quota::Streams => None,
        };
        let standing = |quota| Standing {
            quota,
            limit: limits.limit(quota),
            used: used(quota),
            own: own.iter().any(|(named, _)| *named == quota),
        };
        Ok(Quota::ALL.iter().copied().map(standing).collect())
    }

    /// Warns a tenant about each limit that it is close to or has reached. Warns again only after the use was lower in between.
    pub(super) fn warn(&self, tx: &mut WriteTx, act: &mut Act) -> Result<(), QuotaError> {
        let tenant = act.tenant_id;
        for standing in self.standings(tx, tenant, act.now)? {
            let (warned_level, level) = (repo::warned_level(tx, tenant, standing.quota)?, standing.level());
            if level == warned_level {
                continue;
            }
            repo::set_warned_level(tx, tenant, standing.quota, level)?;
            if level > warned_level {
                let kind = if level == Level::Reached { &REACHED } else { &WARNING };
                let shown = standing.describe(())?;
                events::append(tx, act, &Draft::new(kind, standing.quota.name().to_owned(), 1, &shown))?;
            }
        }
        Ok(())
    }

    /// Sets the limits of a tenant. A quota that is not in `own` has the limit of the installation.
    pub(super) fn set(
        &self,
        tx: &mut WriteTx,
        act: &mut Act,
        tenant: TenantId,
        own: Vec<(Quota, u64)>,
        tenant_now: Timestamp,
    ) -> Result<Vec<Standing>, QuotaError> {
        self.tenants.get(tx, tenant)?;
        let is_same = usage::overrides(tx, tenant)? == own;
        usage::put_overrides(tx, tenant, own)?;
        let standings = self.standings(tx, tenant, tenant_now)?;
        if !is_same {
            let shown = TenantStandings { tenant_id: tenant, standings: &standings }.describe(())?;
            events::append(tx, act, &Draft::new(&CHANGED, tenant.to_string(), 1, &shown))?;
        }
        Ok(standings)
    }
}
