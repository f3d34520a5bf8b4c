//! Wire types of a report: rows, groups and totals.

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

/// A device with the requested sections. With `rows=software`, also one of its packages. A field is absent if its section was not
/// requested or if the value is unknown.
#[skip_serializing_none]
#[derive(Clone, Debug, Object, Serialize)]
#[oai(skip_serializing_if_is_none, example)]
pub(crate) struct InventoryRow {
    /// The id of the device.
    pub(super) id: DeviceId,
    /// The name of the device.
    pub(super) name: String,
    /// The organization that the device belongs to.
    pub(super) organization: OrganizationReference,
    /// The id in the system that the device comes from. This and all fields up to `version` belong to the section `summary`.
    pub(super) external_id: Option<String>,
    /// The class of the device, such as `server`.
    pub(super) class: Option<Word<DeviceClass>>,
    /// The lifecycle state of the device, such as `active` or `retired`.
    pub(super) lifecycle: Option<Word<Lifecycle>>,
    /// The location of the device.
    pub(super) site: Option<String>,
    /// The person who owns the device.
    pub(super) owner: Option<PersonReference>,
    /// The tags of the device.
    pub(super) tags: Option<Vec<String>>,
    /// Fields that you define.
    pub(super) custom_fields: Option<BTreeMap<String, String>>,
    /// The agent on the device, and its state at the time of the report.
    pub(super) agent: Option<Agent>,
    /// The health of the device.
    pub(super) health: Option<Word<Health>>,
    /// When the data about the device was collected.
    pub(super) collected_at: Option<Timestamp>,
    /// When the record was created.
    pub(super) created_at: Option<Timestamp>,
    /// When the record was last changed.
    pub(super) updated_at: Option<Timestamp>,
    /// The version of the record. Each change increases it by 1.
    pub(super) version: Option<u64>,
    /// The section `hardware`.
    pub(super) hardware: Option<Hardware>,
    /// The section `os`.
    pub(super) os: Option<OperatingSystem>,
    /// The section `network`.
    pub(super) network: Option<Network>,
    /// The section `security`.
    pub(super) security: Option<Security>,
    /// The section `patch`.
    pub(super) patch: Option<Patch>,
    /// The section `software`. Absent with `rows=software`, where each row has its own `package`.
    pub(super) software: Option<Vec<Software>>,
    /// The section `warranty`.
    pub(super) warranty: Option<Warranty>,
    /// The section `backup`.
    pub(super) backup: Option<BackupState>,
    /// The package of this row. Present only with `rows=software`.
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

/// Returns the rows of a page.
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

/// The number of devices with a value.
#[skip_serializing_none]
#[derive(Clone, Debug, Object, Serialize)]
#[oai(skip_serializing_if_is_none)]
pub(crate) struct InventoryGroup {
    /// The value of the field. For an organization, its id; for `os_version`, name and version of the operating system. Absent for
    /// devices without a value.
    pub(super) value: Option<String>,
    /// The name of the organization. Absent for other fields.
    pub(super) name: Option<String>,
    /// The number of devices with this value.
    pub(super) count: u64,
}

/// The devices of the report, counted by a field.
#[derive(Clone, Debug, Object, Serialize)]
pub(crate) struct InventoryGroups {
    /// The field that the devices are counted by.
    pub(super) by: Field,
    /// The most frequent values first, at most 1,000. Together with `others` they add up to `devices`, except for `software`: a
    /// device counts once for each package name.
    pub(super) values: Vec<InventoryGroup>,
    /// The count for all values that are not listed.
    pub(super) others: u64,
    /// The number of devices in the report.
    pub(super) devices: u64,
}

impl InventoryGroups {
    pub(super) fn new(by: Field, groups: tally::Groups) -> Self {
        let group = |tally::Group { value, name, count }| InventoryGroup { value, name, count };
        Self { by, values: groups.values.into_iter().map(group).collect(), others: groups.others, devices: groups.devices }
    }
}

/// Totals over all devices of the report. Counts by class, lifecycle, status and health list every possible value, including 0.
#[derive(Clone, Debug, Object, Serialize)]
pub(crate) struct InventoryTotals {
    /// The number of devices.
    pub(super) devices: u64,
    /// The number of organizations that they belong to.
    pub(super) organizations: u64,
    /// Devices by class.
    pub(super) class: BTreeMap<String, u64>,
    /// Devices by lifecycle.
    pub(super) lifecycle: BTreeMap<String, u64>,
    /// Devices by the state of their agent.
    pub(super) agent_status: BTreeMap<String, u64>,
    /// Devices by health.
    pub(super) health: BTreeMap<String, u64>,
    /// Devices by update status. `unknown`: no update status was reported.
    pub(super) patch_status: BTreeMap<String, u64>,
    /// Devices by warranty status. `unknown`: no warranty was reported.
    pub(super) warranty_status: BTreeMap<String, u64>,
    /// The number of missing critical updates on all devices together.
    pub(super) missing_critical_patches: u64,
    /// Devices that need a restart.
    pub(super) reboot_required: u64,
    /// Devices that should be backed up: in use, of a class that the backup settings include, with backups enabled. Matches the
    /// backup report.
    pub(super) backup_eligible: u64,
    /// Devices of `backup_eligible` with a restore point from the last 30 days.
    pub(super) protected: u64,
    /// Devices of `backup_eligible` without such a restore point.
    pub(super) unprotected: u64,
    /// Devices whose operating system is no longer supported by its vendor.
    pub(super) os_past_eol: u64,
    /// Devices with a volume that is known to be unencrypted.
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

/// A page of rows, or the devices counted by a field, with totals if requested.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, Object, Serialize)]
#[oai(skip_serializing_if_is_none, example)]
pub(crate) struct InventoryReport {
    /// The rows of this page. Absent with `group_by`.
    pub(super) data: Option<Vec<InventoryRow>>,
    /// The position of this page in the report. Absent with `group_by`.
    pub(super) page: Option<Page>,
    /// The counts by field. Present only with `group_by`.
    pub(super) groups: Option<InventoryGroups>,
    /// The totals over all matching devices. Present only with `summary=true`.
    pub(super) totals: Option<InventoryTotals>,
}
