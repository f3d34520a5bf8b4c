//! Gives roles to people who still wait for one: a server stopped before it was done, a step failed, or the tenant was imported.

use std::time::Duration;

use tenantd_base::{clock::Clock, id::TenantId};
use tenantd_platform::{TenantStatus, Tenants};
use tenantd_store::{
    Store, StoreError,
    events::Actor,
    tasks::{Done, Task, TaskError},
};

use super::service::{self, Service};

#[derive(Debug)]
pub(super) struct RoleUpkeep {
    pub(super) store: Store,
    pub(super) clock: Clock,
    pub(super) tenants: Tenants,
    pub(super) service: Service,
}

impl Task for RoleUpkeep {
    fn name(&self) -> &'static str {
        "provisioning_roles"
    }

    fn period(&self) -> Duration {
        Duration::from_mins(1)
    }

    async fn activate(&self) -> Result<Done, TaskError> {
        let (mut after, mut failed) = (None, None);
        while let Some(tenant) = self.store.read(|tx| service::waiting(tx, after))? {
            if self.is_active(tenant)? {
                let intent = self.tenants.guarding_intent(tenant, self.clock.now(), Actor::system("provisioning"));
                let service = self.service.clone();
                match self.store.write(move |tx| service.settle_some(tx, &mut intent.begin())).await {
                    Ok(_) => return Ok(Done::Some),
                    // The people of other tenants do not wait for this one.
                    Err(error) => failed = Some(TaskError(error.to_string())),
                }
            }
            after = Some(tenant);
        }
        failed.map_or(Ok(Done::All), Err)
    }
}

impl RoleUpkeep {
    /// A tenant that is being imported does not exist yet, and a suspended one runs no background work.
    fn is_active(&self, tenant: TenantId) -> Result<bool, StoreError> {
        let tenant = self.tenants.cached(tenant)?;
        Ok(tenant.as_ref().as_ref().is_some_and(|tenant| tenant.status == TenantStatus::Active))
    }
}
