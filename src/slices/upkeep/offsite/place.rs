//! The place where backups are stored: opens it, and lists, fetches and removes backups.

use std::{path::PathBuf, sync::Arc, time::Duration};

use data_encoding::HEXLOWER;
use futures_util::TryStreamExt;
use object_store::{ObjectStore, ObjectStoreExt, aws::AmazonS3Builder, local::LocalFileSystem, path::Path};

use tenantd_base::{
    clock::Timestamp,
    config::{self, Config},
    secrets::{
        InstallationKey, PublicKey, Signer,
        age::{Identity, Recipient},
    },
};
use tenantd_store::{InstallationId, SegmentName, leads_to};

use super::{
    commits,
    connector::Connector,
    credentials::Credentials,
    error::OffsiteError,
    manifest::{self, FoundManifest, Manifest, StoredObject, StoredSnapshot},
    retention::{Retention, surplus},
    transfer::{self, Sent},
};

const SNAPSHOTS: &str = "snapshots";
const MANIFEST: &str = "manifest.json";
const MAX_MANIFEST_BYTES: u64 = 1 << 20;
/// A backup that began longer ago than this and has no manifest is abandoned.
const ABANDONED: Duration = Duration::from_hours(24);
const ID_TIME: &str = "%Y%m%dT%H%M%SZ";

/// The place in the settings. The credentials are read again each time it is opened, so new ones need no restart.
#[derive(Clone, Debug)]
pub struct OffsitePlace {
    url: String,
    settings: config::Offsite,
    egress: config::Egress,
}

/// A complete or unfinished backup in the place.
#[derive(Debug)]
pub struct Entry {
    pub installation_id: String,
    pub id: String,
    state: State,
}

#[derive(Debug)]
enum State {
    Complete(Box<FoundManifest>),
    /// Without a manifest: the backup is still being written, or was never finished.
    Unfinished,
    Unusable(String),
}

impl Entry {
    /// The manifest, whose signature has not been verified.
    pub fn manifest(&self) -> Option<&Manifest> {
        match &self.state {
            State::Complete(found) => Some(found.unverified()),
            _ => None,
        }
    }

    /// Why the backup is unusable.
    pub fn problem(&self) -> Option<&str> {
        match &self.state {
            State::Complete(_) => None,
            State::Unfinished => Some("unfinished"),
            State::Unusable(problem) => Some(problem),
        }
    }

    /// Whether the installation with this key wrote the backup.
    pub fn is_signed_by(&self, key: &InstallationKey) -> bool {
        let public_key = manifest::signer(key).and_then(|signer| signer.public_key());
        public_key.is_ok_and(|public_key| self.verified(&public_key).is_some())
    }

    pub(super) fn verified(&self, key: &PublicKey) -> Option<&Manifest> {
        match &self.state {
            State::Complete(found) => found.verify(key).ok(),
            _ => None,
        }
    }

    /// Whether the backup began long ago and was never finished.
    fn is_abandoned(&self, now: Timestamp) -> bool {
        matches!(self.state, State::Unfinished) && id_time(&self.id).is_some_and(|begun| now.since(begun) > ABANDONED)
    }
}

pub(super) fn new_id(at: Timestamp, random: [u8; 4]) -> String {
    let time = jiff::Timestamp::from_millisecond(at.as_millis()).unwrap_or_default();
    format!("{}-{}", time.strftime(ID_TIME), HEXLOWER.encode(&random))
}

fn id_time(id: &str) -> Option<Timestamp> {
    let (time, _) = id.split_once('-')?;
    let time = jiff::civil::DateTime::strptime(ID_TIME, time).ok()?.to_zoned(jiff::tz::TimeZone::UTC).ok()?;
    Some(Timestamp::from_millis(time.timestamp().as_millisecond()))
}

/// The name of an installation in the layout.
pub(super) fn show_installation(id: InstallationId) -> String {
    HEXLOWER.encode(&id)
}

impl OffsitePlace {
    /// `None` if no place is configured.
    pub fn configured(config: &Config) -> Option<Self> {
        let url = config.offsite.url.as_deref()?.trim_end_matches('/').to_owned();
        Some(Self { url, settings: config.offsite.clone(), egress: config.egress.clone() })
    }

    /// The URL of a backup, for people.
    pub fn show(&self, installation_id: &str, id: &str) -> String {
        format!("{}/{installation_id}/{SNAPSHOTS}/{id}", self.url)
    }

    /// The local directory, if the place is one.
    pub(super) fn directory(&self) -> Option<PathBuf> {
        self.url.strip_prefix("file://").map(PathBuf::from)
    }

    pub(super) fn open(&self) -> Result<Opened, OffsiteError> {
        if let Some(directory) = self.directory() {
            let store = LocalFileSystem::new_with_prefix(&directory)?.with_fsync(true);
            return Ok(Opened { store: Arc::new(store), root: Path::default(), directory: Some(directory) });
        }
        let place = self.url.strip_prefix("s3://").ok_or(OffsiteError::NotConfigured)?;
        let (bucket, prefix) = place.split_once('/').unwrap_or((place, ""));
        let file = self.settings.credentials_file.as_deref().ok_or(OffsiteError::NotConfigured)?;
        let credentials = Credentials::load(file)?;
        let connector = Connector::new(&self.egress, &credentials).map_err(OffsiteError::Place)?;
        let mut builder = AmazonS3Builder::new()
            .with_bucket_name(bucket)
            .with_region(&self.settings.region)
            .with_access_key_id(credentials.access_key_id.expose())
            .with_secret_access_key(credentials.secret_access_key.expose())
            .with_http_connector(connector);
        if let Some(token) = &credentials.session_token {
            builder = builder.with_token(token.expose());
        }
        if let Some(endpoint) = &self.settings.endpoint {
            builder = builder.with_endpoint(endpoint.trim_end_matches('/')).with_allow_http(endpoint.starts_with("http://"));
        }
        let root = Path::parse(prefix).map_err(object_store::Error::from)?;
        Ok(Opened { store: Arc::new(builder.build()?), root, directory: None })
    }

    /// The backups of all installations, oldest first within each installation.
    pub async fn list(&self) -> Result<Vec<Entry>, OffsiteError> {
        let opened = self.open()?;
        let mut entries = Vec::new();
        for installation in opened.children(&opened.root).await? {
            entries.extend(opened.list(&installation).await?);
        }
        Ok(entries)
    }

    /// The backup with this id, or all backups up to a time (newest first). Considers only backups that an installation with
    /// this key wrote.
    pub async fn find(
        &self,
        id: Option<&str>,
        until: Option<Timestamp>,
        key: &InstallationKey,
    ) -> Result<Vec<Manifest>, OffsiteError> {
        let public_key = manifest::signer(key)?.public_key()?;
        let entries = self.list().await?;
        let wanted = || entries.iter().filter(|entry| id.is_none_or(|id| entry.id == id));
        let in_time = |manifest: &&Manifest| until.is_none_or(|until| manifest.holds_until <= until);
        let verified = wanted().filter_map(|entry| entry.verified(&public_key));
        let mut found: Vec<Manifest> = verified.filter(in_time).cloned().collect();
        if !found.is_empty() {
            found.sort_by_key(|manifest| std::cmp::Reverse(manifest.order()));
            return Ok(found);
        }
        let url = &self.url;
        if let Some(until) = until {
            return Err(OffsiteError::NotFound(format!("{url} has no backup of this installation that was complete by {until}")));
        }
        Err(match (id, wanted().next()) {
            (Some(id), Some(entry)) => {
                let problem = entry.problem().unwrap_or("it is not signed with this installation key");
                OffsiteError::Manifest { id: id.to_owned(), problem: problem.to_owned() }
            }
            (Some(id), None) => {
                OffsiteError::NotFound(format!("{url} has no backup {id}; run `tenantd backup list` to see the backups"))
            }
            (None, Some(_)) => {
                OffsiteError::NotFound(format!("{url} has no complete backup that is signed with this installation key"))
            }
            (None, None) => OffsiteError::NotFound(format!("{url} has no backup")),
        })
    }

    /// Uploads a snapshot, reads it back, compares it, and writes its manifest: `draft`, completed with the sizes and digests.
    pub(super) async fn put(
        &self,
        draft: Manifest,
        file: &std::path::Path,
        recipients: &[Recipient],
        signer: &Signer,
    ) -> Result<Manifest, OffsiteError> {
        let opened = self.open()?;
        let backup = opened.backup(&draft.installation_id, &draft.id);
        let (store, object) = (opened.store.as_ref(), backup.clone().join(draft.object.name.as_str()));
        opened.ensure_own(&object)?;
        let Sent { plain, stored } = transfer::send(store, &object, file.to_owned(), recipients.to_vec()).await?;
        let found = transfer::measure(store, &object).await?;
        if found != stored {
            let problem = format!("{} bytes were sent, but {} were read back", stored.bytes, found.bytes);
            return Err(OffsiteError::Different(problem));
        }
        let manifest = Manifest {
            recipients: recipients.iter().map(ToString::to_string).collect(),
            object: StoredObject { bytes: stored.bytes, sha256: stored.sha256, ..draft.object },
            snapshot: StoredSnapshot { bytes: plain.bytes, sha256: plain.sha256, ..draft.snapshot },
            ..draft
        };
        store.put(&backup.join(MANIFEST), manifest::write(&manifest, signer)?.into()).await?;
        Ok(manifest)
    }

    /// Removes backups according to the retention settings, and abandoned ones. A backup whose manifest is not signed with
    /// this key is ignored and stays.
    pub(super) async fn remove_surplus(
        &self,
        installation_id: &str,
        key: &PublicKey,
        kept: Retention,
        (now, restorable_since): (Timestamp, Timestamp),
    ) -> Result<usize, OffsiteError> {
        let opened = self.open()?;
        let entries = opened.list(installation_id).await?;
        let backups: Vec<(&Manifest, &Entry)> = entries.iter().filter_map(|entry| Some((entry.verified(key)?, entry))).collect();
        let needed = needed(&backups, &commits::names(&opened, installation_id).await?, restorable_since)?;
        let surplus = surplus(backups.iter().map(|(manifest, entry)| (manifest.created_at, *entry)), kept);
        let surplus = surplus.into_iter().filter(|entry| !needed.iter().any(|(_, needed)| needed.id == entry.id));
        let abandoned = entries.iter().filter(|entry| entry.is_abandoned(now));
        let removed: Vec<&Entry> = abandoned.chain(surplus).collect();
        for entry in &removed {
            opened.remove(entry).await?;
        }
        if let Some((base, _)) = needed.first().filter(|(base, _)| base.holds_until <= restorable_since) {
            self.remove_commits(installation_id, base).await?;
        }
        Ok(removed.len())
    }

    /// The backups of an installation, oldest first, and the names of its segments.
    pub(super) async fn contents(&self, installation_id: &str) -> Result<(Vec<Entry>, Vec<SegmentName>), OffsiteError> {
        let opened = self.open()?;
        Ok((opened.list(installation_id).await?, commits::names(&opened, installation_id).await?))
    }

    /// Whether the place has a complete backup with this id, or any complete backup.
    pub(super) async fn has(&self, installation_id: &str, id: Option<&str>) -> Result<bool, OffsiteError> {
        let opened = self.open()?;
        let Some(id) = id else {
            return Ok(opened.list(installation_id).await?.iter().any(|entry| entry.manifest().is_some()));
        };
        match opened.store.head(&opened.backup(installation_id, id).join(MANIFEST)).await {
            Err(object_store::Error::NotFound { .. }) => Ok(false),
            found => Ok(found.map(|_| true)?),
        }
    }

    /// When a backup was stored, by the clock of the place.
    pub(super) async fn stored_at(&self, manifest: &Manifest) -> Result<Timestamp, OffsiteError> {
        let opened = self.open()?;
        let found = opened.store.head(&opened.backup(&manifest.installation_id, &manifest.id).join(MANIFEST)).await?;
        Ok(Timestamp::from_millis(found.last_modified.timestamp_millis()))
    }

    /// Writes the snapshot of a backup to a new file, and compares it with its manifest.
    pub async fn fetch(
        &self,
        manifest: &Manifest,
        identities: Option<Vec<Identity>>,
        file: &std::path::Path,
    ) -> Result<(), OffsiteError> {
        if manifest.is_encrypted() != identities.is_some() {
            let problem = if manifest.is_encrypted() { "is encrypted; an identity is required" } else { "is not encrypted" };
            return Err(OffsiteError::Place(format!("the backup {} {problem}", manifest.id)));
        }
        let opened = self.open()?;
        let object = opened.backup(&manifest.installation_id, &manifest.id).join(manifest.object.name.as_str());
        opened.ensure_own(&object)?;
        let Sent { plain, stored } = transfer::receive(opened.store.as_ref(), &object, identities, file).await?;
        let expected = [(&manifest.object.sha256, manifest.object.bytes), (&manifest.snapshot.sha256, manifest.snapshot.bytes)];
        if expected == [(&stored.sha256, stored.bytes), (&plain.sha256, plain.bytes)] {
            return Ok(());
        }
        std::fs::remove_file(file).map_err(|error| OffsiteError::file(file, error))?;
        Err(OffsiteError::Different("its digest differs from that in the manifest".to_owned()))
    }
}

/// The backups that are needed to restore every second since a time: the newest one before that time (or the oldest of all),
/// and all later ones that no commits lead to. `backups` are ordered oldest first.
fn needed<'a>(
    backups: &[(&'a Manifest, &'a Entry)],
    names: &[SegmentName],
    since: Timestamp,
) -> Result<Vec<(&'a Manifest, &'a Entry)>, OffsiteError> {
    let first = backups.iter().rposition(|(manifest, _)| manifest.holds_until <= since).unwrap_or_default();
    let mut needed: Vec<(&Manifest, &Entry)> = Vec::new();
    for backup in backups.iter().skip(first) {
        let to = backup.0.commit()?;
        let mut is_reached = false;
        for (earlier, _) in &needed {
            is_reached |= leads_to(names, earlier.commit()?, to);
        }
        if !is_reached {
            needed.push(*backup);
        }
    }
    Ok(needed)
}

pub(super) struct Opened {
    pub(super) store: Arc<dyn ObjectStore>,
    pub(super) root: Path,
    directory: Option<PathBuf>,
}

impl Opened {
    fn backup(&self, installation_id: &str, id: &str) -> Path {
        self.root.clone().join(installation_id).join(SNAPSHOTS).join(id)
    }

    async fn children(&self, parent: &Path) -> Result<Vec<String>, OffsiteError> {
        let found = self.store.list_with_delimiter(Some(parent)).await?.common_prefixes;
        let mut names: Vec<String> = found.iter().filter_map(|path| path.filename()).map(str::to_owned).collect();
        names.sort_unstable();
        Ok(names)
    }

    async fn list(&self, installation_id: &str) -> Result<Vec<Entry>, OffsiteError> {
        let parent = self.root.clone().join(installation_id).join(SNAPSHOTS);
        let mut entries = Vec::new();
        for id in self.children(&parent).await? {
            let state = self.state(&parent, &id).await?;
            entries.push(Entry { installation_id: installation_id.to_owned(), id, state });
        }
        // A backup without a manifest may still be in progress.
        entries.sort_by_key(|entry| entry.manifest().map_or((u64::MAX, Timestamp::LATEST), Manifest::order));
        Ok(entries)
    }

    /// Allows only real directories and files. A link leads elsewhere, and reading a pipe never ends.
    fn ensure_own(&self, path: &Path) -> Result<(), OffsiteError> {
        let Some(directory) = &self.directory else { return Ok(()) };
        let mut place = directory.clone();
        for part in path.parts() {
            place.push(part.as_ref());
            match std::fs::symlink_metadata(&place) {
                Ok(found) if found.is_dir() || found.is_file() => {}
                Ok(_) => return Err(OffsiteError::Place(format!("{} is neither a directory nor a file", place.display()))),
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
                Err(error) => return Err(OffsiteError::file(&place, error)),
            }
        }
        Ok(())
    }

    async fn state(&self, parent: &Path, id: &str) -> Result<State, OffsiteError> {
        if let Err(problem) = self.ensure_own(&parent.clone().join(id).join(MANIFEST)) {
            return Ok(State::Unusable(problem.to_string()));
        }
        let found = match self.store.get(&parent.clone().join(id).join(MANIFEST)).await {
            Err(object_store::Error::NotFound { .. }) => return Ok(State::Unfinished),
            found => found?,
        };
        if found.meta.size > MAX_MANIFEST_BYTES {
            return Ok(State::Unusable("its manifest is too long".to_owned()));
        }
        Ok(match FoundManifest::parse(id, &found.bytes().await?) {
            Ok(manifest) => State::Complete(Box::new(manifest)),
            Err(problem) => State::Unusable(problem),
        })
    }

    /// Removes a backup. The manifest is removed first, so that the backup no longer counts.
    async fn remove(&self, entry: &Entry) -> Result<(), OffsiteError> {
        let backup = self.backup(&entry.installation_id, &entry.id);
        self.ensure_own(&backup)?;
        match self.store.delete(&backup.clone().join(MANIFEST)).await {
            Err(object_store::Error::NotFound { .. }) => {}
            deleted => deleted?,
        }
        let Some(directory) = &self.directory else {
            let objects: Vec<_> = self.store.list(Some(&backup)).try_collect().await?;
            for object in objects {
                self.store.delete(&object.location).await?;
            }
            return Ok(());
        };
        // The directory can also contain staged files of an interrupted upload. Links are removed, not followed.
        let directory = directory.join(backup.as_ref());
        match std::fs::remove_dir_all(&directory) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(OffsiteError::file(&directory, error)),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_contains_its_start_time() {
        let at = Timestamp::from_millis(1_767_225_599_000);
        let id = new_id(at, [0xab, 0, 1, 2]);
        assert_eq!(id, "20251231T235959Z-ab000102");
        assert_eq!(id_time(&id), Some(at));
        assert_eq!(id_time("journal"), None);
    }
}
