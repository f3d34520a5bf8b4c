//! Which states of the layer some copy still shows.

use std::{
    ops::Range,
    sync::{Arc, Mutex, PoisonError},
};

/// The numbers of the last batches that living copies show, in order.
#[derive(Clone, Debug, Default)]
pub(super) struct Numbers(Vec<u64>);

impl Numbers {
    /// The lowest, or the highest there is if no copy lives.
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

/// The number of the last batch that a copy shows. Copies of the same state share it; the last of them takes it out of the list.
#[derive(Debug)]
pub(super) struct Seen {
    number: u64,
    living: Arc<Mutex<Numbers>>,
}

impl Default for Seen {
    fn default() -> Self {
        Self::enter(0, Arc::default())
    }
}

impl Seen {
    fn enter(number: u64, living: Arc<Mutex<Numbers>>) -> Self {
        living.lock().unwrap_or_else(PoisonError::into_inner).0.push(number);
        Self { number, living }
    }

    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// The state one batch later. **Invariant:** nobody else goes on from this state, so the list stays in order.
    pub(super) fn next(&self) -> Self {
        Self::enter(self.number + 1, self.living.clone())
    }

    /// What living copies show now. A number that is missing never comes back, because a copy is made of a living one.
    pub(super) fn living(&self) -> Numbers {
        self.living.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for Seen {
    fn drop(&mut self) {
        self.living.lock().unwrap_or_else(PoisonError::into_inner).remove(self.number);
    }
}
