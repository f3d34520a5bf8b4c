//! Stored chains: records in the order of the log, checkpoints, and the end of each tenant's chain. **Invariant:** the end is
//! always signed.

pub(super) mod portable;

use serde::{Deserialize, Serialize};

use tenantd_base::{clock::Timestamp, id::TenantId, secrets::Signature};
use tenantd_store::{
    Direction, Flow, Key, KeyRange, Read, StoreError, Table, WriteTx, catalog,
    codec::{self, Record},
};

use super::model::{Checkpoint, Hash, Statement};

/// A stored record: its bytes and its hash.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct AuditRecord {
    pub(super) number: u64,
    #[serde(with = "codec::bytes")]
    pub(super) body: Vec<u8>,
    pub(super) hash: Hash,
}

impl Record for AuditRecord {
    const VERSION: u8 = 1;
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct CheckpointRecord {
    first: u64,
    number: u64,
    hash: Hash,
    at: Timestamp,
    #[serde(with = "codec::bytes")]
    signature: Vec<u8>,
    /// The key of the last record that the checkpoint covers.
    seq: u64,
}

impl Record for CheckpointRecord {
    const VERSION: u8 = 1;
}

/// The end of a chain: a checkpoint of its last record, and the time of the last stored checkpoint.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct HeadRecord {
    end: CheckpointRecord,
    kept_at: Timestamp,
    imported: Option<Imported>,
}

impl Record for HeadRecord {
    const VERSION: u8 = 2;

    /// Version 1 lacks `imported`.
    fn upgrade(version: u8, fields: &[u8]) -> Result<Self, String> {
        if version != 1 {
            return Err(format!("format version {version} is not known to this release"));
        }
        codec::decode_fields(&[fields, &codec::encode_fields(&None::<Imported>)?].concat())
    }
}

/// The part of a chain that another installation wrote, where the tenant's events had different numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Imported {
    /// The last record of that part.
    pub(super) number: u64,
    /// The offset of the keys of later records from the numbers of their events, so that these records sort after the imported
    /// ones.
    pub(super) offset: u64,
}

/// By tenant and event number. Records after imported ones have an offset added to the event number.
pub(super) static RECORDS: Table<(TenantId, u64), AuditRecord> = Table::new(catalog::AUDIT_RECORDS, &[]);
/// By tenant and number of the last covered record.
pub(super) static CHECKPOINTS: Table<(TenantId, u64), CheckpointRecord> = Table::new(catalog::AUDIT_CHECKPOINTS, &[]);
pub(super) static HEADS: Table<TenantId, HeadRecord> = Table::new(catalog::AUDIT_HEADS, &[]);

/// A checkpoint with the key of its last covered record.
#[derive(Clone, Copy, Debug)]
pub(super) struct StoredCheckpoint {
    pub(super) checkpoint: Checkpoint,
    pub(super) seq: u64,
}

impl StoredCheckpoint {
    fn record(&self) -> CheckpointRecord {
        let Statement { first, number, hash, at, .. } = self.checkpoint.statement;
        CheckpointRecord { first, number, hash, at, signature: self.checkpoint.signature.as_bytes().to_vec(), seq: self.seq }
    }

    fn of(tenant_id: TenantId, record: &CheckpointRecord, table: &str) -> Result<Self, StoreError> {
        let CheckpointRecord { first, number, hash, at, .. } = *record;
        let signature = Signature::from_bytes(&record.signature)
            .map_err(|error| StoreError::damaged(table, &tenant_id.to_bytes(), error.to_string()))?;
        let statement = Statement { tenant_id, first, number, hash, at };
        Ok(Self { checkpoint: Checkpoint { statement, signature }, seq: record.seq })
    }
}

/// The end of a tenant's chain.
#[derive(Clone, Copy, Debug)]
pub(super) struct Head {
    pub(super) end: StoredCheckpoint,
    /// The time of the last stored checkpoint.
    pub(super) kept_at: Timestamp,
    pub(super) imported: Option<Imported>,
}

impl Head {
    /// Returns the offset of a record's key from the number of its event.
    pub(super) fn offset(&self) -> u64 {
        self.imported.map_or(0, |imported| imported.offset)
    }
}

fn head_of(tenant: TenantId, record: &HeadRecord) -> Result<Head, StoreError> {
    Ok(Head {
        end: StoredCheckpoint::of(tenant, &record.end, catalog::AUDIT_HEADS.name())?,
        kept_at: record.kept_at,
        imported: record.imported,
    })
}

pub(super) fn head(tx: &impl Read, tenant: TenantId) -> Result<Option<Head>, StoreError> {
    HEADS.get(tx, &tenant)?.map(|record| head_of(tenant, &record)).transpose()
}

pub(super) fn put_head(tx: &mut WriteTx, head: &Head) -> Result<(), StoreError> {
    let record = HeadRecord { end: head.end.record(), kept_at: head.kept_at, imported: head.imported };
    HEADS.put(tx, &head.end.checkpoint.statement.tenant_id, &record)
}

/// Returns the heads after a tenant, at most `limit`.
pub(super) fn heads_after(tx: &impl Read, after: Option<TenantId>, limit: usize) -> Result<Vec<Head>, StoreError> {
    let found = HEADS.list_after(tx, after.as_ref(), limit)?;
    found.iter().map(|(tenant, record)| head_of(*tenant, record)).collect()
}

pub(super) fn keep_checkpoint(tx: &mut WriteTx, placed: &StoredCheckpoint) -> Result<(), StoreError> {
    let statement = placed.checkpoint.statement;
    CHECKPOINTS.put(tx, &(statement.tenant_id, statement.number), &placed.record())
}

/// Returns the checkpoint that covers exactly the records up to `number`.
pub(super) fn checkpoint(tx: &impl Read, tenant: TenantId, number: u64) -> Result<Option<StoredCheckpoint>, StoreError> {
    let found = CHECKPOINTS.get(tx, &(tenant, number))?;
    found.map(|record| StoredCheckpoint::of(tenant, &record, catalog::AUDIT_CHECKPOINTS.name())).transpose()
}

/// Returns the checkpoints that cover records beyond `after`, in order, at most `limit`.
pub(super) fn checkpoints_after(
    tx: &impl Read,
    tenant: TenantId,
    after: u64,
    limit: usize,
) -> Result<Vec<StoredCheckpoint>, StoreError> {
    let range = KeyRange::prefix(&tenant.to_bytes()).after(&(tenant, after).to_bytes(), Direction::Forward);
    let found = CHECKPOINTS.list(tx, &range, limit)?;
    found.iter().map(|(_, record)| StoredCheckpoint::of(tenant, record, catalog::AUDIT_CHECKPOINTS.name())).collect()
}

/// Returns the records after a key, in order, at most `limit`.
pub(super) fn records_after(
    tx: &impl Read,
    tenant: TenantId,
    seq: u64,
    limit: usize,
) -> Result<Vec<(u64, AuditRecord)>, StoreError> {
    let range = KeyRange::prefix(&tenant.to_bytes()).after(&(tenant, seq).to_bytes(), Direction::Forward);
    let found = RECORDS.list(tx, &range, limit)?;
    Ok(found.into_iter().map(|((_, seq), record)| (seq, record)).collect())
}

/// Returns the first tenant after `after` that has a record, even if its chain has no stored end.
pub(super) fn next_tenant(tx: &impl Read, after: Option<TenantId>) -> Result<Option<TenantId>, StoreError> {
    let range = after.map_or(KeyRange::ALL, |tenant| KeyRange::ALL.after(&(tenant, u64::MAX).to_bytes(), Direction::Forward));
    let mut found = None;
    tx.raw_scan(RECORDS.name().into(), &range, Direction::Forward, &mut |key, _| {
        found = <(TenantId, u64)>::from_bytes(key).map(|(tenant, _)| tenant);
        Ok(Flow::Stop)
    })?;
    Ok(found)
}

/// Removes the records up to `anchor` and the checkpoints before it. `anchor` stays, because the chain then begins after it.
pub(super) fn forget_before(tx: &mut WriteTx, anchor: &StoredCheckpoint, most: usize) -> Result<(), StoreError> {
    let statement = anchor.checkpoint.statement;
    let tenant = statement.tenant_id;
    for (seq, _) in records_after(tx, tenant, 0, most)?.into_iter().take_while(|(seq, _)| *seq <= anchor.seq) {
        RECORDS.remove(tx, &(tenant, seq))?;
    }
    for older in checkpoints_after(tx, tenant, 0, most)? {
        let number = older.checkpoint.statement.number;
        if number < statement.number {
            CHECKPOINTS.remove(tx, &(tenant, number))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use tenantd_store::codec::assert_golden;

    use super::*;

    #[test]
    fn the_stored_forms_match_the_golden_files() {
        let at = Timestamp::from_millis(1_767_225_600_000);
        let checkpoint = || CheckpointRecord { first: 1, number: 64, hash: [7; 32], at, signature: vec![9; 64], seq: 300 };
        assert_golden("audit_record", &AuditRecord { number: 1, body: b"{}".to_vec(), hash: [7; 32] });
        assert_golden("audit_checkpoint", &checkpoint());
        assert_golden(
            "audit_head",
            &HeadRecord { end: checkpoint(), kept_at: at, imported: Some(Imported { number: 64, offset: 300 }) },
        );
    }
}
