//! Converts event numbers, which are valid in one installation only, to ordinals among the exported events, and back.
//!
//! On export, a number becomes the count of the tenant's kept events up to it. On import, an ordinal becomes the number that this
//! event got. **Invariant:** memory holds only a small part of the numbers, however many events there are.

use tenantd_base::id::TenantId;

use crate::{Flow, Read, StoreError, events};

/// One number is held in memory for this many events. The events between are counted on demand.
const STRIDE: u64 = 256;

/// The position of a number among a tenant's kept events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rank {
    /// How many events have this number or a lower one.
    pub ordinal: u64,
    /// Whether an event has exactly this number.
    pub exact: bool,
}

/// The numbers of a tenant's events in one snapshot.
#[derive(Debug)]
pub struct Places {
    tenant: TenantId,
    /// The number of the first event, and of every [`STRIDE`]th event after it.
    samples: Vec<u64>,
    total: u64,
}

impl Places {
    pub fn new(tx: &impl Read, tenant: TenantId) -> Result<Self, StoreError> {
        let (mut samples, mut total) = (Vec::new(), 0);
        events::scan_tenant(tx, tenant, 0, |number, _| {
            if total % STRIDE == 0 {
                samples.push(number);
            }
            total += 1;
            Ok(Flow::Continue)
        })?;
        Ok(Self { tenant, samples, total })
    }

    /// The number of events.
    pub const fn total(&self) -> u64 {
        self.total
    }

    pub fn rank(&self, tx: &impl Read, number: u64) -> Result<Rank, StoreError> {
        let before = self.samples.partition_point(|sample| *sample <= number);
        let Some(sample) = before.checked_sub(1).and_then(|at| self.samples.get(at)).copied() else {
            return Ok(Rank { ordinal: 0, exact: false });
        };
        let mut rank = Rank { ordinal: (before as u64 - 1) * STRIDE + 1, exact: sample == number };
        events::scan_tenant(tx, self.tenant, sample, |found, _| {
            if found > number {
                return Ok(Flow::Stop);
            }
            rank = Rank { ordinal: rank.ordinal + 1, exact: found == number };
            Ok(Flow::Continue)
        })?;
        Ok(rank)
    }
}

/// Events of a file with consecutive numbers.
#[derive(Clone, Copy, Debug)]
struct Run {
    ordinal: u64,
    number: u64,
}

/// The new numbers of the events of a file. Other events may have been appended between them, so there are several runs.
#[derive(Clone, Debug)]
pub struct EventNumbers {
    /// The last number before the first of them.
    before: u64,
    runs: Vec<Run>,
    last: Option<Run>,
}

impl EventNumbers {
    pub const fn new(before: u64) -> Self {
        Self { before, runs: Vec::new(), last: None }
    }

    /// The ordinal of the next event of the file.
    pub fn next(&self) -> u64 {
        self.last.map_or(1, |last| last.ordinal + 1)
    }

    /// A number after the last of them.
    pub fn next_number(&self) -> u64 {
        self.last.map_or(self.before, |last| last.number) + 1
    }

    /// Records the number of the next event.
    pub fn push(&mut self, number: u64) {
        let run = Run { ordinal: self.next(), number };
        if self.last.is_none_or(|last| last.number + 1 != number) {
            self.runs.push(run);
        }
        self.last = Some(run);
    }

    /// The number of an event. Ordinal 0 gives a number before all of them.
    pub fn number(&self, ordinal: u64) -> Option<u64> {
        if ordinal == 0 {
            return Some(self.runs.first().map_or(self.before, |run| run.number - 1));
        }
        if ordinal >= self.next() {
            return None;
        }
        let at = self.runs.partition_point(|run| run.ordinal <= ordinal);
        let run = self.runs.get(at.checked_sub(1)?)?;
        Some(run.number + (ordinal - run.ordinal))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ordinal_leads_to_the_new_number() {
        let mut map = EventNumbers::new(40);
        assert_eq!((map.number(0), map.number(1)), (Some(40), None));
        for number in [42, 43, 44, 60, 61] {
            map.push(number);
        }
        let numbers: Vec<Option<u64>> = (0..=6).map(|ordinal| map.number(ordinal)).collect();
        assert_eq!(numbers, [Some(41), Some(42), Some(43), Some(44), Some(60), Some(61), None]);
        assert_eq!(map.runs.len(), 2);
    }
}
