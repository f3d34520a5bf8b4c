//! How well each device is backed up, under its organization; found by the device, by what is wrong, and by its timer.

use serde::{Deserialize, Serialize};

use tenantd_base::{
    clock::Timestamp,
    clocks::{Reading, Timeline},
    id::{DeviceId, OrganizationId, TenantId, TicketId},
};
use tenantd_store::{
    Direction, Due, Flow, Index, Key, KeyRange, Read, StoreError, Table, WriteTx, catalog, codec::Record, due_key,
};

use super::super::model::{Posture, Standing, Trouble, Workload};

pub(crate) type PostureKey = (TenantId, OrganizationId, DeviceId);

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct PostureRecord {
    workload: Option<Workload>,
    in_use: bool,
    since: Timestamp,
    last_success_at: Option<Timestamp>,
    last_failure_at: Option<Timestamp>,
    failing_since: Option<Timestamp>,
    last_verified_at: Option<Timestamp>,
    bytes: u64,
    points: Vec<u32>,
    standing: Standing,
    trouble: Option<(Trouble, Timestamp)>,
    tickets: [Option<TicketId>; 3],
    timer_at: Option<Timestamp>,
    version: u64,
}

impl Record for PostureRecord {
    const VERSION: u8 = 1;
}

impl PostureRecord {
    /// How many restore points it knows of.
    pub(super) fn points(&self) -> usize {
        self.points.len()
    }
}

static BY_DEVICE: Index<PostureKey, PostureRecord> = Index {
    table: catalog::BACKUP_POSTURES_BY_DEVICE,
    unique: true,
    keys: |(tenant, _, device), _| vec![(*tenant, *device).to_bytes()],
};
static BY_TROUBLE: Index<PostureKey, PostureRecord> = Index {
    table: catalog::BACKUP_POSTURES_BY_TROUBLE,
    unique: false,
    keys: |(tenant, organization, _), record| {
        let key = |(trouble, since): &(Trouble, Timestamp)| (*tenant, *organization, *trouble as u8, *since).to_bytes();
        record.trouble.iter().map(key).collect()
    },
};
static BY_TIMER: Index<PostureKey, PostureRecord> = Index {
    table: catalog::BACKUP_POSTURES_BY_TIMER,
    unique: false,
    keys: |key, record| record.timer_at.iter().map(|at| due_key(key.0, *at)).collect(),
};
pub(crate) static POSTURES: Table<PostureKey, PostureRecord> =
    Table::new(catalog::BACKUP_POSTURES, &[&BY_DEVICE, &BY_TROUBLE, &BY_TIMER]);

pub(crate) fn key(posture: &Posture) -> PostureKey {
    (posture.tenant_id, posture.organization_id, posture.device_id)
}

fn to_model((tenant_id, organization_id, device_id): PostureKey, record: PostureRecord) -> Posture {
    Posture {
        tenant_id,
        organization_id,
        device_id,
        workload: record.workload,
        in_use: record.in_use,
        since: record.since,
        last_success_at: record.last_success_at,
        last_failure_at: record.last_failure_at,
        failing_since: record.failing_since,
        last_verified_at: record.last_verified_at,
        bytes: record.bytes,
        points: record.points,
        standing: record.standing,
        trouble: record.trouble,
        tickets: record.tickets,
        timer_at: record.timer_at,
        version: record.version,
    }
}

pub(super) fn to_record(posture: &Posture) -> PostureRecord {
    PostureRecord {
        workload: posture.workload,
        in_use: posture.in_use,
        since: posture.since,
        last_success_at: posture.last_success_at,
        last_failure_at: posture.last_failure_at,
        failing_since: posture.failing_since,
        last_verified_at: posture.last_verified_at,
        bytes: posture.bytes,
        points: posture.points.clone(),
        standing: posture.standing,
        trouble: posture.trouble,
        tickets: posture.tickets,
        timer_at: posture.timer_at,
        version: posture.version,
    }
}

pub(crate) fn get(tx: &impl Read, key: PostureKey) -> Result<Option<Posture>, StoreError> {
    Ok(POSTURES.get(tx, &key)?.map(|record| to_model(key, record)))
}

pub(crate) fn of_device(tx: &impl Read, tenant: TenantId, device: DeviceId) -> Result<Option<Posture>, StoreError> {
    match BY_DEVICE.find(tx, &(tenant, device).to_bytes())? {
        Some(key) => get(tx, key),
        None => Ok(None),
    }
}

pub(crate) fn put(tx: &mut WriteTx, posture: &Posture) -> Result<(), StoreError> {
    POSTURES.put(tx, &key(posture), &to_record(posture))
}

pub(crate) fn remove(tx: &mut WriteTx, posture: &Posture) -> Result<(), StoreError> {
    POSTURES.remove(tx, &key(posture)).map(drop)
}

/// The postures of a tenant or of one organization behind one of them, in order.
pub(crate) fn scan(
    tx: &impl Read,
    tenant: TenantId,
    organization: Option<OrganizationId>,
    after: Option<PostureKey>,
    mut visit: impl FnMut(Posture) -> Result<Flow, StoreError>,
) -> Result<(), StoreError> {
    let prefix = organization.map_or_else(|| tenant.to_bytes(), |organization| (tenant, organization).to_bytes());
    let mut range = KeyRange::prefix(&prefix);
    if let Some(after) = after {
        range = range.after(&after.to_bytes(), Direction::Forward);
    }
    POSTURES.scan(tx, &range, Direction::Forward, |key, record| visit(to_model(key, record)))
}

/// The devices of an organization with something wrong, the worst first.
pub(crate) fn troubled(
    tx: &impl Read,
    tenant: TenantId,
    organization: OrganizationId,
    limit: usize,
) -> Result<Vec<Posture>, StoreError> {
    let keys = BY_TROUBLE.list(tx, &KeyRange::prefix(&(tenant, organization).to_bytes()), limit)?;
    let found = keys.into_iter().map(|key| get(tx, key)).collect::<Result<Vec<_>, _>>()?;
    Ok(found.into_iter().flatten().collect())
}

/// Postures of any tenant whose time has come, the longest overdue first, and when the next does.
pub(crate) fn due(tx: &impl Read, reading: &Reading, limit: usize) -> Result<Due<PostureKey>, StoreError> {
    BY_TIMER.due(tx, reading, limit, |_| true)
}

/// The posture of this tenant whose time came first, if it has come by `now`.
pub(crate) fn first_due(tx: &impl Read, tenant: TenantId, now: Timestamp) -> Result<Option<PostureKey>, StoreError> {
    Ok(BY_TIMER.due_on(tx, Timeline::of(tenant), now, 1, |key| key.0 == tenant)?.found.pop())
}
