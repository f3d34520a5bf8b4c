//! Follows the log, and tells tenants how near their limits are. Every use of a quota appends an event, so the log says who to look at.

use std::{collections::BTreeSet, time::Duration};

use tenantd_base::{access::TenantKind, clocks::Clocks, id::TenantId};
use tenantd_platform::TenantError;
use tenantd_store::{
    StoreError, WriteTx,
    events::{Actor, Consumer, Event, Intent},
};

use super::service::{QuotaError, REACHED, Service, WARNING};

pub(super) const NAME: &str = "quota_watch";

#[derive(Debug)]
pub(super) struct QuotaWatch {
    pub(super) clocks: Clocks,
    pub(super) service: Service,
}

impl Consumer for QuotaWatch {
    fn name(&self) -> &'static str {
        NAME
    }

    fn gathers(&self) -> Duration {
        Duration::from_millis(500)
    }

    fn handle(&self, tx: &mut WriteTx, events: &[Event]) -> Result<(), StoreError> {
        let is_own = |event: &Event| [WARNING.name, REACHED.name].contains(&event.record.kind.as_str());
        let busy = events.iter().filter(|event| !event.is_imported() && !event.record.is_erased() && !is_own(event));
        for tenant in busy.map(|event| event.record.tenant_id).collect::<BTreeSet<_>>() {
            self.look_at(tx, tenant).map_err(|error| match error {
                QuotaError::Store(error) => error,
                other => StoreError::engine(other),
            })?;
        }
        Ok(())
    }
}

impl QuotaWatch {
    fn look_at(&self, tx: &mut WriteTx, tenant: TenantId) -> Result<(), QuotaError> {
        match self.service.tenants.get(tx, tenant) {
            // The operator's own tenant has no limits, and one that is gone has nobody to tell.
            Ok(found) if found.kind == TenantKind::Platform => return Ok(()),
            Err(TenantError::NotFound) => return Ok(()),
            other => other?,
        };
        let mut act = Intent::new(tenant, self.clocks.now(tenant), Actor::system("Quotas")).begin();
        self.service.tell(tx, &mut act)
    }
}
