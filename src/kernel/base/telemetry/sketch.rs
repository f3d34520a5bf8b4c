//! A mergeable sketch of a distribution: it counts the values in a fixed series of ranges that grow with the value.
//!
//! The ranges are those of an HDR histogram: exact below 32, and 32 per octave above. Only integers are used to find them, so every
//! machine puts a value into the same range. **Invariant:** the error of a quantile is at most 1/64 of the value (1.6 %), however
//! many sketches were merged in whatever order.

/// Ranges per octave, as a power of two.
const PRECISION: u32 = 5;
const EXACT: u64 = 1 << PRECISION;

/// The largest error of a quantile, relative to the value.
pub const RELATIVE_ERROR: f64 = 1.0 / 64.0;

/// Counts by range, starting with the first range that has any.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sketch {
    first: usize,
    counts: Vec<u64>,
}

/// The range of a value: 0 to 1919.
fn range_of(value: u64) -> usize {
    if value < EXACT {
        return usize::try_from(value).unwrap_or_default();
    }
    let octave = value.ilog2();
    let within = (value >> (octave - PRECISION)) - EXACT;
    let range = u64::from(octave - PRECISION + 1) * EXACT + within;
    usize::try_from(range).unwrap_or_default()
}

/// The middle of a range.
fn middle_of(range: usize) -> f64 {
    let range = range as u64;
    if range < EXACT {
        return range as f64;
    }
    let shift = range / EXACT - 1;
    let (least, width) = ((range % EXACT + EXACT) as f64, 2_f64.powi(i32::try_from(shift).unwrap_or(i32::MAX)));
    // The largest value of the range is one less than the smallest of the next.
    least * width + (width - 1.0) / 2.0
}

/// The number of ranges. No value is beyond them.
pub const RANGES: usize = 1_920;

impl Sketch {
    pub fn record(&mut self, value: u64) {
        self.record_many(value, 1);
    }

    pub fn record_many(&mut self, value: u64, count: u64) {
        self.add(range_of(value), count);
    }

    /// Adds counts by range, as [`Sketch::ranges`] returns them.
    pub fn add(&mut self, range: usize, count: u64) {
        if count == 0 || range >= RANGES {
            return;
        }
        if self.counts.is_empty() {
            self.first = range;
        }
        if range < self.first {
            let gap = self.first - range;
            self.counts.splice(0..0, std::iter::repeat_n(0, gap));
            self.first = range;
        }
        let place = range - self.first;
        if place >= self.counts.len() {
            self.counts.resize(place + 1, 0);
        }
        if let Some(slot) = self.counts.get_mut(place) {
            *slot = slot.saturating_add(count);
        }
    }

    pub fn merge(&mut self, other: &Self) {
        for (range, count) in other.ranges() {
            self.add(range, count);
        }
    }

    /// The ranges that have values, in order, with their counts.
    pub fn ranges(&self) -> impl Iterator<Item = (usize, u64)> {
        let counts = self.counts.iter().enumerate().filter(|(_, count)| **count > 0);
        counts.map(|(place, count)| (self.first + place, *count))
    }

    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    pub fn is_empty(&self) -> bool {
        self.counts.is_empty()
    }

    /// The value that this percentage of all values does not exceed; `None` if there are none.
    pub fn percentile(&self, percent: u32) -> Option<f64> {
        let wanted = (u128::from(self.count()) * u128::from(percent.min(100))).div_ceil(100).max(1);
        let mut seen = 0_u128;
        for (range, count) in self.ranges() {
            seen += u128::from(count);
            if seen >= wanted {
                return Some(middle_of(range));
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn sketch(values: &[u64]) -> Sketch {
        let mut sketch = Sketch::default();
        for value in values {
            sketch.record(*value);
        }
        sketch
    }

    fn merged(parts: &[&Sketch]) -> Sketch {
        let mut sum = Sketch::default();
        for part in parts {
            sum.merge(part);
        }
        sum
    }

    /// Values of all sizes.
    fn values() -> impl Strategy<Value = Vec<u64>> {
        proptest::collection::vec((0_u32..64, any::<u64>()).prop_map(|(shift, value)| value >> shift), 1..200)
    }

    proptest! {
        #[test]
        fn the_error_of_a_percentile_is_bounded(mut values in values(), percent in 1_u32..=100) {
            let estimate = sketch(&values).percentile(percent).unwrap();
            values.sort_unstable();
            let rank = (values.len() * percent as usize).div_ceil(100).max(1);
            let exact = values[rank - 1] as f64;
            prop_assert!((estimate - exact).abs() <= exact * RELATIVE_ERROR, "{estimate} for {exact}");
        }

        #[test]
        fn merging_does_not_depend_on_the_order(a in values(), b in values(), c in values()) {
            let (x, y, z) = (sketch(&a), sketch(&b), sketch(&c));
            let left = merged(&[&merged(&[&x, &y]), &z]);
            prop_assert_eq!(&left, &merged(&[&x, &merged(&[&y, &z])]));
            prop_assert_eq!(&left, &merged(&[&z, &y, &x]));
            let all: Vec<u64> = a.iter().chain(&b).chain(&c).copied().collect();
            prop_assert_eq!(&left, &sketch(&all));
        }
    }

    #[test]
    fn ranges_follow_each_other_without_gaps() {
        let mut last = 0;
        for value in (0..100_000_u64).chain([u64::MAX / 3, u64::MAX]) {
            let range = range_of(value);
            assert!(range == last || range == last + 1 || value > 100_000, "{value} jumps from {last} to {range}");
            assert!(range < RANGES);
            last = range;
        }
        assert_eq!(Sketch::default().percentile(50), None);
        assert_eq!(sketch(&[0]).percentile(95), Some(0.0));
    }
}
