//! Whether a tenant has room for the data of its runs.

use tenantd_base::quotas::{Allowance, Quota};
use tenantd_store::{WriteTx, steps::StepError, usage};

use super::super::{error::WorkflowError, model::Run, steps::QUOTA_EXCEEDED};

/// Refuses the data that the transaction added for a run if the tenant has no room for it, including the reserve for changes. The
/// caller rolls back the transaction. A run that has ended only needs room for its bytes: the event of its end is always appended.
pub(crate) fn ensure_room(tx: &WriteTx, run: &Run) -> Result<(), WorkflowError> {
    let among: &[Quota] = if run.status.has_ended() { &[Quota::StoredBytes] } else { &Quota::COUNTED };
    match usage::exceeded(tx, run.tenant_id, Allowance::Reserve, among)? {
        Some(exceeded) => Err(WorkflowError::Step(StepError::new(QUOTA_EXCEEDED, exceeded.to_string()))),
        None => Ok(()),
    }
}
