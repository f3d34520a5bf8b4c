//! The own settings of scopes. The tenant's settings come first, then those of organizations, then those of devices.

use serde::{Deserialize, Serialize};

use tenantd_base::{
    clock::Timestamp,
    id::{DeviceId, OrganizationId, TenantId},
};
use tenantd_store::{
    Counts, Direction, Flow, Key, KeyRange, Read, StoreError, Table, WriteTx, catalog,
    codec::{self, Record},
};
use tenantd_tickets::Priority;

use super::super::model::{
    Alarm, Encryption, Notifications, Objectives, OwnConfig, Retention, Schedule, Scope, Target, Verification, Workload,
};

pub(crate) type ConfigKey = (TenantId, u8, [u8; 16]);

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ConfigRecord {
    pub(crate) own: OwnConfig,
    pub(crate) updated_at: Timestamp,
    pub(crate) version: u64,
}

impl Record for ConfigRecord {
    const VERSION: u8 = 2;

    fn upgrade(version: u8, fields: &[u8]) -> Result<Self, String> {
        match version {
            1 => codec::decode_fields::<ConfigRecordV1>(fields).map(Self::from),
            _ => Err(format!("this release does not know format version {version}")),
        }
    }
}

/// The format before tickets were resolved on recovery.
#[derive(Deserialize)]
struct ConfigRecordV1 {
    own: OwnConfigV1,
    updated_at: Timestamp,
    version: u64,
}

#[derive(Deserialize)]
struct OwnConfigV1 {
    enabled: Option<bool>,
    workloads: Option<Vec<Workload>>,
    schedule: Option<Schedule>,
    retention: Option<Retention>,
    objectives: Option<Objectives>,
    targets: Option<Vec<Target>>,
    encryption: Option<Encryption>,
    verification: Option<Verification>,
    notifications: Option<(Vec<Alarm>, Priority)>,
}

impl From<ConfigRecordV1> for ConfigRecord {
    fn from(ConfigRecordV1 { own, updated_at, version }: ConfigRecordV1) -> Self {
        let notifications = |(ticket_on, ticket_priority)| Notifications { ticket_on, ticket_priority, resolve_on_recovery: true };
        let own = OwnConfig {
            enabled: own.enabled,
            workloads: own.workloads,
            schedule: own.schedule,
            retention: own.retention,
            objectives: own.objectives,
            targets: own.targets,
            encryption: own.encryption,
            verification: own.verification,
            notifications: own.notifications.map(notifications),
        };
        Self { own, updated_at, version }
    }
}

pub(crate) static CONFIGS: Table<ConfigKey, ConfigRecord> = Table::new(catalog::BACKUP_CONFIGS, &[]).counting(Counts::Records);

const TENANT: u8 = 0;
const ORGANIZATION: u8 = 1;
const DEVICE: u8 = 2;

fn key(tenant: TenantId, scope: Scope) -> ConfigKey {
    match scope {
        Scope::Tenant => (tenant, TENANT, [0; 16]),
        Scope::Organization(id) => (tenant, ORGANIZATION, *id.as_bytes()),
        Scope::Device(id) => (tenant, DEVICE, *id.as_bytes()),
    }
}

/// The scope of a key; `None` for an invalid key.
pub(super) fn scope((_, kind, id): &ConfigKey) -> Option<Scope> {
    match *kind {
        TENANT if *id == [0; 16] => Some(Scope::Tenant),
        ORGANIZATION => Some(Scope::Organization(OrganizationId::from_bytes(*id))),
        DEVICE => Some(Scope::Device(DeviceId::from_bytes(*id))),
        _ => None,
    }
}

pub(crate) fn get(tx: &impl Read, tenant: TenantId, scope: Scope) -> Result<Option<ConfigRecord>, StoreError> {
    CONFIGS.get(tx, &key(tenant, scope))
}

pub(crate) fn put(tx: &mut WriteTx, tenant: TenantId, scope: Scope, record: &ConfigRecord) -> Result<(), StoreError> {
    CONFIGS.put(tx, &key(tenant, scope), record)
}

pub(crate) fn remove(tx: &mut WriteTx, tenant: TenantId, scope: Scope) -> Result<(), StoreError> {
    CONFIGS.remove(tx, &key(tenant, scope)).map(drop)
}

/// The own settings of all scopes of a tenant, at most `limit`.
pub(crate) fn list(tx: &impl Read, tenant: TenantId, limit: usize) -> Result<Vec<(Scope, ConfigRecord)>, StoreError> {
    let mut found = Vec::new();
    CONFIGS.scan(tx, &KeyRange::prefix(&tenant.to_bytes()), Direction::Forward, |(_, kind, id), record| {
        let scope = match kind {
            TENANT => Scope::Tenant,
            ORGANIZATION => Scope::Organization(OrganizationId::from_bytes(id)),
            _ => Scope::Device(DeviceId::from_bytes(id)),
        };
        found.push((scope, record));
        Ok(if found.len() < limit { Flow::Continue } else { Flow::Stop })
    })?;
    Ok(found)
}
