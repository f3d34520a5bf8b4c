//! Times of a schedule: a cron pattern of five fields on the clock of a time zone. Where that clock is put forward, a fixed time that
//! does not exist comes right after the gap; where it is put back, a fixed time comes once.

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

/// A run that begins later than this after its time was missed.
pub(crate) const GRACE: Duration = Duration::from_mins(1);

impl Schedule {
    /// The problem is told with the field that has it.
    pub(super) fn new(cron: &str, zone: &str, run_missed: bool) -> Result<Self, (&'static str, String)> {
        let parser = CronParser::builder().seconds(Seconds::Disallowed).year(Year::Disallowed).build();
        let cron = parser.parse(cron).map_err(|error| ("cron", format!("is no pattern such as 0 9 * * 1: {error}")))?;
        // What the host's own database has for a zone must not matter: the binary has one.
        let zone = zones::find(zone).map_err(|unknown| ("timezone", unknown.to_string()))?;
        let schedule = Self { cron, zone, run_missed };
        let never = || ("cron", "there is no such time".to_owned());
        schedule.next(Timestamp::from_millis(1_767_225_600_000)).ok_or_else(never)?;
        Ok(schedule)
    }

    /// The first time after `after`.
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
    fn a_fixed_time_keeps_its_place_on_the_wall_over_changes_of_the_clock() {
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
    fn a_time_in_the_gap_comes_right_after_it_and_one_in_the_overlap_once() {
        // 02:30 does not exist on 2026-03-29: the day is not left out.
        let gap = times("30 2 * * *", "Europe/Berlin", "2026-03-28T12:00:00Z", 2);
        assert_eq!(gap, ["2026-03-29T01:00Z", "2026-03-30T00:30Z"]);
        let overlap = times("30 2 * * *", "Europe/Berlin", "2026-10-24T12:00:00Z", 2);
        assert_eq!(overlap, ["2026-10-25T00:30Z", "2026-10-26T01:30Z"]);
    }

    #[test]
    fn what_never_comes_and_what_is_no_pattern_is_refused() {
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
        fn any_text_is_a_pattern_or_refused(cron in "[-*/,#LW0-9A-Z? ]{0,40}|\\PC{0,60}", zone in "UTC|Europe/Berlin|\\PC{0,20}") {
            if let Ok(schedule) = Schedule::new(&cron, &zone, false) {
                let start = Timestamp::from_millis(1_790_000_000_000);
                prop_assert!(schedule.next(start).is_none_or(|next| next > start));
            }
        }

        /// Every minute is every minute, whatever the clocks on the walls do; and no time comes twice or goes back.
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
