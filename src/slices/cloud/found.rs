//! Providers and VMs for the search index: their names, locations and organizations.

use std::{collections::BTreeMap, net::IpAddr};

use tenantd_base::{
    clock::Timestamp,
    id::{CloudProviderId, OrganizationId, TenantId, VmId},
};
use tenantd_store::{Read, StoreError};

use super::{
    model::{Provider, Vm},
    repo::{providers, vms},
};

#[derive(Clone, Debug)]
pub struct ProviderLabel {
    pub tenant_id: TenantId,
    pub id: CloudProviderId,
    pub name: String,
    /// Such as `aws`.
    pub kind: &'static str,
    pub enabled: bool,
    pub organization_id: Option<OrganizationId>,
    pub updated_at: Timestamp,
}

impl From<Provider> for ProviderLabel {
    fn from(provider: Provider) -> Self {
        Self {
            tenant_id: provider.tenant_id,
            id: provider.id,
            name: provider.name,
            kind: provider.kind.name(),
            enabled: provider.enabled,
            organization_id: provider.organization_id,
            updated_at: provider.updated_at,
        }
    }
}

#[derive(Clone, Debug)]
pub struct VmLabel {
    pub tenant_id: TenantId,
    pub id: VmId,
    pub name: String,
    pub provider_vm_id: String,
    pub provider: String,
    pub region: String,
    pub size: String,
    /// The state's name in the API.
    pub state: &'static str,
    pub addresses: Vec<IpAddr>,
    pub tags: Vec<(String, String)>,
    pub organization_id: Option<OrganizationId>,
    pub updated_at: Timestamp,
}

/// `None` for a VM that has ended or whose provider was deleted.
fn label(tx: &impl Read, vm: Vm) -> Result<Option<VmLabel>, StoreError> {
    if vm.ended_at.is_some() {
        return Ok(None);
    }
    let Some(provider) = providers::get(tx, (vm.tenant_id, vm.provider_id))? else { return Ok(None) };
    let facts = vm.facts;
    Ok(Some(VmLabel {
        tenant_id: vm.tenant_id,
        id: vm.id,
        name: facts.name,
        provider_vm_id: facts.provider_vm_id,
        provider: provider.name,
        region: facts.region,
        size: facts.size.id,
        state: facts.state.name(),
        addresses: facts.private_ips.into_iter().chain(facts.public_ips).collect(),
        tags: facts.tags.into_iter().collect(),
        organization_id: vm.organization_id.or(provider.organization_id),
        updated_at: vm.updated_at,
    }))
}

pub fn provider(tx: &impl Read, tenant: TenantId, id: CloudProviderId) -> Result<Option<ProviderLabel>, StoreError> {
    Ok(providers::get(tx, (tenant, id))?.map(ProviderLabel::from))
}

/// Providers of all tenants that follow `after`, in key order.
pub fn providers_after(
    tx: &impl Read,
    after: Option<(TenantId, CloudProviderId)>,
    limit: usize,
) -> Result<Vec<ProviderLabel>, StoreError> {
    Ok(providers::list_after(tx, after, limit)?.into_iter().map(ProviderLabel::from).collect())
}

pub fn vm(tx: &impl Read, tenant: TenantId, id: VmId) -> Result<Option<VmLabel>, StoreError> {
    match vms::get(tx, tenant, id)? {
        Some(vm) => label(tx, vm),
        None => Ok(None),
    }
}

/// A VM that a scan read, with its label if the search should find it.
pub type ScannedVm = ((TenantId, VmId), Option<VmLabel>);

/// VMs of all tenants that follow `after`, in id order.
pub fn vms_after(tx: &impl Read, after: Option<(TenantId, VmId)>, limit: usize) -> Result<Vec<ScannedVm>, StoreError> {
    let found = vms::list_after(tx, after, limit)?;
    found.into_iter().map(|vm| Ok(((vm.tenant_id, vm.id), label(tx, vm)?))).collect()
}

/// The VMs of a provider. Their labels change when the provider changes.
pub fn vms_of(tx: &impl Read, tenant: TenantId, provider: CloudProviderId) -> Result<Vec<VmId>, StoreError> {
    Ok(vms::of_provider(tx, (tenant, provider), usize::MAX)?.into_iter().map(|vm| vm.id).collect())
}

/// The number of the tenant's VMs in each state, without VMs that have ended.
pub fn vms_by_state(tx: &impl Read, tenant: TenantId) -> Result<BTreeMap<&'static str, u64>, StoreError> {
    let mut states = BTreeMap::new();
    for vm in vms::of_tenant(tx, tenant)?.iter().filter(|vm| vm.ended_at.is_none()) {
        *states.entry(vm.facts.state.name()).or_default() += 1;
    }
    Ok(states)
}
