//! The service levels of a tenant: the times for response and resolution per priority, and the hours that count.

use std::collections::BTreeSet;

use jiff::{civil::Date, tz::TimeZone};

use tenantd_base::{clock::Timestamp, fault::Fault, zones};

use super::calendar::{Calendar, Hours};
use crate::model::Priority;

/// With fewer working hours per week, due times would be beyond the range of the calendar.
const LEAST_WEEKLY_MINUTES: u32 = 60;

/// The targets for one priority.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target {
    pub first_response_minutes: u32,
    pub resolution_minutes: u32,
    /// Counts every minute, not only working hours.
    pub round_the_clock: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlaPolicy {
    /// An IANA time zone name.
    pub time_zone: String,
    /// Monday first.
    pub week: [Vec<Hours>; 7],
    pub holidays: BTreeSet<Date>,
    /// In the order of [`Priority::ALL`].
    pub targets: [Target; 4],
    pub updated_at: Option<Timestamp>,
    /// Zero while the defaults apply.
    pub version: u64,
}

impl SlaPolicy {
    pub fn standard(time_zone: &str) -> Self {
        let target = |first: u32, resolution: u32, round_the_clock: bool| Target {
            first_response_minutes: first,
            resolution_minutes: resolution,
            round_the_clock,
        };
        Self {
            time_zone: time_zone.to_owned(),
            week: std::array::from_fn(|day| if day < 5 { vec![(9 * 60, 17 * 60)] } else { Vec::new() }),
            holidays: BTreeSet::new(),
            targets: [
                target(15, 4 * 60, true),
                target(60, 8 * 60, false),
                target(4 * 60, 24 * 60, false),
                target(8 * 60, 72 * 60, false),
            ],
            updated_at: None,
            version: 0,
        }
    }

    pub fn target(&self, priority: Priority) -> Target {
        let [critical, high, medium, low] = self.targets;
        match priority {
            Priority::Critical => critical,
            Priority::High => high,
            Priority::Medium => medium,
            Priority::Low => low,
        }
    }

    /// All errors of the policy.
    pub fn faults(&self) -> Vec<Fault> {
        let mut faults = Vec::new();
        let mut fault = |pointer: String, message: &str| faults.push(Fault::new(pointer, "not_valid", message));
        if let Err(unknown) = zones::find(&self.time_zone) {
            fault("/time_zone".to_owned(), &unknown.to_string());
        }
        for (hours, day) in self.week.iter().zip(DAYS) {
            let in_order = hours.windows(2).all(|pair| matches!(pair, [(_, close), (open, _)] if close <= open));
            if !in_order || hours.iter().any(|(open, close)| open >= close || *close > 1440) {
                fault(
                    format!("/hours/{day}"),
                    "must be time spans in order that do not overlap, each with its end after its start",
                );
            }
        }
        let weekly: u32 = self.week.iter().flatten().map(|(open, close)| u32::from(close.saturating_sub(*open))).sum();
        if weekly < LEAST_WEEKLY_MINUTES {
            fault("/hours".to_owned(), "must have at least one working hour per week");
        }
        for (target, priority) in self.targets.iter().zip(Priority::ALL) {
            if target.first_response_minutes > target.resolution_minutes {
                fault(
                    format!("/targets/{}/first_response_minutes", priority.name()),
                    "must not be longer than the resolution time",
                );
            }
        }
        faults
    }

    /// The hours as a calendar. An unknown time zone counts as UTC, so that it never makes a ticket fail.
    pub fn calendar(&self) -> Calendar {
        let zone = TimeZone::get(&self.time_zone).unwrap_or(TimeZone::UTC);
        Calendar::new(zone, self.week.clone(), self.holidays.clone())
    }
}

/// The names of the weekdays in the API, Monday first.
pub const DAYS: [&str; 7] = ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_is_valid_and_faults_are_reported() {
        let standard = SlaPolicy::standard("Europe/Berlin");
        assert_eq!(standard.faults(), []);
        assert_eq!(standard.target(Priority::Low).resolution_minutes, 4320);
        let mut bad = standard;
        bad.time_zone = "Mars/Olympus".to_owned();
        bad.week = std::array::from_fn(|day| if day == 1 { vec![(600, 630), (620, 640)] } else { Vec::new() });
        bad.targets[0].first_response_minutes = 1000;
        let pointers: Vec<String> = bad.faults().iter().map(|fault| fault.place.to_string()).collect();
        assert_eq!(pointers, ["/time_zone", "/hours/tuesday", "/hours", "/targets/critical/first_response_minutes"]);
    }
}
