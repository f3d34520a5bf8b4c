//! Devices as clients see and send them. What an agent sends of a device and what is shown of it have the same sections, so each is
//! declared once, with its bounds in the types of its fields.

use std::collections::BTreeMap;

use poem_openapi::Object;
use serde::{Deserialize, Serialize};
use serde_json::value::to_raw_value;
use serde_with::skip_serializing_none;

use tenantd_base::{clock::Timestamp, id::DeviceId};
use tenantd_http::{
    bounded::{List, Text},
    wire::{StoredWord, Word},
};
use tenantd_store::events::{Describe, Described};

use super::{
    super::model::{
        self, AgentStatus, DeviceClass, Health, Lifecycle, OrganizationLabel, OsFamily, PatchStatus, PersonLabel, WarrantyStatus,
    },
    wire::{OrganizationReference, PersonReference},
};

pub(super) const MAX_TAGS: usize = 64;
pub(super) const MAX_SOFTWARE: usize = 2000;
pub(super) const MAX_CUSTOM_FIELDS: usize = 64;
pub(super) const MAX_FIELD_NAME: usize = 100;

/// The same value in the form of the model, or back.
pub(super) trait Mirror<T> {
    fn mirror(self) -> T;
}

macro_rules! same {
    ($($type:ty),*) => {$(
        impl Mirror<$type> for $type {
            fn mirror(self) -> $type {
                self
            }
        }
    )*};
}

same!(bool, u32, u64, Timestamp);

impl<T> Mirror<T> for Word<T> {
    fn mirror(self) -> T {
        self.0
    }
}

impl<T: StoredWord> Mirror<Word<T>> for T {
    fn mirror(self) -> Word<T> {
        Word(self)
    }
}

impl<const MAX: usize> Mirror<String> for Text<MAX> {
    fn mirror(self) -> String {
        self.into_string()
    }
}

impl<const MAX: usize> Mirror<Text<MAX>> for String {
    fn mirror(self) -> Text<MAX> {
        Text::stored(self)
    }
}

impl<A: Mirror<B>, B> Mirror<Option<B>> for Option<A> {
    fn mirror(self) -> Option<B> {
        self.map(Mirror::mirror)
    }
}

impl<A: Mirror<B>, B, const MAX: usize> Mirror<Vec<B>> for List<A, MAX> {
    fn mirror(self) -> Vec<B> {
        self.into_vec().into_iter().map(Mirror::mirror).collect()
    }
}

impl<T: Mirror<U>, U, const MAX: usize> Mirror<List<U, MAX>> for Vec<T> {
    fn mirror(self) -> List<U, MAX> {
        List::stored(self.into_iter().map(Mirror::mirror).collect())
    }
}

/// A part of a device on the wire, of the same name and fields as in the model.
macro_rules! section {
    (
        $(#[$doc:meta])*
        $name:ident {
            $(required { $($(#[$required_doc:meta])* $required:ident: $required_type:ty,)* })?
            $(optional { $($(#[$optional_doc:meta])* $optional:ident: $optional_type:ty,)* })?
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
            $($($(#[$list_doc])* #[serde(default)] #[oai(default)] pub $list: $list_type,)*)?
        }

        impl Mirror<model::$name> for $name {
            fn mirror(self) -> model::$name {
                model::$name {
                    $($($required: self.$required.mirror(),)*)?
                    $($($optional: self.$optional.mirror(),)*)?
                    $($($list: self.$list.mirror(),)*)?
                }
            }
        }

        impl Mirror<$name> for model::$name {
            fn mirror(self) -> $name {
                $name {
                    $($($required: self.$required.mirror(),)*)?
                    $($($optional: self.$optional.mirror(),)*)?
                    $($($list: self.$list.mirror(),)*)?
                }
            }
        }
    };
}

section!(
    /// What the device is made of.
    Hardware {
        optional { manufacturer: Text<200>, model: Text<200>, serial: Text<200>, cpu: Cpu, memory_bytes: u64, }
        lists { disks: List<Disk, 64>, volumes: List<Volume, 128>, }
    }
);
section!(
    /// The processors.
    Cpu {
        optional { model: Text<200>, cores: u32, }
    }
);
section!(
    /// A physical disk.
    Disk {
        optional {
            model: Text<200>,
            bytes: u64,
            /// Such as `ssd`, `hdd` or `nvme`.
            kind: Text<50>,
        }
    }
);
section!(
    /// A file system.
    Volume {
        required { name: Text<200>, }
        optional { bytes: u64, free_bytes: u64, encrypted: bool, }
    }
);
section!(
    /// The operating system.
    OperatingSystem {
        required { family: Word<OsFamily>, }
        optional {
            name: Text<200>,
            version: Text<100>,
            build: Text<100>,
            reboot_required: bool,
            /// When its maker stops to support it.
            eol_at: Timestamp,
            last_boot_at: Timestamp,
        }
    }
);
section!(
    /// How the device is reached.
    Network {
        optional { hostname: Text<255>, primary_ip: Text<45>, public_ip: Text<45>, }
        lists { interfaces: List<Interface, 128>, }
    }
);
section!(
    /// A network interface.
    Interface {
        optional { name: Text<200>, mac: Text<32>, }
        lists { ips: List<Text<45>, 64>, }
    }
);
section!(
    /// How the device is protected.
    Security {
        optional {
            /// The product that protects it.
            antivirus: Text<200>,
            firewall: bool,
            disk_encryption: bool,
        }
    }
);
section!(
    /// Updates of the operating system.
    Patch {
        required { status: Word<PatchStatus>, missing_critical: u32, missing_other: u32, }
        optional { last_scan_at: Timestamp, }
    }
);
section!(
    /// An installed package.
    Software {
        required { name: Text<300>, }
        optional { version: Text<100>, publisher: Text<200>, }
    }
);
section!(
    /// The maker's or seller's warranty.
    Warranty {
        required { status: Word<WarrantyStatus>, }
        optional { ends_at: Timestamp, }
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
    if details.custom_fields.len() > MAX_CUSTOM_FIELDS {
        return Err(format!("custom_fields: must have at most {MAX_CUSTOM_FIELDS} entries"));
    }
    for (name, value) in details.custom_fields {
        if name.is_empty() || name.chars().count() > MAX_FIELD_NAME {
            return Err(format!("custom_fields: a name must have 1 to {MAX_FIELD_NAME} characters"));
        }
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
    pub status: AgentStatus,
    pub version: Option<String>,
    pub last_seen_at: Option<Timestamp>,
}

/// A device that the tenant looks after. A section that nobody has told of is absent.
#[skip_serializing_none]
#[derive(Clone, Debug, Object, Serialize)]
#[oai(skip_serializing_if_is_none, example)]
pub struct Device {
    pub id: DeviceId,
    /// The id in the system that the device comes from.
    pub external_id: Option<String>,
    pub name: String,
    pub class: Word<DeviceClass>,
    pub lifecycle: Word<Lifecycle>,
    pub organization: OrganizationReference,
    pub site: Option<String>,
    pub owner: Option<PersonReference>,
    pub tags: Vec<String>,
    pub custom_fields: BTreeMap<String, String>,
    pub agent: Agent,
    pub hardware: Option<Hardware>,
    pub os: Option<OperatingSystem>,
    pub network: Option<Network>,
    pub security: Option<Security>,
    pub patch: Option<Patch>,
    pub software: Vec<Software>,
    pub warranty: Option<Warranty>,
    /// Absent until the device is taken up by the backup report, moments after its creation.
    pub backup: Option<BackupState>,
    pub health: Word<Health>,
    /// When what is known of the device was found out.
    pub collected_at: Timestamp,
    pub created_at: Timestamp,
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
