//! The responses of Proxmox VE, limited to the fields that are used.

use std::{
    collections::{BTreeMap, HashMap},
    net::IpAddr,
};

use serde::Deserialize;
use serde_json::Value;

use tenantd_base::clock::Timestamp;

use super::super::{
    super::model::{CloudVm, Failure, FailureClass, Size, VmState},
    client::Reply,
    fields::{Field, Unread},
    wire::{add_address, is_reachable},
};

/// The envelope of every response.
#[derive(Debug, Deserialize)]
pub(super) struct Data<T> {
    pub(super) data: T,
}

#[derive(Debug, Deserialize)]
pub(super) struct Version {
    pub(super) version: String,
}

/// A guest in the list of the cluster's resources.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Guest {
    #[serde(rename = "type")]
    kind: String,
    pub(super) vmid: u64,
    pub(super) node: String,
    /// Absent while the node is offline.
    #[serde(default)]
    pub(super) name: Field<String>,
    #[serde(default)]
    status: Field<String>,
    #[serde(default)]
    template: u8,
    #[serde(default)]
    maxcpu: Field<u32>,
    #[serde(default)]
    maxmem: Field<u64>,
    #[serde(default)]
    tags: Field<String>,
    #[serde(default)]
    lock: Field<String>,
}

/// The status of a guest from its own node, which is more precise.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct CurrentStatus {
    status: Field<String>,
    qmpstatus: Field<String>,
    lock: Field<String>,
    cpus: Field<u32>,
    maxmem: Field<u64>,
}

/// The settings of a guest, with numbers and strings mixed.
#[derive(Debug, Default, Deserialize)]
#[serde(transparent)]
pub(super) struct GuestConfig(HashMap<String, Value>);

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct AgentInterfaces {
    result: Field<Vec<Field<AgentInterface>>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct AgentInterface {
    #[serde(rename = "ip-addresses")]
    ip_addresses: Field<Vec<Field<AgentAddress>>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct AgentAddress {
    #[serde(rename = "ip-address")]
    ip_address: Field<String>,
}

impl AgentInterfaces {
    fn addresses(self, unread: &mut Unread) -> Vec<IpAddr> {
        let mut found = Vec::new();
        for interface in unread.list("private_ips", "network-get-interfaces", self.result) {
            for address in unread.list("private_ips", "ip-addresses", interface.ip_addresses) {
                found.extend(unread.address("private_ips", "ip-address", address.ip_address));
            }
        }
        found.retain(|address| is_reachable(*address));
        found
    }
}

#[derive(Debug, Deserialize)]
pub(super) struct Node {
    pub(super) node: String,
}

/// The status of an asynchronous task.
#[derive(Debug, Deserialize)]
pub(super) struct TaskStatus {
    status: String,
    exitstatus: Option<String>,
}

impl TaskStatus {
    /// The result of the task. `None` while it is running.
    pub(super) fn outcome(&self) -> Option<Result<(), Failure>> {
        if self.status != "stopped" {
            return None;
        }
        let said = self.exitstatus.as_deref().unwrap_or_default();
        if said == "OK" || said.starts_with("WARNINGS") {
            return Some(Ok(()));
        }
        let full = ["no space", "out of space", "not enough", "quota"].iter().any(|word| said.to_lowercase().contains(word));
        let class = if full { FailureClass::QuotaExceeded } else { FailureClass::ProviderError };
        Some(Err(Failure::new(class, "task_failed", said)))
    }
}

/// The privileges, by path.
#[derive(Debug, Deserialize)]
#[serde(transparent)]
pub(super) struct Permissions(HashMap<String, HashMap<String, u8>>);

impl Permissions {
    /// Whether the token has the privilege on any path that applies to guests.
    pub(super) fn have(&self, privilege: &str) -> bool {
        let of_guests = |path: &str| path == "/" || path.starts_with("/vms") || path.starts_with("/pool");
        self.0.iter().any(|(path, privileges)| of_guests(path) && privileges.contains_key(privilege))
    }
}

impl GuestConfig {
    pub(super) fn text(&self, name: &str) -> Option<String> {
        match self.0.get(name)? {
            Value::String(text) => Some(text.clone()),
            other => Some(other.to_string()),
        }
    }

    /// Whether the guest agent is enabled. A request to a missing agent takes seconds.
    pub(super) fn has_agent(&self) -> bool {
        self.text("agent").is_some_and(|agent| agent.split(',').any(|part| part == "1" || part == "enabled=1"))
    }

    /// The creation time from `meta`, such as `creation-qemu=9.0.2,ctime=1706000000`.
    fn created_at(&self) -> Option<Timestamp> {
        let meta = self.text("meta")?;
        let seconds: i64 = meta.split(',').find_map(|part| part.strip_prefix("ctime="))?.parse().ok()?;
        Some(Timestamp::from_millis(seconds.checked_mul(1000)?))
    }

    /// The static addresses in the cloud-init settings, such as `ip=10.0.0.5/24,gw=10.0.0.1`.
    fn static_addresses(&self) -> impl Iterator<Item = IpAddr> {
        let settings = (0..8).filter_map(|place| self.text(&format!("ipconfig{place}")));
        let parts = settings.flat_map(|setting| setting.split(',').map(str::to_owned).collect::<Vec<_>>());
        parts.filter_map(|part| {
            let address = part.strip_prefix("ip=").or_else(|| part.strip_prefix("ip6="))?;
            address.split('/').next()?.parse().ok()
        })
    }
}

fn state(status: &str, qmp: Option<&str>, lock: Option<&str>) -> VmState {
    match (lock, status, qmp) {
        (Some("clone" | "create"), ..) => VmState::Provisioning,
        (Some("suspending"), ..) => VmState::Stopping,
        // During a live migration, one side waits and the other is paused briefly. The guest is still running.
        (Some("migrate"), "running", _) => VmState::Running,
        (Some("suspended"), "stopped", _) | (_, "running", Some("paused" | "suspended")) => VmState::Suspended,
        (_, "running", Some("prelaunch" | "inmigrate")) => VmState::Starting,
        (_, "running", _) => VmState::Running,
        (_, "stopped", _) => VmState::Stopped,
        _ => VmState::Unknown,
    }
}

/// Splits tags into key and value at the first dot.
fn tags(text: &str) -> BTreeMap<String, String> {
    let words = text.split([';', ',', ' ']).filter(|word| !word.is_empty());
    words.map(|word| word.split_once('.').unwrap_or((word, ""))).map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
}

impl Guest {
    pub(super) fn is_machine(&self) -> bool {
        self.kind == "qemu" && self.template == 0
    }

    pub(super) fn is_template(&self) -> bool {
        self.kind == "qemu" && self.template == 1
    }

    pub(super) fn is_running(&self) -> bool {
        self.status.value().is_some_and(|status| status == "running")
    }

    pub(super) fn has_tag(&self, tag: &str) -> bool {
        self.tags.value().is_some_and(|tags| tags.split([';', ',', ' ']).any(|word| word == tag))
    }

    pub(super) fn update(&mut self, current: &CurrentStatus) {
        self.status = current.status.clone();
        self.lock = current.lock.clone().or(self.lock.clone());
        self.maxcpu = current.cpus.clone().or(self.maxcpu.clone());
        self.maxmem = current.maxmem.clone().or(self.maxmem.clone());
    }

    pub(super) fn into_vm(self, current: Option<&CurrentStatus>, details: Details) -> CloudVm {
        let mut unread = details.unread;
        let status = unread.required("state", "status", self.status);
        let qmp = current.and_then(|current| unread.optional("state", "qmpstatus", current.qmpstatus.clone()));
        let lock = unread.optional("state", "lock", self.lock);
        let cpus = unread.optional("size", "maxcpu", self.maxcpu);
        let memory = unread.optional("size", "maxmem", self.maxmem);
        let mut addresses = details.agent.addresses(&mut unread);
        if addresses.is_empty() {
            addresses.extend(details.config.static_addresses());
        }
        let mut vm = CloudVm {
            provider_vm_id: self.vmid.to_string(),
            name: unread.optional("name", "name", self.name).unwrap_or_else(|| self.vmid.to_string()),
            state: state(&status, qmp.as_deref(), lock.as_deref()),
            provider_state: qmp.unwrap_or(status),
            state_note: lock.map(|lock| format!("Locked: {lock}.")),
            region: self.node,
            zone: None,
            size: Size {
                id: format!("{}x{}", cpus.unwrap_or_default(), memory.unwrap_or_default() >> 20),
                vcpus: cpus,
                memory_bytes: memory,
            },
            image: None,
            private_ips: Vec::new(),
            public_ips: Vec::new(),
            tags: unread.optional("tags", "tags", self.tags).as_deref().map(tags).unwrap_or_default(),
            launched_at: details.config.created_at(),
            unread: unread.into_fields(),
        };
        for address in addresses {
            add_address(&mut vm, address);
        }
        vm
    }
}

/// The data that is requested for each guest separately.
#[derive(Debug, Default)]
pub(super) struct Details {
    pub(super) config: GuestConfig,
    pub(super) agent: AgentInterfaces,
    pub(super) unread: Unread,
}

#[derive(Debug, Default, Deserialize)]
struct ErrorAnswer {
    message: Option<String>,
    #[serde(default)]
    errors: HashMap<String, String>,
}

/// Parses an error. The body contains the faults of parameters, and in newer versions also the message of the status line.
pub(super) fn failure(reply: &Reply) -> Failure {
    let answer: ErrorAnswer = reply.json().unwrap_or_default();
    let mut parameters: Vec<String> =
        answer.errors.into_iter().map(|(name, problem)| format!("{name}: {}", problem.trim())).collect();
    parameters.sort_unstable();
    let message = answer.message.map(|message| message.trim().to_owned()).into_iter().chain(parameters);
    let message = message.collect::<Vec<_>>().join("; ");
    let class = match reply.status.as_u16() {
        // The node forwards requests to other nodes. These statuses mean that another node is unreachable.
        595 | 596 => FailureClass::ProviderError,
        _ if message.contains("does not exist") => FailureClass::NotFound,
        _ => reply.class(),
    };
    reply.failure(class, "", &message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn status_and_lock_are_combined() {
        for (status, qmp, lock, expected) in [
            ("running", None, None, VmState::Running),
            ("running", Some("running"), Some("backup"), VmState::Running),
            ("running", Some("paused"), None, VmState::Suspended),
            ("running", Some("inmigrate"), Some("migrate"), VmState::Running),
            ("running", Some("paused"), Some("migrate"), VmState::Running),
            ("stopped", None, Some("migrate"), VmState::Stopped),
            ("running", Some("prelaunch"), None, VmState::Starting),
            ("stopped", Some("stopped"), None, VmState::Stopped),
            ("stopped", None, Some("suspended"), VmState::Suspended),
            ("running", None, Some("suspending"), VmState::Stopping),
            ("stopped", None, Some("clone"), VmState::Provisioning),
            ("unknown", None, None, VmState::Unknown),
        ] {
            assert_eq!(state(status, qmp, lock), expected, "{status} {qmp:?} {lock:?}");
        }
    }

    #[test]
    fn an_agent_is_used_only_if_enabled() {
        for (agent, expected) in [("1", true), ("enabled=1,fstrim_cloned_disks=1", true), ("0", false), ("enabled=0", false)] {
            let config = GuestConfig(HashMap::from([("agent".to_owned(), agent.into())]));
            assert_eq!(config.has_agent(), expected, "{agent}");
        }
        assert!(!GuestConfig::default().has_agent());
    }
}
