//! What a program may cost.

use std::cell::Cell;

/// Units of work for one job. A unit is about a byte that is looked at or a comparison.
const WORK: u64 = 64_000_000;

/// What is left for a job. A worker of the pool makes one for each; no other code can.
#[derive(Debug)]
pub struct Budget {
    left: Cell<u64>,
}

/// A program costs more than it may.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the program takes too much work")]
pub struct Exhausted;

impl Budget {
    pub(super) fn new() -> Self {
        Self { left: Cell::new(WORK) }
    }

    /// A budget without a pool, for tests of evaluators.
    #[cfg(any(test, feature = "testing"))]
    pub fn for_tests() -> Self {
        Self::new()
    }

    pub fn left(&self) -> u64 {
        self.left.get()
    }

    /// Takes work from the budget, before it is done.
    pub fn charge(&self, work: u64) -> Result<(), Exhausted> {
        if let Some(left) = self.left.get().checked_sub(work) {
            self.left.set(left);
            Ok(())
        } else {
            self.left.set(0);
            Err(Exhausted)
        }
    }
}
