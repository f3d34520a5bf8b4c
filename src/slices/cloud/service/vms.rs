//! The use cases of orders of VMs, and their results.

use std::{collections::BTreeMap, time::Duration};

use tenantd_base::{
    access::Reach,
    fault::Fault,
    id::{CloudProviderId, OperationId, OrganizationId, VmId},
    secrets::Secret,
};
use tenantd_store::{
    Read, WriteTx,
    events::{Act, Changes},
};

use super::{
    super::{
        error::CloudError,
        model::{
            CloudVm, Operation, OperationError, OperationStatus, OperationWork, OrderSpec, Provider, Size, Slot, SlotState, Vm,
            VmState,
        },
        repo::{operations, providers, vms},
    },
    Service, VM_CREATED, VM_PROVISION_FAILED, VM_PROVISIONING, VM_REMOVED, VM_STATE_CHANGED, announce_vm,
    providers::check_organization,
};

/// How long VMs may take to start before their operation fails.
const START_TIMEOUT: Duration = Duration::from_mins(15);

/// The VMs to create.
#[derive(Clone, Debug)]
pub(crate) struct NewVms {
    pub(crate) provider_id: CloudProviderId,
    pub(crate) organization_id: Option<OrganizationId>,
    pub(crate) name: String,
    pub(crate) region: String,
    pub(crate) zone: Option<String>,
    pub(crate) size: String,
    pub(crate) image: String,
    pub(crate) network: Option<String>,
    pub(crate) ssh_keys: Vec<String>,
    pub(crate) user_data: Option<Secret>,
    pub(crate) tags: BTreeMap<String, String>,
    pub(crate) count: u32,
    /// Fields with an invalid form. The service reports them together with its own findings.
    pub(crate) faults: Vec<Fault>,
}

impl NewVms {
    fn spec(&self) -> OrderSpec {
        OrderSpec {
            name: self.name.clone(),
            region: self.region.clone(),
            zone: self.zone.clone(),
            size: self.size.clone(),
            image: self.image.clone(),
            network: self.network.clone(),
            ssh_keys: self.ssh_keys.clone(),
            user_data: None,
            tags: self.tags.clone(),
            count: self.count,
        }
    }
}

/// The planned result of an order.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) provider: Provider,
    pub(crate) operation: Operation,
    pub(crate) vms: Vec<Vm>,
}

impl Service {
    /// Checks an order and plans its operation and VMs. Changes nothing.
    pub(crate) fn plan_vms(&self, tx: &impl Read, act: &mut Act, reach: &Reach, new: &NewVms) -> Result<Plan, CloudError> {
        let found = providers::get(tx, (act.tenant_id, new.provider_id))?;
        // A caller restricted to some organizations may order from their providers, and from shared providers for one of them.
        let reachable = |provider: &Provider| provider.organization_id.is_none() || reach.covers(provider.organization_id);
        let provider = found.filter(reachable);
        let mut faults = new.faults.clone();
        if provider.is_none() {
            let message = format!("the provider {} was not found", new.provider_id);
            faults.push(Fault::new("/provider_id", "not_found", message));
        }
        let organization_id = new.organization_id.or(provider.as_ref().and_then(|provider| provider.organization_id));
        // Without an organization in the order, that of the provider counts.
        if provider.is_some() || organization_id.is_some() {
            faults.extend(check_organization(tx, act, reach, organization_id)?);
        }
        let Some(provider) = provider.filter(|_| faults.is_empty()) else { return Err(CloudError::Invalid(faults)) };
        if !provider.enabled {
            return Err(CloudError::Disabled);
        }
        let id = OperationId::new(act.now, &mut act.entropy);
        let mut spec = new.spec();
        if let Some(user_data) = &new.user_data {
            let place = operations::user_data_place(&act.tenant_id, &id);
            spec.user_data = Some(self.sealer.seal(place, user_data, &mut act.entropy)?);
        }
        let vms: Vec<Vm> = (0..spec.count).map(|index| ordered_vm(act, new, &spec, id, index)).collect();
        let slots = vms.iter().map(|vm| Slot { vm_id: vm.id, tries: 0, state: SlotState::Waiting }).collect();
        let operation = Operation {
            id,
            tenant_id: act.tenant_id,
            organization_id,
            status: OperationStatus::Queued,
            work: OperationWork::Provision { provider_id: provider.id, spec: Box::new(spec), slots },
            actor: act.actor.clone(),
            created_at: act.now,
            updated_at: act.now,
            ended_at: None,
            due_at: Some(act.now),
            patience_until: act.now + START_TIMEOUT,
            version: 1,
        };
        Ok(Plan { provider, operation, vms })
    }

    /// Stores the order. A background task sends it to the cloud.
    pub(crate) fn order_vms(&self, tx: &mut WriteTx, act: &mut Act, reach: &Reach, new: &NewVms) -> Result<Plan, CloudError> {
        let plan = self.plan_vms(tx, act, reach, new)?;
        operations::put(tx, &plan.operation)?;
        for vm in &plan.vms {
            vms::put(tx, vm)?;
            announce_vm(tx, act, &VM_PROVISIONING, vm, None)?;
        }
        Ok(plan)
    }

    /// Records that the cloud created the VM of an order.
    pub(super) fn vm_created(tx: &mut WriteTx, act: &mut Act, id: VmId, facts: &CloudVm) -> Result<(), CloudError> {
        let Some(mut vm) = vms::get(tx, act.tenant_id, id)? else { return Ok(()) };
        // A sync may have stored the VM before it was known to belong to this order.
        if let Some(found) = vms::find(tx, (vm.tenant_id, vm.provider_id), &facts.provider_vm_id)?.filter(|found| found.id != id) {
            vms::remove(tx, &found)?;
            announce_vm(tx, act, &VM_REMOVED, &found, None)?;
        }
        let before = vm.facts.state;
        vm.apply_facts(facts, act.now);
        vm.discovered_at = act.now;
        vm.updated_at = act.now;
        vm.version += 1;
        vms::put(tx, &vm)?;
        announce_vm(tx, act, &VM_CREATED, &vm, None)?;
        if vm.facts.state != before {
            let changes = Changes::default().with("state", before.name(), vm.facts.state.name());
            announce_vm(tx, act, &VM_STATE_CHANGED, &vm, Some(changes))?;
        }
        Ok(())
    }

    /// Records that the order failed, or that its VM did not start.
    pub(super) fn vm_failed(tx: &mut WriteTx, act: &mut Act, id: VmId, error: &OperationError) -> Result<(), CloudError> {
        let Some(mut vm) = vms::get(tx, act.tenant_id, id)? else { return Ok(()) };
        if !vm.is_known() {
            vm.facts.state = VmState::Error;
            vm.facts.provider_state.clone_from(&error.code);
            vm.facts.state_note = Some(error.message.clone());
            vm.ended_at = Some(act.now);
            vm.updated_at = act.now;
            vm.version += 1;
            vms::put(tx, &vm)?;
        }
        announce_vm(tx, act, &VM_PROVISION_FAILED, &vm, None)
    }
}

fn ordered_vm(act: &mut Act, new: &NewVms, spec: &OrderSpec, operation: OperationId, index: u32) -> Vm {
    Vm {
        id: VmId::new(act.now, &mut act.entropy),
        tenant_id: act.tenant_id,
        provider_id: new.provider_id,
        facts: CloudVm {
            provider_vm_id: String::new(),
            name: spec.name_of(index),
            state: VmState::Provisioning,
            provider_state: "ordered".to_owned(),
            state_note: None,
            region: spec.region.clone(),
            zone: spec.zone.clone(),
            size: Size { id: spec.size.clone(), vcpus: None, memory_bytes: None },
            image: Some(spec.image.clone()),
            private_ips: Vec::new(),
            public_ips: Vec::new(),
            tags: spec.tags.clone(),
            launched_at: None,
            unread: Vec::new(),
        },
        organization_id: new.organization_id,
        operation_id: Some(operation),
        discovered_at: act.now,
        last_seen_at: None,
        missed: 0,
        ended_at: None,
        updated_at: act.now,
        version: 1,
    }
}
