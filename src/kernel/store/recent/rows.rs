//! One table of the layer: its newest state, and the undo that leads back to the states of older copies.

use std::{
    borrow::Cow,
    collections::{BTreeMap, VecDeque},
    iter, mem,
};

use bytes::Bytes;

use super::{
    living::LiveCopies,
    state::{KeyState, State, Undo},
};
use crate::{
    changes::TableChanges,
    engine::{Direction, KeyRange},
};

/// The most keys that joining two lists of undo may move. Without a limit the writer would stop for long after a long read.
const LONGEST_JOIN: usize = 1024;

#[derive(Debug, Default)]
pub(super) struct Rows {
    pub(super) newest: State,
    /// The oldest first. **Invariant:** a living copy has seen all batches of an undo or none of them. Every change that some
    /// living copy has not seen is in one undo.
    pub(super) undo: VecDeque<Undo>,
}

/// Some entries of a walk.
pub(super) struct Stride {
    pub(super) entries: Vec<(Bytes, Bytes)>,
    /// The last key examined, if there may be more entries after it.
    pub(super) last: Option<Bytes>,
}

impl Rows {
    /// Adds a batch. Returns the undo that no copy needs any more, so that the caller can free it without holding the table's
    /// lock.
    #[must_use]
    pub(super) fn add_batch(&mut self, batch: u64, changed: TableChanges, living: &LiveCopies) -> Vec<Undo> {
        let mut undo = Undo::new(batch);
        if changed.dropped {
            undo.whole = Some(mem::replace(&mut self.newest, State::dropped()));
        }
        for (key, change) in changed.entries {
            let key = Bytes::from(key);
            let before = match change {
                Some(value) => self.newest.put(key.clone(), Bytes::from(value)),
                None => self.newest.remove(key.clone()),
            };
            if undo.whole.is_none() {
                undo.list(key, before);
            }
        }
        self.undo.push_back(undo);
        self.trim(living)
    }

    /// Removes the undo that no living copy needs, and joins neighbors that no living copy needs separately.
    #[must_use]
    pub(super) fn trim(&mut self, living: &LiveCopies) -> Vec<Undo> {
        let needed = self.undo.partition_point(|undo| undo.last <= living.oldest());
        let unneeded = self.undo.drain(..needed).collect();
        // Each copy but the newest needs at most one undo of its own.
        if self.undo.len() >= living.count() {
            for undo in mem::take(&mut self.undo) {
                match self.undo.back_mut() {
                    Some(older) if !living.any_in(older.last..undo.last) && older.len().min(undo.len()) <= LONGEST_JOIN => {
                        older.join(undo);
                    }
                    _ => self.undo.push_back(undo),
                }
            }
        }
        unneeded
    }

    /// The undo of the batches that a copy has not seen, the oldest first.
    fn unseen(&self, seen: u64) -> impl DoubleEndedIterator<Item = &Undo> {
        self.undo.range(self.undo.partition_point(|undo| undo.last <= seen)..)
    }

    /// What a copy shows under a key. Here and below, `seen` is the last batch that the copy has seen.
    pub(super) fn get(&self, key: &[u8], seen: u64) -> KeyState<&Bytes> {
        self.unseen(seen).find_map(|undo| undo.get(key)).unwrap_or_else(|| self.newest.get(key))
    }

    /// The state for the keys that no undo lists.
    fn base(&self, seen: u64) -> &State {
        self.unseen(seen).find_map(|undo| undo.whole.as_ref()).unwrap_or(&self.newest)
    }

    /// Whether all rows below are hidden.
    pub(super) fn is_dropped(&self, seen: u64) -> bool {
        self.base(seen).dropped
    }

    /// The whole state. A copy that has not seen every batch pays for a full clone.
    pub(super) fn state(&self, seen: u64) -> Cow<'_, State> {
        let mut state = Cow::Borrowed(&self.newest);
        self.unseen(seen).rev().for_each(|undo| undo.apply(state.to_mut()));
        state
    }

    /// The first entries of a range in the direction of the walk. Examines at most `length` keys.
    pub(super) fn stride(&self, range: &KeyRange, direction: Direction, length: usize, seen: u64) -> Stride {
        // An end before the start means that the walk is over. The standard library's trees panic on such a range.
        if range.is_empty() {
            return Stride { entries: Vec::new(), last: None };
        }
        if self.unseen(seen).next().is_none() {
            let entries = first_entries(&self.newest.entries, range, direction, length);
            let entries: Vec<_> = entries.map(|(key, value)| (key.clone(), value.clone())).collect();
            let last = entries.last().filter(|_| entries.len() == length).map(|(key, _)| key.clone());
            return Stride { entries, last };
        }
        // Every entry that the copy shows is in one of these, where it may be out of date.
        let sources = self.unseen(seen).map(|undo| &undo.puts).chain(iter::once(&self.base(seen).entries));
        let mut keys: Vec<&Bytes> =
            sources.flat_map(|source| first_entries(source, range, direction, length)).map(|(key, _)| key).collect();
        match direction {
            Direction::Forward => keys.sort_unstable(),
            Direction::Backward => keys.sort_unstable_by(|left, right| right.cmp(left)),
        }
        keys.dedup();
        keys.truncate(length);
        let last = keys.last().filter(|_| keys.len() == length).map(|key| Bytes::clone(key));
        let shown = |key: &Bytes| match self.get(key, seen) {
            KeyState::Put(value) => Some((key.clone(), value.clone())),
            KeyState::Removed | KeyState::Untouched => None,
        };
        Stride { entries: keys.into_iter().filter_map(shown).collect(), last }
    }
}

fn first_entries<'a>(
    entries: &'a BTreeMap<Bytes, Bytes>,
    range: &KeyRange,
    direction: Direction,
    length: usize,
) -> impl Iterator<Item = (&'a Bytes, &'a Bytes)> {
    let mut entries = entries.range::<[u8], _>(range.bounds());
    let next = move || match direction {
        Direction::Forward => entries.next(),
        Direction::Backward => entries.next_back(),
    };
    let found = iter::from_fn(next).take(length);
    #[cfg(test)]
    let found = found.inspect(|_| super::tests::count_visit());
    found
}
