//! Stored workflows and runs, and their indexes.

pub(super) mod causes;
pub(super) mod portable;
pub(super) mod queue;
pub(super) mod runs;
pub(super) mod workflows;

use serde::{Deserialize, Serialize};

use tenantd_base::id::TenantId;
use tenantd_store::{Read, StoreError, Table, WriteTx, catalog, codec::Record};

#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(super) struct Counts {
    pub(super) workflows: u64,
    pub(super) active_runs: u64,
}

impl Record for Counts {
    const VERSION: u8 = 1;
}

pub(super) static COUNTS: Table<TenantId, Counts> = Table::new(catalog::WORKFLOW_COUNTS, &[]);

pub(super) fn counts(tx: &impl Read, tenant: TenantId) -> Result<Counts, StoreError> {
    Ok(COUNTS.get(tx, &tenant)?.unwrap_or_default())
}

fn count(tx: &mut WriteTx, tenant: TenantId, workflows: i64, active_runs: i64) -> Result<(), StoreError> {
    if workflows == 0 && active_runs == 0 {
        return Ok(());
    }
    let mut counts = counts(tx, tenant)?;
    counts.workflows = counts.workflows.saturating_add_signed(workflows);
    counts.active_runs = counts.active_runs.saturating_add_signed(active_runs);
    COUNTS.put(tx, &tenant, &counts)
}

#[cfg(test)]
mod tests;
