//! Running imports, so that the data of an interrupted import can be removed.

use serde::{Deserialize, Serialize};

use tenantd_base::{clock::Timestamp, id::TenantId};
use tenantd_store::{Table, catalog, codec::Record};

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct ImportRecord {
    pub(super) started_at: Timestamp,
}

impl Record for ImportRecord {
    const VERSION: u8 = 1;
}

pub(super) static IMPORTS: Table<TenantId, ImportRecord> = Table::new(catalog::TENANT_IMPORTS, &[]);

#[cfg(test)]
mod tests {
    use tenantd_store::codec::assert_golden;

    use super::*;

    #[test]
    fn the_stored_form_is_unchanged() {
        assert_golden("tenant_import", &ImportRecord { started_at: Timestamp::from_millis(1_767_225_600_000) });
    }
}
