//! The metrics of an endpoint: success rate, counts, and attempts over time as bars.

use maud::{Markup, html};
use serde::Deserialize;

use tenantd_base::clock::Timestamp;

use super::{
    parts::chips,
    record::{self, Endpoint},
};
use crate::{
    chart::{Chart, Mark},
    components::{Tone, bar, card, facts},
    moment::Clock,
    query::Query,
    refusal::Refusal,
    visitor::Visitor,
};

const HOUR: i64 = 3_600_000;

/// The periods that the page offers.
const RANGES: [Range; 3] = [
    Range { name: "24h", step: HOUR, steps: 24, form: "%-d %b %H:%M", noun: "an hour" },
    Range { name: "7d", step: 24 * HOUR, steps: 7, form: "%-d %b", noun: "a day" },
    Range { name: "30d", step: 24 * HOUR, steps: 30, form: "%-d %b", noun: "a day" },
];
const VIEWS: [(&str, &str); 3] = [("Last 24 hours", ""), ("Last 7 days", "range=7d"), ("Last 30 days", "range=30d")];

#[derive(Clone, Copy, Debug)]
struct Range {
    /// As the API names it.
    name: &'static str,
    /// The milliseconds of a bar.
    step: i64,
    steps: i64,
    /// How the label of a bar is written.
    form: &'static str,
    noun: &'static str,
}

#[derive(Debug, Deserialize)]
pub(super) struct Stats {
    pub(super) total: Figures,
    hours: Vec<Figures>,
}

#[derive(Debug, Default, Deserialize)]
pub(super) struct Figures {
    at: Option<String>,
    attempts: u64,
    failed_attempts: u64,
    delivered: u64,
    exhausted: u64,
    aborted: u64,
    skipped: u64,
    expired: u64,
    p50_ms: Option<u32>,
    p95_ms: Option<u32>,
}

impl Figures {
    /// The share of the attempts that succeeded, in percent. Only a period without a failure has 100.
    fn success(&self) -> Option<u32> {
        let succeeded = self.attempts.saturating_sub(self.failed_attempts);
        u32::try_from(succeeded.saturating_mul(100).checked_div(self.attempts)?).ok()
    }

    pub(super) fn success_bar(&self) -> Markup {
        let Some(percent) = self.success() else { return html! { span.muted { "No attempts" } } };
        let tone = match percent {
            99.. => Tone::Good,
            90..99 => Tone::Warn,
            _ => Tone::Bad,
        };
        bar(percent, tone, &format!("{percent} %"))
    }
}

/// The metrics of the last 24 hours.
pub(super) async fn of_a_day(visitor: &Visitor<'_>, endpoint: &Endpoint) -> Result<Option<Stats>, Refusal> {
    visitor.read_if_allowed(format!("{}/stats?range=24h", endpoint.api())).await
}

/// The card of the page of an endpoint. The URL of the page says which period it shows.
pub(super) async fn stats_card(visitor: &Visitor<'_>, endpoint: &Endpoint) -> Result<Markup, Refusal> {
    let query = visitor.query();
    let [day, ..] = RANGES;
    let range = RANGES.into_iter().find(|range| range.name == query.first("range")).unwrap_or(day);
    let stats: Stats = visitor.read(format!("{}/stats?range={}", record::target(visitor), range.name)).await?;
    let current = if range.name == day.name { Query::default() } else { Query::default().with("range", range.name) };
    let chart = |id: &str, title: &str, description: &str, value: fn(&Figures) -> u64| {
        Chart {
            id: id.to_owned(),
            title: format!("{title} {}", range.noun),
            description: description.to_owned(),
            unit: "attempts",
            marks: range.marks(&stats.hours, visitor.clock, value),
            floor: 0.0,
        }
        .render()
    };
    let body = html! {
        (chips("Period", &endpoint.path(), &current, &VIEWS))
        (stats.total.facts())
        div.charts {
            (chart("attempts", "Attempts", "One bar for the attempts of each period. Tests do not count.", |figures| figures.attempts))
            (chart("failures", "Failed attempts", "One bar for the failed attempts of each period. Tests do not count.", |figures| figures.failed_attempts))
        }
    };
    Ok(card("Deliveries over time", &body))
}

impl Figures {
    fn facts(&self) -> Markup {
        let some = |count: u64| (count > 0).then(|| html! { (count) });
        let milliseconds = |value: Option<u32>| value.map(|value| html! { "up to " (value) " ms" });
        facts(&[
            ("Success rate", Some(self.success_bar())),
            ("Attempts", Some(html! { (self.attempts) @if self.failed_attempts > 0 { ", " (self.failed_attempts) " failed" } })),
            ("Delivered", Some(html! { (self.delivered) })),
            ("Exhausted", some(self.exhausted)),
            ("Aborted", some(self.aborted)),
            ("Skipped", some(self.skipped)),
            ("Expired", some(self.expired)),
            ("Median time", milliseconds(self.p50_ms)),
            ("95th percentile", milliseconds(self.p95_ms)),
        ])
    }
}

impl Range {
    /// One bar for each hour or day up to now. The API leaves out hours without activity.
    fn marks(self, hours: &[Figures], clock: &Clock, value: fn(&Figures) -> u64) -> Vec<Mark> {
        let label = |at: Timestamp| clock.day(Timestamp::from_millis(at.as_millis().div_euclid(HOUR) * HOUR), self.form);
        let known: Vec<(String, u64)> =
            hours.iter().filter_map(|figures| Some((label(Timestamp::parse(figures.at.as_deref()?)?), value(figures)))).collect();
        let begin = |back: i64| Timestamp::from_millis(clock.now.as_millis() - back * self.step);
        let mark = |label: String| {
            let sum: u64 = known.iter().filter(|(at, _)| *at == label).map(|(_, count)| count).sum();
            Mark { label, value: Some(sum as f64) }
        };
        (0..=self.steps).rev().map(|back| mark(label(begin(back)))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hours_are_summed_to_the_days_of_the_reader() {
        let now = Timestamp::parse("2026-11-18T12:30:00.000Z").unwrap();
        let clock = Clock { now, zone: tenantd_base::zones::find("Europe/Berlin").unwrap() };
        let hour = |at: &str, attempts| Figures { at: Some(at.to_owned()), attempts, ..Figures::default() };
        let hours = [hour("2026-11-17T22:00:00.000Z", 1), hour("2026-11-17T23:00:00.000Z", 2), hour("2026-11-18T12:00:00.000Z", 4)];
        let [day, week, _] = RANGES;
        let days = week.marks(&hours, &clock, |figures| figures.attempts);
        assert_eq!((days.len(), days.last().unwrap().value, days.last().unwrap().label.as_str()), (8, Some(6.0), "18 Nov"));
        let bars = day.marks(&hours, &clock, |figures| figures.attempts);
        assert_eq!((bars.len(), bars.last().unwrap().label.as_str()), (25, "18 Nov 13:00"));
        assert_eq!(bars.iter().filter(|mark| mark.value > Some(0.0)).count(), 3);
    }

    #[test]
    fn a_failure_is_never_rounded_away() {
        let rate = |attempts, failed_attempts| Figures { attempts, failed_attempts, ..Figures::default() }.success();
        assert_eq!((rate(1000, 1), rate(3, 0), rate(0, 0), rate(8, 8)), (Some(99), Some(100), None, Some(0)));
    }
}
