//! Watches the free space of the data directory. Below the second mark it holds back what would fill the disk, before the disk does: an
//! engine that meets a full disk in the middle of a commit must be restarted, and may not start.
//!
//! The volume looks at the free space after every few hundred KiB that the store writes, holds writes back by itself, and wakes this watch,
//! which decides what comes next. **Invariant:** writes are held back before anyone is told. They go on again by themselves, after the
//! reserve is whole.

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
    model::{self, Fill, Marks, Pace, Sample, Space},
    repo, service,
};

/// For what others write to the volume; what the store writes is looked at by its amount.
const PERIOD: Duration = Duration::from_secs(5);

/// The space of the volume that a path is on.
pub(super) fn measure(path: &Path) -> std::io::Result<Space> {
    Space::of(path)
}

/// What is known of the disk, shared with whoever shows it.
#[derive(Debug)]
pub(super) struct Disk {
    settings: ArcSwap<config::Disk>,
    changed: Notify,
    seen: Mutex<Option<Seen>>,
    pace: Mutex<Option<Pace>>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Seen {
    pub(super) sample: Sample,
    /// Until changes are refused.
    pub(super) days_to_full: Option<f64>,
    /// What the operator was last told. While the disk is exhausted nothing can be written down.
    noted: Fill,
}

impl Disk {
    pub(super) fn new(settings: config::Disk) -> Self {
        Self { settings: ArcSwap::from_pointee(settings), changed: Notify::new(), seen: Mutex::default(), pace: Mutex::default() }
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

    /// The marks at the speed at which the volume is written. While writes are held back, it stays what it was before.
    fn marks_now(&self, now: Timestamp, total: u64, written: u64, before: Fill) -> Marks {
        let mut pace = self.pace.lock().unwrap_or_else(PoisonError::into_inner);
        let known = pace.unwrap_or(Pace::new(now, written));
        let next = if before.is_read_only() { known } else { known.next(now, written, PERIOD) };
        *pace = Some(next);
        self.marks(total).at_pace(next.bytes(written), total)
    }

    /// Looks at the disk, makes the reserve whole if there is room, and then holds writes back or lets them go on.
    fn look(&self, volume: &Volume, before: Fill, now: Timestamp) -> std::io::Result<(Sample, Marks)> {
        let found = volume.space()?;
        let marks = self.marks_now(now, found.total, volume.written(), before);
        volume.watch(marks.full, found.total, self.settings.load().reserve_bytes);
        let reserve = volume.reserve();
        let bytes = marks.for_reserve(found.free, reserve, before);
        if (bytes > 0 || reserve.left > reserve.wanted)
            && let Err(error) = volume.refill(bytes)
        {
            tracing::warn!(%error, "the reserve of the disk cannot be made");
        }
        let space = volume.space()?;
        let sample = Sample { at: now, space, fill: before.next(space.free, volume.reserve(), marks) };
        volume.set_room(match sample.fill {
            Fill::Ample | Fill::Low => WriteRoom::Ample,
            Fill::Full => WriteRoom::Short,
            Fill::Exhausted => WriteRoom::Exhausted,
        });
        Ok((sample, marks))
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
            Fill::Exhausted => {
                tracing::error!(free_bytes, "the disk is full and the reserve is used up: no changes and no deletions are taken");
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

    /// The state that was last seen, also by the process before this one: a start while the disk is full was told already.
    fn before(&self) -> Result<Fill, TaskError> {
        if let Some(seen) = self.disk.seen() {
            return Ok(seen.sample.fill);
        }
        Ok(self.store.read(repo::samples)?.last().map_or(Fill::Ample, |sample| sample.fill))
    }

    /// Looks for the first time, before anything is answered.
    pub(super) fn begin(&self) -> Result<(), TaskError> {
        self.disk.look(self.store.volume(), self.before()?, self.clock.now()).map(drop).map_err(unmeasured)
    }

    /// Writes the look down, with what the operator is told of it.
    async fn note(&self, before: Fill, sample: Sample) -> Result<(), UpkeepError> {
        let Some(platform) = self.store.read(|tx| self.tenants.platform(tx))? else { return Ok(()) };
        let intent = Intent::new(platform.id, sample.at, Actor::system("Disk watch"));
        // It must not wait for the room that only it can find.
        within_reserve(self.store.write(move |tx| service::note_disk(tx, &mut intent.begin(), before, &sample))).await
    }
}

fn unmeasured(error: std::io::Error) -> TaskError {
    TaskError(format!("the disk cannot be measured: {error}"))
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
        let noted = self.disk.seen().map_or(before, |seen| seen.noted);
        let (disk, volume) = (self.disk.clone(), self.store.volume().clone());
        // To make the reserve can take a while.
        let look = tokio::task::spawn_blocking(move || disk.look(&volume, before, now)).await;
        let (sample, marks) = look.map_err(|error| TaskError(error.to_string()))?.map_err(unmeasured)?;
        self.measure(&sample);
        Self::log(before, &sample, marks);
        let known = self.disk.seen();
        let is_known = |seen: &Seen| repo::hour_of(seen.sample.at) == repo::hour_of(now) && noted == sample.fill;
        if sample.fill == Fill::Exhausted || known.as_ref().is_some_and(is_known) {
            let days_to_full = known.and_then(|known| known.days_to_full);
            let at = known.map_or(now, |known| known.sample.at);
            self.disk.see(Seen { sample: Sample { at, ..sample }, days_to_full, noted });
            return Ok(Done::All);
        }
        self.note(noted, sample).await.map_err(|error| TaskError(error.to_string()))?;
        let days_to_full = model::days_until(self.disk.marks(sample.space.total).full, &self.store.read(repo::samples)?);
        metrics::gauge!("tenantd_disk_days_to_full").set(days_to_full.unwrap_or(f64::INFINITY));
        self.disk.see(Seen { sample, days_to_full, noted: sample.fill });
        Ok(Done::All)
    }

    fn concern(&self) -> Option<String> {
        match self.disk.seen()?.sample.fill {
            Fill::Ample => None,
            Fill::Low => Some("the disk is filling up".to_owned()),
            Fill::Full => Some("the disk is full: no changes are taken until there is room".to_owned()),
            Fill::Exhausted => Some(
                "the disk is full and the reserve is used up: no changes and no deletions are taken until there is room".to_owned(),
            ),
        }
    }
}
