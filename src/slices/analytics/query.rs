//! Runs analytics queries: reads the rows, sorts their values into buckets, and computes the metrics.
//!
//! **Invariant:** a query reads roll-ups only. The number of buckets and the days of the range bound its work, not the activity in
//! them.

use std::collections::BTreeMap;

use tenantd_base::{clock::Timestamp, id::TenantId, telemetry::Sketch};
use tenantd_store::{Read, StoreError, events};

use super::{
    model::{Bucket, Buckets, Formula, GroupBy, INSTALLATION, Kind, Measure, Metric, OTHER, Part, Series, Zone, quarter_of},
    repo::{self, Visitor},
    rollup,
};

/// The number of groups with their own line. The smaller ones count as `other`.
pub(super) const MAX_GROUPS: usize = 50;
pub(super) const MAX_POINTS: usize = 1_000;

/// Whose metrics to report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Subject {
    Tenant(TenantId),
    Platform,
}

impl Subject {
    pub(super) fn is_platform(self) -> bool {
        self == Self::Platform
    }

    fn row_id(self) -> TenantId {
        match self {
            Self::Tenant(tenant) => tenant,
            Self::Platform => INSTALLATION,
        }
    }
}

/// A validated query.
#[derive(Clone, Debug)]
pub(super) struct Question {
    pub(super) subject: Subject,
    pub(super) now: Timestamp,
    pub(super) zone: Zone,
    pub(super) bucket: Bucket,
    /// The range. Its ends are full quarters of an hour.
    pub(super) buckets: Buckets,
    pub(super) metrics: Vec<(&'static Metric, Formula)>,
    pub(super) group_by: Option<GroupBy>,
    /// The period to compare with.
    pub(super) previous: Option<(Timestamp, Timestamp)>,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Point {
    pub(super) at: Timestamp,
    pub(super) value: f64,
    pub(super) partial: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Line {
    pub(super) metric: &'static str,
    pub(super) group: Option<String>,
    pub(super) points: Vec<Point>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Total {
    pub(super) value: Option<f64>,
    pub(super) previous: Option<f64>,
    pub(super) change_percent: Option<f64>,
}

#[derive(Clone, Debug)]
pub(super) struct Answer {
    /// The number of the tenant's last counted event. For the platform, the last counted position in the log.
    pub(super) as_of_seq: u64,
    pub(super) totals: Vec<(&'static str, Total)>,
    pub(super) lines: Vec<Line>,
}

/// The values of a series in each bucket, by group.
#[derive(Debug, Default)]
struct LoadedSeries {
    groups: BTreeMap<String, Vec<Measure>>,
    /// For a gauge: the newest quarter of each bucket that has a sample, plus one.
    newest: Vec<u64>,
}

/// Sorts values into buckets. Rows are in time order, so a quarter is usually in the same bucket as the previous one.
struct SeriesLoader<'a> {
    bounds: &'a [u64],
    kind: Kind,
    /// The index of each group in `measures`.
    places: BTreeMap<String, usize>,
    measures: Vec<Vec<Measure>>,
    newest: Vec<u64>,
    group: usize,
    bucket: usize,
}

impl<'a> SeriesLoader<'a> {
    fn new(bounds: &'a [u64], kind: Kind) -> Self {
        let newest = vec![0; bounds.len().saturating_sub(1)];
        Self { bounds, kind, places: BTreeMap::new(), measures: Vec::new(), newest, group: 0, bucket: 0 }
    }

    fn is_within(&self, bucket: usize, quarter: u64) -> bool {
        let (from, to) = (self.bounds.get(bucket), self.bounds.get(bucket + 1));
        from.is_some_and(|from| *from <= quarter) && to.is_some_and(|to| quarter < *to)
    }

    fn slot(&mut self) -> Option<&mut Measure> {
        self.measures.get_mut(self.group)?.get_mut(self.bucket)
    }

    fn finish(mut self) -> LoadedSeries {
        let mut groups = BTreeMap::new();
        for (group, place) in self.places {
            groups.insert(group, self.measures.get_mut(place).map(std::mem::take).unwrap_or_default());
        }
        LoadedSeries { groups, newest: self.newest }
    }
}

impl Visitor for SeriesLoader<'_> {
    fn group(&mut self, group: &str) {
        if let Some(place) = self.places.get(group) {
            self.group = *place;
            return;
        }
        self.group = self.measures.len();
        self.places.insert(group.to_owned(), self.group);
        self.measures.push(vec![Measure::default(); self.newest.len()]);
    }

    fn cell(&mut self, quarter: u64, count: u64, total: u64) {
        if !self.is_within(self.bucket, quarter) {
            self.bucket = self.bounds.partition_point(|bound| *bound <= quarter).saturating_sub(1);
        }
        let gauge = self.kind == Kind::Gauge;
        let Some(slot) = self.slot() else { return };
        if !gauge {
            slot.count = slot.count.saturating_add(count);
            slot.total = slot.total.saturating_add(total);
            return;
        }
        // For a gauge, `count` holds the quarter of the sample, plus one.
        let quarter = quarter + 1;
        if quarter >= slot.count {
            *slot = Measure { count: quarter, total, sketch: Sketch::default() };
        }
        if let Some(newest) = self.newest.get_mut(self.bucket) {
            *newest = quarter.max(*newest);
        }
    }

    fn range(&mut self, _quarter: u64, range: usize, count: u64) {
        if let Some(slot) = self.slot() {
            slot.sketch.add(range, count);
        }
    }
}

fn load(tx: &impl Read, subject: Subject, series: Series, bounds: &[Timestamp]) -> Result<LoadedSeries, StoreError> {
    let bounds: Vec<u64> = bounds.iter().map(|bound| quarter_of(*bound)).collect();
    let (Some(from), Some(to)) = (bounds.first().copied(), bounds.last().copied()) else { return Ok(LoadedSeries::default()) };
    let mut loader = SeriesLoader::new(&bounds, series.kind());
    repo::walk(tx, (subject.row_id(), series), (from, to), &mut loader)?;
    Ok(loader.finish())
}

/// The buckets to evaluate: one, or all of the range.
#[derive(Clone, Copy)]
struct Window {
    /// `None`: the whole range.
    bucket: Option<usize>,
    seconds: f64,
}

impl LoadedSeries {
    fn buckets(&self, window: Window) -> std::ops::Range<usize> {
        window.bucket.map_or(0..self.newest.len(), |bucket| bucket..bucket + 1)
    }

    /// Returns the measures of the groups that `includes` accepts.
    fn measures(&self, window: Window, includes: impl Fn(&str) -> bool) -> impl Iterator<Item = &Measure> {
        let groups = self.groups.iter().filter(move |(group, _)| includes(group));
        groups.flat_map(move |(_, measures)| measures.get(self.buckets(window)).into_iter().flatten())
    }

    fn count(&self, window: Window, includes: impl Fn(&str) -> bool) -> u64 {
        self.measures(window, includes).map(|measure| measure.count).fold(0, u64::saturating_add)
    }

    fn sketch(&self, window: Window, includes: impl Fn(&str) -> bool) -> Sketch {
        let mut sum = Sketch::default();
        for measure in self.measures(window, includes) {
            sum.merge(&measure.sketch);
        }
        sum
    }

    /// Returns the sum of all groups at the newest sample. A group without a value in that sample counts as 0.
    fn last(&self, window: Window, includes: impl Fn(&str) -> bool) -> Option<f64> {
        let bucket = self.buckets(window).rev().find(|bucket| self.newest.get(*bucket).is_some_and(|newest| *newest > 0))?;
        let newest = self.newest.get(bucket)?;
        let of = self.groups.iter().filter(|(group, _)| includes(group)).filter_map(|(_, measures)| measures.get(bucket));
        Some(of.filter(|measure| measure.count == *newest).map(|measure| measure.total as f64).sum())
    }

    fn distinct(&self, window: Window, prefix: &str) -> usize {
        let has_any =
            |measures: &Vec<Measure>| measures.get(self.buckets(window)).into_iter().flatten().any(|measure| measure.count > 0);
        self.groups.iter().filter(|(group, measures)| group.starts_with(prefix) && has_any(measures)).count()
    }
}

/// Selects the groups that a line includes.
type GroupFilter<'a> = &'a dyn Fn(&str) -> bool;

struct Evaluation {
    series: BTreeMap<Series, LoadedSeries>,
}

impl Evaluation {
    fn new(tx: &impl Read, question: &Question, bounds: &[Timestamp]) -> Result<Self, StoreError> {
        let mut series = BTreeMap::new();
        for needed in question.metrics.iter().flat_map(|(_, formula)| formula.series()).flatten() {
            if let std::collections::btree_map::Entry::Vacant(place) = series.entry(needed) {
                place.insert(load(tx, question.subject, needed, bounds)?);
            }
        }
        Ok(Self { series })
    }

    fn part(&self, part: Part, window: Window, includes: GroupFilter<'_>) -> u64 {
        let of_part = |group: &str| (part.groups.is_empty() || part.groups.contains(&group)) && includes(group);
        self.series.get(&part.series).map_or(0, |loaded| loaded.count(window, of_part))
    }

    fn value(&self, formula: Formula, window: Window, includes: GroupFilter<'_>) -> Option<f64> {
        match formula {
            Formula::Count(part) => Some(self.part(part, window, includes) as f64),
            Formula::Rate(series) => {
                let count = self.part(Part { series, groups: &[] }, window, includes) as f64;
                Some(count / window.seconds.max(1.0))
            }
            Formula::Percentile(series, percent, unit) => {
                Some(self.series.get(&series)?.sketch(window, includes).percentile(percent)? / unit)
            }
            Formula::Share(part, whole) => {
                share(self.part(part, window, includes) as f64, self.part(whole, window, includes) as f64)
            }
            Formula::Last(series) => self.series.get(&series)?.last(window, includes),
            Formula::LastOf(series, group) => self.series.get(&series)?.last(window, |name| name == group),
            Formula::LastShare(part, whole) => {
                let whole = self.series.get(&whole)?.last(window, includes)?;
                share(self.series.get(&part)?.last(window, includes)?, whole)
            }
            Formula::Distinct(series, prefix) => Some(self.series.get(&series)?.distinct(window, prefix) as f64),
        }
        .map(rounded)
    }

    /// Returns the groups of a formula, the largest first.
    fn groups(&self, formula: Formula) -> Vec<String> {
        let [Some(first), second] = formula.series() else { return Vec::new() };
        let Some(loaded) = self.series.get(&second.unwrap_or(first)) else { return Vec::new() };
        let weight = |measures: &Vec<Measure>| -> u64 {
            let gauge = second.unwrap_or(first).kind() == Kind::Gauge;
            measures.iter().map(|measure| if gauge { measure.total } else { measure.count }).fold(0, u64::saturating_add)
        };
        // A row at the edge of the range can contain groups that have values only outside the range.
        let nonempty = loaded.groups.iter().filter(|(_, measures)| measures.iter().any(|measure| measure.count > 0));
        let mut groups: Vec<(u64, &String)> = nonempty.map(|(group, measures)| (weight(measures), group)).collect();
        groups.sort_by(|left, right| right.0.cmp(&left.0).then(left.1.cmp(right.1)));
        groups.into_iter().map(|(_, group)| group.clone()).collect()
    }
}

fn share(part: f64, whole: f64) -> Option<f64> {
    (whole > 0.0).then(|| part / whole * 100.0)
}

/// Rounds to three decimal places, which is more precise than any metric here.
fn rounded(value: f64) -> f64 {
    (value * 1000.0).round() / 1000.0
}

fn seconds(from: Timestamp, to: Timestamp) -> f64 {
    to.since(from).as_secs_f64()
}

pub(super) fn answer(tx: &impl Read, question: &Question) -> Result<Answer, StoreError> {
    let evaluation = Evaluation::new(tx, question, &question.buckets.bounds)?;
    let previous = match question.previous {
        Some((from, to)) => Some((Evaluation::new(tx, question, &[from, to])?, seconds(from, to))),
        None => None,
    };
    let elapsed = seconds(question.buckets.from(), question.buckets.to().min(question.now));
    let mut lines = Vec::new();
    let mut totals = Vec::new();
    for (metric, formula) in &question.metrics {
        let window = Window { bucket: None, seconds: elapsed };
        let value = evaluation.value(*formula, window, &|_| true);
        let before = previous
            .as_ref()
            .and_then(|(previous, seconds)| previous.value(*formula, Window { bucket: None, seconds: *seconds }, &|_| true));
        let change = value.zip(before).filter(|(_, before)| *before != 0.0);
        let change_percent = change.map(|(value, before)| rounded((value - before) / before * 100.0));
        totals.push((metric.name, Total { value, previous: before, change_percent }));
        if question.group_by.is_none() {
            lines.push(line(question, &evaluation, metric, *formula, None, &|_| true));
            continue;
        }
        let groups = evaluation.groups(*formula);
        let (listed, others) = groups.split_at(groups.len().min(MAX_GROUPS));
        for group in listed {
            lines.push(line(question, &evaluation, metric, *formula, Some(group.clone()), &|found| found == group));
        }
        if !others.is_empty() {
            let other = |found: &str| others.iter().any(|group| group == found);
            lines.push(line(question, &evaluation, metric, *formula, Some(OTHER.to_owned()), &other));
        }
    }
    let counted = events::cursor(tx, rollup::NAME)?;
    let as_of_seq = match question.subject {
        Subject::Tenant(tenant) => events::number_at(tx, tenant, counted)?,
        Subject::Platform => counted,
    };
    Ok(Answer { as_of_seq, totals, lines })
}

fn line(
    question: &Question,
    evaluation: &Evaluation,
    metric: &Metric,
    formula: Formula,
    group: Option<String>,
    includes: GroupFilter<'_>,
) -> Line {
    let points = question.buckets.parts(question.now).enumerate().filter_map(|(place, (from, to, partial))| {
        let window = Window { bucket: Some(place), seconds: seconds(from, to.min(question.now)) };
        let value = evaluation.value(formula, window, includes)?;
        Some(Point { at: from, value, partial })
    });
    Line { metric: metric.name, group, points: points.collect() }
}
