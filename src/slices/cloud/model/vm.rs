//! A VM as every cloud's looks here.

use std::{collections::BTreeMap, net::IpAddr};

use serde::{Deserialize, Serialize};

use tenantd_base::{
    clock::Timestamp,
    id::{CloudProviderId, OperationId, OrganizationId, TenantId, VmId},
    vocabulary::vocabulary,
};

/// Syncs that a VM may be missing from before it counts as gone.
const MOST_MISSED: u32 = 2;

vocabulary! {
    VmState as variants:
    Provisioning "provisioning", Starting "starting", Running "running", Stopping "stopping", Stopped "stopped",
    Suspended "suspended", Rebooting "rebooting", Terminating "terminating", Terminated "terminated", Error "error",
    Unknown "unknown",
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct Size {
    /// The provider's name for it, such as `t3.small`.
    pub(crate) id: String,
    pub(crate) vcpus: Option<u32>,
    pub(crate) memory_bytes: Option<u64>,
}

/// A field of a VM that its provider's answer has in a form that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct UnreadField {
    /// The field's name on the wire, such as `public_ips`.
    pub(crate) field: String,
    /// The provider's name for it, and what is wrong there.
    pub(crate) reason: String,
}

impl UnreadField {
    /// In characters.
    pub(crate) const MAX_REASON: usize = 200;

    pub(crate) fn new(field: &str, reason: &str) -> Self {
        Self { field: field.to_owned(), reason: bounded(reason, Self::MAX_REASON) }
    }
}

/// The beginning of a text, at most this many characters.
pub(crate) fn bounded(text: &str, most: usize) -> String {
    text.chars().take(most).collect()
}

/// A VM as its cloud tells of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct CloudVm {
    /// Unique within the provider.
    pub(crate) provider_vm_id: String,
    pub(crate) name: String,
    pub(crate) state: VmState,
    /// The state in the provider's word.
    pub(crate) provider_state: String,
    /// What is worth saying about the state, such as that a stopped VM is still billed.
    pub(crate) state_note: Option<String>,
    /// Empty when the cloud does not say.
    pub(crate) region: String,
    pub(crate) zone: Option<String>,
    pub(crate) size: Size,
    pub(crate) image: Option<String>,
    pub(crate) private_ips: Vec<IpAddr>,
    pub(crate) public_ips: Vec<IpAddr>,
    pub(crate) tags: BTreeMap<String, String>,
    pub(crate) launched_at: Option<Timestamp>,
    /// At most one entry a field.
    #[serde(default)]
    pub(crate) unread: Vec<UnreadField>,
}

/// A VM as we keep it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Vm {
    pub(crate) id: VmId,
    pub(crate) tenant_id: TenantId,
    pub(crate) provider_id: CloudProviderId,
    /// Its `provider_vm_id` is empty while the cloud has not told it.
    pub(crate) facts: CloudVm,
    /// Its own; without one it belongs to the organization of its provider.
    pub(crate) organization_id: Option<OrganizationId>,
    /// The order that created it.
    pub(crate) operation_id: Option<OperationId>,
    pub(crate) discovered_at: Timestamp,
    /// The last sync that told of it, once one did not. While all do, the provider knows when.
    pub(crate) last_seen_at: Option<Timestamp>,
    /// Syncs in a row that did not tell of it.
    pub(crate) missed: u32,
    /// When it was found to be gone, or could not be created.
    pub(crate) ended_at: Option<Timestamp>,
    pub(crate) updated_at: Timestamp,
    pub(crate) version: u64,
}

impl Vm {
    /// Whether the cloud knows it: its creation has come that far.
    pub(crate) fn is_known(&self) -> bool {
        !self.facts.provider_vm_id.is_empty()
    }

    /// Takes up what the cloud tells now. Whether anything is new.
    pub(crate) fn see(&mut self, facts: &CloudVm, now: Timestamp) -> bool {
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

    /// Takes down that a sync did not tell of it. One that is missing for too long is gone.
    pub(crate) fn miss(&mut self, last_sync: Option<Timestamp>, now: Timestamp) {
        self.missed += 1;
        self.last_seen_at = self.last_seen_at.or(last_sync);
        if self.missed >= MOST_MISSED {
            self.facts.state = VmState::Terminated;
            self.ended_at = self.ended_at.or(Some(now));
        }
    }
}
