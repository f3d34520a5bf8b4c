//! Runs of hidden rows below the layer, so that walks can skip them.
//!
//! A row of a queue may already be in the file when it is removed. Until the next flush every walk would read it and leave it
//! out. So a walk that leaves out many consecutive rows records their range. The record stays valid: the rows below a layer never
//! change while the layer lives, and a key that a copy shows as removed is put or removed in every later copy.

use std::{collections::BTreeMap, ops::Bound};

use crate::engine::{Direction, KeyRange};

/// The shortest run that is recorded. Between two rows that it shows, a walk leaves out fewer rows than this, unless it is the
/// first walk after the removals. Tests use small tables.
pub(super) const SHORTEST_RUN: usize = if cfg!(test) { 3 } else { 32 };

/// A range from `first` to `last` in which all rows below are hidden.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Run {
    first: Vec<u8>,
    last: Vec<u8>,
}

impl Run {
    /// The key that a walk meets first, and the key that it meets last.
    fn ends(&self, direction: Direction) -> (&[u8], &[u8]) {
        match direction {
            Direction::Forward => (&self.first, &self.last),
            Direction::Backward => (&self.last, &self.first),
        }
    }

    /// The part of a range that a walk covers before it meets this run. It may be empty.
    pub(super) fn cut(&self, range: &KeyRange, direction: Direction) -> KeyRange {
        match direction {
            Direction::Forward => KeyRange { start: range.start.clone(), end: Bound::Excluded(self.first.clone()) },
            Direction::Backward => KeyRange { start: Bound::Excluded(self.last.clone()), end: range.end.clone() },
        }
    }
}

/// The runs by their first key. Each has its last key and the number of the first batch whose copies may skip it. **Invariant:**
/// runs do not overlap.
#[derive(Debug, Default)]
pub(super) struct Cleared(BTreeMap<Vec<u8>, (Vec<u8>, u64)>);

impl Cleared {
    /// The first run that a walk over `range` meets and that a copy with the batches up to `seen` may skip.
    pub(super) fn next(&self, range: &KeyRange, direction: Direction, seen: u64) -> Option<Run> {
        let (start, end) = range.bounds();
        let reaches_start = |last: &[u8]| match start {
            Bound::Included(start) => last >= start,
            Bound::Excluded(start) => last > start,
            Bound::Unbounded => true,
        };
        let mut runs = self.0.range::<[u8], _>((self.first_within(start, reaches_start), end));
        let runs = std::iter::from_fn(|| match direction {
            Direction::Forward => runs.next(),
            Direction::Backward => runs.next_back(),
        });
        let mut usable = runs.filter(|(_, (_, since))| *since <= seen);
        usable.next().map(|(first, (last, _))| Run { first: first.clone(), last: last.clone() })
    }

    /// The first key of the runs that end at or after `start`.
    fn first_within<'a>(&'a self, start: Bound<&'a [u8]>, reaches_start: impl Fn(&[u8]) -> bool) -> Bound<&'a [u8]> {
        let (Bound::Included(key) | Bound::Excluded(key)) = start else { return start };
        match self.0.range::<[u8], _>((Bound::Unbounded, Bound::Included(key))).next_back() {
            Some((first, (last, _))) if reaches_start(last) => Bound::Included(first),
            _ => start,
        }
    }

    /// Adds a run found by a copy with the batches up to `since`. It replaces overlapping runs, unless a newer copy found one of
    /// them.
    pub(super) fn add(&mut self, run: Run, since: u64) {
        let Run { mut first, mut last } = run;
        let up_to_last = self.0.range::<[u8], _>((Bound::Unbounded, Bound::Included(last.as_slice()))).rev();
        let overlapping: Vec<_> = up_to_last.take_while(|(_, (other, _))| *other >= first).map(|(key, _)| key.clone()).collect();
        if overlapping.iter().any(|key| self.0.get(key).is_some_and(|(_, other)| *other > since)) {
            return;
        }
        for key in overlapping {
            if let Some((other, _)) = self.0.remove(&key) {
                last = last.max(other);
            }
            first = first.min(key);
        }
        self.0.insert(first, (last, since));
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }
}

/// The rows that a walk has left out since the last row that it showed.
#[derive(Debug, Default)]
pub(super) struct LeftOut {
    /// The first and the last one, in the order of the walk.
    ends: Option<(Vec<u8>, Vec<u8>)>,
    /// How many of them are in no recorded run.
    new: usize,
}

impl LeftOut {
    pub(super) fn row(&mut self, key: &[u8]) {
        self.new += 1;
        self.extend(key, key);
    }

    /// Skips a run and returns the rest of the range after it.
    pub(super) fn jump(&mut self, range: KeyRange, run: &Run, direction: Direction) -> KeyRange {
        let (near, far) = run.ends(direction);
        self.extend(near, far);
        range.after(far, direction)
    }

    fn extend(&mut self, near: &[u8], far: &[u8]) {
        match &mut self.ends {
            Some((_, end)) => {
                end.clear();
                end.extend_from_slice(far);
            }
            None => self.ends = Some((near.to_vec(), far.to_vec())),
        }
    }

    /// Resets, and returns the run if it is long enough to record.
    pub(super) fn take(&mut self, direction: Direction) -> Option<Run> {
        let Self { ends, new } = std::mem::take(self);
        let (near, far) = ends.filter(|_| new >= SHORTEST_RUN)?;
        Some(match direction {
            Direction::Forward => Run { first: near, last: far },
            Direction::Backward => Run { first: far, last: near },
        })
    }
}
