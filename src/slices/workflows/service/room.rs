//! Whether a tenant has room for what its runs store.

use tenantd_base::quotas::{Allowance, Quota};
use tenantd_store::{WriteTx, steps::StepError, usage};

use super::super::{error::WorkflowError, model::Run, steps::QUOTA_EXCEEDED};

/// Refuses what the write has added for a run if the tenant has no room for it, with the reserve that changes have. The caller takes the
/// write back. A run that has ended needs room for its bytes only: the event of its end is always told.
pub(crate) fn ensure_room(tx: &WriteTx, run: &Run) -> Result<(), WorkflowError> {
    let among: &[Quota] = if run.status.has_ended() { &[Quota::StoredBytes] } else { &Quota::COUNTED };
    match usage::exceeded(tx, run.tenant_id, Allowance::Reserve, among)? {
        Some(exceeded) => Err(WorkflowError::Step(StepError::new(QUOTA_EXCEEDED, exceeded.to_string()))),
        None => Ok(()),
    }
}
