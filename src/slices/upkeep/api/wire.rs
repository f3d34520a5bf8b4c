//! What came of a snapshot, and how full the disk is, as events and the operator see it.

use poem_openapi::Object;
use serde::Serialize;
use serde_json::{Map, Value, value::to_raw_value};
use serde_with::skip_serializing_none;

use tenantd_base::clock::Timestamp;
use tenantd_http::{openapi, wire::word_type};
use tenantd_store::events::{Describe, Described};

use super::super::model::{self, Fill, RunKind};

word_type! {
    RunKind, "SnapshotRunKind";
    Fill, "DiskState";
}

/// What came of a snapshot of the store, or of the trial of restoring one.
#[skip_serializing_none]
#[derive(Debug, Object, Serialize)]
#[oai(skip_serializing_if_is_none)]
pub(super) struct SnapshotRun {
    kind: RunKind,
    at: Timestamp,
    /// Where the snapshot is, or would have been.
    path: String,
    duration_seconds: f64,
    /// The size of the file.
    #[oai(validator(minimum(value = "0")))]
    file_bytes: u64,
    #[oai(validator(minimum(value = "0")))]
    tables: u64,
    #[oai(validator(minimum(value = "0")))]
    records: u64,
    /// Whether everything was read back and found to be what was written.
    verified: bool,
    /// Why it does not count.
    failure: Option<String>,
}

impl SnapshotRun {
    pub(super) fn new(run: &model::Run) -> Self {
        Self {
            kind: run.kind,
            at: run.at,
            path: run.path.clone(),
            duration_seconds: run.took.as_secs_f64(),
            file_bytes: run.file_bytes,
            tables: run.tables,
            records: run.records,
            verified: run.is_good(),
            failure: run.failure.clone(),
        }
    }
}

/// The space of the disk that the data is on.
#[derive(Debug, Object, Serialize)]
struct DiskSpace {
    /// Whether there is enough space.
    state: Fill,
    /// The free space in bytes.
    #[oai(validator(minimum(value = "0")))]
    free_bytes: u64,
    /// The size of the disk in bytes.
    #[oai(validator(minimum(value = "0")))]
    total_bytes: u64,
}

impl Describe for model::Run {
    fn describe(&self, (): ()) -> Described {
        to_raw_value(&SnapshotRun::new(self))
    }
}

impl Describe for model::Sample {
    fn describe(&self, (): ()) -> Described {
        to_raw_value(&DiskSpace { state: self.fill, free_bytes: self.space.free, total_bytes: self.space.total })
    }
}

/// What was given up of a damaged store.
#[skip_serializing_none]
#[derive(Debug, Object, Serialize)]
#[oai(skip_serializing_if_is_none)]
struct StoreRepair {
    /// What was damaged.
    problem: String,
    /// How many commits are lost. Absent when that cannot be told.
    #[oai(validator(minimum(value = "0")))]
    lost_commits: Option<u64>,
    /// How many events of all tenants are lost with them, as far as that can be told.
    #[oai(validator(minimum(value = "0")))]
    lost_events: u64,
    /// The directory that has the damaged files, and the list of lost events in `loss.json`.
    evidence: String,
}

impl Describe for model::Repair {
    fn describe(&self, (): ()) -> Described {
        let model::Repair { problem, lost_commits, lost_events, evidence } = self.clone();
        to_raw_value(&StoreRepair { problem, lost_commits, lost_events, evidence })
    }
}

pub(crate) fn record_schemas() -> Map<String, Value> {
    let schemas = [openapi::schemas::<SnapshotRun>(), openapi::schemas::<DiskSpace>(), openapi::schemas::<StoreRepair>()];
    schemas.into_iter().flatten().collect()
}
