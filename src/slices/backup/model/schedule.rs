//! When backups are due. If the clock is put forward, a time that does not exist moves to right after the gap.

use std::time::Duration;

use croner::{
    Cron,
    parser::{CronParser, Seconds, Year},
};
use jiff::{ToSpan, Zoned, tz::TimeZone};

use tenantd_base::{clock::Timestamp, zones};

use super::config::{Rhythm, Schedule};

/// The time from which to check that a cron expression has a next occurrence.
const PROBE: i64 = 1_767_225_600_000;

fn pattern(text: &str) -> Result<Cron, String> {
    let parser = CronParser::builder().seconds(Seconds::Disallowed).year(Year::Disallowed).build();
    parser.parse(text).map_err(|error| format!("must be a cron expression such as 0 1 * * *: {error}"))
}

fn zoned(at: Timestamp, zone: &TimeZone) -> Option<Zoned> {
    Some(jiff::Timestamp::from_millisecond(at.as_millis()).ok()?.to_zoned(zone.clone()))
}

fn stamp(at: &Zoned) -> Timestamp {
    Timestamp::from_millis(at.timestamp().as_millisecond())
}

fn next_time(cron: &Cron, zone: &TimeZone, after: Timestamp) -> Option<Timestamp> {
    Some(stamp(&cron.find_next_occurrence(&zoned(after, zone)?, false).ok()?))
}

impl Schedule {
    /// The validation errors, each with its field.
    pub(super) fn problems(&self) -> Vec<(&'static str, String)> {
        let mut found = Vec::new();
        let zone = zones::find(&self.timezone);
        if let Err(unknown) = &zone {
            found.push(("timezone", unknown.to_string()));
        }
        if let Rhythm::Cron(text) = &self.rhythm {
            match pattern(text) {
                Err(message) => found.push(("cron", message)),
                Ok(cron) => {
                    let zone = zone.unwrap_or(TimeZone::UTC);
                    if next_time(&cron, &zone, Timestamp::from_millis(PROBE)).is_none() {
                        found.push(("cron", "this cron expression never matches".to_owned()));
                    }
                }
            }
        }
        if self.window.is_some_and(|(start, end)| start == end) {
            found.push(("window", "must not end when it starts".to_owned()));
        }
        found
    }

    /// The time after which a backup that should follow one at `after` is missed: half an interval after its due time. With a fixed
    /// interval, this is one and a half intervals after the previous backup.
    pub fn overdue_after(&self, after: Timestamp) -> Option<Timestamp> {
        let zone = TimeZone::get(&self.timezone).ok()?;
        let (due, interval) = match &self.rhythm {
            Rhythm::Every { minutes } => {
                let interval = Duration::from_secs(u64::from(*minutes) * 60);
                (after + interval, interval)
            }
            Rhythm::Cron(text) => {
                let cron = pattern(text).ok()?;
                let due = next_time(&cron, &zone, after)?;
                (due, next_time(&cron, &zone, due)?.since(due))
            }
        };
        Some(self.put_off(due, &zone)? + interval / 2)
    }

    /// Moves a time outside the window to the next start of the window.
    fn put_off(&self, due: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
        let Some((start, end)) = self.window else { return Some(due) };
        let at = zoned(due, zone)?;
        let minute = u16::try_from(i32::from(at.hour()) * 60 + i32::from(at.minute())).ok()?;
        let inside = if start < end { (start..end).contains(&minute) } else { minute >= start || minute < end };
        if inside {
            return Some(due);
        }
        let day = if minute < start { at.date() } else { at.date().checked_add(1.day()).ok()? };
        let opens = day.at(i8::try_from(start / 60).ok()?, i8::try_from(start % 60).ok()?, 0, 0);
        Some(stamp(&opens.to_zoned(zone.clone()).ok()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        Timestamp::parse(text).unwrap()
    }

    fn schedule(rhythm: Rhythm, timezone: &str, window: Option<(u16, u16)>) -> Schedule {
        Schedule { rhythm, timezone: timezone.to_owned(), window }
    }

    #[test]
    fn a_backup_is_missed_half_an_interval_after_its_due_time() {
        let every = |minutes| Rhythm::Every { minutes };
        let cron = |text: &str| Rhythm::Cron(text.to_owned());
        for (schedule, after, overdue) in [
            (schedule(every(240), "UTC", None), "2026-01-01T00:00:00Z", "2026-01-01T06:00:00Z"),
            (schedule(cron("0 1 * * *"), "UTC", None), "2026-01-01T01:20:00Z", "2026-01-02T13:00:00Z"),
            // A Friday: the next run is on Monday, and the one after that a day later.
            (schedule(cron("0 1 * * 1-5"), "UTC", None), "2026-01-02T01:20:00Z", "2026-01-05T13:00:00Z"),
            // Five hours after 17:00 is outside the window from 8 to 18, so it moves to the next morning.
            (schedule(every(300), "UTC", Some((480, 1080))), "2026-01-01T17:00:00Z", "2026-01-02T10:30:00Z"),
            (schedule(every(60), "UTC", Some((1320, 360))), "2026-01-01T05:30:00Z", "2026-01-01T22:30:00Z"),
            // Berlin is an hour ahead in winter.
            (schedule(every(60), "Europe/Berlin", Some((480, 1080))), "2026-01-01T16:30:00Z", "2026-01-02T07:30:00Z"),
        ] {
            assert_eq!(schedule.overdue_after(at(after)), Some(at(overdue)), "{schedule:?}");
        }
    }

    #[test]
    fn schedule_errors_name_their_field() {
        let fields = |schedule: Schedule| schedule.problems().into_iter().map(|(field, _)| field).collect::<Vec<_>>();
        let cron = |text: &str| Rhythm::Cron(text.to_owned());
        assert_eq!(fields(schedule(cron("61 * * * *"), "Mars/Olympus", Some((5, 5)))), ["timezone", "cron", "window"]);
        assert_eq!(fields(schedule(cron("0 0 31 2 *"), "UTC", None)), ["cron"]);
        assert!(fields(schedule(cron("0 9 * * MON-FRI"), "UTC", Some((0, 60)))).is_empty());
    }
}
