//! Cloud providers: found by name and kind.

use tenantd_base::id::{CloudProviderId, TenantId};
use tenantd_cloud::{self as cloud, ProviderLabel};
use tenantd_store::{ReadTx, StoreError};

use super::{
    super::model::{Document, Kind, RecordId, State},
    After, Scanned, Source, scanned,
};

pub(super) struct Providers;

fn document(provider: ProviderLabel) -> Document {
    Document {
        tenant_id: provider.tenant_id,
        kind: Kind::Provider,
        id: *provider.id.as_bytes(),
        shown_id: provider.id.to_string(),
        name: provider.name,
        subtitle: Some(provider.kind.to_owned()),
        texts: vec![("kind", provider.kind.to_owned())],
        identifiers: Vec::new(),
        attributes: Vec::new(),
        software: Vec::new(),
        organization_id: provider.organization_id,
        state: Some(if provider.enabled { State::Enabled } else { State::Disabled }),
        updated_at: provider.updated_at,
    }
}

impl Source for Providers {
    fn kind(&self) -> Kind {
        Kind::Provider
    }

    fn subject(&self) -> &'static str {
        "provider"
    }

    fn read_id(&self, text: &str) -> Option<RecordId> {
        text.parse::<CloudProviderId>().ok().map(|id| *id.as_bytes())
    }

    fn load(&self, tx: &ReadTx, tenant: TenantId, id: RecordId) -> Result<Option<Document>, StoreError> {
        Ok(cloud::provider(tx, tenant, CloudProviderId::from_bytes(id))?.map(document))
    }

    fn scan(&self, tx: &ReadTx, after: Option<After>, limit: usize) -> Result<Scanned, StoreError> {
        let after = after.map(|(tenant, id)| (tenant, CloudProviderId::from_bytes(id.to_be_bytes())));
        let records = cloud::providers_after(tx, after, limit)?;
        scanned(records, limit, |one| (one.tenant_id, u128::from_be_bytes(*one.id.as_bytes())), |one| Ok(Some(document(one))))
    }

    /// The VMs of a provider show its name, and belong to its organization unless they have their own.
    fn dependents(&self, tx: &ReadTx, tenant: TenantId, id: RecordId) -> Result<Vec<(Kind, RecordId)>, StoreError> {
        let vms = cloud::vms_of(tx, tenant, CloudProviderId::from_bytes(id))?;
        Ok(vms.into_iter().map(|vm| (Kind::Vm, *vm.as_bytes())).collect())
    }
}
