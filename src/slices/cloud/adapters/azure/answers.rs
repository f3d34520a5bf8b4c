//! The answers of Azure Resource Manager, as far as they are read. Ids differ in case from one answer to another, so they are compared,
//! kept and shown in lower case.

use std::{collections::BTreeMap, net::IpAddr};

use serde::Deserialize;

use tenantd_base::clock::Timestamp;

use super::super::super::model::{CloudVm, Size, VmState};

/// A part of any list.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Page<T> {
    pub(super) value: Vec<T>,
    pub(super) next_link: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Subscription {
    pub(super) display_name: String,
}

#[derive(Debug, Deserialize)]
pub(super) struct Machine {
    id: String,
    name: String,
    location: String,
    #[serde(default)]
    zones: Vec<String>,
    #[serde(default)]
    tags: BTreeMap<String, String>,
    properties: MachineProperties,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct MachineProperties {
    provisioning_state: Option<String>,
    time_created: Option<String>,
    #[serde(default)]
    hardware_profile: HardwareProfile,
    #[serde(default)]
    storage_profile: StorageProfile,
    #[serde(default)]
    network_profile: NetworkProfile,
    #[serde(default)]
    instance_view: InstanceView,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct HardwareProfile {
    vm_size: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct StorageProfile {
    image_reference: Option<ImageReference>,
}

#[derive(Debug, Deserialize)]
struct ImageReference {
    publisher: Option<String>,
    offer: Option<String>,
    sku: Option<String>,
    version: Option<String>,
    id: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct NetworkProfile {
    #[serde(default)]
    network_interfaces: Vec<Reference>,
}

#[derive(Debug, Deserialize)]
struct Reference {
    id: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
pub(super) struct InstanceView {
    #[serde(default)]
    statuses: Vec<Status>,
}

#[derive(Clone, Debug, Deserialize)]
struct Status {
    code: String,
}

/// A network interface.
#[derive(Debug, Deserialize)]
pub(super) struct Interface {
    pub(super) id: String,
    properties: InterfaceProperties,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct InterfaceProperties {
    #[serde(default)]
    ip_configurations: Vec<IpConfiguration>,
}

#[derive(Debug, Deserialize)]
struct IpConfiguration {
    properties: IpConfigurationProperties,
}

#[derive(Debug, Deserialize)]
struct IpConfigurationProperties {
    #[serde(rename = "privateIPAddress")]
    private_ip_address: Option<IpAddr>,
    #[serde(rename = "publicIPAddress")]
    public_ip_address: Option<PublicAddress>,
}

/// A public address, or the reference to one.
#[derive(Debug, Deserialize)]
pub(super) struct PublicAddress {
    pub(super) id: String,
    #[serde(default)]
    properties: PublicAddressProperties,
}

#[derive(Debug, Default, Deserialize)]
struct PublicAddressProperties {
    #[serde(rename = "ipAddress")]
    ip_address: Option<IpAddr>,
}

impl PublicAddress {
    pub(super) fn address(&self) -> Option<IpAddr> {
        self.properties.ip_address
    }
}

/// The addresses of an interface: private ones, public ones.
#[derive(Clone, Debug, Default)]
pub(super) struct Addresses {
    pub(super) private: Vec<IpAddr>,
    pub(super) public: Vec<IpAddr>,
}

impl Interface {
    /// `look_up` knows the public addresses that are only referred to.
    pub(super) fn addresses(&self, look_up: impl Fn(&str) -> Option<IpAddr>) -> Addresses {
        let properties = || self.properties.ip_configurations.iter().map(|configuration| &configuration.properties);
        let public = properties().filter_map(|properties| properties.public_ip_address.as_ref());
        Addresses {
            private: properties().filter_map(|properties| properties.private_ip_address).collect(),
            public: public.filter_map(|public| public.address().or_else(|| look_up(&public.id.to_lowercase()))).collect(),
        }
    }
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct MachineSize {
    pub(super) name: String,
    pub(super) number_of_cores: u32,
    #[serde(rename = "memoryInMB")]
    pub(super) memory_in_mb: u64,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Permission {
    #[serde(default)]
    actions: Vec<String>,
    #[serde(default)]
    not_actions: Vec<String>,
}

impl Permission {
    pub(super) fn allows(&self, action: &str) -> bool {
        self.actions.iter().any(|pattern| covers(pattern, action))
            && !self.not_actions.iter().any(|pattern| covers(pattern, action))
    }
}

/// Whether a pattern of actions, in which `*` stands for any letters, covers one.
fn covers(pattern: &str, action: &str) -> bool {
    let (pattern, action) = (pattern.to_lowercase(), action.to_lowercase());
    let Some((head, tail)) = pattern.split_once('*') else { return pattern == action };
    let Some(mut rest) = action.strip_prefix(head) else { return false };
    let mut pieces: Vec<&str> = tail.split('*').collect();
    let last = pieces.pop().unwrap_or_default();
    for piece in pieces {
        let Some(at) = rest.find(piece) else { return false };
        rest = rest.get(at + piece.len()..).unwrap_or_default();
    }
    rest.ends_with(last)
}

#[derive(Debug, Default, Deserialize)]
pub(super) struct ErrorAnswer {
    #[serde(default)]
    pub(super) error: ErrorDetail,
}

#[derive(Debug, Default, Deserialize)]
pub(super) struct ErrorDetail {
    #[serde(default)]
    pub(super) code: String,
    #[serde(default)]
    pub(super) message: String,
}

impl InstanceView {
    /// `running` of `PowerState/running`.
    fn power(&self) -> Option<&str> {
        self.statuses.iter().find_map(|status| status.code.strip_prefix("PowerState/"))
    }
}

/// A machine that Azure stopped is still billed, one that it deallocated is not.
fn state(power: Option<&str>, provisioning: &str) -> VmState {
    match (power, provisioning) {
        (_, "Deleting") => VmState::Terminating,
        (Some("running"), _) => VmState::Running,
        (_, "Creating") => VmState::Provisioning,
        (Some("starting"), _) => VmState::Starting,
        (Some("stopping" | "deallocating"), _) => VmState::Stopping,
        (Some("stopped" | "deallocated"), _) => VmState::Stopped,
        (_, "Failed") => VmState::Error,
        _ => VmState::Unknown,
    }
}

fn state_note(power: &str) -> Option<String> {
    let note = match power {
        "stopped" => "Stopped but not deallocated: it is still billed.",
        "deallocated" => "Deallocated: only its disks and addresses are billed.",
        _ => return None,
    };
    Some(note.to_owned())
}

impl ImageReference {
    fn name(self) -> Option<String> {
        let parts = [self.publisher, self.offer, self.sku, self.version];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        if parts.len() == 4 { Some(parts.join(":")) } else { self.id }
    }
}

impl Machine {
    pub(super) fn key(&self) -> String {
        self.id.to_lowercase()
    }

    pub(super) fn tag(&self, name: &str) -> Option<&str> {
        self.tags.get(name).map(String::as_str)
    }

    /// The ids of its interfaces.
    pub(super) fn interfaces(&self) -> Vec<String> {
        self.properties.network_profile.network_interfaces.iter().map(|interface| interface.id.to_lowercase()).collect()
    }

    /// Takes what another answer says about the same machine.
    pub(super) fn see(&mut self, view: InstanceView) {
        self.properties.instance_view = view;
    }

    pub(super) fn into_view(self) -> InstanceView {
        self.properties.instance_view
    }

    pub(super) fn into_vm(self) -> CloudVm {
        let properties = self.properties;
        let provisioning = properties.provisioning_state.unwrap_or_default();
        let power = properties.instance_view.power();
        CloudVm {
            provider_vm_id: self.id.to_lowercase(),
            name: self.name,
            state: state(power, &provisioning),
            state_note: power.and_then(state_note),
            provider_state: power.map_or(provisioning, str::to_owned),
            region: self.location,
            zone: self.zones.into_iter().next(),
            size: Size { id: properties.hardware_profile.vm_size.unwrap_or_default(), vcpus: None, memory_bytes: None },
            image: properties.storage_profile.image_reference.and_then(ImageReference::name),
            private_ips: Vec::new(),
            public_ips: Vec::new(),
            tags: self.tags,
            launched_at: properties.time_created.as_deref().and_then(Timestamp::parse),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_of_actions_cover_what_azure_says_that_they_do() {
        let action = "Microsoft.Compute/virtualMachines/write";
        for pattern in
            ["*", "*/write", "Microsoft.Compute/*", "microsoft.compute/virtualmachines/*", "Microsoft.*/virtualMachines/*", action]
        {
            assert!(covers(pattern, action), "{pattern}");
        }
        for pattern in
            ["*/read", "Microsoft.Compute/disks/*", "Microsoft.Network/*", "Microsoft.Compute/virtualMachines", "*/writes*x"]
        {
            assert!(!covers(pattern, action), "{pattern}");
        }
        let reader = Permission { actions: vec!["*".into()], not_actions: vec!["Microsoft.Compute/*/write".into()] };
        assert!(!reader.allows(action) && reader.allows("Microsoft.Compute/virtualMachines/read"));
    }

    #[test]
    fn power_and_provisioning_make_one_state() {
        for (power, provisioning, expected) in [
            (Some("running"), "Succeeded", VmState::Running),
            (Some("running"), "Updating", VmState::Running),
            (Some("starting"), "Creating", VmState::Provisioning),
            (Some("starting"), "Succeeded", VmState::Starting),
            (Some("stopped"), "Succeeded", VmState::Stopped),
            (Some("deallocating"), "Succeeded", VmState::Stopping),
            (Some("deallocated"), "Succeeded", VmState::Stopped),
            (Some("running"), "Deleting", VmState::Terminating),
            (None, "Creating", VmState::Provisioning),
            (None, "Failed", VmState::Error),
            (None, "Succeeded", VmState::Unknown),
        ] {
            assert_eq!(state(power, provisioning), expected, "{power:?} {provisioning}");
        }
    }
}
