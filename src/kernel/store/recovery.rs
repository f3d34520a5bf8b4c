//! What the three files of a store say together: redb's file with its mark, the journal, and the witness. A start goes on from what they
//! agree on. If data that was on the disk cannot be read any more, the start is refused: it is not the torn end of a loss of power.
//!
//! **Invariant:** nothing is written here. The proof: a batch was on the disk if the witness or a later frame says so, or if the file
//! has it. So the store stands behind the last frame without a gap, and it stands too early exactly if one of them names a higher number.

use std::ops::RangeInclusive;

use redb::StorageBackend;

use super::{
    changes::Changes,
    error::StoreError,
    events,
    journal::{Commit, Frames, Head, read_head},
    recent::Recent,
    redb_file::Mark,
    witness::{self, Found, Testimony},
};

/// The store as a start finds it.
#[derive(Debug)]
pub(super) struct Examined {
    /// What the journal has and the file has not.
    pub(super) missed: Recent,
    /// The same, commit by commit.
    pub(super) commits: Vec<Commit>,
    /// Where the store stands with it.
    pub(super) mark: Mark,
    pub(super) damage: Option<Damage>,
}

/// What is wrong with the files of a store.
#[derive(Debug)]
pub struct Damage {
    /// In words.
    pub problem: String,
    /// The batches that were on the disk and are lost. None: no loss is known.
    pub lost: Option<RangeInclusive<u64>>,
    /// Those of them that can still be read. They rest on others that cannot, so they are no use to the store.
    pub(super) readable: Vec<Changes>,
    /// The place of the newest event that was on the disk, as far as it is known.
    pub(super) log_end: u64,
}

impl Damage {
    fn without_loss(problem: &str) -> Self {
        Self { problem: problem.to_owned(), lost: None, readable: Vec::new(), log_end: 0 }
    }

    /// Why a start is refused, and the two ways on.
    pub(super) fn refusal(&self) -> StoreError {
        let lost = match &self.lost {
            Some(lost) if lost.start() == lost.end() => "a commit that was on the disk cannot be read any more".to_owned(),
            Some(lost) => format!("{} commits that were on the disk cannot be read any more", lost.end() - lost.start() + 1),
            None => "whether anything is lost cannot be told".to_owned(),
        };
        StoreError::Installation(format!(
            "the store is damaged: {}; {lost}. If you have the right files, put them back. Otherwise restore a backup into an empty \
             directory with `tenantd restore`, or go on without what is lost with `tenantd repair --accept-loss`",
            self.problem
        ))
    }
}

/// Compares the files. `mark` is what the store's file says.
pub(super) fn examine(mark: Mark, journal: &dyn StorageBackend, witness: &dyn StorageBackend) -> Result<Examined, StoreError> {
    let said = witness::read(witness).map_err(StoreError::engine)?;
    if mark.closed {
        return Ok(Examined { missed: Recent::default(), commits: Vec::new(), mark, damage: contradiction(mark, said) });
    }
    let head = read_head(journal).map_err(StoreError::engine)?;
    if head == Head::Earlier {
        let problem =
            "the store was not closed in order by an earlier release: start that release once more and stop it, then upgrade";
        return Err(StoreError::Installation(problem.to_owned()));
    }
    let frames = Frames::find(journal, mark.id).map_err(StoreError::engine)?;
    let (mut missed, mut commits, mut number) = (Recent::default(), Vec::new(), mark.number);
    while let Some(commit) = frames.commit(number + 1).map_err(StoreError::engine)? {
        missed.take_in(decode(&commit.changes)?);
        commits.push(commit);
        number += 1;
    }
    let damage = find_damage(mark, number, head, &frames, said)?;
    Ok(Examined { missed, commits, mark: Mark { number, ..mark }, damage })
}

fn decode(changes: &[u8]) -> Result<Changes, StoreError> {
    let newer = || StoreError::Installation("the journal was written by a newer release: install that again".to_owned());
    Changes::decode(changes).ok_or_else(newer)
}

/// What is wrong with a store that was closed in order, whose file needs no journal: it may be older than what is beside it.
fn contradiction(mark: Mark, said: Found) -> Option<Damage> {
    let Testimony { id, before, number, log_end } = match said {
        Found::Nothing => return None,
        Found::Damaged => return Some(Damage::without_loss("tenantd.witness is damaged")),
        Found::Said(said) => said,
    };
    let lost = match (id == mark.id, before == mark.id) {
        (true, _) if number <= mark.number => return None,
        // The opening that it is about had not begun to write.
        (false, true) if number == 0 => return None,
        (true, _) => mark.number + 1..=number,
        (false, _) => 1..=number.max(1),
    };
    let problem = "tenantd.redb is an older copy than the files beside it".to_owned();
    Some(Damage { problem, lost: Some(lost), readable: Vec::new(), log_end })
}

fn find_damage(mark: Mark, number: u64, head: Head, frames: &Frames<'_>, said: Found) -> Result<Option<Damage>, StoreError> {
    let testimony = match said {
        Found::Said(said) if said.id == mark.id => Some(said),
        _ => None,
    };
    let proven = frames.synced().max(testimony.map_or(0, |said| said.number));
    if number < proven {
        let problem = match frames.above(number).next() {
            Some(_) => "tenantd.journal is damaged",
            None => "the end of tenantd.journal is missing or damaged, or one of the files is an older copy",
        };
        return lost(problem, number, proven, frames, testimony).map(Some);
    }
    let problem = match (head, said) {
        (Head::Of(id), _) if id != mark.id => "tenantd.journal belongs to another opening of the store, or to another store",
        (Head::Unreadable | Head::Earlier, _) => "tenantd.journal is missing, or its beginning is damaged",
        (_, Found::Nothing) => "tenantd.witness is missing",
        (_, Found::Damaged) => "tenantd.witness is damaged",
        (_, Found::Said(_)) if testimony.is_none() => {
            "tenantd.witness belongs to another opening of the store, or to another store"
        }
        _ => return Ok(None),
    };
    Ok(Some(Damage::without_loss(problem)))
}

fn lost(problem: &str, number: u64, proven: u64, frames: &Frames<'_>, testimony: Option<Testimony>) -> Result<Damage, StoreError> {
    let mut readable = Vec::new();
    for later in frames.above(number) {
        if let Some(commit) = frames.commit(later).map_err(StoreError::engine)? {
            readable.push(decode(&commit.changes)?);
        }
    }
    let read_to = readable.iter().filter_map(events::log_end_in).max();
    let log_end = read_to.max(testimony.map(|said| said.log_end)).unwrap_or_default();
    Ok(Damage { problem: problem.to_owned(), lost: Some(number + 1..=proven), readable, log_end })
}
