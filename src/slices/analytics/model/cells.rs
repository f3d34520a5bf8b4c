//! The packed values of one group within an hour or a day. Each quarter of an hour has its position in the day, a count, a sum and
//! the ranges of a sketch. Numbers have variable length and absent values take no space, so reading a year is fast.
//!
//! **Invariant:** quarters are in order, each at most once.

use std::collections::BTreeMap;

use tenantd_base::telemetry::Sketch;

/// A measured value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Measure {
    /// The number of values; 1 for a gauge.
    pub(crate) count: u64,
    /// The sum of the values; for a gauge, its value.
    pub(crate) total: u64,
    pub(crate) sketch: Sketch,
}

impl Measure {
    pub(crate) fn counted(count: u64) -> Self {
        Self { count, ..Self::default() }
    }

    pub(crate) fn gauge(value: u64) -> Self {
        Self { count: 1, total: value, sketch: Sketch::default() }
    }

    pub(crate) fn spread(value: u64) -> Self {
        Self::spread_many(value, 1)
    }

    pub(crate) fn spread_many(value: u64, count: u64) -> Self {
        let mut sketch = Sketch::default();
        sketch.record_many(value, count);
        Self { count, total: value.saturating_mul(count), sketch }
    }

    pub(crate) fn add(&mut self, other: &Self) {
        self.count = self.count.saturating_add(other.count);
        self.total = self.total.saturating_add(other.total);
        self.sketch.merge(&other.sketch);
    }
}

pub(crate) type Cells = BTreeMap<u8, Measure>;

fn put(out: &mut Vec<u8>, mut value: u64) {
    loop {
        let low = u8::try_from(value & 0x7f).unwrap_or_default();
        value >>= 7;
        if value == 0 {
            out.push(low);
            return;
        }
        out.push(low | 0x80);
    }
}

fn take(input: &mut &[u8]) -> Option<u64> {
    let (mut value, mut shift) = (0_u64, 0_u32);
    loop {
        let (byte, rest) = input.split_first()?;
        *input = rest;
        value |= u64::from(byte & 0x7f).checked_shl(shift)?;
        if byte & 0x80 == 0 {
            return Some(value);
        }
        shift += 7;
    }
}

pub(crate) fn pack(cells: &Cells) -> Vec<u8> {
    let mut out = Vec::with_capacity(cells.len() * 8);
    for (quarter, measure) in cells {
        out.push(*quarter);
        put(&mut out, measure.count);
        put(&mut out, measure.total);
        let ranges: Vec<(usize, u64)> = measure.sketch.ranges().collect();
        put(&mut out, ranges.len() as u64);
        let mut last = 0;
        for (range, count) in ranges {
            put(&mut out, (range - last) as u64);
            put(&mut out, count);
            last = range;
        }
    }
    out
}

/// An item that [`walk`] visits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Figure {
    Cell {
        count: u64,
        total: u64,
    },
    /// A range in the sketch of the preceding cell.
    Range {
        range: usize,
        count: u64,
    },
}

/// Visits the quarters without allocating: for each, its position in the day with count and sum, then its ranges.
/// Returns `None` if the bytes are not valid output of [`pack`].
pub(crate) fn walk(mut bytes: &[u8], mut visit: impl FnMut(u8, Figure)) -> Option<()> {
    while let Some((quarter, rest)) = bytes.split_first() {
        bytes = rest;
        let (count, total, ranges) = (take(&mut bytes)?, take(&mut bytes)?, take(&mut bytes)?);
        visit(*quarter, Figure::Cell { count, total });
        let mut place = 0_usize;
        for _ in 0..ranges {
            place = place.checked_add(usize::try_from(take(&mut bytes)?).ok()?)?;
            visit(*quarter, Figure::Range { range: place, count: take(&mut bytes)? });
        }
    }
    Some(())
}

pub(crate) fn unpack(bytes: &[u8]) -> Option<Cells> {
    let mut cells = Cells::new();
    walk(bytes, |quarter, figure| {
        let cell = cells.entry(quarter).or_default();
        match figure {
            Figure::Cell { count, total } => (cell.count, cell.total) = (count, total),
            Figure::Range { range, count } => cell.sketch.add(range, count),
        }
    })?;
    Some(cells)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn packed_cells_unpack_to_the_same_cells(values in proptest::collection::vec((0_u8..96, any::<u64>(), any::<bool>()), 0..60)) {
            let mut cells = Cells::new();
            for (quarter, value, spread) in values {
                let measure = if spread { Measure::spread(value) } else { Measure::counted(value) };
                cells.entry(quarter).or_default().add(&measure);
            }
            prop_assert_eq!(unpack(&pack(&cells)), Some(cells));
        }

        #[test]
        fn arbitrary_bytes_do_not_panic(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
            let _ = unpack(&bytes);
        }
    }

    #[test]
    fn truncated_bytes_are_refused() {
        let packed = pack(&Cells::from([(3, Measure::spread(70_000))]));
        assert_eq!(unpack(packed.get(..packed.len() - 1).unwrap()), None);
    }
}
