//! Commits that leave the host: collected in memory, written to segment files in their own directory, and sent from there.
//!
//! A segment contains consecutive commits of one opening of the store and names the commit that this opening follows. Segments
//! may overlap: after a crash, the commits in the journal are written again. **Invariant:** a commit is in a segment before it
//! leaves the journal, and only if it is in the store. A commit that is too large for the journal is announced first, and
//! confirmed once it is in the store. If a segment cannot be written, it is dropped: the store continues, and the directory is no
//! longer [complete](OutgoingDirectory::base).

mod plan;
mod replay;
#[cfg(test)]
mod tests;

use std::{
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use sha2::{Digest, Sha256};

use tenantd_base::clock::Timestamp;

use super::{
    error::StoreError,
    installation::{KeyFingerprint, remove_file, sync_directory, write_private_file},
    journal::{JournalId, Position},
    volume::Space,
};

pub use plan::{Plan, Reach, Step, leads_to, left_branches, left_since};
pub use replay::{Replay, verify};

const MAGIC: &[u8; 16] = b"tenantd commits2";
const DIGEST: usize = 32;
const SUFFIX: &str = "commits";
const ANNOUNCED: &str = "announced";
const DIRECTORY: &str = "outgoing";
/// The most bytes in the directory: more than an hour of heavy writing, and only a part of the volume.
const MOST_BYTES: u64 = 256 << 20;
const VOLUME_SHARE: u64 = 16;
/// Marks the directory as complete: every commit since a backup has left this host or is here.
const COMPLETE: &str = "complete";
/// The same mark, while that backup is being written.
const PENDING: &str = "pending";

/// The name of a segment, which contains its position in the history.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SegmentName {
    /// The numbers of its first and last commit, counted through all openings of the store.
    pub first: u64,
    pub last: u64,
    /// The earliest and the latest time of its commits.
    pub since: Timestamp,
    pub until: Timestamp,
    /// The opening of the store.
    pub journal: JournalId,
    /// The commit that the opening follows.
    pub before: Position,
}

impl std::fmt::Display for SegmentName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (since, until) = (self.since.as_millis(), self.until.as_millis());
        let (journal, before) = (data_encoding::HEXLOWER.encode(&self.journal), self.before);
        write!(f, "{:016}-{:016}-{since:014}-{until:014}-{journal}-{before}.{SUFFIX}", self.first, self.last)
    }
}

impl SegmentName {
    pub fn parse(name: &str) -> Option<Self> {
        let parts: Vec<&str> = name.strip_suffix(SUFFIX)?.strip_suffix('.')?.splitn(6, '-').collect();
        let [first, last, since, until, journal, before] = parts.try_into().ok()?;
        let time = |millis: &str| millis.parse().ok().map(Timestamp::from_millis);
        Some(Self {
            first: first.parse().ok()?,
            last: last.parse().ok()?,
            since: time(since)?,
            until: time(until)?,
            journal: data_encoding::HEXLOWER.decode(journal.as_bytes()).ok()?.try_into().ok()?,
            before: before.parse().ok()?,
        })
    }

    /// Adds the next commit.
    fn extend(&mut self, number: u64, at: Timestamp) {
        (self.last, self.since, self.until) = (number, self.since.min(at), self.until.max(at));
    }
}

/// The directory in which segments wait until they are sent.
#[derive(Clone, Debug)]
pub struct OutgoingDirectory(PathBuf);

impl OutgoingDirectory {
    /// The one of a data directory. It exists while commits must leave the host.
    pub fn of(data: &Path) -> Self {
        Self(data.join(DIRECTORY))
    }

    pub(super) fn exists(&self) -> bool {
        self.0.exists()
    }

    /// Sets whether commits leave the host. Takes effect when the store is next opened.
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

    /// Removes files that a killed process was writing.
    fn remove_unfinished(&self) -> Result<(), StoreError> {
        for entry in std::fs::read_dir(&self.0).map_err(|error| self.failed(&error))? {
            let path = entry.map_err(|error| self.failed(&error))?.path();
            if path.extension().is_some_and(|extension| extension == "tmp") {
                remove_file(&path)?;
            }
        }
        Ok(())
    }

    /// The waiting segments, the oldest first.
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

    /// Removes a damaged segment. Only the next backup has its commits.
    pub fn give_up(&self, name: SegmentName) -> Result<(), StoreError> {
        self.set_incomplete()?;
        metrics::counter!("tenantd_outgoing_segments_lost_total").increment(1);
        self.remove(name)
    }

    pub fn remove(&self, name: SegmentName) -> Result<(), StoreError> {
        remove_file(&self.0.join(name.to_string()))
    }

    /// Returns the backup that the directory is complete for: it was made with this installation key, and every commit since then
    /// has left the host or is here.
    pub fn base(&self, key: KeyFingerprint) -> Option<String> {
        let found = std::fs::read(self.0.join(COMPLETE)).ok()?;
        String::from_utf8(found.strip_prefix(&key)?.to_vec()).ok().filter(|backup| !backup.is_empty())
    }

    /// Marks the start of a backup. Once the backup is finished, the directory is complete from its snapshot on.
    pub fn begin_backup(&self, key: KeyFingerprint, backup: &str) -> Result<(), StoreError> {
        let content = [&key, backup.as_bytes()].concat();
        if self.exists() { write_private_file(&self.0.join(PENDING), &content) } else { Ok(()) }
    }

    /// Marks the end of a backup that has left the host. Does nothing if a commit was lost meanwhile.
    pub fn end_backup(&self) -> Result<(), StoreError> {
        match std::fs::rename(self.0.join(PENDING), self.0.join(COMPLETE)) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(self.failed(&error)),
            _ => Ok(()),
        }
    }

    /// Marks the directory as incomplete: a commit will never leave the host, or the backup it follows is gone. Only the next
    /// backup has it.
    pub fn set_incomplete(&self) -> Result<(), StoreError> {
        if self.exists() { [PENDING, COMPLETE].iter().try_for_each(|name| remove_file(&self.0.join(name))) } else { Ok(()) }
    }

    fn failed(&self, error: &std::io::Error) -> StoreError {
        StoreError::Installation(format!("{}: {error}", self.0.display()))
    }

    /// Confirms announced commits that are in the store, whose last commit is `end`. Removes the others, which were never
    /// committed.
    pub(super) fn settle(&self, end: Position) -> Result<(), StoreError> {
        for entry in std::fs::read_dir(&self.0).map_err(|error| self.failed(&error))? {
            let path = entry.map_err(|error| self.failed(&error))?.path();
            if path.extension().is_none_or(|extension| extension != ANNOUNCED) {
                continue;
            }
            let name = path.file_stem().and_then(|name| SegmentName::parse(&name.to_string_lossy()));
            match name.filter(|name| name.journal == end.journal && name.last <= end.number) {
                Some(name) => self.confirm(name)?,
                None => remove_file(&path)?,
            }
        }
        Ok(())
    }

    fn announced(&self, name: SegmentName) -> PathBuf {
        self.0.join(format!("{name}.{ANNOUNCED}"))
    }

    fn confirm(&self, name: SegmentName) -> Result<(), StoreError> {
        std::fs::rename(self.announced(name), self.0.join(name.to_string())).map_err(|error| self.failed(&error))?;
        sync_directory(&self.0)
    }

    fn write(&self, path: &Path, content: &[u8]) -> Result<(), StoreError> {
        let space = Space::of(&self.0).map_err(|error| self.failed(&error))?;
        let (mut waiting, most) = (content.len() as u64, MOST_BYTES.min(space.total / VOLUME_SHARE));
        for entry in std::fs::read_dir(&self.0).map_err(|error| self.failed(&error))? {
            waiting += entry.and_then(|entry| entry.metadata()).map_or(0, |data| data.len());
        }
        if waiting > most {
            let problem = format!("{}: {waiting} bytes would wait here, but the limit is {most}", self.0.display());
            return Err(StoreError::Installation(problem));
        }
        write_private_file(path, content)
    }
}

/// Collects the commits of one opening of the store.
#[derive(Debug)]
pub(super) struct Outgoing {
    journal: JournalId,
    before: Position,
    collected: Vec<u8>,
    /// The name of the segment collected so far.
    name: Option<SegmentName>,
    writer: SegmentWriter,
}

impl Outgoing {
    pub(super) fn new(directory: OutgoingDirectory, journal: JournalId, before: Position) -> Self {
        let writer = SegmentWriter { directory, waiting: Arc::default() };
        Self { journal, before, collected: Vec::new(), name: None, writer }
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
        let new = SegmentName { first: number, last: number, since: at, until: at, journal, before };
        self.name.get_or_insert(new).extend(number, at);
    }

    fn take(&mut self) -> Option<Segment> {
        let name = self.name.take()?;
        let mut content = std::mem::take(&mut self.collected);
        let digest: [u8; DIGEST] = Sha256::digest(&content).into();
        content.extend_from_slice(&digest);
        Some(Segment { name, content })
    }

    /// Ends the segment of the commits collected so far. [`SegmentWriter::write`] writes it.
    pub(super) fn cut(&mut self) {
        let segment = self.take();
        self.writer.waiting.lock().unwrap_or_else(PoisonError::into_inner).extend(segment);
    }

    pub(super) fn writer(&self) -> SegmentWriter {
        self.writer.clone()
    }

    /// Writes the commits collected so far, the last of which is not in the store yet.
    pub(super) fn announce(&mut self) -> Option<Announced> {
        self.writer.write();
        let Segment { name, content } = self.take()?;
        let directory = self.writer.directory.clone();
        let written = directory.write(&directory.announced(name), &content);
        directory.or_incomplete(written).then_some(Announced { directory, name })
    }
}

/// Writes segments in order. When it returns, every segment ended before the call is written.
#[derive(Clone, Debug)]
pub(super) struct SegmentWriter {
    directory: OutgoingDirectory,
    waiting: Arc<Mutex<Vec<Segment>>>,
}

impl SegmentWriter {
    pub(super) fn write(&self) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        for Segment { name, content } in waiting.drain(..) {
            self.directory.or_incomplete(self.directory.write(&self.directory.0.join(name.to_string()), &content));
        }
    }
}

/// A segment that is not on the disk yet.
#[derive(Debug)]
struct Segment {
    name: SegmentName,
    content: Vec<u8>,
}

/// A segment on the disk whose last commit is not in the store yet.
#[derive(Debug)]
pub(super) struct Announced {
    directory: OutgoingDirectory,
    name: SegmentName,
}

impl Announced {
    /// Confirms that the commit is in the store.
    pub(super) fn confirm(self) {
        self.directory.or_incomplete(self.directory.confirm(self.name));
    }
}

impl OutgoingDirectory {
    /// Returns whether the write succeeded. After a failure the commits are only in the next backup.
    fn or_incomplete(&self, written: Result<(), StoreError>) -> bool {
        let Err(error) = written else { return true };
        metrics::counter!("tenantd_outgoing_segments_lost_total").increment(1);
        tracing::error!(%error, "cannot write changes that must leave this host; only the next backup will contain them");
        if let Err(error) = self.set_incomplete() {
            tracing::error!(%error, "cannot mark the directory of outgoing changes as incomplete");
        }
        false
    }
}
