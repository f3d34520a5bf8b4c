//! The stored results of snapshots and disk measurements. Everything is bounded: the newest runs, and samples of a few weeks.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use tenantd_base::clock::Timestamp;
use tenantd_store::{Direction, Flow, Key, KeyRange, Read, StoreError, Table, WriteTx, catalog, codec::Record};

use super::model::{Fill, Run, RunKind, Sample, Space};

/// The number of runs to keep. Beyond it the oldest are removed, except the newest good one of each kind.
const KEPT_RUNS: usize = 200;
const HOUR_MILLIS: i64 = 3_600_000;
const KEPT_SAMPLE_HOURS: u32 = 28 * 24;
/// The number of samples that are removed at once.
const FORGET_STEP: usize = 100;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct RunRecord {
    path: String,
    millis: u64,
    file_bytes: u64,
    tables: u64,
    records: u64,
    failure: Option<String>,
}

impl Record for RunRecord {
    const VERSION: u8 = 1;
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct SampleRecord {
    at: Timestamp,
    free: u64,
    total: u64,
    fill: u8,
}

impl Record for SampleRecord {
    const VERSION: u8 = 1;
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct WatchRecord {
    since: Timestamp,
}

impl Record for WatchRecord {
    const VERSION: u8 = 1;
}

/// When the run began, and the code of its kind.
type RunKey = (Timestamp, u8);

pub(super) static RUNS: Table<RunKey, RunRecord> = Table::new(catalog::SNAPSHOT_RUNS, &[]);
/// Keyed by hours since 1970.
pub(super) static SAMPLES: Table<u32, SampleRecord> = Table::new(catalog::DISK_SAMPLES, &[]);
pub(super) static WATCH: Table<u8, WatchRecord> = Table::new(catalog::SNAPSHOT_WATCH, &[]);

fn run(key: RunKey, record: RunRecord) -> Option<Run> {
    let RunRecord { path, millis, file_bytes, tables, records, failure } = record;
    let kind = *RunKind::ALL.get(usize::from(key.1))?;
    Some(Run { kind, at: key.0, path, took: Duration::from_millis(millis), file_bytes, tables, records, failure })
}

/// Stores a run and removes the oldest ones.
pub(super) fn put_run(tx: &mut WriteTx, run: &Run) -> Result<(), StoreError> {
    let record = RunRecord {
        path: run.path.clone(),
        millis: u64::try_from(run.took.as_millis()).unwrap_or(u64::MAX),
        file_bytes: run.file_bytes,
        tables: run.tables,
        records: run.records,
        failure: run.failure.clone(),
    };
    let mut key = (run.at, run.kind as u8);
    while RUNS.get(tx, &key)?.is_some() {
        // Two runs at the same moment get different keys.
        key.0 = key.0 + Duration::from_millis(1);
    }
    RUNS.put(tx, &key, &record)?;
    let (mut seen, mut good, mut surplus) = (0, Vec::new(), Vec::new());
    RUNS.scan(tx, &KeyRange::ALL, Direction::Backward, |key, record| {
        seen += 1;
        let newest_good = record.failure.is_none() && !good.contains(&key.1);
        if newest_good {
            good.push(key.1);
        } else if seen > KEPT_RUNS {
            surplus.push(key);
        }
        Ok(Flow::Continue)
    })?;
    surplus.iter().try_for_each(|key| RUNS.remove(tx, key).map(drop))
}

/// The newest run that matches.
pub(super) fn newest(tx: &impl Read, wanted: impl Fn(&Run) -> bool) -> Result<Option<Run>, StoreError> {
    let mut found = None;
    RUNS.scan(tx, &KeyRange::ALL, Direction::Backward, |key, record| {
        found = run(key, record).filter(|run| wanted(run));
        Ok(if found.is_none() { Flow::Continue } else { Flow::Stop })
    })?;
    Ok(found)
}

/// When the watch over snapshots began.
pub(super) fn watched_since(tx: &impl Read) -> Result<Option<Timestamp>, StoreError> {
    Ok(WATCH.get(tx, &0)?.map(|record| record.since))
}

pub(super) fn begin_watch(tx: &mut WriteTx, now: Timestamp) -> Result<(), StoreError> {
    if watched_since(tx)?.is_some() { Ok(()) } else { WATCH.put(tx, &0, &WatchRecord { since: now }) }
}

pub(super) fn hour_of(at: Timestamp) -> u32 {
    u32::try_from(at.as_millis().div_euclid(HOUR_MILLIS)).unwrap_or_default()
}

/// Stores a sample, replacing one of the same hour, and removes old ones.
pub(super) fn put_sample(tx: &mut WriteTx, sample: &Sample) -> Result<(), StoreError> {
    let hour = hour_of(sample.at);
    let Space { free, total } = sample.space;
    SAMPLES.put(tx, &hour, &SampleRecord { at: sample.at, free, total, fill: sample.fill as u8 })?;
    let before = hour.saturating_sub(KEPT_SAMPLE_HOURS).to_bytes();
    for (old, _) in SAMPLES.list(tx, &KeyRange::before(before), FORGET_STEP)? {
        SAMPLES.remove(tx, &old)?;
    }
    Ok(())
}

/// All samples, oldest first.
pub(super) fn samples(tx: &impl Read) -> Result<Vec<Sample>, StoreError> {
    let found = SAMPLES.list(tx, &KeyRange::ALL, usize::MAX)?;
    let sample = |(_, record): (u32, SampleRecord)| {
        let SampleRecord { at, free, total, fill } = record;
        Some(Sample { at, space: Space { free, total }, fill: *Fill::ALL.get(usize::from(fill))? })
    };
    Ok(found.into_iter().filter_map(sample).collect())
}

#[cfg(test)]
mod tests {
    use tenantd_store::codec::assert_golden;

    use super::*;

    #[test]
    fn the_stored_forms_are_unchanged() {
        let at = Timestamp::from_millis(1_767_225_600_000);
        let (path, failure) = ("/var/lib/tenantd/snapshots/a.snapshot".to_owned(), Some("no room".to_owned()));
        assert_golden("snapshot_run", &RunRecord { path, millis: 1500, file_bytes: 1 << 20, tables: 40, records: 900, failure });
        assert_golden("disk_sample", &SampleRecord { at, free: 1 << 30, total: 1 << 34, fill: 1 });
        assert_golden("snapshot_watch", &WatchRecord { since: at });
    }
}
