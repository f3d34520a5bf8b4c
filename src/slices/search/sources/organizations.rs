//! Organizations: found by their names.

use tenantd_base::id::{OrganizationId, TenantId};
use tenantd_directory::{self as directory, Organization};
use tenantd_store::{ReadTx, StoreError};

use super::{
    super::model::{Document, Kind, RecordId},
    After, Scanned, Source, scanned,
};

pub(super) struct Organizations;

fn document(organization: Organization) -> Document {
    Document {
        tenant_id: organization.tenant_id,
        kind: Kind::Organization,
        id: *organization.id.as_bytes(),
        shown_id: organization.id.to_string(),
        subtitle: organization.external_id.clone(),
        name: organization.name,
        texts: Vec::new(),
        identifiers: organization.external_id.map(|id| ("external_id", id)).into_iter().collect(),
        attributes: Vec::new(),
        software: Vec::new(),
        // An organization belongs to itself: a caller that is restricted to it can find it.
        organization_id: Some(organization.id),
        state: None,
        updated_at: organization.updated_at,
    }
}

impl Source for Organizations {
    fn kind(&self) -> Kind {
        Kind::Organization
    }

    fn subject(&self) -> &'static str {
        "organization"
    }

    fn read_id(&self, text: &str) -> Option<RecordId> {
        text.parse::<OrganizationId>().ok().map(|id| *id.as_bytes())
    }

    fn load(&self, tx: &ReadTx, tenant: TenantId, id: RecordId) -> Result<Option<Document>, StoreError> {
        Ok(directory::organization_record(tx, tenant, OrganizationId::from_bytes(id))?.map(document))
    }

    fn scan(&self, tx: &ReadTx, after: Option<After>, limit: usize) -> Result<Scanned, StoreError> {
        let after = after.map(|(tenant, id)| (tenant, OrganizationId::from_bytes(id.to_be_bytes())));
        let records = directory::organizations_after(tx, after, limit)?;
        scanned(records, limit, |one| (one.tenant_id, u128::from_be_bytes(*one.id.as_bytes())), |one| Ok(Some(document(one))))
    }
}
