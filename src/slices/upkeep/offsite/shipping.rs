//! Sends commits to the place of the backups, every so many seconds, so that little is lost with the host.

use std::{
    collections::BTreeSet,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use tenantd_base::clock::Timestamp;
use tenantd_store::{
    Installation, JournalId, OutgoingDirectory, SegmentName,
    tasks::{Done, Task, TaskError},
    verify_segment,
};

use super::{error::OffsiteError, place::show_installation, writer::Offsite};

/// The status is degraded when commits have waited for so many periods.
const LATE_PERIODS: u32 = 10;
/// A stop of the server waits this long for the last commits to leave.
const LAST_WAIT: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub(crate) struct Shipping {
    offsite: Offsite,
    outgoing: OutgoingDirectory,
    period: Duration,
    /// Every commit up to this time has left the host. At first: when the server was started.
    shipped_at: Mutex<Timestamp>,
    incomplete: Mutex<bool>,
    /// The openings of the store that were compared with what is in the place.
    compared: Mutex<BTreeSet<JournalId>>,
}

impl Shipping {
    /// `None`: no commits are to leave the host.
    pub(crate) fn new(offsite: &Offsite, seconds: u32) -> Option<Self> {
        Some(Self {
            outgoing: offsite.outgoing.clone()?,
            period: Duration::from_secs(seconds.into()),
            shipped_at: Mutex::new(offsite.snapshots.clock.now()),
            incomplete: Mutex::default(),
            compared: Mutex::default(),
            offsite: offsite.clone(),
        })
    }

    async fn ship(&self) -> Result<(), OffsiteError> {
        let store = &self.offsite.snapshots.store;
        let now = self.offsite.snapshots.clock.now();
        store.cut_outgoing().await?;
        let installation = store.read(Installation::read)?;
        let (installation_id, segments) = (show_installation(installation.id), self.outgoing.segments()?);
        if !segments.is_empty() {
            self.offsite.ensure_base(&installation).await?;
            self.ensure_only_branch(&installation, &segments).await?;
        }
        for name in segments {
            let outgoing = self.outgoing.clone();
            let content = tokio::task::spawn_blocking(move || outgoing.read(name)).await??;
            if let Err(error) = verify_segment(name, &content) {
                tracing::error!(%error, "changes cannot leave this host; only the next backup will have them");
                self.outgoing.give_up(name)?;
                continue;
            }
            self.offsite.put_commits((&installation_id, name), content).await?;
            self.outgoing.remove(name)?;
        }
        *self.shipped_at.lock().unwrap_or_else(PoisonError::into_inner) = now;
        Ok(())
    }

    /// Looked at once for each opening of the store: only that can put an older copy back.
    async fn ensure_only_branch(&self, installation: &Installation, segments: &[SegmentName]) -> Result<(), OffsiteError> {
        let openings: BTreeSet<JournalId> = segments.iter().map(|name| name.journal).collect();
        if !openings.is_subset(&self.compared.lock().unwrap_or_else(PoisonError::into_inner)) {
            self.offsite.ensure_only_branch(installation, segments).await?;
            self.compared.lock().unwrap_or_else(PoisonError::into_inner).extend(openings);
        }
        Ok(())
    }

    fn age(&self) -> Duration {
        let (now, mut shipped_at) =
            (self.offsite.snapshots.clock.now(), self.shipped_at.lock().unwrap_or_else(PoisonError::into_inner));
        // The clock may have been set back.
        *shipped_at = now.min(*shipped_at);
        now.since(*shipped_at)
    }
}

impl Task for Shipping {
    fn name(&self) -> &'static str {
        "offsite_commits"
    }

    fn period(&self) -> Duration {
        self.period
    }

    fn goes_on_when_full(&self) -> bool {
        true
    }

    async fn activate(&self) -> Result<Done, TaskError> {
        let shipped = self.ship().await.map_err(|error| TaskError(format!("changes cannot leave this host: {error}")));
        metrics::gauge!("tenantd_offsite_commits_age_seconds").set(self.age().as_secs_f64());
        *self.incomplete.lock().unwrap_or_else(PoisonError::into_inner) = !self.offsite.is_complete()?;
        shipped.map(|()| Done::All)
    }

    /// Everyone sees it, so it does not say where commits go.
    fn concern(&self) -> Option<String> {
        let late = self.age() > self.period * LATE_PERIODS;
        let incomplete = *self.incomplete.lock().unwrap_or_else(PoisonError::into_inner);
        let problem = match (late, incomplete) {
            (true, _) => "the newest changes have not left this host",
            (false, true) => "changes since the last backup outside of this host cannot be restored until the next one is complete",
            (false, false) => return None,
        };
        Some(problem.to_owned())
    }

    /// The last commits leave with the stop, if the place answers in time. Otherwise the next start sends them.
    async fn finish(&self) -> Result<(), TaskError> {
        match tokio::time::timeout(LAST_WAIT, self.ship()).await {
            Ok(Err(error)) => Err(TaskError(error.to_string())),
            _ => Ok(()),
        }
    }
}
