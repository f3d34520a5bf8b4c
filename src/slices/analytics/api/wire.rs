//! Questions and answers as clients see them.

use std::collections::BTreeMap;

use poem_openapi::{Enum, Object};
use serde::Serialize;
use serde_with::skip_serializing_none;

use tenantd_base::clock::Timestamp;
use tenantd_http::{bounded::Text, wire::word_type};

use super::{
    super::{
        model::{Bucket, GroupBy, Span},
        query::{self, Question},
        service::Asked,
    },
    number::Number,
};

word_type! {
    Span, "AnalyticsRange", "`24h` is the running hour and the 23 hours before it. `7d`, `30d` and `90d` are today and the 6, 29 and 89 days before. `12mo` begins on the day after today's date a year ago. `mtd` begins on the first of the month, `ytd` on 1 January. All in `timezone`.";
    Bucket, "AnalyticsBucket", "Weeks begin on Monday.";
    GroupBy, "AnalyticsGroupBy";
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Enum)]
#[oai(rename_all = "snake_case", rename = "AnalyticsCompare")]
pub(super) enum Compare {
    /// The time before, as long as the range. For `mtd` and `ytd` it begins a month and a year earlier; for a range that begins at midnight,
    /// as many days earlier.
    PreviousPeriod,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Enum)]
#[oai(rename_all = "snake_case", rename = "AnalyticsFormat")]
pub(super) enum Format {
    Json,
    Csv,
    Ndjson,
}

/// What can be asked of figures.
#[derive(Debug, Object)]
pub(super) struct AnalyticsQuery {
    /// The time that the metrics are about, up to now; `30d` when neither this nor `from` is given. It does not depend on `bucket`.
    range: Option<Span>,
    /// Instead of `range`: from the quarter of an hour that this moment is in.
    from: Option<Timestamp>,
    /// With `from`: up to the quarter of an hour that this moment is in; now when absent.
    to: Option<Timestamp>,
    /// How much time a point is about. At most 1,000 points. When absent, one that suits the time. Hours go back 400 days; days five years.
    /// The first and the last bucket are cut at the ends of the range, so `totals` are the same for every bucket.
    bucket: Option<Bucket>,
    /// The IANA name of the time zone whose hours, days, weeks and months the buckets are; `UTC` when absent. A day in which the clocks
    /// change has 23 or 25 hours. Beyond 400 days a day is that of UTC.
    timezone: Option<Text<64>>,
    /// The figures that are wanted, by their names; all that there are when absent, or all that can be grouped so.
    #[oai(validator(min_items = 1, max_items = 60))]
    metrics: Option<Vec<Text<64>>>,
    /// Tell the figures apart by this, where that has a meaning.
    group_by: Option<GroupBy>,
    /// Also tell the totals of the time before, and by how much they have changed.
    compare: Option<Compare>,
    /// `csv` and `ndjson` have a row a point, without totals.
    pub(super) format: Option<Format>,
}

impl AnalyticsQuery {
    pub(super) fn asked(self) -> Asked {
        Asked {
            range: self.range,
            from: self.from,
            to: self.to,
            bucket: self.bucket,
            timezone: self.timezone.map(Text::into_string),
            metrics: self.metrics.into_iter().flatten().map(Text::into_string).collect(),
            group_by: self.group_by,
            compare: self.compare.is_some(),
        }
    }
}

/// The time that the metrics are about.
#[derive(Clone, Debug, Object, Serialize)]
pub(super) struct AnalyticsTime {
    /// When the range begins: a full quarter of an hour.
    pub(super) from: Timestamp,
    /// When the range ends. For a range up to now, that is the end of the running quarter of an hour.
    pub(super) to: Timestamp,
    /// How much time a point is about.
    pub(super) bucket: String,
    /// The IANA name of the time zone of the range and its buckets.
    pub(super) timezone: String,
}

/// A figure over the whole time.
#[skip_serializing_none]
#[derive(Clone, Debug, Object, Serialize)]
#[oai(skip_serializing_if_is_none)]
pub(super) struct AnalyticsTotal {
    /// Absent where there was nothing to measure.
    pub(super) value: Option<Number>,
    /// With `compare`: of the time before.
    pub(super) previous: Option<Number>,
    /// By how much `value` differs from `previous`. Absent where `previous` is 0 or absent.
    pub(super) change_percent: Option<Number>,
}

#[skip_serializing_none]
#[derive(Clone, Debug, Object, Serialize)]
#[oai(skip_serializing_if_is_none)]
pub(super) struct AnalyticsPoint {
    /// When the bucket begins, or the range, for the first bucket of a range that begins within it.
    pub(super) t: Timestamp,
    /// The value of the metric in the bucket.
    pub(super) v: Number,
    /// `true` where the point is about a part of its bucket: the range begins or ends within it, or the bucket has not ended yet.
    pub(super) partial: Option<bool>,
}

/// A figure over time.
#[skip_serializing_none]
#[derive(Clone, Debug, Object, Serialize)]
#[oai(skip_serializing_if_is_none)]
pub(super) struct AnalyticsSeries {
    /// The name of the metric.
    pub(super) metric: String,
    /// With `group_by`: what it is about, as a word or an id. The smallest beyond 50 are in `other`.
    pub(super) group: Option<String>,
    /// A bucket without anything is 0 for what is counted, and has no point for what is measured.
    pub(super) points: Vec<AnalyticsPoint>,
}

/// Figures over time.
#[skip_serializing_none]
#[derive(Clone, Debug, Object, Serialize)]
#[oai(skip_serializing_if_is_none, example)]
pub(crate) struct AnalyticsReport {
    pub(super) range: AnalyticsTime,
    /// The `seq` of your last event that is in the figures. Of the platform: how many events of all tenants are. Requests and deliveries are in them a minute later at most.
    pub(super) as_of_seq: u64,
    /// The version of the server. Of the platform only.
    pub(super) version: Option<String>,
    /// Since when the server has been running. Of the platform only.
    pub(super) started_at: Option<Timestamp>,
    /// Each metric over the whole time.
    pub(super) totals: BTreeMap<String, AnalyticsTotal>,
    pub(super) series: Vec<AnalyticsSeries>,
}

impl AnalyticsReport {
    pub(super) fn new(question: &Question, answer: query::Answer) -> Self {
        let total = |total: query::Total| AnalyticsTotal {
            value: total.value.map(Number),
            previous: total.previous.map(Number),
            change_percent: total.change_percent.map(Number),
        };
        let point =
            |point: query::Point| AnalyticsPoint { t: point.at, v: Number(point.value), partial: point.partial.then_some(true) };
        let series = |line: query::Line| AnalyticsSeries {
            metric: line.metric.to_owned(),
            group: line.group,
            points: line.points.into_iter().map(point).collect(),
        };
        Self {
            range: AnalyticsTime {
                from: question.buckets.from(),
                to: question.buckets.to(),
                bucket: question.bucket.name().to_owned(),
                timezone: question.zone.name.clone(),
            },
            as_of_seq: answer.as_of_seq,
            version: None,
            started_at: None,
            totals: answer.totals.into_iter().map(|(name, of)| (name.to_owned(), total(of))).collect(),
            series: answer.lines.into_iter().map(series).collect(),
        }
    }
}
