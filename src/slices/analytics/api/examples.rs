//! The examples of the published document.

use std::collections::BTreeMap;

use poem_openapi::types::Example;

use tenantd_base::clock::Timestamp;

use super::wire::{AnalyticsPoint, AnalyticsReport, AnalyticsSeries, AnalyticsTime, AnalyticsTotal};

impl Example for AnalyticsReport {
    fn example() -> Self {
        let day = |day: i64| Timestamp::from_millis(1_767_222_000_000 + day * 86_400_000);
        let point = |at: i64, v: f64, partial: Option<bool>| AnalyticsPoint { t: day(at), v, partial };
        let total = AnalyticsTotal { value: Some(71.0), previous: Some(64.0), change_percent: Some(10.938) };
        Self {
            range: AnalyticsTime { from: day(0), to: day(2), bucket: "day".to_owned(), timezone: "Europe/Berlin".to_owned() },
            as_of_seq: 48_213,
            version: None,
            started_at: None,
            totals: BTreeMap::from([("tickets_created".to_owned(), total)]),
            series: vec![AnalyticsSeries {
                metric: "tickets_created".to_owned(),
                group: None,
                points: vec![point(0, 42.0, None), point(1, 29.0, Some(true))],
            }],
        }
    }
}
