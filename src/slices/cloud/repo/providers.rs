//! Providers and the states of their syncs. A sync writes its own small row, so the provider's row changes only on an update or a
//! verification.

use tenantd_base::{
    clocks::Reading,
    id::{CloudProviderId, TenantId},
    secrets::{SealError, SealedPlace, TargetDigest},
};
use tenantd_store::{
    Counts, Direction, Due, Flow, Index, Key, KeyRange, Read, SealedRecord, SealedVisitor, StoreError, Table, WriteTx, catalog,
    codec::{Record, decode_fields, encode_fields},
    due_key,
};

use super::super::model::{Provider, SyncGaps, SyncState};

pub(crate) type ProviderKey = (TenantId, CloudProviderId);

impl Record for Provider {
    const VERSION: u8 = 1;
}

static BY_NAME: Index<ProviderKey, Provider> = Index {
    table: catalog::CLOUD_PROVIDERS_BY_NAME,
    unique: true,
    keys: |key, provider| vec![(key.0, provider.name.to_lowercase()).to_bytes()],
};

pub(crate) static PROVIDERS: Table<ProviderKey, Provider> =
    Table::new(catalog::CLOUD_PROVIDERS, &[&BY_NAME]).counting(Counts::Records);

impl Record for SyncState {
    const VERSION: u8 = 2;

    /// Version 1 has no `gaps`.
    fn upgrade(version: u8, fields: &[u8]) -> Result<Self, String> {
        match version {
            1 => decode_fields(&[fields, &encode_fields(&None::<SyncGaps>)?].concat()),
            _ => Err(format!("format version {version} is not known to this release")),
        }
    }
}

static BY_DUE: Index<ProviderKey, SyncState> = Index {
    table: catalog::CLOUD_SYNCS_BY_DUE,
    unique: false,
    keys: |key, sync| sync.due_at.iter().map(|at| due_key(key.0, *at)).collect(),
};

pub(crate) static SYNCS: Table<ProviderKey, SyncState> = Table::new(catalog::CLOUD_SYNCS, &[&BY_DUE]);

/// The place that the credential of a provider is sealed for, with the target that it may be sent to.
pub(crate) fn credential_place(key: &ProviderKey, target: TargetDigest) -> SealedPlace<'_> {
    let (tenant, id) = key;
    let table = catalog::CLOUD_PROVIDERS.name();
    SealedPlace { tenant: tenant.as_bytes(), table, key: id.as_bytes(), target: Some(target) }
}

impl SealedRecord<ProviderKey> for Provider {
    fn each_sealed(&mut self, key: &ProviderKey, visit: SealedVisitor<'_>) -> Result<(), SealError> {
        let target = self.target().digest();
        visit(credential_place(key, target), &mut self.credential.sealed)
    }
}

pub(crate) fn get(tx: &impl Read, key: ProviderKey) -> Result<Option<Provider>, StoreError> {
    PROVIDERS.get(tx, &key)
}

pub(crate) fn put(tx: &mut WriteTx, provider: &Provider) -> Result<(), StoreError> {
    PROVIDERS.put(tx, &(provider.tenant_id, provider.id), provider)
}

/// Whether another provider of the tenant has the name, ignoring case.
pub(crate) fn name_taken(
    tx: &impl Read,
    tenant: TenantId,
    name: &str,
    except: Option<CloudProviderId>,
) -> Result<bool, StoreError> {
    let found = BY_NAME.find(tx, &(tenant, name.to_lowercase()).to_bytes())?;
    Ok(found.is_some_and(|(_, id)| Some(id) != except))
}

/// The tenant's providers, oldest first.
pub(crate) fn list(tx: &impl Read, tenant: TenantId) -> Result<Vec<Provider>, StoreError> {
    let mut found = Vec::new();
    PROVIDERS.scan(tx, &KeyRange::prefix(&tenant.to_bytes()), Direction::Forward, |_, provider| {
        found.push(provider);
        Ok(Flow::Continue)
    })?;
    Ok(found)
}

/// Providers of all tenants that follow `after`, in key order.
pub(crate) fn list_after(tx: &impl Read, after: Option<ProviderKey>, limit: usize) -> Result<Vec<Provider>, StoreError> {
    let found = PROVIDERS.list_after(tx, after.as_ref(), limit)?;
    Ok(found.into_iter().map(|(_, provider)| provider).collect())
}

pub(crate) fn sync(tx: &impl Read, key: ProviderKey) -> Result<SyncState, StoreError> {
    Ok(SYNCS.get(tx, &key)?.unwrap_or_default())
}

pub(crate) fn put_sync(tx: &mut WriteTx, key: ProviderKey, sync: &SyncState) -> Result<(), StoreError> {
    SYNCS.put(tx, &key, sync)
}

/// Providers that are due and wanted, at most `limit`, and the time when the next one is due.
pub(crate) fn due(
    tx: &impl Read,
    reading: &Reading,
    limit: usize,
    wanted: impl FnMut(&ProviderKey) -> bool,
) -> Result<Due<ProviderKey>, StoreError> {
    BY_DUE.due(tx, reading, limit, wanted)
}
