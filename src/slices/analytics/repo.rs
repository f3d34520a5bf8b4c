//! Stored roll-ups: one row per tenant, series and hour, and one row per completed day.
//!
//! **Invariant:** the values of a period are the sum of both tables. An hour moves into its day in one transaction, and a late
//! event creates a new row for its hour. So no reader needs to know which hours have already moved.

use std::{collections::BTreeMap, ops::Bound};

use serde::{Deserialize, Serialize};

use tenantd_base::id::TenantId;
use tenantd_store::{
    Direction, Flow, Key, KeyRange, Read, StoreError, Table, WriteTx, catalog,
    codec::{self, Record},
    portable::PortError,
};

use super::model::{Changes, Figure, Groups, Measure, QUARTERS_PER_DAY, RowKey, Series, add_cells, pack, unpack};

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct RollUpRecord {
    groups: Vec<GroupRecord>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct GroupRecord {
    group: String,
    #[serde(with = "codec::bytes")]
    cells: Vec<u8>,
}

impl Record for RollUpRecord {
    const VERSION: u8 = 1;
}

pub(super) static HOURS: Table<RowKey, RollUpRecord> = Table::new(catalog::ANALYTICS_HOURS, &[]);
pub(super) static DAYS: Table<RowKey, RollUpRecord> = Table::new(catalog::ANALYTICS_DAYS, &[]);

/// The maximum number of groups in an imported row, and the maximum length of a group name.
const MOST_GROUPS: usize = 20_000;
const LONGEST_GROUP: usize = 300;
/// The last hour of the year 9999, in hours since 1970. Day numbers are smaller.
const LAST_HOUR: u32 = 70_389_528;

/// Whether all quarters fit into one day.
fn in_day(cells: BTreeMap<u8, Measure>) -> bool {
    cells.into_keys().all(|quarter| u64::from(quarter) < QUARTERS_PER_DAY)
}

fn damaged(key: &RowKey) -> StoreError {
    StoreError::damaged("analytics", &key.to_bytes(), "the values cannot be decoded")
}

impl RollUpRecord {
    /// Whether the row contains this group.
    pub(super) fn has(&self, group: &str) -> bool {
        self.groups.iter().any(|row| row.group == group)
    }

    pub(super) fn open(&self, key: &RowKey) -> Result<Groups, StoreError> {
        let open = |row: &GroupRecord| Ok((row.group.clone(), unpack(&row.cells).ok_or_else(|| damaged(key))?));
        self.groups.iter().map(open).collect()
    }

    /// Refuses imported rows that cannot be decoded, or whose series or time is unknown. Queries over all tenants would read them.
    pub(super) fn check(&self, key: &RowKey) -> Result<(), PortError> {
        let is_known = Series::ALL.iter().any(|series| series.code() == key.1);
        let is_short = |row: &GroupRecord| row.group.len() <= LONGEST_GROUP && unpack(&row.cells).is_some_and(in_day);
        if is_known && key.2 <= LAST_HOUR && self.groups.len() <= MOST_GROUPS && self.groups.iter().all(is_short) {
            Ok(())
        } else {
            Err(PortError::wrong("the row does not contain valid values of a known series and time"))
        }
    }

    pub(super) fn close(groups: &Groups) -> Self {
        let close = |(group, cells): (&String, &BTreeMap<u8, Measure>)| GroupRecord { group: group.clone(), cells: pack(cells) };
        Self { groups: groups.iter().map(close).collect() }
    }
}

/// Adds values to the rows of their hours. Values of hours before `recent` go to the rows of their days.
pub(super) fn add(tx: &mut WriteTx, changes: &Changes, recent: u32) -> Result<(), StoreError> {
    let mut days: BTreeMap<(TenantId, Series, u32), Vec<&Groups>> = BTreeMap::new();
    for ((tenant, series, hour), added) in &changes.rows {
        if *hour < recent {
            days.entry((*tenant, *series, hour / 24)).or_default().push(added);
        } else {
            add_to_row(tx, &HOURS, (*tenant, *series, *hour), &[added])?;
        }
    }
    for (row, hours) in days {
        add_to_row(tx, &DAYS, row, &hours)?;
    }
    Ok(())
}

fn add_to_row(
    tx: &mut WriteTx,
    table: &Table<RowKey, RollUpRecord>,
    (tenant, series, time): (TenantId, Series, u32),
    added: &[&Groups],
) -> Result<(), StoreError> {
    let key = (tenant, series.code(), time);
    let mut groups = table.get(tx, &key)?.unwrap_or_default().open(&key)?;
    for (group, cells) in added.iter().copied().flatten() {
        add_cells(&mut groups, series.kind(), group, cells);
    }
    table.put(tx, &key, &RollUpRecord::close(&groups))
}

/// Receives the items of a walk: a group, the quarters of an hour in it (since 1970), and after each the ranges of its sketch.
pub(super) trait Visitor {
    fn group(&mut self, group: &str);
    fn cell(&mut self, quarter: u64, count: u64, total: u64);
    fn range(&mut self, quarter: u64, range: usize, count: u64);
}

/// Walks the values of a series from quarter `from` up to but excluding quarter `to`, days first.
pub(super) fn walk(
    tx: &impl Read,
    (tenant, series): (TenantId, Series),
    (from, to): (u64, u64),
    visitor: &mut impl Visitor,
) -> Result<(), StoreError> {
    let whole = |quarter: u64, quarters: u64| u32::try_from(quarter / quarters).unwrap_or(u32::MAX);
    for (table, quarters) in [(&DAYS, QUARTERS_PER_DAY), (&HOURS, 4)] {
        let range = rows(tenant, series, whole(from, quarters), whole(to.saturating_sub(1), quarters));
        table.scan(tx, &range, Direction::Forward, |key, record| {
            let midnight = u64::from(key.2) * quarters / QUARTERS_PER_DAY * QUARTERS_PER_DAY;
            for row in &record.groups {
                walk_group(row, midnight, (from, to), visitor).ok_or_else(|| damaged(&key))?;
            }
            Ok(Flow::Continue)
        })?;
    }
    Ok(())
}

fn walk_group(row: &GroupRecord, midnight: u64, (from, to): (u64, u64), visitor: &mut impl Visitor) -> Option<()> {
    visitor.group(&row.group);
    super::model::walk_cells(&row.cells, |quarter, figure| {
        let quarter = midnight + u64::from(quarter);
        if !(from..to).contains(&quarter) {
            return;
        }
        match figure {
            Figure::Cell { count, total } => visitor.cell(quarter, count, total),
            Figure::Range { range, count } => visitor.range(quarter, range, count),
        }
    })
}

fn rows(tenant: TenantId, series: Series, first: u32, last: u32) -> KeyRange {
    KeyRange {
        start: Bound::Included((tenant, series.code(), first).to_bytes()),
        end: Bound::Included((tenant, series.code(), last).to_bytes()),
    }
}

/// Returns the keys of hour rows before `end`, starting after the row `after`, at most `limit`.
pub(super) fn hours_before(tx: &impl Read, end: u32, after: Option<RowKey>, limit: usize) -> Result<Vec<RowKey>, StoreError> {
    let range = after.map_or(KeyRange::ALL, |key| KeyRange::ALL.after(&key.to_bytes(), Direction::Forward));
    let mut found = Vec::new();
    HOURS.scan(tx, &range, Direction::Forward, |key, _| {
        if key.2 < end {
            found.push(key);
        }
        Ok(if found.len() < limit { Flow::Continue } else { Flow::Stop })
    })?;
    Ok(found)
}

/// Moves hours into the rows of their days.
pub(super) fn fold(tx: &mut WriteTx, hours: &[RowKey]) -> Result<(), StoreError> {
    let mut days: BTreeMap<RowKey, Vec<RowKey>> = BTreeMap::new();
    for key in hours {
        days.entry((key.0, key.1, key.2 / 24)).or_default().push(*key);
    }
    for (day, hours) in days {
        let Some(series) = Series::ALL.iter().find(|series| series.code() == day.1) else { continue };
        let mut groups = DAYS.get(tx, &day)?.unwrap_or_default().open(&day)?;
        for key in hours {
            let Some(hour) = HOURS.remove(tx, &key)? else { continue };
            for (group, cells) in hour.open(&key)? {
                add_cells(&mut groups, series.kind(), &group, &cells);
            }
        }
        DAYS.put(tx, &day, &RollUpRecord::close(&groups))?;
    }
    Ok(())
}

/// The quarter that holds the value of a whole day once its quarters are merged. It is noon in UTC, which falls on the same date in
/// nearly every time zone.
const NOON: u8 = 48;

fn is_flat(groups: &Groups) -> bool {
    groups.values().all(|cells| cells.keys().all(|quarter| *quarter == NOON))
}

/// Whether a series has days to remove or to flatten.
pub(super) fn is_due(tx: &impl Read, (tenant, series): (TenantId, Series), forget: u32, flatten: u32) -> Result<bool, StoreError> {
    if !DAYS.list(tx, &rows(tenant, series, 0, forget), 1)?.is_empty() {
        return Ok(true);
    }
    let mut due = false;
    DAYS.scan(tx, &rows(tenant, series, 0, flatten), Direction::Backward, |key, record| {
        due = !is_flat(&record.open(&key)?);
        Ok(Flow::Stop)
    })?;
    Ok(due)
}

/// Merges each day up to `last` into one value per group, the newest day first, until it finds a day that is already flat. Returns
/// the number of changed rows, at most `limit`.
pub(super) fn flatten(
    tx: &mut WriteTx,
    (tenant, series): (TenantId, Series),
    last: u32,
    limit: usize,
) -> Result<usize, StoreError> {
    let mut changed = Vec::new();
    DAYS.scan(tx, &rows(tenant, series, 0, last), Direction::Backward, |key, record| {
        let mut groups = record.open(&key)?;
        if is_flat(&groups) {
            return Ok(Flow::Stop);
        }
        for cells in groups.values_mut() {
            let newest = cells.values().next_back().cloned().unwrap_or_default();
            let mut sum = Measure::default();
            for measure in cells.values() {
                sum.add(measure);
            }
            let gauge = series.kind() == super::model::Kind::Gauge;
            *cells = BTreeMap::from([(NOON, if gauge { newest } else { sum })]);
        }
        changed.push((key, RollUpRecord::close(&groups)));
        Ok(if changed.len() < limit { Flow::Continue } else { Flow::Stop })
    })?;
    for (key, record) in &changed {
        DAYS.put(tx, key, record)?;
    }
    Ok(changed.len())
}

/// Removes the days of a series up to `last`. Returns the number of removed days, at most `limit`.
pub(super) fn forget(tx: &mut WriteTx, (tenant, series): (TenantId, Series), last: u32, limit: usize) -> Result<usize, StoreError> {
    let found = DAYS.list(tx, &rows(tenant, series, 0, last), limit)?;
    for (key, _) in &found {
        DAYS.remove(tx, key)?;
    }
    Ok(found.len())
}

/// Returns the next tenant after `after` that has days.
pub(super) fn tenant_after(tx: &impl Read, after: Option<TenantId>) -> Result<Option<TenantId>, StoreError> {
    let last = after.map(|tenant| (tenant, u8::MAX, u32::MAX));
    Ok(DAYS.list_after(tx, last.as_ref(), 1)?.first().map(|(key, _)| key.0))
}

#[cfg(test)]
mod tests {
    use tenantd_store::codec::assert_golden;

    use super::*;

    #[test]
    fn the_stored_form_matches_the_golden_file() {
        let mut spread = Measure::spread(1_200);
        spread.add(&Measure::spread(90));
        let groups = Groups::from([
            (String::new(), BTreeMap::from([(0, Measure::counted(7)), (95, spread)])),
            ("high".to_owned(), BTreeMap::from([(48, Measure::gauge(300))])),
        ]);
        assert_golden("analytics_roll_up", &RollUpRecord::close(&groups));
    }
}
