//! The sums of each organization.

use tenantd_base::id::{OrganizationId, TenantId};
use tenantd_store::{Direction, Flow, Key, KeyRange, Read, StoreError, Table, WriteTx, catalog, codec::Record};

use super::super::model::Rollup;

pub(crate) type RollupKey = (TenantId, OrganizationId);

impl Record for Rollup {
    const VERSION: u8 = 1;

    fn take_key(&mut self, key: &[u8]) -> Option<()> {
        (self.tenant_id, self.organization_id) = Key::from_bytes(key)?;
        Some(())
    }
}

pub(crate) static ROLLUPS: Table<RollupKey, Rollup> = Table::new(catalog::BACKUP_ROLLUPS, &[]);

pub(crate) fn find(tx: &impl Read, key: RollupKey) -> Result<Option<Rollup>, StoreError> {
    ROLLUPS.get(tx, &key)
}

/// The sums of an organization; empty ones where there are none yet.
pub(crate) fn get(tx: &impl Read, (tenant, organization): RollupKey) -> Result<Rollup, StoreError> {
    Ok(find(tx, (tenant, organization))?.unwrap_or_else(|| Rollup::new(tenant, organization)))
}

pub(crate) fn put(tx: &mut WriteTx, rollup: &Rollup) -> Result<(), StoreError> {
    ROLLUPS.put(tx, &(rollup.tenant_id, rollup.organization_id), rollup)
}

pub(crate) fn remove(tx: &mut WriteTx, key: RollupKey) -> Result<(), StoreError> {
    ROLLUPS.remove(tx, &key).map(drop)
}

/// Walks a tenant's sums, in the order of its organizations.
pub(crate) fn scan(tx: &impl Read, tenant: TenantId, mut visit: impl FnMut(Rollup)) -> Result<(), StoreError> {
    ROLLUPS.scan(tx, &KeyRange::prefix(&tenant.to_bytes()), Direction::Forward, |_, rollup| {
        visit(rollup);
        Ok(Flow::Continue)
    })
}
