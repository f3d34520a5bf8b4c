//! Validates query parameters. Reports all mistakes at once, each with a suggestion if there is one.

use tenantd_base::{access::Grants, clock::Timestamp, fault::Fault};
use tenantd_store::{Read, StoreError};

use super::{
    error::AnalyticsError,
    model::{Bucket, Buckets, Formula, GroupBy, METRICS, Metric, QUARTER_MILLIS, Span, Zone},
    query::{self, Answer, MAX_POINTS, Question, Subject},
    upkeep::FINE_DAYS,
};

/// The query parameters, not yet validated.
#[derive(Clone, Debug, Default)]
pub(super) struct QueryParams {
    pub(super) range: Option<Span>,
    pub(super) from: Option<Timestamp>,
    pub(super) to: Option<Timestamp>,
    pub(super) bucket: Option<Bucket>,
    pub(super) timezone: Option<String>,
    pub(super) metrics: Vec<String>,
    pub(super) group_by: Option<GroupBy>,
    pub(super) compare: bool,
}

pub(super) fn answer(tx: &impl Read, question: &Question) -> Result<Answer, StoreError> {
    query::answer(tx, question)
}

fn nearest<'a>(given: &str, known: impl Iterator<Item = &'a str>) -> Option<String> {
    known.min_by_key(|name| strsim::osa_distance(name, given)).map(str::to_owned)
}

/// Validates the parameters.
///
/// A tenant's metric requires the scopes that read the records it counts. Without them, a metric that is requested by name is
/// refused; if no metrics are named, the reader gets those that its scopes allow.
pub(super) fn validate(params: &QueryParams, subject: Subject, held: Grants, now: Timestamp) -> Result<Question, AnalyticsError> {
    let mut faults = Vec::new();
    let zone = zone(params, &mut faults);
    let mut metrics = metrics(params, subject, &mut faults);
    if !subject.is_platform() {
        let missing = |metric: &Metric| metric.reads(params.group_by).without(held);
        let refused = metrics.iter().map(|(metric, _)| missing(metric)).fold(Grants::NONE, Grants::union);
        if !params.metrics.is_empty() && refused != Grants::NONE && faults.is_empty() {
            return Err(AnalyticsError::NotHeld(refused));
        }
        metrics.retain(|(metric, _)| missing(metric) == Grants::NONE);
    }
    let time = time(params, &zone, now, &mut faults);
    let Some((bucket, buckets, span)) = time.filter(|_| faults.is_empty()) else { return Err(AnalyticsError::Invalid(faults)) };
    let (from, to) = (buckets.from(), buckets.to());
    let before = if params.compare { zone.begin_before(span, from, to) } else { None };
    // As long as the range, and not overlapping it.
    let previous = before.map(|begins| (begins, (begins + to.since(from)).min(from)));
    Ok(Question { subject, now, zone, bucket, buckets, metrics, group_by: params.group_by, previous })
}

/// Returns the beginning of the quarter of an hour that contains `at`. Roll-ups have no finer resolution.
fn quarter(at: Timestamp) -> Timestamp {
    Timestamp::from_millis(at.as_millis().div_euclid(QUARTER_MILLIS) * QUARTER_MILLIS)
}

/// Returns the end of the quarter of an hour that contains `at`.
fn quarter_end(at: Timestamp) -> Timestamp {
    Timestamp::from_millis(quarter(at).as_millis() + QUARTER_MILLIS)
}

fn zone(params: &QueryParams, faults: &mut Vec<Fault>) -> Zone {
    let Some(name) = &params.timezone else { return Zone::utc() };
    Zone::parse(name).unwrap_or_else(|unknown| {
        let fault = Fault::parameter("timezone", "unknown_time_zone", unknown.to_string());
        faults.push(fault.with_suggestion(unknown.suggestion));
        Zone::utc()
    })
}

fn metrics(params: &QueryParams, subject: Subject, faults: &mut Vec<Fault>) -> Vec<(&'static Metric, Formula)> {
    let platform = subject.is_platform();
    let known = || METRICS.iter().filter(|metric| metric.is_for(platform));
    let formula = |metric: &Metric| match params.group_by {
        None => Some(metric.formula),
        Some(by) => metric.grouped(by, platform),
    };
    let by = params.group_by.map_or("", GroupBy::name);
    if params.metrics.is_empty() {
        let found: Vec<_> = known().filter_map(|metric| Some((metric, formula(metric)?))).collect();
        if found.is_empty() {
            faults.push(Fault::parameter("group_by", "not_allowed", format!("no metric of this report supports group_by={by}")));
        }
        return found;
    }
    let mut found: Vec<(&'static Metric, Formula)> = Vec::new();
    for name in params.metrics.iter().flat_map(|name| expand_wildcard(name, known())) {
        let Some(metric) = known().find(|metric| metric.name == name) else {
            let names = || known().map(|metric| metric.name);
            let fault = Fault::parameter("metrics", "unknown_metric", format!("{name} is not a known metric"));
            faults.push(fault.with_allowed(names()).with_suggestion(nearest(&name, names())));
            continue;
        };
        match formula(metric) {
            Some(formula) if found.iter().all(|(known, _)| known.name != metric.name) => found.push((metric, formula)),
            Some(_) => faults.push(Fault::parameter("metrics", "repeated", format!("{name} is listed twice; list it once"))),
            None => {
                let groupings = metric.groupings.iter().filter(|(by, _)| metric.grouped(*by, platform).is_some());
                let fault = Fault::parameter("group_by", "not_allowed", format!("{name} does not support group_by={by}"));
                faults.push(fault.with_allowed(groupings.map(|(by, _)| by.name())));
            }
        }
    }
    found
}

/// Expands a wildcard: `quota_*` matches every metric that begins with `quota_`. A name that matches nothing is returned unchanged.
fn expand_wildcard(name: &str, known: impl Iterator<Item = &'static Metric>) -> Vec<String> {
    let names: Vec<String> = match name.strip_suffix('*').filter(|prefix| prefix.ends_with('_')) {
        Some(prefix) => known.map(|metric| metric.name).filter(|name| name.starts_with(prefix)).map(str::to_owned).collect(),
        None => Vec::new(),
    };
    if names.is_empty() { vec![name.to_owned()] } else { names }
}

/// Returns the default bucket for a range of this many hours.
fn usual_bucket(hours: u64) -> Bucket {
    match hours {
        0..=48 => Bucket::Hour,
        49..=2_232 => Bucket::Day,
        2_233..=9_000 => Bucket::Week,
        _ => Bucket::Month,
    }
}

type Time = (Bucket, Buckets, Option<Span>);

fn time(params: &QueryParams, zone: &Zone, now: Timestamp, faults: &mut Vec<Fault>) -> Option<Time> {
    let (span, given) = match (params.range, params.from, params.to) {
        (Some(_), from, to) if from.is_some() || to.is_some() => {
            faults.push(Fault::parameter(
                "range",
                "not_allowed",
                "range cannot be combined with from or to; send either range, or from and to",
            ));
            return None;
        }
        (None, None, Some(_)) => {
            faults.push(Fault::parameter("from", "required", "from is required if you send to"));
            return None;
        }
        (None, Some(from), to) => (None, Some((from, to.unwrap_or(now)))),
        (span, ..) => (Some(span.unwrap_or(Span::Month)), None),
    };
    if let Some((from, to)) = given {
        if from >= to {
            faults.push(Fault::parameter("to", "out_of_range", "to must be later than from"));
            return None;
        }
        if from > now {
            faults.push(Fault::parameter("from", "out_of_range", "from must not be in the future"));
            return None;
        }
    }
    let hours = match (span, given) {
        (Some(Span::Day), _) | (None, None) => 24,
        (Some(Span::Week | Span::Month | Span::MonthToDate), _) => 24 * 7,
        (Some(Span::Quarter), _) => 24 * 90,
        (Some(Span::Year | Span::YearToDate), _) => 24 * 366,
        (None, Some((from, to))) => to.since(from).as_secs() / 3600,
    };
    let bucket = params.bucket.unwrap_or_else(|| usual_bucket(hours));
    let cut = |bucket| {
        let (from, to) = match (span, given) {
            (Some(span), _) => (zone.begin(span, now)?, now),
            (None, given) => given.map(|(from, to)| (quarter(from), to.min(now)))?,
        };
        // A range up to now includes the current quarter. An earlier range includes the quarter that contains its end.
        let end = if to == now { quarter_end(to) } else { quarter_end(Timestamp::from_millis(to.as_millis() - 1)) };
        zone.cut(bucket, from, end, MAX_POINTS)
    };
    let Some(found) = cut(bucket) else {
        let fits = Bucket::ALL.iter().copied().find(|other| *other > bucket && cut(*other).is_some());
        let message = match fits {
            Some(fits) => format!("the report would have more than {MAX_POINTS} points; use bucket={}", fits.name()),
            None => format!("the report would have more than {MAX_POINTS} points; request a shorter range"),
        };
        let suggestion = fits.map(|fits| fits.name().to_owned());
        faults.push(Fault::parameter("bucket", "too_many_points", message).with_suggestion(suggestion));
        return None;
    };
    let finest = now - std::time::Duration::from_secs(u64::from(FINE_DAYS) * 86_400);
    if bucket == Bucket::Hour && found.from() < finest {
        let message = format!("hours are kept for {FINE_DAYS} days; use bucket=day for an earlier range");
        faults.push(Fault::parameter("bucket", "out_of_range", message).with_suggestion(Some("day".to_owned())));
        return None;
    }
    Some((bucket, found, span))
}
