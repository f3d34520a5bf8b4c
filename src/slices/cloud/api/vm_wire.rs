//! VMs and operations as clients see and send them.

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
        error::CloudError,
        fleet::Known,
        model::{self, OperationStatus, OperationWork, Phase, ProviderKind, VmState},
        service::NewVms,
    },
    bodies::is_region,
    wire::{VerificationCheck, organization},
};

/// The provider that has a VM.
#[derive(Clone, Debug, Object, Serialize)]
pub(super) struct ProviderReference {
    pub(super) id: CloudProviderId,
    pub(super) name: String,
    pub(super) kind: Word<ProviderKind>,
}

/// What a VM has.
#[skip_serializing_none]
#[derive(Clone, Debug, Object, Serialize)]
#[oai(skip_serializing_if_is_none)]
pub(super) struct VmSize {
    /// The provider's name for it.
    pub(super) id: String,
    /// How many virtual CPUs.
    pub(super) vcpus: Option<u32>,
    /// The memory in bytes.
    pub(super) memory_bytes: Option<u64>,
}

/// A field of a VM that the provider's answer has in a form that tenantd cannot read.
#[derive(Clone, Debug, Object, Serialize)]
pub(super) struct UnreadableField {
    /// The field of the VM, such as `public_ips`. It is absent, empty or `unknown`.
    pub(super) field: String,
    /// The provider's name of the field, and what is wrong with its value.
    pub(super) reason: String,
}

/// A VM.
#[skip_serializing_none]
#[derive(Clone, Debug, Object, Serialize)]
#[oai(skip_serializing_if_is_none, example)]
pub(super) struct Vm {
    pub(super) id: VmId,
    pub(super) provider: ProviderReference,
    /// The provider's own id; absent while it is not created.
    pub(super) provider_vm_id: Option<String>,
    pub(super) name: String,
    pub(super) state: Word<VmState>,
    /// The state in the provider's word.
    pub(super) provider_state: String,
    /// What is worth saying about the state, such as that a stopped VM is still billed, or why it could not be created.
    pub(super) state_note: Option<String>,
    pub(super) organization: Option<OrganizationReference>,
    /// The region of the provider. Absent when the provider does not say.
    pub(super) region: Option<String>,
    /// The zone of the region.
    pub(super) zone: Option<String>,
    pub(super) size: Option<VmSize>,
    /// The image that the VM was made from.
    pub(super) image: Option<String>,
    /// Its private addresses.
    pub(super) private_ips: Vec<String>,
    /// Its public addresses.
    pub(super) public_ips: Vec<String>,
    pub(super) tags: BTreeMap<String, String>,
    /// When the VM was launched.
    pub(super) launched_at: Option<Timestamp>,
    /// Fields that could not be read. Absent when the whole VM was read.
    pub(super) unreadable: Option<Vec<UnreadableField>>,
    /// When it was first seen, or ordered.
    pub(super) discovered_at: Timestamp,
    /// When its cloud last told of it.
    pub(super) last_synced_at: Timestamp,
    /// Whether this may not be so any more: its cloud has not told of it for too long.
    pub(super) stale: bool,
    /// The order that created it.
    pub(super) operation_id: Option<OperationId>,
    /// When it was found to be gone, or could not be created.
    pub(super) ended_at: Option<Timestamp>,
    pub(super) updated_at: Timestamp,
    /// Counts the changes of this record.
    pub(super) version: u64,
}

impl From<&model::UnreadField> for UnreadableField {
    fn from(unread: &model::UnreadField) -> Self {
        Self { field: unread.field.clone(), reason: unread.reason.clone() }
    }
}

impl Vm {
    pub(super) fn new(tx: &impl Read, vm: &model::Vm, known: &Known, now: Timestamp) -> Result<Self, StoreError> {
        let label = organization(tx, vm.tenant_id, known.organization(vm))?;
        Ok(Self::labelled(vm, known, label, now))
    }

    pub(super) fn labelled(vm: &model::Vm, known: &Known, organization: Option<OrganizationReference>, now: Timestamp) -> Self {
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

/// VMs that have one value of the field that was grouped by.
#[skip_serializing_none]
#[derive(Clone, Debug, Object, Serialize)]
#[oai(skip_serializing_if_is_none)]
pub(super) struct VmGroup {
    /// The value: an id, or a word. Absent for VMs that have none.
    pub(super) value: Option<String>,
    /// The name of what the id names.
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
    /// All VMs that match, by the field that `group_by` names.
    pub(super) groups: Option<Vec<VmGroup>>,
    /// The sync that `refresh=true` has asked for.
    pub(super) operation: Option<Operation>,
}

/// What an operation does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Enum, Serialize)]
#[oai(rename_all = "snake_case")]
#[serde(rename_all = "snake_case")]
pub(super) enum OperationKind {
    VmProvision,
    VmRefresh,
}

/// Why an operation failed.
#[derive(Clone, Debug, Object, Serialize)]
pub(super) struct OperationProblem {
    pub(super) code: String,
    pub(super) message: String,
    /// Whether the same could go well at another time.
    pub(super) transient: bool,
}

/// What a failed operation left in the cloud, or may have.
#[skip_serializing_none]
#[derive(Clone, Debug, Object, Serialize)]
#[oai(skip_serializing_if_is_none)]
pub(super) struct OperationLeftover {
    /// The id of the VM.
    pub(super) vm_id: VmId,
    pub(super) name: String,
    /// The id of the VM at the provider.
    pub(super) provider_vm_id: Option<String>,
    /// What its order carried: the cloud's records have it as the client token, a tag or the name.
    pub(super) token: String,
    /// Nobody knows whether it is there: look for the token.
    pub(super) uncertain: bool,
}

/// What goes on in the background.
#[skip_serializing_none]
#[derive(Clone, Debug, Object, Serialize)]
#[oai(skip_serializing_if_is_none, example)]
pub(super) struct Operation {
    pub(super) id: OperationId,
    pub(super) kind: OperationKind,
    pub(super) status: Word<OperationStatus>,
    pub(super) phase: Phase,
    /// In percent.
    pub(super) progress: u32,
    pub(super) error: Option<OperationProblem>,
    pub(super) leftovers: Option<Vec<OperationLeftover>>,
    /// The VMs of an order.
    pub(super) vm_ids: Option<Vec<VmId>>,
    /// The providers that it is about.
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

/// VMs to create.
#[derive(Clone, Debug, Object)]
#[oai(skip_serializing_if_is_none, example)]
pub(super) struct ProvisionVms {
    /// The provider to create the VMs at.
    pub(super) provider_id: CloudProviderId,
    /// Of several VMs the name has a number behind it.
    #[oai(validator(min_length = 1, max_length = 60, pattern = "^[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?$"))]
    pub(super) name: String,
    /// The region of the provider.
    #[oai(validator(min_length = 1, max_length = 64))]
    pub(super) region: String,
    /// The zone of the region.
    #[oai(validator(min_length = 1, max_length = 64))]
    pub(super) zone: Option<String>,
    /// The provider's name for it, such as `t3.small`.
    #[oai(validator(min_length = 1, max_length = 128))]
    pub(super) size: String,
    /// The provider's id of it.
    #[oai(validator(min_length = 1, max_length = 256))]
    pub(super) image: String,
    /// How many. One when absent.
    #[oai(validator(minimum(value = "1"), maximum(value = "20")))]
    pub(super) count: Option<u32>,
    /// The provider's id of the network or subnet to be in.
    #[oai(validator(min_length = 1, max_length = 256))]
    pub(super) network: Option<String>,
    /// The provider's names or ids of keys to let in.
    #[oai(validator(min_items = 1, max_items = 16, unique_items))]
    pub(super) ssh_keys: Option<Vec<String>>,
    /// What the VM runs at its first start. It is kept sealed, and only until the VM is there.
    #[oai(write_only, validator(min_length = 1, max_length = 16384))]
    pub(super) user_data: Option<String>,
    pub(super) tags: Option<BTreeMap<String, String>>,
    /// Whose VMs these are. The provider's organization when absent.
    pub(super) organization_id: Option<OrganizationId>,
}

const MOST_TAGS: usize = 40;
const LONGEST_KEY: usize = 127;
const LONGEST_VALUE: usize = 255;

impl TryFrom<ProvisionVms> for NewVms {
    type Error = CloudError;

    fn try_from(body: ProvisionVms) -> Result<Self, CloudError> {
        let tags = body.tags.unwrap_or_default();
        let mut faults = Vec::new();
        if !is_region(&body.region) {
            faults.push(Fault::new("/region", "wrong_form", "must be the name of a region, such as eu-west-1"));
        }
        if body.zone.as_deref().is_some_and(|zone| !is_region(zone)) {
            faults.push(Fault::new("/zone", "wrong_form", "must be the name of a zone, such as eu-west-1a"));
        }
        if tags.len() > MOST_TAGS {
            faults.push(Fault::new("/tags", "too_many", format!("must have at most {MOST_TAGS} entries")));
        }
        for (key, value) in &tags {
            let pointer = format!("/tags/{}", pointer_part(key));
            if key.is_empty() || key.chars().count() > LONGEST_KEY || value.chars().count() > LONGEST_VALUE {
                let message = format!("a tag has a key of 1 to {LONGEST_KEY} and a value of at most {LONGEST_VALUE} characters");
                faults.push(Fault::new(pointer, "wrong_form", message));
            } else if key == model::OrderToken::TAG || key == "Name" {
                faults.push(Fault::new(pointer, "not_allowed", format!("the tag {key} is set by tenantd")));
            }
        }
        if !faults.is_empty() {
            return Err(CloudError::Invalid(faults));
        }
        Ok(Self {
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
        })
    }
}

/// An order that was taken; of a dry run, what would come of it.
#[skip_serializing_none]
#[derive(Clone, Debug, Object, Serialize)]
#[oai(skip_serializing_if_is_none)]
pub(super) struct VmOrder {
    /// Absent in a dry run.
    pub(super) operation: Option<Operation>,
    pub(super) vms: Vec<Vm>,
    /// In a dry run: what the provider was asked, and what it said.
    pub(super) checks: Option<Vec<VerificationCheck>>,
    /// In a dry run: whether the order would be taken, as far as that can be told.
    pub(super) would_succeed: Option<bool>,
}
