//! The answers of Nova, as far as they are read, and the form of errors that OpenStack's services share.

use std::{collections::BTreeMap, net::IpAddr};

use serde::Deserialize;
use serde_json::Value;

use tenantd_base::clock::Timestamp;

use super::super::{
    super::model::{CloudVm, Failure, FailureClass, Size, VmState},
    client::Reply,
    wire::add_address,
};

#[derive(Debug, Deserialize)]
pub(super) struct ServerPage {
    pub(super) servers: Vec<Server>,
    #[serde(default)]
    servers_links: Vec<Link>,
}

#[derive(Debug, Deserialize)]
struct Link {
    rel: String,
}

impl ServerPage {
    /// What the next page begins behind, if there is one. The link itself often names a host that only the cloud knows.
    pub(super) fn next_marker(&self) -> Option<String> {
        let more = self.servers_links.iter().any(|link| link.rel == "next");
        self.servers.last().filter(|_| more).map(|server| server.id.clone())
    }
}

#[derive(Debug, Deserialize)]
pub(super) struct OneServer<T> {
    pub(super) server: T,
}

/// What the answer to an order has of the server.
#[derive(Debug, Deserialize)]
pub(super) struct CreatedServer {
    pub(super) id: String,
}

#[derive(Debug, Deserialize)]
pub(super) struct Server {
    id: String,
    name: String,
    status: String,
    created: Option<String>,
    flavor: Flavor,
    /// An empty text for a server that boots from a volume.
    #[serde(default)]
    image: Value,
    #[serde(default)]
    addresses: BTreeMap<String, Vec<Address>>,
    #[serde(default)]
    metadata: BTreeMap<String, String>,
    fault: Option<Fault>,
    #[serde(rename = "OS-EXT-STS:task_state")]
    task_state: Option<String>,
    #[serde(rename = "OS-EXT-AZ:availability_zone")]
    zone: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Flavor {
    original_name: String,
    vcpus: u32,
    /// In MiB.
    ram: u64,
}

#[derive(Debug, Deserialize)]
struct Address {
    addr: IpAddr,
    #[serde(rename = "OS-EXT-IPS:type")]
    kind: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Fault {
    message: String,
}

/// `PAUSED` servers are in memory, `SUSPENDED` ones on disk: both go on where they were.
fn state(status: &str, task: Option<&str>) -> VmState {
    match (status, task) {
        (_, Some("deleting" | "soft-deleting")) => VmState::Terminating,
        ("ACTIVE", Some("powering-off")) => VmState::Stopping,
        ("SHUTOFF", Some("powering-on")) => VmState::Starting,
        ("BUILD" | "REBUILD", _) => VmState::Provisioning,
        ("REBOOT" | "HARD_REBOOT", _) => VmState::Rebooting,
        ("ACTIVE" | "PASSWORD" | "RESCUE" | "MIGRATING" | "RESIZE" | "VERIFY_RESIZE" | "REVERT_RESIZE", _) => VmState::Running,
        ("PAUSED" | "SUSPENDED", _) => VmState::Suspended,
        ("SHUTOFF" | "SHELVED" | "SHELVED_OFFLOADED", _) => VmState::Stopped,
        ("DELETED" | "SOFT_DELETED", _) => VmState::Terminated,
        ("ERROR", _) => VmState::Error,
        _ => VmState::Unknown,
    }
}

impl Server {
    pub(super) fn into_vm(self, region: &str) -> CloudVm {
        let mut vm = CloudVm {
            provider_vm_id: self.id,
            name: self.name,
            state: state(&self.status, self.task_state.as_deref()),
            provider_state: self.status,
            state_note: self.fault.map(|fault| fault.message),
            region: region.to_owned(),
            zone: self.zone.filter(|zone| !zone.is_empty()),
            size: Size { id: self.flavor.original_name, vcpus: Some(self.flavor.vcpus), memory_bytes: Some(self.flavor.ram << 20) },
            image: self.image.get("id").and_then(Value::as_str).map(str::to_owned),
            private_ips: Vec::new(),
            public_ips: Vec::new(),
            tags: self.metadata,
            launched_at: self.created.as_deref().and_then(Timestamp::parse),
        };
        for address in self.addresses.into_values().flatten() {
            if address.kind.as_deref() == Some("floating") {
                vm.public_ips.push(address.addr);
            } else {
                // A fixed address is a public one on a network of the provider.
                add_address(&mut vm, address.addr);
            }
        }
        vm
    }
}

#[derive(Debug, Deserialize)]
pub(super) struct Flavors {
    pub(super) flavors: Vec<OfferedFlavor>,
}

#[derive(Debug, Deserialize)]
pub(super) struct OfferedFlavor {
    pub(super) id: String,
    pub(super) name: String,
}

#[derive(Debug, Deserialize)]
pub(super) struct Limits {
    limits: AbsoluteLimits,
}

#[derive(Debug, Deserialize)]
struct AbsoluteLimits {
    absolute: BTreeMap<String, i64>,
}

impl Limits {
    /// Whether one more instance fits. A limit of -1 is none.
    pub(super) fn have_room(&self) -> bool {
        let value = |name: &str| self.limits.absolute.get(name).copied();
        match (value("maxTotalInstances"), value("totalInstancesUsed")) {
            (Some(most), Some(used)) => most < 0 || used < most,
            _ => true,
        }
    }
}

/// Errors are an object with one entry, whose name says what kind of error it is: `{"itemNotFound": {"message", "code"}}`. Keystone's is
/// always `error` and has a title.
pub(super) fn failure(reply: &Reply) -> Failure {
    let answer: BTreeMap<String, Value> = reply.json().unwrap_or_default();
    let entry = answer.iter().find(|(_, detail)| detail.get("message").is_some());
    let text = |detail: &Value, field: &str| detail.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
    let (code, message) = match entry {
        Some((name, detail)) if name == "error" => (text(detail, "title"), text(detail, "message")),
        Some((name, detail)) => (name.clone(), text(detail, "message")),
        None => (String::new(), String::new()),
    };
    let class = match reply.status.as_u16() {
        _ if message.contains("Quota exceeded") => FailureClass::QuotaExceeded,
        // How Nova said that there were too many requests, before there was a status for it.
        413 => FailureClass::RateLimited,
        _ => reply.class(),
    };
    reply.failure(class, &code, &message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_states_of_nova_become_ours() {
        for (status, task, expected) in [
            ("ACTIVE", None, VmState::Running),
            ("ACTIVE", Some("powering-off"), VmState::Stopping),
            ("ACTIVE", Some("deleting"), VmState::Terminating),
            ("SHUTOFF", None, VmState::Stopped),
            ("SHUTOFF", Some("powering-on"), VmState::Starting),
            ("PAUSED", None, VmState::Suspended),
            ("SUSPENDED", None, VmState::Suspended),
            ("SHELVED_OFFLOADED", None, VmState::Stopped),
            ("BUILD", Some("spawning"), VmState::Provisioning),
            ("HARD_REBOOT", Some("rebooting_hard"), VmState::Rebooting),
            ("ERROR", None, VmState::Error),
            ("SOFT_DELETED", None, VmState::Terminated),
            ("UNKNOWN", None, VmState::Unknown),
        ] {
            assert_eq!(state(status, task), expected, "{status} {task:?}");
        }
    }
}
