//! VMs. The key starts with the provider, because a sync scans all VMs of a provider. Indexes find a VM by its id and by the
//! provider's own id.

use std::{collections::BTreeMap, net::IpAddr};

use serde::Deserialize;

use tenantd_base::{
    clock::Timestamp,
    id::{CloudProviderId, OperationId, OrganizationId, TenantId, VmId},
};
use tenantd_store::{
    Counts, Direction, Flow, Index, Key, KeyRange, Read, StoreError, Table, WriteTx, catalog,
    codec::{Record, decode_fields},
};

use super::super::model::{CloudVm, Size, Vm, VmState};

pub(crate) type VmKey = (TenantId, CloudProviderId, VmId);

impl Record for Vm {
    const VERSION: u8 = 2;

    fn upgrade(version: u8, fields: &[u8]) -> Result<Self, String> {
        match version {
            1 => decode_fields::<VmV1>(fields).map(Self::from),
            _ => Err(format!("format version {version} is not known to this release")),
        }
    }
}

/// Version 1 has no `unread`.
#[derive(Deserialize)]
struct CloudVmV1 {
    provider_vm_id: String,
    name: String,
    state: VmState,
    provider_state: String,
    state_note: Option<String>,
    region: String,
    zone: Option<String>,
    size: Size,
    image: Option<String>,
    private_ips: Vec<IpAddr>,
    public_ips: Vec<IpAddr>,
    tags: BTreeMap<String, String>,
    launched_at: Option<Timestamp>,
}

#[derive(Deserialize)]
struct VmV1 {
    id: VmId,
    tenant_id: TenantId,
    provider_id: CloudProviderId,
    facts: CloudVmV1,
    organization_id: Option<OrganizationId>,
    operation_id: Option<OperationId>,
    discovered_at: Timestamp,
    last_seen_at: Option<Timestamp>,
    missed: u32,
    ended_at: Option<Timestamp>,
    updated_at: Timestamp,
    version: u64,
}

impl From<VmV1> for Vm {
    fn from(vm: VmV1) -> Self {
        let facts = vm.facts;
        Self {
            id: vm.id,
            tenant_id: vm.tenant_id,
            provider_id: vm.provider_id,
            facts: CloudVm {
                provider_vm_id: facts.provider_vm_id,
                name: facts.name,
                state: facts.state,
                provider_state: facts.provider_state,
                state_note: facts.state_note,
                region: facts.region,
                zone: facts.zone,
                size: facts.size,
                image: facts.image,
                private_ips: facts.private_ips,
                public_ips: facts.public_ips,
                tags: facts.tags,
                launched_at: facts.launched_at,
                unread: Vec::new(),
            },
            organization_id: vm.organization_id,
            operation_id: vm.operation_id,
            discovered_at: vm.discovered_at,
            last_seen_at: vm.last_seen_at,
            missed: vm.missed,
            ended_at: vm.ended_at,
            updated_at: vm.updated_at,
            version: vm.version,
        }
    }
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

/// The VM with this id at the provider.
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

/// VMs of all tenants that follow `after`, in id order.
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
