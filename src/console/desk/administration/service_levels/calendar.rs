//! The next days of a calendar: which hours of them count.

use std::collections::BTreeSet;

use jiff::{
    Zoned,
    civil::{Date, Weekday},
    tz::TimeZone,
};
use maud::{Markup, html};

use super::{DAYS, Hours, MINUTES_OF_A_DAY, Policy, hours_words};
use crate::{
    components::{Tone, badge},
    moment::minutes,
};

/// The number of days that a page shows.
const SHOWN_DAYS: usize = 14;
/// The height of the drawing of a day, in the same unit as its minutes.
const HEIGHT: u32 = 60;

/// A day of the calendar.
#[derive(Debug)]
pub(super) struct Day {
    date: Date,
    /// The working hours, if it were no holiday.
    hours: Vec<Hours>,
    is_holiday: bool,
    /// Whether the day is longer or shorter than 24 hours, because the clocks change.
    is_irregular: bool,
}

/// The next days, from the day of `now` on. `now` is in the time zone of the calendar.
pub(super) fn days(policy: &Policy, now: &Zoned) -> Vec<Day> {
    let holidays: BTreeSet<Date> = policy.holidays.iter().filter_map(|text| text.parse().ok()).collect();
    let dates = std::iter::successors(Some(now.date()), |date| date.tomorrow().ok());
    dates
        .take(SHOWN_DAYS)
        .map(|date| Day {
            date,
            hours: policy.hours_of(name_of_day(date)).to_vec(),
            is_holiday: holidays.contains(&date),
            is_irregular: is_irregular(date, now.time_zone()),
        })
        .collect()
}

/// Whether work counts at this moment.
pub(super) fn counts(policy: &Policy, now: &Zoned) -> bool {
    let time = now.strftime("%H:%M").to_string();
    let is_within = |hours: &Hours| hours.start <= time && time < hours.end;
    days(policy, now).first().is_some_and(|today| today.counted().iter().any(is_within))
}

fn is_irregular(date: Date, zone: &TimeZone) -> bool {
    let midnight = |date: Date| date.to_zoned(zone.clone()).ok().map(|start| start.offset());
    let next = date.tomorrow().ok().and_then(midnight);
    next.is_some() && midnight(date) != next
}

fn name_of_day(date: Date) -> &'static str {
    let [monday, tuesday, wednesday, thursday, friday, saturday, sunday] = DAYS;
    match date.weekday() {
        Weekday::Monday => monday,
        Weekday::Tuesday => tuesday,
        Weekday::Wednesday => wednesday,
        Weekday::Thursday => thursday,
        Weekday::Friday => friday,
        Weekday::Saturday => saturday,
        Weekday::Sunday => sunday,
    }
}

impl Day {
    fn counted(&self) -> &[Hours] {
        if self.is_holiday { &[] } else { &self.hours }
    }

    /// The spans that count, in minutes of the day.
    fn spans(&self) -> Vec<(u32, u32)> {
        self.counted().iter().filter_map(Hours::minutes).filter(|(start, end)| start < end).collect()
    }

    fn row(&self) -> Markup {
        let sum: u32 = self.spans().iter().map(|(start, end)| end - start).sum();
        html! {
            tr {
                th scope="row" { (self.date.strftime("%a, %-d %b").to_string()) }
                td { (strip(&self.spans())) }
                td {
                    @if self.is_holiday { (badge(Tone::Accent, "Holiday")) }
                    @else if sum == 0 { span.muted { "Day off" } }
                    @else { (hours_words(&self.hours)) }
                    @if self.is_irregular { " " (badge(Tone::Warn, "Clocks change")) }
                }
                td { @if sum == 0 { span.muted { "None" } } @else { (minutes(u64::from(sum))) } }
            }
        }
    }
}

/// The day as a strip from midnight to midnight. The words beside it say the same.
fn strip(spans: &[(u32, u32)]) -> Markup {
    html! {
        svg class="bar accent hours" viewBox={ "0 0 " (MINUTES_OF_A_DAY) " " (HEIGHT) } preserveAspectRatio="none" aria-hidden="true" {
            rect.track width=(MINUTES_OF_A_DAY) height=(HEIGHT) {}
            @for (start, end) in spans { rect.fill x=(start) width=(end - start) height=(HEIGHT) {} }
        }
    }
}

/// The next days as a table.
pub(super) fn table(days: &[Day]) -> Markup {
    html! {
        div.scroll tabindex="0" role="group" aria-label="The next 14 days" {
            table.list {
                thead { tr { @for head in ["Day", "0 to 24 h", "Working hours", "Counts"] { th scope="col" { (head) } } } }
                tbody { @for day in days { (day.row()) } }
            }
        }
        @if days.iter().any(|day| day.is_irregular) {
            p.muted { "On a day on which the clocks change, an hour that is skipped does not count, and an hour that is repeated counts twice." }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn policy() -> Policy {
        let day = json!([{"start": "09:00", "end": "12:00"}, {"start": "13:00", "end": "17:00"}]);
        serde_json::from_value(json!({
            "time_zone": "Europe/Berlin", "holidays": ["2026-10-26"], "targets": {}, "version": 1,
            "hours": {"monday": day, "tuesday": day, "wednesday": day, "thursday": day, "friday": day, "saturday": [], "sunday": []},
        }))
        .unwrap()
    }

    fn at(text: &str) -> Zoned {
        let zone = tenantd_base::zones::find("Europe/Berlin").unwrap();
        text.parse::<jiff::Timestamp>().unwrap().to_zoned(zone)
    }

    #[test]
    fn the_next_days_leave_out_weekends_and_holidays_and_say_when_clocks_change() {
        // Late on Thursday in UTC is Friday in Berlin.
        let days = days(&policy(), &at("2026-10-22T23:30:00Z"));
        assert_eq!((days.len(), days[0].date.to_string()), (14, "2026-10-23".to_owned()));
        let sums: Vec<u32> = days.iter().map(|day| day.spans().iter().map(|(start, end)| end - start).sum()).collect();
        assert_eq!(sums[..5], [420, 0, 0, 0, 420], "Friday, the weekend, a holiday, Tuesday");
        let irregular: Vec<String> = days.iter().filter(|day| day.is_irregular).map(|day| day.date.to_string()).collect();
        assert_eq!(irregular, ["2026-10-25"]);
    }

    #[test]
    fn work_counts_within_the_hours_of_the_zone() {
        let counts = |text: &str| counts(&policy(), &at(text));
        assert!(counts("2026-10-22T07:00:00Z") && counts("2026-10-22T09:59:59Z"));
        assert!(!counts("2026-10-22T10:00:00Z"), "the break");
        assert!(!counts("2026-10-22T15:00:00Z") && !counts("2026-10-26T10:00:00Z") && !counts("2026-10-24T10:00:00Z"));
    }
}
