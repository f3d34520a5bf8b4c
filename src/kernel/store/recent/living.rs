//! Tracks which states of the layer living copies still show.

use std::{
    ops::Range,
    sync::{Arc, Mutex, PoisonError},
};

/// For each living copy the number of the last batch that it shows, in order.
#[derive(Clone, Debug, Default)]
pub(super) struct LiveCopies(Vec<u64>);

impl LiveCopies {
    /// The lowest number, or `u64::MAX` if no copy is alive.
    pub(super) fn oldest(&self) -> u64 {
        self.0.first().copied().unwrap_or(u64::MAX)
    }

    pub(super) fn count(&self) -> usize {
        self.0.len()
    }

    pub(super) fn any_in(&self, range: Range<u64>) -> bool {
        let next = self.0.partition_point(|number| *number < range.start);
        self.0.get(next).is_some_and(|number| *number < range.end)
    }

    fn remove(&mut self, number: u64) {
        if let Ok(place) = self.0.binary_search(&number) {
            self.0.remove(place);
        }
    }
}

/// The number of the last batch that a copy shows. Copies of the same state share it. Dropping the last one removes it from the
/// list.
#[derive(Debug)]
pub(super) struct CopyVersion {
    number: u64,
    living: Arc<Mutex<LiveCopies>>,
}

impl Default for CopyVersion {
    fn default() -> Self {
        Self::enter(0, Arc::default())
    }
}

impl CopyVersion {
    fn enter(number: u64, living: Arc<Mutex<LiveCopies>>) -> Self {
        living.lock().unwrap_or_else(PoisonError::into_inner).0.push(number);
        Self { number, living }
    }

    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// The state one batch later. **Invariant:** only one state follows this one, so the list stays in order.
    pub(super) fn next(&self) -> Self {
        Self::enter(self.number + 1, self.living.clone())
    }

    /// What living copies show now. A number that is missing never comes back, because a copy is only made from a living copy.
    pub(super) fn living(&self) -> LiveCopies {
        self.living.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for CopyVersion {
    fn drop(&mut self) {
        self.living.lock().unwrap_or_else(PoisonError::into_inner).remove(self.number);
    }
}
