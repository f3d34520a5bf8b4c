//! The workflow steps `vm.provision`, `provider.verify` and `vm.wait_state`. `vm.provision` stores its order in the transaction of
//! the step, exactly once. The operation of the order carries it out.

use std::{sync::Arc, time::Duration};

use serde_json::{Value, json};

use tenantd_base::{
    access::{Grants, Reach, Scope},
    fault::listed,
    id::{CloudProviderId, VmId},
};
use tenantd_store::{
    ReadTx, WriteTx,
    events::{Act, Actor, ActorKind, Intent},
    steps::{Call, CallFuture, Effect, LocalError, LocalStep, Planned, Planning, RemoteStep, StepDone, StepError, StepType},
};

use super::{
    Core,
    adapters::VmPlace,
    api,
    error::CloudError,
    model::{Vm, VmState},
    repo,
    service::{Service, SyncChange, find_provider},
};

/// The pause between two checks of a VM, and the time limit of one check.
const CHECK_INTERVAL: Duration = Duration::from_secs(3);
const CHECK_TIMEOUT: Duration = Duration::from_secs(20);
const HIDDEN: &str = "[hidden]";

impl From<CloudError> for StepError {
    fn from(error: CloudError) -> Self {
        let code = match &error {
            CloudError::NoProvider | CloudError::NoVm | CloudError::NoOperation => "not_found",
            CloudError::Disabled => "invalid_transition",
            CloudError::Invalid(_) => "invalid_input",
            _ => "cloud",
        };
        let message = match &error {
            CloudError::Invalid(faults) => listed(faults),
            other => other.to_string(),
        };
        Self { code: code.to_owned(), message, retryable: matches!(error, CloudError::Store(_)) }
    }
}

impl From<CloudError> for LocalError {
    fn from(error: CloudError) -> Self {
        match error {
            CloudError::Store(error) => Self::Store(error),
            other => Self::Step(other.into()),
        }
    }
}

fn id<T: std::str::FromStr<Err: std::fmt::Display>>(with: &Value, name: &str) -> Result<T, StepError> {
    let text = with.get(name).and_then(Value::as_str).unwrap_or_default();
    text.parse().map_err(|error: T::Err| StepError::new("invalid_input", format!("/{name}: {error}")))
}

impl Core {
    /// The intent of a call: its tenant, the current time and the workflow step as the actor.
    fn intent(&self, call: &Call) -> Intent {
        let actor = Actor { kind: ActorKind::Workflow, id: call.idempotency_key.clone(), name: "Workflow step".to_owned() };
        Intent::new(call.tenant_id, self.clocks.now(call.tenant_id), actor)
    }
}

/// Orders VMs.
#[derive(Debug)]
pub(super) struct ProvisionVm(pub(super) Arc<Core>);

impl StepType for ProvisionVm {
    fn name(&self) -> &'static str {
        "vm.provision"
    }

    fn summary(&self) -> &'static str {
        "Orders VMs. Takes the fields of the request to create VMs. Returns `operation` and `vms`. `vm.wait_state` waits for the VMs."
    }

    fn scopes(&self) -> Grants {
        Grants::of(&[Scope::VmsRead, Scope::VmsWrite])
    }

    fn schema(&self) -> Value {
        api::order_schema()
    }

    fn example(&self) -> Value {
        json!({
            "provider_id": CloudProviderId::example(), "name": "web-01", "region": "eu-west-1", "size": "t3.small",
            "image": "ami-0123456789abcdef0",
        })
    }

    fn redact(&self, with: &mut Value) {
        if let Some(data) = with.get_mut("user_data") {
            *data = Value::String(HIDDEN.to_owned());
        }
    }

    fn plan(&self, tx: &ReadTx, planning: &Planning, with: &Value) -> Result<Planned, LocalError> {
        let mut act = planning.intent.begin();
        let plan = self.0.service.plan_vms(tx, &mut act, &Reach::Everything, &api::read_order(with)?)?;
        let output = api::show_order(tx, &plan, act.now, false)?;
        Ok(Planned { output: Some(output), summary: format!("would order {} VMs", plan.vms.len()) })
    }
}

impl LocalStep for ProvisionVm {
    fn apply(&self, tx: &mut WriteTx, act: &mut Act, with: &Value) -> Result<StepDone, LocalError> {
        let plan = self.0.service.order_vms(tx, act, &Reach::Everything, &api::read_order(with)?)?;
        let effects = plan.vms.iter().map(|vm| Effect { kind: "vm", id: vm.id.to_string() }).collect();
        Ok(StepDone { output: api::show_order(tx, &plan, act.now, true)?, effects })
    }
}

/// Verifies the credential of a provider.
#[derive(Debug)]
pub(super) struct VerifyProvider(pub(super) Arc<Core>);

impl StepType for VerifyProvider {
    fn name(&self) -> &'static str {
        "provider.verify"
    }

    fn summary(&self) -> &'static str {
        "Verifies the credential of a cloud provider. Returns the verification; check its `outcome`."
    }

    fn scopes(&self) -> Grants {
        Grants::of(&[Scope::ProvidersRead, Scope::ProvidersWrite])
    }

    fn schema(&self) -> Value {
        json!({
            "type": "object",
            "additionalProperties": false,
            "required": ["provider_id"],
            "properties": {"provider_id": {"type": "string", "pattern": CloudProviderId::pattern()}},
        })
    }

    fn example(&self) -> Value {
        json!({"provider_id": CloudProviderId::example()})
    }

    fn plan(&self, tx: &ReadTx, planning: &Planning, with: &Value) -> Result<Planned, LocalError> {
        let provider: CloudProviderId = id(with, "provider_id").map_err(LocalError::Step)?;
        let provider = find_provider(tx, &planning.intent.begin(), &Reach::Everything, provider)?;
        Ok(Planned { output: None, summary: format!("would verify the provider {}", provider.name) })
    }
}

impl RemoteStep for VerifyProvider {
    fn call(&self, call: Call) -> CallFuture {
        let core = self.0.clone();
        Box::pin(async move {
            let id: CloudProviderId = id(&call.with, "provider_id")?;
            let output = verify(&core, core.intent(&call), id).await?;
            Ok(StepDone { output, effects: vec![Effect { kind: "provider", id: id.to_string() }] })
        })
    }
}

/// Verifies the credential of a stored provider and stores the result. Returns the verification even if the credential does not
/// work.
async fn verify(core: &Arc<Core>, intent: Intent, id: CloudProviderId) -> Result<Value, StepError> {
    let provider = core.store.read(|tx| find_provider(tx, &intent.begin(), &Reach::Everything, id))?;
    let verification = core.verify_stored(&provider).await.map_err(|problem| StepError::new("cloud", problem.to_string()))?;
    let shown = api::show_verification(&verification);
    let written = core.store.write(move |tx| Service::store_verification(tx, &mut intent.begin(), &provider, &verification)).await;
    written?;
    Ok(shown)
}

/// Waits until a VM reaches a state.
#[derive(Debug)]
pub(super) struct WaitForVm(pub(super) Arc<Core>);

impl StepType for WaitForVm {
    fn name(&self) -> &'static str {
        "vm.wait_state"
    }

    fn summary(&self) -> &'static str {
        "Waits until a VM has one of the `states`, by default `running`. Returns the VM. The step's `timeout_seconds` limits the wait. If \
         the VM has none of these states by then, the step fails with a retryable error."
    }

    fn scopes(&self) -> Grants {
        Grants::of(&[Scope::VmsRead])
    }

    fn schema(&self) -> Value {
        json!({
            "type": "object",
            "additionalProperties": false,
            "required": ["vm_id"],
            "properties": {
                "vm_id": {"type": "string", "pattern": VmId::pattern()},
                "states": {"type": "array", "items": {"type": "string", "enum": VmState::NAMES}, "minItems": 1, "maxItems": 11},
            },
        })
    }

    fn example(&self) -> Value {
        json!({"vm_id": "{{ steps.order.output.vms[0].id }}", "states": ["running"]})
    }

    fn plan(&self, _tx: &ReadTx, _planning: &Planning, with: &Value) -> Result<Planned, LocalError> {
        let states = target_states(with).join(" or ");
        Ok(Planned { output: None, summary: format!("would wait until the VM is {states}") })
    }
}

fn target_states(with: &Value) -> Vec<String> {
    let given = with.get("states").and_then(Value::as_array);
    let named = given.map(|states| states.iter().filter_map(Value::as_str).map(str::to_owned).collect());
    named.unwrap_or_else(|| vec!["running".to_owned()])
}

impl RemoteStep for WaitForVm {
    fn call(&self, call: Call) -> CallFuture {
        let core = self.0.clone();
        Box::pin(async move {
            let vm: VmId = id(&call.with, "vm_id")?;
            let states = target_states(&call.with);
            let output = wait_for_state(&core, core.intent(&call), vm, &states, call.timeout).await?;
            Ok(StepDone { output, effects: Vec::new() })
        })
    }
}

/// Asks the cloud repeatedly until the VM has one of these states, and returns the VM.
async fn wait_for_state(
    core: &Arc<Core>,
    intent: Intent,
    id: VmId,
    states: &[String],
    patience: Duration,
) -> Result<Value, StepError> {
    let wanted: Vec<VmState> = states.iter().filter_map(|name| VmState::parse(name)).collect();
    let deadline = tokio::time::Instant::now() + patience;
    loop {
        let found = core.store.read(|tx| repo::vms::get(tx, intent.tenant_id, id)).map_err(CloudError::Store)?;
        let vm = found.ok_or(CloudError::NoVm)?;
        let state = vm.facts.state;
        if wanted.contains(&state) {
            let shown = core.store.read(|tx| api::show_vm_value(tx, &vm, intent.now));
            return Ok(shown?);
        }
        if vm.ended_at.is_some() {
            return Err(StepError::new("vm_ended", format!("the VM is {} and its state will not change again", state.name())));
        }
        if tokio::time::Instant::now() + CHECK_INTERVAL >= deadline {
            let message = format!("the VM is still {}", state.name());
            return Err(StepError::retryable("vm_not_yet", message));
        }
        tokio::time::sleep(CHECK_INTERVAL).await;
        update_vm(core, &intent, &vm).await?;
    }
}

/// Reads the VM from its cloud and stores what changed. If the cloud does not answer, the step keeps waiting.
async fn update_vm(core: &Arc<Core>, intent: &Intent, vm: &Vm) -> Result<(), StepError> {
    let provider = core.store.read(|tx| find_provider(tx, &intent.begin(), &Reach::Everything, vm.provider_id))?;
    // The operation of a VM that is still being created checks the VM.
    let Ok((adapter, access)) = core.reach(&provider, CHECK_TIMEOUT) else { return Ok(()) };
    if !vm.is_known() {
        return Ok(());
    }
    let facts = &vm.facts;
    let place = VmPlace { provider_vm_id: facts.provider_vm_id.clone(), region: facts.region.clone(), zone: facts.zone.clone() };
    let response = tokio::time::timeout(CHECK_TIMEOUT, adapter.get(&access, &place)).await;
    let Ok(Ok(Some(facts))) = response else { return Ok(()) };
    let intent = Intent::new(intent.tenant_id, core.clocks.now(intent.tenant_id), intent.actor.clone());
    let change = [SyncChange::Found(Box::new(facts))];
    let written = core.store.write(move |tx| Service::apply_sync(tx, &mut intent.begin(), &provider, &change)).await;
    Ok(written?)
}
