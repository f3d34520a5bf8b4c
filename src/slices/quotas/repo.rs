//! The quota warnings that tenants have received, so that each is sent only once.

use serde::{Deserialize, Serialize};

use tenantd_base::{id::TenantId, quotas::Quota};
use tenantd_store::{Read, StoreError, Table, WriteTx, catalog, codec::Record};

use super::model::Level;

/// The level of the last warning to a tenant.
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

pub(super) fn warned_level(tx: &impl Read, tenant: TenantId, quota: Quota) -> Result<Level, StoreError> {
    Ok(WARNINGS.get(tx, &key(tenant, quota))?.unwrap_or_default().level)
}

pub(super) fn set_warned_level(tx: &mut WriteTx, tenant: TenantId, quota: Quota, level: Level) -> Result<(), StoreError> {
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
    fn the_stored_form_matches_the_golden_file() {
        assert_golden("quota_warning", &WarningRecord { level: Level::Near });
    }
}
