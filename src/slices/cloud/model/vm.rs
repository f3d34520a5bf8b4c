//! A VM as every cloud's looks here.

use std::{collections::BTreeMap, net::IpAddr};

use serde::{Deserialize, Serialize};

use crate::kernel::clock::Timestamp;

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
