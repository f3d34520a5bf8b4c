//! Follows the event log and warns tenants that are close to a limit. Every use of a quota appends an event, so the log shows which
//! tenants to check.

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
        let is_quota_event = |event: &Event| [WARNING.name, REACHED.name].contains(&event.record.kind.as_str());
        let busy = events.iter().filter(|event| !event.is_imported() && !event.record.is_erased() && !is_quota_event(event));
        for tenant in busy.map(|event| event.record.tenant_id).collect::<BTreeSet<_>>() {
            self.check_tenant(tx, tenant).map_err(|error| match error {
                QuotaError::Store(error) => error,
                other => StoreError::engine(other),
            })?;
        }
        Ok(())
    }
}

impl QuotaWatch {
    fn check_tenant(&self, tx: &mut WriteTx, tenant: TenantId) -> Result<(), QuotaError> {
        match self.service.tenants.get(tx, tenant) {
            // The platform tenant has no limits, and a removed tenant needs no warning.
            Ok(found) if found.kind == TenantKind::Platform => return Ok(()),
            Err(TenantError::NotFound) => return Ok(()),
            other => other?,
        };
        let mut act = Intent::new(tenant, self.clocks.now(tenant), Actor::system("Quotas")).begin();
        self.service.warn(tx, &mut act)
    }
}
