//! VMs. They lie by provider, as a sync goes through them; an id leads to its VM, and a provider's own id to the one that has it.

use tenantd_base::id::{CloudProviderId, TenantId, VmId};
use tenantd_store::{Counts, Direction, Flow, Index, Key, KeyRange, Read, StoreError, Table, WriteTx, catalog, codec::Record};

use super::super::model::Vm;

pub(crate) type VmKey = (TenantId, CloudProviderId, VmId);

impl Record for Vm {
    const VERSION: u8 = 1;
}

static BY_ID: Index<VmKey, Vm> = Index { table: catalog::VMS_BY_ID, unique: true, keys: |key, _| vec![(key.0, key.2).to_bytes()] };
static BY_PROVIDER_VM: Index<VmKey, Vm> = Index {
    table: catalog::VMS_BY_PROVIDER_VM,
    unique: true,
    keys: |key, vm| {
        let entry = || (key.0, key.1, vm.facts.provider_vm_id.clone()).to_bytes();
        vm.is_known().then(entry).into_iter().collect()
    },
};

pub(crate) static VMS: Table<VmKey, Vm> = Table::new(catalog::VMS, &[&BY_ID, &BY_PROVIDER_VM]).counting(Counts::Records);

fn key(vm: &Vm) -> VmKey {
    (vm.tenant_id, vm.provider_id, vm.id)
}

pub(crate) fn get(tx: &impl Read, tenant: TenantId, id: VmId) -> Result<Option<Vm>, StoreError> {
    let Some(key) = BY_ID.find(tx, &(tenant, id).to_bytes())? else { return Ok(None) };
    VMS.get(tx, &key)
}

/// The VM that the provider knows by this id.
pub(crate) fn find(
    tx: &impl Read,
    (tenant, provider): (TenantId, CloudProviderId),
    provider_vm_id: &str,
) -> Result<Option<Vm>, StoreError> {
    let Some(key) = BY_PROVIDER_VM.find(tx, &(tenant, provider, provider_vm_id.to_owned()).to_bytes())? else {
        return Ok(None);
    };
    VMS.get(tx, &key)
}

pub(crate) fn put(tx: &mut WriteTx, vm: &Vm) -> Result<(), StoreError> {
    VMS.put(tx, &key(vm), vm)
}

pub(crate) fn remove(tx: &mut WriteTx, vm: &Vm) -> Result<(), StoreError> {
    VMS.remove(tx, &key(vm)).map(drop)
}

fn list(tx: &impl Read, prefix: &[u8], limit: usize) -> Result<Vec<Vm>, StoreError> {
    let mut found = Vec::new();
    VMS.scan(tx, &KeyRange::prefix(prefix), Direction::Forward, |_, vm| {
        found.push(vm);
        Ok(if found.len() < limit { Flow::Continue } else { Flow::Stop })
    })?;
    Ok(found)
}

/// VMs of all tenants behind one of them, in the order of their ids.
pub(crate) fn list_after(tx: &impl Read, after: Option<(TenantId, VmId)>, limit: usize) -> Result<Vec<Vm>, StoreError> {
    let range = after.map_or(KeyRange::ALL, |key| KeyRange::ALL.after(&key.to_bytes(), Direction::Forward));
    let mut found = Vec::new();
    for key in BY_ID.list(tx, &range, limit)? {
        found.extend(VMS.get(tx, &key)?);
    }
    Ok(found)
}

/// A provider's VMs, at most `limit`.
pub(crate) fn of_provider(tx: &impl Read, provider: (TenantId, CloudProviderId), limit: usize) -> Result<Vec<Vm>, StoreError> {
    list(tx, &provider.to_bytes(), limit)
}

/// All VMs of a tenant.
pub(crate) fn of_tenant(tx: &impl Read, tenant: TenantId) -> Result<Vec<Vm>, StoreError> {
    list(tx, &tenant.to_bytes(), usize::MAX)
}
