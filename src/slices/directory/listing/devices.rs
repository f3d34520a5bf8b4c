//! Selects the devices of a list or a report. It checks the cheap fields first, so that a selective query decodes the details of
//! few devices.

use tenantd_base::{
    access::Reach,
    clock::Timestamp,
    id::{DeviceId, OrganizationId, TenantId, UserId},
};
use tenantd_store::{Direction, Flow, Key, KeyRange, Read, StoreError};

use super::{
    super::{
        model::{
            AgentStatus, Details, Device, DeviceClass, Health, Lifecycle, OperatingSystem, OsFamily, PatchStatus, Software,
            WarrantyStatus,
        },
        repo::devices::{self, FoldedDevice},
        service::Directory,
    },
    filters::{AddressFilter, Folded, MacFilter, SoftwareFilter, fold},
    labels::Labels,
    order::{Listing, RecordId, ScannedRecord, SortField},
};

/// The cost of decoding the details of a device, relative to a cost of 1 for rejecting a device by its cheap fields.
const DETAILS: u64 = 4;

/// An absent filter or an empty list matches everything.
#[derive(Clone, Debug)]
pub struct DeviceQuery {
    pub tenant_id: TenantId,
    pub reach: Reach,
    /// The time of the report, which determines the status of agents.
    pub now: Timestamp,
    pub directory: Directory,
    pub organizations: Vec<OrganizationId>,
    pub sites: Vec<Folded>,
    pub classes: Vec<DeviceClass>,
    pub lifecycles: Vec<Lifecycle>,
    pub healths: Vec<Health>,
    pub agent_statuses: Vec<AgentStatus>,
    pub last_seen_before: Option<Timestamp>,
    pub last_seen_after: Option<Timestamp>,
    pub names: Vec<Folded>,
    pub external_ids: Vec<String>,
    pub owners: Vec<UserId>,
    pub created_after: Option<Timestamp>,
    pub created_before: Option<Timestamp>,
    pub updated_after: Option<Timestamp>,
    pub updated_before: Option<Timestamp>,
    /// Matches eligible devices that are protected or not.
    pub protected: Option<bool>,
    pub details: DetailsQuery,
    pub text: Option<Folded>,
}

/// The filters that need the details of a device.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DetailsQuery {
    pub os_families: Vec<OsFamily>,
    pub os_names: Vec<Folded>,
    pub os_versions: Vec<Folded>,
    pub hostnames: Vec<Folded>,
    pub custom_fields: Vec<Folded>,
    pub manufacturers: Vec<Folded>,
    pub models: Vec<Folded>,
    pub serials: Vec<Folded>,
    pub addresses: Vec<AddressFilter>,
    pub macs: Vec<MacFilter>,
    pub tags: Vec<Folded>,
    pub warranty_statuses: Vec<WarrantyStatus>,
    pub warranty_ends_before: Option<Timestamp>,
    pub patch_statuses: Vec<PatchStatus>,
    pub reboot_required: Option<bool>,
    pub software: Vec<SoftwareFilter>,
    pub software_missing: Vec<SoftwareFilter>,
}

fn one_of<T: PartialEq>(wanted: &[T], value: &T) -> bool {
    wanted.is_empty() || wanted.contains(value)
}

/// Whether an optional text matches.
/// Whether a text is the version of a system, alone or after its name.
fn is_version(wanted: &Folded, os: &OperatingSystem) -> bool {
    let Some(version) = &os.version else { return false };
    wanted.is(version) || os.name.as_ref().is_some_and(|name| wanted.is(&format!("{name} {version}")))
}

fn text_is(wanted: &[Folded], text: Option<&String>, matches: fn(&Folded, &str) -> bool) -> bool {
    wanted.is_empty() || text.is_some_and(|text| wanted.iter().any(|wanted| matches(wanted, text)))
}

impl DeviceQuery {
    pub fn status<D>(&self, device: &Device<D>) -> AgentStatus {
        self.directory.agent_status(device.last_seen_at, self.now)
    }

    /// Whether a device can match, according to its cheap fields.
    pub fn admits<D>(&self, device: &Device<D>) -> bool {
        self.reach.covers(Some(device.organization_id))
            && one_of(&self.organizations, &device.organization_id)
            && one_of(&self.classes, &device.class)
            && one_of(&self.lifecycles, &device.lifecycle)
            && one_of(&self.healths, &device.health)
            && self.last_seen_before.is_none_or(|time| device.last_seen_at.is_some_and(|seen| seen < time))
            && self.last_seen_after.is_none_or(|time| device.last_seen_at.is_some_and(|seen| seen > time))
            && self.updated_after.is_none_or(|time| device.updated_at > time)
            && self.updated_before.is_none_or(|time| device.updated_at < time)
            && self.created_after.is_none_or(|time| device.created_at > time)
            && self.created_before.is_none_or(|time| device.created_at < time)
            && (self.external_ids.is_empty() || device.external_id.as_ref().is_some_and(|id| self.external_ids.contains(id)))
            && (self.owners.is_empty() || device.owner_id.is_some_and(|owner| self.owners.contains(&owner)))
            && text_is(&self.names, Some(&device.name), Folded::is)
            && self.protected.is_none_or(|wanted| device.backup.is_some_and(|backup| backup.eligible && backup.protected == wanted))
            && (self.agent_statuses.is_empty() || self.agent_statuses.contains(&self.status(device)))
            && text_is(&self.sites, device.site.as_ref(), Folded::is)
    }

    /// Whether a device that passed [`Self::admits`] matches.
    pub fn matches(&self, tx: &impl Read, labels: &mut Labels, device: &Device) -> Result<bool, StoreError> {
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

    /// The packages of a device that match the query, sorted and without duplicates.
    pub fn packages(&self, device: &Device) -> Vec<Software> {
        let wanted = &self.details.software;
        let is_requested = |package: &&Software| wanted.is_empty() || wanted.iter().any(|filter| filter.admits(package));
        let mut packages: Vec<Software> = device.details.software.iter().filter(is_requested).cloned().collect();
        packages.sort_by(|left, right| {
            (&left.name, &left.version, &left.publisher).cmp(&(&right.name, &right.version, &right.publisher))
        });
        packages.dedup();
        packages
    }
}

/// Whether the names or identifiers of the device contain the text.
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
        let has_field = |wanted: &Folded| details.custom_fields.values().any(|value| wanted.is(value));
        let tagged = |wanted: &Folded| details.tags.iter().any(|tag| wanted.is(tag));
        (self.os_families.is_empty() || os.is_some_and(|os| self.os_families.contains(&os.family)))
            && text_is(&self.os_names, os.and_then(|os| os.name.as_ref()), Folded::is_in)
            && (self.os_versions.is_empty() || os.is_some_and(|os| self.os_versions.iter().any(|wanted| is_version(wanted, os))))
            && text_is(&self.hostnames, network.and_then(|network| network.hostname.as_ref()), Folded::is_host)
            && (self.custom_fields.is_empty() || self.custom_fields.iter().any(has_field))
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

impl Listing for DeviceQuery {
    /// The device and the approximate size of its details in bytes.
    type Record = (Device, usize);

    fn walk(
        &self,
        tx: &impl Read,
        after: Option<RecordId>,
        direction: Direction,
        mut visit: impl FnMut(ScannedRecord<Self::Record>) -> Result<Flow, StoreError>,
    ) -> Result<(), StoreError> {
        let mut labels = Labels::new(self.tenant_id);
        let mut range = KeyRange::prefix(&self.tenant_id.to_bytes());
        if let Some(after) = after {
            range = range.after(&(self.tenant_id, after).to_bytes(), direction);
        }
        devices::walk(tx, &range, direction, |folded| {
            let id = *folded.id.as_bytes();
            if !self.admits(&folded) {
                return visit((id, 1, None));
            }
            let found = sized(&folded)?;
            let is_wanted = self.matches(tx, &mut labels, &found.0)?;
            visit((id, 1 + DETAILS, Some(found).filter(|_| is_wanted)))
        })
    }

    fn get(&self, tx: &impl Read, id: RecordId) -> Result<Option<Self::Record>, StoreError> {
        devices::folded(tx, self.tenant_id, DeviceId::from_bytes(id))?.as_ref().map(sized).transpose()
    }

    fn value((device, _): &Self::Record, field: SortField) -> Vec<u8> {
        match field {
            SortField::Name => fold(&device.name).into_bytes(),
            SortField::UpdatedAt => device.updated_at.to_bytes(),
            SortField::LastSeenAt => device.last_seen_at.to_bytes(),
            SortField::CreatedAt => device.created_at.to_bytes(),
        }
    }

    fn bytes((_, bytes): &Self::Record) -> usize {
        500 + 2 * bytes
    }
}

fn sized(folded: &FoldedDevice) -> Result<(Device, usize), StoreError> {
    Ok((folded.unfold()?, folded.details.bytes()))
}

/// A device without update data has the status unknown.
pub fn patch_status(details: &Details) -> PatchStatus {
    details.patch.as_ref().map_or(PatchStatus::Unknown, |patch| patch.status)
}

pub fn warranty_status(details: &Details) -> WarrantyStatus {
    details.warranty.as_ref().map_or(WarrantyStatus::Unknown, |warranty| warranty.status)
}

pub fn reboot_required(details: &Details) -> bool {
    details.os.as_ref().and_then(|os| os.reboot_required).unwrap_or(false)
}
