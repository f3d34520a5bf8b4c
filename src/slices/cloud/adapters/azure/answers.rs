//! The responses of Azure Resource Manager, limited to the fields that are used. The case of ids differs between responses, so they
//! are compared, stored and shown in lower case.

use std::{collections::BTreeMap, net::IpAddr};

use serde::{Deserialize, de::DeserializeOwned};

use super::super::{
    super::model::{CloudVm, Size, UnreadField, VmState},
    fields::{Field, Unidentified, Unread, id},
};

/// A page of any list.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", bound = "T: DeserializeOwned")]
pub(super) struct Page<T> {
    pub(super) value: Vec<Field<T>>,
    pub(super) next_link: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Subscription {
    pub(super) display_name: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Machine {
    id: Field<String>,
    name: Field<String>,
    location: Field<String>,
    zones: Field<Vec<Field<String>>>,
    tags: Field<BTreeMap<String, Field<String>>>,
    properties: Field<MachineProperties>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct MachineProperties {
    provisioning_state: Field<String>,
    time_created: Field<String>,
    hardware_profile: Field<HardwareProfile>,
    storage_profile: Field<StorageProfile>,
    network_profile: Field<NetworkProfile>,
    instance_view: Field<InstanceView>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct HardwareProfile {
    vm_size: Field<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct StorageProfile {
    image_reference: Field<ImageReference>,
}

#[derive(Clone, Debug, Deserialize)]
struct ImageReference {
    publisher: Option<String>,
    offer: Option<String>,
    sku: Option<String>,
    version: Option<String>,
    id: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct NetworkProfile {
    network_interfaces: Field<Vec<Field<Reference>>>,
}

#[derive(Clone, Debug, Deserialize)]
struct Reference {
    id: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct InstanceView {
    statuses: Field<Vec<Field<Status>>>,
}

#[derive(Clone, Debug, Deserialize)]
struct Status {
    code: String,
}

/// A network interface.
#[derive(Debug, Deserialize)]
pub(super) struct Interface {
    pub(super) id: String,
    #[serde(default)]
    properties: Field<InterfaceProperties>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct InterfaceProperties {
    ip_configurations: Field<Vec<Field<IpConfiguration>>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct IpConfiguration {
    properties: Field<IpConfigurationProperties>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct IpConfigurationProperties {
    #[serde(rename = "privateIPAddress")]
    private_ip_address: Field<String>,
    #[serde(rename = "publicIPAddress")]
    public_ip_address: Field<PublicAddress>,
}

/// A public address, or the reference to one.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct PublicAddress {
    pub(super) id: String,
    #[serde(default)]
    properties: Field<PublicAddressProperties>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct PublicAddressProperties {
    #[serde(rename = "ipAddress")]
    ip_address: Field<String>,
}

impl PublicAddress {
    /// The address as text. Absent in a reference and while no address is assigned.
    pub(super) fn address(self) -> Field<String> {
        match self.properties {
            Field::Absent => Field::Absent,
            Field::Read(properties) => properties.ip_address,
            Field::Unreadable(reason) => Field::Unreadable(reason),
        }
    }
}

/// The private and public addresses of an interface, and the fields that could not be read.
#[derive(Clone, Debug, Default)]
pub(super) struct Addresses {
    pub(super) private: Vec<IpAddr>,
    pub(super) public: Vec<IpAddr>,
    pub(super) unread: Vec<UnreadField>,
}

impl Interface {
    /// The addresses of the interface. `look_up` resolves references to public addresses.
    pub(super) fn addresses(self, look_up: impl Fn(&str) -> Field<String>) -> Addresses {
        let (mut addresses, mut unread) = (Addresses::default(), Unread::default());
        let properties = unread.optional("private_ips", "networkInterfaces.properties", self.properties).unwrap_or_default();
        for configuration in unread.list("private_ips", "ipConfigurations", properties.ip_configurations) {
            let properties = unread.optional("private_ips", "ipConfigurations.properties", configuration.properties);
            let properties = properties.unwrap_or_default();
            addresses.private.extend(unread.address("private_ips", "privateIPAddress", properties.private_ip_address));
            let Some(public) = unread.optional("public_ips", "publicIPAddress", properties.public_ip_address) else { continue };
            let referred = look_up(&public.id.to_lowercase());
            let own = public.address();
            let text = if matches!(own, Field::Absent) { referred } else { own };
            addresses.public.extend(unread.address("public_ips", "ipAddress", text));
        }
        addresses.unread = unread.into_fields();
        addresses
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

/// Whether a pattern, in which `*` matches any characters, covers an action.
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
    /// The power state, such as `running` from `PowerState/running`.
    fn power(self, unread: &mut Unread) -> Option<String> {
        let statuses = unread.list("state", "instanceView.statuses", self.statuses);
        statuses.into_iter().find_map(|status| status.code.strip_prefix("PowerState/").map(str::to_owned))
    }
}

/// Combines the power state and the provisioning state. A stopped machine is still billed, a deallocated one is not.
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
        "stopped" => "The VM is stopped but not deallocated, so it is still billed.",
        "deallocated" => "The VM is deallocated. Only its disks and addresses are billed.",
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
    /// The id in lower case, if it is readable.
    pub(super) fn key(&self) -> Option<String> {
        self.id.value().map(|id| id.to_lowercase())
    }

    pub(super) fn tag(&self, name: &str) -> Option<&str> {
        self.tags.value()?.get(name)?.value().map(String::as_str)
    }

    /// The ids of the machine's interfaces.
    pub(super) fn interfaces(&self) -> Vec<String> {
        let profile = self.properties.value().and_then(|properties| properties.network_profile.value());
        let references = profile.and_then(|profile| profile.network_interfaces.value()).into_iter().flatten();
        references.filter_map(|reference| Some(reference.value()?.id.to_lowercase())).collect()
    }

    /// Sets the instance view from another response about the same machine.
    pub(super) fn set_view(&mut self, view: Field<InstanceView>) {
        if let Field::Read(properties) = &mut self.properties {
            properties.instance_view = view;
        }
    }

    pub(super) fn into_view(self) -> Field<InstanceView> {
        match self.properties {
            Field::Absent => Field::Absent,
            Field::Read(properties) => properties.instance_view,
            Field::Unreadable(reason) => Field::Unreadable(reason),
        }
    }

    pub(super) fn into_vm(self) -> Result<CloudVm, Unidentified> {
        let id = id("id", self.id)?.to_lowercase();
        let mut unread = Unread::default();
        let properties = unread.required("state", "properties", self.properties);
        let provisioning = unread.optional("state", "provisioningState", properties.provisioning_state).unwrap_or_default();
        let view = unread.optional("state", "instanceView", properties.instance_view).unwrap_or_default();
        let power = view.power(&mut unread);
        let hardware = unread.optional("size", "hardwareProfile", properties.hardware_profile).unwrap_or_default();
        let storage = unread.optional("image", "storageProfile", properties.storage_profile).unwrap_or_default();
        let image = unread.optional("image", "imageReference", storage.image_reference);
        let network = unread.optional("private_ips", "networkProfile", properties.network_profile).unwrap_or_default();
        unread.list("private_ips", "networkInterfaces", network.network_interfaces);
        Ok(CloudVm {
            provider_vm_id: id,
            name: unread.required("name", "name", self.name),
            state: state(power.as_deref(), &provisioning),
            state_note: power.as_deref().and_then(state_note),
            provider_state: power.unwrap_or(provisioning),
            region: unread.required("region", "location", self.location),
            zone: unread.list("zone", "zones", self.zones).into_iter().next(),
            size: Size {
                id: unread.optional("size", "vmSize", hardware.vm_size).unwrap_or_default(),
                vcpus: None,
                memory_bytes: None,
            },
            image: image.and_then(ImageReference::name),
            private_ips: Vec::new(),
            public_ips: Vec::new(),
            tags: unread.tags("tags", self.tags),
            launched_at: unread.launched_at("timeCreated", properties.time_created),
            unread: unread.into_fields(),
        })
    }
}

/// Adds the addresses of one interface to its VM.
pub(super) fn add_addresses(vm: &mut CloudVm, addresses: Addresses) {
    vm.private_ips.extend(addresses.private);
    vm.public_ips.extend(addresses.public);
    let known = |unread: &UnreadField| vm.unread.iter().any(|known| known.field == unread.field);
    let new: Vec<UnreadField> = addresses.unread.into_iter().filter(|unread| !known(unread)).collect();
    vm.unread.extend(new);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn action_patterns_match_as_documented() {
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
    fn power_and_provisioning_state_are_combined() {
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
