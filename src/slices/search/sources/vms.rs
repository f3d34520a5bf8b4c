//! VMs: found by name, provider id, address and tag, until they are terminated.

use tenantd_base::id::{TenantId, VmId};
use tenantd_cloud::{self as cloud, VmLabel};
use tenantd_store::{ReadTx, StoreError};

use super::{
    super::{
        model::{Attribute, Document, Kind, RecordId, State},
        text,
    },
    After, Scanned, Source, joined, scanned,
};

pub(super) struct Vms;

fn document(vm: VmLabel) -> Document {
    let mut attributes: Vec<(Attribute, String)> =
        vm.addresses.iter().map(|address| (Attribute::Ip, text::identifier(&address.to_string()))).collect();
    attributes.extend(vm.tags.iter().map(|(key, value)| (Attribute::Tag, text::fold(&format!("{key}={value}")))));
    attributes.extend(vm.tags.iter().map(|(key, _)| (Attribute::Tag, text::fold(key))));
    let mut texts = vec![("provider", vm.provider.clone()), ("region", vm.region.clone()), ("size", vm.size.clone())];
    texts.extend(vm.tags.into_iter().map(|(key, value)| ("tag", format!("{key} {value}"))));
    let mut identifiers: Vec<(&'static str, String)> = vm.addresses.iter().map(|address| ("ip", address.to_string())).collect();
    identifiers.extend((!vm.provider_vm_id.is_empty()).then_some(("provider_vm_id", vm.provider_vm_id)));
    Document {
        tenant_id: vm.tenant_id,
        kind: Kind::Vm,
        id: *vm.id.as_bytes(),
        shown_id: vm.id.to_string(),
        name: vm.name,
        subtitle: joined([Some(vm.provider.as_str()), Some(vm.region.as_str()), Some(vm.size.as_str())]),
        texts,
        identifiers,
        attributes,
        software: Vec::new(),
        organization_id: vm.organization_id,
        state: State::parse(vm.state),
        updated_at: vm.updated_at,
    }
}

impl Source for Vms {
    fn kind(&self) -> Kind {
        Kind::Vm
    }

    fn subject(&self) -> &'static str {
        "vm"
    }

    fn read_id(&self, text: &str) -> Option<RecordId> {
        text.parse::<VmId>().ok().map(|id| *id.as_bytes())
    }

    fn load(&self, tx: &ReadTx, tenant: TenantId, id: RecordId) -> Result<Option<Document>, StoreError> {
        Ok(cloud::vm(tx, tenant, VmId::from_bytes(id))?.map(document))
    }

    fn scan(&self, tx: &ReadTx, after: Option<After>, limit: usize) -> Result<Scanned, StoreError> {
        let after = after.map(|(tenant, id)| (tenant, VmId::from_bytes(id.to_be_bytes())));
        let records = cloud::vms_after(tx, after, limit)?;
        scanned(
            records,
            limit,
            |((tenant, id), _)| (*tenant, u128::from_be_bytes(*id.as_bytes())),
            |(_, label)| Ok(label.map(document)),
        )
    }
}
