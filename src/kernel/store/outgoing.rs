//! Commits that are to leave the host: collected in memory, written to segments in a directory of their own, and sent from there.
//!
//! A segment has consecutive commits of one opening of the store, and says where the opening before it ended. Segments may overlap:
//! after a crash, the commits in the journal are written again. **Invariant:** a commit is in a segment before it leaves the journal.
//! A segment that cannot be written is dropped: the store goes on, and the directory stops being [complete](OutgoingDirectory::is_complete).

mod plan;
mod replay;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use tenantd_base::clock::Timestamp;

use super::{
    error::StoreError,
    installation::{KeyFingerprint, remove_file, sync_directory, write_private_file},
    journal::{JournalId, Position},
    volume::Space,
};

pub use plan::Plan;
pub use replay::Replay;

const MAGIC: &[u8; 16] = b"tenantd commits1";
const DIGEST: usize = 32;
const SUFFIX: &str = "commits";
const DIRECTORY: &str = "outgoing";
/// How much may wait in the directory: more than an hour of heavy writing, and only a part of the volume.
const MOST_BYTES: u64 = 256 << 20;
const VOLUME_SHARE: u64 = 16;
/// Says that every commit since a backup is outside of this host or waits here.
const COMPLETE: &str = "complete";
/// The same, while that backup is written.
const PENDING: &str = "pending";

/// The name of a segment says where it belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SegmentName {
    /// The times of its first and its newest commit.
    pub since: Timestamp,
    pub until: Timestamp,
    /// The opening of the store, and its commits.
    pub journal: JournalId,
    pub first: u64,
    pub last: u64,
    /// Where the opening before it ended.
    pub before: Position,
}

impl std::fmt::Display for SegmentName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (since, until) = (self.since.as_millis(), self.until.as_millis());
        let (journal, before) = (data_encoding::HEXLOWER.encode(&self.journal), self.before);
        write!(f, "{since:014}-{until:014}-{journal}-{:012}-{:012}-{before}.{SUFFIX}", self.first, self.last)
    }
}

impl SegmentName {
    pub fn parse(name: &str) -> Option<Self> {
        let parts: Vec<&str> = name.strip_suffix(SUFFIX)?.strip_suffix('.')?.splitn(6, '-').collect();
        let [since, until, journal, first, last, before] = parts.try_into().ok()?;
        let time = |millis: &str| millis.parse().ok().map(Timestamp::from_millis);
        Some(Self {
            since: time(since)?,
            until: time(until)?,
            journal: data_encoding::HEXLOWER.decode(journal.as_bytes()).ok()?.try_into().ok()?,
            first: first.parse().ok()?,
            last: last.parse().ok()?,
            before: before.parse().ok()?,
        })
    }
}

/// The directory in which segments wait until they are sent.
#[derive(Clone, Debug)]
pub struct OutgoingDirectory(PathBuf);

impl OutgoingDirectory {
    /// The one of a data directory. It exists while commits are to leave the host.
    pub fn of(data: &Path) -> Self {
        Self(data.join(DIRECTORY))
    }

    pub(super) fn exists(&self) -> bool {
        self.0.exists()
    }

    /// Decides whether commits leave the host, from the next time on that the store is opened.
    pub fn set(&self, leave: bool) -> Result<(), StoreError> {
        use std::os::unix::fs::DirBuilderExt;
        if leave && self.exists() {
            return self.remove_unfinished();
        }
        let changed = match leave {
            true => std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.0),
            false if self.exists() => std::fs::remove_dir_all(&self.0),
            false => return Ok(()),
        };
        changed.map_err(|error| self.failed(&error))?;
        sync_directory(self.0.parent().unwrap_or(&self.0))
    }

    /// Removes what a process that was killed was writing.
    fn remove_unfinished(&self) -> Result<(), StoreError> {
        for entry in std::fs::read_dir(&self.0).map_err(|error| self.failed(&error))? {
            let path = entry.map_err(|error| self.failed(&error))?.path();
            if path.extension().is_some_and(|extension| extension == "tmp") {
                remove_file(&path)?;
            }
        }
        Ok(())
    }

    /// The segments that wait, the oldest first.
    pub fn segments(&self) -> Result<Vec<SegmentName>, StoreError> {
        let mut names = Vec::new();
        for entry in std::fs::read_dir(&self.0).map_err(|error| self.failed(&error))? {
            let entry = entry.map_err(|error| self.failed(&error))?;
            names.extend(SegmentName::parse(&entry.file_name().to_string_lossy()));
        }
        names.sort_unstable();
        Ok(names)
    }

    pub fn read(&self, name: SegmentName) -> Result<Vec<u8>, StoreError> {
        std::fs::read(self.0.join(name.to_string())).map_err(|error| self.failed(&error))
    }

    pub fn remove(&self, name: SegmentName) -> Result<(), StoreError> {
        remove_file(&self.0.join(name.to_string()))
    }

    /// Whether every commit since a backup made with this installation key has left the host or waits here.
    pub fn is_complete(&self, key: KeyFingerprint) -> bool {
        std::fs::read(self.0.join(COMPLETE)).is_ok_and(|found| found == key)
    }

    /// A backup begins: from its snapshot on, the directory is complete once the backup is.
    pub fn begin_backup(&self, key: KeyFingerprint) -> Result<(), StoreError> {
        if self.exists() { write_private_file(&self.0.join(PENDING), &key) } else { Ok(()) }
    }

    /// The backup is outside of the host. Nothing changes when a commit was lost meanwhile.
    pub fn end_backup(&self) -> Result<(), StoreError> {
        match std::fs::rename(self.0.join(PENDING), self.0.join(COMPLETE)) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(self.failed(&error)),
            _ => Ok(()),
        }
    }

    /// A commit will never leave the host: only the next backup has it.
    pub(super) fn set_incomplete(&self) -> Result<(), StoreError> {
        if self.exists() { [PENDING, COMPLETE].iter().try_for_each(|name| remove_file(&self.0.join(name))) } else { Ok(()) }
    }

    fn failed(&self, error: &std::io::Error) -> StoreError {
        StoreError::Installation(format!("{}: {error}", self.0.display()))
    }

    fn write(&self, name: SegmentName, content: &[u8]) -> Result<(), StoreError> {
        let space = Space::of(&self.0).map_err(|error| self.failed(&error))?;
        let (mut waiting, most) = (content.len() as u64, MOST_BYTES.min(space.total / VOLUME_SHARE));
        for entry in std::fs::read_dir(&self.0).map_err(|error| self.failed(&error))? {
            waiting += entry.and_then(|entry| entry.metadata()).map_or(0, |data| data.len());
        }
        if waiting > most {
            let problem = format!("{}: {waiting} bytes would wait here, and at most {most} may", self.0.display());
            return Err(StoreError::Installation(problem));
        }
        write_private_file(&self.0.join(name.to_string()), content)
    }
}

/// Collects the commits of one opening of the store.
#[derive(Debug)]
pub(super) struct Outgoing {
    directory: OutgoingDirectory,
    journal: JournalId,
    before: Position,
    collected: Vec<u8>,
    /// Of what was collected.
    name: Option<SegmentName>,
}

impl Outgoing {
    pub(super) fn new(directory: OutgoingDirectory, journal: JournalId, before: Position) -> Self {
        Self { directory, journal, before, collected: Vec::new(), name: None }
    }

    pub(super) fn add(&mut self, number: u64, at: Timestamp, changes: &[u8]) {
        if self.name.is_none() {
            self.collected.extend_from_slice(MAGIC);
            self.collected.extend_from_slice(&self.journal);
            self.collected.extend_from_slice(&self.before.journal);
            self.collected.extend_from_slice(&self.before.number.to_le_bytes());
        }
        self.collected.extend_from_slice(&number.to_le_bytes());
        self.collected.extend_from_slice(&at.as_millis().to_le_bytes());
        self.collected.extend_from_slice(&(changes.len() as u64).to_le_bytes());
        self.collected.extend_from_slice(changes);
        let (journal, before) = (self.journal, self.before);
        let new = SegmentName { since: at, until: at, journal, first: number, last: number, before };
        let name = self.name.get_or_insert(new);
        (name.last, name.until) = (number, name.until.max(at));
    }

    /// What was collected so far, for the caller to write.
    pub(super) fn take(&mut self) -> Option<Segment> {
        let name = self.name.take()?;
        let mut content = std::mem::take(&mut self.collected);
        let digest: [u8; DIGEST] = Sha256::digest(&content).into();
        content.extend_from_slice(&digest);
        Some(Segment { directory: self.directory.clone(), name, content })
    }
}

/// A segment that is not on the disk yet.
#[derive(Debug)]
pub(super) struct Segment {
    directory: OutgoingDirectory,
    name: SegmentName,
    content: Vec<u8>,
}

impl Segment {
    /// Writes it, or drops it.
    pub(super) fn write(self) {
        let Err(error) = self.directory.write(self.name, &self.content) else { return };
        metrics::counter!("tenantd_outgoing_segments_lost_total").increment(1);
        tracing::error!(%error, "changes cannot leave this host; only the next backup will have them");
        if let Err(error) = self.directory.set_incomplete() {
            tracing::error!(%error, "the directory of outgoing changes still says that it is complete");
        }
    }
}
