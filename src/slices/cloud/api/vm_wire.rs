//! The wire types for VMs and operations.

use std::collections::BTreeMap;

use poem_openapi::{Enum, Object};
use serde::Serialize;
use serde_with::skip_serializing_none;

use tenantd_base::{
    clock::Timestamp,
    fault::{Fault, pointer_part},
    id::{CloudProviderId, OperationId, OrganizationId, VmId},
    secrets::Secret,
};
use tenantd_directory::OrganizationReference;
use tenantd_http::{page::Page, wire::Word};
use tenantd_store::{Read, StoreError};

use super::{
    super::{
        fleet::SyncedProvider,
        model::{self, OperationStatus, OperationWork, Phase, ProviderKind, VmState},
        service::NewVms,
    },
    bodies::is_region,
    wire::{VerificationCheck, organization},
};

/// The cloud provider that runs a VM.
#[derive(Clone, Debug, Object, Serialize)]
pub(super) struct ProviderReference {
    pub(super) id: CloudProviderId,
    pub(super) name: String,
    pub(super) kind: Word<ProviderKind>,
}

/// The size of a VM.
#[skip_serializing_none]
#[derive(Clone, Debug, Object, Serialize)]
#[oai(skip_serializing_if_is_none)]
pub(super) struct VmSize {
    /// The provider's name of the size, such as `t3.small`.
    pub(super) id: String,
    /// The number of virtual CPUs. Absent when the provider does not report it.
    pub(super) vcpus: Option<u32>,
    /// The memory in bytes. Absent when the provider does not report it.
    pub(super) memory_bytes: Option<u64>,
}

/// A field of a VM that tenantd could not read from the provider's response.
#[derive(Clone, Debug, Object, Serialize)]
pub(super) struct UnreadableField {
    /// The field of the VM, such as `public_ips`. Its value in the VM is absent, empty or `unknown`.
    pub(super) field: String,
    /// The provider's name of the field, and the problem with its value.
    pub(super) reason: String,
}

/// A VM of a cloud provider.
#[skip_serializing_none]
#[derive(Clone, Debug, Object, Serialize)]
#[oai(skip_serializing_if_is_none, example)]
pub(super) struct Vm {
    pub(super) id: VmId,
    pub(super) provider: ProviderReference,
    /// The provider's own id of the VM. Absent until the provider has created the VM.
    pub(super) provider_vm_id: Option<String>,
    pub(super) name: String,
    pub(super) state: Word<VmState>,
    /// The state in the provider's own terms.
    pub(super) provider_state: String,
    /// A note about the state, such as that a stopped VM is still billed, or why the VM could not be created.
    pub(super) state_note: Option<String>,
    pub(super) organization: Option<OrganizationReference>,
    /// The provider's region. Absent when the provider does not report it.
    pub(super) region: Option<String>,
    /// The zone of the region. Absent when the provider does not report one.
    pub(super) zone: Option<String>,
    pub(super) size: Option<VmSize>,
    /// The image that the VM was created from.
    pub(super) image: Option<String>,
    /// The private IP addresses of the VM.
    pub(super) private_ips: Vec<String>,
    /// The public IP addresses of the VM.
    pub(super) public_ips: Vec<String>,
    pub(super) tags: BTreeMap<String, String>,
    /// When the VM was launched. Absent when the provider does not report it.
    pub(super) launched_at: Option<Timestamp>,
    /// The fields that tenantd could not read from the provider's response. Absent when the whole VM was read.
    pub(super) unreadable: Option<Vec<UnreadableField>>,
    /// When tenantd first found the VM, or when the VM was ordered.
    pub(super) discovered_at: Timestamp,
    /// When the provider last reported the VM.
    pub(super) last_synced_at: Timestamp,
    /// Whether this data may be out of date, because the provider has not reported the VM for too long.
    pub(super) stale: bool,
    /// The operation that created the VM. Absent for a VM that tenantd did not create.
    pub(super) operation_id: Option<OperationId>,
    /// When tenantd found that the VM no longer exists, or that it could not be created.
    pub(super) ended_at: Option<Timestamp>,
    pub(super) updated_at: Timestamp,
    /// The version of this record. Every change increments it.
    pub(super) version: u64,
}

impl From<&model::UnreadField> for UnreadableField {
    fn from(unread: &model::UnreadField) -> Self {
        Self { field: unread.field.clone(), reason: unread.reason.clone() }
    }
}

impl Vm {
    pub(super) fn new(tx: &impl Read, vm: &model::Vm, known: &SyncedProvider, now: Timestamp) -> Result<Self, StoreError> {
        let label = organization(tx, vm.tenant_id, known.organization(vm))?;
        Ok(Self::with_label(vm, known, label, now))
    }

    pub(super) fn with_label(
        vm: &model::Vm,
        known: &SyncedProvider,
        organization: Option<OrganizationReference>,
        now: Timestamp,
    ) -> Self {
        let facts = &vm.facts;
        let texts = |ips: &[std::net::IpAddr]| ips.iter().map(ToString::to_string).collect();
        let size = VmSize { id: facts.size.id.clone(), vcpus: facts.size.vcpus, memory_bytes: facts.size.memory_bytes };
        Self {
            id: vm.id,
            provider: ProviderReference { id: vm.provider_id, name: known.provider.name.clone(), kind: known.provider.kind.into() },
            provider_vm_id: vm.is_known().then(|| facts.provider_vm_id.clone()),
            name: facts.name.clone(),
            state: facts.state.into(),
            provider_state: facts.provider_state.clone(),
            state_note: facts.state_note.clone(),
            organization,
            region: Some(facts.region.clone()).filter(|region| !region.is_empty()),
            zone: facts.zone.clone(),
            size: (!size.id.is_empty()).then_some(size),
            image: facts.image.clone(),
            private_ips: texts(&facts.private_ips),
            public_ips: texts(&facts.public_ips),
            tags: facts.tags.clone(),
            launched_at: facts.launched_at,
            unreadable: (!facts.unread.is_empty()).then(|| facts.unread.iter().map(UnreadableField::from).collect()),
            discovered_at: vm.discovered_at,
            last_synced_at: known.last_synced(vm),
            stale: known.is_stale(vm, now),
            operation_id: vm.operation_id,
            ended_at: vm.ended_at,
            updated_at: vm.updated_at,
            version: vm.version,
        }
    }
}

/// The number of VMs with one value of the `group_by` field.
#[skip_serializing_none]
#[derive(Clone, Debug, Object, Serialize)]
#[oai(skip_serializing_if_is_none)]
pub(super) struct VmGroup {
    /// The value of the field, such as an id or a state. Absent for the group of VMs without a value.
    pub(super) value: Option<String>,
    /// The name of the provider or organization, if the value is its id.
    pub(super) name: Option<String>,
    pub(super) count: u64,
}

/// A page of VMs.
#[skip_serializing_none]
#[derive(Clone, Debug, Object, Serialize)]
#[oai(skip_serializing_if_is_none)]
pub(super) struct VmList {
    pub(super) data: Vec<Vm>,
    pub(super) page: Page,
    /// The counts of all matching VMs, grouped by the field that `group_by` names. Absent without `group_by`.
    pub(super) groups: Option<Vec<VmGroup>>,
    /// The operation that `refresh=true` started. Absent otherwise.
    pub(super) operation: Option<Operation>,
}

/// `vm_provision` creates VMs. `vm_refresh` syncs providers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Enum, Serialize)]
#[oai(rename_all = "snake_case")]
#[serde(rename_all = "snake_case")]
pub(super) enum OperationKind {
    VmProvision,
    VmRefresh,
}

/// The reason why an operation failed.
#[derive(Clone, Debug, Object, Serialize)]
pub(super) struct OperationProblem {
    pub(super) code: String,
    pub(super) message: String,
    /// Whether a retry may succeed later without any change.
    pub(super) transient: bool,
}

/// A VM that a failed operation left, or may have left, in the cloud.
#[skip_serializing_none]
#[derive(Clone, Debug, Object, Serialize)]
#[oai(skip_serializing_if_is_none)]
pub(super) struct OperationLeftover {
    /// The id of the VM in tenantd.
    pub(super) vm_id: VmId,
    pub(super) name: String,
    /// The provider's own id of the VM. Absent when tenantd does not know it.
    pub(super) provider_vm_id: Option<String>,
    /// The token of the order. The provider's records contain it as the client token, a tag or the name.
    pub(super) token: String,
    /// Whether it is unknown if the VM exists. If `true`, search the cloud for the token.
    pub(super) uncertain: bool,
}

/// A background operation: the creation of VMs, or a sync that a client requested.
#[skip_serializing_none]
#[derive(Clone, Debug, Object, Serialize)]
#[oai(skip_serializing_if_is_none, example)]
pub(super) struct Operation {
    pub(super) id: OperationId,
    pub(super) kind: OperationKind,
    pub(super) status: Word<OperationStatus>,
    pub(super) phase: Phase,
    /// The progress in percent, from 0 to 100.
    pub(super) progress: u32,
    pub(super) error: Option<OperationProblem>,
    pub(super) leftovers: Option<Vec<OperationLeftover>>,
    /// The VMs that the operation creates. Absent for a refresh.
    pub(super) vm_ids: Option<Vec<VmId>>,
    /// The providers that the operation uses.
    pub(super) provider_ids: Vec<CloudProviderId>,
    pub(super) created_at: Timestamp,
    pub(super) updated_at: Timestamp,
    pub(super) ended_at: Option<Timestamp>,
}

impl From<&model::Operation> for Operation {
    fn from(operation: &model::Operation) -> Self {
        let (kind, vm_ids, provider_ids) = match &operation.work {
            OperationWork::Provision { provider_id, slots, .. } => {
                (OperationKind::VmProvision, Some(slots.iter().map(|slot| slot.vm_id).collect()), vec![*provider_id])
            }
            OperationWork::Refresh { providers } => {
                (OperationKind::VmRefresh, None, providers.iter().map(|one| one.provider_id).collect())
            }
        };
        let leftover = |left: model::Leftover| OperationLeftover {
            vm_id: left.vm_id,
            name: left.name,
            provider_vm_id: left.provider_vm_id,
            token: left.token,
            uncertain: left.uncertain,
        };
        let leftovers: Vec<OperationLeftover> = operation.leftovers().into_iter().map(leftover).collect();
        let problem = |error: &model::OperationError| OperationProblem {
            code: error.code.clone(),
            message: error.message.clone(),
            transient: error.transient,
        };
        Self {
            id: operation.id,
            kind,
            status: operation.status.into(),
            phase: operation.phase(),
            progress: operation.progress(),
            error: operation.error().map(problem),
            leftovers: (!leftovers.is_empty()).then_some(leftovers),
            vm_ids,
            provider_ids,
            created_at: operation.created_at,
            updated_at: operation.updated_at,
            ended_at: operation.ended_at,
        }
    }
}

/// The VMs to create.
#[derive(Clone, Debug, Object)]
#[oai(skip_serializing_if_is_none, example)]
pub(super) struct ProvisionVms {
    /// The provider that creates the VMs.
    pub(super) provider_id: CloudProviderId,
    /// The name of the VM. If `count` is greater than 1, tenantd appends a number, such as `web-1`.
    #[oai(validator(min_length = 1, max_length = 60, pattern = "^[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?$"))]
    pub(super) name: String,
    /// The provider's name of the region, such as `eu-west-1`.
    #[oai(validator(min_length = 1, max_length = 64))]
    pub(super) region: String,
    /// The provider's name of the zone, such as `eu-west-1a`. Clouds without zones do not accept it.
    #[oai(validator(min_length = 1, max_length = 64))]
    pub(super) zone: Option<String>,
    /// The provider's name of the size, such as `t3.small`.
    #[oai(validator(min_length = 1, max_length = 128))]
    pub(super) size: String,
    /// The provider's id or name of the image.
    #[oai(validator(min_length = 1, max_length = 256))]
    pub(super) image: String,
    /// The number of VMs. Defaults to 1.
    #[oai(validator(minimum(value = "1"), maximum(value = "20")))]
    pub(super) count: Option<u32>,
    /// The provider's id of the network or subnet. When absent, the provider's default. Required for azure.
    #[oai(validator(min_length = 1, max_length = 256))]
    pub(super) network: Option<String>,
    /// The SSH keys that may sign in: names or ids of keys at the provider, or public keys for azure, gcp and proxmox.
    #[oai(validator(min_items = 1, max_items = 16, unique_items))]
    pub(super) ssh_keys: Option<Vec<String>>,
    /// The script or configuration that the VM runs at its first start. tenantd encrypts it and deletes it when the operation has
    /// ended.
    #[oai(write_only, validator(min_length = 1, max_length = 16384))]
    pub(super) user_data: Option<String>,
    pub(super) tags: Option<BTreeMap<String, String>>,
    /// The organization that the VMs belong to. When absent, the organization of the provider.
    pub(super) organization_id: Option<OrganizationId>,
}

const MAX_TAGS: usize = 40;
const MAX_KEY_LENGTH: usize = 127;
const MAX_VALUE_LENGTH: usize = 255;

impl From<ProvisionVms> for NewVms {
    fn from(body: ProvisionVms) -> Self {
        let tags = body.tags.unwrap_or_default();
        let mut faults = Vec::new();
        if !is_region(&body.region) {
            faults.push(Fault::new("/region", "wrong_form", "must be the name of a region, such as eu-west-1"));
        }
        if body.zone.as_deref().is_some_and(|zone| !is_region(zone)) {
            faults.push(Fault::new("/zone", "wrong_form", "must be the name of a zone, such as eu-west-1a"));
        }
        if tags.len() > MAX_TAGS {
            faults.push(Fault::new("/tags", "too_many", format!("must have at most {MAX_TAGS} entries")));
        }
        for (key, value) in &tags {
            let pointer = format!("/tags/{}", pointer_part(key));
            if key.is_empty() || key.chars().count() > MAX_KEY_LENGTH || value.chars().count() > MAX_VALUE_LENGTH {
                let message = format!(
                    "a tag must have a key of 1 to {MAX_KEY_LENGTH} characters and a value of at most {MAX_VALUE_LENGTH} characters"
                );
                faults.push(Fault::new(pointer, "wrong_form", message));
            } else if key == model::OrderToken::TAG || key == "Name" {
                faults.push(Fault::new(pointer, "not_allowed", format!("tenantd sets the tag {key} itself: use a different key")));
            }
        }
        Self {
            provider_id: body.provider_id,
            organization_id: body.organization_id,
            name: body.name,
            region: body.region,
            zone: body.zone,
            size: body.size,
            image: body.image,
            network: body.network,
            ssh_keys: body.ssh_keys.unwrap_or_default(),
            user_data: body.user_data.map(Secret::new),
            tags,
            count: body.count.unwrap_or(1),
            faults,
        }
    }
}

/// An accepted order, or the expected result of a dry run.
#[skip_serializing_none]
#[derive(Clone, Debug, Object, Serialize)]
#[oai(skip_serializing_if_is_none)]
pub(super) struct VmOrder {
    /// The operation that creates the VMs. Absent in a dry run.
    pub(super) operation: Option<Operation>,
    pub(super) vms: Vec<Vm>,
    /// The checks that the dry run made, with the provider's responses. Absent unless `dry_run` is set.
    pub(super) checks: Option<Vec<VerificationCheck>>,
    /// Whether the provider would accept the order, as far as the dry run can determine. Absent unless `dry_run` is set.
    pub(super) would_succeed: Option<bool>,
}
