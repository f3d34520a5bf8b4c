//! Lists how a deleted tenant is erased from every table of the catalog.
//!
//! **Invariant:** for each table, either one of [`tenant_rows`] erases the rows of a tenant, or [`WITHOUT_TENANTS`] gives the reason why
//! it has no tenant data. The test below fails for a table that is missing here.

use tenantd_analytics::Analytics;
use tenantd_auth::Auth;
use tenantd_backup::Backups;
use tenantd_cloud::Clouds;
use tenantd_http::idempotency::TenantAnswers;
use tenantd_platform::Platform;
use tenantd_store::{
    Checked, TenantRows,
    catalog::{self, TableName},
    events::TenantEvents,
    usage,
};
use tenantd_webhooks::Webhooks;
use tenantd_workflows::Workflows;

use super::checked_tables;

/// The tables without tenant data, and the reason.
#[cfg_attr(not(test), allow(dead_code, reason = "only the test reads the reasons"))]
const WITHOUT_TENANTS: &[(TableName, &str)] = &[
    (catalog::META, "the installation itself"),
    (catalog::EVENT_HEAD, "positions in the log"),
    (catalog::EVENT_CURSORS, "positions in the log"),
    (catalog::LOGIN_FAILURES, "digests of the addresses of failed sign-ins, kept for a day"),
    (catalog::LOGIN_FAILURES_BY_TIME, "index of digests"),
    (catalog::SPENT_PASSKEY_CHALLENGES, "digests of random challenges, kept for minutes"),
    (catalog::SPENT_PASSKEY_CHALLENGES_BY_EXPIRY, "index of digests"),
    (catalog::SPENT_SIGN_ONS, "digests of random states, kept for minutes"),
    (catalog::SPENT_SIGN_ONS_BY_EXPIRY, "index of digests"),
    (catalog::STATUS_DAYS, "the parts of the server"),
    (catalog::STATUS_INCIDENTS, "the parts of the server"),
    (catalog::PROBE, "a time"),
    (catalog::SNAPSHOT_RUNS, "snapshots of the installation"),
    (catalog::SNAPSHOT_WATCH, "a time"),
    (catalog::DISK_SAMPLES, "free space of the disk"),
    (catalog::RELEASE, "the installation itself"),
    (catalog::KEY_ROTATION, "fingerprints of keys"),
    (catalog::SCRUB, "the store itself; a problem can name the key of a record until the next scrub ends"),
];

/// The tables that number events. A late event must not get the number of an event that is still to be removed.
const LAST: [TableName; 2] = [catalog::EVENT_SEQUENCES, catalog::EVENT_SEGMENTS];

/// The rows of tenants in all slices. [`tenantd_store::erase`] itself removes the tenant record and its usage. Webhooks, workflows
/// and clouds come first, because they act by themselves and must stop at once.
pub(super) fn tenant_rows() -> Vec<&'static dyn TenantRows> {
    let acting = [Webhooks::tables(), Workflows::tables(), Clouds::tables()].concat();
    let mut excluded = Platform::own_tables().to_vec();
    excluded.push(catalog::TENANT_USAGE);
    let mut rows: Vec<&'static dyn TenantRows> = Vec::new();
    for table in acting.into_iter().chain(checked_tables()) {
        let Some(found) = Checked::tenant_rows(table) else { continue };
        let is_known = |tables: Vec<TableName>| tables == found.tables();
        let is_excluded = found.tables().iter().any(|table| excluded.contains(table));
        if !is_excluded && !rows.iter().any(|known| is_known(known.tables())) {
            rows.push(found);
        }
    }
    rows.extend(Auth::tenant_rows());
    rows.extend(Webhooks::tenant_rows());
    rows.extend(Backups::tenant_rows());
    rows.extend(Analytics::tenant_rows());
    let kept: [&'static dyn TenantRows; 3] = [&TenantAnswers, &TenantEvents, &usage::TenantSegments];
    rows.extend(kept);
    rows.sort_by_key(|rows| rows.tables().iter().any(|table| LAST.contains(table)));
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_table_is_listed_once() {
        let mut listed: Vec<TableName> = tenant_rows().iter().flat_map(|rows| rows.tables()).collect();
        listed.extend(Platform::own_tables());
        listed.push(catalog::TENANT_USAGE);
        listed.extend(WITHOUT_TENANTS.iter().map(|(table, _)| *table));
        for table in catalog::ALL {
            let times = listed.iter().filter(|known| *known == table).count();
            assert_eq!(times, 1, "{} is listed {times} times", table.name());
        }
        assert!(WITHOUT_TENANTS.iter().all(|(_, reason)| !reason.is_empty()));
    }
}
