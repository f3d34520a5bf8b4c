//! Sends commits to the place of the backups at regular intervals, so that little is lost if the host fails.

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

/// The number of periods after which waiting commits make the status degraded.
const LATE_PERIODS: u32 = 10;
/// How long a server shutdown waits for the last commits to be sent.
const LAST_WAIT: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub(crate) struct Shipping {
    offsite: Offsite,
    outgoing: OutgoingDirectory,
    period: Duration,
    /// Every commit up to this time has been sent. Initially the start time of the server.
    shipped_at: Mutex<Timestamp>,
    incomplete: Mutex<bool>,
    /// The journals that were already compared with the contents of the place.
    compared: Mutex<BTreeSet<JournalId>>,
}

impl Shipping {
    /// `None` if commits are not sent.
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
                tracing::error!(%error, "changes cannot be sent; only the next backup will contain them");
                self.outgoing.give_up(name)?;
                continue;
            }
            self.offsite.put_commits((&installation_id, name), content).await?;
            self.outgoing.remove(name)?;
        }
        *self.shipped_at.lock().unwrap_or_else(PoisonError::into_inner) = now;
        Ok(())
    }

    /// Runs once per journal, because only opening the store can put an older copy back into use.
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
        let shipped = self.ship().await.map_err(|error| TaskError(format!("cannot send changes to the backup place: {error}")));
        metrics::gauge!("tenantd_offsite_commits_age_seconds").set(self.age().as_secs_f64());
        *self.incomplete.lock().unwrap_or_else(PoisonError::into_inner) = !self.offsite.is_complete()?;
        shipped.map(|()| Done::All)
    }

    /// The concern is public, so it does not reveal where commits are sent.
    fn concern(&self) -> Option<String> {
        let late = self.age() > self.period * LATE_PERIODS;
        let incomplete = *self.incomplete.lock().unwrap_or_else(PoisonError::into_inner);
        let problem = match (late, incomplete) {
            (true, _) => "the newest changes have not been sent to the backup place",
            (false, true) => "changes since the last off-site backup cannot be restored until the next one is complete",
            (false, false) => return None,
        };
        Some(problem.to_owned())
    }

    /// Sends the last commits at shutdown, if the place answers in time. Otherwise the next start sends them.
    async fn finish(&self) -> Result<(), TaskError> {
        match tokio::time::timeout(LAST_WAIT, self.ship()).await {
            Ok(Err(error)) => Err(TaskError(error.to_string())),
            _ => Ok(()),
        }
    }
}
