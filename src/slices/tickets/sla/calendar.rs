//! Working time. A moment counts if the local time of the time zone is within the working hours of that day, and the day is
//! not a holiday.
//!
//! **Invariant:** this definition also holds when the clocks change. A skipped hour does not count, and a repeated hour
//! counts twice. So local times are never converted to universal time with a rule for ambiguous times. Each period with a
//! constant offset is handled separately.

use std::collections::BTreeSet;

use jiff::{
    civil::{Date, Weekday},
    tz::TimeZone,
};

use tenantd_base::clock::Timestamp;

const MINUTE: i64 = 60_000;
const DAY: i64 = 86_400_000;
/// The number of days after which the search for a due time stops. Every allowed policy finishes much earlier.
const MAX_DAYS: usize = 20_000;

/// How far back the search for a past moment goes, in milliseconds: ten years.
const MAX_REACH: i64 = 3650 * DAY;

/// From the first minute of the day to the second, which is excluded.
pub type Hours = (u16, u16);

#[derive(Clone, Debug)]
pub struct Calendar {
    zone: TimeZone,
    /// Monday first. The hours of a day are in order and do not overlap.
    week: [Vec<Hours>; 7],
    holidays: BTreeSet<Date>,
}

impl Calendar {
    pub fn new(zone: TimeZone, week: [Vec<Hours>; 7], holidays: BTreeSet<Date>) -> Self {
        Self { zone, week, holidays }
    }

    fn hours(&self, date: Date) -> &[Hours] {
        if self.holidays.contains(&date) {
            return &[];
        }
        let day = match date.weekday() {
            Weekday::Monday => 0,
            Weekday::Tuesday => 1,
            Weekday::Wednesday => 2,
            Weekday::Thursday => 3,
            Weekday::Friday => 4,
            Weekday::Saturday => 5,
            Weekday::Sunday => 6,
        };
        self.week.get(day).map(Vec::as_slice).unwrap_or_default()
    }

    /// Calls `visit` with each period of working time from `start` on, in order, until it returns `Flow::Stop`.
    fn walk(&self, start: i64, mut visit: impl FnMut(i64, i64) -> Flow) {
        let Ok(first) = jiff::Timestamp::from_millisecond(start) else { return };
        let mut changes = self.zone.following(first);
        let (mut begin, mut offset) = (start, millis(self.zone.to_offset(first)));
        let mut days = 0;
        loop {
            let change = changes.next();
            let end = change.as_ref().map_or(i64::MAX, |change| change.timestamp().as_millisecond());
            let mut day = (begin + offset).div_euclid(DAY);
            while (day * DAY).saturating_sub(offset) < end {
                let Some(hours) = date_of(day).map(|date| self.hours(date)) else { return };
                for (open, close) in hours {
                    let from = (day * DAY + i64::from(*open) * MINUTE - offset).max(begin);
                    let to = (day * DAY + i64::from(*close) * MINUTE - offset).min(end);
                    if from < to && visit(from, to) == Flow::Stop {
                        return;
                    }
                }
                day += 1;
                days += 1;
                if days > MAX_DAYS {
                    return;
                }
            }
            let Some(change) = change else { return };
            (begin, offset) = (end, millis(change.offset()));
        }
    }

    /// The first moment when `work` milliseconds of working time have passed since `start`.
    pub fn after(&self, start: Timestamp, work: i64) -> Timestamp {
        let start = start.as_millis();
        if work <= 0 {
            return Timestamp::from_millis(start);
        }
        let mut left = work;
        let mut due = i64::MAX;
        self.walk(start, |from, to| {
            if to - from >= left {
                due = from + left;
                return Flow::Stop;
            }
            left -= to - from;
            Flow::Continue
        });
        Timestamp::from_millis(due)
    }

    /// The last moment from which `work` milliseconds of working time pass until `end`.
    pub fn before(&self, end: Timestamp, work: i64) -> Timestamp {
        let has_passed_since = |start: i64| self.between(Timestamp::from_millis(start), end) >= work;
        let (mut reach, end_millis) = (work.max(DAY), end.as_millis());
        while !has_passed_since(end_millis.saturating_sub(reach)) {
            reach *= 2;
            if reach > MAX_REACH {
                return end;
            }
        }
        let (mut early, mut late) = (end_millis - reach, end_millis);
        while late - early > 1 {
            let middle = early + (late - early) / 2;
            if has_passed_since(middle) { early = middle } else { late = middle }
        }
        Timestamp::from_millis(early)
    }

    /// The working time between two moments, in milliseconds.
    pub fn between(&self, from: Timestamp, to: Timestamp) -> i64 {
        let end = to.as_millis();
        let mut sum = 0;
        self.walk(from.as_millis(), |start, stop| {
            sum += (stop.min(end) - start).max(0);
            if stop < end { Flow::Continue } else { Flow::Stop }
        });
        sum
    }
}

#[derive(PartialEq, Eq)]
enum Flow {
    Continue,
    Stop,
}

fn millis(offset: jiff::tz::Offset) -> i64 {
    i64::from(offset.seconds()) * 1000
}

/// The date `day` days after January 1, 1970.
fn date_of(day: i64) -> Option<Date> {
    let at = jiff::Timestamp::from_millisecond(day.checked_mul(DAY)?).ok()?;
    Some(jiff::tz::Offset::UTC.to_datetime(at).date())
}

#[cfg(test)]
mod tests {
    use jiff::civil::date;
    use proptest::prelude::*;

    use super::*;

    const ZONES: [&str; 8] = [
        "UTC",
        "Europe/Berlin",
        "America/New_York",
        // Summer time shifts by half an hour.
        "Australia/Lord_Howe",
        // Clocks change at midnight.
        "America/Sao_Paulo",
        // Skipped a whole day in 2011.
        "Pacific/Apia",
        // Clocks changed a minute after midnight, so that a date repeated.
        "America/St_Johns",
        "Asia/Kathmandu",
    ];

    /// The definition, evaluated minute by minute.
    struct Model {
        zone: TimeZone,
        week: [Vec<Hours>; 7],
        holidays: BTreeSet<Date>,
    }

    impl Model {
        fn counts(&self, minute: i64) -> bool {
            let at = self.zone.to_datetime(jiff::Timestamp::from_millisecond(minute * MINUTE).unwrap());
            let day = usize::try_from(at.date().weekday().to_monday_zero_offset()).unwrap();
            let of_day = u16::from(at.hour().unsigned_abs()) * 60 + u16::from(at.minute().unsigned_abs());
            !self.holidays.contains(&at.date()) && self.week[day].iter().any(|(open, close)| (*open..*close).contains(&of_day))
        }

        fn between(&self, from: i64, to: i64) -> i64 {
            (from..to).filter(|minute| self.counts(*minute)).count().try_into().unwrap()
        }

        fn after(&self, start: i64, work: i64) -> i64 {
            let mut left = work;
            let mut at = start;
            while left > 0 {
                left -= i64::from(self.counts(at));
                at += 1;
            }
            at
        }
    }

    fn pair(zone: &str, week: &[Vec<Hours>; 7], holidays: &BTreeSet<Date>) -> (Calendar, Model) {
        let zone = TimeZone::get(zone).unwrap();
        (
            Calendar::new(zone.clone(), week.clone(), holidays.clone()),
            Model { zone, week: week.clone(), holidays: holidays.clone() },
        )
    }

    fn hours() -> impl Strategy<Value = Vec<Hours>> {
        proptest::collection::vec(0_u16..=1440, 0..=4).prop_map(|mut edges| {
            edges.sort_unstable();
            edges.dedup();
            edges.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect()
        })
    }

    /// Minutes near clock changes, and random minutes in some years.
    fn minute() -> impl Strategy<Value = i64> {
        let near = |at: &str| {
            let middle = Timestamp::parse(at).unwrap().as_millis() / MINUTE;
            (middle - 2_000..middle + 2_000).boxed()
        };
        prop_oneof![
            near("2026-03-29T01:00:00Z"),
            near("2026-10-25T01:00:00Z"),
            near("2026-03-08T07:00:00Z"),
            near("2026-11-01T06:00:00Z"),
            near("2026-04-04T15:00:00Z"),
            near("2018-11-04T03:00:00Z"),
            near("2018-02-18T02:00:00Z"),
            near("2011-12-30T10:00:00Z"),
            near("2009-11-01T02:31:00Z"),
            (24_000_000_i64..31_000_000).boxed(),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(400))]

        #[test]
        fn working_time_equals_a_count_of_minutes(
            zone in proptest::sample::select(&ZONES[..]),
            week in proptest::array::uniform7(hours()),
            start in minute(),
            span in 0_i64..9_000,
            off in proptest::collection::vec(0_i64..9, 0..3),
        ) {
            let first = TimeZone::UTC.to_datetime(jiff::Timestamp::from_millisecond(start * MINUTE).unwrap()).date();
            let holidays = off.iter().map(|days| first.saturating_add(jiff::Span::new().days(*days))).collect();
            let (calendar, model) = pair(zone, &week, &holidays);
            let at = |minute: i64| Timestamp::from_millis(minute * MINUTE);
            let counted = model.between(start, start + span);
            prop_assert_eq!(calendar.between(at(start), at(start + span)), counted * MINUTE);
            if counted > 0 {
                for work in [1, counted.midpoint(0).max(1), counted] {
                    prop_assert_eq!(calendar.after(at(start), work * MINUTE), at(model.after(start, work)), "work of {}", work);
                }
            }
        }

        #[test]
        fn after_and_between_agree(
            zone in proptest::sample::select(&ZONES[..]),
            start in minute(),
            millis in 0_i64..60_000,
            work in 0_i64..400_000_000,
        ) {
            let week = std::array::from_fn(|day| if day < 5 { vec![(540, 1020)] } else { Vec::new() });
            let (calendar, _) = pair(zone, &week, &BTreeSet::new());
            let start = Timestamp::from_millis(start * MINUTE + millis);
            let due = calendar.after(start, work);
            prop_assert_eq!(calendar.between(start, due), work);
            prop_assert!(work == 0 || calendar.between(start, Timestamp::from_millis(due.as_millis() - 1)) == work - 1);
            let begin = calendar.before(due, work);
            prop_assert_eq!(calendar.between(begin, due), work);
            prop_assert!(work == 0 || calendar.between(Timestamp::from_millis(begin.as_millis() + 1), due) == work - 1);
        }
    }

    #[test]
    fn weekends_holidays_and_clock_changes_are_skipped() {
        let week: [Vec<Hours>; 7] = std::array::from_fn(|day| if day < 5 { vec![(540, 1020)] } else { Vec::new() });
        // Good Friday and Easter Monday 2026.
        let holidays = [date(2026, 4, 3), date(2026, 4, 6)].into_iter().collect();
        let (calendar, _) = pair("Europe/Berlin", &week, &holidays);
        let at = |text: &str| Timestamp::parse(text).unwrap();
        // Friday 16:30 in winter time plus an hour of work is Monday 09:30 in summer time.
        assert_eq!(calendar.after(at("2026-03-27T15:30:00Z"), 60 * MINUTE), at("2026-03-30T07:30:00Z"));
        assert_eq!(calendar.after(at("2026-04-02T14:30:00Z"), 60 * MINUTE), at("2026-04-07T07:30:00Z"));
        // Work that ends with the working day is due at its end, not on the next morning.
        assert_eq!(calendar.after(at("2026-03-27T15:00:00Z"), 60 * MINUTE), at("2026-03-27T16:00:00Z"));
    }
}
