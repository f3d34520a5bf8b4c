//! Events that still have to be matched with a tenant's workflows, in log order.

use serde::{Deserialize, Serialize};

use tenantd_base::id::TenantId;
use tenantd_store::{Direction, Flow, Key, KeyRange, Read, StoreError, Table, WriteTx, catalog, codec::Record};

/// The tenant and the position in the log.
pub(crate) type QueueKey = (TenantId, u64);

/// A row whose key is its only information.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct QueuedEvent;

impl Record for QueuedEvent {
    const VERSION: u8 = 1;
}

pub(crate) static QUEUE: Table<QueueKey, QueuedEvent> = Table::new(catalog::WORKFLOW_TRIGGER_QUEUE, &[]);

pub(crate) fn put(tx: &mut WriteTx, key: QueueKey) -> Result<(), StoreError> {
    QUEUE.put(tx, &key, &QueuedEvent)
}

pub(crate) fn remove(tx: &mut WriteTx, key: QueueKey) -> Result<(), StoreError> {
    QUEUE.remove(tx, &key).map(drop)
}

/// The first waiting events of a tenant.
pub(crate) fn first_of(tx: &impl Read, tenant: TenantId, most: usize) -> Result<Vec<u64>, StoreError> {
    let rows = QUEUE.list(tx, &KeyRange::prefix(&tenant.to_bytes()), most)?;
    Ok(rows.into_iter().map(|((_, seq), _)| seq).collect())
}

/// Tenants with waiting events, ordered by id. One lookup per tenant, which skips its other rows.
pub(crate) fn tenants(tx: &impl Read, most: usize) -> Result<Vec<TenantId>, StoreError> {
    let mut found: Vec<TenantId> = Vec::new();
    while found.len() < most {
        let after = found.last().map(|tenant| (*tenant, u64::MAX));
        let mut next = None;
        let range = after.map_or(KeyRange::ALL, |key| KeyRange::ALL.after(&key.to_bytes(), Direction::Forward));
        QUEUE.scan(tx, &range, Direction::Forward, |(tenant, _), _| {
            next = Some(tenant);
            Ok(Flow::Stop)
        })?;
        match next {
            Some(tenant) => found.push(tenant),
            None => break,
        }
    }
    Ok(found)
}
