//! The effective policy of a device or an organization: its chain of scopes, read once per operation.

use std::collections::HashMap;

use tenantd_base::id::{DeviceId, OrganizationId, TenantId};
use tenantd_store::{Read, StoreError};

use super::super::{
    model::{OwnConfig, Policy, Scope, resolve},
    repo::configs,
};

/// The maximum number of scopes of a tenant with their own settings.
pub(crate) const MAX_CONFIGS: usize = 5_000;

/// The own settings of all scopes of a tenant, for operations on many devices.
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

    /// Replaces the settings of one scope.
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

    /// The organizations and devices with their own settings.
    pub(super) fn own_scopes(&self) -> (impl Iterator<Item = OrganizationId>, impl Iterator<Item = DeviceId>) {
        (self.organizations.keys().copied(), self.devices.keys().copied())
    }
}

/// The effective policy of one device.
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
