//! Counts over all devices of a report: by the values of one field, and summary totals. The counts are exact; each device is
//! visited once.

use std::collections::{BTreeMap, HashMap, HashSet};

use tenantd_base::{id::OrganizationId, vocabulary::vocabulary};
use tenantd_directory::{
    AgentStatus, Device, DeviceClass, Health, Lifecycle, PatchStatus, WarrantyStatus,
    devices::{DeviceQuery, Labels, patch_status, reboot_required, warranty_status},
};
use tenantd_store::{Read, StoreError};

use super::listing;

/// How many values are counted separately. Devices with further values are counted together.
const MAX_VALUES: usize = 50_000;

vocabulary! {
    /// The field that devices are counted by.
    Field:
    Organization "organization", Class "class", Os "os", OsVersion "os_version", Manufacturer "manufacturer", Model "model",
    AgentStatus "agent_status", PatchStatus "patch_status", WarrantyStatus "warranty_status", Software "software",
}

/// The number of devices with a value.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Group {
    /// `None` for devices without a value.
    pub(super) value: Option<String>,
    /// The name of the organization, if the field is the organization.
    pub(super) name: Option<String>,
    pub(super) count: u64,
}

#[derive(Debug, Default)]
pub(super) struct Groups {
    /// The most frequent first.
    pub(super) values: Vec<Group>,
    /// The count of all values without a group of their own.
    pub(super) others: u64,
    pub(super) devices: u64,
}

/// Returns the values that a device counts for. Every field except software has exactly one.
fn values(query: &DeviceQuery, device: &Device, status: AgentStatus, field: Field) -> Vec<Option<String>> {
    let details = &device.details;
    let (os, hardware) = (details.os.as_ref(), details.hardware.as_ref());
    let one = match field {
        Field::Software => {
            let mut names: Vec<Option<String>> = query.packages(device).into_iter().map(|package| Some(package.name)).collect();
            // A device can have two versions of the same package.
            names.dedup();
            return names;
        }
        Field::Organization => Some(device.organization_id.to_string()),
        Field::Class => Some(device.class.name().to_owned()),
        Field::Os => os.and_then(|os| os.name.clone()),
        Field::OsVersion => os.and_then(|os| {
            let parts: Vec<&str> = os.name.iter().chain(&os.version).map(String::as_str).collect();
            (!parts.is_empty()).then(|| parts.join(" "))
        }),
        Field::Manufacturer => hardware.and_then(|hardware| hardware.manufacturer.clone()),
        Field::Model => hardware.and_then(|hardware| hardware.model.clone()),
        Field::AgentStatus => Some(status.name().to_owned()),
        Field::PatchStatus => Some(patch_status(details).name().to_owned()),
        Field::WarrantyStatus => Some(warranty_status(details).name().to_owned()),
    };
    vec![one]
}

/// Counts the devices of the report by a field. Returns at most `limit` values.
pub(super) fn group(
    tx: &impl Read,
    query: &DeviceQuery,
    labels: &mut Labels,
    field: Field,
    limit: usize,
) -> Result<Groups, StoreError> {
    let mut counts: HashMap<Option<String>, u64> = HashMap::new();
    let mut groups = Groups::default();
    listing::visit_all(tx, query, labels, |device, status| {
        groups.devices += 1;
        for value in values(query, device, status, field) {
            if let Some(count) = counts.get_mut(&value) {
                *count += 1;
            } else if counts.len() < MAX_VALUES {
                counts.insert(value, 1);
            } else {
                groups.others += 1;
            }
        }
    })?;
    let mut counted: Vec<(Option<String>, u64)> = counts.into_iter().collect();
    counted.sort_by(|left, right| right.1.cmp(&left.1).then_with(|| left.0.cmp(&right.0)));
    groups.others += counted.iter().skip(limit).map(|(_, count)| count).sum::<u64>();
    for (value, count) in counted.into_iter().take(limit) {
        let organization: Option<OrganizationId> = match field {
            Field::Organization => value.as_deref().and_then(|id| id.parse().ok()),
            _ => None,
        };
        let name = organization.map(|id| labels.organization(tx, id)).transpose()?.map(|label| label.name);
        groups.values.push(Group { value, name, count });
    }
    Ok(groups)
}

/// Counts by enum word, including words with count 0.
pub(super) type WordCounts = BTreeMap<String, u64>;

fn zero_counts(names: &[&str]) -> WordCounts {
    names.iter().map(|name| ((*name).to_owned(), 0)).collect()
}

fn count(counts: &mut WordCounts, name: &str) {
    *counts.entry(name.to_owned()).or_default() += 1;
}

#[derive(Debug)]
pub(super) struct Totals {
    pub(super) devices: u64,
    pub(super) organizations: u64,
    pub(super) class: WordCounts,
    pub(super) lifecycle: WordCounts,
    pub(super) agent_status: WordCounts,
    pub(super) health: WordCounts,
    pub(super) patch_status: WordCounts,
    pub(super) warranty_status: WordCounts,
    pub(super) missing_critical_patches: u64,
    pub(super) reboot_required: u64,
    pub(super) backup_eligible: u64,
    pub(super) protected: u64,
    pub(super) unprotected: u64,
    pub(super) os_past_eol: u64,
    pub(super) unencrypted: u64,
}

pub(super) fn totals(tx: &impl Read, query: &DeviceQuery, labels: &mut Labels) -> Result<Totals, StoreError> {
    let mut totals = Totals {
        devices: 0,
        organizations: 0,
        class: zero_counts(DeviceClass::NAMES),
        lifecycle: zero_counts(Lifecycle::NAMES),
        agent_status: zero_counts(AgentStatus::NAMES),
        health: zero_counts(Health::NAMES),
        patch_status: zero_counts(PatchStatus::NAMES),
        warranty_status: zero_counts(WarrantyStatus::NAMES),
        missing_critical_patches: 0,
        reboot_required: 0,
        backup_eligible: 0,
        protected: 0,
        unprotected: 0,
        os_past_eol: 0,
        unencrypted: 0,
    };
    let mut organizations = HashSet::new();
    listing::visit_all(tx, query, labels, |device, status| {
        let details = &device.details;
        organizations.insert(device.organization_id);
        totals.devices += 1;
        count(&mut totals.class, device.class.name());
        count(&mut totals.lifecycle, device.lifecycle.name());
        count(&mut totals.agent_status, status.name());
        count(&mut totals.health, device.health.name());
        count(&mut totals.patch_status, patch_status(details).name());
        count(&mut totals.warranty_status, warranty_status(details).name());
        totals.missing_critical_patches += details.patch.as_ref().map_or(0, |patch| u64::from(patch.missing_critical));
        totals.reboot_required += u64::from(reboot_required(details));
        if let Some(backup) = device.backup.filter(|backup| backup.eligible) {
            totals.backup_eligible += 1;
            totals.protected += u64::from(backup.protected);
            totals.unprotected += u64::from(!backup.protected);
        }
        let eol = details.os.as_ref().and_then(|os| os.eol_at);
        totals.os_past_eol += u64::from(eol.is_some_and(|eol| eol <= query.now));
        let mut volumes = details.hardware.iter().flat_map(|hardware| &hardware.volumes);
        totals.unencrypted += u64::from(volumes.any(|volume| volume.encrypted == Some(false)));
    })?;
    totals.organizations = organizations.len() as u64;
    Ok(totals)
}

/// Returns the total number of rows of a report.
pub(super) fn rows(tx: &impl Read, query: &DeviceQuery, labels: &mut Labels, kind: listing::RowKind) -> Result<u64, StoreError> {
    let mut total = 0;
    listing::visit_all(tx, query, labels, |device, _| {
        total += match kind {
            listing::RowKind::Device => 1,
            listing::RowKind::Package => query.packages(device).len() as u64,
        };
    })?;
    Ok(total)
}
