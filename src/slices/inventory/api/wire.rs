//! Rows, groups and totals of a report as clients see them.

use std::collections::BTreeMap;

use poem_openapi::Object;
use serde::Serialize;
use serde_with::skip_serializing_none;

use tenantd_base::{clock::Timestamp, id::DeviceId};
use tenantd_directory::{
    DeviceClass, Health, Lifecycle, OrganizationReference, PersonReference,
    devices::Labels,
    view::{Agent, BackupState, Device, Hardware, Network, OperatingSystem, Patch, Security, Software, Warranty},
};
use tenantd_http::{page::Page, wire::Word};
use tenantd_store::{Read, StoreError};

use super::{
    super::{
        listing::{Hit, InventoryPage},
        tally::{self, Field},
    },
    filters::Section,
};

/// A device, with the sections that were asked for; and of a report whose rows are packages, one of its packages.
#[skip_serializing_none]
#[derive(Clone, Debug, Object, Serialize)]
#[oai(skip_serializing_if_is_none, example)]
pub(crate) struct InventoryRow {
    pub(super) id: DeviceId,
    pub(super) name: String,
    pub(super) organization: OrganizationReference,
    /// Of the section `summary`, as all up to `version`: the id in the system that the device comes from.
    pub(super) external_id: Option<String>,
    pub(super) class: Option<Word<DeviceClass>>,
    pub(super) lifecycle: Option<Word<Lifecycle>>,
    /// Where the device is.
    pub(super) site: Option<String>,
    pub(super) owner: Option<PersonReference>,
    pub(super) tags: Option<Vec<String>>,
    /// Fields of your own.
    pub(super) custom_fields: Option<BTreeMap<String, String>>,
    /// What the agent is doing at the moment of the report.
    pub(super) agent: Option<Agent>,
    pub(super) health: Option<Word<Health>>,
    /// When what is known of the device was found out.
    pub(super) collected_at: Option<Timestamp>,
    pub(super) created_at: Option<Timestamp>,
    pub(super) updated_at: Option<Timestamp>,
    /// Counts the changes of the record.
    pub(super) version: Option<u64>,
    pub(super) hardware: Option<Hardware>,
    pub(super) os: Option<OperatingSystem>,
    pub(super) network: Option<Network>,
    pub(super) security: Option<Security>,
    pub(super) patch: Option<Patch>,
    /// Not where rows are packages: there each has its own, in `package`.
    pub(super) software: Option<Vec<Software>>,
    pub(super) warranty: Option<Warranty>,
    pub(super) backup: Option<BackupState>,
    /// Only with `rows=software`.
    pub(super) package: Option<Software>,
}

impl InventoryRow {
    pub(super) fn new(device: Device, sections: &[Section]) -> Self {
        let has = |section: Section| sections.contains(&section);
        let summary = has(Section::Summary);
        Self {
            id: device.id,
            name: device.name,
            organization: device.organization,
            external_id: device.external_id.filter(|_| summary),
            class: summary.then_some(device.class),
            lifecycle: summary.then_some(device.lifecycle),
            site: device.site.filter(|_| summary),
            owner: device.owner.filter(|_| summary),
            tags: summary.then_some(device.tags),
            custom_fields: summary.then_some(device.custom_fields),
            agent: summary.then_some(device.agent),
            health: summary.then_some(device.health),
            collected_at: summary.then_some(device.collected_at),
            created_at: summary.then_some(device.created_at),
            updated_at: summary.then_some(device.updated_at),
            version: summary.then_some(device.version),
            hardware: device.hardware.filter(|_| has(Section::Hardware)),
            os: device.os.filter(|_| has(Section::Os)),
            network: device.network.filter(|_| has(Section::Network)),
            security: device.security.filter(|_| has(Section::Security)),
            patch: device.patch.filter(|_| has(Section::Patch)),
            software: has(Section::Software).then_some(device.software),
            warranty: device.warranty.filter(|_| has(Section::Warranty)),
            backup: device.backup.filter(|_| has(Section::Backup)),
            package: None,
        }
    }
}

/// The rows of a page.
pub(super) fn rows(
    tx: &impl Read,
    labels: &mut Labels,
    page: InventoryPage,
    sections: &[Section],
) -> Result<Vec<InventoryRow>, StoreError> {
    let mut rows = Vec::with_capacity(page.hits.len());
    for Hit { device, status, packages } in page.hits {
        let organization = labels.organization(tx, device.organization_id)?;
        let owner = match device.owner_id {
            Some(id) => labels.person(tx, id)?,
            None => None,
        };
        let mut row = InventoryRow::new(Device::new(device, organization, owner, status), sections);
        let Some(packages) = packages else {
            rows.push(row);
            continue;
        };
        row.software = None;
        rows.extend(packages.into_iter().map(|package| InventoryRow { package: Some(package.into()), ..row.clone() }));
    }
    Ok(rows)
}

/// How many devices have a value.
#[skip_serializing_none]
#[derive(Clone, Debug, Object, Serialize)]
#[oai(skip_serializing_if_is_none)]
pub(crate) struct InventoryGroup {
    /// Of an organization its id; of an operating system's version its name and version. Absent for the devices that have none.
    pub(super) value: Option<String>,
    /// Of an organization.
    pub(super) name: Option<String>,
    pub(super) count: u64,
}

/// The devices of the report, counted by a field.
#[derive(Clone, Debug, Object, Serialize)]
pub(crate) struct InventoryGroups {
    pub(super) by: Field,
    /// The most frequent values first, at most 1,000. They and `others` make up `devices`, but for `software`: a device has many
    /// packages, and counts once for each name.
    pub(super) values: Vec<InventoryGroup>,
    /// Of the values that are not listed.
    pub(super) others: u64,
    /// All devices of the report.
    pub(super) devices: u64,
}

impl InventoryGroups {
    pub(super) fn new(by: Field, groups: tally::Groups) -> Self {
        let group = |tally::Group { value, name, count }| InventoryGroup { value, name, count };
        Self { by, values: groups.values.into_iter().map(group).collect(), others: groups.others, devices: groups.devices }
    }
}

/// What all devices of the report come to. Counts by a word have a place for every word that there is.
#[derive(Clone, Debug, Object, Serialize)]
pub(crate) struct InventoryTotals {
    /// How many devices there are.
    pub(super) devices: u64,
    /// How many organizations they belong to.
    pub(super) organizations: u64,
    /// Devices by class.
    pub(super) class: BTreeMap<String, u64>,
    /// Devices by lifecycle.
    pub(super) lifecycle: BTreeMap<String, u64>,
    /// Devices by the state of their agent.
    pub(super) agent_status: BTreeMap<String, u64>,
    /// Devices by health.
    pub(super) health: BTreeMap<String, u64>,
    /// Devices of whose updates nobody has told are `unknown`.
    pub(super) patch_status: BTreeMap<String, u64>,
    /// Devices of whose warranty nobody has told are `unknown`.
    pub(super) warranty_status: BTreeMap<String, u64>,
    /// The critical updates that are missing, of all devices together.
    pub(super) missing_critical_patches: u64,
    /// Devices that need to be started again.
    pub(super) reboot_required: u64,
    /// Devices that are to be backed up: in use, of a class that the backup settings name, and not switched off. As in the backup report.
    pub(super) backup_eligible: u64,
    /// Of these, devices with a restore point of the last 30 days.
    pub(super) protected: u64,
    /// Of these, devices without one.
    pub(super) unprotected: u64,
    /// Devices whose operating system its maker no longer supports.
    pub(super) os_past_eol: u64,
    /// Devices with a volume that is known not to be encrypted.
    pub(super) unencrypted: u64,
}

impl From<tally::Totals> for InventoryTotals {
    fn from(totals: tally::Totals) -> Self {
        let tally::Totals {
            devices,
            organizations,
            class,
            lifecycle,
            agent_status,
            health,
            patch_status,
            warranty_status,
            missing_critical_patches,
            reboot_required,
            backup_eligible,
            protected,
            unprotected,
            os_past_eol,
            unencrypted,
        } = totals;
        Self {
            devices,
            organizations,
            class,
            lifecycle,
            agent_status,
            health,
            patch_status,
            warranty_status,
            missing_critical_patches,
            reboot_required,
            backup_eligible,
            protected,
            unprotected,
            os_past_eol,
            unencrypted,
        }
    }
}

/// A page of rows; or the devices counted by a field; with totals where they were asked for.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, Object, Serialize)]
#[oai(skip_serializing_if_is_none, example)]
pub(crate) struct InventoryReport {
    /// Absent with `group_by`.
    pub(super) data: Option<Vec<InventoryRow>>,
    /// Absent with `group_by`.
    pub(super) page: Option<Page>,
    /// Only with `group_by`.
    pub(super) groups: Option<InventoryGroups>,
    /// Only with `summary=true`.
    pub(super) totals: Option<InventoryTotals>,
}
