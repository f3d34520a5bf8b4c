//! Devices. What every reader wants stands in front; the details behind it are one piece of bytes that only those take apart who
//! want all of the device.

use std::ops::Bound;

use serde::{Deserialize, Serialize};

use tenantd_base::{
    clock::Timestamp,
    id::{DeviceId, OrganizationId, TenantId, UserId},
};
use tenantd_store::{
    Counts, Direction, Flow, Index, Key, KeyRange, Read, StoreError, Table, WriteTx, catalog,
    codec::{self, Record},
};

use super::super::model::{Details, Device, DeviceClass, DeviceLabel, Health, Lifecycle};

pub(crate) type DeviceKey = (TenantId, DeviceId);

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct DeviceRecord {
    pub(super) name: String,
    pub(super) external_id: Option<String>,
    pub(super) class: DeviceClass,
    pub(super) lifecycle: Lifecycle,
    pub(super) organization_id: OrganizationId,
    pub(super) site: Option<String>,
    pub(super) owner_id: Option<UserId>,
    pub(super) agent_version: Option<String>,
    pub(super) last_seen_at: Option<Timestamp>,
    pub(super) health: Health,
    pub(super) collected_at: Timestamp,
    pub(super) created_at: Timestamp,
    pub(super) updated_at: Timestamp,
    pub(super) version: u64,
    #[serde(with = "codec::bytes")]
    pub(super) details: Vec<u8>,
}

impl Record for DeviceRecord {
    const VERSION: u8 = 1;
}

static BY_EXTERNAL_ID: Index<DeviceKey, DeviceRecord> = Index {
    table: catalog::DEVICES_BY_EXTERNAL_ID,
    unique: true,
    keys: |(tenant, _), device| device.external_id.iter().map(|id| (*tenant, id.clone()).to_bytes()).collect(),
};
pub(crate) static DEVICES: Table<DeviceKey, DeviceRecord> =
    Table::new(catalog::DEVICES, &[&BY_EXTERNAL_ID]).counting(Counts::Records);

/// A device as it is read: its details have not been taken apart, and most who look for devices need not.
#[derive(Debug)]
pub struct FoldedDevice {
    /// Its details are empty.
    pub device: Device,
    details: Vec<u8>,
}

impl FoldedDevice {
    fn new((tenant_id, id): DeviceKey, record: DeviceRecord) -> Self {
        let device = Device {
            id,
            tenant_id,
            external_id: record.external_id,
            name: record.name,
            class: record.class,
            lifecycle: record.lifecycle,
            organization_id: record.organization_id,
            site: record.site,
            owner_id: record.owner_id,
            agent_version: record.agent_version,
            last_seen_at: record.last_seen_at,
            health: record.health,
            collected_at: record.collected_at,
            details: Details::default(),
            created_at: record.created_at,
            updated_at: record.updated_at,
            version: record.version,
        };
        Self { device, details: record.details }
    }

    /// The whole device.
    pub fn unfold(self) -> Result<Device, StoreError> {
        let Self { mut device, details } = self;
        let key = (device.tenant_id, device.id);
        device.details = codec::decode_fields(&details)
            .map_err(|reason| StoreError::damaged(catalog::DEVICES.name(), &key.to_bytes(), reason))?;
        Ok(device)
    }
}

fn to_model(key: DeviceKey, record: DeviceRecord) -> Result<Device, StoreError> {
    FoldedDevice::new(key, record).unfold()
}

pub(crate) fn scan(
    tx: &impl Read,
    tenant: TenantId,
    from: Bound<DeviceId>,
    mut visit: impl FnMut(FoldedDevice) -> Result<Flow, StoreError>,
) -> Result<(), StoreError> {
    let mut range = KeyRange::prefix(&tenant.to_bytes());
    match from {
        Bound::Unbounded => {}
        bound => range.start = bound.map(|id| (tenant, id).to_bytes()),
    }
    DEVICES.scan(tx, &range, Direction::Forward, |key, record| visit(FoldedDevice::new(key, record)))
}

fn to_record(device: &Device) -> Result<DeviceRecord, StoreError> {
    Ok(DeviceRecord {
        name: device.name.clone(),
        external_id: device.external_id.clone(),
        class: device.class,
        lifecycle: device.lifecycle,
        organization_id: device.organization_id,
        site: device.site.clone(),
        owner_id: device.owner_id,
        agent_version: device.agent_version.clone(),
        last_seen_at: device.last_seen_at,
        health: device.health,
        collected_at: device.collected_at,
        created_at: device.created_at,
        updated_at: device.updated_at,
        version: device.version,
        details: codec::encode_fields(&device.details).map_err(StoreError::engine)?,
    })
}

pub(crate) fn get(tx: &impl Read, tenant: TenantId, id: DeviceId) -> Result<Option<Device>, StoreError> {
    let key = (tenant, id);
    DEVICES.get(tx, &key)?.map(|record| to_model(key, record)).transpose()
}

/// A device whose details are left empty.
pub(crate) fn outline(tx: &impl Read, tenant: TenantId, id: DeviceId) -> Result<Option<Device>, StoreError> {
    let key = (tenant, id);
    Ok(DEVICES.get(tx, &key)?.map(|record| FoldedDevice::new(key, record).device))
}

/// The name of a device, without a look at its details.
pub(crate) fn label(tx: &impl Read, tenant: TenantId, id: DeviceId) -> Result<Option<DeviceLabel>, StoreError> {
    let label = |record: DeviceRecord| DeviceLabel { id, name: record.name, organization_id: record.organization_id };
    Ok(DEVICES.get(tx, &(tenant, id))?.map(label))
}

pub(crate) fn find_external(tx: &impl Read, tenant: TenantId, external_id: &str) -> Result<Option<DeviceId>, StoreError> {
    Ok(BY_EXTERNAL_ID.find(tx, &(tenant, external_id.to_owned()).to_bytes())?.map(|(_, id)| id))
}

pub(crate) fn list_after(tx: &impl Read, after: Option<DeviceKey>, limit: usize) -> Result<Vec<Device>, StoreError> {
    let found = DEVICES.list_after(tx, after.as_ref(), limit)?;
    found.into_iter().map(|(key, record)| to_model(key, record)).collect()
}

/// Stores a device whose id was just made.
pub(crate) fn insert(tx: &mut WriteTx, device: &Device) -> Result<(), StoreError> {
    DEVICES.insert(tx, &(device.tenant_id, device.id), &to_record(device)?)
}

pub(crate) fn put(tx: &mut WriteTx, device: &Device) -> Result<(), StoreError> {
    DEVICES.put(tx, &(device.tenant_id, device.id), &to_record(device)?)
}

pub(crate) fn remove(tx: &mut WriteTx, key: DeviceKey) -> Result<(), StoreError> {
    DEVICES.remove(tx, &key).map(drop)
}

#[cfg(test)]
mod tests {
    use tenantd_store::codec::assert_golden;

    use super::*;
    use crate::model::{
        BackupState, Cpu, Disk, Hardware, Interface, Network, OperatingSystem, OsFamily, Patch, PatchStatus, Security, Software,
        Volume, Warranty, WarrantyStatus,
    };

    fn details(at: Timestamp) -> Details {
        Details {
            tags: vec!["vip".to_owned()],
            custom_fields: [("rack".to_owned(), "B7".to_owned())].into(),
            hardware: Some(Hardware {
                manufacturer: Some("Contoso".to_owned()),
                model: Some("T1".to_owned()),
                serial: Some("S-1".to_owned()),
                cpu: Some(Cpu { model: Some("C".to_owned()), cores: Some(8) }),
                memory_bytes: Some(1 << 34),
                disks: vec![Disk { model: Some("D".to_owned()), bytes: Some(1 << 40), kind: Some("ssd".to_owned()) }],
                volumes: vec![Volume { name: "C:".to_owned(), bytes: Some(9), free_bytes: Some(1), encrypted: Some(true) }],
            }),
            os: Some(OperatingSystem {
                family: OsFamily::Windows,
                name: Some("Windows 11".to_owned()),
                version: Some("24H2".to_owned()),
                build: Some("26100".to_owned()),
                reboot_required: Some(false),
                eol_at: Some(at),
                last_boot_at: Some(at),
            }),
            network: Some(Network {
                hostname: Some("pc-1".to_owned()),
                primary_ip: Some("192.0.2.1".to_owned()),
                public_ip: None,
                interfaces: vec![Interface {
                    name: Some("eth0".to_owned()),
                    mac: Some("02:00:00:00:00:01".to_owned()),
                    ips: vec!["192.0.2.1".to_owned()],
                }],
            }),
            security: Some(Security { antivirus: Some("AV".to_owned()), firewall: Some(true), disk_encryption: None }),
            patch: Some(Patch { status: PatchStatus::Pending, missing_critical: 1, missing_other: 2, last_scan_at: Some(at) }),
            software: vec![Software { name: "Editor".to_owned(), version: Some("1.2".to_owned()), publisher: None }],
            warranty: Some(Warranty { status: WarrantyStatus::ExpiringSoon, ends_at: Some(at) }),
            backup: Some(BackupState { protected: true, last_success_at: Some(at) }),
        }
    }

    #[test]
    fn the_stored_forms_are_those_that_were_written_down() {
        let at = Timestamp::from_millis(1_767_225_600_000);
        let device = Device {
            id: DeviceId::from_bytes([1; 16]),
            tenant_id: TenantId::from_bytes([2; 16]),
            external_id: Some("rmm-1".to_owned()),
            name: "PC 1".to_owned(),
            class: DeviceClass::Workstation,
            lifecycle: Lifecycle::InRepair,
            organization_id: OrganizationId::from_bytes([3; 16]),
            site: Some("Basel".to_owned()),
            owner_id: Some(UserId::from_bytes([4; 16])),
            agent_version: Some("5.1".to_owned()),
            last_seen_at: Some(at),
            health: Health::Healthy,
            collected_at: at,
            details: details(at),
            created_at: at,
            updated_at: at,
            version: 9,
        };
        let record = to_record(&device).unwrap();
        assert_golden("device", &record);
        assert_eq!(to_model((device.tenant_id, device.id), record).unwrap(), device);
    }
}
