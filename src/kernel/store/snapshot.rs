//! A consistent copy of the live store in a new file: one read snapshot, copied table by table in key order. The copy appears
//! under its name only when it is complete and on the disk.

use std::path::Path;

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
}

pub(super) fn write(tx: &ReadTx, path: &Path) -> Result<SnapshotReport, StoreError> {
    if path.exists() {
        return Err(StoreError::Installation(format!("{} exists already: choose another name", path.display())));
    }
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or_else(|| Path::new("."));
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let temporary = parent.join(format!(".{name}.partial"));
    let copied = copy(tx, &temporary).and_then(|report| publish(&temporary, path, parent).map(|()| report));
    if copied.is_err() && temporary.exists() {
        drop(std::fs::remove_file(&temporary));
    }
    copied
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
    let mut report = SnapshotReport::default();
    for name in tx.tables()? {
        let table = RawTable::parse(&name).ok_or_else(|| StoreError::Engine(format!("table {name} is not in the catalogue")))?;
        let mut position: Option<Vec<u8>> = None;
        loop {
            let mut chunk = Changes::default();
            let next = copy_chunk(tx, table, position.as_deref(), &mut chunk, &mut report)?;
            target.commit(chunk)?;
            if next.is_none() {
                break;
            }
            position = next;
        }
        report.tables += 1;
    }
    Ok(report)
}

/// The last key copied when there is more of the table.
fn copy_chunk(
    tx: &ReadTx,
    table: RawTable,
    position: Option<&[u8]>,
    target: &mut Changes,
    report: &mut SnapshotReport,
) -> Result<Option<Vec<u8>>, StoreError> {
    let range = position.map_or(KeyRange::ALL, |key| KeyRange::ALL.after(key, Direction::Forward));
    let mut bytes = 0;
    let mut last = None;
    tx.raw_scan(table, &range, Direction::Forward, &mut |key, value| {
        target.put(table, key.to_vec(), value.to_vec());
        bytes += key.len() + value.len();
        report.records += 1;
        if bytes < CHUNK_BYTES {
            return Ok(Flow::Continue);
        }
        last = Some(key.to_vec());
        Ok(Flow::Stop)
    })?;
    report.bytes += bytes as u64;
    Ok(last)
}
