//! Creates, changes and removes devices. A transaction of an import contains hundreds of these operations, so each looks up only
//! what it must and reuses the labels that the caller already has.

use serde_json::value::RawValue;

use tenantd_base::{
    access::{Grants, Reach, Scope},
    clock::Timestamp,
    id::{DeviceId, TenantId},
    versions::ExpectedVersion,
};
use tenantd_store::{
    Read, WriteTx,
    events::{Act, Describe, EventKind},
};

use super::{
    super::{
        error::DirectoryError,
        model::{Device, DeviceChange, OrganizationLabel, PersonLabel, check_custom_fields},
        repo::{devices as repo, organizations},
    },
    Directory, LabelCache, announce,
};

pub(crate) static DEVICE_CREATED: EventKind = EventKind {
    name: "device.created",
    summary: "A device was created.",
    subject: "device",
    schema: "Device",
    reads: Grants::of(&[Scope::InventoryRead]),
    has_changes: false,
};
pub(crate) static DEVICE_UPDATED: EventKind =
    EventKind { name: "device.updated", summary: "A device was changed.", ..DEVICE_CREATED };
pub(crate) static DEVICE_REMOVED: EventKind =
    EventKind { name: "device.removed", summary: "A device was removed.", ..DEVICE_CREATED };

/// The names of the records to which a device refers.
#[derive(Clone, Debug)]
pub(crate) struct DeviceLabels {
    pub(crate) organization: OrganizationLabel,
    pub(crate) owner: Option<PersonLabel>,
}

impl DeviceLabels {
    pub(crate) fn find(tx: &impl Read, device: &Device, act: &Act) -> Result<Self, DirectoryError> {
        let organization = super::super::organization(tx, act.tenant_id, device.organization_id)?;
        let organization = organization.filter(|found| act.reach.covers(Some(found.id)));
        let organization = organization.ok_or(DirectoryError::UnknownOrganization);
        let owner = match device.owner_id {
            Some(id) => {
                let owner = super::super::person(tx, act.tenant_id, id)?;
                let owner = owner.filter(|owner| act.reach.covers(owner.organization_id));
                owner.ok_or(DirectoryError::UnknownOwner).map(Some)
            }
            None => Ok(None),
        };
        let (organization, owner) = DirectoryError::both(organization, owner)?;
        Ok(Self { organization, owner })
    }
}

impl Directory {
    /// Stores a new device. The directory sets its ID, its tenant and the times of the record.
    pub fn create_device(&self, tx: &mut WriteTx, act: &mut Act, new: Device) -> Result<Device, DirectoryError> {
        let custom_fields = check_custom_fields(&new.details.custom_fields).map_err(DirectoryError::from);
        let (labels, ()) = DirectoryError::both(DeviceLabels::find(tx, &new, act), custom_fields)?;
        check_external_id(tx, act, new.external_id.as_deref(), None)?;
        self.insert_device(tx, act, new, &labels)
    }

    pub(crate) fn update_device(
        &self,
        tx: &mut WriteTx,
        act: &mut Act,
        id: DeviceId,
        expected: &ExpectedVersion,
        change: &DeviceChange,
    ) -> Result<Device, DirectoryError> {
        let before = find_device(tx, act.tenant_id, &act.reach, id)?;
        expected.check(before.version)?;
        let labels = Self::changed_labels(tx, act, &mut LabelCache::default(), Some(&before), change)?;
        if !act.reach.covers(Some(labels.organization.id)) {
            return Err(DirectoryError::UnknownOrganization);
        }
        let after = change.apply(before.clone(), labels.organization.id, labels.owner.as_ref().map(|owner| owner.id))?;
        if after.external_id != before.external_id {
            check_external_id(tx, act, after.external_id.as_deref(), Some(id))?;
        }
        Ok(self.change_device(tx, act, &before, after, &labels)?.unwrap_or(before))
    }

    /// Stores a device that is known to be new.
    pub(crate) fn insert_device(
        &self,
        tx: &mut WriteTx,
        act: &mut Act,
        new: Device,
        labels: &DeviceLabels,
    ) -> Result<Device, DirectoryError> {
        let device = Device {
            id: DeviceId::new(act.now, &mut act.entropy),
            tenant_id: act.tenant_id,
            created_at: act.now,
            updated_at: act.now,
            version: 1,
            ..new
        };
        repo::insert(tx, &device)?;
        let organization = Some(device.organization_id);
        organizations::move_member(tx, act.tenant_id, None, organization, |members| &mut members.devices)?;
        self.announce_device(tx, act, &DEVICE_CREATED, &device, labels)?;
        Ok(device)
    }

    /// Stores the changes in `after`. Returns `None` if nothing differs.
    pub(crate) fn change_device(
        &self,
        tx: &mut WriteTx,
        act: &mut Act,
        before: &Device,
        mut after: Device,
        labels: &DeviceLabels,
    ) -> Result<Option<Device>, DirectoryError> {
        if after == *before {
            return Ok(None);
        }
        after.updated_at = act.now;
        after.version += 1;
        repo::put(tx, &after)?;
        let (from, to) = (Some(before.organization_id), Some(after.organization_id));
        organizations::move_member(tx, act.tenant_id, from, to, |members| &mut members.devices)?;
        self.announce_device(tx, act, &DEVICE_UPDATED, &after, labels)?;
        Ok(Some(after))
    }

    pub fn remove_device(&self, tx: &mut WriteTx, act: &mut Act, id: DeviceId) -> Result<(), DirectoryError> {
        let device = repo::get(tx, act.tenant_id, id)?.ok_or(DirectoryError::NotFound)?;
        let shown = self.show_device(tx, &device, act.now)?;
        repo::remove(tx, (act.tenant_id, id))?;
        let organization = Some(device.organization_id);
        organizations::move_member(tx, act.tenant_id, organization, None, |members| &mut members.devices)?;
        announce(tx, act, &DEVICE_REMOVED, (id.to_string(), device.version), &shown, None)
    }

    /// The wire form of the device, for events and responses. A deleted owner is left out.
    pub fn show_device(&self, tx: &impl Read, device: &Device, now: Timestamp) -> Result<Box<RawValue>, DirectoryError> {
        let (organization, owner) = device_labels(tx, device)?;
        let status = self.agents.status(device.last_seen_at, now);
        Ok(device.describe((&organization, owner.as_ref(), status))?)
    }

    fn announce_device(
        &self,
        tx: &mut WriteTx,
        act: &mut Act,
        kind: &'static EventKind,
        device: &Device,
        labels: &DeviceLabels,
    ) -> Result<(), DirectoryError> {
        let status = self.agents.status(device.last_seen_at, act.now);
        let shown = device.describe((&labels.organization, labels.owner.as_ref(), status))?;
        announce(tx, act, kind, (device.id.to_string(), device.version), &shown, None)
    }
}

/// The names of the records to which a stored device refers. A deleted owner is left out.
pub(crate) fn device_labels(tx: &impl Read, device: &Device) -> Result<(OrganizationLabel, Option<PersonLabel>), DirectoryError> {
    let organization = super::super::organization(tx, device.tenant_id, device.organization_id)?;
    let owner = match device.owner_id {
        Some(id) => super::super::person(tx, device.tenant_id, id)?,
        None => None,
    };
    Ok((organization.ok_or(DirectoryError::UnknownOrganization)?, owner))
}

/// The device, if it is within reach.
pub(crate) fn find_device(tx: &impl Read, tenant: TenantId, reach: &Reach, id: DeviceId) -> Result<Device, DirectoryError> {
    let found = repo::get(tx, tenant, id)?.filter(|device| reach.covers(Some(device.organization_id)));
    found.ok_or(DirectoryError::NotFound)
}

/// Checks that no other device has this external ID.
fn check_external_id(tx: &impl Read, act: &Act, external_id: Option<&str>, own: Option<DeviceId>) -> Result<(), DirectoryError> {
    let Some(external_id) = external_id else { return Ok(()) };
    match repo::find_external(tx, act.tenant_id, external_id)? {
        Some(id) if Some(id) != own => Err(DirectoryError::ExternalIdTaken),
        _ => Ok(()),
    }
}
