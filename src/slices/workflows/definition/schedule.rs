//! The occurrences of a schedule: a cron pattern of five fields in a time zone. When the clock goes forward, a fixed time that does
//! not exist occurs right after the gap. When it goes back, a fixed time occurs once.

use std::time::Duration;

use croner::{
    Cron,
    parser::{CronParser, Seconds, Year},
};
use jiff::{Zoned, tz::TimeZone};

use tenantd_base::{clock::Timestamp, zones};

#[derive(Clone, Debug)]
pub(crate) struct Schedule {
    cron: Cron,
    zone: TimeZone,
    pub(crate) run_missed: bool,
}

/// A run that starts later than this after its occurrence counts as missed.
pub(crate) const GRACE: Duration = Duration::from_mins(1);

impl Schedule {
    /// An error names the field that has the problem.
    pub(super) fn new(cron: &str, zone: &str, run_missed: bool) -> Result<Self, (&'static str, String)> {
        let parser = CronParser::builder().seconds(Seconds::Disallowed).year(Year::Disallowed).build();
        let cron = parser
            .parse(cron)
            .map_err(|error| ("cron", format!("expected a cron pattern of five fields, such as 0 9 * * 1: {error}")))?;
        // Uses the time zone database of the binary, not that of the host.
        let zone = zones::find(zone).map_err(|unknown| ("timezone", unknown.to_string()))?;
        let schedule = Self { cron, zone, run_missed };
        let never = || ("cron", "the schedule never occurs".to_owned());
        schedule.next(Timestamp::from_millis(1_767_225_600_000)).ok_or_else(never)?;
        Ok(schedule)
    }

    /// The first occurrence after `after`.
    pub(crate) fn next(&self, after: Timestamp) -> Option<Timestamp> {
        let at = jiff::Timestamp::from_millisecond(after.as_millis()).ok()?;
        let next: Zoned = self.cron.find_next_occurrence(&at.to_zoned(self.zone.clone()), false).ok()?;
        Some(Timestamp::from_millis(next.timestamp().as_millisecond()))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn times(cron: &str, zone: &str, from: &str, count: usize) -> Vec<String> {
        let schedule = Schedule::new(cron, zone, false).unwrap();
        let mut at = Timestamp::parse(from).unwrap();
        let mut found = Vec::new();
        for _ in 0..count {
            at = schedule.next(at).unwrap();
            found.push(at.to_string().replace(":00.000Z", "Z"));
        }
        found
    }

    #[test]
    fn a_fixed_time_follows_the_local_clock() {
        // Berlin goes from +01:00 to +02:00 on 2026-03-29 and back on 2026-10-25.
        assert_eq!(
            times("0 9 * * *", "Europe/Berlin", "2026-03-27T12:00:00Z", 3),
            ["2026-03-28T08:00Z", "2026-03-29T07:00Z", "2026-03-30T07:00Z"]
        );
        assert_eq!(
            times("0 9 * * *", "Europe/Berlin", "2026-10-23T12:00:00Z", 3),
            ["2026-10-24T07:00Z", "2026-10-25T08:00Z", "2026-10-26T08:00Z"]
        );
    }

    #[test]
    fn times_in_clock_changes_occur_once() {
        // 02:30 does not exist on 2026-03-29, but the day is not skipped.
        let gap = times("30 2 * * *", "Europe/Berlin", "2026-03-28T12:00:00Z", 2);
        assert_eq!(gap, ["2026-03-29T01:00Z", "2026-03-30T00:30Z"]);
        let overlap = times("30 2 * * *", "Europe/Berlin", "2026-10-24T12:00:00Z", 2);
        assert_eq!(overlap, ["2026-10-25T00:30Z", "2026-10-26T01:30Z"]);
    }

    #[test]
    fn invalid_and_impossible_schedules_are_refused() {
        for (cron, zone, field) in [
            ("0 0 31 2 *", "UTC", "cron"),
            ("61 * * * *", "UTC", "cron"),
            ("* * * *", "UTC", "cron"),
            ("0 * * * * *", "UTC", "cron"),
            ("", "UTC", "cron"),
            ("* * * * *", "Mars/Olympus", "timezone"),
        ] {
            assert_eq!(Schedule::new(cron, zone, false).unwrap_err().0, field, "{cron} {zone}");
        }
        assert!(Schedule::new("0 9 * * MON-FRI", "UTC", false).is_ok());
    }

    proptest! {
        #[test]
        fn any_text_is_accepted_or_refused(cron in "[-*/,#LW0-9A-Z? ]{0,40}|\\PC{0,60}", zone in "UTC|Europe/Berlin|\\PC{0,20}") {
            if let Ok(schedule) = Schedule::new(&cron, &zone, false) {
                let start = Timestamp::from_millis(1_790_000_000_000);
                prop_assert!(schedule.next(start).is_none_or(|next| next > start));
            }
        }

        /// `* * * * *` occurs every minute across clock changes, and occurrences never repeat or go back.
        #[test]
        fn times_go_forward(start in 1_735_689_600_i64..1_830_297_600, pick in 0_usize..5, cron in 0_usize..4) {
            let zone = ["Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kathmandu", "America/Sao_Paulo"][pick];
            let cron = ["* * * * *", "*/15 * * * *", "30 2 * * *", "0 0 1 * *"][cron];
            let schedule = Schedule::new(cron, zone, false).unwrap();
            let mut at = Timestamp::from_millis(start * 1000);
            for _ in 0..20 {
                let next = schedule.next(at).unwrap();
                prop_assert!(next > at);
                prop_assert_eq!(next.as_millis() % 60_000, 0);
                if cron == "* * * * *" {
                    prop_assert!(next.since(at) <= Duration::from_mins(1));
                }
                at = next;
            }
        }
    }
}
