//! Devices on the wire. Requests and responses have the same sections of a device, so each section is declared once. The types of
//! its fields define its limits.

use std::collections::BTreeMap;

use poem_openapi::Object;
use serde::{Deserialize, Serialize};
use serde_json::value::to_raw_value;
use serde_with::skip_serializing_none;

use tenantd_base::{change::Change, clock::Timestamp, id::DeviceId};
use tenantd_http::{
    bounded::{List, Text},
    wire::Word,
};
use tenantd_store::events::{Describe, Described};

use super::{
    super::model::{
        self, AgentStatus, DeviceClass, Health, Lifecycle, OrganizationLabel, OsFamily, PatchStatus, PersonLabel, WarrantyStatus,
    },
    mirror::Mirror,
    wire::{OrganizationReference, PersonReference},
};

pub(super) const MAX_TAGS: usize = 64;
pub(super) const MAX_SOFTWARE: usize = 2000;

/// A section of a device on the wire, with the same name and fields as in the model.
macro_rules! section {
    ($(#[$doc:meta])* $name:ident changed by $change:ident { $($fields:tt)* }) => {
        section!($(#[$doc])* $name { $($fields)* });
        section_change!($change { $($fields)* });
    };
    (
        $(#[$doc:meta])*
        $name:ident {
            $(required { $($(#[$required_doc:meta])* $required:ident: $required_type:ty,)* })?
            $(optional { $($(#[$optional_doc:meta])* $optional:ident: $optional_type:ty,)* })?
            $(sections { $($(#[$nested_doc:meta])* $nested:ident: $nested_type:ident changed by $nested_change:ident,)* })?
            $(lists { $($(#[$list_doc:meta])* $list:ident: $list_type:ty,)* })?
        }
    ) => {
        $(#[$doc])*
        #[derive(Clone, Debug, Object, Serialize, Deserialize)]
        #[oai(skip_serializing_if_is_none)]
        #[serde(deny_unknown_fields)]
        pub struct $name {
            $($($(#[$required_doc])* pub $required: $required_type,)*)?
            $($($(#[$optional_doc])* #[serde(default, skip_serializing_if = "Option::is_none")] pub $optional: Option<$optional_type>,)*)?
            $($($(#[$nested_doc])* #[serde(default, skip_serializing_if = "Option::is_none")] pub $nested: Option<$nested_type>,)*)?
            $($($(#[$list_doc])* #[serde(default)] #[oai(default)] pub $list: $list_type,)*)?
        }

        impl Mirror<model::$name> for $name {
            fn mirror(self) -> model::$name {
                model::$name {
                    $($($required: self.$required.mirror(),)*)?
                    $($($optional: self.$optional.mirror(),)*)?
                    $($($nested: self.$nested.mirror(),)*)?
                    $($($list: self.$list.mirror(),)*)?
                }
            }
        }

        impl Mirror<$name> for model::$name {
            fn mirror(self) -> $name {
                $name {
                    $($($required: self.$required.mirror(),)*)?
                    $($($optional: self.$optional.mirror(),)*)?
                    $($($nested: self.$nested.mirror(),)*)?
                    $($($list: self.$list.mirror(),)*)?
                }
            }
        }
    };
}

/// The change of a section: absent fields keep their values, and `null` clears a field.
macro_rules! section_change {
    (
        $change:ident {
            $(required { $($(#[$required_doc:meta])* $required:ident: $required_type:ty,)* })?
            $(optional { $($(#[$optional_doc:meta])* $optional:ident: $optional_type:ty,)* })?
            $(sections { $($(#[$nested_doc:meta])* $nested:ident: $nested_type:ident changed by $nested_change:ident,)* })?
            $(lists { $($(#[$list_doc:meta])* $list:ident: $list_type:ty,)* })?
        }
    ) => {
        /// A change to this section. Absent fields keep their values, `null` clears a field, and lists are replaced. If the device
        /// does not have the section yet, the required fields of the section must be present.
        #[derive(Clone, Debug, Object, Deserialize)]
        #[oai(skip_serializing_if_is_none)]
        #[serde(deny_unknown_fields)]
        pub struct $change {
            $($($(#[$required_doc])* pub $required: Option<$required_type>,)*)?
            $($($(#[$optional_doc])* #[serde(default)] pub $optional: Change<$optional_type>,)*)?
            $($($(#[$nested_doc])* #[serde(default)] pub $nested: Change<$nested_change>,)*)?
            $($($(#[$list_doc])* pub $list: Option<$list_type>,)*)?
        }

        impl Mirror<model::$change> for $change {
            fn mirror(self) -> model::$change {
                model::$change {
                    $($($required: self.$required.mirror(),)*)?
                    $($($optional: self.$optional.mirror(),)*)?
                    $($($nested: self.$nested.mirror(),)*)?
                    $($($list: self.$list.mirror(),)*)?
                }
            }
        }
    };
}

section!(
    /// The hardware of a device.
    Hardware changed by HardwareChange {
        optional {
            /// The manufacturer of the device.
            manufacturer: Text<200>,
            /// The model of the device.
            model: Text<200>,
            /// The serial number of the device.
            serial: Text<200>,
            /// The size of the memory in bytes.
            memory_bytes: u64,
        }
        sections {
            /// The processors.
            cpu: Cpu changed by CpuChange,
        }
        lists {
            /// The physical disks.
            disks: List<Disk, 64>,
            /// The file systems.
            volumes: List<Volume, 128>,
        }
    }
);
section!(
    /// The processors of a device.
    Cpu changed by CpuChange {
        optional {
            /// The model of the processors.
            model: Text<200>,
            /// The number of processor cores.
            cores: u32,
        }
    }
);
section!(
    /// A physical disk.
    Disk {
        optional {
            /// The model of the disk.
            model: Text<200>,
            /// The size of the disk in bytes.
            bytes: u64,
            /// The kind of disk, such as `ssd`, `hdd` or `nvme`.
            kind: Text<50>,
        }
    }
);
section!(
    /// A file system.
    Volume {
        required {
            /// The name of the file system, such as `C:` or `/home`.
            name: Text<200>,
        }
        optional {
            /// The size of the file system in bytes.
            bytes: u64,
            /// The free space in bytes.
            free_bytes: u64,
            /// Whether the file system is encrypted.
            encrypted: bool,
        }
    }
);
section!(
    /// The operating system of a device.
    OperatingSystem changed by OperatingSystemChange {
        required {
            /// The family of the operating system.
            family: Word<OsFamily>,
        }
        optional {
            /// The full name, such as `Windows 11 Pro`.
            name: Text<200>,
            /// The version, such as `24H2`.
            version: Text<100>,
            /// The build number.
            build: Text<100>,
            /// Whether the device must restart to complete updates.
            reboot_required: bool,
            /// When the vendor ends support.
            eol_at: Timestamp,
            /// When the device last started.
            last_boot_at: Timestamp,
        }
    }
);
section!(
    /// The network configuration of a device.
    Network changed by NetworkChange {
        optional {
            /// The host name, with or without its domain.
            hostname: Text<255>,
            /// The primary IP address of the device.
            primary_ip: Text<45>,
            /// The public IP address of the device.
            public_ip: Text<45>,
        }
        lists {
            /// The network interfaces.
            interfaces: List<Interface, 128>,
        }
    }
);
section!(
    /// A network interface.
    Interface {
        optional {
            /// The name of the interface, such as `eth0`.
            name: Text<200>,
            /// The MAC address.
            mac: Text<32>,
        }
        lists {
            /// The IP addresses of the interface.
            ips: List<Text<45>, 64>,
        }
    }
);
section!(
    /// The security software and settings of a device.
    Security changed by SecurityChange {
        optional {
            /// The name of the antivirus product.
            antivirus: Text<200>,
            /// Whether the firewall is enabled.
            firewall: bool,
            /// Whether the disks are encrypted.
            disk_encryption: bool,
        }
    }
);
section!(
    /// The state of operating system updates.
    Patch changed by PatchChange {
        required {
            /// The update status.
            status: Word<PatchStatus>,
            /// The number of missing critical updates.
            missing_critical: u32,
            /// The number of other missing updates.
            missing_other: u32,
        }
        optional {
            /// When the device was last scanned for updates.
            last_scan_at: Timestamp,
        }
    }
);
section!(
    /// An installed software package.
    Software {
        required {
            /// The name of the package.
            name: Text<300>,
        }
        optional {
            /// The version of the package.
            version: Text<100>,
            /// The publisher of the package.
            publisher: Text<200>,
        }
    }
);
section!(
    /// The warranty of a device.
    Warranty changed by WarrantyChange {
        required {
            /// The status of the warranty.
            status: Word<WarrantyStatus>,
        }
        optional {
            /// When the warranty ends.
            ends_at: Timestamp,
        }
    }
);
section!(
    /// The backup state of a device, derived from its backup jobs and the backup configuration. The backup report counts the same
    /// values.
    BackupState {
        required {
            /// Whether the device must be backed up: in use (`active` or `in_repair`), of a class in the configured `workloads`,
            /// with backups enabled.
            eligible: bool,
            /// Whether an eligible device has a restore point from the last 30 days.
            protected: bool,
        }
        optional {
            /// When the newest restore point was made. Absent if the device was never backed up.
            last_success_at: Timestamp,
        }
    }
);

/// Applies the limits of the API to a section that does not come through the API: it must be valid as a request.
fn check_section<T: Mirror<W>, W: Serialize + for<'a> Deserialize<'a>>(name: &str, section: Option<T>) -> Result<(), String> {
    let Some(section) = section else { return Ok(()) };
    let message = |error: serde_json::Error| format!("{name}: {error}");
    serde_json::from_value::<W>(serde_json::to_value(section.mirror()).map_err(message)?).map(drop).map_err(message)
}

/// Applies the limits of the API to all sections of a device.
pub(super) fn check_details(details: &model::Details, agent_version: Option<&str>) -> Result<(), String> {
    let details = details.clone();
    check_section::<_, Text<100>>("agent_version", agent_version.map(str::to_owned))?;
    check_section::<_, Hardware>("hardware", details.hardware)?;
    check_section::<_, OperatingSystem>("os", details.os)?;
    check_section::<_, Network>("network", details.network)?;
    check_section::<_, Security>("security", details.security)?;
    check_section::<_, Patch>("patch", details.patch)?;
    check_section::<_, List<Software, MAX_SOFTWARE>>("software", Some(details.software))?;
    check_section::<_, Warranty>("warranty", details.warranty)?;
    check_section::<_, List<Text<50>, MAX_TAGS>>("tags", Some(details.tags))?;
    model::check_custom_fields(&details.custom_fields).map_err(|invalid| format!("custom_fields: {}", invalid.message))?;
    for value in details.custom_fields.into_values() {
        check_section::<_, Text<1000>>("custom_fields", Some(value))?;
    }
    Ok(())
}

impl From<model::Software> for Software {
    fn from(package: model::Software) -> Self {
        package.mirror()
    }
}

/// The agent on a device.
#[skip_serializing_none]
#[derive(Clone, Debug, Object, Serialize)]
#[oai(skip_serializing_if_is_none)]
pub struct Agent {
    /// The status of the agent at the time of the response.
    pub status: AgentStatus,
    /// The version of the agent. Absent if it is unknown.
    pub version: Option<String>,
    /// When the agent was last seen. Absent if it never was.
    pub last_seen_at: Option<Timestamp>,
}

/// A device that the tenant manages. A section is absent if no source has reported it.
#[skip_serializing_none]
#[derive(Clone, Debug, Object, Serialize)]
#[oai(skip_serializing_if_is_none, example)]
pub struct Device {
    /// The ID of the device.
    pub id: DeviceId,
    /// The ID of the device in its source system. Absent if it has none.
    pub external_id: Option<String>,
    /// The name of the device.
    pub name: String,
    /// The kind of device.
    pub class: Word<DeviceClass>,
    /// The stage of the device's life cycle.
    pub lifecycle: Word<Lifecycle>,
    /// The organization to which the device belongs.
    pub organization: OrganizationReference,
    /// The location of the device.
    pub site: Option<String>,
    /// The person who uses the device. Absent if there is none or the person was deleted.
    pub owner: Option<PersonReference>,
    /// Labels that you choose.
    pub tags: Vec<String>,
    /// Fields that you define, by name.
    pub custom_fields: BTreeMap<String, String>,
    /// The agent on the device.
    pub agent: Agent,
    /// The hardware of the device.
    pub hardware: Option<Hardware>,
    /// The operating system.
    pub os: Option<OperatingSystem>,
    /// The network configuration.
    pub network: Option<Network>,
    /// The security software and settings.
    pub security: Option<Security>,
    /// The state of operating system updates.
    pub patch: Option<Patch>,
    /// The installed software packages.
    pub software: Vec<Software>,
    /// The warranty of the device.
    pub warranty: Option<Warranty>,
    /// The backup state. Read-only, because backup jobs determine it. Absent until tenantd has evaluated the device, seconds after
    /// its creation.
    pub backup: Option<BackupState>,
    /// The health of the device.
    pub health: Word<Health>,
    /// When the data of this device was collected.
    pub collected_at: Timestamp,
    /// When the record was created.
    pub created_at: Timestamp,
    /// When the record was last changed.
    pub updated_at: Timestamp,
    /// The version of the record. It increases with each change.
    pub version: u64,
}

impl Device {
    pub fn new(device: model::Device, organization: OrganizationLabel, owner: Option<PersonLabel>, status: AgentStatus) -> Self {
        let details = device.details;
        Self {
            id: device.id,
            external_id: device.external_id,
            name: device.name,
            class: device.class.mirror(),
            lifecycle: device.lifecycle.mirror(),
            organization: organization.into(),
            site: device.site,
            owner: owner.map(PersonReference::from),
            tags: details.tags,
            custom_fields: details.custom_fields,
            agent: Agent { status, version: device.agent_version, last_seen_at: device.last_seen_at },
            hardware: details.hardware.mirror(),
            os: details.os.mirror(),
            network: details.network.mirror(),
            security: details.security.mirror(),
            patch: details.patch.mirror(),
            software: details.software.into_iter().map(Mirror::mirror).collect(),
            warranty: details.warranty.mirror(),
            backup: device.backup.mirror(),
            health: device.health.mirror(),
            collected_at: device.collected_at,
            created_at: device.created_at,
            updated_at: device.updated_at,
            version: device.version,
        }
    }
}

type Labels<'a> = (&'a OrganizationLabel, Option<&'a PersonLabel>, AgentStatus);

impl Describe<Labels<'_>> for model::Device {
    fn describe(&self, (organization, owner, status): Labels<'_>) -> Described {
        to_raw_value(&Device::new(self.clone(), organization.clone(), owner.cloned(), status))
    }
}
