//! Stored health history: one row per day with the minutes of each component, and one row per incident.

use std::ops::Bound;

use serde::{Deserialize, Serialize};

use tenantd_base::clock::Timestamp;
use tenantd_store::{Direction, Flow, Key, KeyRange, Read, StoreError, Table, WriteTx, catalog, codec::Record};

const DAY_MILLIS: i64 = 86_400_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct PartRecord {
    /// The position of the component in `PartName`.
    pub(super) part: u8,
    pub(super) operational: u32,
    pub(super) degraded: u32,
    pub(super) down: u32,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct DayRecord {
    /// When the components were last checked.
    pub(super) last_at: Timestamp,
    pub(super) parts: Vec<PartRecord>,
}

impl Record for DayRecord {
    const VERSION: u8 = 1;
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct IncidentRecord {
    pub(super) part: u8,
    pub(super) down: bool,
    pub(super) opened_at: Timestamp,
    pub(super) closed_at: Option<Timestamp>,
    pub(super) detail: String,
}

impl Record for IncidentRecord {
    const VERSION: u8 = 1;
}

/// When the incident began, and its component.
pub(super) type IncidentKey = (Timestamp, u8);

pub(crate) static DAYS: Table<u32, DayRecord> = Table::new(catalog::STATUS_DAYS, &[]);
pub(crate) static INCIDENTS: Table<IncidentKey, IncidentRecord> = Table::new(catalog::STATUS_INCIDENTS, &[]);

pub(super) fn day_of(at: Timestamp) -> u32 {
    u32::try_from(at.as_millis().div_euclid(DAY_MILLIS)).unwrap_or_default()
}

pub(super) fn start_of(day: u32) -> Timestamp {
    Timestamp::from_millis(i64::from(day) * DAY_MILLIS)
}

pub(super) fn days_since(tx: &impl Read, first: u32) -> Result<Vec<(u32, DayRecord)>, StoreError> {
    let range = KeyRange { start: Bound::Included(first.to_bytes()), end: Bound::Unbounded };
    DAYS.list(tx, &range, usize::MAX)
}

/// Returns when the components were last checked, before or after a restart.
pub(super) fn last_check_at(tx: &impl Read) -> Result<Option<Timestamp>, StoreError> {
    let mut last = None;
    DAYS.scan(tx, &KeyRange::ALL, Direction::Backward, |_, day| {
        last = Some(day.last_at);
        Ok(Flow::Stop)
    })?;
    Ok(last)
}

pub(super) fn newest_incidents(tx: &impl Read, limit: usize) -> Result<Vec<IncidentRecord>, StoreError> {
    let mut found = Vec::new();
    INCIDENTS.scan(tx, &KeyRange::ALL, Direction::Backward, |_, incident| {
        found.push(incident);
        Ok(if found.len() < limit { Flow::Continue } else { Flow::Stop })
    })?;
    Ok(found)
}

/// The minutes of a component on one day.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Minutes {
    pub(super) operational: u32,
    pub(super) degraded: u32,
    pub(super) down: u32,
}

pub(super) fn add_minutes(tx: &mut WriteTx, day: u32, at: Timestamp, added: &[(u8, Minutes)]) -> Result<(), StoreError> {
    let mut record = DAYS.get(tx, &day)?.unwrap_or(DayRecord { last_at: at, parts: Vec::new() });
    record.last_at = record.last_at.max(at);
    for (part, minutes) in added {
        if !record.parts.iter().any(|known| known.part == *part) {
            record.parts.push(PartRecord { part: *part, operational: 0, degraded: 0, down: 0 });
        }
        for known in record.parts.iter_mut().filter(|known| known.part == *part) {
            known.operational += minutes.operational;
            known.degraded += minutes.degraded;
            known.down += minutes.down;
        }
    }
    DAYS.put(tx, &day, &record)
}

pub(super) fn put_incident(tx: &mut WriteTx, incident: &IncidentRecord) -> Result<(), StoreError> {
    INCIDENTS.put(tx, &(incident.opened_at, incident.part), incident)
}

/// Removes days and incidents before the day `before`, at most `limit` rows of each.
pub(super) fn forget(tx: &mut WriteTx, before: u32, limit: usize) -> Result<(), StoreError> {
    for (day, _) in DAYS.list(tx, &KeyRange::before(before.to_bytes()), limit)? {
        DAYS.remove(tx, &day)?;
    }
    for (key, _) in INCIDENTS.list(tx, &KeyRange::before((start_of(before), 0_u8).to_bytes()), limit)? {
        INCIDENTS.remove(tx, &key)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use tenantd_store::codec::assert_golden;

    use super::*;

    #[test]
    fn the_stored_forms_match_the_golden_files() {
        let at = Timestamp::from_millis(1_767_225_600_000);
        let part = PartRecord { part: 2, operational: 1400, degraded: 39, down: 1 };
        assert_golden("status_day", &DayRecord { last_at: at, parts: vec![part] });
        let detail = "a delivery has been due for 400 seconds".to_owned();
        let incident = IncidentRecord { part: 2, down: false, opened_at: at, closed_at: Some(at), detail };
        assert_golden("status_incident", &incident);
    }
}
