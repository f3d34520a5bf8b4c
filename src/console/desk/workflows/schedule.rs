//! The next times of the schedules of a workflow.

use croner::parser::{CronParser, Seconds, Year};
use serde_json::Value;

use tenantd_base::{clock::Timestamp, zones};

use super::record::text;

/// The next times of a trigger after a moment; none if it is no schedule.
pub(crate) fn next_times(trigger: &Value, after: Timestamp, count: usize) -> Vec<Timestamp> {
    let mut times = Vec::new();
    let mut last = after;
    while times.len() < count
        && let Some(time) = next(trigger, last)
    {
        times.push(time);
        last = time;
    }
    times
}

/// The pattern is read as the workflows read it: five fields, in the zone of the schedule.
fn next(trigger: &Value, after: Timestamp) -> Option<Timestamp> {
    if text(trigger, "type") != "schedule" {
        return None;
    }
    let zone = Some(text(trigger, "timezone")).filter(|zone| !zone.is_empty()).unwrap_or("UTC");
    let zone = zones::find(zone).ok()?;
    let parser = CronParser::builder().seconds(Seconds::Disallowed).year(Year::Disallowed).build();
    let cron = parser.parse(text(trigger, "cron")).ok()?;
    let after = jiff::Timestamp::from_millisecond(after.as_millis()).ok()?.to_zoned(zone);
    let next: jiff::Zoned = cron.find_next_occurrence(&after, false).ok()?;
    Some(Timestamp::from_millis(next.timestamp().as_millisecond()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_next_times_follow_the_clock_of_the_zone() {
        let after = Timestamp::parse("2026-10-23T12:00:00.000Z").unwrap();
        let trigger = json!({"type": "schedule", "cron": "0 9 * * *", "timezone": "Europe/Berlin"});
        let times: Vec<String> = next_times(&trigger, after, 3).iter().map(ToString::to_string).collect();
        assert_eq!(times, ["2026-10-24T07:00:00.000Z", "2026-10-25T08:00:00.000Z", "2026-10-26T08:00:00.000Z"]);
        assert!(next_times(&json!({"type": "manual"}), after, 3).is_empty());
        assert!(next_times(&json!({"type": "schedule", "cron": "x"}), after, 3).is_empty());
    }
}
