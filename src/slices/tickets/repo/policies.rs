//! The stored service levels of tenants.

use jiff::civil::Date;
use serde::{Deserialize, Serialize};

use tenantd_base::{clock::Timestamp, id::TenantId};
use tenantd_store::{Read, StoreError, Table, WriteTx, catalog, codec::Record};

use crate::sla::{Hours, SlaPolicy, Target};

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct PolicyRecord {
    time_zone: String,
    week: [Vec<Hours>; 7],
    /// Year, month, day.
    holidays: Vec<(i16, i8, i8)>,
    /// First response, resolution, round the clock; the most urgent priority first.
    targets: [(u32, u32, bool); 4],
    updated_at: Timestamp,
    version: u64,
}

impl Record for PolicyRecord {
    const VERSION: u8 = 1;
}

pub(crate) static POLICIES: Table<TenantId, PolicyRecord> = Table::new(catalog::SLA_POLICIES, &[]);

/// The tenant's own service levels, if it has replaced the default ones.
pub(crate) fn policy(tx: &impl Read, tenant: TenantId) -> Result<Option<SlaPolicy>, StoreError> {
    Ok(POLICIES.get(tx, &tenant)?.map(|record| to_model(&record)))
}

pub(super) fn to_model(record: &PolicyRecord) -> SlaPolicy {
    SlaPolicy {
        time_zone: record.time_zone.clone(),
        week: record.week.clone(),
        holidays: record.holidays.iter().filter_map(|(year, month, day)| Date::new(*year, *month, *day).ok()).collect(),
        targets: record.targets.map(|(first_response_minutes, resolution_minutes, round_the_clock)| Target {
            first_response_minutes,
            resolution_minutes,
            round_the_clock,
        }),
        updated_at: Some(record.updated_at),
        version: record.version,
    }
}

pub(crate) fn put_policy(tx: &mut WriteTx, tenant: TenantId, policy: &SlaPolicy, now: Timestamp) -> Result<(), StoreError> {
    POLICIES.put(tx, &tenant, &to_record(policy, now))
}

fn to_record(policy: &SlaPolicy, updated_at: Timestamp) -> PolicyRecord {
    PolicyRecord {
        time_zone: policy.time_zone.clone(),
        week: policy.week.clone(),
        holidays: policy.holidays.iter().map(|date| (date.year(), date.month(), date.day())).collect(),
        targets: policy.targets.map(|target| (target.first_response_minutes, target.resolution_minutes, target.round_the_clock)),
        updated_at,
        version: policy.version,
    }
}

#[cfg(test)]
mod tests {
    use tenantd_store::codec::assert_golden;

    use super::*;

    #[test]
    fn the_stored_form_is_unchanged() {
        let mut policy = SlaPolicy::standard("Europe/Berlin");
        policy.holidays.insert(jiff::civil::date(2026, 12, 25));
        policy.version = 3;
        assert_golden("sla_policy", &to_record(&policy, Timestamp::from_millis(1_767_225_600_000)));
    }
}
