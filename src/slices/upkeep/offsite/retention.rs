//! The retention of backups: the newest one of each recent day, week and month, and always the last ones.

use tenantd_base::{clock::Timestamp, config};

const DAY_MILLIS: i64 = 86_400_000;
/// 1970-01-01 was a Thursday. Weeks begin on Monday.
const DAYS_AFTER_MONDAY: i64 = 3;

/// How many backups of each kind to keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Retention {
    pub(super) last: usize,
    pub(super) daily: usize,
    pub(super) weekly: usize,
    pub(super) monthly: usize,
}

impl Retention {
    pub(super) fn new(settings: &config::Offsite) -> Self {
        let count = |setting: u32| usize::try_from(setting).unwrap_or(usize::MAX);
        Self {
            last: count(settings.keep_last),
            daily: count(settings.keep_daily),
            weekly: count(settings.keep_weekly),
            monthly: count(settings.keep_monthly),
        }
    }
}

fn day(at: Timestamp) -> i64 {
    at.as_millis().div_euclid(DAY_MILLIS)
}

fn week(at: Timestamp) -> i64 {
    (day(at) + DAYS_AFTER_MONDAY).div_euclid(7)
}

/// Months since year 0 in UTC.
fn month(at: Timestamp) -> i64 {
    let date = jiff::Timestamp::from_millisecond(at.as_millis()).unwrap_or_default().to_zoned(jiff::tz::TimeZone::UTC).date();
    i64::from(date.year()) * 12 + i64::from(date.month())
}

/// How many periods keep their newest backup, and the period of a time.
type Rule = (usize, fn(Timestamp) -> i64);

/// The backups to remove. Input and output are ordered oldest first, which can differ from the order of their times if a
/// clock was wrong.
pub(super) fn surplus<T>(backups: impl DoubleEndedIterator<Item = (Timestamp, T)>, kept: Retention) -> Vec<T> {
    let rules: [Rule; 3] = [(kept.daily, day), (kept.weekly, week), (kept.monthly, month)];
    let mut seen: [Vec<i64>; 3] = Default::default();
    let mut removed = Vec::new();
    for (place, (at, backup)) in backups.rev().enumerate() {
        let mut stays = place < kept.last;
        for ((most, span), seen) in rules.iter().zip(&mut seen) {
            let span = span(at);
            if !seen.contains(&span) && seen.len() < *most {
                seen.push(span);
                stays = true;
            }
        }
        if !stays {
            removed.push(backup);
        }
    }
    removed.reverse();
    removed
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    const HOUR: i64 = 3_600_000;
    /// Thursday, 2026-01-01.
    const START: i64 = 1_767_225_600_000;

    fn at(hours: i64) -> Timestamp {
        Timestamp::from_millis(START + hours * HOUR)
    }

    fn remaining(hours: &[i64], kept: Retention) -> Vec<i64> {
        let removed = surplus(hours.iter().map(|hour| (at(*hour), *hour)), kept);
        hours.iter().copied().filter(|hour| !removed.contains(hour)).collect()
    }

    #[test]
    fn days_weeks_and_months_keep_their_newest() {
        assert_eq!((week(at(0)), week(at(3 * 24 + 23)), week(at(4 * 24))), (week(at(24)), week(at(24)), week(at(24)) + 1));
        assert_eq!(month(at(30 * 24 + 23)) + 1, month(at(31 * 24)));
        let daily = Retention { last: 1, daily: 2, weekly: 0, monthly: 0 };
        assert_eq!(remaining(&[0, 5, 23, 24, 30, 60], daily), [30, 60]);
        let weekly = Retention { last: 1, daily: 0, weekly: 2, monthly: 0 };
        assert_eq!(remaining(&[0, 95, 96, 100], weekly), [95, 100]);
    }

    #[test]
    fn backups_from_the_future_do_not_replace_newer_ones() {
        let kept = Retention { last: 2, daily: 2, weekly: 0, monthly: 0 };
        assert_eq!(remaining(&[0, 9000, 9001, 1, 2, 30], kept), [2, 30]);
    }

    #[test]
    fn a_year_of_backups_keeps_one_per_period() {
        let kept = Retention { last: 3, daily: 7, weekly: 4, monthly: 6 };
        let mut hours: Vec<i64> = Vec::new();
        for hour in (0..365 * 24).step_by(6) {
            hours.push(hour);
            hours = remaining(&hours, kept);
        }
        let days: BTreeSet<i64> = hours.iter().map(|hour| day(at(*hour))).collect();
        let months: BTreeSet<i64> = hours.iter().map(|hour| month(at(*hour))).collect();
        let last = 364;
        assert!((0..7).all(|back| days.contains(&(day(at(0)) + last - back))), "{days:?}");
        assert_eq!(months.len(), 6, "{hours:?}");
        assert!(hours.len() <= 3 + 7 + 4 + 6);
    }

    proptest! {
        #[test]
        fn retention_is_bounded_and_idempotent(
            hours in proptest::collection::btree_set(0_i64..20_000, 0..80),
            (last, daily, weekly, monthly) in (1_usize..5, 0_usize..10, 0_usize..6, 0_usize..8),
        ) {
            let kept = Retention { last, daily, weekly, monthly };
            let all: Vec<i64> = hours.into_iter().collect();
            let stays = remaining(&all, kept);
            prop_assert!(stays.len() >= all.len().min(last));
            prop_assert!(stays.len() <= last + daily + weekly + monthly);
            prop_assert!(all.iter().rev().take(last).all(|hour| stays.contains(hour)));
            prop_assert_eq!(&remaining(&stays, kept), &stays, "removing again changes nothing");
            let newest_days: BTreeSet<i64> = all.iter().map(|hour| day(at(*hour))).rev().collect::<BTreeSet<_>>();
            let kept_days: BTreeSet<i64> = stays.iter().map(|hour| day(at(*hour))).collect();
            prop_assert!(newest_days.iter().rev().take(daily).all(|day| kept_days.contains(day)));
        }
    }
}
