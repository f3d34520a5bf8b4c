//! How full a disk is, when it will be full, and what came of snapshots. Types and rules; no store and no clock.

use std::time::Duration;

use tenantd_base::{clock::Timestamp, config, vocabulary::vocabulary};

vocabulary! {
    /// How full the disk is. Places are stored.
    Fill:
    Ample "ample", Low "low", Full "full",
}

vocabulary! {
    /// Why a snapshot was read or written. Places are stored.
    RunKind: Snapshot "snapshot", BeforeUpgrade "before_upgrade", Drill "drill",
}

/// The space of a volume, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Space {
    pub free: u64,
    pub total: u64,
}

/// Below which free space a volume is low, and full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Marks {
    pub low: u64,
    pub full: u64,
}

impl Marks {
    /// The share of the volume, but not more than the bytes: a large disk need not keep a tenth of it free.
    pub fn new(settings: &config::Disk, total: u64) -> Self {
        let share = |percent: u32| total / 100 * u64::from(percent) + total % 100 * u64::from(percent) / 100;
        let full = share(settings.full_percent).min(settings.full_bytes);
        Self { low: share(settings.low_percent).min(settings.low_bytes).max(full), full }
    }
}

impl Fill {
    /// What it is after a look at the disk. A state is left a quarter above the mark at which it was entered: free space that swings around
    /// a mark must not swing the server along.
    pub fn next(self, free: u64, marks: Marks) -> Self {
        let within = |mark: u64, already: bool| free < if already { mark.saturating_add(mark / 4) } else { mark };
        if within(marks.full, self == Self::Full) {
            Self::Full
        } else if within(marks.low, self != Self::Ample) {
            Self::Low
        } else {
            Self::Ample
        }
    }
}

/// The space of the disk at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    pub at: Timestamp,
    pub space: Space,
    pub fill: Fill,
}

/// Less than this says nothing of where the disk goes.
const LEAST_SAMPLES: usize = 12;
const LEAST_SPAN: Duration = Duration::from_hours(24);
const DAY_SECONDS: f64 = 86_400.0;
/// What is further away is not worth a number.
const MOST_DAYS: f64 = 3_650.0;

/// In how many days the disk reaches a mark, if it goes on as it did: a straight line through the samples, the oldest first. `None` when it
/// does not fill, or when nobody can tell yet.
pub fn days_until(mark: u64, samples: &[Sample]) -> Option<f64> {
    let newest = samples.last()?;
    // A volume that was made larger begins anew.
    let same = || samples.iter().rev().take_while(|sample| sample.space.total == newest.space.total);
    let oldest = same().last()?;
    if same().count() < LEAST_SAMPLES || newest.at.since(oldest.at) < LEAST_SPAN {
        return None;
    }
    let points = || same().map(|sample| (sample.at.since(oldest.at).as_secs_f64() / DAY_SECONDS, sample.space.free as f64));
    let count = points().count() as f64;
    let mean = |of: fn((f64, f64)) -> f64| points().map(of).sum::<f64>() / count;
    let (mean_day, mean_free) = (mean(|point| point.0), mean(|point| point.1));
    let slope = points().map(|(day, free)| (day - mean_day) * (free - mean_free)).sum::<f64>()
        / points().map(|(day, _)| (day - mean_day).powi(2)).sum::<f64>();
    let left = newest.space.free.saturating_sub(mark) as f64;
    let days = left / -slope;
    (slope < 0.0 && days <= MOST_DAYS).then_some(days)
}

/// What came of a snapshot, or of the drill of restoring one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    pub kind: RunKind,
    pub at: Timestamp,
    pub path: String,
    pub took: Duration,
    /// The size of the file.
    pub file_bytes: u64,
    pub tables: u64,
    pub records: u64,
    /// Why it does not count. `None`: it was read back, and is what was written.
    pub failure: Option<String>,
}

impl Run {
    pub fn is_good(&self) -> bool {
        self.failure.is_none()
    }

    /// Whether it is a snapshot that can be restored.
    pub fn is_snapshot(&self) -> bool {
        self.is_good() && self.kind != RunKind::Drill
    }
}

/// What was given up of a damaged store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Repair {
    pub problem: String,
    /// `None`: it cannot be told.
    pub lost_commits: Option<u64>,
    pub lost_events: u64,
    /// Where the damaged files are kept.
    pub evidence: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    fn settings() -> config::Disk {
        config::Disk { low_percent: 15, low_bytes: 10 * GIB, full_percent: 5, full_bytes: GIB }
    }

    #[test]
    fn marks_are_a_share_of_small_disks_and_bytes_of_large_ones() {
        assert_eq!(Marks::new(&settings(), 10 * GIB), Marks { low: 3 * GIB / 2, full: GIB / 2 });
        assert_eq!(Marks::new(&settings(), 1000 * GIB), Marks { low: 10 * GIB, full: GIB });
        let odd = config::Disk { low_percent: 1, ..settings() };
        assert_eq!(Marks::new(&odd, 1000 * GIB), Marks { low: 10 * GIB, full: GIB });
        assert_eq!(Marks::new(&config::Disk { full_percent: 0, ..settings() }, GIB).full, 0);
    }

    #[test]
    fn a_state_is_left_above_the_mark_at_which_it_was_entered() {
        use Fill::{Ample, Full, Low};
        let marks = Marks { low: 1000, full: 100 };
        let mut fill = Fill::Ample;
        let seen: Vec<Fill> = [1200, 999, 1001, 1249, 1250, 500, 99, 100, 124, 125, 1249, 1250, 10]
            .into_iter()
            .map(|free| {
                fill = fill.next(free, marks);
                fill
            })
            .collect();
        assert_eq!(seen, [Ample, Low, Low, Low, Ample, Low, Full, Full, Full, Low, Low, Ample, Full]);
        assert_eq!(Ample.next(0, Marks { low: 0, full: 0 }), Ample);
    }

    fn samples(hours: i64, free_at: impl Fn(i64) -> u64) -> Vec<Sample> {
        let at = |hour: i64| Timestamp::from_millis(1_767_225_600_000 + hour * 3_600_000);
        let space = |hour: i64| Space { free: free_at(hour), total: 100 * GIB };
        (0..hours).map(|hour| Sample { at: at(hour), space: space(hour), fill: Fill::Ample }).collect()
    }

    #[test]
    fn a_disk_that_fills_evenly_is_full_when_the_line_says_so() {
        // One GiB a day, with a snapshot that comes and goes.
        let filling = samples(24 * 14 + 1, |hour| {
            let used = GIB / 24 * u64::try_from(hour).unwrap();
            50 * GIB - used - if hour % 24 == 3 { GIB / 2 } else { 0 }
        });
        let days = days_until(GIB, &filling).unwrap();
        assert!((days - 35.0).abs() < 1.0, "{days}");
    }

    #[test]
    fn nothing_is_foretold_without_enough_to_go_by() {
        assert_eq!(days_until(0, &[]), None);
        assert_eq!(days_until(0, &samples(20, |hour| GIB - u64::try_from(hour).unwrap())), None);
        assert_eq!(days_until(0, &samples(100, |_| GIB)), None);
        assert_eq!(days_until(0, &samples(100, |hour| GIB + u64::try_from(hour).unwrap())), None);
        let mut grown = samples(100, |hour| 10 * GIB - GIB / 24 * u64::try_from(hour).unwrap());
        grown.last_mut().unwrap().space.total = 200 * GIB;
        assert_eq!(days_until(0, &grown), None);
    }
}
