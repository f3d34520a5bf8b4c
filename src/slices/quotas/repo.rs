//! The warnings that tenants got about their quotas, so that each comes once.

use serde::{Deserialize, Serialize};

use tenantd_base::{id::TenantId, quotas::Quota};
use tenantd_store::{Read, StoreError, Table, WriteTx, catalog, codec::Record};

use super::model::Level;

/// The level that a tenant was last told of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct WarningRecord {
    level: Level,
}

impl Record for WarningRecord {
    const VERSION: u8 = 1;
}

/// Tenant and name of the quota.
type WarningKey = (TenantId, String);

pub(super) static WARNINGS: Table<WarningKey, WarningRecord> = Table::new(catalog::QUOTA_WARNINGS, &[]);

fn key(tenant: TenantId, quota: Quota) -> WarningKey {
    (tenant, quota.name().to_owned())
}

pub(super) fn told(tx: &impl Read, tenant: TenantId, quota: Quota) -> Result<Level, StoreError> {
    Ok(WARNINGS.get(tx, &key(tenant, quota))?.unwrap_or_default().level)
}

pub(super) fn tell(tx: &mut WriteTx, tenant: TenantId, quota: Quota, level: Level) -> Result<(), StoreError> {
    match level {
        Level::Ok => WARNINGS.remove(tx, &key(tenant, quota)).map(drop),
        Level::Near | Level::Reached => WARNINGS.put(tx, &key(tenant, quota), &WarningRecord { level }),
    }
}

#[cfg(test)]
mod tests {
    use tenantd_store::codec::assert_golden;

    use super::*;

    #[test]
    fn the_stored_form_is_the_one_that_was_written_down() {
        assert_golden("quota_warning", &WarningRecord { level: Level::Near });
    }
}
