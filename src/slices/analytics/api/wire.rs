//! Wire types of analytics queries and reports.

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
        service::QueryParams,
    },
    number::Number,
};

word_type! {
    Span, "AnalyticsRange", "`24h` is the current hour and the 23 hours before it. `7d`, `30d` and `90d` are today and the 6, 29 and 89 days before it. `12mo` begins one year ago, on the day after today's date. `mtd` begins on the first day of the month, `ytd` on January 1. All ranges use `timezone`.";
    Bucket, "AnalyticsBucket", "The length of a bucket. Weeks begin on Monday.";
    GroupBy, "AnalyticsGroupBy";
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Enum)]
#[oai(rename_all = "snake_case", rename = "AnalyticsCompare")]
pub(super) enum Compare {
    /// The period before the range, of the same length. For `mtd` and `ytd` it begins one month or one year earlier. For a range
    /// that begins at midnight, it begins as many days earlier as the range has days.
    PreviousPeriod,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Enum)]
#[oai(rename_all = "snake_case", rename = "AnalyticsFormat")]
pub(super) enum Format {
    Json,
    Csv,
    Ndjson,
}

/// Query parameters of an analytics report.
#[derive(Debug, Object)]
pub(super) struct AnalyticsQuery {
    /// The period to report, up to now. Defaults to `30d` if you pass neither `range` nor `from`. It does not depend on `bucket`.
    range: Option<Span>,
    /// Start of the period, instead of `range`. Rounded down to the quarter of an hour.
    from: Option<Timestamp>,
    /// End of the period; requires `from`. Rounded up to the quarter of an hour. Defaults to now.
    to: Option<Timestamp>,
    /// The length of time that one point covers. Defaults to a length that suits the period. A report has at most 1,000 points per
    /// series. Hours are available for 400 days, longer buckets for five years. The first and the last bucket are cut at the ends
    /// of the range, so `totals` do not depend on the bucket.
    bucket: Option<Bucket>,
    /// The IANA name of the time zone of the buckets. Defaults to `UTC`. A day on which clocks change has 23 or 25 hours. Days
    /// older than 400 days are UTC days.
    timezone: Option<Text<64>>,
    /// The names of the metrics to report. Defaults to all metrics, or to all that support `group_by`. A name such as `quota_*`
    /// selects every metric with that prefix.
    #[oai(validator(min_items = 1, max_items = 60))]
    metrics: Option<Vec<Text<64>>>,
    /// The property to group by. Each group becomes its own series. Not every metric supports every property.
    group_by: Option<GroupBy>,
    /// Adds the totals of an earlier period and the change since then. Absent: no comparison.
    compare: Option<Compare>,
    /// The format of the response; `csv` and `ndjson` have one row per point and no totals. Defaults to the `Accept` header, then
    /// to `json`.
    pub(super) format: Option<Format>,
}

impl AnalyticsQuery {
    pub(super) fn into_params(self) -> QueryParams {
        QueryParams {
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

/// The period that a report covers.
#[derive(Clone, Debug, Object, Serialize)]
pub(super) struct AnalyticsTime {
    /// Start of the range. Always a full quarter of an hour.
    pub(super) from: Timestamp,
    /// End of the range. For a range up to now, the end of the current quarter of an hour.
    pub(super) to: Timestamp,
    /// The length of time that one point covers: `hour`, `day`, `week` or `month`.
    pub(super) bucket: String,
    /// The IANA name of the time zone of the range and its buckets.
    pub(super) timezone: String,
}

/// The total of a metric over the whole range.
#[skip_serializing_none]
#[derive(Clone, Debug, Object, Serialize)]
#[oai(skip_serializing_if_is_none)]
pub(super) struct AnalyticsTotal {
    /// The value over the whole range. Absent if there was nothing to measure.
    pub(super) value: Option<Number>,
    /// The value over the earlier period. Present only with `compare`, and absent if there was nothing to measure.
    pub(super) previous: Option<Number>,
    /// The change from `previous` to `value`, in percent. Absent if `previous` is 0 or absent.
    pub(super) change_percent: Option<Number>,
}

#[skip_serializing_none]
#[derive(Clone, Debug, Object, Serialize)]
#[oai(skip_serializing_if_is_none)]
pub(super) struct AnalyticsPoint {
    /// Start of the bucket. For a first bucket that is cut, the start of the range.
    pub(super) t: Timestamp,
    /// The value of the metric in the bucket.
    pub(super) v: Number,
    /// `true` if the point covers only part of its bucket: the range begins or ends within the bucket, or the bucket has not ended
    /// yet. Absent otherwise.
    pub(super) partial: Option<bool>,
}

/// One metric over time.
#[skip_serializing_none]
#[derive(Clone, Debug, Object, Serialize)]
#[oai(skip_serializing_if_is_none)]
pub(super) struct AnalyticsSeries {
    /// The name of the metric.
    pub(super) metric: String,
    /// The group, as a word or an id. Present only with `group_by`. The 50 largest groups have their own series; the rest are in
    /// `other`.
    pub(super) group: Option<String>,
    /// One point per bucket. An empty bucket has the value 0 for a count, and no point for a percentile, share or sample.
    pub(super) points: Vec<AnalyticsPoint>,
}

/// Metrics over time.
#[skip_serializing_none]
#[derive(Clone, Debug, Object, Serialize)]
#[oai(skip_serializing_if_is_none, example)]
pub(crate) struct AnalyticsReport {
    /// The period that the report covers.
    pub(super) range: AnalyticsTime,
    /// The `seq` of the tenant's last event that the metrics include. In a platform report, the position in the log of all tenants.
    /// Requests and deliveries are included after at most one minute.
    pub(super) as_of_seq: u64,
    /// The version of the server. Present only in a platform report.
    pub(super) version: Option<String>,
    /// When the server started. Present only in a platform report.
    pub(super) started_at: Option<Timestamp>,
    /// The total of each metric over the whole range, by metric name.
    pub(super) totals: BTreeMap<String, AnalyticsTotal>,
    /// One entry per metric, or per metric and group with `group_by`.
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
