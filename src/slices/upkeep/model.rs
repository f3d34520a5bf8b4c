//! Disk thresholds and forecasts, and the results of snapshots. Types and rules; no store and no clock.

use std::time::Duration;

use tenantd_base::{clock::Timestamp, config, vocabulary::vocabulary};
use tenantd_store::Reserve;

vocabulary! {
    /// How full the disk is. The positions are stored.
    Fill:
    Ample "ample", Low "low", Full "full", Exhausted "exhausted",
}

vocabulary! {
    /// Why a snapshot was read or written. The positions are stored.
    RunKind: Snapshot "snapshot", BeforeUpgrade "before_upgrade", Drill "drill", Offsite "offsite",
}

pub use tenantd_store::Space;

/// The free space below which a volume is low, and full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Thresholds {
    pub low: u64,
    pub full: u64,
}

impl Thresholds {
    /// A share of the volume, limited by a number of bytes: a large disk does not need a tenth of its space free.
    pub fn new(settings: &config::Disk, total: u64) -> Self {
        let share = |percent: u32| total / 100 * u64::from(percent) + total % 100 * u64::from(percent) / 100;
        let full = share(settings.full_percent).min(settings.full_bytes);
        Self { low: share(settings.low_percent).min(settings.low_bytes).max(full), full }
    }
}

/// The maximum share of the volume for the threshold that follows from the write speed. Otherwise a short burst would pause
/// writes on a half-empty disk.
const PACE_SHARE: u64 = 10;

/// The minimum step in which an incomplete reserve is filled.
const LEAST_REFILL: u64 = 1 << 20;

impl Thresholds {
    /// Raises the threshold so that the volume is full at the latest when `written` bytes, as many as in the last interval,
    /// fit only twice.
    pub fn at_pace(self, written: u64, total: u64) -> Self {
        if self.full == 0 {
            return self;
        }
        let full = self.full.max(written.saturating_mul(2).min(total / PACE_SHARE));
        Self { low: self.low.max(full), full }
    }

    /// The free space at which writes resume.
    fn resumes_at(self) -> u64 {
        self.full.saturating_add(self.full / 4)
    }

    /// How much of the free space the reserve takes now. A reserve that was used is completed in one step, because writes
    /// wait for it.
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

/// How fast the volume is written: the bytes of the last whole interval, and of the current one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    since: Timestamp,
    /// The total number of bytes written up to `since`.
    written: u64,
    last: u64,
}

impl Pace {
    pub fn new(since: Timestamp, written: u64) -> Self {
        Self { since, written, last: 0 }
    }

    /// The pace after a measurement of `written` bytes in total.
    pub fn next(self, now: Timestamp, written: u64, interval: Duration) -> Self {
        if now.since(self.since) < interval {
            return self;
        }
        Self { since: now, written, last: written.saturating_sub(self.written) }
    }

    /// The number of bytes per interval.
    pub fn bytes(self, written: u64) -> u64 {
        self.last.max(written.saturating_sub(self.written))
    }
}

impl Fill {
    /// Whether writes are paused.
    pub fn is_read_only(self) -> bool {
        matches!(self, Self::Full | Self::Exhausted)
    }

    /// The state after a measurement. A state ends only when free space is 25 % above the threshold at which it began, so
    /// that small changes around a threshold do not switch the server back and forth. Using the reserve makes the disk full.
    /// It stays full until there is room to complete the reserve. Once half of the reserve is used, nothing may be written.
    pub fn next(self, free: u64, reserve: Reserve, thresholds: Thresholds) -> Self {
        let within =
            |threshold: u64, already: bool| free < if already { threshold.saturating_add(threshold / 4) } else { threshold };
        let kept = reserve.wanted / 2;
        let kept = if self == Self::Exhausted { kept + kept / 4 } else { kept };
        let stays_full = self.is_read_only() && free < thresholds.resumes_at().saturating_add(reserve.missing());
        if reserve.starved || free.saturating_add(reserve.left) < kept {
            Self::Exhausted
        } else if reserve.touched || stays_full || free < thresholds.full {
            Self::Full
        } else if within(thresholds.low, self != Self::Ample) {
            Self::Low
        } else {
            Self::Ample
        }
    }
}

/// A measurement of the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    pub at: Timestamp,
    pub space: Space,
    pub fill: Fill,
}

/// With fewer samples, or a shorter period, there is no forecast.
const LEAST_SAMPLES: usize = 12;
const LEAST_SPAN: Duration = Duration::from_hours(24);
const DAY_SECONDS: f64 = 86_400.0;
/// Longer forecasts are meaningless.
const MOST_DAYS: f64 = 3_650.0;

/// In how many days the disk reaches a threshold at the current rate, by linear regression over the samples (oldest first).
/// `None` if the disk does not fill up, or if there is not enough data.
pub fn days_until(threshold: u64, samples: &[Sample]) -> Option<f64> {
    let newest = samples.last()?;
    // Start again if the volume was resized.
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
    let left = newest.space.free.saturating_sub(threshold) as f64;
    let days = left / -slope;
    (slope < 0.0 && days <= MOST_DAYS).then_some(days)
}

/// The result of a snapshot, or of a restore drill.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    pub kind: RunKind,
    pub at: Timestamp,
    pub path: String,
    pub took: Duration,
    /// The size of the snapshot file.
    pub file_bytes: u64,
    pub tables: u64,
    pub records: u64,
    /// Why the run failed. `None` if the snapshot was read back and is correct.
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

/// What was lost when a damaged store was repaired.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Repair {
    pub problem: String,
    /// `None` if the number is unknown.
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
    fn thresholds_are_a_share_of_small_disks_and_bytes_of_large_ones() {
        assert_eq!(Thresholds::new(&settings(), 10 * GIB), Thresholds { low: 3 * GIB / 2, full: GIB / 2 });
        assert_eq!(Thresholds::new(&settings(), 1000 * GIB), Thresholds { low: 10 * GIB, full: GIB });
        let odd = config::Disk { low_percent: 1, ..settings() };
        assert_eq!(Thresholds::new(&odd, 1000 * GIB), Thresholds { low: 10 * GIB, full: GIB });
        assert_eq!(Thresholds::new(&config::Disk { full_percent: 0, ..settings() }, GIB).full, 0);
    }

    #[test]
    fn a_state_ends_above_its_threshold() {
        use Fill::{Ample, Full, Low};
        let thresholds = Thresholds { low: 1000, full: 100 };
        let mut fill = Fill::Ample;
        let seen: Vec<Fill> = [1200, 999, 1001, 1249, 1250, 500, 99, 100, 124, 125, 1249, 1250, 10]
            .into_iter()
            .map(|free| {
                fill = fill.next(free, Reserve::default(), thresholds);
                fill
            })
            .collect();
        assert_eq!(seen, [Ample, Low, Low, Low, Ample, Low, Full, Full, Full, Low, Low, Ample, Full]);
        assert_eq!(Ample.next(0, Reserve::default(), Thresholds { low: 0, full: 0 }), Ample);
    }

    #[test]
    fn writes_resume_when_there_is_room_for_the_reserve() {
        use Fill::{Ample, Exhausted, Full, Low};
        let thresholds = Thresholds { low: 1000, full: 100 };
        let whole = Reserve { left: 200, wanted: 200, touched: false, starved: false };
        assert_eq!(Ample.next(5_000, Reserve { touched: true, ..whole }, thresholds), Full, "the reserve was used");
        let half = Reserve { left: 100, touched: true, ..whole };
        assert_eq!([Full.next(0, half, thresholds), Full.next(224, half, thresholds)], [Full, Full]);
        assert_eq!(
            Full.next(224, Reserve { touched: false, ..half }, thresholds),
            Full,
            "125 for the threshold and 100 for the reserve"
        );
        assert_eq!(Full.next(225, Reserve { touched: false, ..half }, thresholds), Low);
        // A reserve that never was complete pauses nothing.
        assert_eq!(Ample.next(5_000, Reserve { left: 0, ..whole }, thresholds), Ample);
        let little = Reserve { left: 50, touched: true, ..whole };
        assert_eq!([Full.next(49, little, thresholds), Full.next(50, little, thresholds)], [Exhausted, Full]);
        assert_eq!([Exhausted.next(74, little, thresholds), Exhausted.next(75, little, thresholds)], [Exhausted, Full]);
        assert_eq!(Ample.next(5_000, Reserve { starved: true, ..whole }, thresholds), Exhausted);
    }

    #[test]
    fn the_reserve_takes_what_writes_do_not_need() {
        const MIB: u64 = 1 << 20;
        let thresholds = Thresholds { low: 100 * MIB, full: 8 * MIB };
        let missing = Reserve { left: 0, wanted: 20 * MIB, touched: false, starved: false };
        let takes = |free: u64, reserve: Reserve, before: Fill| thresholds.for_reserve(free * MIB, reserve, before) / MIB;
        assert_eq!(takes(50, missing, Fill::Ample), 20);
        assert_eq!([takes(15, missing, Fill::Ample), takes(10, missing, Fill::Ample)], [5, 0]);
        assert_eq!([takes(29, missing, Fill::Full), takes(30, missing, Fill::Full)], [0, 20]);
        assert_eq!(takes(29, Reserve { touched: true, ..missing }, Fill::Ample), 0);
        assert_eq!(takes(50, Reserve { left: 20 * MIB, ..missing }, Fill::Ample), 0);
    }

    #[test]
    fn the_threshold_grows_with_the_write_speed() {
        let thresholds = Thresholds { low: 150, full: 50 };
        assert_eq!(thresholds.at_pace(10, 1000), thresholds);
        assert_eq!(thresholds.at_pace(40, 1000), Thresholds { low: 150, full: 80 });
        assert_eq!(thresholds.at_pace(4_000, 1000), Thresholds { low: 150, full: 100 }, "at most a tenth of the volume");
        assert_eq!(thresholds.at_pace(4_000, 10_000), Thresholds { low: 1000, full: 1000 });
        assert_eq!(Thresholds { low: 0, full: 0 }.at_pace(40, 1000), Thresholds { low: 0, full: 0 }, "the threshold is disabled");
    }

    #[test]
    fn the_pace_is_the_higher_of_the_last_and_the_current_interval() {
        let at = |second: i64| Timestamp::from_millis(second * 1000);
        let interval = Duration::from_secs(5);
        let pace = Pace::new(at(0), 0).next(at(2), 30, interval);
        assert_eq!(pace.bytes(30), 30);
        let pace = pace.next(at(5), 70, interval);
        assert_eq!([pace.bytes(70), pace.bytes(100), pace.bytes(200)], [70, 70, 130]);
        let pace = pace.next(at(10), 70, interval);
        assert_eq!(pace.bytes(70), 0);
        assert_eq!(Pace::new(at(0), 500).bytes(500), 0, "writes before the start do not count");
    }

    fn samples(hours: i64, free_at: impl Fn(i64) -> u64) -> Vec<Sample> {
        let at = |hour: i64| Timestamp::from_millis(1_767_225_600_000 + hour * 3_600_000);
        let space = |hour: i64| Space { free: free_at(hour), total: 100 * GIB };
        (0..hours).map(|hour| Sample { at: at(hour), space: space(hour), fill: Fill::Ample }).collect()
    }

    #[test]
    fn a_steady_rate_gives_a_forecast() {
        // One GiB a day, plus a snapshot that is written and removed.
        let filling = samples(24 * 14 + 1, |hour| {
            let used = GIB / 24 * u64::try_from(hour).unwrap();
            50 * GIB - used - if hour % 24 == 3 { GIB / 2 } else { 0 }
        });
        let days = days_until(GIB, &filling).unwrap();
        assert!((days - 35.0).abs() < 1.0, "{days}");
    }

    #[test]
    fn too_few_samples_give_no_forecast() {
        assert_eq!(days_until(0, &[]), None);
        assert_eq!(days_until(0, &samples(20, |hour| GIB - u64::try_from(hour).unwrap())), None);
        assert_eq!(days_until(0, &samples(100, |_| GIB)), None);
        assert_eq!(days_until(0, &samples(100, |hour| GIB + u64::try_from(hour).unwrap())), None);
        let mut grown = samples(100, |hour| 10 * GIB - GIB / 24 * u64::try_from(hour).unwrap());
        grown.last_mut().unwrap().space.total = 200 * GIB;
        assert_eq!(days_until(0, &grown), None);
    }
}
