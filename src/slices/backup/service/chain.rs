//! What holds for a device or an organization: the chain of scopes above it, read once for as long as one piece of work takes.

use std::collections::HashMap;

use tenantd_base::id::{DeviceId, OrganizationId, TenantId};
use tenantd_store::{Read, StoreError};

use super::super::{
    model::{OwnConfig, Policy, Scope, resolve},
    repo::configs,
};

/// How many scopes of a tenant can have settings of their own.
pub(crate) const MAX_CONFIGS: usize = 5_000;

/// All that a tenant's scopes have set, for those who look at many of its devices.
#[derive(Clone, Debug, Default)]
pub(crate) struct Chains {
    tenant: OwnConfig,
    organizations: HashMap<OrganizationId, OwnConfig>,
    devices: HashMap<DeviceId, OwnConfig>,
}

impl Chains {
    pub(crate) fn read(tx: &impl Read, tenant: TenantId) -> Result<Self, StoreError> {
        let mut chains = Self::default();
        for (scope, record) in configs::list(tx, tenant, MAX_CONFIGS)? {
            chains.set(scope, record.own);
        }
        Ok(chains)
    }

    /// The same with another setting for one scope.
    pub(super) fn with(&self, scope: Scope, own: OwnConfig) -> Self {
        let mut chains = self.clone();
        chains.set(scope, own);
        chains
    }

    fn set(&mut self, scope: Scope, own: OwnConfig) {
        match scope {
            Scope::Tenant => self.tenant = own,
            Scope::Organization(id) => drop(self.organizations.insert(id, own)),
            Scope::Device(id) => drop(self.devices.insert(id, own)),
        }
    }

    pub(crate) fn of_organization(&self, organization: OrganizationId) -> Policy {
        let chain: Vec<&OwnConfig> = [Some(&self.tenant), self.organizations.get(&organization)].into_iter().flatten().collect();
        resolve(&chain).0
    }

    pub(crate) fn of_device(&self, organization: OrganizationId, device: DeviceId) -> Policy {
        let chain = [Some(&self.tenant), self.organizations.get(&organization), self.devices.get(&device)];
        resolve(&chain.into_iter().flatten().collect::<Vec<_>>()).0
    }

    pub(super) fn has_own(&self, device: DeviceId) -> bool {
        self.devices.contains_key(&device)
    }

    /// Organizations and devices with settings of their own.
    pub(super) fn own_scopes(&self) -> (impl Iterator<Item = OrganizationId>, impl Iterator<Item = DeviceId>) {
        (self.organizations.keys().copied(), self.devices.keys().copied())
    }
}

/// What holds for one device.
pub(super) fn device_policy(
    tx: &impl Read,
    tenant: TenantId,
    organization: OrganizationId,
    device: DeviceId,
) -> Result<Policy, StoreError> {
    let scopes = [Scope::Tenant, Scope::Organization(organization), Scope::Device(device)];
    let own = scopes.into_iter().map(|scope| configs::get(tx, tenant, scope)).collect::<Result<Vec<_>, _>>()?;
    let chain: Vec<&OwnConfig> = own.iter().flatten().map(|record| &record.own).collect();
    Ok(resolve(&chain).0)
}
