//! Tenants as they are stored.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::model::{Errand, Tenant, TenantStatus, Work};
use crate::kernel::{
    access::TenantKind,
    clock::Timestamp,
    events::Actor,
    id::TenantId,
    store::{Direction, Flow, Index, Key, KeyRange, Read, StoreError, Table, WriteTx, catalog, codec::Record},
};

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct TenantRecord {
    name: String,
    slug: String,
    kind: TenantKind,
    status: TenantStatus,
    created_at: Timestamp,
    updated_at: Timestamp,
    expires_at: Option<Timestamp>,
    version: u64,
}

impl Record for TenantRecord {
    const VERSION: u8 = 1;
}

pub(super) static BY_SLUG: Index<TenantId, TenantRecord> =
    Index { table: catalog::TENANTS_BY_SLUG, unique: true, keys: |_, tenant| vec![tenant.slug.to_bytes()] };
static BY_EXPIRY: Index<TenantId, TenantRecord> = Index {
    table: catalog::TENANTS_BY_EXPIRY,
    unique: false,
    // One that is being removed has nothing more to end.
    keys: |_, tenant| {
        tenant.expires_at.filter(|_| tenant.status != TenantStatus::Deleting).map(|at| at.to_bytes()).into_iter().collect()
    },
};
pub(super) static TENANTS: Table<TenantId, TenantRecord> = Table::new(catalog::TENANTS, &[&BY_SLUG, &BY_EXPIRY]);

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct ErrandRecord {
    work: Work,
    due_at: Timestamp,
    actor: Actor,
}

impl Record for ErrandRecord {
    const VERSION: u8 = 1;
}

pub(super) static ERRANDS: Table<TenantId, ErrandRecord> = Table::new(catalog::TENANT_ERRANDS, &[]);

pub(super) fn put_errand(tx: &mut WriteTx, tenant: TenantId, errand: &Errand) -> Result<(), StoreError> {
    let Errand { work, due_at, actor } = errand.clone();
    ERRANDS.put(tx, &tenant, &ErrandRecord { work, due_at, actor })
}

pub(super) fn end_errand(tx: &mut WriteTx, tenant: TenantId) -> Result<(), StoreError> {
    ERRANDS.remove(tx, &tenant).map(drop)
}

/// Errands whose time has come.
pub(super) fn due_errands(tx: &impl Read, now: Timestamp) -> Result<Vec<(TenantId, Errand)>, StoreError> {
    let mut due = Vec::new();
    ERRANDS.scan(tx, &KeyRange::ALL, Direction::Forward, |tenant, ErrandRecord { work, due_at, actor }| {
        if due_at <= now {
            due.push((tenant, Errand { work, due_at, actor }));
        }
        Ok(Flow::Continue)
    })?;
    Ok(due)
}

/// Tenants whose end has come, at most `limit`.
pub(super) fn expired(tx: &impl Read, now: Timestamp, limit: usize) -> Result<Vec<TenantId>, StoreError> {
    BY_EXPIRY.list(tx, &KeyRange::before((now + Duration::from_millis(1)).to_bytes()), limit)
}

pub(super) fn remove(tx: &mut WriteTx, tenant: TenantId) -> Result<(), StoreError> {
    TENANTS.remove(tx, &tenant).map(drop)
}

pub(super) fn to_model(id: TenantId, record: TenantRecord) -> Tenant {
    let TenantRecord { name, slug, kind, status, created_at, updated_at, expires_at, version } = record;
    Tenant { id, name, slug, kind, status, created_at, updated_at, expires_at, version }
}

pub(super) fn get(tx: &impl Read, id: TenantId) -> Result<Option<Tenant>, StoreError> {
    Ok(TENANTS.get(tx, &id)?.map(|record| to_model(id, record)))
}

pub(super) fn put(tx: &mut WriteTx, tenant: &Tenant) -> Result<(), StoreError> {
    let record = TenantRecord {
        name: tenant.name.clone(),
        slug: tenant.slug.clone(),
        kind: tenant.kind,
        status: tenant.status,
        created_at: tenant.created_at,
        updated_at: tenant.updated_at,
        expires_at: tenant.expires_at,
        version: tenant.version,
    };
    TENANTS.put(tx, &tenant.id, &record)
}

pub(super) fn find_slug(tx: &impl Read, slug: &str) -> Result<Option<TenantId>, StoreError> {
    BY_SLUG.find(tx, &slug.to_owned().to_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{kernel::store::codec::assert_golden, slices::platform::TenantActivity};

    #[test]
    fn the_stored_forms_are_those_that_were_written_down() {
        let at = Timestamp::from_millis(1_767_225_600_000);
        let tenant = TenantRecord {
            name: "Acme".to_owned(),
            slug: "acme".to_owned(),
            kind: TenantKind::Evaluation,
            status: TenantStatus::Suspended,
            created_at: at,
            updated_at: at,
            expires_at: Some(at.plus_days(14)),
            version: 3,
        };
        assert_golden("tenant", &tenant);
        assert_golden("tenant_errand", &ErrandRecord { work: Work::Sweep, due_at: at, actor: Actor::system("test") });
        assert_golden("tenant_activity", &TenantActivity { events: 42, last_event_at: at });
    }
}
