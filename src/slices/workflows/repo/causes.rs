//! What a run has led to: how many runs and records come of the one that everything began with. Depth bounds how far runs lead to one
//! another; this bounds how many there are, so that no loop fills the disk.

use serde::{Deserialize, Serialize};

use tenantd_base::id::{RunId, TenantId};
use tenantd_store::{Read, StoreError, Table, WriteTx, catalog, codec::Record};

use super::runs::RunKey;

/// Of a run that another one has led to, or that has led to something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct CauseRecord {
    /// The run that everything began with.
    root: RunId,
    /// Of a root: the runs and records that have come of it.
    descendants: u64,
}

impl Record for CauseRecord {
    const VERSION: u8 = 1;
}

pub(crate) static CAUSES: Table<RunKey, CauseRecord> = Table::new(catalog::WORKFLOW_CAUSES, &[]);

/// The run that this one comes of; itself, if nothing has led to it.
pub(crate) fn root_of(tx: &impl Read, run: RunKey) -> Result<RunId, StoreError> {
    Ok(CAUSES.get(tx, &run)?.map_or(run.1, |cause| cause.root))
}

/// Notes what a run comes of.
pub(crate) fn adopt(tx: &mut WriteTx, run: RunKey, root: RunId) -> Result<(), StoreError> {
    CAUSES.put(tx, &run, &CauseRecord { root, descendants: 0 })
}

/// Counts more descendants of a root. Whether there are no more than so many.
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
    fn the_stored_form_is_that_which_was_written_down() {
        assert_golden("workflow_cause", &CauseRecord { root: RunId::from_bytes([3; 16]), descendants: 300 });
    }
}
