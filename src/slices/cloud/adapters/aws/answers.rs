//! The responses of the EC2 Query API and of STS, limited to the fields that are used.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::super::{
    super::model::{CloudVm, Size, VmState},
    fields::{Field, Unidentified, Unread, id},
};

/// EC2 writes lists as `item` elements.
#[derive(Debug, Deserialize)]
pub(super) struct Items<T> {
    #[serde(default = "Vec::new")]
    pub(super) item: Vec<T>,
}

impl<T> Default for Items<T> {
    fn default() -> Self {
        Self { item: Vec::new() }
    }
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct DescribeInstances {
    #[serde(default)]
    pub(super) reservation_set: Items<Reservation>,
    pub(super) next_token: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Reservation {
    #[serde(default)]
    pub(super) instances_set: Items<Instance>,
}

/// The response to `RunInstances` is also a reservation.
pub(super) type RunInstances = Reservation;

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Instance {
    #[serde(rename = "instanceId")]
    id: Option<String>,
    image_id: Option<String>,
    #[serde(rename = "instanceState")]
    state: Option<InstanceState>,
    private_ip_address: Option<String>,
    ip_address: Option<String>,
    ipv6_address: Option<String>,
    #[serde(rename = "instanceType")]
    size: Option<String>,
    launch_time: Option<String>,
    placement: Option<Placement>,
    #[serde(default)]
    tag_set: Items<Tag>,
}

#[derive(Debug, Deserialize)]
struct InstanceState {
    name: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Placement {
    availability_zone: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Tag {
    key: Option<String>,
    #[serde(default)]
    value: String,
}

/// Maps the states of EC2. `shutting-down` leads to `terminated`, not to `stopped`.
fn state(name: &str) -> VmState {
    match name {
        "pending" => VmState::Starting,
        "running" => VmState::Running,
        "stopping" => VmState::Stopping,
        "stopped" => VmState::Stopped,
        "shutting-down" => VmState::Terminating,
        "terminated" => VmState::Terminated,
        _ => VmState::Unknown,
    }
}

impl Instance {
    pub(super) fn into_vm(self, region: &str) -> Result<CloudVm, Unidentified> {
        let id = id("instanceId", Field::from(self.id))?;
        let mut unread = Unread::default();
        let mut tags = BTreeMap::new();
        for tag in self.tag_set.item {
            match tag.key {
                Some(key) => drop(tags.insert(key, tag.value)),
                None => unread.note("tags", "tagSet.key", "is missing"),
            }
        }
        let state_name = unread.required("state", "instanceState.name", self.state.and_then(|state| state.name).into());
        let public = [("ipAddress", self.ip_address), ("ipv6Address", self.ipv6_address)];
        Ok(CloudVm {
            name: tags.get("Name").filter(|name| !name.is_empty()).unwrap_or(&id).clone(),
            state: state(&state_name),
            provider_state: state_name,
            state_note: None,
            region: region.to_owned(),
            zone: self.placement.and_then(|placement| placement.availability_zone),
            size: Size { id: unread.required("size", "instanceType", self.size.into()), vcpus: None, memory_bytes: None },
            image: self.image_id,
            private_ips: unread.address("private_ips", "privateIpAddress", self.private_ip_address.into()).into_iter().collect(),
            public_ips: public.into_iter().filter_map(|(name, text)| unread.address("public_ips", name, text.into())).collect(),
            tags,
            launched_at: unread.launched_at("launchTime", self.launch_time.into()),
            unread: unread.into_fields(),
            provider_vm_id: id,
        })
    }
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct DescribeRegions {
    #[serde(default)]
    pub(super) region_info: Items<Region>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Region {
    pub(super) region_name: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct DescribeInstanceTypes {
    #[serde(default)]
    pub(super) instance_type_set: Items<InstanceType>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct InstanceType {
    #[serde(rename = "instanceType")]
    pub(super) name: String,
    v_cpu_info: Option<VCpuInfo>,
    memory_info: Option<MemoryInfo>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct VCpuInfo {
    default_v_cpus: Option<u32>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct MemoryInfo {
    #[serde(rename = "sizeInMiB")]
    size_in_mib: Option<u64>,
}

impl InstanceType {
    /// The virtual CPUs and the memory in bytes.
    pub(super) fn measures(&self) -> (Option<u32>, Option<u64>) {
        let memory = self.memory_info.as_ref().and_then(|memory| memory.size_in_mib);
        (self.v_cpu_info.as_ref().and_then(|cpus| cpus.default_v_cpus), memory.map(|mib| mib << 20))
    }
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct GetCallerIdentity {
    pub(super) get_caller_identity_result: CallerIdentity,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct CallerIdentity {
    pub(super) arn: String,
}

/// EC2 returns `Response/Errors/Error`, STS `ErrorResponse/Error`.
#[derive(Debug, Deserialize)]
pub(super) struct ErrorAnswer {
    #[serde(rename = "Errors")]
    errors: Option<Errors>,
    #[serde(rename = "Error")]
    error: Option<ErrorDetail>,
}

#[derive(Debug, Deserialize)]
struct Errors {
    #[serde(rename = "Error")]
    error: Option<ErrorDetail>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct ErrorDetail {
    #[serde(default)]
    pub(super) code: String,
    #[serde(default)]
    pub(super) message: String,
}

impl ErrorAnswer {
    pub(super) fn detail(self) -> Option<ErrorDetail> {
        self.error.or_else(|| self.errors.and_then(|errors| errors.error))
    }
}

#[cfg(test)]
mod tests {
    use tenantd_base::clock::Timestamp;

    use super::*;

    #[test]
    fn a_described_instance_becomes_a_vm() {
        let answer: DescribeInstances = quick_xml::de::from_str(
            r#"<DescribeInstancesResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/"><requestId>r</requestId>
            <reservationSet><item><reservationId>r-1</reservationId><groupSet/><instancesSet><item>
              <instanceId>i-1</instanceId><imageId>ami-1</imageId><instanceState><code>32</code><name>shutting-down</name></instanceState>
              <privateIpAddress>10.0.0.4</privateIpAddress><ipAddress>198.51.100.7</ipAddress><instanceType>t3.small</instanceType>
              <launchTime>2026-01-31T09:30:00.000Z</launchTime><placement><availabilityZone>eu-west-1a</availabilityZone><tenancy>default</tenancy></placement>
              <tagSet><item><key>Name</key><value>web-01</value></item><item><key>empty</key><value/></item></tagSet>
            </item></instancesSet></item></reservationSet><nextToken>abc</nextToken></DescribeInstancesResponse>"#,
        )
        .unwrap();
        assert_eq!(answer.next_token.as_deref(), Some("abc"));
        let instance = answer.reservation_set.item.into_iter().next().unwrap().instances_set.item.into_iter().next().unwrap();
        let vm = instance.into_vm("eu-west-1").unwrap();
        assert_eq!((vm.name.as_str(), vm.state, vm.provider_state.as_str()), ("web-01", VmState::Terminating, "shutting-down"));
        assert_eq!((vm.zone.as_deref(), vm.size.id.as_str()), (Some("eu-west-1a"), "t3.small"));
        assert_eq!(vm.public_ips.iter().map(ToString::to_string).collect::<Vec<_>>(), ["198.51.100.7"]);
        assert_eq!(vm.launched_at, Timestamp::parse("2026-01-31T09:30:00Z"));
    }

    #[test]
    fn both_forms_of_errors_are_read() {
        for text in [
            "<Response><Errors><Error><Code>AuthFailure</Code><Message>no</Message></Error></Errors><RequestID>r</RequestID></Response>",
            r#"<ErrorResponse xmlns="x"><Error><Type>Sender</Type><Code>AuthFailure</Code><Message>no</Message></Error><RequestId>r</RequestId></ErrorResponse>"#,
        ] {
            let answer: ErrorAnswer = quick_xml::de::from_str(text).unwrap();
            assert_eq!(answer.detail().unwrap().code, "AuthFailure");
        }
    }

    /// A check of every attribute against every other one would take minutes here.
    #[test]
    fn hostile_xml_is_refused_without_delay() {
        let attributes: String = (0..40_000).map(|number| format!(" a{number}=\"\"")).collect();
        let namespaces: String = (0..40_000).map(|number| format!(" xmlns:a{number}=\"x\"")).collect();
        for many in [attributes, namespaces] {
            let text = format!("<Response{many}><Errors><Error{many}><Code>x</Code></Error></Errors></Response>");
            let read = quick_xml::de::from_str::<ErrorAnswer>(&text);
            assert!(read.is_err() || read.is_ok_and(|answer| answer.detail().is_some_and(|detail| detail.code == "x")));
        }
        for entity in ["&secret;", "&secret;x"] {
            let text = format!(
                "<!DOCTYPE r [<!ENTITY secret SYSTEM \"file:///etc/passwd\">]><Response><Errors><Error><Code>{entity}</Code></Error></Errors></Response>"
            );
            assert!(quick_xml::de::from_str::<ErrorAnswer>(&text).is_err(), "{entity}");
        }
    }

    #[test]
    fn an_empty_fleet_is_read() {
        let answer: DescribeInstances =
            quick_xml::de::from_str("<DescribeInstancesResponse><reservationSet/></DescribeInstancesResponse>").unwrap();
        assert!(answer.reservation_set.item.is_empty() && answer.next_token.is_none());
    }
}
