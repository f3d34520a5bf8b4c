//! The directory's records as they leave for another installation and arrive there. A device is written with its details taken apart.

use serde::{Deserialize, Serialize};

use super::{
    super::model::{Details, DeviceClass, Health, Lifecycle},
    devices::{DEVICES, DeviceRecord},
    organizations::{MEMBERS, ORGANIZATIONS},
    users::USERS,
};
use crate::kernel::{
    clock::Timestamp,
    id::{OrganizationId, UserId},
    portable::{Carrier, PortError, Portable},
    store::codec,
};

/// A device as it is written in a line.
#[derive(Debug, Serialize, Deserialize)]
struct DeviceForm {
    name: String,
    external_id: Option<String>,
    class: DeviceClass,
    lifecycle: Lifecycle,
    organization_id: OrganizationId,
    site: Option<String>,
    owner_id: Option<UserId>,
    agent_version: Option<String>,
    last_seen_at: Option<Timestamp>,
    health: Health,
    collected_at: Timestamp,
    created_at: Timestamp,
    updated_at: Timestamp,
    version: u64,
    details: Details,
}

impl DeviceForm {
    fn new(record: DeviceRecord) -> Result<Self, PortError> {
        Ok(Self {
            details: codec::decode_fields(&record.details).map_err(PortError::Wrong)?,
            name: record.name,
            external_id: record.external_id,
            class: record.class,
            lifecycle: record.lifecycle,
            organization_id: record.organization_id,
            site: record.site,
            owner_id: record.owner_id,
            agent_version: record.agent_version,
            last_seen_at: record.last_seen_at,
            health: record.health,
            collected_at: record.collected_at,
            created_at: record.created_at,
            updated_at: record.updated_at,
            version: record.version,
        })
    }

    fn record(self) -> Result<DeviceRecord, PortError> {
        Ok(DeviceRecord {
            details: codec::encode_fields(&self.details).map_err(PortError::Wrong)?,
            name: self.name,
            external_id: self.external_id,
            class: self.class,
            lifecycle: self.lifecycle,
            organization_id: self.organization_id,
            site: self.site,
            owner_id: self.owner_id,
            agent_version: self.agent_version,
            last_seen_at: self.last_seen_at,
            health: self.health,
            collected_at: self.collected_at,
            created_at: self.created_at,
            updated_at: self.updated_at,
            version: self.version,
        })
    }
}

pub(in super::super) fn portable() -> Vec<Box<dyn Portable>> {
    vec![
        Carrier::plain("organization", &ORGANIZATIONS),
        Carrier::plain("organization_members", &MEMBERS),
        Carrier::plain("user", &USERS),
        Carrier::turning(
            "device",
            &DEVICES,
            |_, key, record| Ok(Some((key, DeviceForm::new(record)?))),
            |_, key, form| Ok((key, form.record()?)),
        ),
    ]
}
