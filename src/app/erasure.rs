//! How a tenant is taken out of every table of the catalogue.
//!
//! **Invariant:** each table is either emptied of a removed tenant by one of [`tenant_rows`], or named in [`WITHOUT_TENANTS`] with the
//! reason why nothing of a tenant is in it. A table that is added and forgotten here fails the test below.

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

/// Tables that hold nothing of a tenant, and why.
#[cfg_attr(not(test), allow(dead_code, reason = "what is never looked for needs no code, only its reason"))]
const WITHOUT_TENANTS: &[(TableName, &str)] = &[
    (catalog::META, "the installation itself"),
    (catalog::EVENT_HEAD, "places in the log"),
    (catalog::EVENT_CURSORS, "places in the log"),
    (catalog::LOGIN_FAILURES, "digests of addresses that were typed, for a day, whosever they are"),
    (catalog::LOGIN_FAILURES_BY_TIME, "leads to digests"),
    (catalog::SPENT_SIGN_ONS, "digests of random states, for minutes"),
    (catalog::SPENT_SIGN_ONS_BY_EXPIRY, "leads to digests"),
    (catalog::STATUS_DAYS, "the parts of the server"),
    (catalog::STATUS_INCIDENTS, "the parts of the server"),
    (catalog::PROBE, "a time"),
    (catalog::SNAPSHOT_RUNS, "snapshots of the installation"),
    (catalog::SNAPSHOT_WATCH, "a time"),
    (catalog::DISK_SAMPLES, "the space of the disk"),
    (catalog::RELEASE, "the installation itself"),
    (catalog::KEY_ROTATION, "fingerprints of keys"),
    (catalog::SCRUB, "the store itself; a problem may name the key of a record until the next round ends"),
];

/// What gives numbers to events. An event that comes late must not get the number of one that is still to be removed.
const LAST: [TableName; 2] = [catalog::EVENT_SEQUENCES, catalog::EVENT_SEGMENTS];

/// Everything that tenants have, but for their own records and their usage, which [`tenantd_store::erase`] removes itself. First comes
/// what acts by itself, so that it stops at once.
pub(super) fn tenant_rows() -> Vec<&'static dyn TenantRows> {
    let acting = [Webhooks::tables(), Workflows::tables(), Clouds::tables()].concat();
    let mut kept_apart = Platform::own_tables().to_vec();
    kept_apart.push(catalog::TENANT_USAGE);
    let mut rows: Vec<&'static dyn TenantRows> = Vec::new();
    for table in acting.into_iter().chain(checked_tables()) {
        let Some(found) = Checked::tenant_rows(table) else { continue };
        let is_known = |tables: Vec<TableName>| tables == found.tables();
        let is_apart = found.tables().iter().any(|table| kept_apart.contains(table));
        if !is_apart && !rows.iter().any(|known| is_known(known.tables())) {
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
    fn every_table_says_how_a_tenant_leaves_it_and_says_it_once() {
        let mut told: Vec<TableName> = tenant_rows().iter().flat_map(|rows| rows.tables()).collect();
        told.extend(Platform::own_tables());
        told.push(catalog::TENANT_USAGE);
        told.extend(WITHOUT_TENANTS.iter().map(|(table, _)| *table));
        for table in catalog::ALL {
            let times = told.iter().filter(|known| *known == table).count();
            assert_eq!(times, 1, "{} is told of {times} times", table.name());
        }
        assert!(WITHOUT_TENANTS.iter().all(|(_, reason)| !reason.is_empty()));
    }
}
