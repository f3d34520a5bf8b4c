//! Operations, with indexes by the time of the next step, by the provider that they use, and by their end.

use tenantd_base::{
    clock::Timestamp,
    clocks::Reading,
    id::{CloudProviderId, OperationId, TenantId},
    secrets::{SealError, SealedPlace},
};
use tenantd_store::{
    Counts, Due, Index, Key, KeyRange, Read, SealedRecord, SealedVisitor, StoreError, Table, WriteTx, catalog, codec::Record,
    due_key,
};

use super::super::model::{Operation, OperationWork};

pub(crate) type OperationKey = (TenantId, OperationId);

impl Record for Operation {
    const VERSION: u8 = 1;
}

static BY_DUE: Index<OperationKey, Operation> = Index {
    table: catalog::OPERATIONS_BY_DUE,
    unique: false,
    keys: |key, operation| operation.due_at.iter().map(|at| due_key(key.0, *at)).collect(),
};
static BY_PROVIDER: Index<OperationKey, Operation> = Index {
    table: catalog::OPERATIONS_BY_PROVIDER,
    unique: false,
    keys: |key, operation| {
        if operation.status.has_ended() {
            return Vec::new();
        }
        match &operation.work {
            OperationWork::Provision { provider_id, .. } => vec![(key.0, *provider_id).to_bytes()],
            OperationWork::Refresh { providers } => {
                providers.iter().filter(|one| !one.done).map(|one| (key.0, one.provider_id).to_bytes()).collect()
            }
        }
    },
};
static BY_END: Index<OperationKey, Operation> = Index {
    table: catalog::OPERATIONS_BY_END,
    unique: false,
    keys: |_, operation| operation.ended_at.iter().map(Key::to_bytes).collect(),
};

pub(crate) static OPERATIONS: Table<OperationKey, Operation> =
    Table::new(catalog::OPERATIONS, &[&BY_DUE, &BY_PROVIDER, &BY_END]).counting(Counts::Bytes);

/// The place that the user data of an order is sealed for.
pub(crate) fn user_data_place<'a>(tenant: &'a TenantId, id: &'a OperationId) -> SealedPlace<'a> {
    SealedPlace { tenant: tenant.as_bytes(), table: catalog::OPERATIONS.name(), key: id.as_bytes(), target: None }
}

impl SealedRecord<OperationKey> for Operation {
    fn each_sealed(&mut self, (tenant, id): &OperationKey, visit: SealedVisitor<'_>) -> Result<(), SealError> {
        match &mut self.work {
            OperationWork::Provision { spec, .. } => {
                spec.user_data.as_mut().map_or(Ok(()), |sealed| visit(user_data_place(tenant, id), sealed))
            }
            OperationWork::Refresh { .. } => Ok(()),
        }
    }
}

pub(crate) fn get(tx: &impl Read, key: OperationKey) -> Result<Option<Operation>, StoreError> {
    OPERATIONS.get(tx, &key)
}

pub(crate) fn put(tx: &mut WriteTx, operation: &Operation) -> Result<(), StoreError> {
    OPERATIONS.put(tx, &(operation.tenant_id, operation.id), operation)
}

/// Operations of the provider that have not ended.
pub(crate) fn open(tx: &impl Read, provider: (TenantId, CloudProviderId)) -> Result<Vec<Operation>, StoreError> {
    let keys = BY_PROVIDER.list(tx, &KeyRange::prefix(&provider.to_bytes()), usize::MAX)?;
    keys.into_iter().filter_map(|key| get(tx, key).transpose()).collect()
}

/// Operations that are due and wanted, at most `limit`, and the time when the next one is due.
pub(crate) fn due(
    tx: &impl Read,
    reading: &Reading,
    limit: usize,
    wanted: impl FnMut(&OperationKey) -> bool,
) -> Result<Due<OperationKey>, StoreError> {
    BY_DUE.due(tx, reading, limit, wanted)
}

/// Operations that ended before `time`, at most `limit`.
pub(crate) fn ended_before(tx: &impl Read, time: Timestamp, limit: usize) -> Result<Vec<OperationKey>, StoreError> {
    BY_END.list(tx, &KeyRange::before(time.to_bytes()), limit)
}

pub(crate) fn remove(tx: &mut WriteTx, key: OperationKey) -> Result<(), StoreError> {
    OPERATIONS.remove(tx, &key).map(drop)
}
