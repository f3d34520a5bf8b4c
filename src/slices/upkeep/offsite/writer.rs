//! Writes a backup: takes a verified snapshot, uploads it, reads it back and compares it, then writes its manifest. Then
//! removes old backups.

use std::{
    os::unix::fs::{DirBuilderExt, MetadataExt},
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use data_encoding::HEXLOWER;

use tenantd_base::{
    clock::{Clock, Timestamp},
    config::Config,
    entropy::Entropy,
    secrets::{
        InstallationKey, Signer,
        age::{AgeError, Recipient},
        show_fingerprint,
    },
};
use tenantd_store::{Installation, OutgoingDirectory, SegmentName, SnapshotReport, StoreError, events::Intent, left_branches};

use super::{
    super::{
        error::UpkeepError,
        model::{Run, RunKind},
        snapshots::Snapshots,
    },
    commits,
    error::OffsiteError,
    manifest::{self, Manifest, StoredObject, StoredSnapshot},
    place::{Entry, OffsitePlace, new_id, show_installation},
    retention::Retention,
};

/// The file of a snapshot that waits for its upload. No other command uses this name.
const WAITING: &str = "offsite.waiting";
/// If the clocks of the place and of this host differ by more than this, no backups are removed.
const MOST_DIFFERENCE: Duration = Duration::from_hours(12);
/// The maximum length of a recorded failure.
const FAILURE_CHARACTERS: usize = 4000;

/// A complete backup.
#[derive(Debug)]
pub struct StoredBackup {
    pub run: Run,
    pub manifest: Manifest,
    /// The number of older backups that were removed.
    pub removed: usize,
}

#[derive(Clone, Debug)]
pub struct Offsite {
    pub(super) snapshots: Snapshots,
    place: OffsitePlace,
    recipients: Vec<Recipient>,
    signer: Arc<Signer>,
    commit_signer: Arc<Signer>,
    kept: Retention,
    journal_kept: Duration,
    waiting: PathBuf,
    /// `None` if only backups are sent, and no commits.
    pub(super) outgoing: Option<OutgoingDirectory>,
    busy: Arc<tokio::sync::Mutex<()>>,
}

impl Offsite {
    /// `None` if no place is configured.
    pub(crate) fn configured(
        config: &Config,
        snapshots: Snapshots,
        (directory, outgoing): (&Path, OutgoingDirectory),
        key: &InstallationKey,
    ) -> Result<Option<Self>, String> {
        let Some(place) = OffsitePlace::configured(config) else { return Ok(None) };
        let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
        if place.directory().is_some_and(|place| real(&place).starts_with(real(&config.data.directory))) {
            return Err(
                "offsite.url is in the data directory, so the backups would be lost with it: choose a place outside of this host"
                    .to_owned(),
            );
        }
        let recipient = |text: &String| {
            text.parse().map_err(|error: AgeError| format!("offsite.recipients: {text}: {error}; check it for typing errors"))
        };
        let recipients = config.offsite.recipients.iter().map(recipient).collect::<Result<_, String>>()?;
        let signer = Arc::new(manifest::signer(key).map_err(|error| error.to_string())?);
        let commit_signer = Arc::new(commits::signer(key).map_err(|error| error.to_string())?);
        let outgoing = config.offsite.sends_commits().then_some(outgoing);
        let journal_days = if outgoing.is_some() { config.offsite.journal_days } else { 0 };
        let journal_kept = Duration::from_hours(24) * journal_days;
        let (kept, waiting, busy) = (Retention::new(&config.offsite), directory.join(WAITING), Arc::default());
        Ok(Some(Self { snapshots, place, recipients, signer, commit_signer, kept, journal_kept, waiting, outgoing, busy }))
    }

    /// Writes a backup and records the result. If it has to wait for another operation, nothing is recorded.
    #[allow(clippy::disallowed_methods, reason = "how long it takes is measured in monotonic time")]
    pub async fn back_up(&self, intent: Intent) -> Result<StoredBackup, OffsiteError> {
        let _one = self.busy.try_lock().map_err(|_| UpkeepError::Busy)?;
        let (started, at) = (Instant::now(), self.snapshots.clock.now());
        let installation = self.snapshots.store.read(Installation::read)?;
        let id = new_id(at, Entropy::from_os().bytes());
        if let Some(outgoing) = &self.outgoing {
            outgoing.begin_backup(installation.key_fingerprint, &id)?;
        }
        let stored = match self.attempt(&id, at, &installation).await {
            Err(OffsiteError::Snapshot(wait @ (UpkeepError::Busy | UpkeepError::KeyChanges))) => return Err(wait.into()),
            stored => stored,
        };
        let manifest = stored.as_ref().ok();
        let run = Run {
            kind: RunKind::Offsite,
            at,
            path: self.place.show(&show_installation(installation.id), &id),
            took: started.elapsed(),
            file_bytes: manifest.map_or(0, |manifest| manifest.object.bytes),
            tables: manifest.map_or(0, |manifest| manifest.snapshot.tables),
            records: manifest.map_or(0, |manifest| manifest.snapshot.records),
            failure: stored.as_ref().err().map(|error| error.to_string().chars().take(FAILURE_CHARACTERS).collect()),
        };
        self.snapshots.note(intent, run.clone()).await?;
        let manifest = stored?;
        if let Some(outgoing) = &self.outgoing {
            outgoing.end_backup()?;
        }
        let removed = self.remove_surplus(&manifest).await.unwrap_or_else(|error| {
            tracing::warn!(%error, "cannot remove old off-site backups");
            0
        });
        Ok(StoredBackup { run, manifest, removed })
    }

    async fn attempt(&self, id: &str, at: Timestamp, installation: &Installation) -> Result<Manifest, OffsiteError> {
        self.prepare()?;
        let taken = self.snapshots.take_unrecorded(self.waiting.clone(), RunKind::Offsite).await?;
        let stored = self.store_away(id, at, installation, &taken.report?).await;
        self.clear()?;
        stored
    }

    fn prepare(&self) -> Result<(), OffsiteError> {
        let parent = self.waiting.parent().unwrap_or(&self.waiting);
        let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(parent);
        made.map_err(|error| OffsiteError::file(parent, error))?;
        if let Some(place) = self.place.directory() {
            let device =
                |path: &Path| std::fs::metadata(path).map(|data| data.dev()).map_err(|error| OffsiteError::file(path, error));
            if device(&place)? == device(parent)? {
                tracing::warn!(directory = %place.display(), "the backup place is on the same disk as the snapshots: is it mounted?");
            }
        }
        self.clear()
    }

    /// Removes the waiting snapshot. An interrupted server may have left one.
    fn clear(&self) -> Result<(), OffsiteError> {
        match std::fs::remove_file(&self.waiting) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(OffsiteError::file(&self.waiting, error)),
            _ => Ok(()),
        }
    }

    async fn store_away(
        &self,
        id: &str,
        at: Timestamp,
        installation: &Installation,
        report: &SnapshotReport,
    ) -> Result<Manifest, OffsiteError> {
        let name = if self.recipients.is_empty() { "snapshot" } else { "snapshot.age" };
        let installation_id = show_installation(installation.id);
        // The waiting segments also show which journals this backup follows.
        let waiting = self.waiting_segments().await?;
        let (earlier, sent) = self.place.contents(&installation_id).await?;
        let known = [waiting, sent].concat();
        // Includes backups with an earlier installation key, although their signature can no longer be verified.
        let highest = earlier.iter().filter_map(Entry::manifest).map(|manifest| manifest.number).max();
        let draft = Manifest {
            format: manifest::FORMAT,
            id: id.to_owned(),
            installation_id,
            number: highest.unwrap_or_default().saturating_add(1),
            created_at: at,
            release: env!("CARGO_PKG_VERSION").to_owned(),
            store_format: installation.format,
            key_fingerprint: show_fingerprint(installation.key_fingerprint),
            position: report.position.to_string(),
            holds_until: self.snapshots.clock.now(),
            left_branches: left_branches(&known, report.position).iter().map(|journal| HEXLOWER.encode(journal)).collect(),
            recipients: Vec::new(),
            object: StoredObject { name: name.to_owned(), bytes: 0, sha256: String::new() },
            snapshot: StoredSnapshot {
                bytes: 0,
                sha256: String::new(),
                tables: report.tables.len() as u64,
                records: report.records(),
                digest: HEXLOWER.encode(&report.digest()),
            },
        };
        self.place.put(draft, &self.waiting, &self.recipients, &self.signer).await
    }

    async fn waiting_segments(&self) -> Result<Vec<SegmentName>, OffsiteError> {
        let Some(outgoing) = &self.outgoing else { return Ok(Vec::new()) };
        self.snapshots.store.cut_outgoing().await?;
        Ok(outgoing.segments()?)
    }

    /// Does nothing if a clock is wrong, because then all backups could seem old.
    async fn remove_surplus(&self, manifest: &Manifest) -> Result<usize, OffsiteError> {
        let now = self.snapshots.clock.now();
        let (here, there) = (Clock::System.now(), self.place.stored_at(manifest).await?);
        if there.since(here).max(here.since(there)) > MOST_DIFFERENCE {
            tracing::warn!(%here, %there, "old backups are not removed: the clocks of this host and of the backup place differ");
            return Ok(0);
        }
        let key = self.signer.public_key()?;
        self.place.remove_surplus(&manifest.installation_id, &key, self.kept, (now, now - self.journal_kept)).await
    }

    /// Uploads a segment of commits.
    pub(super) async fn put_commits(&self, segment: (&str, SegmentName), content: Vec<u8>) -> Result<(), OffsiteError> {
        self.place.put_commits(segment, content, &self.recipients, &self.commit_signer).await
    }

    /// Whether no commit since the last backup was lost. Always true if commits are not sent.
    pub(super) fn is_complete(&self) -> Result<bool, StoreError> {
        let Some(outgoing) = &self.outgoing else { return Ok(true) };
        Ok(outgoing.base(self.snapshots.store.read(Installation::read)?.key_fingerprint).is_some())
    }

    /// Fails if the place has no backup of this installation, for example because it is not mounted. If only the backup that
    /// the commits follow is missing, requests a new backup, which will contain them.
    pub(super) async fn ensure_base(&self, installation: &Installation) -> Result<(), OffsiteError> {
        let Some(outgoing) = &self.outgoing else { return Ok(()) };
        let (Some(base), installation_id) = (outgoing.base(installation.key_fingerprint), show_installation(installation.id))
        else {
            return Ok(());
        };
        if self.place.has(&installation_id, Some(&base)).await? {
            return Ok(());
        }
        if self.place.has(&installation_id, None).await? {
            tracing::warn!(backup = base, "the backup that the changes follow was removed; a new backup will be written soon");
            return Ok(outgoing.set_incomplete()?);
        }
        Err(OffsiteError::Place(format!("the backup {base} that the changes follow is missing: is the backup place mounted?")))
    }

    /// Detects that an older copy of the store was put back: then the place has a newer backup or commits that this store
    /// does not have. Requests a new backup, whose manifest lists them.
    pub(super) async fn ensure_only_branch(
        &self,
        installation: &Installation,
        waiting: &[SegmentName],
    ) -> Result<(), OffsiteError> {
        let Some(outgoing) = &self.outgoing else { return Ok(()) };
        let Some(base) = outgoing.base(installation.key_fingerprint) else { return Ok(()) };
        let (entries, sent) = self.place.contents(&show_installation(installation.id)).await?;
        let key = self.signer.public_key()?;
        let backups: Vec<&Manifest> = entries.iter().filter_map(|entry| entry.verified(&key)).collect();
        let Some(base) = backups.iter().find(|manifest| manifest.id == base) else { return Ok(()) };
        let follows = |name: &SegmentName, own: &SegmentName| name.journal != own.journal && name.last > own.before.number;
        let is_other = |name: &SegmentName| !base.has_left(name.journal) && waiting.iter().any(|own| follows(name, own));
        if sent.iter().any(is_other) || backups.iter().any(|manifest| manifest.number > base.number) {
            tracing::warn!("the backup place has changes that this store does not have; a new backup will be written soon");
            outgoing.set_incomplete()?;
        }
        Ok(())
    }
}
