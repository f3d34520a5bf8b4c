//! Carries out orders of VMs. Each step is stored before its call to the cloud and again after it. After a crash the store shows
//! which orders may have been sent. The cloud is asked about such an order before it is sent again.

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

/// The time limit of one step: the search for an earlier order and the order itself.
const TIME_LIMIT: Duration = Duration::from_mins(1);
/// How long ended operations stay readable, and how many one transaction deletes.
const KEEP_ENDED: Duration = Duration::from_hours(24 * 7);
const DELETE_BATCH: usize = 200;

#[derive(Clone, Debug)]
pub(super) struct Provisions(pub(super) Arc<Core>);

/// The next step of an operation.
enum Next {
    /// Order the VM of this slot. With `again`, the order may have been sent before.
    Order { index: u32, again: bool },
    /// Check whether the VM of this slot is running.
    Check { index: u32 },
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
        created.next().map(|(_, index)| Next::Check { index })
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
                Next::Check { index } => self.check(operation, index).await?,
            };
            if !advanced {
                return Ok(());
            }
        }
    }

    async fn tidy(&self, now: Timestamp) -> Result<(), StoreError> {
        let old = self.0.store.read::<_, StoreError>(|tx| operations::ended_before(tx, now - KEEP_ENDED, DELETE_BATCH))?;
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
        let started = self.write(&operation, move |tx, act, seen| Service::begin_order(tx, act, seen, index)).await?;
        let Some(operation) = started else { return Ok(false) };
        let outcome = match self.place(&provider, &operation, index, again).await {
            Ok(facts) => SlotOutcome::Created(Box::new(facts)),
            Err(failure) => {
                tracing::info!(operation = %operation.id, class = failure.class.name(), code = failure.code, "a VM order failed");
                SlotOutcome::Failed(failure)
            }
        };
        self.end_step(&operation, index, outcome).await
    }

    /// Sends the order to the cloud, unless the cloud has already carried it out.
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

    async fn check(&self, operation: Operation, index: u32) -> Result<bool, StoreError> {
        let Some(provider) = self.provider(&operation)? else { return Ok(false) };
        let checked = self.read_vm(&provider, &operation, index).await?;
        if let Err(failure) = &checked {
            tracing::debug!(operation = %operation.id, code = failure.code, "the state of a new VM could not be read");
        }
        // A failed check is repeated until `patience_until`.
        let outcome = SlotOutcome::Checked(checked.ok().flatten().map(Box::new));
        self.end_step(&operation, index, outcome).await
    }

    async fn read_vm(
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
        let request = async {
            let (adapter, access) = self.0.reach(provider, TIME_LIMIT)?;
            let adapter: &dyn Adapter = adapter;
            in_time(adapter.get(&access, &place), &access).await
        };
        Ok(request.await)
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

/// Applies the time limit of a step, and removes secrets from the message of a failure.
async fn in_time<T>(request: impl Future<Output = Result<T, Failure>>, access: &Access) -> Result<T, Failure> {
    let late = || Failure::new(FailureClass::Timeout, "timeout", "the provider did not answer in time");
    let answer = tokio::time::timeout(TIME_LIMIT, request).await.unwrap_or_else(|_| Err(late()));
    answer.map_err(|mut failure| {
        failure.message = access.credential.conceal(&failure.message);
        failure
    })
}
