//! A VM as every cloud's looks here.

use std::{collections::BTreeMap, net::IpAddr};

use serde::{Deserialize, Serialize};

use crate::kernel::{
    clock::Timestamp,
    id::{CloudProviderId, OperationId, OrganizationId, TenantId, VmId},
};

/// Syncs that a VM may be missing from before it counts as gone.
const MOST_MISSED: u32 = 2;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub(in super::super) enum VmState {
    Provisioning,
    Starting,
    Running,
    Stopping,
    Stopped,
    Suspended,
    Rebooting,
    Terminating,
    Terminated,
    Error,
    Unknown,
}

impl VmState {
    pub(in super::super) const ALL: [Self; 11] = [
        Self::Provisioning,
        Self::Starting,
        Self::Running,
        Self::Stopping,
        Self::Stopped,
        Self::Suspended,
        Self::Rebooting,
        Self::Terminating,
        Self::Terminated,
        Self::Error,
        Self::Unknown,
    ];

    pub(in super::super) const fn name(self) -> &'static str {
        match self {
            Self::Provisioning => "provisioning",
            Self::Starting => "starting",
            Self::Running => "running",
            Self::Stopping => "stopping",
            Self::Stopped => "stopped",
            Self::Suspended => "suspended",
            Self::Rebooting => "rebooting",
            Self::Terminating => "terminating",
            Self::Terminated => "terminated",
            Self::Error => "error",
            Self::Unknown => "unknown",
        }
    }

    pub(in super::super) fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.name() == name)
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(in super::super) struct Size {
    /// The provider's name for it, such as `t3.small`.
    pub(in super::super) id: String,
    pub(in super::super) vcpus: Option<u32>,
    pub(in super::super) memory_bytes: Option<u64>,
}

/// A VM as its cloud tells of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(in super::super) struct CloudVm {
    /// Unique within the provider.
    pub(in super::super) provider_vm_id: String,
    pub(in super::super) name: String,
    pub(in super::super) state: VmState,
    /// The state in the provider's word.
    pub(in super::super) provider_state: String,
    /// What is worth saying about the state, such as that a stopped VM is still billed.
    pub(in super::super) state_note: Option<String>,
    pub(in super::super) region: String,
    pub(in super::super) zone: Option<String>,
    pub(in super::super) size: Size,
    pub(in super::super) image: Option<String>,
    pub(in super::super) private_ips: Vec<IpAddr>,
    pub(in super::super) public_ips: Vec<IpAddr>,
    pub(in super::super) tags: BTreeMap<String, String>,
    pub(in super::super) launched_at: Option<Timestamp>,
}

/// A VM as we keep it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(in super::super) struct Vm {
    pub(in super::super) id: VmId,
    pub(in super::super) tenant_id: TenantId,
    pub(in super::super) provider_id: CloudProviderId,
    /// Its `provider_vm_id` is empty while the cloud has not told it.
    pub(in super::super) facts: CloudVm,
    /// Its own; without one it belongs to the organization of its provider.
    pub(in super::super) organization_id: Option<OrganizationId>,
    /// The order that created it.
    pub(in super::super) operation_id: Option<OperationId>,
    pub(in super::super) discovered_at: Timestamp,
    /// The last sync that told of it, once one did not. While all do, the provider knows when.
    pub(in super::super) last_seen_at: Option<Timestamp>,
    /// Syncs in a row that did not tell of it.
    pub(in super::super) missed: u32,
    /// When it was found to be gone, or could not be created.
    pub(in super::super) ended_at: Option<Timestamp>,
    pub(in super::super) updated_at: Timestamp,
    pub(in super::super) version: u64,
}

impl Vm {
    /// Whether the cloud knows it: its creation has come that far.
    pub(in super::super) fn is_known(&self) -> bool {
        !self.facts.provider_vm_id.is_empty()
    }

    /// Takes up what the cloud tells now. Whether anything is new.
    pub(in super::super) fn see(&mut self, facts: &CloudVm, now: Timestamp) -> bool {
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
    pub(in super::super) fn miss(&mut self, last_sync: Option<Timestamp>, now: Timestamp) {
        self.missed += 1;
        self.last_seen_at = self.last_seen_at.or(last_sync);
        if self.missed >= MOST_MISSED {
            self.facts.state = VmState::Terminated;
            self.ended_at = self.ended_at.or(Some(now));
        }
    }
}
