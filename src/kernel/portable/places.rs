//! Places in the log, which mean something in one installation only, as numbers of the tenant's own events, and back.
//!
//! On the way out a place is the number of the tenant's events up to it; on the way in it is the place that the event of this number has
//! got. **Invariant:** memory holds a small part of the places, however many events there are.

use crate::kernel::{
    events,
    id::TenantId,
    store::{Flow, Read, StoreError},
};

/// Of so many events one place is held; those between are counted when they are asked for.
const STRIDE: u64 = 256;

/// How far into a tenant's events a place is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rank {
    /// How many events there are up to it.
    pub ordinal: u64,
    /// Whether the last of them is at this very place.
    pub exact: bool,
}

/// The places of a tenant's events in one snapshot.
#[derive(Debug)]
pub struct Places {
    tenant: TenantId,
    /// The places of the first event, and of every [`STRIDE`]th after it.
    samples: Vec<u64>,
    total: u64,
}

impl Places {
    pub fn new(tx: &impl Read, tenant: TenantId) -> Result<Self, StoreError> {
        let (mut samples, mut total) = (Vec::new(), 0);
        events::scan_tenant(tx, tenant, 0, |seq| {
            if total % STRIDE == 0 {
                samples.push(seq);
            }
            total += 1;
            Ok(Flow::Continue)
        })?;
        Ok(Self { tenant, samples, total })
    }

    /// How many events there are.
    pub const fn total(&self) -> u64 {
        self.total
    }

    pub fn rank(&self, tx: &impl Read, seq: u64) -> Result<Rank, StoreError> {
        let before = self.samples.partition_point(|sample| *sample <= seq);
        let Some(sample) = before.checked_sub(1).and_then(|at| self.samples.get(at)).copied() else {
            return Ok(Rank { ordinal: 0, exact: false });
        };
        let mut rank = Rank { ordinal: (before as u64 - 1) * STRIDE + 1, exact: sample == seq };
        events::scan_tenant(tx, self.tenant, sample, |found| {
            if found > seq {
                return Ok(Flow::Stop);
            }
            rank = Rank { ordinal: rank.ordinal + 1, exact: found == seq };
            Ok(Flow::Continue)
        })?;
        Ok(rank)
    }
}

/// Events of a file that came to be one behind the other in the log.
#[derive(Clone, Copy, Debug)]
struct Run {
    ordinal: u64,
    seq: u64,
}

/// Where the events of a file have come to be. Others may have been appended between them, so there are several runs.
#[derive(Clone, Debug)]
pub struct Landing {
    /// The last place before the first of them.
    before: u64,
    runs: Vec<Run>,
    last: Option<Run>,
}

impl Landing {
    pub const fn new(before: u64) -> Self {
        Self { before, runs: Vec::new(), last: None }
    }

    /// The number that the next event of the file has.
    pub fn next(&self) -> u64 {
        self.last.map_or(1, |last| last.ordinal + 1)
    }

    /// A place behind the last of them.
    pub fn next_seq(&self) -> u64 {
        self.last.map_or(self.before, |last| last.seq) + 1
    }

    /// Takes note of where the next event is.
    pub fn landed(&mut self, seq: u64) {
        let run = Run { ordinal: self.next(), seq };
        if self.last.is_none_or(|last| last.seq + 1 != seq) {
            self.runs.push(run);
        }
        self.last = Some(run);
    }

    /// The place of an event; of number 0, a place before all of them.
    pub fn seq(&self, ordinal: u64) -> Option<u64> {
        if ordinal == 0 {
            return Some(self.runs.first().map_or(self.before, |run| run.seq - 1));
        }
        if ordinal >= self.next() {
            return None;
        }
        let at = self.runs.partition_point(|run| run.ordinal <= ordinal);
        let run = self.runs.get(at.checked_sub(1)?)?;
        Some(run.seq + (ordinal - run.ordinal))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_found_where_it_has_come_to_be() {
        let mut landing = Landing::new(40);
        assert_eq!((landing.seq(0), landing.seq(1)), (Some(40), None));
        for seq in [42, 43, 44, 60, 61] {
            landing.landed(seq);
        }
        let places: Vec<Option<u64>> = (0..=6).map(|ordinal| landing.seq(ordinal)).collect();
        assert_eq!(places, [Some(41), Some(42), Some(43), Some(44), Some(60), Some(61), None]);
        assert_eq!(landing.runs.len(), 2);
    }
}
