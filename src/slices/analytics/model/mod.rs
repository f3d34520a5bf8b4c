//! The model of metrics: stored series, buckets of time, and formulas. Types and rules only: no store, no clock.

mod bucket;
mod cells;
mod changes;
mod metric;
mod series;

pub(super) use bucket::{Bucket, Buckets, Span, Zone};
pub(super) use cells::{Figure, Measure, pack, unpack, walk as walk_cells};
pub(super) use changes::{Changes, Groups, INSTALLATION, RowKey, add_cells, quarter_of};
pub(super) use metric::{Formula, GroupBy, METRICS, Metric, Part};
pub(super) use series::Kind;
pub use series::Series;

/// Quarters of an hour in a day.
pub(super) const QUARTERS_PER_DAY: u64 = 96;
pub(super) const QUARTER_MILLIS: i64 = 15 * 60 * 1000;
/// The group for everything that does not get a group of its own.
pub const OTHER: &str = "other";
