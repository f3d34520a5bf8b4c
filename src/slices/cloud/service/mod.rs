//! The use cases of providers, VMs and operations. Every method runs one use case in the caller's transaction: check, write, append
//! the event. Nothing here calls a cloud.

mod operations;
mod providers;
mod syncs;
mod vms;

use serde_json::value::RawValue;

use tenantd_base::{
    access::{Grants, Scope},
    secrets::Sealer,
};
use tenantd_store::{
    StoreError, WriteTx,
    events::{self, Act, Changes, Describe, Draft, EventKind},
};

use super::{
    error::CloudError,
    model::{Provider, Vm},
};

pub(super) use operations::SlotOutcome;
pub(super) use providers::{NewProvider, ProviderChange, find as find_provider};
pub(super) use syncs::{SyncChange, SyncCounts, SyncEnd};
pub(super) use vms::{NewVms, Plan};

pub(super) static PROVIDER_CREATED: EventKind = EventKind {
    name: "cloud.provider.created",
    summary: "A cloud provider was created.",
    subject: "provider",
    schema: "CloudProvider",
    reads: Grants::of(&[Scope::ProvidersRead]),
    has_changes: false,
};
pub(super) static PROVIDER_UPDATED: EventKind =
    EventKind { name: "cloud.provider.updated", summary: "A cloud provider was changed.", has_changes: true, ..PROVIDER_CREATED };
pub(super) static PROVIDER_DELETED: EventKind =
    EventKind { name: "cloud.provider.deleted", summary: "A cloud provider was deleted.", ..PROVIDER_CREATED };
pub(super) static PROVIDER_VERIFIED: EventKind = EventKind {
    name: "cloud.provider.verified",
    summary: "The credential of a cloud provider was verified successfully.",
    ..PROVIDER_CREATED
};
pub(super) static PROVIDER_NOT_VERIFIED: EventKind = EventKind {
    name: "cloud.provider.verification_failed",
    summary: "The verification of a cloud provider's credential failed.",
    ..PROVIDER_CREATED
};
pub(super) static VM_PROVISIONING: EventKind = EventKind {
    name: "vm.provisioning",
    summary: "A VM was ordered.",
    subject: "vm",
    schema: "Vm",
    reads: Grants::of(&[Scope::VmsRead]),
    has_changes: false,
};
pub(super) static VM_CREATED: EventKind =
    EventKind { name: "vm.created", summary: "A cloud created an ordered VM, or a sync found a new VM.", ..VM_PROVISIONING };
pub(super) static VM_PROVISION_FAILED: EventKind = EventKind {
    name: "vm.provision_failed",
    summary: "A VM that was ordered could not be created, or did not start.",
    ..VM_PROVISIONING
};
pub(super) static VM_STATE_CHANGED: EventKind =
    EventKind { name: "vm.state_changed", summary: "The state of a VM changed.", has_changes: true, ..VM_PROVISIONING };
pub(super) static VM_UPDATED: EventKind =
    EventKind { name: "vm.updated", summary: "A VM changed in its cloud, without a change of state.", ..VM_PROVISIONING };
pub(super) static VM_REMOVED: EventKind =
    EventKind { name: "vm.removed", summary: "A VM no longer exists in its cloud.", ..VM_PROVISIONING };

#[derive(Clone, Debug)]
pub(super) struct Service {
    pub(super) sealer: Sealer,
    pub(super) max_providers: usize,
}

fn announce_vm(
    tx: &mut WriteTx,
    act: &mut Act,
    kind: &'static EventKind,
    vm: &Vm,
    changes: Option<Changes>,
) -> Result<(), CloudError> {
    let shown = vm.describe((&*tx, act.now))?;
    append(tx, act, kind, (vm.id.to_string(), vm.version), &shown, changes)
}

fn announce_provider(
    tx: &mut WriteTx,
    act: &mut Act,
    kind: &'static EventKind,
    provider: &Provider,
    changes: Option<Changes>,
) -> Result<(), CloudError> {
    let shown = provider.describe(&*tx)?;
    append(tx, act, kind, (provider.id.to_string(), provider.version), &shown, changes)
}

fn append(
    tx: &mut WriteTx,
    act: &mut Act,
    kind: &'static EventKind,
    (id, version): (String, u64),
    shown: &RawValue,
    changes: Option<Changes>,
) -> Result<(), CloudError> {
    let draft = Draft::new(kind, id, version, shown).with_changes(changes.as_ref());
    events::append(tx, act, &draft).map(drop).map_err(|error: StoreError| error.into())
}
