//! What those do with clouds who compose use cases from values that come at run time: they try a provider, order VMs, and wait for a
//! state. The forms are those of the requests.

use std::time::Duration;

use serde_json::{Value, json};

use tenantd_base::{
    access::Reach,
    clock::Timestamp,
    id::{CloudProviderId, OrganizationId, TenantId, VmId},
};
use tenantd_store::{
    ReadTx, WriteTx,
    events::{Act, Intent},
};

use super::{
    Clouds,
    adapters::{self, VmPlace},
    api,
    error::CloudError,
    model::{Credential, ProviderConfig, ProviderKind, SyncError, Vm, VmState},
    repo,
    service::{NewProvider, Service, SyncChange, SyncEnd, find_provider},
    sync::{differences, whole_fleet},
};

/// How long a VM that is waited for is left alone between two looks, and how long one look may take.
const LOOK_PAUSE: Duration = Duration::from_secs(3);
const LOOK_LIMIT: Duration = Duration::from_secs(20);

/// Why something with a cloud did not come to its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CloudStepError {
    pub code: String,
    pub message: String,
    /// Whether the same could go well at another time.
    pub retryable: bool,
}

impl CloudStepError {
    fn new(code: &str, message: impl Into<String>) -> Self {
        Self { code: code.to_owned(), message: message.into(), retryable: false }
    }
}

impl From<CloudError> for CloudStepError {
    fn from(error: CloudError) -> Self {
        let code = match &error {
            CloudError::NoProvider | CloudError::NoVm | CloudError::NoOperation => "not_found",
            CloudError::Disabled => "invalid_transition",
            CloudError::Invalid(_) => "invalid_input",
            _ => "cloud",
        };
        let message = match &error {
            CloudError::Invalid(faults) => {
                faults.iter().map(|fault| format!("{}: {}", fault.pointer, fault.message)).collect::<Vec<_>>().join("; ")
            }
            other => other.to_string(),
        };
        Self { code: code.to_owned(), message, retryable: matches!(error, CloudError::Store(_)) }
    }
}

/// An order as it is shown, and the ids of its VMs.
#[derive(Clone, Debug, PartialEq)]
pub struct ShownOrder {
    pub order: Value,
    pub vm_ids: Vec<VmId>,
}

impl Clouds {
    pub fn now(&self, tenant: TenantId) -> Timestamp {
        self.core.clocks.now(tenant)
    }

    /// Creates a provider whose cloud is simulated, with all of its VMs, for evaluation.
    pub async fn connect_simulated(
        &self,
        intent: Intent,
        name: &str,
        organization_id: Option<OrganizationId>,
        seed: u64,
        vm_count: u32,
    ) -> Result<(), CloudError> {
        let config = ProviderConfig { seed: Some(seed), vm_count: Some(vm_count), ..ProviderConfig::default() };
        let way = (ProviderKind::Simulated, config.clone(), Credential::None {});
        let (adapter, access) = self.core.access(intent.tenant_id, None, way, LOOK_LIMIT);
        let verification = adapters::verify(adapter, &access, LOOK_LIMIT).await;
        let new = NewProvider {
            name: name.to_owned(),
            kind: ProviderKind::Simulated,
            organization_id,
            enabled: true,
            config,
            credential: Credential::None {},
            interval_seconds: self.core.default_interval_seconds,
        };
        // In one transaction with the provider, so that the ids of the VMs come of the same intent.
        let fleet = whole_fleet(adapter, &access).await;
        let seen = differences(&[], fleet.as_deref().unwrap_or_default(), intent.now);
        let result = fleet.map(|fleet| fleet.len() as u64).map_err(|failure| SyncError::new(&failure, intent.now));
        let (core, end) = (self.core.clone(), SyncEnd { started_at: intent.now, result });
        let create = move |tx: &mut WriteTx| {
            let mut act = intent.begin();
            let provider = core.service.create_provider(tx, &mut act, &Reach::Everything, &new, Some(&verification))?;
            core.service.apply_sync(tx, &mut act, &provider, &seen)?;
            Service::end_sync(tx, &mut act, &provider, &end)
        };
        self.core.store.write(create).await
    }

    /// The JSON Schema of an order.
    pub fn order_schema() -> Value {
        api::order_schema()
    }

    /// Checks an order. Changes nothing, and asks no cloud.
    pub fn plan_order(&self, tx: &ReadTx, act: &mut Act, form: &Value) -> Result<ShownOrder, CloudError> {
        let plan = self.core.service.plan_vms(tx, act, &Reach::Everything, &api::read_order(form)?)?;
        let vm_ids = plan.vms.iter().map(|vm| vm.id).collect();
        Ok(ShownOrder { order: api::show_order(tx, &plan, act.now, false)?, vm_ids })
    }

    /// Takes an order in the caller's transaction. The background carries it out.
    pub fn order(&self, tx: &mut WriteTx, act: &mut Act, form: &Value) -> Result<ShownOrder, CloudError> {
        let plan = self.core.service.order_vms(tx, act, &Reach::Everything, &api::read_order(form)?)?;
        let vm_ids = plan.vms.iter().map(|vm| vm.id).collect();
        Ok(ShownOrder { order: api::show_order(tx, &plan, act.now, true)?, vm_ids })
    }

    /// Whether the tenant has the provider, by its name.
    pub fn provider_name(&self, tx: &ReadTx, act: &Act, id: CloudProviderId) -> Result<String, CloudError> {
        Ok(find_provider(tx, act, &Reach::Everything, id)?.name)
    }

    /// Tries the credential of a stored provider, and keeps what came of it. What came of it is the answer, also when it does not work.
    pub async fn verify(&self, intent: Intent, id: CloudProviderId) -> Result<Value, CloudStepError> {
        let core = &self.core;
        let provider = core.store.read(|tx| find_provider(tx, &intent.begin(), &Reach::Everything, id))?;
        let verification = core.try_stored(&provider).await.map_err(|problem| CloudStepError::new("cloud", problem.to_string()))?;
        let shown = api::show_verification(&verification);
        let inner = core.clone();
        let written =
            core.store.write(move |tx| inner.service.note_verification(tx, &mut intent.begin(), &provider, &verification)).await;
        written?;
        Ok(shown)
    }

    /// Waits until the VM has one of these states, by asking its cloud now and then. The VM as it is then.
    pub async fn wait_for_state(
        &self,
        intent: Intent,
        id: VmId,
        states: &[String],
        patience: Duration,
    ) -> Result<Value, CloudStepError> {
        let wanted: Vec<VmState> = states.iter().filter_map(|name| VmState::parse(name)).collect();
        let deadline = tokio::time::Instant::now() + patience;
        loop {
            let found = self.core.store.read(|tx| repo::vms::get(tx, intent.tenant_id, id)).map_err(CloudError::Store)?;
            let vm = found.ok_or(CloudError::NoVm)?;
            let state = vm.facts.state;
            if wanted.contains(&state) {
                let shown = self.core.store.read(|tx| api::show_vm_value(tx, &vm, intent.now));
                return Ok(shown?);
            }
            if vm.ended_at.is_some() {
                return Err(CloudStepError::new("vm_ended", format!("the VM is {} and will not change any more", state.name())));
            }
            if tokio::time::Instant::now() + LOOK_PAUSE >= deadline {
                let message = format!("the VM is still {}", state.name());
                return Err(CloudStepError { retryable: true, ..CloudStepError::new("vm_not_yet", message) });
            }
            tokio::time::sleep(LOOK_PAUSE).await;
            self.look_again(&intent, &vm).await?;
        }
    }

    /// Asks the cloud of a VM how it is. That it cannot be asked now is no failure of whoever waits.
    async fn look_again(&self, intent: &Intent, vm: &Vm) -> Result<(), CloudStepError> {
        let core = &self.core;
        let provider = core.store.read(|tx| find_provider(tx, &intent.begin(), &Reach::Everything, vm.provider_id))?;
        // One that is being created is looked at by its operation.
        let Ok((adapter, access)) = core.reach(&provider, LOOK_LIMIT) else { return Ok(()) };
        if !vm.is_known() {
            return Ok(());
        }
        let facts = &vm.facts;
        let place =
            VmPlace { provider_vm_id: facts.provider_vm_id.clone(), region: facts.region.clone(), zone: facts.zone.clone() };
        let looked = tokio::time::timeout(LOOK_LIMIT, adapter.get(&access, &place)).await;
        let Ok(Ok(Some(facts))) = looked else { return Ok(()) };
        let (inner, intent) =
            (core.clone(), Intent::new(intent.tenant_id, core.clocks.now(intent.tenant_id), intent.actor.clone()));
        let change = [SyncChange::Seen(Box::new(facts))];
        let written = core.store.write(move |tx| inner.service.apply_sync(tx, &mut intent.begin(), &provider, &change)).await;
        Ok(written?)
    }
}

/// The names of all states.
pub fn vm_states() -> Value {
    json!(VmState::ALL.map(VmState::name))
}
