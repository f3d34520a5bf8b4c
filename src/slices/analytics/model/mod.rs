//! What is counted, by which quarter of an hour, and what figures are made of it. Types and rules only: no store, no clock.

mod bucket;
mod cells;
mod changes;
mod metric;
mod series;

pub(super) use bucket::{Bucket, Buckets, Span, Zone};
pub(super) use cells::{Figure, Measure, pack, unpack, walk as walk_cells};
pub(super) use changes::{Changes, Groups, INSTALLATION, RowKey, add_cells, quarter_of};
pub(super) use metric::{Formula, GroupBy, METRICS, Metric, Part, Unit};
pub(super) use series::Kind;
pub use series::Series;

/// Quarters of an hour in a day.
pub(super) const QUARTERS_PER_DAY: u64 = 96;
pub(super) const QUARTER_MILLIS: i64 = 15 * 60 * 1000;
/// The group of what has found no place of its own.
pub const OTHER: &str = "other";
