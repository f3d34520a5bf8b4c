//! Organizations, and the number of members of each.

use tenantd_base::id::{OrganizationId, TenantId};
use tenantd_store::{Counts, Index, Key, Read, StoreError, Table, WriteTx, catalog, codec::Record};

use super::super::model::{Members, Organization};

pub(crate) type OrganizationKey = (TenantId, OrganizationId);

impl Record for Organization {
    const VERSION: u8 = 1;

    fn take_key(&mut self, key: &[u8]) -> Option<()> {
        (self.tenant_id, self.id) = Key::from_bytes(key)?;
        Some(())
    }
}

static BY_EXTERNAL_ID: Index<OrganizationKey, Organization> = Index {
    table: catalog::ORGANIZATIONS_BY_EXTERNAL_ID,
    unique: true,
    keys: |(tenant, _), organization| organization.external_id.iter().map(|id| (*tenant, id.clone()).to_bytes()).collect(),
};
pub(crate) static ORGANIZATIONS: Table<OrganizationKey, Organization> =
    Table::new(catalog::ORGANIZATIONS, &[&BY_EXTERNAL_ID]).counting(Counts::Records);

impl Record for Members {
    const VERSION: u8 = 1;
}

pub(crate) static MEMBERS: Table<OrganizationKey, Members> = Table::new(catalog::ORGANIZATION_MEMBERS, &[]);

pub(crate) fn get(tx: &impl Read, tenant: TenantId, id: OrganizationId) -> Result<Option<Organization>, StoreError> {
    ORGANIZATIONS.get(tx, &(tenant, id))
}

pub(crate) fn find_external(tx: &impl Read, tenant: TenantId, external_id: &str) -> Result<Option<OrganizationId>, StoreError> {
    Ok(BY_EXTERNAL_ID.find(tx, &(tenant, external_id.to_owned()).to_bytes())?.map(|(_, id)| id))
}

pub(crate) fn list_after(tx: &impl Read, after: Option<OrganizationKey>, limit: usize) -> Result<Vec<Organization>, StoreError> {
    let found = ORGANIZATIONS.list_after(tx, after.as_ref(), limit)?;
    Ok(found.into_iter().map(|(_, organization)| organization).collect())
}

pub(crate) fn put(tx: &mut WriteTx, organization: &Organization) -> Result<(), StoreError> {
    ORGANIZATIONS.put(tx, &(organization.tenant_id, organization.id), organization)
}

pub(crate) fn remove(tx: &mut WriteTx, key: OrganizationKey) -> Result<(), StoreError> {
    MEMBERS.remove(tx, &key)?;
    ORGANIZATIONS.remove(tx, &key).map(drop)
}

pub(crate) fn members(tx: &impl Read, key: OrganizationKey) -> Result<Members, StoreError> {
    Ok(MEMBERS.get(tx, &key)?.unwrap_or_default())
}

/// Updates the counts when a member is added, removed or moved between organizations.
pub(crate) fn move_member(
    tx: &mut WriteTx,
    tenant: TenantId,
    from: Option<OrganizationId>,
    to: Option<OrganizationId>,
    count: fn(&mut Members) -> &mut u64,
) -> Result<(), StoreError> {
    if from == to {
        return Ok(());
    }
    for (organization, change) in [(from, -1), (to, 1)] {
        let Some(id) = organization else { continue };
        let mut members = members(tx, (tenant, id))?;
        let count = count(&mut members);
        *count = count.saturating_add_signed(change);
        MEMBERS.put(tx, &(tenant, id), &members)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use tenantd_base::clock::Timestamp;
    use tenantd_store::codec::assert_golden;

    use super::*;

    #[test]
    fn stored_records_match_the_golden_files() {
        let at = Timestamp::from_millis(1_767_225_600_000);
        let organization = Organization {
            id: OrganizationId::from_bytes([1; 16]),
            tenant_id: TenantId::from_bytes([2; 16]),
            external_id: Some("crm-1042".to_owned()),
            name: "Acme".to_owned(),
            created_at: at,
            updated_at: at.plus_days(1),
            version: 3,
        };
        assert_golden("organization", &organization);
        assert_golden("organization_members", &Members { devices: 300, contacts: 7 });
    }
}
