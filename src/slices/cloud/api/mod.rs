//! The HTTP API for clouds.

mod bodies;
mod examples;
mod operations;
mod provider;
mod providers;
mod vm_wire;
mod vms;
mod vocabulary;
mod wire;

pub(super) use operations::OperationsApi;
pub(super) use provider::ProviderApi;
pub(super) use providers::ProvidersApi;
pub(super) use vms::VmsApi;

use poem_openapi::{Tags, types::ParseFromJSON};
use serde_json::{Value, json, value::to_raw_value};

use wire::{CloudProvider, ProviderVerification};

use tenantd_base::{clock::Timestamp, fault::Fault};
use tenantd_egress::{Egress, without_query};
use tenantd_http::{
    openapi,
    problem::{Code, Problem},
    shape::Shape,
};
use tenantd_store::{
    Read, StoreError, WriteTx,
    events::{Describe, Described},
};

use super::{
    error::CloudError,
    fleet::SyncedProvider,
    model,
    repo::portable::Rules,
    service::{NewVms, Plan},
};

/// The API's limits, for records that arrive with the import of a tenant.
pub(super) fn import_rules(max_providers: u64, egress: Egress) -> Result<Rules, String> {
    let provider = Shape::fields::<bodies::CreateCloudProvider>(&["name"])?;
    let interval = Shape::fields::<bodies::CreateCloudProvider>(&["sync_interval_seconds"])?;
    let config = Shape::of::<wire::ProviderConfig>()?;
    let credential = Shape::of::<bodies::CredentialInput>()?;
    Ok(Rules {
        max_providers,
        egress,
        provider: Box::new(move |record| {
            provider.check(record)?;
            interval.check(&json!({"sync_interval_seconds": record.get("interval_seconds")}))
        }),
        config: Box::new(move |given| {
            let shown = serde_json::to_value(wire::ProviderConfig::from(given.clone())).map_err(|error| error.to_string())?;
            config.check(&shown)?;
            if given.regions.iter().all(|region| bodies::is_region(region)) {
                Ok(())
            } else {
                Err("regions: not a region".to_owned())
            }
        }),
        credential: Box::new(move |given| credential.check(given)),
    })
}

#[derive(Tags)]
enum Area {
    /// Manage cloud providers, list their VMs and create new VMs.
    Cloud,
    /// Follow the progress of background operations.
    Operations,
}

impl Describe<&WriteTx, CloudError> for model::Provider {
    fn describe(&self, tx: &WriteTx) -> Described<CloudError> {
        let mut shown = show_provider(tx, self.clone())?;
        for url in [&mut shown.config.endpoint, &mut shown.config.auth_url].into_iter().flatten() {
            *url = without_query(url).to_owned();
        }
        Ok(to_raw_value(&shown)?)
    }
}

impl Describe<(&WriteTx, Timestamp), CloudError> for model::Vm {
    fn describe(&self, (tx, now): (&WriteTx, Timestamp)) -> Described<CloudError> {
        Ok(to_raw_value(&show_vm(tx, self, now)?)?)
    }
}

fn show_vm(tx: &impl Read, vm: &model::Vm, now: Timestamp) -> Result<vm_wire::Vm, CloudError> {
    let known = SyncedProvider::read(tx, vm.tenant_id, vm.provider_id)?.ok_or(CloudError::NoProvider)?;
    Ok(vm_wire::Vm::new(tx, vm, &known, now)?)
}

fn show_provider(tx: &impl Read, provider: model::Provider) -> Result<CloudProvider, StoreError> {
    let sync = super::repo::providers::sync(tx, (provider.tenant_id, provider.id))?;
    CloudProvider::new(tx, SyncedProvider { provider, sync })
}

pub(super) fn order_schema() -> Value {
    openapi::input_schema::<vm_wire::ProvisionVms>()
}

pub(super) fn read_order(form: &Value) -> Result<NewVms, CloudError> {
    let parsed = vm_wire::ProvisionVms::parse_from_json(Some(form.clone()));
    let fault = |message: String| CloudError::Invalid(vec![Fault::new("", "not_valid", message)]);
    Ok(parsed.map_err(|error| fault(error.into_message()))?.into())
}

/// The order as the API returns it. A planned order has no operation.
pub(super) fn show_order(tx: &impl Read, plan: &Plan, now: Timestamp, taken: bool) -> Result<Value, CloudError> {
    let operation = taken.then(|| (&plan.operation).into());
    Ok(serde_json::to_value(vms::show_plan(tx, plan, now, operation)?)?)
}

pub(super) fn show_verification(verification: &model::Verification) -> Value {
    serde_json::to_value(ProviderVerification::from(verification.clone())).unwrap_or_default()
}

pub(super) fn show_vm_value(tx: &impl Read, vm: &model::Vm, now: Timestamp) -> Result<Value, CloudError> {
    Ok(serde_json::to_value(show_vm(tx, vm, now)?)?)
}

impl From<CloudError> for Problem {
    fn from(error: CloudError) -> Self {
        match error {
            CloudError::NoProvider | CloudError::NoVm | CloudError::NoOperation => Self::plain(Code::NotFound),
            CloudError::NameTaken => {
                Self::new(Code::AlreadyExists, "Another provider already has this name. Choose a different name.")
            }
            CloudError::LimitReached { most } => Self::new(
                Code::LimitReached,
                format!("The tenant has reached its limit of {most} cloud providers. Delete one that you no longer need."),
            ),
            CloudError::InUse => {
                Self::new(Code::InUse, "VMs are being created at this provider. Wait until the operation has ended, then retry.")
            }
            CloudError::Disabled => Self::new(Code::InvalidTransition, "The provider is disabled. Enable it first."),
            CloudError::Invalid(faults) => faults.into(),
            CloudError::NotVerified(result) => {
                let verification = ProviderVerification::from(result.0);
                let detail = verification.message.clone().unwrap_or_else(|| Code::ProviderVerificationFailed.remedy().to_owned());
                let shown = serde_json::to_value(&verification).unwrap_or_default();
                Self::new(Code::ProviderVerificationFailed, detail).with("verification", shown)
            }
            CloudError::Stale(stale) => stale.into(),
            CloudError::Event(error) => Self::internal(error),
            CloudError::Sealing(error) => Self::internal(error),
            CloudError::Store(error) => error.into(),
        }
    }
}
