//! The tables of devices. The fields that every reader needs come first; the details follow as one block of bytes, decoded only for
//! readers of the whole device. The backup state is in `backups.rs` and is added to the devices read here.

use std::ops::Bound;

use serde::{Deserialize, Serialize};

use tenantd_base::{
    clock::Timestamp,
    id::{DeviceId, TenantId},
};
use tenantd_store::{
    Counts, Direction, Flow, Index, Key, KeyRange, Read, StoreError, Table, WriteTx, catalog,
    codec::{self, Record},
};

use super::{
    super::model::{Details, Device, DeviceLabel},
    backups::{self, ReadAhead},
};

pub(crate) type DeviceKey = (TenantId, DeviceId);

/// Details that are not decoded yet. Most readers do not need them.
#[derive(Debug, Serialize, Deserialize)]
pub struct FoldedDetails {
    #[serde(with = "codec::bytes")]
    bytes: Vec<u8>,
    /// Whether they come from a record of version 1. They are not stored again in that form.
    #[serde(skip)]
    is_old: bool,
}

/// The details of version 1, which end with a reported backup state. Jobs determine that state now.
type OldDetails = (Details, Option<(bool, Option<Timestamp>)>);

impl FoldedDetails {
    /// The size of the stored details in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }
}

/// A device in its stored form.
pub type FoldedDevice = Device<FoldedDetails>;

impl Record for FoldedDevice {
    const VERSION: u8 = 2;

    fn upgrade(version: u8, fields: &[u8]) -> Result<Self, String> {
        if version != 1 {
            return Err(format!("this release does not know format version {version}"));
        }
        let mut device: Self = codec::decode_fields(fields)?;
        device.details.is_old = true;
        Ok(device)
    }

    fn take_key(&mut self, key: &[u8]) -> Option<()> {
        (self.tenant_id, self.id) = Key::from_bytes(key)?;
        Some(())
    }
}

impl FoldedDevice {
    pub(super) fn fold(device: &Device) -> Result<Self, StoreError> {
        let bytes = codec::encode_fields(&device.details).map_err(StoreError::engine)?;
        Ok(device.with_details(FoldedDetails { bytes, is_old: false }))
    }

    /// Decodes the details.
    pub fn unfold(&self) -> Result<Device, StoreError> {
        let key = (self.tenant_id, self.id);
        let FoldedDetails { bytes, is_old } = &self.details;
        let details = if *is_old {
            codec::decode_fields::<OldDetails>(bytes).map(|(details, _)| details)
        } else {
            codec::decode_fields(bytes)
        };
        let details = details.map_err(|reason| StoreError::damaged(catalog::DEVICES.name(), &key.to_bytes(), reason))?;
        Ok(self.with_details(details))
    }

    fn with_backup(mut self, tx: &impl Read) -> Result<Self, StoreError> {
        self.backup = backups::get(tx, (self.tenant_id, self.id))?;
        Ok(self)
    }
}

static BY_EXTERNAL_ID: Index<DeviceKey, FoldedDevice> = Index {
    table: catalog::DEVICES_BY_EXTERNAL_ID,
    unique: true,
    keys: |(tenant, _), device| device.external_id.iter().map(|id| (*tenant, id.clone()).to_bytes()).collect(),
};
pub(crate) static DEVICES: Table<DeviceKey, FoldedDevice> =
    Table::new(catalog::DEVICES, &[&BY_EXTERNAL_ID]).counting(Counts::Records);

pub(crate) fn scan(
    tx: &impl Read,
    tenant: TenantId,
    from: Bound<DeviceId>,
    visit: impl FnMut(FoldedDevice) -> Result<Flow, StoreError>,
) -> Result<(), StoreError> {
    let mut range = KeyRange::prefix(&tenant.to_bytes());
    match from {
        Bound::Unbounded => {}
        bound => range.start = bound.map(|id| (tenant, id).to_bytes()),
    }
    walk(tx, &range, Direction::Forward, visit)
}

/// Visits the devices in a key range, each with its backup state.
pub(crate) fn walk(
    tx: &impl Read,
    range: &KeyRange,
    direction: Direction,
    mut visit: impl FnMut(FoldedDevice) -> Result<Flow, StoreError>,
) -> Result<(), StoreError> {
    let mut backups = ReadAhead::default();
    DEVICES.scan(tx, range, direction, |key, mut device| {
        device.backup = match direction {
            Direction::Forward => backups.get(tx, key)?,
            Direction::Backward => backups::get(tx, key)?,
        };
        visit(device)
    })
}

pub(crate) fn get(tx: &impl Read, tenant: TenantId, id: DeviceId) -> Result<Option<Device>, StoreError> {
    DEVICES.get(tx, &(tenant, id))?.map(|device| device.with_backup(tx)?.unfold()).transpose()
}

pub(crate) fn folded(tx: &impl Read, tenant: TenantId, id: DeviceId) -> Result<Option<FoldedDevice>, StoreError> {
    DEVICES.get(tx, &(tenant, id))?.map(|device| device.with_backup(tx)).transpose()
}

/// A device with empty details and without its backup state.
pub(crate) fn outline(tx: &impl Read, tenant: TenantId, id: DeviceId) -> Result<Option<Device>, StoreError> {
    Ok(DEVICES.get(tx, &(tenant, id))?.map(|device| device.with_details(Details::default())))
}

/// The name of a device, without decoding its details.
pub(crate) fn label(tx: &impl Read, tenant: TenantId, id: DeviceId) -> Result<Option<DeviceLabel>, StoreError> {
    let label = |device: FoldedDevice| DeviceLabel { id, name: device.name, organization_id: device.organization_id };
    Ok(DEVICES.get(tx, &(tenant, id))?.map(label))
}

pub(crate) fn find_external(tx: &impl Read, tenant: TenantId, external_id: &str) -> Result<Option<DeviceId>, StoreError> {
    Ok(BY_EXTERNAL_ID.find(tx, &(tenant, external_id.to_owned()).to_bytes())?.map(|(_, id)| id))
}

pub(crate) fn list_after(tx: &impl Read, after: Option<DeviceKey>, limit: usize) -> Result<Vec<Device>, StoreError> {
    let found = DEVICES.list_after(tx, after.as_ref(), limit)?;
    found.into_iter().map(|(_, device)| device.with_backup(tx)?.unfold()).collect()
}

/// Stores a device with a newly generated ID.
pub(crate) fn insert(tx: &mut WriteTx, device: &Device) -> Result<(), StoreError> {
    DEVICES.insert(tx, &(device.tenant_id, device.id), &FoldedDevice::fold(device)?)
}

pub(crate) fn put(tx: &mut WriteTx, device: &Device) -> Result<(), StoreError> {
    DEVICES.put(tx, &(device.tenant_id, device.id), &FoldedDevice::fold(device)?)
}

pub(crate) fn remove(tx: &mut WriteTx, key: DeviceKey) -> Result<(), StoreError> {
    DEVICES.remove(tx, &key)?;
    backups::remove(tx, key)
}

#[cfg(test)]
mod tests {
    use tenantd_base::id::{OrganizationId, UserId};
    use tenantd_store::codec::assert_golden;

    use super::*;
    use crate::model::{
        Cpu, DeviceClass, Disk, Hardware, Health, Interface, Lifecycle, Network, OperatingSystem, OsFamily, Patch, PatchStatus,
        Security, Software, Volume, Warranty, WarrantyStatus,
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
        }
    }

    #[test]
    fn stored_records_match_the_golden_files() {
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
            backup: None,
        };
        let folded = FoldedDevice::fold(&device).unwrap();
        assert_golden("device", &folded);
        assert_eq!(folded.unfold().unwrap(), device);
        let reported: OldDetails = (details(at), Some((true, Some(at))));
        let old = FoldedDetails { bytes: codec::encode_fields(&reported).unwrap(), is_old: true };
        let fields = codec::encode_fields(&device.with_details(old)).unwrap();
        let mut upgraded = FoldedDevice::upgrade(1, &fields).unwrap();
        (upgraded.tenant_id, upgraded.id) = (device.tenant_id, device.id);
        assert_eq!(upgraded.unfold().unwrap(), device, "the old backup state is dropped");
    }
}
