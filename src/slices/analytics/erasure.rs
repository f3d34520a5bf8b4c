//! Erases a removed tenant from the metrics of the installation. Its requests stay in the sums, in the group `other`.

use tenantd_base::id::TenantId;
use tenantd_store::{
    Direction, Flow, Key, KeyRange, ReadTx, StoreError, Table, TenantRow, TenantRows, WriteTx, catalog::TableName,
};

use super::{
    model::{INSTALLATION, OTHER, RowKey, Series, add_cells},
    repo::{self, RollUpRecord},
};

/// The rows of one table that count requests by tenant.
#[derive(Debug)]
pub(super) struct RequestsOfTenants(&'static Table<RowKey, RollUpRecord>);

pub(super) static IN_HOURS: RequestsOfTenants = RequestsOfTenants(&repo::HOURS);
pub(super) static IN_DAYS: RequestsOfTenants = RequestsOfTenants(&repo::DAYS);

impl TenantRows for RequestsOfTenants {
    /// No tables: the tenant's own rows are removed elsewhere.
    fn tables(&self) -> Vec<TableName> {
        Vec::new()
    }

    fn find(&self, tx: &ReadTx, tenant: TenantId, most: usize) -> Result<Vec<TenantRow>, StoreError> {
        let (name, mut rows) = (tenant.to_string(), Vec::new());
        let range = KeyRange::prefix(&(INSTALLATION, Series::RequestsByTenant.code()).to_bytes());
        self.0.scan(tx, &range, Direction::Forward, |key, record| {
            if record.has(&name) {
                rows.push(TenantRow { segment: None, key: key.to_bytes() });
            }
            Ok(if rows.len() < most { Flow::Continue } else { Flow::Stop })
        })?;
        Ok(rows)
    }

    fn remove(&self, tx: &mut WriteTx, tenant: TenantId, rows: &[TenantRow]) -> Result<(), StoreError> {
        let name = tenant.to_string();
        for row in rows {
            let Some(key) = RowKey::from_bytes(&row.key) else { continue };
            let Some(record) = self.0.get(tx, &key)? else { continue };
            let mut groups = record.open(&key)?;
            if let Some(cells) = groups.remove(&name) {
                add_cells(&mut groups, Series::RequestsByTenant.kind(), OTHER, &cells);
                self.0.put(tx, &key, &RollUpRecord::close(&groups))?;
            }
        }
        Ok(())
    }
}
