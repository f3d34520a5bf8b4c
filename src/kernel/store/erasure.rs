//! Removes everything of one tenant from the store, in bounded steps. A step finds rows on a snapshot, and the writer only
//! removes them.
//!
//! A table whose key type starts with a tenant ([`Key::OF_TENANT`]) needs no declaration. Any other table with data of tenants
//! needs its own [`TenantRows`]. **Invariant:** a record is removed through its table, which also removes its index entries. The
//! tenant's usage is removed last, after a search that finds no other row.

use tenantd_base::id::TenantId;

use super::{
    Store,
    catalog::TableName,
    codec::Record,
    engine::{Direction, Flow, KeyRange},
    error::StoreError,
    key::{FixedKey, Key},
    segments::SegmentedTable,
    table::{Index, Table},
    transaction::{Read, ReadTx, WriteTx},
    usage,
};

/// The location of a row that belongs to a tenant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TenantRow {
    pub segment: Option<u64>,
    pub key: Vec<u8>,
}

/// Finds and removes the rows of tenants in some tables. Both operations may be repeated after a crash.
pub trait TenantRows: Sync {
    /// The tables that have no data of a tenant once `find` returns no rows.
    fn tables(&self) -> Vec<TableName>;

    /// Returns at most `most` rows of the tenant.
    fn find(&self, tx: &ReadTx, tenant: TenantId, most: usize) -> Result<Vec<TenantRow>, StoreError>;

    /// Removes rows that `find` returned. A row that is already removed is not an error.
    fn remove(&self, tx: &mut WriteTx, tenant: TenantId, rows: &[TenantRow]) -> Result<(), StoreError>;
}

/// How many rows one transaction removes. Other writes wait meanwhile.
const ROWS: usize = 250;

/// Removes the tenant's rows from the tables, in at most `most_transactions` transactions. Returns whether there were any.
pub async fn erase(
    store: &Store,
    tables: &[&'static dyn TenantRows],
    tenant: TenantId,
    most_transactions: usize,
) -> Result<bool, StoreError> {
    let mut transactions = 0;
    for rows in tables {
        let rows = *rows;
        while transactions < most_transactions {
            let found = store.scan(move |tx| rows.find(tx, tenant, ROWS)).await?;
            if found.is_empty() {
                break;
            }
            transactions += 1;
            let remove = move |tx: &mut WriteTx| {
                usage::begin_erasure(tx, tenant)?;
                rows.remove(tx, tenant, &found)
            };
            store.write(remove).await?;
        }
    }
    if transactions == 0 {
        store.write(move |tx| usage::finish_erasure(tx, tenant)).await?;
    }
    Ok(transactions > 0)
}

impl<K: Key, V: Record> Table<K, V> {
    /// How to remove a tenant's rows, if the keys start with a tenant.
    pub(super) fn tenant_rows(&self) -> Option<&dyn TenantRows> {
        if K::OF_TENANT { Some(self) } else { None }
    }

    /// The table and its indexes.
    fn with_indexes(&self) -> Vec<TableName> {
        [self.name()].into_iter().chain(self.indexes().iter().map(|index| index.table)).collect()
    }

    fn remove_rows(&self, tx: &mut WriteTx, rows: &[TenantRow]) -> Result<(), StoreError> {
        for row in rows {
            let key = K::from_bytes(&row.key);
            let key = key.ok_or_else(|| StoreError::damaged(self.name().name(), &row.key, "the key cannot be read"))?;
            Table::remove(self, tx, &key)?;
        }
        Ok(())
    }
}

impl<K: Key, V: Record> TenantRows for Table<K, V> {
    fn tables(&self) -> Vec<TableName> {
        self.with_indexes()
    }

    fn find(&self, tx: &ReadTx, tenant: TenantId, most: usize) -> Result<Vec<TenantRow>, StoreError> {
        let mut rows = Vec::new();
        tx.raw_scan(self.name().into(), &KeyRange::prefix(tenant.as_bytes()), Direction::Forward, &mut |key, _| {
            rows.push(TenantRow { segment: None, key: key.to_vec() });
            Ok(if rows.len() < most { Flow::Continue } else { Flow::Stop })
        })?;
        Ok(rows)
    }

    fn remove(&self, tx: &mut WriteTx, _tenant: TenantId, rows: &[TenantRow]) -> Result<(), StoreError> {
        self.remove_rows(tx, rows)
    }
}

/// A table whose keys do not start with the tenant. An index finds the records of a tenant.
pub struct RowsByIndex<K: 'static, V: 'static> {
    pub table: &'static Table<K, V>,
    /// Its keys start with the tenant, and every record has an entry.
    pub index: &'static Index<K, V>,
}

impl<K, V> std::fmt::Debug for RowsByIndex<K, V> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RowsByIndex").field("table", self.table).finish_non_exhaustive()
    }
}

impl<K: FixedKey, V: Record> TenantRows for RowsByIndex<K, V> {
    fn tables(&self) -> Vec<TableName> {
        self.table.with_indexes()
    }

    fn find(&self, tx: &ReadTx, tenant: TenantId, most: usize) -> Result<Vec<TenantRow>, StoreError> {
        let keys = self.index.list(tx, &KeyRange::prefix(tenant.as_bytes()), most)?;
        Ok(keys.into_iter().map(|key| TenantRow { segment: None, key: key.to_bytes() }).collect())
    }

    fn remove(&self, tx: &mut WriteTx, _tenant: TenantId, rows: &[TenantRow]) -> Result<(), StoreError> {
        self.table.remove_rows(tx, rows)
    }
}

/// A segmented table in which every key starts with the tenant.
#[derive(Debug)]
pub struct RowsOfSegments(pub &'static SegmentedTable);

impl TenantRows for RowsOfSegments {
    fn tables(&self) -> Vec<TableName> {
        vec![self.0.name()]
    }

    fn find(&self, tx: &ReadTx, tenant: TenantId, most: usize) -> Result<Vec<TenantRow>, StoreError> {
        self.0.rows_under(tx, tenant.as_bytes(), most)
    }

    fn remove(&self, tx: &mut WriteTx, _tenant: TenantId, rows: &[TenantRow]) -> Result<(), StoreError> {
        for row in rows {
            self.0.remove_row(tx, row.segment.unwrap_or_default(), row.key.clone());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde::{Deserialize, Serialize};

    use tenantd_base::{clock::Timestamp, quotas::Allowance};

    use super::*;
    use crate::{Counts, RedbEngine, WriterSettings, catalog, usage};

    #[derive(Debug, Serialize, Deserialize)]
    struct Note(String);

    impl Record for Note {
        const VERSION: u8 = 1;
    }

    static NOTES: Table<(TenantId, u32), Note> = Table::new(catalog::USERS, &[]).counting(Counts::Records);
    static MARKS: Table<(TenantId, u32), Note> = Table::new(catalog::WEBHOOKS, &[]).counting(Counts::Records);
    const ROWS: [&dyn TenantRows; 2] = [&NOTES, &MARKS];

    async fn assert_exact(store: &Store, when: &str) {
        let tables = [vec![&NOTES as &'static dyn crate::Checked, &MARKS], usage::tables()].concat();
        let report = store.check(tables).await.unwrap();
        assert!(report.is_clean(), "{when}: {report:?}");
    }

    #[tokio::test]
    async fn writes_during_an_erasure_keep_the_usage_exact() {
        let directory = tempfile::tempdir().unwrap();
        let engine = RedbEngine::create(&directory.path().join("store"), 1 << 20).unwrap();
        let store = Store::new(engine, WriterSettings { batch_size: 64, queue_length: 64 }).unwrap();
        let tenant = TenantId::from_bytes([7; 16]);
        let write = async |number: u32| {
            let put = move |tx: &mut WriteTx| {
                usage::note_event(tx, tenant, Timestamp::from_millis(1_700_000_000_000), Allowance::Quota);
                NOTES.put(tx, &(tenant, number), &Note("late".to_owned()))?;
                MARKS.put(tx, &(tenant, number), &Note("late".to_owned()))
            };
            store.write(put).await.unwrap();
        };
        for number in 0..600 {
            write(number).await;
        }
        assert_exact(&store, "before").await;
        assert!(erase(&store, &ROWS, tenant, 1).await.unwrap());
        write(1000).await;
        assert_exact(&store, "after one step").await;
        while erase(&store, &ROWS, tenant, 1).await.unwrap() {
            assert_exact(&store, "in the middle").await;
        }
        assert_eq!(store.read(|tx| usage::usage(tx, tenant)).unwrap(), usage::Usage::default());
        write(2000).await;
        assert_eq!(store.read(|tx| usage::usage(tx, tenant)).unwrap().records, 2, "counted again, from zero");
        assert_exact(&store, "after the end").await;
    }
}
