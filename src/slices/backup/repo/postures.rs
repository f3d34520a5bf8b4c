//! The posture of each device, keyed by its organization and indexed by device, by issue and by timer.

use tenantd_base::{
    clock::Timestamp,
    clocks::{Reading, Timeline},
    id::{DeviceId, OrganizationId, TenantId},
};
use tenantd_store::{
    Direction, Due, Flow, Index, Key, KeyRange, Read, StoreError, Table, WriteTx, catalog, codec::Record, due_key,
};

use super::super::model::{Posture, Trouble};

pub(crate) type PostureKey = (TenantId, OrganizationId, DeviceId);

impl Record for Posture {
    const VERSION: u8 = 1;

    fn take_key(&mut self, key: &[u8]) -> Option<()> {
        (self.tenant_id, self.organization_id, self.device_id) = Key::from_bytes(key)?;
        Some(())
    }
}

static BY_DEVICE: Index<PostureKey, Posture> = Index {
    table: catalog::BACKUP_POSTURES_BY_DEVICE,
    unique: true,
    keys: |(tenant, _, device), _| vec![(*tenant, *device).to_bytes()],
};
static BY_TROUBLE: Index<PostureKey, Posture> = Index {
    table: catalog::BACKUP_POSTURES_BY_TROUBLE,
    unique: false,
    keys: |(tenant, organization, _), posture| {
        let key = |(trouble, since): &(Trouble, Timestamp)| (*tenant, *organization, *trouble as u8, *since).to_bytes();
        posture.trouble.iter().map(key).collect()
    },
};
static BY_TIMER: Index<PostureKey, Posture> = Index {
    table: catalog::BACKUP_POSTURES_BY_TIMER,
    unique: false,
    keys: |key, posture| posture.timer_at.iter().map(|at| due_key(key.0, *at)).collect(),
};
pub(crate) static POSTURES: Table<PostureKey, Posture> =
    Table::new(catalog::BACKUP_POSTURES, &[&BY_DEVICE, &BY_TROUBLE, &BY_TIMER]);

pub(crate) fn key(posture: &Posture) -> PostureKey {
    (posture.tenant_id, posture.organization_id, posture.device_id)
}

pub(crate) fn get(tx: &impl Read, key: PostureKey) -> Result<Option<Posture>, StoreError> {
    POSTURES.get(tx, &key)
}

pub(crate) fn of_device(tx: &impl Read, tenant: TenantId, device: DeviceId) -> Result<Option<Posture>, StoreError> {
    match BY_DEVICE.find(tx, &(tenant, device).to_bytes())? {
        Some(key) => get(tx, key),
        None => Ok(None),
    }
}

pub(crate) fn put(tx: &mut WriteTx, posture: &Posture) -> Result<(), StoreError> {
    POSTURES.put(tx, &key(posture), posture)
}

pub(crate) fn remove(tx: &mut WriteTx, posture: &Posture) -> Result<(), StoreError> {
    POSTURES.remove(tx, &key(posture)).map(drop)
}

/// Scans the postures of a tenant or of one organization, in order, starting after the given key.
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
    POSTURES.scan(tx, &range, Direction::Forward, |_, posture| visit(posture))
}

/// The devices of an organization with issues, the worst first.
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

/// The postures of any tenant that are due, the longest overdue first, and the next due time.
pub(crate) fn due(tx: &impl Read, reading: &Reading, limit: usize) -> Result<Due<PostureKey>, StoreError> {
    BY_TIMER.due(tx, reading, limit, |_| true)
}

/// The posture of this tenant with the earliest timer, if it is due by `now`.
pub(crate) fn first_due(tx: &impl Read, tenant: TenantId, now: Timestamp) -> Result<Option<PostureKey>, StoreError> {
    Ok(BY_TIMER.due_on(tx, Timeline::of(tenant), now, 1, |key| key.0 == tenant)?.found.pop())
}
