//! Devices as clients see and send them. What an agent sends of a device and what is shown of it have the same sections, so each is
//! declared once, with its bounds in the types of its fields.

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

/// A part of a device on the wire, of the same name and fields as in the model.
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

/// The change of a part of a device: what is absent stays as it is, and `null` clears.
macro_rules! section_change {
    (
        $change:ident {
            $(required { $($(#[$required_doc:meta])* $required:ident: $required_type:ty,)* })?
            $(optional { $($(#[$optional_doc:meta])* $optional:ident: $optional_type:ty,)* })?
            $(sections { $($(#[$nested_doc:meta])* $nested:ident: $nested_type:ident changed by $nested_change:ident,)* })?
            $(lists { $($(#[$list_doc:meta])* $list:ident: $list_type:ty,)* })?
        }
    ) => {
        /// A change of this section. Fields that are absent stay as they are, `null` clears a field, and lists are replaced. A new
        /// section needs the fields that the record requires.
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
    /// What the device is made of.
    Hardware changed by HardwareChange {
        optional {
            /// The maker.
            manufacturer: Text<200>,
            /// The model.
            model: Text<200>,
            /// The serial number.
            serial: Text<200>,
            /// The size of the memory.
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
    /// The processors.
    Cpu changed by CpuChange {
        optional {
            /// The model of the processors.
            model: Text<200>,
            /// The number of cores.
            cores: u32,
        }
    }
);
section!(
    /// A physical disk.
    Disk {
        optional {
            /// The model.
            model: Text<200>,
            /// The size.
            bytes: u64,
            /// The kind, such as `ssd`, `hdd` or `nvme`.
            kind: Text<50>,
        }
    }
);
section!(
    /// A file system.
    Volume {
        required {
            /// The name, such as `C:` or `/home`.
            name: Text<200>,
        }
        optional {
            /// The size.
            bytes: u64,
            /// The free space.
            free_bytes: u64,
            /// Whether the volume is encrypted.
            encrypted: bool,
        }
    }
);
section!(
    /// The operating system.
    OperatingSystem changed by OperatingSystemChange {
        required {
            /// The family.
            family: Word<OsFamily>,
        }
        optional {
            /// The name, such as `Windows 11 Pro`.
            name: Text<200>,
            /// The version.
            version: Text<100>,
            /// The build.
            build: Text<100>,
            /// Whether the device needs a restart.
            reboot_required: bool,
            /// When its maker stops to support it.
            eol_at: Timestamp,
            /// When the device last started.
            last_boot_at: Timestamp,
        }
    }
);
section!(
    /// How the device is reached.
    Network changed by NetworkChange {
        optional {
            /// The host name, with or without its domain.
            hostname: Text<255>,
            /// The address that the device is reached at.
            primary_ip: Text<45>,
            /// The address that others see.
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
            /// The name, such as `eth0`.
            name: Text<200>,
            /// The hardware address.
            mac: Text<32>,
        }
        lists {
            /// The addresses.
            ips: List<Text<45>, 64>,
        }
    }
);
section!(
    /// How the device is protected.
    Security changed by SecurityChange {
        optional {
            /// The product that protects it.
            antivirus: Text<200>,
            /// Whether a firewall is on.
            firewall: bool,
            /// Whether the disks are encrypted.
            disk_encryption: bool,
        }
    }
);
section!(
    /// Updates of the operating system.
    Patch changed by PatchChange {
        required {
            /// Whether updates are missing.
            status: Word<PatchStatus>,
            /// The number of missing critical updates.
            missing_critical: u32,
            /// The number of other missing updates.
            missing_other: u32,
        }
        optional {
            /// When the device was last scanned.
            last_scan_at: Timestamp,
        }
    }
);
section!(
    /// An installed package.
    Software {
        required {
            /// The name.
            name: Text<300>,
        }
        optional {
            /// The version.
            version: Text<100>,
            /// The publisher.
            publisher: Text<200>,
        }
    }
);
section!(
    /// The maker's or seller's warranty.
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
    /// Whether the device is backed up, as its backup jobs and the settings say. It is what the backup report counts.
    BackupState {
        required {
            /// Whether the device is to be backed up: in use (`active` or `in_repair`), of a class that the settings name, and not switched
            /// off.
            eligible: bool,
            /// Whether an eligible device has a restore point of the last 30 days.
            protected: bool,
        }
        optional {
            /// When the newest restore point was made; absent for a device that was never backed up.
            last_success_at: Timestamp,
        }
    }
);

/// Holds a part of a device that does not come through the API to the bounds of the API: as it would be sent, it must be readable.
fn check_section<T: Mirror<W>, W: Serialize + for<'a> Deserialize<'a>>(name: &str, section: Option<T>) -> Result<(), String> {
    let Some(section) = section else { return Ok(()) };
    let told = |error: serde_json::Error| format!("{name}: {error}");
    serde_json::from_value::<W>(serde_json::to_value(section.mirror()).map_err(told)?).map(drop).map_err(told)
}

/// The same for all parts of a device.
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

/// The agent on the device.
#[skip_serializing_none]
#[derive(Clone, Debug, Object, Serialize)]
#[oai(skip_serializing_if_is_none)]
pub struct Agent {
    /// What the agent is doing now.
    pub status: AgentStatus,
    /// The version of the agent.
    pub version: Option<String>,
    /// When the agent was last seen.
    pub last_seen_at: Option<Timestamp>,
}

/// A device that the tenant looks after. A section that nobody has told of is absent.
#[skip_serializing_none]
#[derive(Clone, Debug, Object, Serialize)]
#[oai(skip_serializing_if_is_none, example)]
pub struct Device {
    /// The device.
    pub id: DeviceId,
    /// The id in the system that the device comes from.
    pub external_id: Option<String>,
    /// The name.
    pub name: String,
    /// The kind of device.
    pub class: Word<DeviceClass>,
    /// Where the device is in its life.
    pub lifecycle: Word<Lifecycle>,
    /// The organization that the device belongs to.
    pub organization: OrganizationReference,
    /// The place where the device is.
    pub site: Option<String>,
    /// The person who uses the device. Absent when they no longer exist.
    pub owner: Option<PersonReference>,
    /// Labels of your own.
    pub tags: Vec<String>,
    /// Fields of your own.
    pub custom_fields: BTreeMap<String, String>,
    /// The agent on the device.
    pub agent: Agent,
    /// What the device is made of.
    pub hardware: Option<Hardware>,
    /// The operating system.
    pub os: Option<OperatingSystem>,
    /// How the device is reached.
    pub network: Option<Network>,
    /// How the device is protected.
    pub security: Option<Security>,
    /// Updates of the operating system.
    pub patch: Option<Patch>,
    /// The installed packages.
    pub software: Vec<Software>,
    /// The warranty.
    pub warranty: Option<Warranty>,
    /// Whether the device is backed up. Read-only: backup jobs decide it. Absent until the backup report has looked at the device, moments
    /// after its creation.
    pub backup: Option<BackupState>,
    /// How the device is doing.
    pub health: Word<Health>,
    /// When what is known of the device was found out.
    pub collected_at: Timestamp,
    /// When the record was created.
    pub created_at: Timestamp,
    /// When the record last changed.
    pub updated_at: Timestamp,
    /// Counts the changes of this record.
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
