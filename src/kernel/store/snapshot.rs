//! A consistent copy of the live store in a new file: one read snapshot, copied table by table in key order. The copy appears
//! under its name only when it is complete, on the disk, and was read back to be the same, record by record.

use std::path::Path;

use sha2::{Digest, Sha256};

use super::{
    RedbEngine,
    changes::Changes,
    engine::{Direction, Engine, Flow, KeyRange, RawTable},
    error::StoreError,
    transaction::{Read, ReadTx},
};

/// How many bytes go into one transaction of the copy.
const CHUNK_BYTES: usize = 8 << 20;
const COPY_CACHE_BYTES: usize = 16 << 20;

/// What was copied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SnapshotReport {
    pub tables: usize,
    pub records: u64,
    pub bytes: u64,
    /// Over every record with its table and its key, in their order.
    pub digest: [u8; 32],
}

pub(super) fn write(tx: &ReadTx, path: &Path) -> Result<SnapshotReport, StoreError> {
    if path.exists() {
        return Err(StoreError::Installation(format!("{} exists already: choose another name", path.display())));
    }
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or_else(|| Path::new("."));
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let temporary = parent.join(format!(".{name}.partial"));
    let copied = copy(tx, &temporary).and_then(|report| {
        compare(&report, &temporary)?;
        publish(&temporary, path, parent).map(|()| report)
    });
    if copied.is_err() && temporary.exists() {
        drop(std::fs::remove_file(&temporary));
    }
    copied
}

/// Reads the copy from its file.
fn compare(written: &SnapshotReport, path: &Path) -> Result<(), StoreError> {
    let found = tally(&ReadTx::new(RedbEngine::open(path, COPY_CACHE_BYTES, None)?.begin_read()?))?;
    if found == *written {
        return Ok(());
    }
    let (wrote, read) = (written.records, found.records);
    Err(StoreError::Engine(format!("the snapshot is not what was written: {wrote} records went in and {read} came out, or others")))
}

/// Counts and digests everything that a snapshot holds.
fn tally(tx: &ReadTx) -> Result<SnapshotReport, StoreError> {
    let mut tally = Tally::default();
    for name in tx.tables()? {
        let table = parse(&name)?;
        tx.raw_scan(table, &KeyRange::ALL, Direction::Forward, &mut |key, value| {
            tally.add(&name, key, value);
            Ok(Flow::Continue)
        })?;
        tally.report.tables += 1;
    }
    Ok(tally.finish())
}

fn parse(name: &str) -> Result<RawTable, StoreError> {
    RawTable::parse(name).ok_or_else(|| StoreError::Engine(format!("table {name} is not in the catalogue")))
}

#[derive(Default)]
struct Tally {
    report: SnapshotReport,
    digest: Sha256,
}

impl Tally {
    fn add(&mut self, table: &str, key: &[u8], value: &[u8]) {
        for part in [table.as_bytes(), key, value] {
            self.digest.update((part.len() as u64).to_le_bytes());
            self.digest.update(part);
        }
        self.report.records += 1;
        self.report.bytes += (key.len() + value.len()) as u64;
    }

    fn finish(self) -> SnapshotReport {
        SnapshotReport { digest: self.digest.finalize().into(), ..self.report }
    }
}

fn publish(temporary: &Path, path: &Path, parent: &Path) -> Result<(), StoreError> {
    let publish = || -> std::io::Result<()> {
        std::fs::File::open(temporary)?.sync_all()?;
        std::fs::rename(temporary, path)?;
        std::fs::File::open(parent)?.sync_all()
    };
    publish().map_err(|error| StoreError::Installation(format!("{}: {error}", path.display())))
}

fn copy(tx: &ReadTx, path: &Path) -> Result<SnapshotReport, StoreError> {
    let target = RedbEngine::create(path, COPY_CACHE_BYTES)?;
    let mut tally = Tally::default();
    for name in tx.tables()? {
        let mut position: Option<Vec<u8>> = None;
        loop {
            let mut chunk = Changes::default();
            let next = copy_chunk(tx, &name, position.as_deref(), &mut chunk, &mut tally)?;
            target.commit(chunk)?;
            if next.is_none() {
                break;
            }
            position = next;
        }
        tally.report.tables += 1;
    }
    Ok(tally.finish())
}

/// The last key copied when there is more of the table.
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
        tally.add(name, key, value);
        bytes += key.len() + value.len();
        if bytes < CHUNK_BYTES {
            return Ok(Flow::Continue);
        }
        last = Some(key.to_vec());
        Ok(Flow::Stop)
    })?;
    Ok(last)
}
