//! A VM, in one form for all clouds.

use std::{collections::BTreeMap, net::IpAddr};

use serde::{Deserialize, Serialize};

use tenantd_base::{
    clock::Timestamp,
    id::{CloudProviderId, OperationId, OrganizationId, TenantId, VmId},
    vocabulary::vocabulary,
};

/// A VM that is missing from this many consecutive syncs counts as terminated.
const MAX_MISSED: u32 = 2;

vocabulary! {
    VmState as variants:
    Provisioning "provisioning", Starting "starting", Running "running", Stopping "stopping", Stopped "stopped",
    Suspended "suspended", Rebooting "rebooting", Terminating "terminating", Terminated "terminated", Error "error",
    Unknown "unknown",
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct Size {
    /// The provider's name of the size, such as `t3.small`.
    pub(crate) id: String,
    pub(crate) vcpus: Option<u32>,
    pub(crate) memory_bytes: Option<u64>,
}

/// A field of a VM that could not be read from the provider's response.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct UnreadField {
    /// The field's name on the wire, such as `public_ips`.
    pub(crate) field: String,
    /// The provider's name of the field, and the problem with its value.
    pub(crate) reason: String,
}

impl UnreadField {
    /// The maximum length of a reason, in characters.
    pub(crate) const MAX_REASON: usize = 200;

    pub(crate) fn new(field: &str, reason: &str) -> Self {
        Self { field: field.to_owned(), reason: bounded(reason, Self::MAX_REASON) }
    }
}

/// The first characters of a text, at most `most`.
pub(crate) fn bounded(text: &str, most: usize) -> String {
    text.chars().take(most).collect()
}

/// A VM as its cloud reports it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct CloudVm {
    /// Unique within the provider.
    pub(crate) provider_vm_id: String,
    pub(crate) name: String,
    pub(crate) state: VmState,
    /// The state in the provider's own terms.
    pub(crate) provider_state: String,
    /// A note about the state, such as that a stopped VM is still billed.
    pub(crate) state_note: Option<String>,
    /// Empty if the cloud does not report it.
    pub(crate) region: String,
    pub(crate) zone: Option<String>,
    pub(crate) size: Size,
    pub(crate) image: Option<String>,
    pub(crate) private_ips: Vec<IpAddr>,
    pub(crate) public_ips: Vec<IpAddr>,
    pub(crate) tags: BTreeMap<String, String>,
    pub(crate) launched_at: Option<Timestamp>,
    /// At most one entry per field.
    #[serde(default)]
    pub(crate) unread: Vec<UnreadField>,
}

/// A VM as it is stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Vm {
    pub(crate) id: VmId,
    pub(crate) tenant_id: TenantId,
    pub(crate) provider_id: CloudProviderId,
    /// The `provider_vm_id` is empty until the cloud has reported it.
    pub(crate) facts: CloudVm,
    /// The VM's own organization. If absent, the VM belongs to the organization of its provider.
    pub(crate) organization_id: Option<OrganizationId>,
    /// The operation that created the VM.
    pub(crate) operation_id: Option<OperationId>,
    pub(crate) discovered_at: Timestamp,
    /// The last sync that reported the VM. Set only after a sync did not report it; until then the sync state of the provider has
    /// the time.
    pub(crate) last_seen_at: Option<Timestamp>,
    /// The number of consecutive syncs that did not report the VM.
    pub(crate) missed: u32,
    /// When the VM was found to be terminated, or could not be created.
    pub(crate) ended_at: Option<Timestamp>,
    pub(crate) updated_at: Timestamp,
    pub(crate) version: u64,
}

impl Vm {
    /// Whether the cloud has created the VM and assigned an id.
    pub(crate) fn is_known(&self) -> bool {
        !self.facts.provider_vm_id.is_empty()
    }

    /// Applies what the cloud reports now. Returns whether anything changed.
    pub(crate) fn apply_facts(&mut self, facts: &CloudVm, now: Timestamp) -> bool {
        let ended = facts.state == VmState::Terminated;
        if self.facts == *facts && self.missed == 0 && self.ended_at.is_some() == ended {
            return false;
        }
        self.facts.clone_from(facts);
        self.missed = 0;
        self.last_seen_at = None;
        self.ended_at = ended.then(|| self.ended_at.unwrap_or(now));
        true
    }

    /// Records that a sync did not report the VM. After too many misses the VM counts as terminated.
    pub(crate) fn record_miss(&mut self, last_sync: Option<Timestamp>, now: Timestamp) {
        self.missed += 1;
        self.last_seen_at = self.last_seen_at.or(last_sync);
        if self.missed >= MAX_MISSED {
            self.facts.state = VmState::Terminated;
            self.ended_at = self.ended_at.or(Some(now));
        }
    }
}
