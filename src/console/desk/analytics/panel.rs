//! A metric on the page: its total, the change since the period before, and its chart.

use std::collections::BTreeMap;

use maud::{Markup, html};

use super::{
    axis::Axis,
    lines::{Line, Lines},
    metric::{Unit, is_counted, title},
    report::{Report, Series, Total},
};
use crate::{
    chart::{Chart, Mark, number},
    components::{card, words},
};

/// The names of groups by their IDs.
pub(super) type Names = BTreeMap<String, String>;

pub(super) struct Panel<'a> {
    metric: &'a str,
    total: Option<&'a Total>,
    series: Vec<&'a Series>,
}

impl<'a> Panel<'a> {
    pub(super) fn of(report: &'a Report, metric: &'a str) -> Self {
        let mut series: Vec<&Series> = report.series.iter().filter(|series| series.metric == metric).collect();
        series.sort_by(|one, other| weight(other).total_cmp(&weight(one)));
        Self { metric, total: report.totals.get(metric), series }
    }

    pub(super) fn card(&self, axis: &Axis, names: &Names) -> Markup {
        let is_grouped = self.series.iter().any(|series| series.group.is_some());
        let body = html! {
            @if let Some(total) = self.total { (self.total(total)) }
            @match self.series.as_slice() {
                [series] if !is_grouped && is_counted(self.metric) => (self.bars(series, axis)),
                _ => (self.lines(axis, names)),
            }
        };
        card(&title(self.metric), &body)
    }

    fn total(&self, total: &Total) -> Markup {
        let unit = Unit::of(self.metric);
        html! {
            p.score {
                @match total.value {
                    Some(value) => { strong { (unit.text(value)) } }
                    None => { span.muted { "Nothing was measured" } }
                }
                @if let Some(previous) = total.previous {
                    " " span.muted { @if let Some(change) = total.change_percent { (change_words(change)) ", " } "before: " (unit.text(previous)) }
                }
            }
        }
    }

    fn largest(&self) -> f64 {
        self.series.iter().flat_map(|series| &series.points).map(|point| point.v.abs()).fold(0.0, f64::max)
    }

    fn id(&self) -> String {
        self.metric.replace('_', "-")
    }

    fn bars(&self, series: &Series, axis: &Axis) -> Markup {
        let (divisor, unit) = Unit::of(self.metric).scale(self.largest());
        let marks =
            axis.labels.iter().zip(values(series, axis, divisor)).map(|(label, value)| Mark { label: label.clone(), value });
        let chart = Chart {
            id: self.id(),
            title: format!("{} by {}", title(self.metric), axis.bucket),
            description: format!("One bar per {}.", axis.bucket),
            unit,
            marks: marks.collect(),
            floor: 0.0,
        };
        chart.render()
    }

    fn lines(&self, axis: &Axis, names: &Names) -> Markup {
        let unit = Unit::of(self.metric);
        let (divisor, word) = unit.scale(self.largest());
        let line = |series: &&Series| Line { name: self.name(series, names), values: values(series, axis, divisor) };
        let lines: Vec<Line> = self.series.iter().map(line).collect();
        let floor = if unit == Unit::Percent { floor(&lines) } else { 0.0 };
        let chart = Lines {
            id: self.id(),
            title: format!("{} by {}", title(self.metric), axis.bucket),
            description: format!("One point per {}. A gap is a {} in which nothing was measured.", axis.bucket, axis.bucket),
            unit: word,
            labels: axis.labels.clone(),
            rows: lines,
            floor,
        };
        chart.render()
    }

    /// The name of a group, or of the metric.
    fn name(&self, series: &Series, names: &Names) -> String {
        let group = series.group.as_deref();
        let named = |group: &str| names.get(group).cloned().unwrap_or_else(|| group_words(group));
        group.map_or_else(|| title(self.metric), named)
    }
}

/// How important a series is: the sum of its points.
fn weight(series: &Series) -> f64 {
    series.points.iter().map(|point| point.v).sum()
}

/// A value for each bucket.
fn values(series: &Series, axis: &Axis, divisor: f64) -> Vec<Option<f64>> {
    let known: BTreeMap<i64, f64> = series.points.iter().map(|point| (point.t.as_millis(), point.v / divisor)).collect();
    axis.starts.iter().map(|start| known.get(start).copied()).collect()
}

/// Where the axis of shares begins: shares near 100 show nothing from 0.
fn floor(lines: &[Line]) -> f64 {
    let least = lines.iter().flat_map(|line| &line.values).flatten().copied().fold(100.0, f64::min);
    if least > 50.0 { ((least - 1.0) / 10.0).floor() * 10.0 } else { 0.0 }
}

fn change_words(change: f64) -> String {
    let sign = if change < 0.0 { "−" } else { "+" };
    format!("{sign}{} %", number(change.abs()))
}

/// A group as people read it. IDs and names of operations stay as they are.
fn group_words(group: &str) -> String {
    match group {
        "in_progress" | "pending" | "other" => words(group),
        _ => group.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn report() -> Report {
        serde_json::from_value(json!({
            "range": {"from": "2026-11-17T00:00:00.000Z", "to": "2026-11-19T00:00:00.000Z", "bucket": "day", "timezone": "UTC"},
            "totals": {"tickets_created": {"value": 12, "previous": 10, "change_percent": 20}},
            "series": [
                {"metric": "tickets_created", "group": "org_1", "points": [{"t": "2026-11-17T00:00:00.000Z", "v": 1}]},
                {"metric": "tickets_created", "group": "org_2", "points": [{"t": "2026-11-18T00:00:00.000Z", "v": 5}]},
                {"metric": "tickets_resolved", "points": [{"t": "2026-11-18T00:00:00.000Z", "v": 3}]}
            ]
        }))
        .unwrap()
    }

    #[test]
    fn groups_are_lines_with_the_largest_first() {
        let report = report();
        let names = Names::from([("org_2".to_owned(), "Acme".to_owned())]);
        let text = Panel::of(&report, "tickets_created").card(&Axis::of(&report), &names).into_string();
        assert!(text.contains("+20 %, before: 10"), "{text}");
        let (acme, other) = (text.find("Acme").unwrap(), text.find("org_1").unwrap());
        assert!(acme < other && !text.contains("org_2"));
    }

    #[test]
    fn counts_without_groups_are_bars() {
        let report = report();
        let text = Panel::of(&report, "tickets_resolved").card(&Axis::of(&report), &Names::new()).into_string();
        assert!(text.contains("<rect") && !text.contains("<polyline"));
        assert!(text.contains("Tickets resolved by day"));
    }

    #[test]
    fn the_axis_of_shares_begins_below_the_least() {
        let line = |values: &[f64]| vec![Line { name: String::new(), values: values.iter().map(|value| Some(*value)).collect() }];
        assert!((floor(&line(&[96.3, 100.0])) - 90.0).abs() < f64::EPSILON);
        assert!((floor(&line(&[40.0, 100.0]))).abs() < f64::EPSILON);
        assert_eq!((change_words(-12.5), change_words(3.0)), ("−12.5 %".to_owned(), "+3 %".to_owned()));
    }
}
