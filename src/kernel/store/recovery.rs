//! Compares the three files of a store: redb's file with its mark, the journal, and the witness. A start continues from the state
//! they agree on. If data that was on the disk is no longer readable, the start is refused, because a loss of power alone cannot
//! cause that.
//!
//! **Invariant:** nothing is written here. A batch was on the disk if the witness, a later frame or the file proves it. The store
//! ends at the last frame before a gap. Batches are lost exactly if one of the three names a higher number. `DESIGN.md` has the
//! proof.

use std::ops::RangeInclusive;

use redb::StorageBackend;

use super::{
    changes::Changes,
    error::StoreError,
    events,
    journal::{Commit, Frames, Head, read_head},
    recent::Recent,
    redb_file::Mark,
    witness::{self, Found, WitnessRecord},
};

/// The state of the store before a start.
#[derive(Debug)]
pub(super) struct StoreState {
    /// The changes in the journal that the file does not have yet.
    pub(super) unflushed: Recent,
    /// The same changes, commit by commit.
    pub(super) commits: Vec<Commit>,
    /// The mark of the store with these changes.
    pub(super) mark: Mark,
    pub(super) damage: Option<Damage>,
}

/// What is wrong with the files of a store.
#[derive(Debug)]
pub struct Damage {
    /// A description for the operator.
    pub problem: String,
    /// The batches that were on the disk and are lost. `None` if no loss is known.
    pub lost: Option<RangeInclusive<u64>>,
    /// The lost batches that are still readable. They depend on unreadable ones, so the store cannot apply them.
    pub(super) readable: Vec<Changes>,
    /// The place of the newest event that was on the disk, as far as it is known.
    pub(super) log_end: u64,
}

impl Damage {
    fn without_loss(problem: &str) -> Self {
        Self { problem: problem.to_owned(), lost: None, readable: Vec::new(), log_end: 0 }
    }

    /// The error that refuses a start and names the two ways to continue.
    pub(super) fn refusal(&self) -> StoreError {
        let lost = match &self.lost {
            Some(lost) if lost.start() == lost.end() => "a commit that was on the disk cannot be read any more".to_owned(),
            Some(lost) => format!("{} commits that were on the disk cannot be read any more", lost.end() - lost.start() + 1),
            None => "it is unknown whether anything is lost".to_owned(),
        };
        StoreError::Installation(format!(
            "the store is damaged: {}; {lost}. If you have the right files, put them back. Otherwise restore a backup into an empty \
             directory with `tenantd restore` or continue without the lost data with `tenantd repair --accept-loss`",
            self.problem
        ))
    }
}

/// Compares the files. `mark` is the mark in the store's file.
pub(super) fn examine(mark: Mark, journal: &dyn StorageBackend, witness: &dyn StorageBackend) -> Result<StoreState, StoreError> {
    let found = witness::read(witness).map_err(StoreError::engine)?;
    if mark.closed {
        return Ok(StoreState { unflushed: Recent::default(), commits: Vec::new(), mark, damage: contradiction(mark, found) });
    }
    let head = read_head(journal).map_err(StoreError::engine)?;
    if head == Head::Earlier {
        let problem = "an earlier release did not close the store cleanly: start and stop that release once more, then upgrade";
        return Err(StoreError::Installation(problem.to_owned()));
    }
    let frames = Frames::find(journal, mark.id).map_err(StoreError::engine)?;
    let (mut unflushed, mut commits, mut number) = (Recent::default(), Vec::new(), mark.number);
    while let Some(commit) = frames.commit(number + 1).map_err(StoreError::engine)? {
        unflushed.add_batch(decode(&commit.changes)?);
        commits.push(commit);
        number += 1;
    }
    let damage = find_damage(mark, number, head, &frames, found)?;
    Ok(StoreState { unflushed, commits, mark: Mark { number, ..mark }, damage })
}

fn decode(changes: &[u8]) -> Result<Changes, StoreError> {
    let newer = || StoreError::Installation("a newer release wrote the journal: install that release again".to_owned());
    Changes::decode(changes).ok_or_else(newer)
}

/// Checks a store that was closed cleanly. It needs no journal, but its file may be older than the files beside it.
fn contradiction(mark: Mark, found: Found) -> Option<Damage> {
    let WitnessRecord { id, before, number, log_end } = match found {
        Found::Missing => return None,
        Found::Damaged => return Some(Damage::without_loss("tenantd.witness is damaged")),
        Found::Valid(record) => record,
    };
    let lost = match (id == mark.id, before == mark.id) {
        (true, _) if number <= mark.number => return None,
        // The opening that the witness describes had not written anything.
        (false, true) if number == 0 => return None,
        (true, _) => mark.number + 1..=number,
        (false, _) => 1..=number.max(1),
    };
    let problem = "tenantd.redb is an older copy than the other files of the store".to_owned();
    Some(Damage { problem, lost: Some(lost), readable: Vec::new(), log_end })
}

fn find_damage(mark: Mark, number: u64, head: Head, frames: &Frames<'_>, found: Found) -> Result<Option<Damage>, StoreError> {
    let recorded = match found {
        Found::Valid(record) if record.id == mark.id => Some(record),
        _ => None,
    };
    let proven = frames.synced().max(recorded.map_or(0, |record| record.number));
    if number < proven {
        let problem = match frames.above(number).next() {
            Some(_) => "tenantd.journal is damaged",
            None => "the end of tenantd.journal is missing or damaged, or one of the files is an older copy",
        };
        return lost(problem, number, proven, frames, recorded).map(Some);
    }
    let problem = match (head, found) {
        (Head::Of(id), _) if id != mark.id => "tenantd.journal belongs to another opening of the store, or to another store",
        (Head::Unreadable | Head::Earlier, _) => "tenantd.journal is missing, or its beginning is damaged",
        (_, Found::Missing) => "tenantd.witness is missing",
        (_, Found::Damaged) => "tenantd.witness is damaged",
        (_, Found::Valid(_)) if recorded.is_none() => {
            "tenantd.witness belongs to another opening of the store, or to another store"
        }
        _ => return Ok(None),
    };
    Ok(Some(Damage::without_loss(problem)))
}

fn lost(
    problem: &str,
    number: u64,
    proven: u64,
    frames: &Frames<'_>,
    recorded: Option<WitnessRecord>,
) -> Result<Damage, StoreError> {
    let mut readable = Vec::new();
    for later in frames.above(number) {
        if let Some(commit) = frames.commit(later).map_err(StoreError::engine)? {
            readable.push(decode(&commit.changes)?);
        }
    }
    let read_to = readable.iter().filter_map(events::log_end_in).max();
    let log_end = read_to.max(recorded.map(|record| record.log_end)).unwrap_or_default();
    Ok(Damage { problem: problem.to_owned(), lost: Some(number + 1..=proven), readable, log_end })
}
