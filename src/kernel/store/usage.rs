//! The usage of each tenant: the events of the day, its records, and their bytes.
//!
//! Tables note what a write adds and removes. After the write has run, the writer adds that to the tenant's row. A write that
//! would exceed a quota is refused there, whichever use case it comes from. **Invariant:** the row changes in the same
//! transaction as the data it counts, so it is exact. `tenantd check` counts again and compares. Index entries and tenantd's own
//! data are not counted.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use tenantd_base::{
    clock::Timestamp,
    id::TenantId,
    quotas::{Allowance, Quota, QuotaExceeded, Quotas},
};

use super::{
    catalog::{self, TableName},
    check::{CheckReport, Checked},
    codec::Record,
    engine::{Direction, Flow, KeyRange, RawTable},
    erasure::{TenantRow, TenantRows},
    error::StoreError,
    key::Key,
    table::Table,
    transaction::{Read, ReadTx, WriteTx},
};

const DAY_SECONDS: i64 = 86_400;

/// How the rows of a table count for their tenants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counts {
    Nothing,
    /// The bytes of its rows.
    Bytes,
    /// The number and the bytes of its rows.
    Records,
}

/// The usage of a tenant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// The day of the last event, in days since 1970.
    day: u32,
    events: u64,
    pub records: u64,
    pub stored_bytes: u64,
}

impl Record for Usage {
    const VERSION: u8 = 1;
}

static USAGE: Table<TenantId, Usage> = Table::new(catalog::TENANT_USAGE, &[]);

/// The row of a tenant that is being erased. Its rows are removed without being counted, and late writes are not counted either.
const NOT_COUNTED: Usage = Usage { day: u32::MAX, events: 0, records: 0, stored_bytes: 0 };

/// What a tenant has in one segment of a table. It is stored because a segment is dropped without reading its rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct SegmentUsage {
    records: u64,
    bytes: u64,
}

impl Record for SegmentUsage {
    const VERSION: u8 = 1;
}

/// Table, segment and tenant.
type SegmentKey = (u8, u64, TenantId);

static SEGMENTS: Table<SegmentKey, SegmentUsage> = Table::new(catalog::SEGMENT_USAGE, &[]);

/// The limits that the operator has set for a tenant.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct QuotaOverrides(Vec<(Quota, u64)>);

impl Record for QuotaOverrides {
    const VERSION: u8 = 1;
}

static OVERRIDES: Table<TenantId, QuotaOverrides> = Table::new(catalog::TENANT_QUOTAS, &[]);

/// What one write adds to the usage of a tenant.
#[derive(Clone, Debug, Default)]
pub(super) struct Growth {
    day: u32,
    events: u64,
    records: i64,
    bytes: i64,
    segments: BTreeMap<(u8, u64), (i64, i64)>,
    allowance: Allowance,
}

fn day_of(at: Timestamp) -> u32 {
    u32::try_from(at.as_seconds().div_euclid(DAY_SECONDS)).unwrap_or_default()
}

impl Usage {
    /// The number of events on the day of `now`.
    pub fn events_today(&self, now: Timestamp) -> u64 {
        if self.day == day_of(now) { self.events } else { 0 }
    }

    fn after(self, growth: &Growth) -> Self {
        // Late events belong to a day that is over.
        let (day, events) = match growth.day {
            day if day > self.day => (day, growth.events),
            day if day == self.day => (day, self.events + growth.events),
            _ => (self.day, self.events),
        };
        Self {
            day,
            events,
            records: self.records.saturating_add_signed(growth.records),
            stored_bytes: self.stored_bytes.saturating_add_signed(growth.bytes),
        }
    }

    /// The first of the quotas in `among` that a growth from `before` exceeds, if any.
    fn exceeds(&self, before: &Self, limits: &Quotas, allowance: Allowance, among: &[Quota]) -> Option<QuotaExceeded> {
        let events_before = if self.day == before.day { before.events } else { 0 };
        [
            (Quota::EventsPerDay, events_before, self.events),
            (Quota::Records, before.records, self.records),
            (Quota::StoredBytes, before.stored_bytes, self.stored_bytes),
        ]
        .into_iter()
        .filter(|(quota, ..)| among.contains(quota))
        .find_map(|(quota, before, after)| {
            let most = allowance.of(limits.limit(quota))?;
            (after > before && after > most).then_some(QuotaExceeded { quota, limit: limits.limit(quota), used: before })
        })
    }
}

/// Notes that the write appends an event of the tenant. If a write appends several, the strictest allowance applies.
pub fn note_event(tx: &mut WriteTx, tenant: TenantId, at: Timestamp, allowance: Allowance) {
    let growth = tx.growth(tenant);
    growth.day = growth.day.max(day_of(at));
    growth.events += 1;
    growth.allowance = growth.allowance.min(allowance);
}

/// Notes a change of a tenant's rows: how many rows and how many bytes are added or removed.
pub(super) fn note_rows(tx: &mut WriteTx, tenant: TenantId, records: i64, bytes: i64) {
    let growth = tx.growth(tenant);
    growth.records += records;
    growth.bytes += bytes;
}

/// Does the same for a segment of a table.
pub(super) fn note_segment(tx: &mut WriteTx, table: RawTable, tenant: TenantId, records: i64, bytes: i64) {
    let segment = (table.table.code(), table.segment.unwrap_or_default());
    note_rows(tx, tenant, records, bytes);
    let (sum_records, sum_bytes) = tx.growth(tenant).segments.entry(segment).or_default();
    *sum_records += records;
    *sum_bytes += bytes;
}

/// Notes that a segment is dropped with all its rows.
pub(super) fn note_dropped(tx: &mut WriteTx, table: RawTable) -> Result<(), StoreError> {
    let segment = (table.table.code(), table.segment.unwrap_or_default());
    for (key, gone) in SEGMENTS.list(tx, &KeyRange::prefix(&segment.to_bytes()), usize::MAX)? {
        SEGMENTS.remove(tx, &key)?;
        note_rows(tx, key.2, -signed(gone.records), -signed(gone.bytes));
    }
    Ok(())
}

fn signed(size: u64) -> i64 {
    i64::try_from(size).unwrap_or(i64::MAX)
}

pub(super) fn size(bytes: usize) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

/// Adds the growth of the write that has just run, unless it exceeds a quota.
pub(super) fn settle(tx: &mut WriteTx) -> Result<(), StoreError> {
    for (tenant, growth) in tx.take_growths() {
        let before = usage(tx, tenant)?;
        let after = if before == NOT_COUNTED { before } else { before.after(&growth) };
        if growth.allowance != Allowance::Unlimited
            && let Some(exceeded) = after.exceeds(&before, &limits_in(tx, tenant)?, growth.allowance, &Quota::COUNTED)
        {
            count_refusal(exceeded.quota);
            return Err(StoreError::Quota(exceeded));
        }
        if after != before {
            USAGE.put(tx, &tenant, &after)?;
        }
        for ((table, segment), (records, bytes)) in growth.segments {
            let key = (table, segment, tenant);
            let before = SEGMENTS.get(tx, &key)?.unwrap_or_default();
            let after = SegmentUsage {
                records: before.records.saturating_add_signed(records),
                bytes: before.bytes.saturating_add_signed(bytes),
            };
            SEGMENTS.put(tx, &key, &after)?;
        }
    }
    Ok(())
}

/// Starts the erasure of a tenant. Until [`finish_erasure`] its usage is not counted.
pub(super) fn begin_erasure(tx: &mut WriteTx, tenant: TenantId) -> Result<(), StoreError> {
    if usage(tx, tenant)? == NOT_COUNTED { Ok(()) } else { USAGE.put(tx, &tenant, &NOT_COUNTED) }
}

/// Removes the row of a tenant that has no other data. Whatever it stores later is counted from zero.
pub(super) fn finish_erasure(tx: &mut WriteTx, tenant: TenantId) -> Result<(), StoreError> {
    USAGE.remove(tx, &tenant).map(drop)
}

/// Adds the growth of part of a write, unless it exceeds the allowance of that part. Other parts are checked separately.
pub fn settle_part(tx: &mut WriteTx, tenant: TenantId, allowance: Allowance) -> Result<(), StoreError> {
    if tx.pending_growth(tenant).is_some() {
        let growth = tx.growth(tenant);
        growth.allowance = growth.allowance.min(allowance);
    }
    settle(tx)
}

fn count_refusal(quota: Quota) {
    metrics::counter!("tenantd_quota_refusals_total", "quota" => quota.name()).increment(1);
}

/// Returns the current usage of a tenant.
pub fn usage(tx: &impl Read, tenant: TenantId) -> Result<Usage, StoreError> {
    Ok(USAGE.get(tx, &tenant)?.unwrap_or_default())
}

/// Returns the limits of a tenant: those of the installation, with the operator's overrides.
pub fn limits(tx: &impl Read, tenant: TenantId, defaults: &Quotas) -> Result<Quotas, StoreError> {
    Ok(OVERRIDES.get(tx, &tenant)?.map_or(*defaults, |own| defaults.with(&own.0)))
}

/// Returns the limits of a tenant within a write.
pub fn limits_in(tx: &WriteTx, tenant: TenantId) -> Result<Quotas, StoreError> {
    limits(tx, tenant, &tx.quotas())
}

/// Returns the limits that the operator has set for a tenant.
pub fn overrides(tx: &impl Read, tenant: TenantId) -> Result<Vec<(Quota, u64)>, StoreError> {
    Ok(OVERRIDES.get(tx, &tenant)?.unwrap_or_default().0)
}

pub fn put_overrides(tx: &mut WriteTx, tenant: TenantId, own: Vec<(Quota, u64)>) -> Result<(), StoreError> {
    if own.is_empty() { OVERRIDES.remove(tx, &tenant).map(drop) } else { OVERRIDES.put(tx, &tenant, &QuotaOverrides(own)) }
}

/// Returns the first quota that has no space for one more record or event. For work in the tenant's name without a request.
pub fn used_up(tx: &WriteTx, tenant: TenantId, now: Timestamp) -> Result<Option<QuotaExceeded>, StoreError> {
    let (before, limits) = (usage(tx, tenant)?, limits_in(tx, tenant)?);
    // The row does not include what the write has added so far.
    let used = tx.pending_growth(tenant).map_or(before, |growth| before.after(growth));
    let full =
        [(Quota::EventsPerDay, used.events_today(now)), (Quota::Records, used.records), (Quota::StoredBytes, used.stored_bytes)];
    let found = full.into_iter().find(|(quota, used)| *used >= limits.limit(*quota));
    Ok(found.map(|(quota, used)| {
        count_refusal(quota);
        QuotaExceeded { quota, limit: limits.limit(quota), used }
    }))
}

/// Returns the first of the quotas in `among` that the write so far exceeds. For work in a tenant's name without a request. The
/// caller rolls the write back.
pub fn exceeded(
    tx: &WriteTx,
    tenant: TenantId,
    allowance: Allowance,
    among: &[Quota],
) -> Result<Option<QuotaExceeded>, StoreError> {
    let Some(growth) = tx.pending_growth(tenant) else { return Ok(None) };
    let before = usage(tx, tenant)?;
    let found = before.after(growth).exceeds(&before, &limits_in(tx, tenant)?, allowance, among);
    if let Some(exceeded) = &found {
        count_refusal(exceeded.quota);
    }
    Ok(found)
}

/// The tables of this module.
pub fn tables() -> Vec<&'static dyn Checked> {
    vec![&USAGE, &SEGMENTS, &OVERRIDES, &SumsCheck]
}

/// Makes `tenantd check` compare the sums with the rows of all tables that count.
struct SumsCheck;

impl Checked for SumsCheck {
    fn check(&self, _tx: &ReadTx, _report: &mut CheckReport) -> Result<(), StoreError> {
        Ok(())
    }

    fn has_sums(&self) -> bool {
        true
    }
}

/// Removes a tenant from the counts of segments, whose keys do not start with a tenant.
#[derive(Debug)]
pub struct TenantSegments;

impl TenantRows for TenantSegments {
    fn tables(&self) -> Vec<TableName> {
        vec![SEGMENTS.name()]
    }

    fn find(&self, tx: &ReadTx, tenant: TenantId, most: usize) -> Result<Vec<TenantRow>, StoreError> {
        let mut rows = Vec::new();
        SEGMENTS.scan(tx, &KeyRange::ALL, Direction::Forward, |key, _| {
            if key.2 == tenant {
                rows.push(TenantRow { segment: None, key: key.to_bytes() });
            }
            Ok(if rows.len() < most { Flow::Continue } else { Flow::Stop })
        })?;
        Ok(rows)
    }

    fn remove(&self, tx: &mut WriteTx, _tenant: TenantId, rows: &[TenantRow]) -> Result<(), StoreError> {
        for row in rows {
            let key = SegmentKey::from_bytes(&row.key);
            let key = key.ok_or_else(|| StoreError::damaged(SEGMENTS.name().name(), &row.key, "the key cannot be read"))?;
            SEGMENTS.remove(tx, &key)?;
        }
        Ok(())
    }
}

/// Finds the tenant of a row by its key and value. `None` for a row that does not count.
pub type TenantOf = fn(&[u8], &[u8]) -> Option<TenantId>;

/// The tenant whose id a key starts with.
pub fn tenant_of_key(key: &[u8], _value: &[u8]) -> Option<TenantId> {
    key.first_chunk().map(|id| TenantId::from_bytes(*id))
}

/// A segmented table whose rows count for their tenants.
#[derive(Clone, Copy, Debug)]
pub struct CountedSegments {
    pub table: TableName,
    pub counts: Counts,
    pub tenant_of: TenantOf,
}

impl Checked for CountedSegments {
    /// Its rows are checked like those of every segment.
    fn check(&self, _tx: &ReadTx, _report: &mut CheckReport) -> Result<(), StoreError> {
        Ok(())
    }

    fn counted_segments(&self) -> Option<CountedSegments> {
        Some(*self)
    }
}

/// The sums over all rows, by tenant and by segment.
#[derive(Debug, Default)]
struct Sums {
    tenants: BTreeMap<TenantId, (u64, u64)>,
    segments: BTreeMap<SegmentKey, SegmentUsage>,
}

impl Sums {
    fn of(
        tx: &impl Read,
        segments_of: impl Fn(TableName) -> Result<Vec<u64>, StoreError>,
        tables: &[&'static dyn Checked],
    ) -> Result<Self, StoreError> {
        let mut sums = Self::default();
        for (table, counts) in tables.iter().filter_map(|table| table.counted()) {
            tx.raw_scan(table.into(), &KeyRange::ALL, Direction::Forward, &mut |key, value| {
                if let Some(tenant) = tenant_of_key(key, value) {
                    sums.add(tenant, counts, key, value);
                }
                Ok(Flow::Continue)
            })?;
        }
        for CountedSegments { table, counts, tenant_of } in tables.iter().filter_map(|table| table.counted_segments()) {
            for segment in segments_of(table)? {
                let raw = RawTable { table, segment: Some(segment) };
                tx.raw_scan(raw, &KeyRange::ALL, Direction::Forward, &mut |key, value| {
                    if let Some(tenant) = tenant_of(key, value) {
                        let records = sums.add(tenant, counts, key, value);
                        let part = sums.segments.entry((table.code(), segment, tenant)).or_default();
                        part.records += records;
                        part.bytes += (key.len() + value.len()) as u64;
                    }
                    Ok(Flow::Continue)
                })?;
            }
        }
        Ok(sums)
    }

    fn add(&mut self, tenant: TenantId, counts: Counts, key: &[u8], value: &[u8]) -> u64 {
        let records = u64::from(counts == Counts::Records);
        let sum = self.tenants.entry(tenant).or_default();
        sum.0 += records;
        sum.1 += (key.len() + value.len()) as u64;
        records
    }
}

/// Counts the rows of tenants that were stored before usage was counted. One transaction reads everything once.
pub fn recount(tx: &mut WriteTx, tables: &[&'static dyn Checked]) -> Result<(), StoreError> {
    let sums = Sums::of(tx, |table| tx.stored_segments(table), tables)?;
    for (tenant, (records, stored_bytes)) in sums.tenants {
        USAGE.put(tx, &tenant, &Usage { records, stored_bytes, ..Usage::default() })?;
    }
    for (key, part) in sums.segments {
        SEGMENTS.put(tx, &key, &part)?;
    }
    Ok(())
}

/// Compares the stored usage with the rows. The rows of tenants that are being erased are skipped. A store of an old version has
/// no usage rows before it is upgraded.
pub(super) fn check(tx: &ReadTx, tables: &[&'static dyn Checked], report: &mut CheckReport) -> Result<(), StoreError> {
    let sums = Sums::of(tx, |table| tx.segments(table), tables)?;
    USAGE.scan(tx, &KeyRange::ALL, Direction::Forward, |tenant, usage| {
        if usage == NOT_COUNTED {
            return Ok(Flow::Continue);
        }
        let (records, bytes) = sums.tenants.get(&tenant).copied().unwrap_or_default();
        let Usage { records: noted_records, stored_bytes: noted_bytes, .. } = usage;
        if (records, bytes) != (noted_records, noted_bytes) {
            report.problem(format!(
                "{tenant} has {records} records and {bytes} bytes, but its usage says {noted_records} and {noted_bytes}"
            ));
        }
        Ok(Flow::Continue)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::assert_golden;

    #[test]
    fn the_stored_forms_match_the_golden_files() {
        assert_golden("tenant_usage", &Usage { day: 20_500, events: 7, records: 300, stored_bytes: 70_000 });
        assert_golden("segment_usage", &SegmentUsage { records: 3, bytes: 900 });
        assert_golden("tenant_quotas", &QuotaOverrides(vec![(Quota::EventsPerDay, 5000), (Quota::Streams, 2)]));
    }

    #[test]
    fn only_growth_beyond_a_limit_is_refused() {
        let limits = Quotas { events_per_day: 10, records: 5, stored_bytes: 1000, ..Quotas::UNLIMITED };
        let before = Usage { day: 2, events: 9, records: 5, stored_bytes: 2000 };
        let grown = |growth: Growth| {
            let exceeded = before.after(&growth).exceeds(&before, &limits, Allowance::Quota, &Quota::COUNTED);
            exceeded.map(|exceeded| exceeded.quota)
        };
        assert_eq!(grown(Growth { day: 2, events: 1, ..Growth::default() }), None);
        assert_eq!(grown(Growth { day: 2, events: 2, ..Growth::default() }), Some(Quota::EventsPerDay));
        assert_eq!(grown(Growth { day: 3, events: 10, ..Growth::default() }), None, "a new day");
        assert_eq!(grown(Growth { day: 1, events: 50, ..Growth::default() }), None, "history");
        assert_eq!(grown(Growth { records: 1, ..Growth::default() }), Some(Quota::Records));
        assert_eq!(grown(Growth { bytes: 1, ..Growth::default() }), Some(Quota::StoredBytes));
        assert_eq!(grown(Growth { records: -1, bytes: -500, ..Growth::default() }), None, "less, although still above the limit");
        let grown = before.after(&Growth { records: 1, ..Growth::default() });
        assert_eq!(grown.exceeds(&before, &limits, Allowance::Quota, &[Quota::StoredBytes]), None, "records are not checked");
    }
}
