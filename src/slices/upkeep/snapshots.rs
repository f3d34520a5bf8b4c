//! Verified snapshots: each is written, read back from disk and compared before it counts, and its result is recorded. Also
//! watches the age of the newest snapshot. Only one snapshot is written at a time.

use std::{
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use tenantd_base::clock::{Clock, Timestamp};
use tenantd_platform::Tenants;
use tenantd_store::{
    Installation, Rotation, SnapshotReport, Store, StoreError, catalog,
    events::Intent,
    tasks::{Done, Task, TaskError},
};

use super::{
    disk::{Disk, measure},
    error::UpkeepError,
    model::{Run, RunKind},
    repo, service,
};

/// A copy is larger than its original by at most one part in this many.
const SLACK: u64 = 16;

/// The maximum size of a snapshot, and the free space at its destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    pub needed: u64,
    pub free: u64,
}

/// Measures the space for a snapshot at `path`. On the volume of the store, space below the threshold does not count.
pub(super) fn room(store_file: &Path, disk: &Disk, path: &Path) -> std::io::Result<Room> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or_else(|| Path::new("."));
    let (store, space) = (std::fs::metadata(store_file)?, measure(parent)?);
    let reserved = if store.dev() == std::fs::metadata(parent)?.dev() { disk.thresholds(space.total).full } else { 0 };
    Ok(Room { needed: store.len() + store.len() / SLACK, free: space.free.saturating_sub(reserved) })
}

/// The outcome of a snapshot.
#[derive(Debug)]
pub struct SnapshotOutcome {
    pub run: Run,
    pub report: Result<SnapshotReport, UpkeepError>,
}

/// Writes a snapshot and returns the outcome, without recording it.
#[allow(clippy::disallowed_methods, reason = "how long it takes is measured in monotonic time")]
pub(super) async fn take(store: &Store, at: (&Path, &Disk), path: PathBuf, kind: RunKind, now: Timestamp) -> SnapshotOutcome {
    let started = Instant::now();
    let report = write(store, at, &path).await;
    let file_bytes = std::fs::metadata(&path).map_or(0, |data| data.len());
    let run = Run {
        kind,
        at: now,
        path: path.display().to_string(),
        took: started.elapsed(),
        file_bytes: if report.is_ok() { file_bytes } else { 0 },
        tables: report.as_ref().map_or(0, |report| report.tables.len() as u64),
        records: report.as_ref().map_or(0, SnapshotReport::records),
        failure: report.as_ref().err().map(ToString::to_string),
    };
    SnapshotOutcome { run, report }
}

async fn write(store: &Store, (store_file, disk): (&Path, &Disk), path: &Path) -> Result<SnapshotReport, UpkeepError> {
    let place = |error: std::io::Error| UpkeepError::Place(format!("{}: {error}", path.display()));
    let Room { needed, free } = room(store_file, disk, path).map_err(place)?;
    if free < needed {
        return Err(UpkeepError::NoRoom { place: path.display().to_string(), needed, free });
    }
    store.snapshot(path.to_owned()).await.map_err(|error| match error {
        StoreError::Installation(reason) => UpkeepError::Place(reason),
        other => UpkeepError::Unproven(other),
    })
}

/// Takes snapshots of the live store and records their results.
#[derive(Clone, Debug)]
pub struct Snapshots {
    pub(super) store: Store,
    pub(super) clock: Clock,
    pub(super) store_file: PathBuf,
    pub(super) disk: Arc<Disk>,
    pub(super) tenants: Tenants,
    pub(super) busy: Arc<tokio::sync::Mutex<()>>,
    pub(super) rotation: Rotation,
}

impl Snapshots {
    /// Takes a snapshot and records the result.
    pub(super) async fn take(&self, intent: Intent, path: PathBuf) -> Result<SnapshotOutcome, UpkeepError> {
        let taken = self.take_unrecorded(path, RunKind::Snapshot).await?;
        self.note(intent, taken.run.clone()).await?;
        Ok(taken)
    }

    /// Takes a snapshot. The caller records the result.
    pub(super) async fn take_unrecorded(&self, path: PathBuf, kind: RunKind) -> Result<SnapshotOutcome, UpkeepError> {
        let _one = self.busy.try_lock().map_err(|_| UpkeepError::Busy)?;
        if self.rotation.status()?.under_way.is_some() {
            return Err(UpkeepError::KeyChanges);
        }
        let at = (self.store_file.as_path(), self.disk.as_ref());
        Ok(take(&self.store, at, path, kind, self.clock.now()).await)
    }

    /// The format of the store, and the size of its file.
    pub(super) fn store_format(&self) -> Result<(u32, u64), UpkeepError> {
        let format = self.store.read(Installation::read)?.format;
        let data = std::fs::metadata(&self.store_file);
        let data = data.map_err(|error| UpkeepError::Place(format!("{}: {error}", self.store_file.display())))?;
        Ok((format, data.len()))
    }

    /// Records the result of a run, and reports it to the operator.
    pub async fn note(&self, mut intent: Intent, run: Run) -> Result<(), UpkeepError> {
        if let Some(failure) = &run.failure {
            let what = run.kind.name();
            tracing::error!(what, path = run.path, failure, "a snapshot failed");
            metrics::counter!("tenantd_backup_failures_total", "kind" => what).increment(1);
        }
        let Some(platform) = self.store.read(|tx| self.tenants.platform(tx))? else { return Ok(()) };
        intent.tenant_id = platform.id;
        self.store.write(move |tx| service::record_run(tx, &mut intent.begin(), &run)).await
    }
}

/// Watches the age of the newest good snapshot.
#[derive(Debug)]
pub(super) struct SnapshotWatch {
    pub(super) store: Store,
    pub(super) clock: Clock,
    /// The maximum age. `None` disables the check.
    pub(super) limit: Option<Duration>,
    concern: Mutex<Option<String>>,
    /// The version of the runs at the last activation.
    seen: AtomicU64,
}

impl SnapshotWatch {
    pub(super) fn new(store: Store, clock: Clock, limit: Option<Duration>) -> Self {
        Self { store, clock, limit, concern: Mutex::default(), seen: AtomicU64::new(0) }
    }
}

fn hours(span: Duration) -> u64 {
    span.as_secs() / 3600
}

impl Task for SnapshotWatch {
    fn name(&self) -> &'static str {
        "snapshot_watch"
    }

    fn period(&self) -> Duration {
        Duration::from_mins(1)
    }

    async fn wake(&self) {
        self.store.changed(catalog::SNAPSHOT_RUNS, self.seen.load(Ordering::SeqCst)).await;
    }

    fn goes_on_when_full(&self) -> bool {
        true
    }

    async fn activate(&self) -> Result<Done, TaskError> {
        self.seen.store(self.store.version(catalog::SNAPSHOT_RUNS), Ordering::SeqCst);
        let now = self.clock.now();
        let (newest, drill, since) = self.store.read(|tx| {
            let drill = repo::newest(tx, |run| run.kind == RunKind::Drill && run.is_good())?;
            Ok::<_, StoreError>((repo::newest(tx, Run::is_snapshot)?, drill, repo::watched_since(tx)?))
        })?;
        if since.is_none() {
            self.store.write(move |tx| repo::begin_watch(tx, now)).await?;
        }
        for kind in RunKind::ALL {
            metrics::counter!("tenantd_backup_failures_total", "kind" => kind.name()).increment(0);
        }
        let age = newest.as_ref().map(|run| now.since(run.at));
        if let Some(age) = age {
            metrics::gauge!("tenantd_last_verified_backup_age_seconds").set(age.as_secs_f64());
        }
        if let Some(drill) = drill {
            metrics::gauge!("tenantd_last_restore_drill_age_seconds").set(now.since(drill.at).as_secs_f64());
        }
        // Without a snapshot, count from the start of the watch.
        let unprotected = age.unwrap_or_else(|| now.since(since.unwrap_or(now)));
        let concern = self.limit.filter(|limit| unprotected > *limit).map(|limit| {
            let limit = hours(limit);
            match age {
                Some(age) => format!("the newest good snapshot is {} hours old; the limit is {limit}", hours(age)),
                None => format!("there is no good snapshot after {limit} hours"),
            }
        });
        *self.concern.lock().unwrap_or_else(PoisonError::into_inner) = concern;
        Ok(Done::All)
    }

    fn concern(&self) -> Option<String> {
        self.concern.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
