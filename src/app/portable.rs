//! What goes along when a tenant leaves for another installation, and what does not. **Invariant:** every table of the catalogue is in one
//! of the two lists; a test compares them with it.

use tenantd_analytics::Analytics;
use tenantd_api_keys::ApiKeySlice;
use tenantd_audit::Audit;
use tenantd_auth::Auth;
use tenantd_backup::Backups;
use tenantd_cloud::Clouds;
use tenantd_directory::Directory;
use tenantd_platform::Platform;
use tenantd_secrets::NamedSecrets;
use tenantd_sso::SingleSignOn;
use tenantd_store::{
    catalog::{self, TableName},
    portable::{History, Portable},
};
use tenantd_tickets::Tickets;
use tenantd_webhooks::Webhooks;
use tenantd_workflows::Workflows;

/// Slices whose records are checked by what is set for them.
pub(super) struct Carried<'a> {
    pub(super) sso: &'a SingleSignOn,
    pub(super) keys: &'a ApiKeySlice,
    pub(super) clouds: &'a Clouds,
    pub(super) workflows: &'a Workflows,
    pub(super) webhooks: &'a Webhooks,
    pub(super) audit: &'a Audit,
}

/// The tables of all slices. What is referred to comes first, so events are at the beginning; what acts by itself when its time has
/// come, such as webhooks and workflows, comes behind what it acts on; the tenant's own record is the last.
pub(super) fn all(carried: &Carried<'_>) -> Result<Vec<Box<dyn Portable>>, String> {
    let Carried { sso, keys, clouds, workflows, webhooks, audit } = carried;
    let history: Box<dyn Portable> = Box::new(History);
    let all = [
        vec![history],
        Directory::portable()?,
        Auth::portable(),
        sso.portable()?,
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

/// Readers of the log whose work goes along.
pub(super) fn consumers() -> Vec<&'static str> {
    [Platform::CONSUMERS, Analytics::CONSUMERS, Backups::CONSUMERS, Audit::CONSUMERS].concat()
}

/// Tables that stay, and why.
pub const STAYING: &[(TableName, &str)] = &[
    (catalog::META, "about the installation"),
    (catalog::EVENT_HEAD, "about the installation's log"),
    (catalog::EVENT_CURSORS, "about the installation's log"),
    (catalog::EVENT_SEQUENCES, "numbers of one installation; events that arrive get new ones"),
    (catalog::EVENT_SEGMENTS, "about the installation's log"),
    (catalog::IDEMPOTENCY, "answers to requests of one installation, kept for a day"),
    (catalog::SESSIONS, "people sign in anew"),
    (catalog::SESSIONS_BY_USER, "index of sessions"),
    (catalog::SESSIONS_BY_EXPIRY, "index of sessions"),
    (catalog::LOGIN_FAILURES, "about attempts to sign in to one installation"),
    (catalog::LOGIN_FAILURES_BY_TIME, "index of failures"),
    (catalog::PASSWORD_TOKENS, "links to one installation that work once"),
    (catalog::PASSWORD_TOKENS_BY_USER, "index of tokens"),
    (catalog::PASSWORD_TOKENS_BY_EXPIRY, "index of tokens"),
    (catalog::WEBHOOK_STATES, "how receivers do, as seen from one installation, and what waits there"),
    (catalog::WEBHOOK_DELIVERIES, "what one installation has sent and still sends"),
    (catalog::WEBHOOK_DUE, "what one installation still sends"),
    (catalog::WEBHOOK_HELD, "what one installation still sends"),
    (catalog::WEBHOOK_REPLAYS, "what one installation still sends"),
    (catalog::WEBHOOK_UNDER_WAY, "what one installation is sending"),
    (catalog::WORKFLOW_TRIGGER_QUEUE, "what one installation has still to start"),
    (catalog::WORKFLOW_CAUSES, "bounds what runs lead to in one installation"),
    (catalog::SPENT_SIGN_ONS, "sign-ons to one installation that work once"),
    (catalog::SPENT_SIGN_ONS_BY_EXPIRY, "index of sign-ons"),
    (catalog::SIGN_ON_HISTORY, "sign-ons to one installation"),
    (catalog::STATUS_DAYS, "about the installation"),
    (catalog::STATUS_INCIDENTS, "about the installation"),
    (catalog::PROBE, "about the installation's disk"),
    (catalog::TENANT_IMPORTS, "about what arrives at the installation"),
    (catalog::SNAPSHOT_RUNS, "about the installation's snapshots"),
    (catalog::SNAPSHOT_WATCH, "about the installation's snapshots"),
    (catalog::DISK_SAMPLES, "about the installation's disk"),
    (catalog::RELEASE, "about the installation"),
    (catalog::KEY_ROTATION, "about the installation's key"),
    (catalog::SCRUB, "about the installation's store"),
    (catalog::DEVICE_BACKUPS, "follows from the postures that arrive"),
    (catalog::TENANT_USAGE, "counted again from what arrives"),
    (catalog::SEGMENT_USAGE, "counted again from what arrives"),
    (catalog::TENANT_QUOTAS, "what one operator allows"),
    (catalog::QUOTA_WARNINGS, "about the limits of one installation"),
    (catalog::TENANT_ERRANDS, "what one installation still does with a tenant"),
    (catalog::EVALUATIONS, "how one installation tells a story again"),
];
