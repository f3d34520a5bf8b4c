//! The buckets of a report. The API leaves out buckets in which nothing was measured, and a chart must show the gap.

use std::collections::BTreeSet;

use jiff::{SignedDuration, Span, tz::TimeZone};

use tenantd_base::{clock::Timestamp, zones};

use super::report::{Range, Report};
use crate::moment::Clock;

/// A report has at most 1,000 buckets. One more can be cut.
const MOST: usize = 1_001;

pub(super) struct Axis {
    /// The starts of the buckets, in milliseconds.
    pub(super) starts: Vec<i64>,
    pub(super) labels: Vec<String>,
    /// One bucket in words, such as `day`.
    pub(super) bucket: String,
}

impl Axis {
    pub(super) fn of(report: &Report) -> Self {
        let zone = zones::find(&report.range.timezone).unwrap_or(TimeZone::UTC);
        let measured: BTreeSet<i64> =
            report.series.iter().flat_map(|series| &series.points).map(|point| point.t.as_millis()).collect();
        let starts = buckets(&report.range, &zone);
        // Old days are days of UTC. Then only the points say where buckets start.
        let are_known = measured.iter().all(|start| starts.binary_search(start).is_ok());
        let starts = if are_known { starts } else { measured.into_iter().collect() };
        let partial: BTreeSet<i64> = report
            .series
            .iter()
            .flat_map(|series| &series.points)
            .filter(|point| point.partial)
            .map(|point| point.t.as_millis())
            .collect();
        let clock = Clock { now: report.range.to, zone };
        let label = |start: &i64| {
            let text = clock.day(Timestamp::from_millis(*start), form(&report.range.bucket));
            if partial.contains(start) { format!("{text} (partial)") } else { text }
        };
        let labels = starts.iter().map(label).collect();
        Self { starts, labels, bucket: report.range.bucket.clone() }
    }
}

fn form(bucket: &str) -> &'static str {
    match bucket {
        "hour" => "%Y-%m-%d %H:%M",
        "month" => "%Y-%m",
        _ => "%Y-%m-%d",
    }
}

/// The starts of all buckets of a range. The first is cut at the start of the range.
fn buckets(range: &Range, zone: &TimeZone) -> Vec<i64> {
    let end = range.to.as_millis();
    let first = jiff::Timestamp::from_millisecond(range.from.as_millis()).ok();
    let starts = std::iter::successors(first, |start| next(&range.bucket, *start, zone));
    starts.map(jiff::Timestamp::as_millisecond).take_while(|start| *start < end).take(MOST).collect()
}

/// The start of the next bucket in a time zone.
fn next(bucket: &str, start: jiff::Timestamp, zone: &TimeZone) -> Option<jiff::Timestamp> {
    let date = start.to_zoned(zone.clone()).date();
    let next = match bucket {
        "hour" => {
            let local = start.as_second() + i64::from(zone.to_offset(start).seconds());
            return start.checked_add(SignedDuration::from_secs(3_600 - local.rem_euclid(3_600))).ok();
        }
        "day" => date.tomorrow().ok()?,
        "week" => date.checked_add(Span::new().days(7 - i64::from(date.weekday().to_monday_zero_offset()))).ok()?,
        "month" => date.last_of_month().tomorrow().ok()?,
        _ => return None,
    };
    Some(next.to_zoned(zone.clone()).ok()?.timestamp())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn axis(from: &str, to: &str, bucket: &str, points: &[&str]) -> Axis {
        let points: Vec<_> = points.iter().map(|t| json!({"t": t, "v": 1, "partial": true})).collect();
        let report = json!({
            "range": {"from": from, "to": to, "bucket": bucket, "timezone": "Europe/Berlin"},
            "totals": {}, "series": [{"metric": "m", "points": points}]
        });
        Axis::of(&serde_json::from_value(report).unwrap())
    }

    #[test]
    fn buckets_without_a_point_are_on_the_axis_too() {
        let days = axis("2026-10-23T22:00:00.000Z", "2026-10-26T10:00:00.000Z", "day", &["2026-10-25T23:00:00.000Z"]);
        assert_eq!(days.labels, ["2026-10-24", "2026-10-25", "2026-10-26 (partial)"], "the clocks change on the second day");
        let weeks = axis("2026-11-18T23:00:00.000Z", "2026-12-01T00:00:00.000Z", "week", &[]);
        assert_eq!(weeks.labels, ["2026-11-19", "2026-11-23", "2026-11-30"]);
        let months = axis("2026-01-14T23:00:00.000Z", "2026-03-02T00:00:00.000Z", "month", &[]);
        assert_eq!(months.labels, ["2026-01", "2026-02", "2026-03"]);
        let hours = axis("2026-11-18T22:15:00.000Z", "2026-11-19T00:15:00.000Z", "hour", &[]);
        assert_eq!(hours.labels, ["2026-11-18 23:15", "2026-11-19 00:00", "2026-11-19 01:00"]);
    }

    #[test]
    fn points_that_start_elsewhere_replace_the_axis() {
        let days = axis("2026-10-23T22:00:00.000Z", "2026-10-26T10:00:00.000Z", "day", &["2026-10-24T00:00:00.000Z"]);
        assert_eq!(days.labels, ["2026-10-24 (partial)"]);
    }
}
