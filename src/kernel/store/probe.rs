//! A write whose only purpose is to show that writes reach the disk.

use serde::{Deserialize, Serialize};

use tenantd_base::clock::Timestamp;

use super::{Store, catalog, codec::Record, error::StoreError, reserve::within_reserve, table::Table};

#[derive(Debug, Serialize, Deserialize)]
struct ProbeRecord {
    at: Timestamp,
}

impl Record for ProbeRecord {
    const VERSION: u8 = 1;
}

static PROBE: Table<u8, ProbeRecord> = Table::new(catalog::PROBE, &[]);

impl Store {
    /// Returns when the writer has answered, with success or an error. A writer that hangs never answers.
    pub async fn probe(&self, now: Timestamp) -> Result<(), StoreError> {
        within_reserve(self.write(move |tx| PROBE.put(tx, &0, &ProbeRecord { at: now }))).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::assert_golden;

    #[test]
    fn the_stored_form_matches_the_golden_file() {
        assert_golden("probe", &ProbeRecord { at: Timestamp::from_millis(1_767_225_600_000) });
    }
}
