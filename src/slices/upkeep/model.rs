//! How full a disk is, when it will be full, and what came of snapshots. Types and rules; no store and no clock.

use std::time::Duration;

use tenantd_base::{clock::Timestamp, config, vocabulary::vocabulary};
use tenantd_store::Reserve;

vocabulary! {
    /// How full the disk is. Places are stored.
    Fill:
    Ample "ample", Low "low", Full "full", Exhausted "exhausted",
}

vocabulary! {
    /// Why a snapshot was read or written. Places are stored.
    RunKind: Snapshot "snapshot", BeforeUpgrade "before_upgrade", Drill "drill", Offsite "offsite",
}

pub use tenantd_store::Space;

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

/// The mark that follows from the speed of writing is at most this share of the volume: otherwise a short burst would hold writes back on a
/// disk that is half empty.
const PACE_SHARE: u64 = 10;

/// The reserve takes no less than this at a time while it is not whole.
const LEAST_REFILL: u64 = 1 << 20;

impl Marks {
    /// The volume is full no later than when `written` bytes, as many as in the last interval, would fit only twice.
    pub fn at_pace(self, written: u64, total: u64) -> Self {
        if self.full == 0 {
            return self;
        }
        let full = self.full.max(written.saturating_mul(2).min(total / PACE_SHARE));
        Self { low: self.low.max(full), full }
    }

    /// The free space at which writes go on.
    fn resumes_at(self) -> u64 {
        self.full.saturating_add(self.full / 4)
    }

    /// What the reserve is to take of the free space now. A reserve that was used is made whole in one step, because writes wait for it.
    pub fn for_reserve(self, free: u64, reserve: Reserve, before: Fill) -> u64 {
        let (room, missing) = (free.saturating_sub(self.resumes_at()), reserve.missing());
        if room >= missing {
            missing
        } else if reserve.touched || before.is_read_only() || room < LEAST_REFILL {
            0
        } else {
            room
        }
    }
}

/// How fast the volume is written: what came in the last whole interval, and what came since.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    since: Timestamp,
    /// All that was written up to `since`.
    written: u64,
    last: u64,
}

impl Pace {
    pub fn new(since: Timestamp, written: u64) -> Self {
        Self { since, written, last: 0 }
    }

    /// The pace after a look that found `written` bytes in all.
    pub fn next(self, now: Timestamp, written: u64, interval: Duration) -> Self {
        if now.since(self.since) < interval {
            return self;
        }
        Self { since: now, written, last: written.saturating_sub(self.written) }
    }

    /// The bytes of an interval.
    pub fn bytes(self, written: u64) -> u64 {
        self.last.max(written.saturating_sub(self.written))
    }
}

impl Fill {
    /// Whether changes are refused.
    pub fn is_read_only(self) -> bool {
        matches!(self, Self::Full | Self::Exhausted)
    }

    /// What it is after a look at the disk. A state is left a quarter above the mark at which it was entered: free space that swings around
    /// a mark must not swing the server along. Whatever has used the reserve makes the disk full, and it stays full until there is room to
    /// make the reserve whole again. Once half of the reserve is used up, nothing may be written.
    pub fn next(self, free: u64, reserve: Reserve, marks: Marks) -> Self {
        let within = |mark: u64, already: bool| free < if already { mark.saturating_add(mark / 4) } else { mark };
        let kept = reserve.wanted / 2;
        let kept = if self == Self::Exhausted { kept + kept / 4 } else { kept };
        let stays_full = self.is_read_only() && free < marks.resumes_at().saturating_add(reserve.missing());
        if reserve.starved || free.saturating_add(reserve.left) < kept {
            Self::Exhausted
        } else if reserve.touched || stays_full || free < marks.full {
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
        config::Disk { low_percent: 15, low_bytes: 10 * GIB, full_percent: 5, full_bytes: GIB, reserve_bytes: GIB }
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
                fill = fill.next(free, Reserve::default(), marks);
                fill
            })
            .collect();
        assert_eq!(seen, [Ample, Low, Low, Low, Ample, Low, Full, Full, Full, Low, Low, Ample, Full]);
        assert_eq!(Ample.next(0, Reserve::default(), Marks { low: 0, full: 0 }), Ample);
    }

    #[test]
    fn writes_go_on_only_after_the_reserve_can_be_whole_again() {
        use Fill::{Ample, Exhausted, Full, Low};
        let marks = Marks { low: 1000, full: 100 };
        let whole = Reserve { left: 200, wanted: 200, touched: false, starved: false };
        assert_eq!(Ample.next(5_000, Reserve { touched: true, ..whole }, marks), Full, "the reserve was used");
        let half = Reserve { left: 100, touched: true, ..whole };
        assert_eq!([Full.next(0, half, marks), Full.next(224, half, marks)], [Full, Full]);
        assert_eq!(Full.next(224, Reserve { touched: false, ..half }, marks), Full, "125 for the mark and 100 for the reserve");
        assert_eq!(Full.next(225, Reserve { touched: false, ..half }, marks), Low);
        // A reserve that never was whole holds nothing back.
        assert_eq!(Ample.next(5_000, Reserve { left: 0, ..whole }, marks), Ample);
        let little = Reserve { left: 50, touched: true, ..whole };
        assert_eq!([Full.next(49, little, marks), Full.next(50, little, marks)], [Exhausted, Full]);
        assert_eq!([Exhausted.next(74, little, marks), Exhausted.next(75, little, marks)], [Exhausted, Full]);
        assert_eq!(Ample.next(5_000, Reserve { starved: true, ..whole }, marks), Exhausted);
    }

    #[test]
    fn the_reserve_takes_what_writes_do_not_need() {
        const MIB: u64 = 1 << 20;
        let marks = Marks { low: 100 * MIB, full: 8 * MIB };
        let missing = Reserve { left: 0, wanted: 20 * MIB, touched: false, starved: false };
        let takes = |free: u64, reserve: Reserve, before: Fill| marks.for_reserve(free * MIB, reserve, before) / MIB;
        assert_eq!(takes(50, missing, Fill::Ample), 20);
        assert_eq!([takes(15, missing, Fill::Ample), takes(10, missing, Fill::Ample)], [5, 0]);
        assert_eq!([takes(29, missing, Fill::Full), takes(30, missing, Fill::Full)], [0, 20]);
        assert_eq!(takes(29, Reserve { touched: true, ..missing }, Fill::Ample), 0);
        assert_eq!(takes(50, Reserve { left: 20 * MIB, ..missing }, Fill::Ample), 0);
    }

    #[test]
    fn the_mark_grows_with_the_speed_of_writing() {
        let marks = Marks { low: 150, full: 50 };
        assert_eq!(marks.at_pace(10, 1000), marks);
        assert_eq!(marks.at_pace(40, 1000), Marks { low: 150, full: 80 });
        assert_eq!(marks.at_pace(4_000, 1000), Marks { low: 150, full: 100 }, "at most a tenth of the volume");
        assert_eq!(marks.at_pace(4_000, 10_000), Marks { low: 1000, full: 1000 });
        assert_eq!(Marks { low: 0, full: 0 }.at_pace(40, 1000), Marks { low: 0, full: 0 }, "there is to be no mark");
    }

    #[test]
    fn the_pace_is_that_of_the_last_interval_or_of_the_one_under_way() {
        let at = |second: i64| Timestamp::from_millis(second * 1000);
        let interval = Duration::from_secs(5);
        let pace = Pace::new(at(0), 0).next(at(2), 30, interval);
        assert_eq!(pace.bytes(30), 30);
        let pace = pace.next(at(5), 70, interval);
        assert_eq!([pace.bytes(70), pace.bytes(100), pace.bytes(200)], [70, 70, 130]);
        let pace = pace.next(at(10), 70, interval);
        assert_eq!(pace.bytes(70), 0);
        assert_eq!(Pace::new(at(0), 500).bytes(500), 0, "what a start has written does not count");
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
