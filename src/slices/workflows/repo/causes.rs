//! The descendants of a run: how many runs and records its root run has caused. The depth limits how long a chain of runs can be;
//! this limits how many there are, so that no loop fills the disk.

use serde::{Deserialize, Serialize};

use tenantd_base::id::{RunId, TenantId};
use tenantd_store::{Read, StoreError, Table, WriteTx, catalog, codec::Record};

use super::runs::RunKey;

/// The record of a run that another run caused, or that has caused something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct CauseRecord {
    /// The first run of the chain.
    root: RunId,
    /// For a root run: the number of runs and records that it has caused.
    descendants: u64,
}

impl Record for CauseRecord {
    const VERSION: u8 = 1;
}

pub(crate) static CAUSES: Table<RunKey, CauseRecord> = Table::new(catalog::WORKFLOW_CAUSES, &[]);

/// The root of this run; the run itself if nothing caused it.
pub(crate) fn root_of(tx: &impl Read, run: RunKey) -> Result<RunId, StoreError> {
    Ok(CAUSES.get(tx, &run)?.map_or(run.1, |cause| cause.root))
}

/// Stores the root of a run.
pub(crate) fn set_root(tx: &mut WriteTx, run: RunKey, root: RunId) -> Result<(), StoreError> {
    CAUSES.put(tx, &run, &CauseRecord { root, descendants: 0 })
}

/// Adds descendants to a root. Returns false if this would exceed `most`.
pub(crate) fn add(tx: &mut WriteTx, tenant: TenantId, root: RunId, more: u64, most: u64) -> Result<bool, StoreError> {
    let key = (tenant, root);
    let descendants = CAUSES.get(tx, &key)?.map_or(0, |cause| cause.descendants) + more;
    if descendants > most {
        return Ok(false);
    }
    CAUSES.put(tx, &key, &CauseRecord { root, descendants })?;
    Ok(true)
}

pub(super) fn remove(tx: &mut WriteTx, run: RunKey) -> Result<(), StoreError> {
    CAUSES.remove(tx, &run).map(drop)
}

#[cfg(test)]
mod tests {
    use tenantd_store::codec::assert_golden;

    use super::*;

    #[test]
    fn the_stored_form_matches_its_golden_file() {
        assert_golden("workflow_cause", &CauseRecord { root: RunId::from_bytes([3; 16]), descendants: 300 });
    }
}
