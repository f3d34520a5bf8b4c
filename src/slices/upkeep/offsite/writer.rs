//! Writes a backup: a proven snapshot, sent, read back from the place and compared, then its manifest. Removes what need not be kept.

use std::{
    os::unix::fs::{DirBuilderExt, MetadataExt},
    path::{Path, PathBuf},
    sync::Arc,
    time::Instant,
};

use data_encoding::HEXLOWER;

use tenantd_base::{
    clock::Timestamp,
    config::Config,
    entropy::Entropy,
    secrets::{
        InstallationKey, Signer,
        age::{AgeError, Recipient},
        show_fingerprint,
    },
};
use tenantd_store::{Installation, SnapshotReport, events::Intent};

use super::{
    super::{
        error::UpkeepError,
        model::{Run, RunKind},
        snapshots::Snapshots,
    },
    error::OffsiteError,
    manifest::{self, Manifest, StoredObject, StoredSnapshot},
    place::{OffsitePlace, new_id, show_installation},
    retention::Kept,
};

/// Where a snapshot waits until it is sent. No other command takes it for one of its own.
const WAITING: &str = "offsite.waiting";
/// How much of a failure is kept.
const FAILURE_CHARACTERS: usize = 4000;

/// A backup that is complete.
#[derive(Debug)]
pub struct Stored {
    pub run: Run,
    pub manifest: Manifest,
    /// Older backups that were removed.
    pub removed: usize,
}

#[derive(Clone, Debug)]
pub struct Offsite {
    pub(super) snapshots: Snapshots,
    place: OffsitePlace,
    recipients: Vec<Recipient>,
    signer: Arc<Signer>,
    kept: Kept,
    waiting: PathBuf,
    busy: Arc<tokio::sync::Mutex<()>>,
}

impl Offsite {
    /// `None`: the settings name no place.
    pub(crate) fn configured(
        config: &Config,
        snapshots: Snapshots,
        directory: &Path,
        key: &InstallationKey,
    ) -> Result<Option<Self>, String> {
        let Some(place) = OffsitePlace::configured(config) else { return Ok(None) };
        let recipient = |text: &String| {
            text.parse().map_err(|error: AgeError| format!("offsite.recipients: {text}: {error}; check it for a typing error"))
        };
        let recipients = config.offsite.recipients.iter().map(recipient).collect::<Result<_, String>>()?;
        let signer = Arc::new(manifest::signer(key).map_err(|error| error.to_string())?);
        let (kept, waiting) = (Kept::new(&config.offsite), directory.join(WAITING));
        Ok(Some(Self { snapshots, place, recipients, signer, kept, waiting, busy: Arc::default() }))
    }

    /// Writes a backup, and keeps what came of it either way. One that has to wait for something else is no run yet.
    #[allow(clippy::disallowed_methods, reason = "how long it takes is measured in monotonic time")]
    pub async fn back_up(&self, intent: Intent) -> Result<Stored, OffsiteError> {
        let _one = self.busy.try_lock().map_err(|_| UpkeepError::Busy)?;
        let (started, at) = (Instant::now(), self.snapshots.clock.now());
        let installation = self.snapshots.store.read(Installation::read)?;
        let id = new_id(at, Entropy::from_os().bytes());
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
        let removed = self.remove_surplus(&manifest.installation_id, at).await.unwrap_or_else(|error| {
            tracing::warn!(%error, "old backups outside of this host could not be removed");
            0
        });
        Ok(Stored { run, manifest, removed })
    }

    async fn attempt(&self, id: &str, at: Timestamp, installation: &Installation) -> Result<Manifest, OffsiteError> {
        self.prepare()?;
        let taken = self.snapshots.take_unnoted(self.waiting.clone(), RunKind::Offsite).await?;
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
                tracing::warn!(directory = %place.display(), "the place of the backups is on the disk of the snapshots: is it mounted?");
            }
        }
        self.clear()
    }

    /// Removes the snapshot that waits. A server that ended in the middle has left one.
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
        let draft = Manifest {
            format: manifest::FORMAT,
            id: id.to_owned(),
            installation_id: show_installation(installation.id),
            created_at: at,
            release: env!("CARGO_PKG_VERSION").to_owned(),
            store_format: installation.format,
            key_fingerprint: show_fingerprint(installation.key_fingerprint),
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

    async fn remove_surplus(&self, installation_id: &str, now: Timestamp) -> Result<usize, OffsiteError> {
        self.place.remove_surplus(installation_id, &self.signer.public_key()?, self.kept, now).await
    }
}
