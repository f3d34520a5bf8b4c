//! Changes of records, from agents, imports and people. **Invariant:** a change affects only the fields that it contains, including
//! the fields of a device's sections. Two sources of one record therefore do not overwrite each other's fields.

use std::collections::BTreeMap;

use tenantd_base::{
    change::Change,
    clock::Timestamp,
    fault::pointer_part,
    id::{OrganizationId, UserId},
};

use super::{
    device::{
        Cpu, Details, Device, DeviceClass, Disk, Hardware, Health, Interface, Lifecycle, Network, OperatingSystem, OsFamily, Patch,
        PatchStatus, Security, Software, Volume, Warranty, WarrantyStatus,
    },
    ingest::Reference,
    user::UserStatus,
};

/// A change to an organization.
#[derive(Clone, Debug, Default)]
pub struct OrganizationChange {
    pub name: Option<String>,
    pub external_id: Change<String>,
}

/// A change to a contact.
#[derive(Clone, Debug, Default)]
pub struct ContactChange {
    pub name: Option<String>,
    pub email: Change<String>,
    pub organization_id: Change<OrganizationId>,
    pub status: Option<UserStatus>,
    pub external_id: Change<String>,
}

/// A change to a device.
#[derive(Clone, Debug, Default)]
pub struct DeviceChange {
    pub external_id: Change<String>,
    pub name: Option<String>,
    pub class: Option<DeviceClass>,
    pub lifecycle: Option<Lifecycle>,
    pub organization: Option<Reference<OrganizationId>>,
    pub site: Change<String>,
    pub owner: Change<Reference<UserId>>,
    pub agent: Change<AgentChange>,
    pub health: Option<Health>,
    pub collected_at: Option<Timestamp>,
    pub tags: Option<Vec<String>>,
    /// By field name. `None` removes the field.
    pub custom_fields: Change<BTreeMap<String, Option<String>>>,
    pub hardware: Change<HardwareChange>,
    pub os: Change<OperatingSystemChange>,
    pub network: Change<NetworkChange>,
    pub security: Change<SecurityChange>,
    pub patch: Change<PatchChange>,
    pub software: Option<Vec<Software>>,
    pub warranty: Change<WarrantyChange>,
}

/// A change to the agent on a device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AgentChange {
    pub version: Change<String>,
    pub last_seen_at: Change<Timestamp>,
}

/// The change is not valid for this record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidChange {
    /// A JSON pointer to the field of the record.
    pub pointer: String,
    pub code: &'static str,
    pub message: String,
}

impl InvalidChange {
    fn missing(field: &str) -> Self {
        let message = format!("{field} is required because the device does not have this section yet");
        Self { pointer: format!("/{field}"), code: "required", message }
    }

    fn under(self, section: &str) -> Self {
        Self { pointer: format!("/{section}{}", self.pointer), ..self }
    }
}

/// The maximum number of custom fields of a device, and the maximum length of a name in characters.
pub(crate) const MAX_CUSTOM_FIELDS: usize = 64;
pub(crate) const MAX_FIELD_NAME: usize = 100;

/// Checks the limits of custom fields.
pub(crate) fn check_custom_fields(fields: &BTreeMap<String, String>) -> Result<(), InvalidChange> {
    let invalid = |pointer, code, message| Err(InvalidChange { pointer, code, message });
    if fields.len() > MAX_CUSTOM_FIELDS {
        return invalid("/custom_fields".to_owned(), "too_many", format!("must have at most {MAX_CUSTOM_FIELDS} entries"));
    }
    match fields.keys().find(|name| name.is_empty() || name.chars().count() > MAX_FIELD_NAME) {
        Some(name) => invalid(
            format!("/custom_fields/{}", pointer_part(name)),
            "wrong_form",
            format!("a custom field name must have 1 to {MAX_FIELD_NAME} characters"),
        ),
        None => Ok(()),
    }
}

/// A change to a section.
pub(crate) trait SectionChange {
    type Section;

    /// Returns the section after the change.
    fn apply(&self, before: Option<Self::Section>) -> Result<Self::Section, InvalidChange>;
}

fn changed<C: SectionChange>(
    name: &str,
    change: &Change<C>,
    before: Option<C::Section>,
) -> Result<Option<C::Section>, InvalidChange> {
    match change {
        Change::Keep => Ok(before),
        Change::Clear => Ok(None),
        Change::Set(change) => change.apply(before).map(Some).map_err(|invalid| invalid.under(name)),
    }
}

/// Declares the change of a section, field by field.
macro_rules! section_change {
    ($change:ident of $section:ident {
        $(required { $($required:ident: $required_type:ty,)* })?
        $(optional { $($optional:ident: $optional_type:ty,)* })?
        $(sections { $($nested:ident: $nested_type:ty,)* })?
        $(lists { $($list:ident: $list_type:ty,)* })?
    }) => {
        #[derive(Clone, Debug, Default, PartialEq)]
        pub struct $change {
            $($(pub $required: Option<$required_type>,)*)?
            $($(pub $optional: Change<$optional_type>,)*)?
            $($(pub $nested: Change<$nested_type>,)*)?
            $($(pub $list: Option<Vec<$list_type>>,)*)?
        }

        impl SectionChange for $change {
            type Section = $section;

            fn apply(&self, before: Option<$section>) -> Result<$section, InvalidChange> {
                Ok(match before {
                    Some(before) => $section {
                        $($($required: self.$required.clone().unwrap_or(before.$required),)*)?
                        $($($optional: self.$optional.clone().apply(before.$optional),)*)?
                        $($($nested: changed(stringify!($nested), &self.$nested, before.$nested)?,)*)?
                        $($($list: self.$list.clone().unwrap_or(before.$list),)*)?
                    },
                    None => $section {
                        $($($required: self.$required.clone().ok_or_else(|| InvalidChange::missing(stringify!($required)))?,)*)?
                        $($($optional: self.$optional.clone().apply(None),)*)?
                        $($($nested: changed(stringify!($nested), &self.$nested, None)?,)*)?
                        $($($list: self.$list.clone().unwrap_or_default(),)*)?
                    },
                })
            }
        }
    };
}

section_change!(HardwareChange of Hardware {
    optional { manufacturer: String, model: String, serial: String, memory_bytes: u64, }
    sections { cpu: CpuChange, }
    lists { disks: Disk, volumes: Volume, }
});
section_change!(CpuChange of Cpu {
    optional { model: String, cores: u32, }
});
section_change!(OperatingSystemChange of OperatingSystem {
    required { family: OsFamily, }
    optional { name: String, version: String, build: String, reboot_required: bool, eol_at: Timestamp, last_boot_at: Timestamp, }
});
section_change!(NetworkChange of Network {
    optional { hostname: String, primary_ip: String, public_ip: String, }
    lists { interfaces: Interface, }
});
section_change!(SecurityChange of Security {
    optional { antivirus: String, firewall: bool, disk_encryption: bool, }
});
section_change!(PatchChange of Patch {
    required { status: PatchStatus, missing_critical: u32, missing_other: u32, }
    optional { last_scan_at: Timestamp, }
});
section_change!(WarrantyChange of Warranty {
    required { status: WarrantyStatus, }
    optional { ends_at: Timestamp, }
});

impl DeviceChange {
    /// Returns the device after the change. The caller has already looked up the organization and, if it changes, the owner.
    pub(crate) fn apply(
        &self,
        mut device: Device,
        organization_id: OrganizationId,
        owner_id: Option<UserId>,
    ) -> Result<Device, InvalidChange> {
        device.external_id = self.external_id.clone().apply(device.external_id);
        device.name = self.name.clone().unwrap_or(device.name);
        device.class = self.class.unwrap_or(device.class);
        device.lifecycle = self.lifecycle.unwrap_or(device.lifecycle);
        device.organization_id = organization_id;
        device.site = self.site.clone().apply(device.site);
        if self.owner != Change::Keep {
            device.owner_id = owner_id;
        }
        match &self.agent {
            Change::Keep => {}
            Change::Clear => (device.agent_version, device.last_seen_at) = (None, None),
            Change::Set(agent) => {
                device.agent_version = agent.version.clone().apply(device.agent_version);
                device.last_seen_at = agent.last_seen_at.clone().apply(device.last_seen_at);
            }
        }
        device.health = self.health.unwrap_or(device.health);
        device.collected_at = self.collected_at.unwrap_or(device.collected_at);
        device.details = self.apply_details(device.details)?;
        Ok(device)
    }

    fn apply_details(&self, details: Details) -> Result<Details, InvalidChange> {
        Ok(Details {
            tags: self.tags.clone().unwrap_or(details.tags),
            custom_fields: self.apply_custom_fields(details.custom_fields)?,
            hardware: changed("hardware", &self.hardware, details.hardware)?,
            os: changed("os", &self.os, details.os)?,
            network: changed("network", &self.network, details.network)?,
            security: changed("security", &self.security, details.security)?,
            patch: changed("patch", &self.patch, details.patch)?,
            software: self.software.clone().unwrap_or(details.software),
            warranty: changed("warranty", &self.warranty, details.warranty)?,
        })
    }

    fn apply_custom_fields(&self, mut fields: BTreeMap<String, String>) -> Result<BTreeMap<String, String>, InvalidChange> {
        match &self.custom_fields {
            Change::Keep => return Ok(fields),
            Change::Clear => fields.clear(),
            Change::Set(changes) => {
                for (name, value) in changes {
                    match value {
                        Some(value) => fields.insert(name.clone(), value.clone()),
                        None => fields.remove(name),
                    };
                }
            }
        }
        check_custom_fields(&fields)?;
        Ok(fields)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn device() -> Device {
        let hardware = Hardware {
            serial: Some("S-1".to_owned()),
            cpu: Some(Cpu { model: Some("C".to_owned()), cores: Some(4) }),
            ..Hardware::default()
        };
        let custom_fields = [("rack".to_owned(), "B7".to_owned())].into();
        let details = Details { hardware: Some(hardware), custom_fields, ..Details::default() };
        Device { name: "pc".to_owned(), agent_version: Some("5".to_owned()), details, ..Device::default() }
    }

    #[test]
    fn fields_outside_a_change_stay() {
        let cpu = CpuChange { cores: Change::Set(8), ..CpuChange::default() };
        let change = DeviceChange {
            hardware: Change::Set(HardwareChange { cpu: Change::Set(cpu), ..HardwareChange::default() }),
            custom_fields: Change::Set([("room".to_owned(), Some("12".to_owned()))].into()),
            agent: Change::Set(AgentChange { last_seen_at: Change::Set(Timestamp::from_millis(5)), ..AgentChange::default() }),
            ..DeviceChange::default()
        };
        let after = change.apply(device(), OrganizationId::default(), None).unwrap();
        let hardware = after.details.hardware.unwrap();
        assert_eq!((hardware.serial.as_deref(), hardware.cpu.clone().unwrap().model.as_deref()), (Some("S-1"), Some("C")));
        assert_eq!(hardware.cpu.unwrap().cores, Some(8));
        assert_eq!(after.details.custom_fields.len(), 2);
        assert_eq!((after.name.as_str(), after.agent_version.as_deref()), ("pc", Some("5")));
    }

    #[test]
    fn a_new_section_needs_its_required_fields() {
        let os = OperatingSystemChange { name: Change::Set("Linux".to_owned()), ..OperatingSystemChange::default() };
        let change = DeviceChange { os: Change::Set(os), ..DeviceChange::default() };
        let refused = change.apply(device(), OrganizationId::default(), None).unwrap_err();
        assert_eq!(refused.pointer, "/os/family");
    }
}
