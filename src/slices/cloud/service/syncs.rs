//! The results of a sync: new, changed and missing VMs, and the end of the sync itself.

use tenantd_base::{clock::Timestamp, id::VmId};
use tenantd_store::{
    WriteTx,
    events::{Act, Changes},
};

use super::{
    super::{
        error::CloudError,
        model::{CloudVm, Operation, OperationWork, OrderToken, Provider, SlotState, SyncError, SyncGaps, Vm, VmState},
        repo::{operations, providers, vms},
    },
    Service, VM_CREATED, VM_REMOVED, VM_STATE_CHANGED, VM_UPDATED, announce_vm,
};

/// One difference between the cloud and the store.
#[derive(Clone, Debug)]
pub(crate) enum SyncChange {
    Found(Box<CloudVm>),
    Missing(VmId),
    /// The VM ended long ago.
    Expired(VmId),
}

/// The amount of data that a sync read.
#[derive(Clone, Debug)]
pub(crate) struct SyncCounts {
    pub(crate) vms: u64,
    pub(crate) gaps: Option<SyncGaps>,
}

/// The start and the result of a sync.
#[derive(Clone, Debug)]
pub(crate) struct SyncEnd {
    pub(crate) started_at: Timestamp,
    pub(crate) result: Result<SyncCounts, SyncError>,
}

/// The orders that the cloud may have carried out before their result was stored.
struct OpenOrders(Vec<Operation>);

impl OpenOrders {
    /// Whether an unknown VM belongs to an open order. The operation of the order then stores it.
    fn claim(&self, facts: &CloudVm) -> bool {
        let token = facts.tags.get(OrderToken::TAG);
        self.0.iter().any(|operation| {
            let OperationWork::Provision { spec, slots, .. } = &operation.work else { return false };
            slots.iter().zip(0..).filter(|(slot, _)| matches!(slot.state, SlotState::Waiting | SlotState::Ordered)).any(
                |(_, index)| match token {
                    Some(token) => *token == operation.token(index).to_string(),
                    None => facts.name == spec.name_of(index),
                },
            )
        })
    }
}

impl Service {
    /// Applies a batch of the changes that a sync found. The next sync handles what changed in the meantime.
    pub(crate) fn apply_sync(
        tx: &mut WriteTx,
        act: &mut Act,
        provider: &Provider,
        changes: &[SyncChange],
    ) -> Result<(), CloudError> {
        let key = (provider.tenant_id, provider.id);
        // The provider may have been deleted during the sync.
        if providers::get(tx, key)?.is_none() {
            return Ok(());
        }
        let orders = OpenOrders(operations::open(tx, key)?);
        let last_sync = providers::sync(tx, key)?.last_at;
        for change in changes {
            match change {
                SyncChange::Found(facts) => match vms::find(tx, key, &facts.provider_vm_id)? {
                    Some(vm) => Self::update_vm(tx, act, vm, facts)?,
                    None if facts.state == VmState::Terminated || orders.claim(facts) => {}
                    None => Self::discover(tx, act, provider, facts)?,
                },
                SyncChange::Missing(id) => {
                    if let Some(vm) = vms::get(tx, act.tenant_id, *id)?.filter(|vm| vm.ended_at.is_none()) {
                        Self::mark_missing(tx, act, vm, last_sync)?;
                    }
                }
                SyncChange::Expired(id) => {
                    if let Some(vm) = vms::get(tx, act.tenant_id, *id)?.filter(|vm| vm.ended_at.is_some()) {
                        vms::remove(tx, &vm)?;
                    }
                }
            }
        }
        Ok(())
    }

    fn discover(tx: &mut WriteTx, act: &mut Act, provider: &Provider, facts: &CloudVm) -> Result<(), CloudError> {
        let vm = Vm {
            id: VmId::new(act.now, &mut act.entropy),
            tenant_id: act.tenant_id,
            provider_id: provider.id,
            facts: facts.clone(),
            organization_id: None,
            operation_id: None,
            discovered_at: act.now,
            last_seen_at: None,
            missed: 0,
            ended_at: None,
            updated_at: act.now,
            version: 1,
        };
        vms::put(tx, &vm)?;
        announce_vm(tx, act, &VM_CREATED, &vm, None)
    }

    /// Applies what a cloud reports about a known VM.
    pub(super) fn update_vm(tx: &mut WriteTx, act: &mut Act, mut vm: Vm, facts: &CloudVm) -> Result<(), CloudError> {
        let before = vm.clone();
        if vm.apply_facts(facts, act.now) { Self::store_change(tx, act, &before, vm) } else { Ok(()) }
    }

    fn mark_missing(tx: &mut WriteTx, act: &mut Act, mut vm: Vm, last_sync: Option<Timestamp>) -> Result<(), CloudError> {
        let before = vm.clone();
        vm.record_miss(last_sync, act.now);
        Self::store_change(tx, act, &before, vm)
    }

    /// Stores a changed VM and appends its events.
    fn store_change(tx: &mut WriteTx, act: &mut Act, before: &Vm, mut vm: Vm) -> Result<(), CloudError> {
        vm.updated_at = act.now;
        vm.version += 1;
        vms::put(tx, &vm)?;
        if vm.facts.state != before.facts.state {
            let changes = Changes::default().with("state", before.facts.state.name(), vm.facts.state.name());
            announce_vm(tx, act, &VM_STATE_CHANGED, &vm, Some(changes))?;
        } else if vm.facts != before.facts {
            announce_vm(tx, act, &VM_UPDATED, &vm, None)?;
        }
        if vm.ended_at.is_some() && before.ended_at.is_none() {
            announce_vm(tx, act, &VM_REMOVED, &vm, None)?;
        }
        Ok(())
    }

    /// Stores the result of a sync and the time of the next one, and ends the refreshes that waited for it.
    pub(crate) fn end_sync(tx: &mut WriteTx, act: &mut Act, provider: &Provider, end: &SyncEnd) -> Result<(), CloudError> {
        let key = (provider.tenant_id, provider.id);
        let Some(provider) = providers::get(tx, key)? else { return Ok(()) };
        let mut sync = providers::sync(tx, key)?;
        match &end.result {
            Ok(counts) => {
                sync.last_at = Some(end.started_at);
                sync.vm_count = counts.vms;
                sync.gaps.clone_from(&counts.gaps);
                (sync.error, sync.failures) = (None, 0);
            }
            Err(error) => {
                sync.error = Some(error.clone());
                sync.failures = sync.failures.saturating_add(1);
            }
        }
        let mut refresh_pending = false;
        for mut operation in operations::open(tx, key)? {
            if !matches!(operation.work, OperationWork::Refresh { .. }) {
                continue;
            }
            // A refresh that was requested during this sync waits for the next one.
            if operation.created_at > end.started_at {
                refresh_pending = true;
            } else {
                Self::end_refresh(tx, act, &mut operation, provider.id, end.result.as_ref().err())?;
            }
        }
        let pause = provider.pause(sync.failures);
        let jitter = act.entropy.below(u64::try_from(pause.as_millis() / 10).unwrap_or_default() + 1);
        let next = if refresh_pending { act.now } else { act.now + pause + std::time::Duration::from_millis(jitter) };
        sync.due_at = provider.enabled.then_some(next);
        Ok(providers::put_sync(tx, key, &sync)?)
    }
}
