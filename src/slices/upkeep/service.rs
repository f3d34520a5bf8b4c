//! Records the results of snapshots and disk measurements, together with the events for the operator.

use tenantd_base::access::{Grants, Scope};
use tenantd_store::{
    WriteTx,
    events::{self, Act, Describe, Draft, EventKind},
};

use super::{
    error::UpkeepError,
    model::{Fill, Repair, Run, RunKind, Sample},
    repo,
};

pub(super) static SNAPSHOT_VERIFIED: EventKind = EventKind {
    name: "snapshot.verified",
    summary: "A snapshot of the store was written, read back and verified. In the platform tenant's feed.",
    subject: "run",
    schema: "SnapshotRun",
    reads: Grants::of(&[Scope::PlatformRead]),
    has_changes: false,
};
pub(super) static SNAPSHOT_FAILED: EventKind = EventKind {
    name: "snapshot.failed",
    summary: "A snapshot of the store could not be written, or was invalid. In the platform tenant's feed.",
    ..SNAPSHOT_VERIFIED
};
pub(super) static DRILL_PASSED: EventKind = EventKind {
    name: "drill.passed",
    summary: "A drill restored, checked and opened a snapshot. In the platform tenant's feed.",
    ..SNAPSHOT_VERIFIED
};
pub(super) static DRILL_FAILED: EventKind = EventKind {
    name: "drill.failed",
    summary: "A drill failed to restore a snapshot. In the platform tenant's feed.",
    ..SNAPSHOT_VERIFIED
};
pub(super) static DISK_LOW: EventKind = EventKind {
    name: "disk.low",
    summary: "The disk of the installation is filling up. In the platform tenant's feed.",
    subject: "disk",
    schema: "DiskSpace",
    reads: Grants::of(&[Scope::PlatformRead]),
    has_changes: false,
};
pub(super) static DISK_FULL: EventKind = EventKind {
    name: "disk.full",
    summary: "The disk is full, and the installation refuses changes until there is room. In the platform tenant's feed.",
    ..DISK_LOW
};
pub(super) static DISK_RECOVERED: EventKind =
    EventKind { name: "disk.recovered", summary: "The disk has room again. In the platform tenant's feed.", ..DISK_LOW };

pub(super) static STORE_REPAIRED: EventKind = EventKind {
    name: "store.repaired",
    summary: "The store was damaged. The operator repaired it and accepted the losses. In the platform tenant's feed.",
    subject: "repair",
    schema: "StoreRepair",
    reads: Grants::of(&[Scope::PlatformRead]),
    has_changes: false,
};

/// Reports that a damaged store continues without the lost records. `act` is in the platform tenant.
pub(super) fn report_repair(tx: &mut WriteTx, act: &mut Act, repair: &Repair) -> Result<(), UpkeepError> {
    let shown = repair.describe(())?;
    events::append(tx, act, &Draft::new(&STORE_REPAIRED, "data".to_owned(), 1, &shown))?;
    Ok(())
}

/// Stores the result of a run. `act` is in the platform tenant.
pub(super) fn record_run(tx: &mut WriteTx, act: &mut Act, run: &Run) -> Result<(), UpkeepError> {
    repo::put_run(tx, run)?;
    let kind = match (run.kind, run.is_good()) {
        (RunKind::Drill, true) => &DRILL_PASSED,
        (RunKind::Drill, false) => &DRILL_FAILED,
        (_, true) => &SNAPSHOT_VERIFIED,
        (_, false) => &SNAPSHOT_FAILED,
    };
    let shown = run.describe(())?;
    let draft = Draft::new(kind, run.at.to_string(), 1, &shown);
    events::append(tx, act, &draft)?;
    Ok(())
}

/// Stores a measurement of the disk, and reports a change of its state. `act` is in the platform tenant.
pub(super) fn record_disk(tx: &mut WriteTx, act: &mut Act, before: Fill, sample: &Sample) -> Result<(), UpkeepError> {
    repo::put_sample(tx, sample)?;
    let kind = match (before, sample.fill) {
        (before, now) if before == now => return Ok(()),
        (_, Fill::Ample) => &DISK_RECOVERED,
        (_, Fill::Low) => &DISK_LOW,
        (_, Fill::Full | Fill::Exhausted) => &DISK_FULL,
    };
    let shown = sample.describe(())?;
    let draft = Draft::new(kind, "data".to_owned(), 1, &shown);
    events::append(tx, act, &draft)?;
    Ok(())
}
