//! The report as the API answers it.

use std::collections::BTreeMap;

use serde::Deserialize;

use tenantd_base::clock::Timestamp;

#[derive(Debug, Deserialize)]
pub(super) struct Report {
    pub(super) range: Range,
    pub(super) totals: BTreeMap<String, Total>,
    pub(super) series: Vec<Series>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Range {
    pub(super) from: Timestamp,
    /// The first moment after the range.
    pub(super) to: Timestamp,
    pub(super) bucket: String,
    pub(super) timezone: String,
}

/// A metric over the whole range. What could not be measured is absent.
#[derive(Debug, Deserialize)]
pub(super) struct Total {
    pub(super) value: Option<f64>,
    pub(super) previous: Option<f64>,
    pub(super) change_percent: Option<f64>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Series {
    pub(super) metric: String,
    pub(super) group: Option<String>,
    pub(super) points: Vec<Point>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Point {
    pub(super) t: Timestamp,
    pub(super) v: f64,
    /// Whether the point covers only a part of its bucket.
    #[serde(default)]
    pub(super) partial: bool,
}

impl Report {
    /// The metrics that have a series, in the order of the report.
    pub(super) fn metrics(&self) -> Vec<&str> {
        let mut names: Vec<&str> = self.series.iter().map(|series| series.metric.as_str()).collect();
        names.dedup();
        names
    }
}
