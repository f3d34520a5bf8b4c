//! Writes a consistent copy of the live store to a new file: one read snapshot, copied table by table in key order.
//!
//! **Invariant:** the copy gets its final name only when it is complete, on the disk and verified. Read back from the disk, it
//! has the same tables with the same number of records and the same digests. A damaged copy is removed.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    path::Path,
};

use sha2::{Digest, Sha256};

use tenantd_base::telemetry::panic_text;

use super::{
    CheckReport, Checked, RedbEngine,
    changes::Changes,
    check,
    engine::{Direction, Durability, Engine, Flow, KeyRange, RawTable},
    error::StoreError,
    journal::Position,
    transaction::{Read, ReadTx},
};

/// How many bytes one transaction of the copy writes.
const CHUNK_BYTES: usize = 8 << 20;
const COPY_CACHE_BYTES: usize = 16 << 20;

/// The content of a table in a copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableTally {
    pub name: String,
    pub records: u64,
    pub bytes: u64,
    /// A digest over every record with its key, in key order.
    pub digest: [u8; 32],
}

/// The content of a copy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SnapshotReport {
    /// Ordered by name.
    pub tables: Vec<TableTally>,
    /// The last commit in the copy.
    pub position: Position,
}

impl SnapshotReport {
    pub fn records(&self) -> u64 {
        self.tables.iter().map(|table| table.records).sum()
    }

    pub fn bytes(&self) -> u64 {
        self.tables.iter().map(|table| table.bytes).sum()
    }

    /// A digest over every table with its name.
    pub fn digest(&self) -> [u8; 32] {
        let mut digest = Sha256::new();
        for table in &self.tables {
            digest.update((table.name.len() as u64).to_le_bytes());
            digest.update(table.name.as_bytes());
            digest.update(table.digest);
        }
        digest.finalize().into()
    }

    /// Describes the first table that differs in another copy.
    pub fn difference(&self, other: &Self) -> Option<String> {
        let found = |table: &TableTally| other.tables.iter().find(|known| known.name == table.name);
        let other_than = |table: &TableTally| match found(table) {
            Some(known) if known == table => None,
            Some(known) if known.records == table.records => Some(format!("table {} has different content", table.name)),
            Some(known) => Some(format!("table {} has {} records instead of {}", table.name, known.records, table.records)),
            None => Some(format!("table {} is missing", table.name)),
        };
        let surplus = || other.tables.iter().find(|table| !self.tables.iter().any(|known| known.name == table.name));
        self.tables.iter().find_map(other_than).or_else(|| surplus().map(|table| format!("table {} is not expected", table.name)))
    }
}

/// Writes and verifies a copy. Also verifies the records and indexes of `tables`, because a good copy of damaged records is
/// useless.
pub(super) fn write(tx: &ReadTx, path: &Path, tables: &[&'static dyn Checked]) -> Result<SnapshotReport, StoreError> {
    write_through(tx, path, tables, |_| Ok(()))
}

/// Writes the copy. `medium` simulates what may happen to the bytes between writing and reading.
fn write_through(
    tx: &ReadTx,
    path: &Path,
    tables: &[&'static dyn Checked],
    medium: impl FnOnce(&Path) -> std::io::Result<()>,
) -> Result<SnapshotReport, StoreError> {
    if path.exists() {
        return Err(StoreError::Installation(format!("{} already exists: choose another name", path.display())));
    }
    let failed = |error: std::io::Error| StoreError::Installation(format!("{}: {error}", path.display()));
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or_else(|| Path::new("."));
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let temporary = parent.join(format!(".{name}.partial"));
    if temporary.exists() {
        // A previous process ended in the middle of a copy.
        std::fs::remove_file(&temporary).map_err(failed)?;
    }
    let proven = copy(tx, &temporary).and_then(|report| {
        medium(&temporary).and_then(|()| evict_from_cache(&temporary)).map_err(failed)?;
        compare(&report, &temporary, tables)?;
        publish(&temporary, path, parent).map_err(failed).map(|()| report)
    });
    if proven.is_err() && temporary.exists() {
        drop(std::fs::remove_file(&temporary));
    }
    proven
}

/// Reads the copy back and compares it.
fn compare(written: &SnapshotReport, path: &Path, tables: &[&'static dyn Checked]) -> Result<(), StoreError> {
    let read = || -> Result<(SnapshotReport, CheckReport), StoreError> {
        // The engine must outlive the reader, because dropping it closes the file.
        let engine = RedbEngine::open(path, COPY_CACHE_BYTES, None)?;
        let tx = ReadTx::new(engine.begin_read()?);
        Ok((tally(&tx)?, check::run(&tx, tables)?))
    };
    // redb panics on a damaged page.
    let (found, checked) = catch_unwind(AssertUnwindSafe(read))
        .unwrap_or_else(|cause| Err(StoreError::Panicked(panic_text(cause.as_ref()))))
        .map_err(|error| StoreError::Engine(format!("the snapshot cannot be read back: {error}")))?;
    if let Some(problem) = checked.problems.first() {
        return Err(StoreError::Engine(format!("the store itself is damaged: {problem}")));
    }
    match written.difference(&found) {
        None => Ok(()),
        Some(difference) => Err(StoreError::Engine(format!("the snapshot does not match what was written: {difference}"))),
    }
}

/// Syncs a file and drops it from the page cache, so that the next read comes from the disk.
pub(super) fn evict_from_cache(path: &Path) -> std::io::Result<()> {
    let file = std::fs::File::open(path)?;
    file.sync_all()?;
    Ok(rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed)?)
}

/// Counts and digests the content of a snapshot.
pub(super) fn tally(tx: &ReadTx) -> Result<SnapshotReport, StoreError> {
    let mut report = SnapshotReport::default();
    for name in tx.tables()? {
        let (table, mut tally) = (parse(&name)?, Tally::default());
        tx.raw_scan(table, &KeyRange::ALL, Direction::Forward, &mut |key, value| {
            tally.add(key, value);
            Ok(Flow::Continue)
        })?;
        report.tables.push(tally.finish(name));
    }
    Ok(report)
}

fn parse(name: &str) -> Result<RawTable, StoreError> {
    RawTable::parse(name).ok_or_else(|| StoreError::Engine(format!("table {name} is not in the catalog")))
}

#[derive(Default)]
struct Tally {
    records: u64,
    bytes: u64,
    digest: Sha256,
}

impl Tally {
    fn add(&mut self, key: &[u8], value: &[u8]) {
        for part in [key, value] {
            self.digest.update((part.len() as u64).to_le_bytes());
            self.digest.update(part);
        }
        self.records += 1;
        self.bytes += (key.len() + value.len()) as u64;
    }

    fn finish(self, name: String) -> TableTally {
        TableTally { name, records: self.records, bytes: self.bytes, digest: self.digest.finalize().into() }
    }
}

fn publish(temporary: &Path, path: &Path, parent: &Path) -> std::io::Result<()> {
    std::fs::rename(temporary, path)?;
    std::fs::File::open(parent)?.sync_all()
}

fn copy(tx: &ReadTx, path: &Path) -> Result<SnapshotReport, StoreError> {
    let target = RedbEngine::create(path, COPY_CACHE_BYTES)?;
    let mut report = SnapshotReport { position: tx.position(), ..SnapshotReport::default() };
    for name in tx.tables()? {
        let (mut position, mut tally): (Option<Vec<u8>>, _) = (None, Tally::default());
        loop {
            let mut chunk = Changes::default();
            let next = copy_chunk(tx, &name, position.as_deref(), &mut chunk, &mut tally)?;
            target.commit(chunk, Durability::Now)?;
            if next.is_none() {
                break;
            }
            position = next;
        }
        report.tables.push(tally.finish(name));
    }
    target.set_end(report.position)?;
    Ok(report)
}

/// Copies part of a table. Returns the last key copied if there is more.
fn copy_chunk(
    tx: &ReadTx,
    name: &str,
    position: Option<&[u8]>,
    target: &mut Changes,
    tally: &mut Tally,
) -> Result<Option<Vec<u8>>, StoreError> {
    let table = parse(name)?;
    let range = position.map_or(KeyRange::ALL, |key| KeyRange::ALL.after(key, Direction::Forward));
    let mut bytes = 0;
    let mut last = None;
    tx.raw_scan(table, &range, Direction::Forward, &mut |key, value| {
        target.put(table, key.to_vec(), value.to_vec());
        tally.add(key, value);
        bytes += key.len() + value.len();
        if bytes < CHUNK_BYTES {
            return Ok(Flow::Continue);
        }
        last = Some(key.to_vec());
        Ok(Flow::Stop)
    })?;
    Ok(last)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;

    use tenantd_base::quotas::Quotas;

    use super::*;
    use crate::{WriteTx, catalog};

    /// A store with a few pages of records in two tables.
    fn source(directory: &Path) -> RedbEngine {
        let engine = RedbEngine::create(&directory.join("source"), 1 << 20).unwrap();
        let mut tx = WriteTx::new(engine.begin_read().unwrap(), Quotas::UNLIMITED);
        for number in 0..400_u32 {
            tx.raw_put(catalog::USERS.into(), number.to_be_bytes().to_vec(), number.to_le_bytes().repeat(40));
            tx.raw_put(catalog::TENANTS.into(), number.to_be_bytes().to_vec(), b"tenant".to_vec());
        }
        engine.commit(tx.into_changes(), Durability::Now).unwrap();
        engine
    }

    #[test]
    fn a_damaged_copy_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let engine = source(directory.path());
        let tx = ReadTx::new(engine.begin_read().unwrap());
        let truth = tally(&tx).unwrap();
        assert_eq!(truth.records(), 800);
        let (mut refused, mut harmless) = (0, 0);
        for place in 0..120_u64 {
            let path = directory.path().join(format!("copy-{place}"));
            let outcome = write_through(&tx, &path, &[], |temporary| {
                let file = std::fs::OpenOptions::new().read(true).write(true).open(temporary)?;
                let at = (file.metadata()?.len() - 1) * place / 119;
                let mut byte = [0];
                file.read_exact_at(&mut byte, at)?;
                file.write_all_at(&[byte[0] ^ 0x55], at)
            });
            if let Ok(report) = outcome {
                // Not every byte of a redb file is in use.
                assert_eq!(report, truth);
                let copy = RedbEngine::open(&path, 1 << 20, None).unwrap();
                assert_eq!(tally(&ReadTx::new(copy.begin_read().unwrap())).unwrap(), truth);
                harmless += 1;
            } else {
                assert!(!path.exists());
                refused += 1;
            }
        }
        assert!(refused > 0, "{harmless} of 120 did no harm");
        let left: Vec<_> = std::fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert!(!left.iter().any(|name| name.to_string_lossy().ends_with(".partial")), "{left:?}");
    }

    #[test]
    fn a_truncated_or_unwritable_copy_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let engine = source(directory.path());
        let tx = ReadTx::new(engine.begin_read().unwrap());
        let path = directory.path().join("copy");
        let cut = write_through(&tx, &path, &[], |temporary| {
            let file = std::fs::OpenOptions::new().write(true).open(temporary)?;
            file.set_len(file.metadata()?.len() / 2)
        });
        assert!(cut.is_err());
        let broken = write_through(&tx, &path, &[], |_| Err(std::io::Error::other("the disk is gone")));
        assert!(broken.is_err_and(|error| error.to_string().contains("the disk is gone")));
        assert!(!path.exists());
        // A file left behind by a killed process is not an obstacle.
        std::fs::write(directory.path().join(".copy.partial"), b"half").unwrap();
        write(&tx, &path, &[]).unwrap();
    }

    #[test]
    fn a_copy_larger_than_the_cache_is_read_back_whole() {
        let directory = tempfile::tempdir().unwrap();
        let engine = RedbEngine::create(&directory.path().join("source"), 1 << 20).unwrap();
        let mut tx = WriteTx::new(engine.begin_read().unwrap(), Quotas::UNLIMITED);
        let records = 2 * COPY_CACHE_BYTES / (64 << 10);
        for number in 0..u32::try_from(records).unwrap() {
            tx.raw_put(catalog::USERS.into(), number.to_be_bytes().to_vec(), vec![7; 64 << 10]);
        }
        engine.commit(tx.into_changes(), Durability::Now).unwrap();
        let report = write(&ReadTx::new(engine.begin_read().unwrap()), &directory.path().join("copy"), &[]).unwrap();
        assert_eq!(report.records(), records as u64);
    }

    #[test]
    fn the_table_that_differs_is_named() {
        let table =
            |name: &str, records: u64, digest: u8| TableTally { name: name.to_owned(), records, bytes: 1, digest: [digest; 32] };
        let one = SnapshotReport { tables: vec![table("a", 1, 1), table("b", 2, 2)], ..SnapshotReport::default() };
        assert_eq!(one.difference(&one.clone()), None);
        for (other, told) in [
            (vec![table("a", 1, 1)], "table b is missing"),
            (vec![table("a", 1, 1), table("b", 3, 2)], "table b has 3 records instead of 2"),
            (vec![table("a", 1, 9), table("b", 2, 2)], "table a has different content"),
            (vec![table("a", 1, 1), table("b", 2, 2), table("c", 1, 1)], "table c is not expected"),
        ] {
            assert_eq!(one.difference(&SnapshotReport { tables: other, ..one.clone() }).as_deref(), Some(told));
        }
    }
}
