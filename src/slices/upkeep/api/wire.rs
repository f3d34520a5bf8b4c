//! The results of snapshots and the state of the disk, for events and operators.

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

/// The result of a snapshot of the store, or of a restore drill.
#[skip_serializing_none]
#[derive(Debug, Object, Serialize)]
#[oai(skip_serializing_if_is_none)]
pub(super) struct SnapshotRun {
    kind: RunKind,
    at: Timestamp,
    /// The path of the snapshot, even if it was not written.
    path: String,
    duration_seconds: f64,
    /// The size of the snapshot file in bytes.
    #[oai(validator(minimum(value = "0")))]
    file_bytes: u64,
    #[oai(validator(minimum(value = "0")))]
    tables: u64,
    #[oai(validator(minimum(value = "0")))]
    records: u64,
    /// Whether the snapshot was read back and is correct.
    verified: bool,
    /// Why the run failed. Absent if it succeeded.
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

/// The space of the disk that contains the data directory.
#[derive(Debug, Object, Serialize)]
struct DiskSpace {
    /// How full the disk is.
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

/// What was lost when a damaged store was repaired.
#[skip_serializing_none]
#[derive(Debug, Object, Serialize)]
#[oai(skip_serializing_if_is_none)]
struct StoreRepair {
    /// What was damaged.
    problem: String,
    /// The number of lost commits. Absent if it is unknown.
    #[oai(validator(minimum(value = "0")))]
    lost_commits: Option<u64>,
    /// The number of lost events of all tenants, as far as it is known.
    #[oai(validator(minimum(value = "0")))]
    lost_events: u64,
    /// The directory with the damaged files. Its file `loss.json` lists the lost events.
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
