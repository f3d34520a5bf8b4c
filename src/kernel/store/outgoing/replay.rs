//! Brings a snapshot forward, commit by commit, up to a time.

use std::path::Path;

use sha2::{Digest, Sha256};

use tenantd_base::clock::Timestamp;

use super::{
    super::{
        changes::Changes,
        error::StoreError,
        journal::{Commit, JournalId, Position},
        recent::Recent,
        redb_file::RedbFile,
    },
    DIGEST, MAGIC,
};

const CACHE_BYTES: usize = 64 << 20;

/// A segment that was read back.
struct Content {
    journal: JournalId,
    /// Where the opening before it ended.
    before: Position,
    commits: Vec<Commit>,
}

impl Content {
    fn read(content: &[u8]) -> Result<Self, StoreError> {
        let damaged = || StoreError::Installation("a segment of commits is damaged".to_owned());
        let (content, digest) =
            content.len().checked_sub(DIGEST).and_then(|end| content.split_at_checked(end)).ok_or_else(damaged)?;
        if Sha256::digest(content).as_slice() != digest {
            return Err(damaged());
        }
        Self::parse(content).ok_or_else(damaged)
    }

    fn parse(content: &[u8]) -> Option<Self> {
        let (magic, rest) = content.split_first_chunk::<16>()?;
        let (journal, rest) = rest.split_first_chunk()?;
        let (before, rest) = rest.split_first_chunk()?;
        let (number, mut rest) = rest.split_first_chunk()?;
        (magic == MAGIC).then_some(())?;
        let before = Position { journal: *before, number: u64::from_le_bytes(*number) };
        let mut commits = Vec::new();
        while !rest.is_empty() {
            let (number, after) = rest.split_first_chunk()?;
            let (at, after) = after.split_first_chunk()?;
            let (length, after) = after.split_first_chunk()?;
            let (changes, after) = after.split_at_checked(usize::try_from(u64::from_le_bytes(*length)).ok()?)?;
            let (number, at) = (u64::from_le_bytes(*number), Timestamp::from_millis(i64::from_le_bytes(*at)));
            commits.push(Commit { number, at, changes: changes.to_vec() });
            rest = after;
        }
        Some(Self { journal: *journal, before, commits })
    }
}

/// Brings a snapshot forward.
pub struct Replay {
    file: RedbFile,
    at: Position,
    until: Timestamp,
    last: Option<Timestamp>,
}

impl std::fmt::Debug for Replay {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Replay").field("at", &self.at).field("until", &self.until).finish_non_exhaustive()
    }
}

impl Replay {
    /// `from` is the last commit in the snapshot.
    pub fn new(snapshot: &Path, from: Position, until: Timestamp) -> Result<Self, StoreError> {
        let file = RedbFile::open(snapshot, CACHE_BYTES, None)?;
        Ok(Self { file, at: from, until, last: None })
    }

    /// The time of the last commit that was applied.
    pub fn last(&self) -> Option<Timestamp> {
        self.last
    }

    /// Applies those commits of the next segment that the snapshot does not have yet.
    pub fn apply(&mut self, segment: &[u8]) -> Result<(), StoreError> {
        let refused = |problem: &str| StoreError::Installation(format!("a segment of commits cannot be used: {problem}"));
        let Content { journal, before, commits } = Content::read(segment)?;
        let reached = match self.at {
            at if journal == at.journal => at.number,
            at if before == at => 0,
            _ => return Err(refused("it does not follow the one before")),
        };
        let (mut changed, mut number) = (Recent::default(), reached);
        for commit in commits.iter().filter(|commit| commit.number > reached).take_while(|commit| commit.at <= self.until) {
            number += 1;
            if commit.number != number {
                return Err(refused("commits are missing before it"));
            }
            let newer = || refused("a newer release wrote it; install that");
            changed.take_in(Changes::decode(&commit.changes).ok_or_else(newer)?);
            (self.at, self.last) = (Position { journal, number }, Some(commit.at));
        }
        self.file.apply(&changed, None)
    }
}
