//! Watches the free space of the data directory. Below the second threshold it pauses writes before the disk is really full:
//! a storage engine that meets a full disk during a commit must be restarted, and may fail to start.
//!
//! The volume checks the free space after every few hundred KiB that the store writes. It pauses writes itself and wakes this
//! watch, which decides how to continue. **Invariant:** writes are paused before anyone is notified. They resume
//! automatically once the reserve is complete.

use std::{
    path::Path,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use arc_swap::ArcSwap;
use tokio::sync::Notify;

use tenantd_base::{
    clock::{Clock, Timestamp},
    config,
};
use tenantd_platform::Tenants;
use tenantd_store::{
    Store, Volume, WriteRoom,
    events::{Actor, Intent},
    tasks::{Done, Task, TaskError},
    within_reserve,
};

use super::{
    error::UpkeepError,
    model::{self, Fill, Pace, Sample, Space, Thresholds},
    repo, service,
};

/// For files that other programs write to the volume. The store's own writes trigger checks by their amount.
const PERIOD: Duration = Duration::from_secs(5);

/// The space of the volume that contains a path.
pub(super) fn measure(path: &Path) -> std::io::Result<Space> {
    Space::of(path)
}

/// The known state of the disk, shared with everything that shows it.
#[derive(Debug)]
pub(super) struct Disk {
    settings: ArcSwap<config::Disk>,
    changed: Notify,
    seen: Mutex<Option<Observation>>,
    pace: Mutex<Option<Pace>>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Observation {
    pub(super) sample: Sample,
    /// The number of days until writes are paused.
    pub(super) days_to_full: Option<f64>,
    /// The last state that was reported to the operator. While the disk is exhausted, nothing can be recorded.
    reported: Fill,
}

impl Disk {
    pub(super) fn new(settings: config::Disk) -> Self {
        Self { settings: ArcSwap::from_pointee(settings), changed: Notify::new(), seen: Mutex::default(), pace: Mutex::default() }
    }

    /// Applies new thresholds and triggers a check.
    pub(super) fn reload(&self, settings: config::Disk) {
        self.settings.store(Arc::new(settings));
        self.changed.notify_one();
    }

    pub(super) fn thresholds(&self, total: u64) -> Thresholds {
        Thresholds::new(&self.settings.load(), total)
    }

    pub(super) fn seen(&self) -> Option<Observation> {
        *self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn see(&self, seen: Observation) {
        *self.seen.lock().unwrap_or_else(PoisonError::into_inner) = Some(seen);
    }

    /// The thresholds for the current write speed. While writes are paused, the speed stays unchanged.
    fn thresholds_now(&self, now: Timestamp, total: u64, written: u64, before: Fill) -> Thresholds {
        let mut pace = self.pace.lock().unwrap_or_else(PoisonError::into_inner);
        let known = pace.unwrap_or(Pace::new(now, written));
        let next = if before.is_read_only() { known } else { known.next(now, written, PERIOD) };
        *pace = Some(next);
        self.thresholds(total).at_pace(next.bytes(written), total)
    }

    /// Measures the disk, fills the reserve if there is room, and then pauses or resumes writes.
    fn look(&self, volume: &Volume, before: Fill, now: Timestamp) -> std::io::Result<(Sample, Thresholds)> {
        let found = volume.space()?;
        let thresholds = self.thresholds_now(now, found.total, volume.written(), before);
        volume.watch(thresholds.full, found.total, self.settings.load().reserve_bytes);
        let reserve = volume.reserve();
        let bytes = thresholds.for_reserve(found.free, reserve, before);
        if (bytes > 0 || reserve.left > reserve.wanted)
            && let Err(error) = volume.refill(bytes)
        {
            tracing::warn!(%error, "cannot create the disk reserve");
        }
        let space = volume.space()?;
        let sample = Sample { at: now, space, fill: before.next(space.free, volume.reserve(), thresholds) };
        volume.set_room(match sample.fill {
            Fill::Ample | Fill::Low => WriteRoom::Ample,
            Fill::Full => WriteRoom::Short,
            Fill::Exhausted => WriteRoom::Exhausted,
        });
        Ok((sample, thresholds))
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
    fn log(before: Fill, sample: &Sample, thresholds: Thresholds) {
        let free_bytes = sample.space.free;
        if before == sample.fill {
            return;
        }
        match sample.fill {
            Fill::Ample => tracing::info!(free_bytes, "the disk has room again"),
            Fill::Low => tracing::warn!(free_bytes, mark_bytes = thresholds.low, "the disk is filling up"),
            Fill::Full => tracing::error!(free_bytes, mark_bytes = thresholds.full, "the disk is full: changes are refused"),
            Fill::Exhausted => {
                tracing::error!(free_bytes, "the disk is full and the reserve is used up: changes and deletions are refused");
            }
        }
    }

    fn measure(&self, sample: &Sample) {
        let is = |state: bool| f64::from(u8::from(state));
        metrics::gauge!("tenantd_disk_free_bytes").set(sample.space.free as f64);
        metrics::gauge!("tenantd_disk_total_bytes").set(sample.space.total as f64);
        metrics::gauge!("tenantd_disk_reserve_bytes").set(self.store.volume().reserve().left as f64);
        metrics::gauge!("tenantd_disk_read_only").set(is(sample.fill.is_read_only()));
        metrics::gauge!("tenantd_disk_exhausted").set(is(sample.fill == Fill::Exhausted));
    }

    /// The last known state, including that of the previous process, so that a start with a full disk is not reported again.
    fn before(&self) -> Result<Fill, TaskError> {
        if let Some(seen) = self.disk.seen() {
            return Ok(seen.sample.fill);
        }
        Ok(self.store.read(repo::samples)?.last().map_or(Fill::Ample, |sample| sample.fill))
    }

    /// Takes the first measurement, before any request is answered.
    pub(super) fn begin(&self) -> Result<(), TaskError> {
        self.disk.look(self.store.volume(), self.before()?, self.clock.now()).map(drop).map_err(unmeasured)
    }

    /// Records the measurement, with the event for the operator.
    async fn note(&self, before: Fill, sample: Sample) -> Result<(), UpkeepError> {
        let Some(platform) = self.store.read(|tx| self.tenants.platform(tx))? else { return Ok(()) };
        let intent = Intent::new(platform.id, sample.at, Actor::system("Disk watch"));
        // This write must not wait for free space: it reports the lack of it.
        within_reserve(self.store.write(move |tx| service::record_disk(tx, &mut intent.begin(), before, &sample))).await
    }
}

fn unmeasured(error: std::io::Error) -> TaskError {
    TaskError(format!("cannot measure the disk: {error}"))
}

impl Task for DiskWatch {
    fn name(&self) -> &'static str {
        "disk_watch"
    }

    fn period(&self) -> Duration {
        PERIOD
    }

    async fn wake(&self) {
        tokio::select! {
            () = self.disk.changed.notified() => {}
            () = self.store.volume().changed() => {}
        }
    }

    fn goes_on_when_full(&self) -> bool {
        true
    }

    async fn activate(&self) -> Result<Done, TaskError> {
        let (before, now) = (self.before()?, self.clock.now());
        let reported = self.disk.seen().map_or(before, |seen| seen.reported);
        let (disk, volume) = (self.disk.clone(), self.store.volume().clone());
        // Creating the reserve can take a while.
        let look = tokio::task::spawn_blocking(move || disk.look(&volume, before, now)).await;
        let (sample, thresholds) = look.map_err(|error| TaskError(error.to_string()))?.map_err(unmeasured)?;
        self.measure(&sample);
        Self::log(before, &sample, thresholds);
        let known = self.disk.seen();
        let is_known = |seen: &Observation| repo::hour_of(seen.sample.at) == repo::hour_of(now) && reported == sample.fill;
        if sample.fill == Fill::Exhausted || known.as_ref().is_some_and(is_known) {
            let days_to_full = known.and_then(|known| known.days_to_full);
            let at = known.map_or(now, |known| known.sample.at);
            self.disk.see(Observation { sample: Sample { at, ..sample }, days_to_full, reported });
            return Ok(Done::All);
        }
        self.note(reported, sample).await.map_err(|error| TaskError(error.to_string()))?;
        let days_to_full = model::days_until(self.disk.thresholds(sample.space.total).full, &self.store.read(repo::samples)?);
        metrics::gauge!("tenantd_disk_days_to_full").set(days_to_full.unwrap_or(f64::INFINITY));
        self.disk.see(Observation { sample, days_to_full, reported: sample.fill });
        Ok(Done::All)
    }

    fn concern(&self) -> Option<String> {
        match self.disk.seen()?.sample.fill {
            Fill::Ample => None,
            Fill::Low => Some("the disk is filling up".to_owned()),
            Fill::Full => Some("the disk is full: changes are refused until there is room".to_owned()),
            Fill::Exhausted => Some(
                "the disk is full and the reserve is used up: changes and deletions are refused until there is room".to_owned(),
            ),
        }
    }
}
