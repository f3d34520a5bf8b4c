//! Lists the tables that the export of a tenant contains, and those that it does not. **Invariant:** every table of the catalog is
//! in one of the two lists. A test compares them with the catalog.

use tenantd_analytics::Analytics;
use tenantd_api_keys::ApiKeySlice;
use tenantd_audit::Audit;
use tenantd_auth::Auth;
use tenantd_backup::Backups;
use tenantd_cloud::Clouds;
use tenantd_directory::Directory;
use tenantd_platform::Platform;
use tenantd_scim::Provisioning;
use tenantd_secrets::NamedSecrets;
use tenantd_sso::SingleSignOn;
use tenantd_store::{
    catalog::{self, TableName},
    portable::{History, Portable},
};
use tenantd_tickets::Tickets;
use tenantd_webhooks::Webhooks;
use tenantd_workflows::Workflows;

/// The slices that validate their records by their settings.
pub(super) struct ExportedSlices<'a> {
    pub(super) sso: &'a SingleSignOn,
    pub(super) keys: &'a ApiKeySlice,
    pub(super) clouds: &'a Clouds,
    pub(super) workflows: &'a Workflows,
    pub(super) webhooks: &'a Webhooks,
    pub(super) audit: &'a Audit,
}

/// The exported tables of all slices. A referenced table comes before the tables that refer to it, so events are first. Webhooks
/// and workflows act by themselves and come after the records that they act on. The tenant record is last.
pub(super) fn all(exported: &ExportedSlices<'_>) -> Result<Vec<Box<dyn Portable>>, String> {
    let ExportedSlices { sso, keys, clouds, workflows, webhooks, audit } = exported;
    let history: Box<dyn Portable> = Box::new(History);
    let all = [
        vec![history],
        Directory::portable()?,
        Auth::portable()?,
        sso.portable()?,
        Provisioning::portable()?,
        keys.portable()?,
        Tickets::portable()?,
        Backups::portable()?,
        clouds.portable()?,
        NamedSecrets::portable()?,
        workflows.portable(),
        webhooks.portable()?,
        Analytics::portable(),
        audit.portable(),
        Platform::portable()?,
    ];
    Ok(all.into_iter().flatten().collect())
}

/// The consumers of the event log whose results are exported.
pub(super) fn consumers() -> Vec<&'static str> {
    [Platform::CONSUMERS, Analytics::CONSUMERS, Backups::CONSUMERS, Audit::CONSUMERS].concat()
}

/// The tables that an export does not contain, and the reason.
pub const TABLES_NOT_EXPORTED: &[(TableName, &str)] = &[
    (catalog::META, "about the installation"),
    (catalog::EVENT_HEAD, "about the installation's log"),
    (catalog::EVENT_CURSORS, "about the installation's log"),
    (catalog::EVENT_SEQUENCES, "numbers of one installation; imported events get new ones"),
    (catalog::EVENT_SEGMENTS, "about the installation's log"),
    (catalog::IDEMPOTENCY, "responses of one installation, kept for a day"),
    (catalog::SESSIONS, "users sign in again"),
    (catalog::SESSIONS_BY_USER, "index of sessions"),
    (catalog::SESSIONS_BY_EXPIRY, "index of sessions"),
    (catalog::SESSIONS_BY_SID, "index of sessions"),
    (catalog::LOGIN_FAILURES, "about attempts to sign in to one installation"),
    (catalog::LOGIN_FAILURES_BY_TIME, "index of failures"),
    (catalog::PASSWORD_TOKENS, "links to one installation that work once"),
    (catalog::PASSWORD_TOKENS_BY_USER, "index of tokens"),
    (catalog::PASSWORD_TOKENS_BY_EXPIRY, "index of tokens"),
    (catalog::CHALLENGES, "sign-ins to one installation that wait for a second factor for minutes"),
    (catalog::CHALLENGES_BY_USER, "index of challenges"),
    (catalog::CHALLENGES_BY_EXPIRY, "index of challenges"),
    (catalog::PORTAL_ACCESS, "contacts get access to the portal of an installation again, with a new link"),
    (catalog::PORTAL_ACCESS_BY_ADDRESS, "index of portal access"),
    (catalog::PORTAL_SETTINGS, "an administrator of the new installation turns its portal on"),
    (catalog::SIGN_IN_LINKS, "links to one installation that work once"),
    (catalog::SIGN_IN_LINKS_BY_USER, "index of links"),
    (catalog::SIGN_IN_LINKS_BY_EXPIRY, "index of links"),
    (catalog::WEBHOOK_STATES, "the health of receivers as seen from one installation, and its waiting deliveries"),
    (catalog::WEBHOOK_DELIVERIES, "the deliveries of one installation"),
    (catalog::WEBHOOK_DUE, "pending deliveries of one installation"),
    (catalog::WEBHOOK_HELD, "pending deliveries of one installation"),
    (catalog::WEBHOOK_REPLAYS, "pending deliveries of one installation"),
    (catalog::WEBHOOK_UNDER_WAY, "deliveries in progress of one installation"),
    (catalog::WORKFLOW_TRIGGER_QUEUE, "runs that one installation has still to start"),
    (catalog::WORKFLOW_CAUSES, "limits the effects of runs in one installation"),
    (catalog::SPENT_PASSKEY_CHALLENGES, "challenges of one installation that work once"),
    (catalog::SPENT_PASSKEY_CHALLENGES_BY_EXPIRY, "index of challenges"),
    (catalog::SPENT_SIGN_ONS, "sign-ons to one installation that work once"),
    (catalog::SPENT_SIGN_ONS_BY_EXPIRY, "index of sign-ons"),
    (catalog::SIGN_ON_HISTORY, "sign-ons to one installation"),
    (catalog::STATUS_DAYS, "about the installation"),
    (catalog::STATUS_INCIDENTS, "about the installation"),
    (catalog::PROBE, "about the installation's disk"),
    (catalog::TENANT_IMPORTS, "about imports to the installation"),
    (catalog::SNAPSHOT_RUNS, "about the installation's snapshots"),
    (catalog::SNAPSHOT_WATCH, "about the installation's snapshots"),
    (catalog::DISK_SAMPLES, "about the installation's disk"),
    (catalog::RELEASE, "about the installation"),
    (catalog::KEY_ROTATION, "about the installation's key"),
    (catalog::SCRUB, "about the installation's store"),
    (catalog::DEVICE_BACKUPS, "derived from the imported postures"),
    (catalog::PROVISIONING_PENDING, "imported role rules apply to everybody again"),
    (catalog::TENANT_USAGE, "counted again during an import"),
    (catalog::SEGMENT_USAGE, "counted again during an import"),
    (catalog::TENANT_QUOTAS, "limits that the operator of one installation sets"),
    (catalog::QUOTA_WARNINGS, "about the limits of one installation"),
    (catalog::TENANT_ERRANDS, "pending jobs of one installation"),
    (catalog::EVALUATIONS, "how one installation generates its sample data"),
];
