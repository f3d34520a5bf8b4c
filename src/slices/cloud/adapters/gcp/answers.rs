//! The responses of Compute Engine, limited to the fields that are used.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::super::{
    super::model::{CloudVm, Failure, FailureClass, Size, VmState},
    FleetPage,
    fields::{Field, Unidentified, Unread, id},
};

/// A page of the machines of all zones, by zone.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct InstancePage {
    #[serde(default)]
    items: BTreeMap<String, Field<Scope>>,
    pub(super) next_page_token: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Scope {
    #[serde(default)]
    instances: Vec<Field<Instance>>,
    #[serde(default)]
    warning: Field<Warning>,
}

#[derive(Debug, Deserialize)]
struct Warning {
    code: String,
    #[serde(default)]
    message: String,
}

impl InstancePage {
    /// The machines of the page. An unreachable zone counts as skipped, so that its machines do not look terminated.
    pub(super) fn read(self) -> FleetPage {
        let (mut instances, mut unreachable) = (Vec::new(), Vec::new());
        for (zone, scope) in self.items {
            match scope {
                Field::Read(scope) => {
                    if let Some(warning) = scope.warning.value().filter(|warning| warning.code == "UNREACHABLE") {
                        unreachable.push(format!("{zone}: {}: {}", warning.code, warning.message));
                    }
                    instances.extend(scope.instances);
                }
                Field::Unreadable(reason) => unreachable.push(format!("{zone}: {reason}")),
                Field::Absent => {}
            }
        }
        let mut page = FleetPage::read(instances, Instance::into_vm);
        for reason in unreachable {
            page.skip(&reason);
        }
        page
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Instance {
    /// A number as text.
    id: Field<String>,
    name: Field<String>,
    status: Field<String>,
    zone: Field<String>,
    machine_type: Field<String>,
    creation_timestamp: Field<String>,
    network_interfaces: Field<Vec<Field<Interface>>>,
    disks: Field<Vec<Field<Disk>>>,
    labels: Field<BTreeMap<String, Field<String>>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Interface {
    #[serde(rename = "networkIP")]
    network_ip: Field<String>,
    ipv6_address: Field<String>,
    access_configs: Field<Vec<Field<AccessConfig>>>,
    ipv6_access_configs: Field<Vec<Field<AccessConfig>>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct AccessConfig {
    #[serde(rename = "natIP")]
    nat_ip: Field<String>,
    external_ipv6: Field<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Disk {
    boot: Field<bool>,
    licenses: Field<Vec<Field<String>>>,
}

/// The name at the end of a resource's URL.
fn last_segment(url: &str) -> &str {
    url.rsplit('/').next().unwrap_or_default()
}

/// `us-central1` of `us-central1-a`.
pub(super) fn region_of(zone: &str) -> &str {
    zone.rsplit_once('-').map_or(zone, |(region, _)| region)
}

/// Maps the states of Compute Engine. A `TERMINATED` machine was stopped and can be started again.
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
    pub(super) fn into_vm(self) -> Result<CloudVm, Unidentified> {
        let id = id("id", self.id)?;
        let mut unread = Unread::default();
        let zone = unread.required("zone", "zone", self.zone);
        let zone = last_segment(&zone).to_owned();
        if zone.is_empty() {
            unread.note("region", "zone", "cannot be read");
        }
        let status = unread.required("state", "status", self.status);
        let machine_type = unread.required("size", "machineType", self.machine_type);
        // A machine does not report its image, but its boot disk has the licenses of the image.
        let boot = unread.list("image", "disks", self.disks).into_iter().find(|disk| disk.boot.value() == Some(&true));
        let licenses = boot.map(|disk| unread.list("image", "disks.licenses", disk.licenses)).unwrap_or_default();
        let (mut private_ips, mut public_ips) = (Vec::new(), Vec::new());
        for interface in unread.list("private_ips", "networkInterfaces", self.network_interfaces) {
            private_ips.extend(unread.address("private_ips", "networkIP", interface.network_ip));
            private_ips.extend(unread.address("private_ips", "ipv6Address", interface.ipv6_address));
            for (name, configs) in
                [("accessConfigs", interface.access_configs), ("ipv6AccessConfigs", interface.ipv6_access_configs)]
            {
                for config in unread.list("public_ips", name, configs) {
                    let nat_ip = unread.address("public_ips", "natIP", config.nat_ip);
                    public_ips.extend(nat_ip.or_else(|| unread.address("public_ips", "externalIpv6", config.external_ipv6)));
                }
            }
        }
        Ok(CloudVm {
            provider_vm_id: id,
            name: unread.required("name", "name", self.name),
            state: state(&status),
            provider_state: status,
            state_note: None,
            region: region_of(&zone).to_owned(),
            zone: Some(zone).filter(|zone| !zone.is_empty()),
            size: Size { id: last_segment(&machine_type).to_owned(), vcpus: None, memory_bytes: None },
            image: licenses.first().map(|license| last_segment(license).to_owned()),
            private_ips,
            public_ips,
            tags: unread.tags("labels", self.labels),
            launched_at: unread.launched_at("creationTimestamp", self.creation_timestamp),
            unread: unread.into_fields(),
        })
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
    /// The default zone of the region. It is always the same one.
    pub(super) fn first_zone(&self) -> Option<&str> {
        self.zones.iter().map(|zone| last_segment(zone)).min()
    }
}

#[derive(Debug, Default, Deserialize)]
pub(super) struct GrantedPermissions {
    #[serde(default)]
    pub(super) permissions: Vec<String>,
}

/// An asynchronous operation, such as a creation.
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
    /// The failure of the operation, if any.
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
