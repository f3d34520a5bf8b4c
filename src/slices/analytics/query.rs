//! Questions for figures, and their answers: which rows are read, into which buckets they fall, and what comes of them.
//!
//! **Invariant:** roll-ups only; the work is bounded by the number of buckets and the days of the range, whatever happened in them.

use std::collections::BTreeMap;

use tenantd_base::{clock::Timestamp, id::TenantId, telemetry::Sketch};
use tenantd_store::{Read, StoreError, events};

use super::{
    model::{Bucket, Buckets, Formula, GroupBy, INSTALLATION, Kind, Measure, Metric, OTHER, Part, Series, Zone, quarter_of},
    repo::{self, Visitor},
    rollup,
};

/// Groups that are told one by one; the smallest of the others count as other.
pub(super) const MAX_GROUPS: usize = 50;
pub(super) const MAX_POINTS: usize = 1_000;

/// Whose figures.
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

/// A question that makes sense.
#[derive(Clone, Debug)]
pub(super) struct Question {
    pub(super) subject: Subject,
    pub(super) now: Timestamp,
    pub(super) zone: Zone,
    pub(super) bucket: Bucket,
    /// The range, whose ends are full quarters of an hour.
    pub(super) buckets: Buckets,
    pub(super) metrics: Vec<(&'static Metric, Formula)>,
    pub(super) group_by: Option<GroupBy>,
    /// The time that it is compared with.
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
    /// The number of the tenant's last event that is counted; of the platform, the last place of the log that is.
    pub(super) as_of_seq: u64,
    pub(super) totals: Vec<(&'static str, Total)>,
    pub(super) lines: Vec<Line>,
}

/// What a series has in each bucket, by group.
#[derive(Debug, Default)]
struct Loaded {
    groups: BTreeMap<String, Vec<Measure>>,
    /// Of a gauge: the newest quarter of each bucket that has a sample, plus one.
    newest: Vec<u64>,
}

/// Puts what is read into buckets. Rows come in the order of time, so a quarter is mostly in the bucket of the one before.
struct Loading<'a> {
    bounds: &'a [u64],
    kind: Kind,
    /// The place of each group among `measures`.
    places: BTreeMap<String, usize>,
    measures: Vec<Vec<Measure>>,
    newest: Vec<u64>,
    group: usize,
    bucket: usize,
}

impl<'a> Loading<'a> {
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

    fn finish(mut self) -> Loaded {
        let mut groups = BTreeMap::new();
        for (group, place) in self.places {
            groups.insert(group, self.measures.get_mut(place).map(std::mem::take).unwrap_or_default());
        }
        Loaded { groups, newest: self.newest }
    }
}

impl Visitor for Loading<'_> {
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
        // The count of a gauge in here is the quarter that it is of.
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

fn load(tx: &impl Read, subject: Subject, series: Series, bounds: &[Timestamp]) -> Result<Loaded, StoreError> {
    let bounds: Vec<u64> = bounds.iter().map(|bound| quarter_of(*bound)).collect();
    let (Some(from), Some(to)) = (bounds.first().copied(), bounds.last().copied()) else { return Ok(Loaded::default()) };
    let mut loading = Loading::new(&bounds, series.kind());
    repo::walk(tx, (subject.row_id(), series), (from, to), &mut loading)?;
    Ok(loading.finish())
}

/// What was measured of the groups that are wanted: in one bucket, or in all.
#[derive(Clone, Copy)]
struct Window {
    /// `None`: the whole range.
    bucket: Option<usize>,
    seconds: f64,
}

impl Loaded {
    fn buckets(&self, window: Window) -> std::ops::Range<usize> {
        window.bucket.map_or(0..self.newest.len(), |bucket| bucket..bucket + 1)
    }

    /// The figures of the groups that `wanted` lets pass.
    fn measures(&self, window: Window, wanted: impl Fn(&str) -> bool) -> impl Iterator<Item = &Measure> {
        let groups = self.groups.iter().filter(move |(group, _)| wanted(group));
        groups.flat_map(move |(_, measures)| measures.get(self.buckets(window)).into_iter().flatten())
    }

    fn count(&self, window: Window, wanted: impl Fn(&str) -> bool) -> u64 {
        self.measures(window, wanted).map(|measure| measure.count).fold(0, u64::saturating_add)
    }

    fn sketch(&self, window: Window, wanted: impl Fn(&str) -> bool) -> Sketch {
        let mut sum = Sketch::default();
        for measure in self.measures(window, wanted) {
            sum.merge(&measure.sketch);
        }
        sum
    }

    /// The newest sample: what each group had then. A group that has none then has 0 of it.
    fn last(&self, window: Window, wanted: impl Fn(&str) -> bool) -> Option<f64> {
        let bucket = self.buckets(window).rev().find(|bucket| self.newest.get(*bucket).is_some_and(|newest| *newest > 0))?;
        let newest = self.newest.get(bucket)?;
        let of = self.groups.iter().filter(|(group, _)| wanted(group)).filter_map(|(_, measures)| measures.get(bucket));
        Some(of.filter(|measure| measure.count == *newest).map(|measure| measure.total as f64).sum())
    }

    fn distinct(&self, window: Window, prefix: &str) -> usize {
        let has_any =
            |measures: &Vec<Measure>| measures.get(self.buckets(window)).into_iter().flatten().any(|measure| measure.count > 0);
        self.groups.iter().filter(|(group, measures)| group.starts_with(prefix) && has_any(measures)).count()
    }
}

/// The groups that a line is about.
type Wanted<'a> = &'a dyn Fn(&str) -> bool;

struct Evaluation {
    series: BTreeMap<Series, Loaded>,
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

    fn part(&self, part: Part, window: Window, wanted: Wanted<'_>) -> u64 {
        let of_part = |group: &str| (part.groups.is_empty() || part.groups.contains(&group)) && wanted(group);
        self.series.get(&part.series).map_or(0, |loaded| loaded.count(window, of_part))
    }

    fn value(&self, formula: Formula, window: Window, wanted: Wanted<'_>) -> Option<f64> {
        match formula {
            Formula::Count(part) => Some(self.part(part, window, wanted) as f64),
            Formula::Rate(series) => {
                let count = self.part(Part { series, groups: &[] }, window, wanted) as f64;
                Some(count / window.seconds.max(1.0))
            }
            Formula::Percentile(series, percent, unit) => {
                Some(self.series.get(&series)?.sketch(window, wanted).percentile(percent)? / unit)
            }
            Formula::Share(part, whole) => share(self.part(part, window, wanted) as f64, self.part(whole, window, wanted) as f64),
            Formula::Last(series) => self.series.get(&series)?.last(window, wanted),
            Formula::LastOf(series, group) => self.series.get(&series)?.last(window, |name| name == group),
            Formula::LastShare(part, whole) => {
                let whole = self.series.get(&whole)?.last(window, wanted)?;
                share(self.series.get(&part)?.last(window, wanted)?, whole)
            }
            Formula::Distinct(series, prefix) => Some(self.series.get(&series)?.distinct(window, prefix) as f64),
        }
        .map(rounded)
    }

    /// The groups of a formula, the largest first.
    fn groups(&self, formula: Formula) -> Vec<String> {
        let [Some(first), second] = formula.series() else { return Vec::new() };
        let Some(loaded) = self.series.get(&second.unwrap_or(first)) else { return Vec::new() };
        let weight = |measures: &Vec<Measure>| -> u64 {
            let gauge = second.unwrap_or(first).kind() == Kind::Gauge;
            measures.iter().map(|measure| if gauge { measure.total } else { measure.count }).fold(0, u64::saturating_add)
        };
        // A row at the edge of the range can have groups that are only beyond it.
        let there = loaded.groups.iter().filter(|(_, measures)| measures.iter().any(|measure| measure.count > 0));
        let mut groups: Vec<(u64, &String)> = there.map(|(group, measures)| (weight(measures), group)).collect();
        groups.sort_by(|left, right| right.0.cmp(&left.0).then(left.1.cmp(right.1)));
        groups.into_iter().map(|(_, group)| group.clone()).collect()
    }
}

fn share(part: f64, whole: f64) -> Option<f64> {
    (whole > 0.0).then(|| part / whole * 100.0)
}

/// Three digits behind the point say more than any figure here is worth.
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
        let (told, others) = groups.split_at(groups.len().min(MAX_GROUPS));
        for group in told {
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
    wanted: Wanted<'_>,
) -> Line {
    let points = question.buckets.parts(question.now).enumerate().filter_map(|(place, (from, to, partial))| {
        let window = Window { bucket: Some(place), seconds: seconds(from, to.min(question.now)) };
        let value = evaluation.value(formula, window, wanted)?;
        Some(Point { at: from, value, partial })
    });
    Line { metric: metric.name, group, points: points.collect() }
}
