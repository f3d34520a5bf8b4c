//! The cost limit of a program.

use std::cell::Cell;

/// Units of work for one job. One unit is roughly one byte that is read, or one comparison.
const WORK: u64 = 64_000_000;

/// The remaining work of a job. Only a worker of the pool creates one, for each job.
#[derive(Debug)]
pub struct Budget {
    left: Cell<u64>,
}

/// The program exceeds its budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the program takes too much work")]
pub struct Exhausted;

impl Budget {
    pub(super) fn new() -> Self {
        Self { left: Cell::new(WORK) }
    }

    /// Creates a budget without a pool, for tests of evaluators.
    #[cfg(any(test, feature = "testing"))]
    pub fn for_tests() -> Self {
        Self::new()
    }

    pub fn left(&self) -> u64 {
        self.left.get()
    }

    /// Takes work from the budget. Call it before the work is done.
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
