//! Imports that are under way, so that what one has left behind that broke off is known.

use serde::{Deserialize, Serialize};

use crate::kernel::{
    clock::Timestamp,
    id::TenantId,
    store::{Table, catalog, codec::Record},
};

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
    use super::*;
    use crate::kernel::store::codec::assert_golden;

    #[test]
    fn the_stored_form_is_the_one_that_was_written_down() {
        assert_golden("tenant_import", &ImportRecord { started_at: Timestamp::from_millis(1_767_225_600_000) });
    }
}
