//! Pages of a tenant's audit. A page examines a bounded number of records. If it reaches that bound, it ends early and returns the
//! position for the next page.

use tenantd_base::id::TenantId;
use tenantd_store::{Direction, Flow, Key, KeyRange, Read, StoreError};

use super::{
    model::{Entry, Filters, Hash},
    repo,
};

/// How many records a page examines at most.
const MAX_EXAMINED: usize = 10_000;

/// A query for audit records.
#[derive(Clone, Debug)]
pub(super) struct AuditQuery {
    pub(super) tenant_id: TenantId,
    pub(super) filters: Filters,
    /// Forward is chronological order.
    pub(super) direction: Direction,
}

/// A matching record.
#[derive(Clone, Debug)]
pub(super) struct Found {
    pub(super) seq: u64,
    pub(super) entry: Entry,
    /// The record byte for byte as it was written.
    pub(super) body: Vec<u8>,
    pub(super) hash: Hash,
}

#[derive(Debug, Default)]
pub(super) struct AuditPage {
    pub(super) found: Vec<Found>,
    /// Where the next page continues, if there may be more records.
    pub(super) last: Option<u64>,
}

fn read(key: (TenantId, u64), record: repo::AuditRecord) -> Result<Found, StoreError> {
    let damaged = |error: serde_json::Error| StoreError::damaged(repo::RECORDS.name().name(), &key.to_bytes(), error.to_string());
    let entry = serde_json::from_slice(&record.body).map_err(damaged)?;
    Ok(Found { seq: key.1, entry, body: record.body, hash: record.hash })
}

pub(super) fn list(tx: &impl Read, query: &AuditQuery, after: Option<u64>, limit: usize) -> Result<AuditPage, StoreError> {
    let mut range = KeyRange::prefix(&query.tenant_id.to_bytes());
    if let Some(seq) = after {
        range = range.after(&(query.tenant_id, seq).to_bytes(), query.direction);
    }
    let (mut page, mut examined, mut position) = (AuditPage::default(), 0, None);
    repo::RECORDS.scan(tx, &range, query.direction, |key, record| {
        if page.found.len() == limit || examined == MAX_EXAMINED {
            page.last = position;
            return Ok(Flow::Stop);
        }
        examined += 1;
        position = Some(key.1);
        let found = read(key, record)?;
        if query.filters.matches(&found.entry) {
            page.found.push(found);
        }
        Ok(Flow::Continue)
    })?;
    Ok(page)
}

/// Returns the total number of matching records.
pub(super) fn total(tx: &impl Read, query: &AuditQuery) -> Result<u64, StoreError> {
    let mut count = 0;
    repo::RECORDS.scan(tx, &KeyRange::prefix(&query.tenant_id.to_bytes()), Direction::Forward, |key, record| {
        if query.filters.is_empty() || query.filters.matches(&read(key, record)?.entry) {
            count += 1;
        }
        Ok(Flow::Continue)
    })?;
    Ok(count)
}
