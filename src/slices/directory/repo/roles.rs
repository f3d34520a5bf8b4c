//! Custom roles, and the members of each.

use tenantd_base::id::{RoleId, TenantId, UserId};
use tenantd_store::{Counts, Index, Key, KeyRange, Read, StoreError, Table, WriteTx, catalog, codec::Record};

use super::{super::model::CustomRole, users};

pub(crate) type RoleKey = (TenantId, RoleId);

impl Record for CustomRole {
    const VERSION: u8 = 1;

    fn take_key(&mut self, key: &[u8]) -> Option<()> {
        (self.tenant_id, self.id) = Key::from_bytes(key)?;
        Some(())
    }
}

static BY_NAME: Index<RoleKey, CustomRole> =
    Index { table: catalog::ROLES_BY_NAME, unique: true, keys: |(tenant, _), role| vec![name_key(*tenant, &role.name)] };
pub(crate) static ROLES: Table<RoleKey, CustomRole> = Table::new(catalog::ROLES, &[&BY_NAME]).counting(Counts::Records);

fn name_key(tenant: TenantId, name: &str) -> Vec<u8> {
    (tenant, name.to_lowercase()).to_bytes()
}

pub(crate) fn get(tx: &impl Read, tenant: TenantId, id: RoleId) -> Result<Option<CustomRole>, StoreError> {
    ROLES.get(tx, &(tenant, id))
}

/// The roles of the tenant, by name.
pub(crate) fn list(tx: &impl Read, tenant: TenantId, limit: usize) -> Result<Vec<CustomRole>, StoreError> {
    let mut roles = Vec::new();
    for (tenant, id) in BY_NAME.list(tx, &KeyRange::prefix(&tenant.to_bytes()), limit)? {
        roles.extend(get(tx, tenant, id)?);
    }
    Ok(roles)
}

/// The staff who have the role.
pub(crate) fn members(tx: &impl Read, key: RoleKey, limit: usize) -> Result<Vec<UserId>, StoreError> {
    let found = users::BY_ROLE.list(tx, &KeyRange::prefix(&key.to_bytes()), limit)?;
    Ok(found.into_iter().map(|(_, id)| id).collect())
}

pub(crate) fn put(tx: &mut WriteTx, role: &CustomRole) -> Result<(), StoreError> {
    ROLES.put(tx, &(role.tenant_id, role.id), role)
}

pub(crate) fn remove(tx: &mut WriteTx, key: RoleKey) -> Result<(), StoreError> {
    ROLES.remove(tx, &key).map(drop)
}

#[cfg(test)]
mod tests {
    use tenantd_base::{access::Generation, clock::Timestamp};
    use tenantd_store::codec::assert_golden;

    use super::*;

    #[test]
    fn stored_records_match_the_golden_files() {
        let at = Timestamp::from_millis(1_767_225_600_000);
        let role = CustomRole {
            tenant_id: TenantId::from_bytes([2; 16]),
            id: RoleId::from_bytes([1; 16]),
            name: "Dispatcher".to_owned(),
            description: Some("Assigns tickets.".to_owned()),
            scopes: vec!["tickets:*".to_owned(), "directory:read".to_owned()],
            generation: Generation(2),
            created_at: at,
            updated_at: at,
            version: 3,
        };
        assert_golden("role", &role);
    }
}
