//! The sums of each organization.

use serde::Deserialize;

use tenantd_base::{
    clock::Timestamp,
    id::{OrganizationId, TenantId},
};
use tenantd_store::{
    Direction, Flow, Key, KeyRange, Read, StoreError, Table, WriteTx, catalog,
    codec::{self, Record},
};

use super::super::model::{Counts, Rollup};

pub(crate) type RollupKey = (TenantId, OrganizationId);

impl Record for Rollup {
    const VERSION: u8 = 2;

    fn upgrade(version: u8, fields: &[u8]) -> Result<Self, String> {
        match version {
            1 => codec::decode_fields::<RollupV1>(fields).map(Self::from),
            _ => Err(format!("this release does not know format version {version}")),
        }
    }

    fn take_key(&mut self, key: &[u8]) -> Option<()> {
        (self.tenant_id, self.organization_id) = Key::from_bytes(key)?;
        Some(())
    }
}

/// The format before devices without any backup had their own sum. The store upgrade recalculates all shares.
#[derive(Deserialize)]
struct RollupV1 {
    _share: [u64; 12],
    has_jobs: bool,
    last_success_at: Option<Timestamp>,
    last_failure_at: Option<Timestamp>,
    last_verified_at: Option<Timestamp>,
    targets: Vec<(String, Timestamp)>,
    hours: Vec<(i64, Counts)>,
    days: Vec<(i64, Counts)>,
    sizes: Vec<(i64, u64)>,
}

impl From<RollupV1> for Rollup {
    fn from(old: RollupV1) -> Self {
        Self {
            has_jobs: old.has_jobs,
            last_success_at: old.last_success_at,
            last_failure_at: old.last_failure_at,
            last_verified_at: old.last_verified_at,
            targets: old.targets,
            hours: old.hours,
            days: old.days,
            sizes: old.sizes,
            ..Self::new(TenantId::from_bytes([0; 16]), OrganizationId::from_bytes([0; 16]))
        }
    }
}

pub(crate) static ROLLUPS: Table<RollupKey, Rollup> = Table::new(catalog::BACKUP_ROLLUPS, &[]);

pub(crate) fn find(tx: &impl Read, key: RollupKey) -> Result<Option<Rollup>, StoreError> {
    ROLLUPS.get(tx, &key)
}

/// The sums of an organization, or empty sums if there are none yet.
pub(crate) fn get(tx: &impl Read, (tenant, organization): RollupKey) -> Result<Rollup, StoreError> {
    Ok(find(tx, (tenant, organization))?.unwrap_or_else(|| Rollup::new(tenant, organization)))
}

pub(crate) fn put(tx: &mut WriteTx, rollup: &Rollup) -> Result<(), StoreError> {
    ROLLUPS.put(tx, &(rollup.tenant_id, rollup.organization_id), rollup)
}

pub(crate) fn remove(tx: &mut WriteTx, key: RollupKey) -> Result<(), StoreError> {
    ROLLUPS.remove(tx, &key).map(drop)
}

/// Visits the sums of a tenant in the order of its organizations.
pub(crate) fn scan(tx: &impl Read, tenant: TenantId, mut visit: impl FnMut(Rollup)) -> Result<(), StoreError> {
    ROLLUPS.scan(tx, &KeyRange::prefix(&tenant.to_bytes()), Direction::Forward, |_, rollup| {
        visit(rollup);
        Ok(Flow::Continue)
    })
}
