//! The answers of Compute Engine, as far as they are read.

use std::{collections::BTreeMap, net::IpAddr};

use serde::Deserialize;

use tenantd_base::clock::Timestamp;

use super::super::super::model::{CloudVm, Failure, FailureClass, Size, VmState};

/// Part of the machines of all zones, by zone.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct InstancePage {
    #[serde(default)]
    items: BTreeMap<String, Scope>,
    pub(super) next_page_token: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Scope {
    #[serde(default)]
    instances: Vec<Instance>,
    warning: Option<Warning>,
}

#[derive(Debug, Deserialize)]
struct Warning {
    code: String,
    #[serde(default)]
    message: String,
}

impl InstancePage {
    /// The machines of the page. A zone that could not be asked fails it: its machines would look as if they were gone.
    pub(super) fn instances(self) -> Result<Vec<Instance>, Failure> {
        let mut instances = Vec::new();
        for (zone, scope) in self.items {
            if let Some(warning) = scope.warning.filter(|warning| warning.code == "UNREACHABLE") {
                let message = format!("{zone}: {}", warning.message);
                return Err(Failure::new(FailureClass::ProviderError, warning.code, message));
            }
            instances.extend(scope.instances);
        }
        Ok(instances)
    }
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Instance {
    /// A number, as a text.
    id: String,
    name: String,
    status: String,
    zone: String,
    machine_type: String,
    creation_timestamp: Option<String>,
    #[serde(default)]
    network_interfaces: Vec<Interface>,
    #[serde(default)]
    disks: Vec<Disk>,
    #[serde(default)]
    labels: BTreeMap<String, String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Interface {
    #[serde(rename = "networkIP")]
    network_ip: Option<IpAddr>,
    ipv6_address: Option<IpAddr>,
    #[serde(default)]
    access_configs: Vec<AccessConfig>,
    #[serde(default)]
    ipv6_access_configs: Vec<AccessConfig>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct AccessConfig {
    #[serde(rename = "natIP")]
    nat_ip: Option<IpAddr>,
    external_ipv6: Option<IpAddr>,
}

#[derive(Debug, Deserialize)]
struct Disk {
    #[serde(default)]
    boot: bool,
    #[serde(default)]
    licenses: Vec<String>,
}

/// The name at the end of a resource's URL.
fn last_segment(url: &str) -> &str {
    url.rsplit('/').next().unwrap_or_default()
}

/// `us-central1` of `us-central1-a`.
pub(super) fn region_of(zone: &str) -> &str {
    zone.rsplit_once('-').map_or(zone, |(region, _)| region)
}

/// `TERMINATED` is what a machine is that was stopped and can be started again.
fn state(status: &str) -> VmState {
    match status {
        "PENDING" | "PROVISIONING" => VmState::Provisioning,
        "STAGING" => VmState::Starting,
        "RUNNING" => VmState::Running,
        "PENDING_STOP" | "STOPPING" | "SUSPENDING" => VmState::Stopping,
        "SUSPENDED" => VmState::Suspended,
        "STOPPED" | "TERMINATED" => VmState::Stopped,
        "REPAIRING" => VmState::Error,
        _ => VmState::Unknown,
    }
}

impl Instance {
    pub(super) fn into_vm(self) -> CloudVm {
        let zone = last_segment(&self.zone).to_owned();
        let private = self.network_interfaces.iter().flat_map(|interface| [interface.network_ip, interface.ipv6_address]);
        let configs = self
            .network_interfaces
            .iter()
            .flat_map(|interface| interface.access_configs.iter().chain(&interface.ipv6_access_configs));
        // A machine does not say which image it was made from, but its disk still has the licenses of the image.
        let licenses = self.disks.iter().find(|disk| disk.boot).map(|disk| disk.licenses.as_slice()).unwrap_or_default();
        CloudVm {
            provider_vm_id: self.id,
            name: self.name,
            state: state(&self.status),
            provider_state: self.status,
            state_note: None,
            region: region_of(&zone).to_owned(),
            zone: Some(zone),
            size: Size { id: last_segment(&self.machine_type).to_owned(), vcpus: None, memory_bytes: None },
            image: licenses.first().map(|license| last_segment(license).to_owned()),
            private_ips: private.flatten().collect(),
            public_ips: configs.filter_map(|config| config.nat_ip.or(config.external_ipv6)).collect(),
            tags: self.labels,
            launched_at: self.creation_timestamp.as_deref().and_then(Timestamp::parse),
        }
    }
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct MachineType {
    pub(super) guest_cpus: u32,
    pub(super) memory_mb: u64,
}

#[derive(Debug, Deserialize)]
pub(super) struct Region {
    #[serde(default)]
    zones: Vec<String>,
}

impl Region {
    /// The zone that is taken when nobody has named one: the same one each time.
    pub(super) fn first_zone(&self) -> Option<&str> {
        self.zones.iter().map(|zone| last_segment(zone)).min()
    }
}

#[derive(Debug, Default, Deserialize)]
pub(super) struct Granted {
    #[serde(default)]
    pub(super) permissions: Vec<String>,
}

/// Something that takes its time, such as a creation.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Operation {
    pub(super) name: String,
    pub(super) status: String,
    pub(super) target_id: Option<String>,
    error: Option<OperationErrors>,
    http_error_status_code: Option<u16>,
}

#[derive(Debug, Deserialize)]
struct OperationErrors {
    #[serde(default)]
    errors: Vec<OperationError>,
}

#[derive(Debug, Deserialize)]
struct OperationError {
    code: String,
    #[serde(default)]
    message: String,
}

impl Operation {
    /// Why it failed, if it has.
    pub(super) fn failure(&self) -> Option<Failure> {
        let error = self.error.as_ref()?.errors.first()?;
        let class = match error.code.as_str() {
            code if code.contains("QUOTA") || code.contains("RESOURCE_POOL_EXHAUSTED") => FailureClass::QuotaExceeded,
            "RESOURCE_NOT_FOUND" => FailureClass::NotFound,
            "PERMISSIONS_ERROR" => FailureClass::InsufficientPermissions,
            _ if self.http_error_status_code.is_some_and(|status| status < 500) => FailureClass::InvalidRequest,
            _ => FailureClass::ProviderError,
        };
        Some(Failure::new(class, error.code.as_str(), error.message.as_str()))
    }
}

#[derive(Debug, Default, Deserialize)]
pub(super) struct ErrorAnswer {
    #[serde(default)]
    error: ErrorDetail,
}

#[derive(Debug, Default, Deserialize)]
struct ErrorDetail {
    #[serde(default)]
    message: String,
    #[serde(default)]
    status: String,
    #[serde(default)]
    errors: Vec<ErrorReason>,
}

#[derive(Debug, Deserialize)]
struct ErrorReason {
    #[serde(default)]
    reason: String,
}

impl ErrorAnswer {
    /// Google's reason, such as `notFound`, and the message.
    pub(super) fn parts(self) -> (String, String) {
        let reason = self.error.errors.into_iter().next().map(|error| error.reason);
        (reason.filter(|reason| !reason.is_empty()).unwrap_or(self.error.status), self.error.message)
    }
}
