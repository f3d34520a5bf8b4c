//! The service levels of a tenant: target times by priority, and the working hours in which they count.

mod calendar;
mod edit;
mod show;

use std::collections::BTreeMap;

use serde::Deserialize;

use tenantd_base::access::{Identity, Scope};

use crate::{refusal::Refusal, visitor::Visitor};

pub(super) use edit::{change, edit};
pub(super) use show::show;

const API: &str = "/api/psa/sla";
const PATH: &str = "/settings/service-levels";
const TITLE: &str = "Service levels";
/// The days of a week, as the API names them.
const DAYS: [&str; 7] = ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"];
const MINUTES_OF_A_DAY: u32 = 24 * 60;
const PRIORITIES: [&str; 4] = ["critical", "high", "medium", "low"];

#[derive(Debug, Deserialize)]
struct Policy {
    time_zone: String,
    hours: BTreeMap<String, Vec<Hours>>,
    holidays: Vec<String>,
    targets: BTreeMap<String, Target>,
    /// Absent while the defaults apply.
    updated_at: Option<String>,
    version: u64,
}

/// A span of time within a day, such as `09:00` to `17:00`.
#[derive(Clone, Debug, Deserialize)]
struct Hours {
    start: String,
    end: String,
}

#[derive(Debug, Deserialize)]
struct Target {
    first_response_minutes: u64,
    resolution_minutes: u64,
    round_the_clock: bool,
}

impl Policy {
    /// The working hours of a day of the week; none on a day off.
    fn hours_of(&self, day: &str) -> &[Hours] {
        self.hours.get(day).map(Vec::as_slice).unwrap_or_default()
    }
}

impl Hours {
    fn words(&self) -> String {
        format!("{}–{}", self.start, self.end)
    }

    /// The minutes of the day at which the span begins and ends.
    fn minutes(&self) -> Option<(u32, u32)> {
        Some((minute_of_day(&self.start)?, minute_of_day(&self.end)?))
    }
}

/// Spans as one text, such as `09:00–12:00, 13:00–17:00`.
fn hours_words(hours: &[Hours]) -> String {
    hours.iter().map(Hours::words).collect::<Vec<_>>().join(", ")
}

fn minute_of_day(text: &str) -> Option<u32> {
    let (hour, minute) = text.split_once(':')?;
    let minutes = hour.parse::<u32>().ok()?.checked_mul(60)?.checked_add(minute.parse().ok()?)?;
    (minutes <= MINUTES_OF_A_DAY).then_some(minutes)
}

async fn policy(visitor: &Visitor<'_>) -> Result<Policy, Refusal> {
    visitor.read(API).await
}

/// Whether the reader may replace the service levels. Of people, only administrators may.
fn may_change(visitor: &Visitor<'_>) -> bool {
    let is_allowed = match &visitor.reader.identity {
        Identity::User { role, .. } => role.administers(),
        Identity::Contact { .. } => false,
        Identity::ApiKey { .. } | Identity::LocalOperator => true,
    };
    is_allowed && visitor.may(Scope::TicketsWrite)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hours_are_minutes_of_the_day() {
        let hours = |start: &str, end: &str| Hours { start: start.to_owned(), end: end.to_owned() };
        assert_eq!(hours("09:30", "24:00").minutes(), Some((570, 1440)));
        for wrong in ["", "9", "x:00", "24:01", "99999999999:00"] {
            assert_eq!(hours(wrong, "17:00").minutes(), None, "{wrong}");
        }
        assert_eq!(hours_words(&[hours("09:00", "12:00"), hours("13:00", "17:00")]), "09:00–12:00, 13:00–17:00");
    }
}
