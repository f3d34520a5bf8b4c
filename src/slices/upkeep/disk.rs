//! Watches the free space of the data directory. Below the second mark it holds back what would fill the disk, before the disk does: an
//! engine that meets a full disk in the middle of a commit has to be started anew, and may not start.
//!
//! **Invariant:** writes are held back before anyone is told, and go on again by themselves.

use std::{
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use arc_swap::ArcSwap;
use tokio::sync::Notify;

use tenantd_base::{clock::Clock, config};
use tenantd_platform::Tenants;
use tenantd_store::{
    Store,
    events::{Actor, Intent},
    tasks::{Done, Task, TaskError},
};

use super::{
    error::UpkeepError,
    model::{self, Fill, Marks, Sample, Space},
    repo, service,
};

/// Often enough that a burst of writes does not reach the end of the disk between two looks.
const PERIOD: Duration = Duration::from_secs(5);

/// The space of the volume that a path is on.
pub(super) fn measure(path: &Path) -> std::io::Result<Space> {
    let found = rustix::fs::statvfs(path)?;
    Ok(Space { free: found.f_bavail.saturating_mul(found.f_frsize), total: found.f_blocks.saturating_mul(found.f_frsize) })
}

/// What is known of the disk, shared with whoever shows it.
#[derive(Debug)]
pub(super) struct Disk {
    directory: PathBuf,
    settings: ArcSwap<config::Disk>,
    changed: Notify,
    seen: Mutex<Option<Seen>>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Seen {
    pub(super) sample: Sample,
    /// Until changes are refused.
    pub(super) days_to_full: Option<f64>,
}

impl Disk {
    pub(super) fn new(directory: PathBuf, settings: config::Disk) -> Self {
        Self { directory, settings: ArcSwap::from_pointee(settings), changed: Notify::new(), seen: Mutex::default() }
    }

    /// Takes up other marks, and has them looked at at once.
    pub(super) fn reload(&self, settings: config::Disk) {
        self.settings.store(Arc::new(settings));
        self.changed.notify_one();
    }

    pub(super) fn marks(&self, total: u64) -> Marks {
        Marks::new(&self.settings.load(), total)
    }

    pub(super) fn seen(&self) -> Option<Seen> {
        *self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn see(&self, seen: Seen) {
        *self.seen.lock().unwrap_or_else(PoisonError::into_inner) = Some(seen);
    }
}

#[derive(Debug)]
pub(super) struct DiskWatch {
    pub(super) disk: Arc<Disk>,
    pub(super) store: Store,
    pub(super) clock: Clock,
    pub(super) tenants: Tenants,
}

impl DiskWatch {
    fn log(before: Fill, sample: &Sample, marks: Marks) {
        let free_bytes = sample.space.free;
        if before == sample.fill {
            return;
        }
        match sample.fill {
            Fill::Ample => tracing::info!(free_bytes, "the disk has room again"),
            Fill::Low => tracing::warn!(free_bytes, mark_bytes = marks.low, "the disk is filling up"),
            Fill::Full => tracing::error!(free_bytes, mark_bytes = marks.full, "the disk is full: no changes are taken"),
        }
    }

    /// Writes the look down, with what the operator is told of it.
    async fn note(&self, before: Fill, sample: Sample) -> Result<(), UpkeepError> {
        let Some(platform) = self.store.read(|tx| self.tenants.platform(tx))? else { return Ok(()) };
        let intent = Intent::new(platform.id, sample.at, Actor::system("Disk watch"));
        self.store.write(move |tx| service::note_disk(tx, &mut intent.begin(), before, &sample)).await
    }
}

impl Task for DiskWatch {
    fn name(&self) -> &'static str {
        "disk_watch"
    }

    fn period(&self) -> Duration {
        PERIOD
    }

    async fn wake(&self) {
        self.disk.changed.notified().await;
    }

    fn goes_on_when_full(&self) -> bool {
        true
    }

    async fn activate(&self) -> Result<Done, TaskError> {
        let space = measure(&self.disk.directory).map_err(|error| TaskError(format!("the disk cannot be measured: {error}")))?;
        let (now, marks) = (self.clock.now(), self.disk.marks(space.total));
        let last = match self.disk.seen() {
            Some(seen) => Some(seen.sample),
            // A start while the disk is full has been told already.
            None => self.store.read(repo::samples)?.last().copied(),
        };
        let before = last.map_or(Fill::Ample, |sample| sample.fill);
        let sample = Sample { at: now, space, fill: before.next(space.free, marks) };
        self.store.hold_back(sample.fill == Fill::Full);
        metrics::gauge!("tenantd_disk_free_bytes").set(space.free as f64);
        metrics::gauge!("tenantd_disk_total_bytes").set(space.total as f64);
        metrics::gauge!("tenantd_disk_read_only").set(f64::from(u8::from(sample.fill == Fill::Full)));
        let known = self.disk.seen().filter(|seen| repo::hour_of(seen.sample.at) == repo::hour_of(now) && before == sample.fill);
        if let Some(known) = known {
            self.disk.see(Seen { sample: Sample { at: known.sample.at, ..sample }, ..known });
            return Ok(Done::All);
        }
        self.note(before, sample).await.map_err(|error| TaskError(error.to_string()))?;
        Self::log(before, &sample, marks);
        let days_to_full = model::days_until(marks.full, &self.store.read(repo::samples)?);
        metrics::gauge!("tenantd_disk_days_to_full").set(days_to_full.unwrap_or(f64::INFINITY));
        self.disk.see(Seen { sample, days_to_full });
        Ok(Done::All)
    }

    fn concern(&self) -> Option<String> {
        match self.disk.seen()?.sample.fill {
            Fill::Ample => None,
            Fill::Low => Some("the disk is filling up".to_owned()),
            Fill::Full => Some("the disk is full: no changes are taken until there is room".to_owned()),
        }
    }
}
