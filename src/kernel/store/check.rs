//! Verifies the store: every record decodes under its checksum, every index has exactly the entries that its records imply, and
//! every table is in the catalog.

use super::{
    catalog::TableName,
    codec::Record,
    due,
    engine::{Direction, Flow, KeyRange, RawTable},
    erasure::TenantRows,
    error::StoreError,
    key::Key,
    migrate,
    table::Table,
    transaction::{Read, ReadTx},
    usage::{self, CountedSegments, Counts},
};

/// How many problems the report lists. The rest is only counted.
const MAX_PROBLEMS: usize = 100;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CheckReport {
    pub records: u64,
    pub index_entries: u64,
    pub problems: Vec<String>,
    /// The number of problems that are not listed.
    pub more_problems: u64,
}

impl CheckReport {
    pub fn is_clean(&self) -> bool {
        self.problems.is_empty()
    }

    /// All problems, listed or not.
    pub fn problem_count(&self) -> u64 {
        self.problems.len() as u64 + self.more_problems
    }

    pub fn problem(&mut self, text: String) {
        if self.problems.len() < MAX_PROBLEMS {
            self.problems.push(text);
        } else {
            self.more_problems += 1;
        }
    }
}

/// A table that can be checked without knowing its types.
pub trait Checked: Sync {
    fn check(&self, tx: &ReadTx, report: &mut CheckReport) -> Result<(), StoreError>;

    /// The unique name of its check. `None` if it has nothing to check by itself.
    fn check_name(&self) -> Option<&'static str> {
        None
    }

    /// How to remove a tenant's rows from it. `None` if its keys do not start with a tenant.
    fn tenant_rows(&self) -> Option<&dyn TenantRows> {
        None
    }

    /// Its name, and how its rows count toward the usage of tenants. `None` if they do not count.
    fn counted(&self) -> Option<(TableName, Counts)> {
        None
    }

    fn counted_segments(&self) -> Option<CountedSegments> {
        None
    }

    /// Whether it stores the sums of what the other tables count.
    fn has_sums(&self) -> bool {
        false
    }
}

impl<K: Key, V: Record> Checked for Table<K, V> {
    fn check_name(&self) -> Option<&'static str> {
        Some(self.name().name())
    }

    fn tenant_rows(&self) -> Option<&dyn TenantRows> {
        Self::tenant_rows(self)
    }

    fn counted(&self) -> Option<(TableName, Counts)> {
        (self.counts() != Counts::Nothing).then_some((self.name(), self.counts()))
    }

    fn check(&self, tx: &ReadTx, report: &mut CheckReport) -> Result<(), StoreError> {
        let name = self.name().name();
        let mut indexes = Vec::new();
        for index in self.indexes() {
            if !migrate::needs_fill(tx, index.table)? {
                indexes.push(index);
            }
        }
        let mut expected = vec![0_u64; indexes.len()];
        tx.raw_scan(self.name().into(), &KeyRange::ALL, Direction::Forward, &mut |key_bytes, stored| {
            report.records += 1;
            let record = super::codec::decode::<V>(name, key_bytes, stored);
            let (key, record) = match (K::from_bytes(key_bytes), record) {
                (Some(key), Ok(record)) => (key, record),
                (None, _) => {
                    report.problem(StoreError::damaged(name, key_bytes, "the key cannot be read").to_string());
                    return Ok(Flow::Continue);
                }
                (_, Err(reason)) => {
                    report.problem(StoreError::damaged(name, key_bytes, reason).to_string());
                    return Ok(Flow::Continue);
                }
            };
            for (index, count) in indexes.iter().zip(&mut expected) {
                for (entry, value) in index.entries(&key, key_bytes, &record) {
                    *count += 1;
                    let is_there = tx.raw_get(index.table.into(), &entry)?.as_deref() == Some(value.as_slice());
                    if !is_there && !due::exists_in_old_form(tx, index.table, &entry)? {
                        let missing = format!("no entry for the record in {name}");
                        report.problem(StoreError::damaged(index.table.name(), &entry, missing).to_string());
                    }
                }
            }
            Ok(Flow::Continue)
        })?;
        for (index, expected) in indexes.into_iter().zip(expected) {
            let found = count_entries(tx, index.table)?;
            report.index_entries += found;
            if found != expected {
                let index = index.table.name();
                report.problem(format!("table {index} has {found} entries, but the records of {name} imply {expected}"));
            }
        }
        Ok(())
    }
}

fn count_entries(tx: &ReadTx, table: TableName) -> Result<u64, StoreError> {
    let mut count = 0;
    tx.raw_scan(table.into(), &KeyRange::ALL, Direction::Forward, &mut |_, _| {
        count += 1;
        Ok(Flow::Continue)
    })?;
    Ok(count)
}

/// The tables that verify a snapshot.
#[derive(Clone, Default)]
pub(super) struct CheckedTables(pub(super) Vec<&'static dyn Checked>);

impl std::fmt::Debug for CheckedTables {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "CheckedTables({})", self.0.len())
    }
}

pub(super) fn run(tx: &ReadTx, tables: &[&'static dyn Checked]) -> Result<CheckReport, StoreError> {
    let mut report = CheckReport::default();
    for table in tables {
        table.check(tx, &mut report)?;
    }
    check_sums(tx, tables, &mut report)?;
    check_segments(tx, &mut report)?;
    Ok(report)
}

/// Compares the stored usage of tenants with their rows.
pub(super) fn check_sums(tx: &ReadTx, tables: &[&'static dyn Checked], report: &mut CheckReport) -> Result<(), StoreError> {
    if !tables.iter().any(|table| table.has_sums()) || migrate::needs_recount(tx)? {
        return Ok(());
    }
    usage::check(tx, tables, report)
}

/// Verifies the segments of all tables, and reports unknown tables.
pub(super) fn check_segments(tx: &ReadTx, report: &mut CheckReport) -> Result<(), StoreError> {
    for name in tx.tables()? {
        match RawTable::parse(&name) {
            None => report.problem(format!("table {name} is not in the catalog")),
            Some(table) if table.segment.is_some() => check_segment(tx, table, report)?,
            Some(_) => {}
        }
    }
    Ok(())
}

/// Segmented tables have no indexes. Their records still have checksums.
fn check_segment(tx: &ReadTx, table: RawTable, report: &mut CheckReport) -> Result<(), StoreError> {
    tx.raw_scan(table, &KeyRange::ALL, Direction::Forward, &mut |key, stored| {
        report.records += 1;
        if let Err(reason) = super::codec::verify(table.table.name(), key, stored) {
            report.problem(StoreError::damaged(&table.to_string(), key, reason).to_string());
        }
        Ok(Flow::Continue)
    })
}
