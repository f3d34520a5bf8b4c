//! Tenants as they are stored.

pub(super) mod portable;

use serde::{Deserialize, Serialize};

use super::model::{Tenant, TenantStatus};
use crate::kernel::{
    access::TenantKind,
    clock::Timestamp,
    id::TenantId,
    store::{Index, Key, Read, StoreError, Table, WriteTx, catalog, codec::Record},
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
pub(super) static TENANTS: Table<TenantId, TenantRecord> = Table::new(catalog::TENANTS, &[&BY_SLUG]);

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
        assert_golden("tenant_activity", &TenantActivity { events: 42, last_event_at: at });
    }
}
