//! Carries out orders of VMs. A step is in the store before it goes out and again after it came back, so whoever goes on after a crash
//! knows what may have happened: an order that may have gone out is looked for in the cloud before it is given again.

use std::{sync::Arc, time::Duration};

use tenantd_base::{clock::Timestamp, clocks::Reading};
use tenantd_store::{
    Due, StoreError, WriteTx,
    catalog::{self, TableName},
    events::{Act, Intent},
};

use super::{
    Core,
    adapters::{Access, Adapter, VmPlace},
    error::CloudError,
    model::{CloudVm, Failure, FailureClass, Operation, OperationWork, Provider, SlotState},
    repo::{
        operations::{self, OperationKey},
        providers, vms,
    },
    service::{Service, SlotOutcome},
    worker::Work,
};

/// For one step: a look for an earlier order and the order itself.
const TIME_LIMIT: Duration = Duration::from_mins(1);
/// How long operations that have ended stay readable, and how many one transaction forgets.
const KEEP_ENDED: Duration = Duration::from_hours(24 * 7);
const FORGOTTEN_AT_ONCE: usize = 200;

#[derive(Clone, Debug)]
pub(super) struct Provisions(pub(super) Arc<Core>);

/// What is next in an operation.
enum Next {
    /// The VM at this place is to be ordered; `again` when that may have happened before.
    Order { index: u32, again: bool },
    /// The VM at this place comes up.
    Look { index: u32 },
}

fn next(operation: &Operation) -> Option<Next> {
    let OperationWork::Provision { slots, .. } = &operation.work else { return None };
    let ordering = slots.iter().zip(0..).find_map(|(slot, index)| match slot.state {
        SlotState::Waiting => Some(Next::Order { index, again: false }),
        SlotState::Ordered => Some(Next::Order { index, again: true }),
        _ => None,
    });
    let looking = || {
        let mut created = slots.iter().zip(0..).filter(|(slot, _)| matches!(slot.state, SlotState::Created { .. }));
        created.next().map(|(_, index)| Next::Look { index })
    };
    ordering.or_else(looking)
}

impl Work for Provisions {
    type Key = OperationKey;

    const NAME: &'static str = "cloud_provision";
    const TABLE: TableName = catalog::OPERATIONS;
    const IN_FLIGHT: usize = 64;

    fn due(
        &self,
        reading: &Reading,
        limit: usize,
        wanted: impl FnMut(&OperationKey) -> bool,
    ) -> Result<Due<OperationKey>, StoreError> {
        self.0.store.read(|tx| operations::due(tx, reading, limit, wanted))
    }

    async fn run(&self, key: OperationKey) -> Result<(), StoreError> {
        loop {
            let found = self.0.store.read::<_, StoreError>(|tx| operations::get(tx, key))?;
            let now = self.0.clocks.now(key.0);
            let Some(operation) = found.filter(|operation| operation.due_at.is_some_and(|due| due <= now)) else {
                return Ok(());
            };
            let Some(next) = next(&operation) else { return Ok(()) };
            let advanced = match next {
                Next::Order { index, again } => self.order(operation, index, again).await?,
                Next::Look { index } => self.look(operation, index).await?,
            };
            if !advanced {
                return Ok(());
            }
        }
    }

    async fn tidy(&self, now: Timestamp) -> Result<(), StoreError> {
        let old = self.0.store.read::<_, StoreError>(|tx| operations::ended_before(tx, now - KEEP_ENDED, FORGOTTEN_AT_ONCE))?;
        if old.is_empty() {
            return Ok(());
        }
        self.0.store.write(move |tx| old.iter().try_for_each(|key| operations::remove(tx, *key))).await
    }
}

impl Provisions {
    fn provider(&self, operation: &Operation) -> Result<Option<Provider>, StoreError> {
        let OperationWork::Provision { provider_id, .. } = &operation.work else { return Ok(None) };
        self.0.store.read(|tx| providers::get(tx, (operation.tenant_id, *provider_id)))
    }

    async fn order(&self, operation: Operation, index: u32, again: bool) -> Result<bool, StoreError> {
        let Some(provider) = self.provider(&operation)? else { return Ok(false) };
        let begun = self.write(&operation, move |tx, act, seen| Service::begin_order(tx, act, seen, index)).await?;
        let Some(operation) = begun else { return Ok(false) };
        let outcome = match self.place(&provider, &operation, index, again).await {
            Ok(facts) => SlotOutcome::Created(Box::new(facts)),
            Err(failure) => {
                tracing::info!(operation = %operation.id, class = failure.class.name(), code = failure.code, "an order failed");
                SlotOutcome::Refused(failure)
            }
        };
        self.end_step(&operation, index, outcome).await
    }

    /// Gives the order to the cloud, unless the cloud has carried it out before.
    async fn place(&self, provider: &Provider, operation: &Operation, index: u32, again: bool) -> Result<CloudVm, Failure> {
        let (adapter, access) = self.0.reach(provider, TIME_LIMIT)?;
        let placed = async {
            let OperationWork::Provision { spec, .. } = &operation.work else { return Err(unreadable()) };
            let user_data = self.0.service.user_data(operation).map_err(|_| unreadable())?;
            let order = spec.order(operation.token(index), user_data);
            if again && let Some(found) = adapter.find(&access, &order).await? {
                return Ok(found);
            }
            adapter.provision(&access, &order).await
        };
        in_time(placed, &access).await
    }

    async fn look(&self, operation: Operation, index: u32) -> Result<bool, StoreError> {
        let Some(provider) = self.provider(&operation)? else { return Ok(false) };
        let looked = self.look_at(&provider, &operation, index).await?;
        if let Err(failure) = &looked {
            tracing::debug!(operation = %operation.id, code = failure.code, "a look at a new VM failed");
        }
        // What cannot be seen now is looked at again, until patience is over.
        let outcome = SlotOutcome::Looked(looked.ok().flatten().map(Box::new));
        self.end_step(&operation, index, outcome).await
    }

    async fn look_at(
        &self,
        provider: &Provider,
        operation: &Operation,
        index: u32,
    ) -> Result<Result<Option<CloudVm>, Failure>, StoreError> {
        let OperationWork::Provision { slots, .. } = &operation.work else { return Ok(Ok(None)) };
        let slot = usize::try_from(index).ok().and_then(|index| slots.get(index));
        let Some(id) = slot.map(|slot| slot.vm_id) else { return Ok(Ok(None)) };
        let Some(vm) = self.0.store.read::<_, StoreError>(|tx| vms::get(tx, operation.tenant_id, id))? else {
            return Ok(Ok(None));
        };
        let place = VmPlace { provider_vm_id: vm.facts.provider_vm_id, region: vm.facts.region, zone: vm.facts.zone };
        let asked = async {
            let (adapter, access) = self.0.reach(provider, TIME_LIMIT)?;
            let adapter: &dyn Adapter = adapter;
            in_time(adapter.get(&access, &place), &access).await
        };
        Ok(asked.await)
    }

    async fn end_step(&self, operation: &Operation, index: u32, outcome: SlotOutcome) -> Result<bool, StoreError> {
        let ended = self.write(operation, move |tx, act, seen| Service::end_step(tx, act, seen, index, &outcome)).await?;
        Ok(ended.is_some())
    }

    async fn write(
        &self,
        operation: &Operation,
        mut work: impl FnMut(&mut WriteTx, &mut Act, &Operation) -> Result<Option<Operation>, CloudError> + Send + 'static,
    ) -> Result<Option<Operation>, StoreError> {
        let intent = Intent::new(operation.tenant_id, self.0.clocks.now(operation.tenant_id), operation.actor.clone());
        let operation = operation.clone();
        let written = self.0.store.write(move |tx| work(tx, &mut intent.begin(), &operation)).await;
        written.map_err(|error: CloudError| match error {
            CloudError::Store(error) => error,
            other => StoreError::engine(other),
        })
    }
}

fn unreadable() -> Failure {
    Failure::new(FailureClass::InvalidRequest, "unreadable_order", "the stored order cannot be read")
}

/// The answer, without what is secret in it, within the time of a step.
async fn in_time<T>(asked: impl Future<Output = Result<T, Failure>>, access: &Access) -> Result<T, Failure> {
    let late = || Failure::new(FailureClass::Timeout, "timeout", "the provider did not answer in time");
    let answer = tokio::time::timeout(TIME_LIMIT, asked).await.unwrap_or_else(|_| Err(late()));
    answer.map_err(|mut failure| {
        failure.message = access.credential.conceal(&failure.message);
        failure
    })
}
