//! The steps of operations. Each step is stored only if the operation has not changed since it was read.

use tenantd_base::{
    access::Reach,
    id::{CloudProviderId, OperationId},
    secrets::Secret,
};
use tenantd_store::{StoreError, WriteTx, events::Act};

use super::{
    super::{
        error::CloudError,
        model::{
            CloudVm, Failure, FailureClass, Operation, OperationError, OperationStatus, OperationWork, Provider, Refreshing, Slot,
            SlotState, SyncError, VmState, retry_delay,
        },
        repo::{operations, providers, vms},
    },
    Service,
};

/// The pause between two checks of a VM that is starting.
const CHECK_INTERVAL: std::time::Duration = std::time::Duration::from_secs(3);

/// The result of a step with one VM of an order.
#[derive(Clone, Debug)]
pub(crate) enum SlotOutcome {
    /// The cloud created the VM.
    Created(Box<CloudVm>),
    /// The order failed.
    Failed(Failure),
    /// The state of a VM that is starting. `None` if the cloud does not show the VM or did not respond.
    Checked(Option<Box<CloudVm>>),
}

impl Service {
    /// Requests a sync of these providers now. If the same sync is already pending, returns its operation.
    pub(crate) fn refresh(
        tx: &mut WriteTx,
        act: &mut Act,
        reach: &Reach,
        wanted: Option<&[CloudProviderId]>,
    ) -> Result<Operation, CloudError> {
        let all = providers::list(tx, act.tenant_id)?;
        let selected = all.into_iter().filter(|provider| {
            provider.enabled && reach.covers(provider.organization_id) && wanted.is_none_or(|ids| ids.contains(&provider.id))
        });
        let selected: Vec<Provider> = selected.collect();
        if let Some(pending) = pending_refresh(tx, act, &selected)? {
            return Ok(pending);
        }
        let mut refreshing = Vec::new();
        for provider in selected {
            let key = (act.tenant_id, provider.id);
            let mut sync = providers::sync(tx, key)?;
            sync.due_at = Some(act.now);
            providers::put_sync(tx, key, &sync)?;
            refreshing.push(Refreshing { provider_id: provider.id, done: false, error: None });
        }
        let mut operation = Operation {
            id: OperationId::new(act.now, &mut act.entropy),
            tenant_id: act.tenant_id,
            organization_id: None,
            status: OperationStatus::Queued,
            work: OperationWork::Refresh { providers: refreshing },
            actor: act.actor.clone(),
            created_at: act.now,
            updated_at: act.now,
            ended_at: None,
            due_at: None,
            patience_until: act.now,
            version: 1,
        };
        operation.settle(act.now);
        operations::put(tx, &operation)?;
        Ok(operation)
    }

    /// Marks one provider of a requested sync as done, because it was synced or deleted.
    pub(super) fn end_refresh(
        tx: &mut WriteTx,
        act: &Act,
        operation: &mut Operation,
        provider: CloudProviderId,
        error: Option<&SyncError>,
    ) -> Result<(), CloudError> {
        if let OperationWork::Refresh { providers } = &mut operation.work {
            for one in providers.iter_mut().filter(|one| one.provider_id == provider) {
                one.done = true;
                one.error = error.map(|error| OperationError {
                    code: error.code.clone(),
                    message: error.message.clone(),
                    transient: error.outcome.is_transient(),
                });
            }
        }
        operation.status = OperationStatus::Running;
        operation.settle(act.now);
        store(tx, act, operation)
    }

    /// The user data of an order, for the call to the cloud.
    pub(crate) fn user_data(&self, operation: &Operation) -> Result<Option<Secret>, CloudError> {
        let OperationWork::Provision { spec, .. } = &operation.work else { return Ok(None) };
        let place = operations::user_data_place(&operation.tenant_id, &operation.id);
        Ok(spec.user_data.as_ref().map(|sealed| self.sealer.open(place, sealed)).transpose()?)
    }

    /// Records that an order is about to be sent.
    pub(crate) fn begin_order(tx: &mut WriteTx, act: &Act, seen: &Operation, index: u32) -> Result<Option<Operation>, CloudError> {
        let Some(mut operation) = current(tx, seen)? else { return Ok(None) };
        operation.status = OperationStatus::Running;
        if let Some(slot) = slot(&mut operation, index) {
            slot.state = SlotState::Ordered;
            slot.tries += 1;
        }
        store(tx, act, &mut operation)?;
        Ok(Some(operation))
    }

    /// Records the result of a step with one VM.
    pub(crate) fn end_step(
        tx: &mut WriteTx,
        act: &mut Act,
        seen: &Operation,
        index: u32,
        outcome: &SlotOutcome,
    ) -> Result<Option<Operation>, CloudError> {
        let Some(mut operation) = current(tx, seen)? else { return Ok(None) };
        let timed_out = act.now >= operation.patience_until;
        let Some(slot) = slot(&mut operation, index) else { return Ok(None) };
        let vm_id = slot.vm_id;
        let mut due_at = act.now;
        match outcome {
            SlotOutcome::Created(facts) => {
                slot.state = SlotState::Created { provider_vm_id: facts.provider_vm_id.clone() };
                Self::vm_created(tx, act, vm_id, facts)?;
            }
            SlotOutcome::Failed(failure) => {
                if let Some(pause) = retry_delay(failure, slot.tries) {
                    due_at = act.now + pause;
                } else {
                    let uncertain = failure.class.is_uncertain();
                    let error = OperationError::from(failure);
                    slot.state = SlotState::Failed { error: error.clone(), provider_vm_id: None, uncertain };
                    Self::vm_failed(tx, act, vm_id, &error)?;
                    Self::fail_waiting_slots(tx, act, &mut operation)?;
                }
            }
            SlotOutcome::Checked(facts) => {
                due_at = act.now + CHECK_INTERVAL;
                if let Some(facts) = facts
                    && let Some(vm) = vms::get(tx, act.tenant_id, vm_id)?
                {
                    Self::update_vm(tx, act, vm, facts)?;
                }
                Self::check_started(tx, act, slot, facts.as_deref(), timed_out)?;
                if !matches!(slot.state, SlotState::Created { .. }) {
                    // The next starting VM need not wait for the pause of this one.
                    due_at = act.now;
                }
            }
        }
        operation.due_at = Some(due_at);
        operation.settle(act.now);
        store(tx, act, &mut operation)?;
        Ok(Some(operation))
    }

    /// Decides whether a VM is running, has failed, or is still starting.
    fn check_started(
        tx: &mut WriteTx,
        act: &mut Act,
        slot: &mut Slot,
        facts: Option<&CloudVm>,
        timed_out: bool,
    ) -> Result<(), CloudError> {
        let SlotState::Created { provider_vm_id } = &slot.state else { return Ok(()) };
        let provider_vm_id = provider_vm_id.clone();
        let fail = |class: FailureClass, message: String| OperationError::from(&Failure::new(class, class.name(), message));
        let error = match facts.map(|facts| facts.state) {
            Some(VmState::Running) => {
                slot.state = SlotState::Running { provider_vm_id };
                return Ok(());
            }
            Some(state @ (VmState::Error | VmState::Terminated | VmState::Terminating)) => {
                fail(FailureClass::ProviderError, format!("the VM was created, but is now {}", state.name()))
            }
            _ if !timed_out => return Ok(()),
            Some(state) => fail(FailureClass::Timeout, format!("the VM was created, but is still {}", state.name())),
            None => fail(FailureClass::NotFound, "the VM was created, but the provider does not list it".to_owned()),
        };
        Self::vm_failed(tx, act, slot.vm_id, &error)?;
        slot.state = SlotState::Failed { error, provider_vm_id: Some(provider_vm_id), uncertain: false };
        Ok(())
    }

    /// After an order has failed for good, the same order is not sent for the other VMs.
    fn fail_waiting_slots(tx: &mut WriteTx, act: &mut Act, operation: &mut Operation) -> Result<(), CloudError> {
        let OperationWork::Provision { slots, .. } = &mut operation.work else { return Ok(()) };
        for slot in slots.iter_mut().filter(|slot| slot.state == SlotState::Waiting) {
            let error = OperationError {
                code: "not_ordered".to_owned(),
                message: "the VM was not ordered, because an earlier order of this operation failed".to_owned(),
                transient: true,
            };
            Self::vm_failed(tx, act, slot.vm_id, &error)?;
            slot.state = SlotState::Failed { error, provider_vm_id: None, uncertain: false };
        }
        Ok(())
    }
}

fn slot(operation: &mut Operation, index: u32) -> Option<&mut Slot> {
    match &mut operation.work {
        OperationWork::Provision { slots, .. } => slots.get_mut(usize::try_from(index).ok()?),
        OperationWork::Refresh { .. } => None,
    }
}

/// The operation, if it has not changed since it was read.
fn current(tx: &WriteTx, seen: &Operation) -> Result<Option<Operation>, StoreError> {
    let found = operations::get(tx, (seen.tenant_id, seen.id))?;
    Ok(found.filter(|operation| operation.version == seen.version && !operation.status.has_ended()))
}

fn store(tx: &mut WriteTx, act: &Act, operation: &mut Operation) -> Result<(), CloudError> {
    operation.updated_at = act.now;
    operation.version += 1;
    Ok(operations::put(tx, operation)?)
}

/// A pending refresh of exactly these providers, of which none is done.
fn pending_refresh(tx: &WriteTx, act: &Act, selected: &[Provider]) -> Result<Option<Operation>, CloudError> {
    let Some(first) = selected.first() else { return Ok(None) };
    let open = operations::open(tx, (act.tenant_id, first.id))?;
    Ok(open.into_iter().find(|operation| match &operation.work {
        OperationWork::Refresh { providers } => {
            providers.len() == selected.len()
                && selected.iter().all(|one| providers.iter().any(|pending| pending.provider_id == one.id && !pending.done))
        }
        OperationWork::Provision { .. } => false,
    }))
}
