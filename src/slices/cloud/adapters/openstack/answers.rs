//! The responses of Nova, limited to the fields that are used, and the error format of OpenStack services.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use super::super::{
    super::model::{CloudVm, Failure, FailureClass, Size, VmState},
    client::{Reply, unusable},
    fields::{Field, Unidentified, Unread, id},
    wire::{MIGRATING, add_address},
};

#[derive(Debug, Deserialize)]
pub(super) struct ServerPage {
    pub(super) servers: Vec<Field<Server>>,
    #[serde(default)]
    servers_links: Vec<Link>,
}

#[derive(Debug, Deserialize)]
struct Link {
    rel: String,
    #[serde(default)]
    href: String,
}

impl ServerPage {
    /// The marker of the next page, if there is one. The link itself is not used, because it often names an internal host of the
    /// cloud.
    pub(super) fn next_marker(&self) -> Result<Option<String>, Failure> {
        let Some(link) = self.servers_links.iter().find(|link| link.rel == "next") else { return Ok(None) };
        let last = self.servers.last().and_then(|server| server.value()?.id.value()).cloned();
        let pairs = link.href.split_once('?').map_or("", |(_, pairs)| pairs);
        let named = || form_urlencoded::parse(pairs.as_bytes()).find(|(name, _)| name == "marker").map(|(_, marker)| marker.into());
        last.or_else(named).map(Some).ok_or_else(|| unusable("the link to the next page contains no marker"))
    }
}

#[derive(Debug, Deserialize)]
pub(super) struct OneServer<T> {
    pub(super) server: T,
}

/// The server in the response to an order.
#[derive(Debug, Deserialize)]
pub(super) struct CreatedServer {
    pub(super) id: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Server {
    id: Field<String>,
    name: Field<String>,
    status: Field<String>,
    created: Field<String>,
    flavor: Field<Flavor>,
    /// An empty string for a server that boots from a volume.
    image: Field<Image>,
    addresses: Field<BTreeMap<String, Field<Vec<Field<Address>>>>>,
    metadata: Field<BTreeMap<String, Field<String>>>,
    fault: Field<Fault>,
    #[serde(rename = "OS-EXT-STS:task_state")]
    task_state: Field<String>,
    #[serde(rename = "OS-EXT-AZ:availability_zone")]
    zone: Field<String>,
}

/// A cloud without the microversion reports only the id of the flavor.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Flavor {
    id: Field<String>,
    original_name: Field<String>,
    vcpus: Field<u32>,
    /// In MiB.
    ram: Field<u64>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Image {
    id: Field<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Address {
    addr: Field<String>,
    #[serde(rename = "OS-EXT-IPS:type")]
    kind: Field<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Fault {
    message: Field<String>,
}

/// Maps the states of Nova. `PAUSED` servers are in memory, `SUSPENDED` servers on disk. Both can resume.
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
    pub(super) fn into_vm(self, region: &str) -> Result<CloudVm, Unidentified> {
        let id = id("id", self.id)?;
        let mut unread = Unread::default();
        let status = unread.required("state", "status", self.status);
        let task = unread.optional("state", "OS-EXT-STS:task_state", self.task_state);
        let fault = unread.optional("state_note", "fault", self.fault);
        let image = unread.optional("image", "image", self.image);
        let is_migrating = status == "MIGRATING" || task.as_deref() == Some("migrating");
        let migrating = is_migrating.then(|| MIGRATING.to_owned());
        let mut vm = CloudVm {
            provider_vm_id: id,
            name: unread.required("name", "name", self.name),
            state: state(&status, task.as_deref()),
            provider_state: status,
            state_note: fault.and_then(|fault| unread.optional("state_note", "fault.message", fault.message)).or(migrating),
            region: region.to_owned(),
            zone: unread.optional("zone", "OS-EXT-AZ:availability_zone", self.zone),
            size: size(&mut unread, self.flavor),
            image: image.and_then(|image| unread.optional("image", "image.id", image.id)),
            private_ips: Vec::new(),
            public_ips: Vec::new(),
            tags: unread.tags("metadata", self.metadata),
            launched_at: unread.launched_at("created", self.created),
            unread: Vec::new(),
        };
        let networks = unread.optional("private_ips", "addresses", self.addresses).unwrap_or_default();
        for network in networks.into_values() {
            for Address { addr, kind } in unread.list("private_ips", "addresses", network) {
                let floating = unread.optional("public_ips", "OS-EXT-IPS:type", kind).as_deref() == Some("floating");
                match unread.address(if floating { "public_ips" } else { "private_ips" }, "addr", addr) {
                    Some(address) if floating => vm.public_ips.push(address),
                    // A fixed address may be public on a provider network, so its class decides.
                    Some(address) => add_address(&mut vm, address),
                    None => {}
                }
            }
        }
        vm.unread = unread.into_fields();
        Ok(vm)
    }
}

fn size(unread: &mut Unread, flavor: Field<Flavor>) -> Size {
    let flavor = unread.optional("size", "flavor", flavor).unwrap_or_default();
    let id = unread.optional("size", "flavor.id", flavor.id);
    let name = unread.optional("size", "flavor.original_name", flavor.original_name).or(id);
    if name.is_none() {
        unread.note("size", "flavor", "has neither a name nor an id");
    }
    Size {
        id: name.unwrap_or_default(),
        vcpus: unread.optional("size", "flavor.vcpus", flavor.vcpus),
        memory_bytes: unread.optional("size", "flavor.ram", flavor.ram).and_then(|mib| mib.checked_mul(1 << 20)),
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
    /// Whether the quota allows one more instance. A limit of -1 means unlimited.
    pub(super) fn have_room(&self) -> bool {
        let value = |name: &str| self.limits.absolute.get(name).copied();
        match (value("maxTotalInstances"), value("totalInstancesUsed")) {
            (Some(most), Some(used)) => most < 0 || used < most,
            _ => true,
        }
    }
}

/// Parses an error: an object with one entry, whose name is the kind of the error, such as `{"itemNotFound": {"message", "code"}}`.
/// Keystone's entry is always named `error` and has a title.
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
        // Older versions of Nova use this status for too many requests.
        413 => FailureClass::RateLimited,
        _ => reply.class(),
    };
    reply.failure(class, &code, &message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nova_states_map_to_vm_states() {
        for (status, task, expected) in [
            ("ACTIVE", None, VmState::Running),
            ("MIGRATING", Some("migrating"), VmState::Running),
            ("RESIZE", Some("resize_migrating"), VmState::Running),
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
