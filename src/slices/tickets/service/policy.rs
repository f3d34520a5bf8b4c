//! Changes the service levels of a tenant.

use tenantd_base::versions::ExpectedVersion;
use tenantd_store::{
    WriteTx,
    events::{self, Act, Describe, Draft},
};

use super::{SLA_UPDATED, Service};
use crate::{error::TicketError, repo, sla::SlaPolicy};

impl Service {
    /// Replaces the service levels. The new ones apply to tickets that are created, and clocks that start, from now on.
    pub(crate) fn replace_policy(
        &self,
        tx: &mut WriteTx,
        act: &mut Act,
        expected: &ExpectedVersion,
        new: &SlaPolicy,
    ) -> Result<SlaPolicy, TicketError> {
        let faults = new.faults();
        if !faults.is_empty() {
            return Err(TicketError::Invalid(faults));
        }
        let current = self.policy(tx, act.tenant_id)?;
        expected.check(current.version)?;
        let mut policy = SlaPolicy { version: current.version, updated_at: current.updated_at, ..new.clone() };
        if policy == current && current.version > 0 {
            return Ok(current);
        }
        policy.version += 1;
        policy.updated_at = Some(act.now);
        repo::put_policy(tx, act.tenant_id, &policy, act.now)?;
        let shown = policy.describe(())?;
        let draft = Draft::new(&SLA_UPDATED, act.tenant_id.to_string(), policy.version, &shown);
        events::append(tx, act, &draft)?;
        Ok(policy)
    }
}
