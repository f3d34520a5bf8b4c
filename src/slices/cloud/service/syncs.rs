//! What a look at a cloud changes: VMs that are new, other than before, or gone; and the end of the look itself.

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

/// One difference between what a cloud tells and what we know.
#[derive(Clone, Debug)]
pub(crate) enum SyncChange {
    Seen(Box<CloudVm>),
    Missed(VmId),
    /// Long gone.
    Forget(VmId),
}

/// What a sync has read.
#[derive(Clone, Debug)]
pub(crate) struct SyncCounts {
    pub(crate) vms: u64,
    pub(crate) gaps: Option<SyncGaps>,
}

/// How a sync ended.
#[derive(Clone, Debug)]
pub(crate) struct SyncEnd {
    pub(crate) started_at: Timestamp,
    pub(crate) result: Result<SyncCounts, SyncError>,
}

/// The orders that a cloud may have carried out before we know.
struct OpenOrders(Vec<Operation>);

impl OpenOrders {
    /// Whether a VM that we do not know is one that is being ordered: whoever orders it takes it up.
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
    /// Makes some of the changes that a sync found. What has changed since it looked is looked at again the next time.
    pub(crate) fn apply_sync(
        tx: &mut WriteTx,
        act: &mut Act,
        provider: &Provider,
        changes: &[SyncChange],
    ) -> Result<(), CloudError> {
        let key = (provider.tenant_id, provider.id);
        // It may have been deleted while its cloud was asked.
        if providers::get(tx, key)?.is_none() {
            return Ok(());
        }
        let orders = OpenOrders(operations::open(tx, key)?);
        let last_sync = providers::sync(tx, key)?.last_at;
        for change in changes {
            match change {
                SyncChange::Seen(facts) => match vms::find(tx, key, &facts.provider_vm_id)? {
                    Some(vm) => Self::see(tx, act, vm, facts)?,
                    None if facts.state == VmState::Terminated || orders.claim(facts) => {}
                    None => Self::discover(tx, act, provider, facts)?,
                },
                SyncChange::Missed(id) => {
                    if let Some(vm) = vms::get(tx, act.tenant_id, *id)?.filter(|vm| vm.ended_at.is_none()) {
                        Self::miss(tx, act, vm, last_sync)?;
                    }
                }
                SyncChange::Forget(id) => {
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

    /// Takes up what a cloud tells of a VM that we know.
    pub(super) fn see(tx: &mut WriteTx, act: &mut Act, mut vm: Vm, facts: &CloudVm) -> Result<(), CloudError> {
        let before = vm.clone();
        if vm.see(facts, act.now) { Self::tell(tx, act, &before, vm) } else { Ok(()) }
    }

    fn miss(tx: &mut WriteTx, act: &mut Act, mut vm: Vm, last_sync: Option<Timestamp>) -> Result<(), CloudError> {
        let before = vm.clone();
        vm.miss(last_sync, act.now);
        Self::tell(tx, act, &before, vm)
    }

    /// Stores a VM that has changed, and tells of what others want to know.
    fn tell(tx: &mut WriteTx, act: &mut Act, before: &Vm, mut vm: Vm) -> Result<(), CloudError> {
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

    /// Writes down how a sync ended and when the next begins, and ends what waited for it.
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
        let mut asked_again = false;
        for mut operation in operations::open(tx, key)? {
            if !matches!(operation.work, OperationWork::Refresh { .. }) {
                continue;
            }
            // One that was asked for while this sync was under way wants to know what was after that.
            if operation.created_at > end.started_at {
                asked_again = true;
            } else {
                Self::end_refresh(tx, act, &mut operation, provider.id, end.result.as_ref().err())?;
            }
        }
        let pause = provider.pause(sync.failures);
        let jitter = act.entropy.below(u64::try_from(pause.as_millis() / 10).unwrap_or_default() + 1);
        let next = if asked_again { act.now } else { act.now + pause + std::time::Duration::from_millis(jitter) };
        sync.due_at = provider.enabled.then_some(next);
        Ok(providers::put_sync(tx, key, &sync)?)
    }
}
