//! Rows, groups and totals of a report as clients see them.

use std::collections::BTreeMap;

use poem_openapi::Object;
use serde::Serialize;

use super::{
    super::{
        labels::Labels,
        listing::{Hit, InventoryPage},
        tally,
    },
    filters::{GroupBy, Section},
};
use crate::{
    kernel::{
        clock::Timestamp,
        http::page::Page,
        id::DeviceId,
        store::{Read, StoreError},
    },
    slices::directory::{
        OrganizationReference, PersonReference,
        view::{
            Agent, BackupState, Device, DeviceClass, Hardware, Health, Lifecycle, Network, OperatingSystem, Patch, Security,
            Software, Warranty,
        },
    },
};

/// A device, with the sections that were asked for; and of a report whose rows are packages, one of its packages.
#[derive(Clone, Debug, Object, Serialize)]
#[oai(skip_serializing_if_is_none, example)]
pub(in super::super) struct InventoryRow {
    pub(super) id: DeviceId,
    pub(super) name: String,
    pub(super) organization: OrganizationReference,
    /// Of the section `summary`, as all up to `version`: the id in the system that the device comes from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) external_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) class: Option<DeviceClass>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) lifecycle: Option<Lifecycle>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) site: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) owner: Option<PersonReference>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) tags: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) custom_fields: Option<BTreeMap<String, String>>,
    /// What the agent is doing at the moment of the report.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) agent: Option<Agent>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) health: Option<Health>,
    /// When what is known of the device was found out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) collected_at: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) created_at: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) updated_at: Option<Timestamp>,
    /// Counts the changes of the record.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) version: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) hardware: Option<Hardware>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) os: Option<OperatingSystem>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) network: Option<Network>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) security: Option<Security>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) patch: Option<Patch>,
    /// Not where rows are packages: there each has its own, in `package`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) software: Option<Vec<Software>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) warranty: Option<Warranty>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) backup: Option<BackupState>,
    /// Only with `rows=software`.
    #[serde(skip_serializing_if = "Option::is_none")]
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
#[derive(Clone, Debug, Object, Serialize)]
#[oai(skip_serializing_if_is_none)]
pub(in super::super) struct InventoryGroup {
    /// Of an organization its id; of an operating system's version its name and version. Absent for the devices that have none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) value: Option<String>,
    /// Of an organization.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) name: Option<String>,
    pub(super) count: u64,
}

/// The devices of the report, counted by a field.
#[derive(Clone, Debug, Object, Serialize)]
pub(in super::super) struct InventoryGroups {
    pub(super) by: GroupBy,
    /// The most frequent values first, at most 1,000. They and `others` make up `devices`, but for `software`: a device has many
    /// packages, and counts once for each name.
    pub(super) values: Vec<InventoryGroup>,
    /// Of the values that are not listed.
    pub(super) others: u64,
    /// All devices of the report.
    pub(super) devices: u64,
}

impl InventoryGroups {
    pub(super) fn new(by: GroupBy, groups: tally::Groups) -> Self {
        let group = |tally::Group { value, name, count }| InventoryGroup { value, name, count };
        Self { by, values: groups.values.into_iter().map(group).collect(), others: groups.others, devices: groups.devices }
    }
}

/// What all devices of the report come to. Counts by a word have a place for every word that there is.
#[derive(Clone, Debug, Object, Serialize)]
pub(in super::super) struct InventoryTotals {
    pub(super) devices: u64,
    /// How many organizations they belong to.
    pub(super) organizations: u64,
    pub(super) class: BTreeMap<String, u64>,
    pub(super) lifecycle: BTreeMap<String, u64>,
    pub(super) agent_status: BTreeMap<String, u64>,
    pub(super) health: BTreeMap<String, u64>,
    /// Devices of whose updates nobody has told are `unknown`.
    pub(super) patch_status: BTreeMap<String, u64>,
    /// Devices of whose warranty nobody has told are `unknown`.
    pub(super) warranty_status: BTreeMap<String, u64>,
    /// The critical updates that are missing, of all devices together.
    pub(super) missing_critical_patches: u64,
    /// Devices that need to be started again.
    pub(super) reboot_required: u64,
    /// Devices that are not backed up, or of which nobody has told that they are.
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
            unprotected,
            os_past_eol,
            unencrypted,
        }
    }
}

/// A page of rows; or the devices counted by a field; with totals where they were asked for.
#[derive(Clone, Debug, Default, Object, Serialize)]
#[oai(skip_serializing_if_is_none, example)]
pub(in super::super) struct InventoryReport {
    /// Absent with `group_by`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) data: Option<Vec<InventoryRow>>,
    /// Absent with `group_by`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) page: Option<Page>,
    /// Only with `group_by`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) groups: Option<InventoryGroups>,
    /// Only with `summary=true`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) totals: Option<InventoryTotals>,
}
