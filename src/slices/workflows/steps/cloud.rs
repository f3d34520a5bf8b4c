//! Steps that act on clouds, through the face of their slice. An order is taken in the transaction of its step, exactly once; that it is
//! carried out is its operation's business.

use serde_json::{Value, json};

use tenantd_base::{
    access::{Grants, Scope},
    clock::Timestamp,
    id::{CloudProviderId, VmId},
};
use tenantd_cloud::{CloudError, CloudStepError, Clouds, ShownOrder, vm_states};
use tenantd_store::{
    ReadTx, WriteTx,
    events::{Act, Actor, ActorKind, Intent},
};

use super::{Call, CallFuture, Effect, LocalError, LocalStep, Planned, Planning, RemoteStep, StepDone, StepError, StepType};

const HIDDEN: &str = "[hidden]";

impl From<CloudStepError> for StepError {
    fn from(error: CloudStepError) -> Self {
        Self { code: error.code, message: error.message, retryable: error.retryable }
    }
}

impl From<CloudError> for LocalError {
    fn from(error: CloudError) -> Self {
        match error {
            CloudError::Store(error) => Self::Store(error),
            other => Self::Step(CloudStepError::from(other).into()),
        }
    }
}

fn id<T: std::str::FromStr<Err: std::fmt::Display>>(with: &Value, name: &str) -> Result<T, StepError> {
    let text = with.get(name).and_then(Value::as_str).unwrap_or_default();
    text.parse().map_err(|error: T::Err| StepError::new("invalid_input", format!("/{name}: {error}")))
}

/// As whom a call changes what we know.
fn intent(call: &Call, now: Timestamp) -> Intent {
    let actor = Actor { kind: ActorKind::Workflow, id: call.idempotency_key.clone(), name: "Workflow step".to_owned() };
    Intent::new(call.tenant_id, now, actor)
}

/// Orders VMs.
#[derive(Clone, Debug)]
pub struct ProvisionVm(pub Clouds);

impl StepType for ProvisionVm {
    fn name(&self) -> &'static str {
        "vm.provision"
    }

    fn summary(&self) -> &'static str {
        "Orders VMs. Takes what the request to create VMs takes. Its output has `operation` and `vms`; `vm.wait_state` waits for them."
    }

    fn scopes(&self) -> Grants {
        Grants::of(&[Scope::VmsRead, Scope::VmsWrite])
    }

    fn schema(&self) -> Value {
        Clouds::order_schema()
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
        let ShownOrder { order, vm_ids } = self.0.plan_order(tx, &mut planning.intent.begin(), with)?;
        Ok(Planned { output: Some(order), summary: format!("would order {} VMs", vm_ids.len()) })
    }
}

impl LocalStep for ProvisionVm {
    fn apply(&self, tx: &mut WriteTx, act: &mut Act, with: &Value) -> Result<StepDone, LocalError> {
        let ShownOrder { order, vm_ids } = self.0.order(tx, act, with)?;
        let effects = vm_ids.iter().map(|id| Effect { kind: "vm", id: id.to_string() }).collect();
        Ok(StepDone { output: order, effects })
    }
}

/// Tries the credential of a provider.
#[derive(Clone, Debug)]
pub struct VerifyProvider(pub Clouds);

impl StepType for VerifyProvider {
    fn name(&self) -> &'static str {
        "provider.verify"
    }

    fn summary(&self) -> &'static str {
        "Tries the credential of a cloud provider. Its output is the verification; look at its `outcome`."
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
        let name = self.0.provider_name(tx, &planning.intent.begin(), provider)?;
        Ok(Planned { output: None, summary: format!("would verify the provider {name}") })
    }
}

impl RemoteStep for VerifyProvider {
    fn call(&self, call: Call) -> CallFuture {
        let clouds = self.0.clone();
        Box::pin(async move {
            let provider: CloudProviderId = id(&call.with, "provider_id")?;
            let now = clouds.now(call.tenant_id);
            let output = clouds.verify(intent(&call, now), provider).await?;
            Ok(StepDone { output, effects: vec![Effect { kind: "provider", id: provider.to_string() }] })
        })
    }
}

/// Waits for a state of a VM.
#[derive(Clone, Debug)]
pub struct WaitForVm(pub Clouds);

impl StepType for WaitForVm {
    fn name(&self) -> &'static str {
        "vm.wait_state"
    }

    fn summary(&self) -> &'static str {
        "Waits until a VM has one of the `states`, `running` when absent. Its output is the VM. `timeout_seconds` of the step bounds the \
         wait; a VM that is not there by then is worth a retry."
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
                "states": {"type": "array", "items": {"type": "string", "enum": vm_states()}, "minItems": 1, "maxItems": 11},
            },
        })
    }

    fn example(&self) -> Value {
        json!({"vm_id": "{{ steps.order.output.vms[0].id }}", "states": ["running"]})
    }

    fn plan(&self, _tx: &ReadTx, _planning: &Planning, with: &Value) -> Result<Planned, LocalError> {
        let states = wanted_states(with).join(" or ");
        Ok(Planned { output: None, summary: format!("would wait until the VM is {states}") })
    }
}

fn wanted_states(with: &Value) -> Vec<String> {
    let given = with.get("states").and_then(Value::as_array);
    let named = given.map(|states| states.iter().filter_map(Value::as_str).map(str::to_owned).collect());
    named.unwrap_or_else(|| vec!["running".to_owned()])
}

impl RemoteStep for WaitForVm {
    fn call(&self, call: Call) -> CallFuture {
        let clouds = self.0.clone();
        Box::pin(async move {
            let vm: VmId = id(&call.with, "vm_id")?;
            let states = wanted_states(&call.with);
            let now = clouds.now(call.tenant_id);
            let output = clouds.wait_for_state(intent(&call, now), vm, &states, call.timeout).await?;
            Ok(StepDone { output, effects: Vec::new() })
        })
    }
}
