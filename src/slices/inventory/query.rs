//! Which devices a report is about. What can be told from the front of a device is asked first: most devices of a selective query go by
//! without their details being taken apart.

use tenantd_base::{
    access::Reach,
    clock::Timestamp,
    id::{OrganizationId, TenantId},
};
use tenantd_directory::{
    AgentStatus, Details, Device, DeviceClass, Directory, Health, Lifecycle, OsFamily, PatchStatus, Software, WarrantyStatus,
};
use tenantd_store::{Read, StoreError};

use super::{
    labels::Labels,
    model::{AddressFilter, Folded, MacFilter, SoftwareFilter},
};

/// What is absent, or an empty list, is not asked for.
#[derive(Clone, Debug)]
pub(super) struct InventoryQuery {
    pub(super) tenant_id: TenantId,
    pub(super) reach: Reach,
    /// The moment of the report: what agents are doing is told as of now.
    pub(super) now: Timestamp,
    pub(super) directory: Directory,
    pub(super) organizations: Vec<OrganizationId>,
    pub(super) sites: Vec<Folded>,
    pub(super) classes: Vec<DeviceClass>,
    pub(super) lifecycles: Vec<Lifecycle>,
    pub(super) healths: Vec<Health>,
    pub(super) agent_statuses: Vec<AgentStatus>,
    pub(super) last_seen_before: Option<Timestamp>,
    pub(super) last_seen_after: Option<Timestamp>,
    pub(super) updated_after: Option<Timestamp>,
    /// Devices that are to be backed up, and are or are not.
    pub(super) protected: Option<bool>,
    pub(super) details: DetailsQuery,
    pub(super) text: Option<Folded>,
}

/// What only the details of a device tell.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct DetailsQuery {
    pub(super) os_families: Vec<OsFamily>,
    pub(super) os_names: Vec<Folded>,
    pub(super) manufacturers: Vec<Folded>,
    pub(super) models: Vec<Folded>,
    pub(super) serials: Vec<Folded>,
    pub(super) addresses: Vec<AddressFilter>,
    pub(super) macs: Vec<MacFilter>,
    pub(super) tags: Vec<Folded>,
    pub(super) warranty_statuses: Vec<WarrantyStatus>,
    pub(super) warranty_ends_before: Option<Timestamp>,
    pub(super) patch_statuses: Vec<PatchStatus>,
    pub(super) reboot_required: Option<bool>,
    pub(super) software: Vec<SoftwareFilter>,
    pub(super) software_missing: Vec<SoftwareFilter>,
}

fn one_of<T: PartialEq>(wanted: &[T], value: &T) -> bool {
    wanted.is_empty() || wanted.contains(value)
}

/// Whether a text that may be absent is wanted.
fn text_is(wanted: &[Folded], text: Option<&String>, matches: fn(&Folded, &str) -> bool) -> bool {
    wanted.is_empty() || text.is_some_and(|text| wanted.iter().any(|wanted| matches(wanted, text)))
}

impl InventoryQuery {
    pub(super) fn status<D>(&self, device: &Device<D>) -> AgentStatus {
        self.directory.agent_status(device.last_seen_at, self.now)
    }

    /// Whether a device can match, as far as the front of it tells.
    pub(super) fn admits<D>(&self, device: &Device<D>) -> bool {
        self.reach.covers(Some(device.organization_id))
            && one_of(&self.organizations, &device.organization_id)
            && one_of(&self.classes, &device.class)
            && one_of(&self.lifecycles, &device.lifecycle)
            && one_of(&self.healths, &device.health)
            && self.last_seen_before.is_none_or(|time| device.last_seen_at.is_some_and(|seen| seen < time))
            && self.last_seen_after.is_none_or(|time| device.last_seen_at.is_some_and(|seen| seen > time))
            && self.updated_after.is_none_or(|time| device.updated_at > time)
            && self.protected.is_none_or(|wanted| device.backup.is_some_and(|backup| backup.eligible && backup.protected == wanted))
            && (self.agent_statuses.is_empty() || self.agent_statuses.contains(&self.status(device)))
            && text_is(&self.sites, device.site.as_ref(), Folded::is)
    }

    /// Whether a device that is admitted matches.
    pub(super) fn matches(&self, tx: &impl Read, labels: &mut Labels, device: &Device) -> Result<bool, StoreError> {
        if !self.details.matches(&device.details) {
            return Ok(false);
        }
        let Some(text) = &self.text else { return Ok(true) };
        if mentions(device, text) {
            return Ok(true);
        }
        let Some(owner) = device.owner_id else { return Ok(false) };
        Ok(labels.person(tx, owner)?.is_some_and(|owner| text.is_in(&owner.name)))
    }

    /// The packages of a device that are asked for: each once, in order.
    pub(super) fn packages(&self, device: &Device) -> Vec<Software> {
        let wanted = &self.details.software;
        let asked = |package: &&Software| wanted.is_empty() || wanted.iter().any(|filter| filter.admits(package));
        let mut packages: Vec<Software> = device.details.software.iter().filter(asked).cloned().collect();
        packages.sort_by(|left, right| {
            (&left.name, &left.version, &left.publisher).cmp(&(&right.name, &right.version, &right.publisher))
        });
        packages.dedup();
        packages
    }
}

/// Whether the device itself has the text in what it is called by.
fn mentions(device: &Device, text: &Folded) -> bool {
    let details = &device.details;
    let hostname = details.network.as_ref().and_then(|network| network.hostname.as_ref());
    let hardware = details.hardware.iter().flat_map(|hardware| hardware.serial.iter().chain(&hardware.model));
    let mut names = std::iter::once(&device.name).chain(hostname).chain(hardware).chain(&details.tags);
    names.any(|name| text.is_in(name))
}

impl DetailsQuery {
    fn matches(&self, details: &Details) -> bool {
        self.matches_hardware(details) && self.matches_state(details) && self.matches_software(&details.software)
    }

    fn matches_hardware(&self, details: &Details) -> bool {
        let (hardware, os, network) = (details.hardware.as_ref(), details.os.as_ref(), details.network.as_ref());
        let tagged = |wanted: &Folded| details.tags.iter().any(|tag| wanted.is(tag));
        (self.os_families.is_empty() || os.is_some_and(|os| self.os_families.contains(&os.family)))
            && text_is(&self.os_names, os.and_then(|os| os.name.as_ref()), Folded::is_in)
            && text_is(&self.manufacturers, hardware.and_then(|hardware| hardware.manufacturer.as_ref()), Folded::is_in)
            && text_is(&self.models, hardware.and_then(|hardware| hardware.model.as_ref()), Folded::is_in)
            && text_is(&self.serials, hardware.and_then(|hardware| hardware.serial.as_ref()), Folded::is)
            && (self.tags.is_empty() || self.tags.iter().any(tagged))
            && (self.addresses.is_empty()
                || network.is_some_and(|network| self.addresses.iter().any(|wanted| wanted.admits(network))))
            && (self.macs.is_empty() || network.is_some_and(|network| self.macs.iter().any(|wanted| wanted.admits(network))))
    }

    fn matches_state(&self, details: &Details) -> bool {
        let warranty = details.warranty.as_ref();
        let ends_before = |time: Timestamp| warranty.and_then(|warranty| warranty.ends_at).is_some_and(|ends_at| ends_at < time);
        one_of(&self.warranty_statuses, &warranty_status(details))
            && self.warranty_ends_before.is_none_or(ends_before)
            && one_of(&self.patch_statuses, &patch_status(details))
            && self.reboot_required.is_none_or(|wanted| wanted == reboot_required(details))
    }

    fn matches_software(&self, packages: &[Software]) -> bool {
        let has = |wanted: &SoftwareFilter| packages.iter().any(|package| wanted.admits(package));
        (self.software.is_empty() || self.software.iter().any(has))
            && (self.software_missing.is_empty() || self.software_missing.iter().any(|wanted| !has(wanted)))
    }
}

/// What nobody has told of is unknown.
pub(super) fn patch_status(details: &Details) -> PatchStatus {
    details.patch.as_ref().map_or(PatchStatus::Unknown, |patch| patch.status)
}

pub(super) fn warranty_status(details: &Details) -> WarrantyStatus {
    details.warranty.as_ref().map_or(WarrantyStatus::Unknown, |warranty| warranty.status)
}

pub(super) fn reboot_required(details: &Details) -> bool {
    details.os.as_ref().and_then(|os| os.reboot_required).unwrap_or(false)
}
