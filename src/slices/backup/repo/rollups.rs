//! The sums of each organization.

use serde::{Deserialize, Serialize};

use tenantd_base::{
    clock::Timestamp,
    id::{OrganizationId, TenantId},
};
use tenantd_store::{Direction, Flow, Key, KeyRange, Read, StoreError, Table, WriteTx, catalog, codec::Record};

use super::super::model::{Counts, Rollup, Share};

pub(crate) type RollupKey = (TenantId, OrganizationId);

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct RollupRecord {
    share: Share,
    has_jobs: bool,
    last_success_at: Option<Timestamp>,
    last_failure_at: Option<Timestamp>,
    last_verified_at: Option<Timestamp>,
    targets: Vec<(String, Timestamp)>,
    hours: Vec<(i64, Counts)>,
    days: Vec<(i64, Counts)>,
    sizes: Vec<(i64, u64)>,
}

impl Record for RollupRecord {
    const VERSION: u8 = 1;
}

impl RollupRecord {
    /// How many entries it has in all of its lists.
    pub(super) fn entries(&self) -> usize {
        self.targets.len() + self.hours.len() + self.days.len() + self.sizes.len()
    }
}

pub(crate) static ROLLUPS: Table<RollupKey, RollupRecord> = Table::new(catalog::BACKUP_ROLLUPS, &[]);

fn to_model((tenant_id, organization_id): RollupKey, record: RollupRecord) -> Rollup {
    let RollupRecord { share, has_jobs, last_success_at, last_failure_at, last_verified_at, targets, hours, days, sizes } = record;
    Rollup {
        tenant_id,
        organization_id,
        share,
        has_jobs,
        last_success_at,
        last_failure_at,
        last_verified_at,
        targets,
        hours,
        days,
        sizes,
    }
}

pub(super) fn to_record(rollup: &Rollup) -> RollupRecord {
    RollupRecord {
        share: rollup.share,
        has_jobs: rollup.has_jobs,
        last_success_at: rollup.last_success_at,
        last_failure_at: rollup.last_failure_at,
        last_verified_at: rollup.last_verified_at,
        targets: rollup.targets.clone(),
        hours: rollup.hours.clone(),
        days: rollup.days.clone(),
        sizes: rollup.sizes.clone(),
    }
}

pub(crate) fn find(tx: &impl Read, key: RollupKey) -> Result<Option<Rollup>, StoreError> {
    Ok(ROLLUPS.get(tx, &key)?.map(|record| to_model(key, record)))
}

/// The sums of an organization; empty ones where there are none yet.
pub(crate) fn get(tx: &impl Read, (tenant, organization): RollupKey) -> Result<Rollup, StoreError> {
    Ok(find(tx, (tenant, organization))?.unwrap_or_else(|| Rollup::new(tenant, organization)))
}

pub(crate) fn put(tx: &mut WriteTx, rollup: &Rollup) -> Result<(), StoreError> {
    ROLLUPS.put(tx, &(rollup.tenant_id, rollup.organization_id), &to_record(rollup))
}

pub(crate) fn remove(tx: &mut WriteTx, key: RollupKey) -> Result<(), StoreError> {
    ROLLUPS.remove(tx, &key).map(drop)
}

/// Walks a tenant's sums, in the order of its organizations.
pub(crate) fn scan(tx: &impl Read, tenant: TenantId, mut visit: impl FnMut(Rollup)) -> Result<(), StoreError> {
    ROLLUPS.scan(tx, &KeyRange::prefix(&tenant.to_bytes()), Direction::Forward, |key, record| {
        visit(to_model(key, record));
        Ok(Flow::Continue)
    })
}
