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
        redb_file::{Mark, RedbFile},
    },
    DIGEST, MAGIC, SegmentName, Step,
};

const CACHE_BYTES: usize = 64 << 20;

/// The parsed content of a segment.
struct Content {
    journal: JournalId,
    /// The commit that the opening follows.
    before: Position,
    commits: Vec<Commit>,
}

/// Checks that a segment is intact and matches its name.
pub fn verify(name: SegmentName, content: &[u8]) -> Result<(), StoreError> {
    Content::read(name, content).map(drop)
}

impl Content {
    fn read(name: SegmentName, content: &[u8]) -> Result<Self, StoreError> {
        let refused = |problem: &str| StoreError::Installation(format!("{name}: {problem}"));
        let damaged = || refused("this segment of commits is damaged");
        let (content, digest) =
            content.len().checked_sub(DIGEST).and_then(|end| content.split_at_checked(end)).ok_or_else(damaged)?;
        if Sha256::digest(content).as_slice() != digest {
            return Err(damaged());
        }
        let content = Self::parse(content).ok_or_else(damaged)?;
        if content.name() != Some(name) {
            return Err(refused("the commits of this segment do not match its name"));
        }
        Ok(content)
    }

    fn name(&self) -> Option<SegmentName> {
        let Self { journal, before, commits } = self;
        let Commit { number: first, at, .. } = commits.first()?;
        let new = SegmentName { first: *first, last: *first, since: *at, until: *at, journal: *journal, before: *before };
        Some(commits.iter().fold(new, |mut name, commit| {
            name.extend(commit.number, commit.at);
            name
        }))
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
    /// The time of the last applied commit, and the latest time.
    last: Option<Timestamp>,
    latest: Option<Timestamp>,
}

impl std::fmt::Debug for Replay {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Replay").field("at", &self.at).field("last", &self.last).finish_non_exhaustive()
    }
}

impl Replay {
    /// `from` is the last commit in the snapshot.
    pub fn new(snapshot: &Path, from: Position) -> Result<Self, StoreError> {
        let file = RedbFile::open(snapshot, CACHE_BYTES, None)?;
        Ok(Self { file, at: from, last: None, latest: None })
    }

    /// The time of the last applied commit.
    pub fn last(&self) -> Option<Timestamp> {
        self.last
    }

    /// Whether an earlier commit has a later time, because the clock of the host was set back.
    pub fn was_set_back(&self) -> bool {
        self.latest > self.last
    }

    /// Applies the commits of a step that the snapshot does not have yet. With `until`, it stops at the last commit that is not
    /// later.
    pub fn apply(&mut self, step: Step, content: &[u8], until: Option<Timestamp>) -> Result<(), StoreError> {
        let refused = |problem: &str| StoreError::Installation(format!("{}: {problem}", step.segment));
        let Content { journal, before, commits } = Content::read(step.segment, content)?;
        if journal != self.at.journal && before != self.at {
            return Err(refused("this segment does not follow the previous one"));
        }
        let in_time = |commit: &&Commit| commit.number <= step.through && until.is_none_or(|until| commit.at <= until);
        let last = commits.iter().rfind(in_time).map_or(0, |commit| commit.number);
        let (mut changed, reached) = (Recent::default(), self.at.number);
        for commit in commits.iter().filter(|commit| commit.number > reached && commit.number <= last) {
            let next = Position { journal, number: self.at.number + 1 };
            if commit.number != next.number {
                return Err(refused("commits are missing before it"));
            }
            let newer = || refused("a newer release wrote this segment: install that release");
            changed.add_batch(Changes::decode(&commit.changes).ok_or_else(newer)?);
            (self.at, self.last, self.latest) = (next, Some(commit.at), self.latest.max(Some(commit.at)));
        }
        self.file.apply(&changed, Some(Mark::at(self.at)))
    }
}
