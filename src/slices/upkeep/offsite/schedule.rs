//! Schedules off-site backups, and watches the age of the newest one. Both use the stored runs, so a restart changes nothing.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::{sync::Notify, task::JoinHandle};

use tenantd_base::{clock::Timestamp, config};
use tenantd_store::{
    StoreError, catalog,
    events::{Actor, Intent},
    tasks::{Done, Task, TaskError},
    within_reserve,
};

use super::{
    super::{
        error::UpkeepError,
        model::{Run, RunKind},
        repo,
    },
    error::OffsiteError,
    writer::Offsite,
};

/// The time between a failure and the next attempt.
const RETRY: Duration = Duration::from_hours(1);
/// The minimum time between two backups if commits since the last one were lost.
const REPEAT: Duration = Duration::from_mins(5);
/// Smaller clock adjustments are ignored.
const AHEAD: Duration = Duration::from_mins(5);

#[derive(Debug)]
pub(crate) struct OffsiteSchedule {
    offsite: Offsite,
    /// `None` if backups are started externally.
    every: Option<Duration>,
    /// The maximum age of the newest backup. `None` disables the check.
    limit: Option<Duration>,
    progress: Arc<Progress>,
    running: Mutex<Option<JoinHandle<()>>>,
    concern: Mutex<Option<String>>,
    /// The version of the runs at the last activation.
    seen: AtomicU64,
}

#[derive(Debug, Default)]
struct Progress {
    is_on: AtomicBool,
    ended: Notify,
}

/// Whether a backup is due, given the start of the newest good backup and of the newest one of all. Lost commits make it due early.
fn is_due(now: Timestamp, newest_good: Option<Timestamp>, newest: Option<Timestamp>, every: Duration, complete: bool) -> bool {
    let over = |since: Option<Timestamp>, span: Duration| since.is_none_or(|since| now.since(since) >= span);
    let wait = if complete || newest != newest_good { RETRY } else { REPEAT };
    (!complete || over(newest_good, every)) && over(newest, wait.min(every))
}

/// The concern is public, so it does not reveal where backups are stored. Operators see the failure of the run next to it.
fn concern(now: Timestamp, newest_good: Option<Timestamp>, newest: Option<&Run>, limit: Option<Duration>) -> Option<String> {
    let hours = |span: Duration| span.as_secs() / 3600;
    if newest.is_some_and(|run| !run.is_good()) {
        return Some("the newest off-site backup failed".to_owned());
    }
    match (newest_good.map(|at| now.since(at)), limit?) {
        (None, _) => Some("there is no off-site backup yet".to_owned()),
        (Some(age), limit) if age > limit => {
            let (age, limit) = (hours(age), hours(limit));
            Some(format!("the newest off-site backup is {age} hours old; the limit is {limit}"))
        }
        _ => None,
    }
}

impl OffsiteSchedule {
    pub(crate) fn new(offsite: Offsite, settings: &config::Offsite) -> Self {
        let span = |hours: u32| (hours > 0).then(|| Duration::from_hours(hours.into()));
        Self {
            offsite,
            every: span(settings.every_hours),
            limit: span(settings.max_age_hours),
            progress: Arc::default(),
            running: Mutex::default(),
            concern: Mutex::default(),
            seen: AtomicU64::new(0),
        }
    }

    /// Starts a separate task, so that a server shutdown does not wait for it.
    fn begin(&self) -> Result<(), StoreError> {
        let snapshots = &self.offsite.snapshots;
        let Some(platform) = snapshots.store.read(|tx| snapshots.tenants.platform(tx))? else { return Ok(()) };
        let progress = self.progress.clone();
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        if progress.is_on.load(Ordering::SeqCst) && running.as_ref().is_some_and(|running| !running.is_finished()) {
            return Ok(());
        }
        progress.is_on.store(true, Ordering::SeqCst);
        let intent = Intent::new(platform.id, snapshots.clock.now(), Actor::system("Off-site backup"));
        let offsite = self.offsite.clone();
        *running = Some(tokio::spawn(within_reserve(async move {
            let outcome = offsite.back_up(intent).await;
            progress.is_on.store(false, Ordering::SeqCst);
            match outcome {
                Ok(stored) => {
                    tracing::info!(place = stored.run.path, removed = stored.removed, "an off-site backup is complete");
                    // The next backup may have become due in the meantime.
                    progress.ended.notify_one();
                }
                // It is retried within a minute.
                Err(OffsiteError::Snapshot(UpkeepError::Busy | UpkeepError::KeyChanges)) => {}
                Err(error) => tracing::error!(%error, "an off-site backup failed"),
            }
        })));
        Ok(())
    }
}

impl Task for OffsiteSchedule {
    fn name(&self) -> &'static str {
        "snapshot_offsite"
    }

    fn period(&self) -> Duration {
        Duration::from_mins(1)
    }

    async fn wake(&self) {
        tokio::select! {
            () = self.offsite.snapshots.store.changed(catalog::SNAPSHOT_RUNS, self.seen.load(Ordering::SeqCst)) => {}
            () = self.progress.ended.notified() => {}
        }
    }

    fn goes_on_when_full(&self) -> bool {
        true
    }

    async fn activate(&self) -> Result<Done, TaskError> {
        let snapshots = &self.offsite.snapshots;
        self.seen.store(snapshots.store.version(catalog::SNAPSHOT_RUNS), Ordering::SeqCst);
        // A later run was recorded while the clock was ahead, so ignore it.
        let horizon = snapshots.clock.now() + AHEAD;
        let counts = |run: &Run| run.kind == RunKind::Offsite && run.at <= horizon;
        let (good, newest) = snapshots.store.read(|tx| {
            let good = repo::newest(tx, |run| counts(run) && run.is_good())?;
            Ok::<_, StoreError>((good, repo::newest(tx, counts)?))
        })?;
        let (now, good_at, newest_at) = (snapshots.clock.now(), good.map(|run| run.at), newest.as_ref().map(|run| run.at));
        if let Some(at) = good_at {
            metrics::gauge!("tenantd_last_offsite_backup_age_seconds").set(now.since(at).as_secs_f64());
        }
        *self.concern.lock().unwrap_or_else(PoisonError::into_inner) = concern(now, good_at, newest.as_ref(), self.limit);
        let complete = self.offsite.is_complete()?;
        if self.every.is_some_and(|every| is_due(now, good_at, newest_at, every, complete)) {
            self.begin()?;
        }
        Ok(Done::All)
    }

    fn concern(&self) -> Option<String> {
        self.concern.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// An interrupted backup starts again after the next start.
    async fn finish(&self) -> Result<(), TaskError> {
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(running) = running {
            running.abort();
            drop(running.await);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: Duration = Duration::from_hours(24);

    fn at(hours: i64) -> Timestamp {
        Timestamp::from_millis(1_767_225_600_000 + hours * 3_600_000)
    }

    #[test]
    fn a_backup_is_due_after_the_interval_and_a_retry_after_a_wait() {
        assert!(is_due(at(0), None, None, DAY, true));
        assert!(!is_due(at(23), Some(at(0)), Some(at(0)), DAY, true));
        assert!(is_due(at(24), Some(at(0)), Some(at(0)), DAY, true));
        assert!(!is_due(at(30), Some(at(0)), Some(at(30)), DAY, true), "it has just failed");
        assert!(is_due(at(31), Some(at(0)), Some(at(30)), DAY, true));
        assert!(!is_due(at(0), None, Some(at(0)), DAY, true));
        let minutes = |minutes: u64| at(0) + Duration::from_mins(minutes);
        assert!(!is_due(minutes(4), Some(at(0)), Some(at(0)), DAY, false), "commits were lost again");
        assert!(is_due(minutes(5), Some(at(0)), Some(at(0)), DAY, false), "commits were lost");
        assert!(!is_due(at(1), Some(at(0)), Some(at(1)), DAY, false), "and a backup has just failed");
    }

    #[test]
    fn an_old_missing_or_failed_backup_is_a_concern() {
        let run = |failure: Option<&str>| Run {
            kind: RunKind::Offsite,
            at: at(0),
            path: String::new(),
            took: Duration::ZERO,
            file_bytes: 0,
            tables: 0,
            records: 0,
            failure: failure.map(str::to_owned),
        };
        let limit = Some(2 * DAY);
        assert_eq!(concern(at(48), Some(at(0)), Some(&run(None)), limit), None);
        assert!(concern(at(49), Some(at(0)), Some(&run(None)), limit).unwrap().contains("49 hours old; the limit is 48"));
        assert!(concern(at(1), None, None, limit).unwrap().contains("no off-site backup"));
        assert_eq!(concern(at(1), None, None, None), None);
        assert_eq!(
            concern(at(1), Some(at(0)), Some(&run(Some("no route to 10.0.0.5"))), None).unwrap(),
            "the newest off-site backup failed"
        );
    }
}
