//! The steps of operations. Each is made only when the operation is still as it was seen.

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
            SlotState, SyncError, VmState, next_try,
        },
        repo::{operations, providers, vms},
    },
    Service,
};

/// How long a VM that comes up is left alone between two looks.
const LOOK_PAUSE: std::time::Duration = std::time::Duration::from_secs(3);

/// What came of a step with one VM of an order.
#[derive(Clone, Debug)]
pub(crate) enum SlotOutcome {
    /// The cloud has it.
    Created(Box<CloudVm>),
    /// The order failed.
    Refused(Failure),
    /// A look at a VM that comes up; `None` when the cloud does not show it.
    Looked(Option<Box<CloudVm>>),
}

impl Service {
    /// Asks for a sync of these providers now. Whoever asks for the same while one is due gets that one.
    pub(crate) fn refresh(
        tx: &mut WriteTx,
        act: &mut Act,
        reach: &Reach,
        wanted: Option<&[CloudProviderId]>,
    ) -> Result<Operation, CloudError> {
        let all = providers::list(tx, act.tenant_id)?;
        let chosen = all.into_iter().filter(|provider| {
            provider.enabled && reach.covers(provider.organization_id) && wanted.is_none_or(|ids| ids.contains(&provider.id))
        });
        let chosen: Vec<Provider> = chosen.collect();
        if let Some(asked) = asked_already(tx, act, &chosen)? {
            return Ok(asked);
        }
        let mut refreshing = Vec::new();
        for provider in chosen {
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

    /// Takes one provider off a sync that was asked for: it was synced, or is gone.
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

    /// Writes down that an order goes out now.
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

    /// Writes down what came of a step with one VM.
    pub(crate) fn end_step(
        tx: &mut WriteTx,
        act: &mut Act,
        seen: &Operation,
        index: u32,
        outcome: &SlotOutcome,
    ) -> Result<Option<Operation>, CloudError> {
        let Some(mut operation) = current(tx, seen)? else { return Ok(None) };
        let patience_is_over = act.now >= operation.patience_until;
        let Some(slot) = slot(&mut operation, index) else { return Ok(None) };
        let vm_id = slot.vm_id;
        let mut due_at = act.now;
        match outcome {
            SlotOutcome::Created(facts) => {
                slot.state = SlotState::Created { provider_vm_id: facts.provider_vm_id.clone() };
                Self::vm_created(tx, act, vm_id, facts)?;
            }
            SlotOutcome::Refused(failure) => {
                if let Some(pause) = next_try(failure, slot.tries) {
                    due_at = act.now + pause;
                } else {
                    let uncertain = failure.class.is_uncertain();
                    let error = OperationError::from(failure);
                    slot.state = SlotState::Failed { error: error.clone(), provider_vm_id: None, uncertain };
                    Self::vm_failed(tx, act, vm_id, &error)?;
                    Self::give_up_waiting(tx, act, &mut operation)?;
                }
            }
            SlotOutcome::Looked(facts) => {
                due_at = act.now + LOOK_PAUSE;
                if let Some(facts) = facts
                    && let Some(vm) = vms::get(tx, act.tenant_id, vm_id)?
                {
                    Self::see(tx, act, vm, facts)?;
                }
                Self::judge(tx, act, slot, facts.as_deref(), patience_is_over)?;
                if !matches!(slot.state, SlotState::Created { .. }) {
                    // The next one that comes up need not wait for this one's pause.
                    due_at = act.now;
                }
            }
        }
        operation.due_at = Some(due_at);
        operation.settle(act.now);
        store(tx, act, &mut operation)?;
        Ok(Some(operation))
    }

    /// Decides by a look whether a VM has come up, will not, or may yet.
    fn judge(
        tx: &mut WriteTx,
        act: &mut Act,
        slot: &mut Slot,
        facts: Option<&CloudVm>,
        patience_is_over: bool,
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
                fail(FailureClass::ProviderError, format!("the VM was created and is {} now", state.name()))
            }
            _ if !patience_is_over => return Ok(()),
            Some(state) => fail(FailureClass::Timeout, format!("the VM was created and is still {}", state.name())),
            None => fail(FailureClass::NotFound, "the VM was created and the provider does not show it".to_owned()),
        };
        Self::vm_failed(tx, act, slot.vm_id, &error)?;
        slot.state = SlotState::Failed { error, provider_vm_id: Some(provider_vm_id), uncertain: false };
        Ok(())
    }

    /// After an order that will not do, the same order is not given for the other VMs.
    fn give_up_waiting(tx: &mut WriteTx, act: &mut Act, operation: &mut Operation) -> Result<(), CloudError> {
        let OperationWork::Provision { slots, .. } = &mut operation.work else { return Ok(()) };
        for slot in slots.iter_mut().filter(|slot| slot.state == SlotState::Waiting) {
            let error = OperationError {
                code: "not_ordered".to_owned(),
                message: "it was not ordered, because the order before it failed".to_owned(),
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

/// The operation, if it is still as it was seen.
fn current(tx: &WriteTx, seen: &Operation) -> Result<Option<Operation>, StoreError> {
    let found = operations::get(tx, (seen.tenant_id, seen.id))?;
    Ok(found.filter(|operation| operation.version == seen.version && !operation.status.has_ended()))
}

fn store(tx: &mut WriteTx, act: &Act, operation: &mut Operation) -> Result<(), CloudError> {
    operation.updated_at = act.now;
    operation.version += 1;
    Ok(operations::put(tx, operation)?)
}

/// A sync of just these providers that was asked for and has begun with none of them.
fn asked_already(tx: &WriteTx, act: &Act, chosen: &[Provider]) -> Result<Option<Operation>, CloudError> {
    let Some(first) = chosen.first() else { return Ok(None) };
    let open = operations::open(tx, (act.tenant_id, first.id))?;
    Ok(open.into_iter().find(|operation| match &operation.work {
        OperationWork::Refresh { providers } => {
            providers.len() == chosen.len()
                && chosen.iter().all(|one| providers.iter().any(|asked| asked.provider_id == one.id && !asked.done))
        }
        OperationWork::Provision { .. } => false,
    }))
}
