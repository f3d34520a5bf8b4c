//! Names every table of the store once, with the code that its keys start with on the disk. A table that is no longer used moves
//! to [`RETIRED`]; its name and code are never reused.
//!
//! Tables of time-bounded data are segmented: the engine sees one table per segment (`events.00000012`), so retention drops whole
//! tables instead of removing rows one by one.
//!
//! The comments below read "key → value". An "installation-wide" table is read for all tenants together.

/// A table of the catalog.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TableName {
    code: u8,
    name: &'static str,
    index: usize,
}

impl TableName {
    pub const fn name(self) -> &'static str {
        self.name
    }

    /// The byte that the table's keys start with on the disk.
    pub const fn code(self) -> u8 {
        self.code
    }

    /// The position in this release's catalog.
    pub const fn index(self) -> usize {
        self.index
    }
}

macro_rules! tables {
    (@at $index:expr;) => {
        /// The number of tables.
        pub const COUNT: usize = $index;
    };
    (@at $index:expr; $(#[$doc:meta])* $constant:ident $code:literal $name:literal; $($rest:tt)*) => {
        $(#[$doc])*
        pub const $constant: TableName = TableName { name: $name, code: $code, index: $index };
        tables!(@at $index + 1; $($rest)*);
    };
    (@names $($(#[$doc:meta])* $constant:ident $code:literal $name:literal;)*) => {
        pub const ALL: &[TableName] = &[$($constant),*];

        /// The table whose keys start with `code`.
        pub const fn by_code(code: u8) -> Option<TableName> {
            match code {
                $($code => Some($constant),)*
                _ => None,
            }
        }
    };
    ($($rows:tt)*) => {
        tables!(@at 0; $($rows)*);
        tables!(@names $($rows)*);
    };
}

tables! {
    /// Format version, installation id and fingerprint of the installation key.
    META 1 "meta";
    /// Two rows: the place of the newest event in the log, and the place of the oldest event that is kept.
    EVENT_HEAD 2 "event_head";
    /// Segmented by place in the log. Two kinds of rows: each event, and for each tenant its own event number → place in the log.
    EVENTS 3 "events";
    /// Consumer → place of the last event that it has handled.
    EVENT_CURSORS 5 "event_cursors";
    /// Tenant → number of its newest event, and of the newest event that retention has removed.
    EVENT_SEQUENCES 220 "event_sequences";
    /// Tenant and number of its first event in a segment of the log → the segment.
    EVENT_SEGMENTS 221 "event_segments";
    /// Segmented by expiry day: responses kept for `Idempotency-Key`.
    IDEMPOTENCY 6 "idempotency";
    TENANTS 8 "tenants";
    TENANTS_BY_SLUG 9 "tenants_by_slug";
    /// Tenant → number of its events and time of the last one.
    TENANT_ACTIVITY 10 "tenant_activity";
    /// Staff and contacts of all tenants.
    USERS 11 "users";
    /// Tenant and email address → user.
    USERS_BY_EMAIL 12 "users_by_email";
    SESSIONS 13 "sessions";
    SESSIONS_BY_USER 14 "sessions_by_user";
    SESSIONS_BY_EXPIRY 15 "sessions_by_expiry";
    /// Tenant, identity provider and digest of the session there → sessions.
    SESSIONS_BY_SID 176 "sessions_by_sid";
    /// Account → failed password attempts.
    LOGIN_FAILURES 16 "login_failures";
    LOGIN_FAILURES_BY_TIME 17 "login_failures_by_time";
    API_KEYS 18 "api_keys";
    API_KEYS_BY_HASH 19 "api_keys_by_hash";
    API_KEYS_BY_NAME 20 "api_keys_by_name";
    /// Installation-wide: when an API key next changes because of time alone.
    API_KEYS_BY_DUE 21 "api_keys_by_due";
    /// Tenant → number of its live API keys.
    API_KEY_COUNTS 22 "api_key_counts";
    /// Tenant and owner → live API keys.
    API_KEYS_BY_OWNER 23 "api_keys_by_owner";
    /// Tenant and person → personal API keys.
    API_KEYS_BY_PERSON 24 "api_keys_by_person";
    ORGANIZATIONS 30 "organizations";
    ORGANIZATIONS_BY_EXTERNAL_ID 31 "organizations_by_external_id";
    /// Organization → number of its devices and contacts.
    ORGANIZATION_MEMBERS 32 "organization_members";
    DEVICES 33 "devices";
    DEVICES_BY_EXTERNAL_ID 34 "devices_by_external_id";
    /// Installation-wide: domain and email address → staff of all tenants who sign in with the address.
    USERS_BY_LOGIN 35 "users_by_login";
    USERS_BY_EXTERNAL_ID 36 "users_by_external_id";
    /// The staff of a tenant, who are few compared with its contacts.
    USERS_STAFF 37 "users_staff";
    /// Tenant and custom role → staff.
    USERS_BY_ROLE 25 "users_by_role";
    ROLES 26 "roles";
    /// Tenant and name in lower case → custom role.
    ROLES_BY_NAME 27 "roles_by_name";
    /// User → password hash.
    CREDENTIALS 38 "credentials";
    /// User → what the managers may do who have opened the account.
    ACCOUNT_OPENERS 163 "account_openers";
    /// Digest of a one-time token → the user who may set a password with it.
    PASSWORD_TOKENS 39 "password_tokens";
    PASSWORD_TOKENS_BY_USER 40 "password_tokens_by_user";
    PASSWORD_TOKENS_BY_EXPIRY 41 "password_tokens_by_expiry";
    /// Digest of a one-time token → the user of an evaluation tenant whom it signs in.
    SIGN_IN_LINKS 42 "sign_in_links";
    SIGN_IN_LINKS_BY_USER 43 "sign_in_links_by_user";
    SIGN_IN_LINKS_BY_EXPIRY 44 "sign_in_links_by_expiry";
    /// User → preferences for the console.
    PREFERENCES 46 "preferences";
    /// User and view id → a query of a list that the user has saved.
    SAVED_VIEWS 47 "saved_views";
    /// User and factor id → a second factor.
    FACTORS 190 "factors";
    /// User → digests of the unused recovery codes.
    RECOVERY_CODES 191 "recovery_codes";
    /// Digest of a random token → a sign-in that waits for the second factor.
    CHALLENGES 192 "challenges";
    CHALLENGES_BY_USER 193 "challenges_by_user";
    CHALLENGES_BY_EXPIRY 194 "challenges_by_expiry";
    /// Installation-wide: digest of an authenticator's name for a passkey → the passkey.
    FACTORS_BY_CREDENTIAL 160 "factors_by_credential";
    /// Digests of the challenges that passkeys have answered. Each works once.
    SPENT_PASSKEY_CHALLENGES 161 "spent_passkey_challenges";
    SPENT_PASSKEY_CHALLENGES_BY_EXPIRY 162 "spent_passkey_challenges_by_expiry";
    /// Tenant → who needs a second factor.
    SIGN_IN_POLICIES 195 "sign_in_policies";
    /// User → that the contact may sign in to the portal.
    PORTAL_ACCESS 200 "portal_access";
    PORTAL_ACCESS_BY_ADDRESS 201 "portal_access_by_address";
    /// Tenant → whether it has a portal.
    PORTAL_SETTINGS 202 "portal_settings";
    /// Tenant and ticket number → ticket.
    TICKETS 50 "tickets";
    TICKETS_BY_ID 51 "tickets_by_id";
    /// A field, one of its values, and the time of the last change. Every ticket filter uses this index.
    TICKETS_BY_FACET 52 "tickets_by_facet";
    TICKETS_BY_UPDATE 53 "tickets_by_update";
    /// Tickets with a due time come first, then tickets without one.
    TICKETS_BY_DUE 54 "tickets_by_due";
    /// By the number of the ticket's last event.
    TICKETS_BY_SEQ 55 "tickets_by_seq";
    /// By the words of the subject.
    TICKETS_BY_WORD 56 "tickets_by_word";
    /// Installation-wide: when a ticket next changes because of time alone.
    TICKETS_BY_TIMER 57 "tickets_by_timer";
    /// Tenant → the last ticket number it assigned, and when.
    TICKET_NUMBERS 58 "ticket_numbers";
    /// Tenant, field and value → number of tickets.
    TICKET_COUNTS 59 "ticket_counts";
    TICKET_COMMENTS 60 "ticket_comments";
    TICKET_TIME_ENTRIES 61 "ticket_time_entries";
    /// Tenant, ticket number and event number → each event about the ticket.
    TICKET_EVENTS 62 "ticket_events";
    SLA_POLICIES 63 "sla_policies";
    WEBHOOKS 70 "webhooks";
    /// Endpoint → its health and its number of pending deliveries.
    WEBHOOK_STATES 71 "webhook_states";
    /// Segmented like the events: tenant, endpoint and place in the log → the delivery of that event.
    WEBHOOK_DELIVERIES 72 "webhook_deliveries";
    /// Tenant, endpoint, time and place in the log of each delivery that waits for its next attempt.
    WEBHOOK_DUE 73 "webhook_due";
    /// For endpoints with ordered delivery: tenant, endpoint, resource and place in the log of each unsettled delivery.
    WEBHOOK_HELD 74 "webhook_held";
    /// Endpoint and hour → number of successful and failed deliveries.
    WEBHOOK_STATS 75 "webhook_stats";
    /// Requested replays with their progress.
    WEBHOOK_REPLAYS 76 "webhook_replays";
    /// Attempts in progress.
    WEBHOOK_UNDER_WAY 77 "webhook_under_way";
    WORKFLOWS 80 "workflows";
    /// Tenant and key of each workflow that is not archived.
    WORKFLOWS_BY_KEY 81 "workflows_by_key";
    /// Tenant and kind of event → workflows that the event starts.
    WORKFLOWS_BY_EVENT 82 "workflows_by_event";
    /// Installation-wide: when a schedule next starts a run.
    WORKFLOWS_BY_SCHEDULE 83 "workflows_by_schedule";
    /// Workflow and version → the definition at that version.
    WORKFLOW_VERSIONS 84 "workflow_versions";
    WORKFLOW_RUNS 85 "workflow_runs";
    WORKFLOW_RUNS_BY_WORKFLOW 86 "workflow_runs_by_workflow";
    WORKFLOW_RUNS_BY_STATUS 87 "workflow_runs_by_status";
    WORKFLOW_RUNS_BY_SUBJECT 88 "workflow_runs_by_subject";
    /// Installation-wide: when a run next needs work.
    WORKFLOW_RUNS_BY_DUE 89 "workflow_runs_by_due";
    /// Tenant, kind and resource of the events that runs wait for.
    WORKFLOW_RUNS_BY_WAIT 90 "workflow_runs_by_wait";
    /// Unfinished runs only: workflow, concurrency key if any, and whether the run is still queued.
    WORKFLOW_RUNS_BY_CONCURRENCY 91 "workflow_runs_by_concurrency";
    /// Workflow and the event that started the run.
    WORKFLOW_RUNS_BY_EVENT 92 "workflow_runs_by_event";
    /// Run → its inputs and the event that started it.
    WORKFLOW_RUN_INPUTS 93 "workflow_run_inputs";
    /// Run and path → result of a step.
    WORKFLOW_STEPS 94 "workflow_steps";
    /// Tenant → number of its workflows and of its unfinished runs.
    WORKFLOW_COUNTS 95 "workflow_counts";
    /// Tenant and place in the log of each event that is not yet matched against the tenant's workflows.
    WORKFLOW_TRIGGER_QUEUE 96 "workflow_trigger_queue";
    /// Run → the run at the start of its chain. That run's own row also counts the runs and records of the chain.
    WORKFLOW_CAUSES 97 "workflow_causes";
    CLOUD_PROVIDERS 100 "cloud_providers";
    CLOUD_PROVIDERS_BY_NAME 101 "cloud_providers_by_name";
    /// Provider → results of its syncs.
    CLOUD_SYNCS 102 "cloud_syncs";
    /// Installation-wide: when a provider is next synced.
    CLOUD_SYNCS_BY_DUE 103 "cloud_syncs_by_due";
    /// Tenant, provider and VM id → VM.
    VMS 104 "vms";
    VMS_BY_ID 105 "vms_by_id";
    /// Tenant, provider and the provider's id of the VM.
    VMS_BY_PROVIDER_VM 106 "vms_by_provider_vm";
    /// Long-running background work whose progress clients can poll.
    OPERATIONS 107 "operations";
    /// Installation-wide: when an operation next needs work.
    OPERATIONS_BY_DUE 108 "operations_by_due";
    /// Unfinished operations only: tenant and provider.
    OPERATIONS_BY_PROVIDER 109 "operations_by_provider";
    /// Installation-wide: when a finished operation is removed.
    OPERATIONS_BY_END 110 "operations_by_end";
    /// VMs ordered from simulated clouds. The table stands in for a provider's machines.
    SIMULATED_VMS 111 "simulated_vms";
    /// Tenant, issuer and subject of staff who sign in through an identity provider.
    USERS_BY_IDENTITY 170 "users_by_identity";
    IDENTITY_PROVIDERS 171 "identity_providers";
    /// Installation-wide: a domain belongs to one provider.
    IDENTITY_PROVIDERS_BY_DOMAIN 172 "identity_providers_by_domain";
    /// Digests of the sign-on states that were used. Each state works once.
    SPENT_SIGN_ONS 173 "spent_sign_ons";
    SPENT_SIGN_ONS_BY_EXPIRY 174 "spent_sign_ons_by_expiry";
    /// Identity provider → outcomes of its most recent sign-ons.
    SIGN_ON_HISTORY 175 "sign_on_history";
    /// Tenant, series and hour → metrics of the hour.
    ANALYTICS_HOURS 150 "analytics_hours";
    /// Tenant, series and day → metrics of a day that is over.
    ANALYTICS_DAYS 151 "analytics_days";
    /// Day → status of each part of the server.
    STATUS_DAYS 152 "status_days";
    /// Incidents: which part failed, from when to when.
    STATUS_INCIDENTS 153 "status_incidents";
    /// Tenant and scope (tenant, organization or device) → settings made in that scope.
    BACKUP_CONFIGS 130 "backup_configs";
    /// Segmented by start day: tenant, device and external id of each job.
    BACKUP_JOBS 131 "backup_jobs";
    /// Tenant, organization and device → backup state of the device.
    BACKUP_POSTURES 132 "backup_postures";
    BACKUP_POSTURES_BY_DEVICE 133 "backup_postures_by_device";
    /// Postures with a problem: tenant and organization, the worst first.
    BACKUP_POSTURES_BY_TROUBLE 134 "backup_postures_by_trouble";
    /// Installation-wide: when a posture next changes because of time alone.
    BACKUP_POSTURES_BY_TIMER 135 "backup_postures_by_timer";
    /// Tenant and organization → sums over its devices and jobs.
    BACKUP_ROLLUPS 136 "backup_rollups";
    /// Tenant and organization → progress of a walk that evaluates their devices again.
    BACKUP_SWEEPS 137 "backup_sweeps";
    /// Tenant and device → whether the device is backed up.
    DEVICE_BACKUPS 139 "device_backups";
    /// Tenant → pending work on the tenant as a whole: fill it with data, or remove it.
    TENANT_ERRANDS 117 "tenant_errands";
    /// Tenants that expire, by expiry time.
    TENANTS_BY_EXPIRY 118 "tenants_by_expiry";
    /// Tenant → the parameters that its sample data is generated from.
    EVALUATIONS 119 "evaluations";
    /// Tenants with an import in progress → start time.
    TENANT_IMPORTS 122 "tenant_imports";
    /// The rotation of the installation key that is in progress.
    KEY_ROTATION 138 "key_rotation";
    /// Time of a snapshot, or of a restore test → its result.
    SNAPSHOT_RUNS 142 "snapshot_runs";
    /// Hour → disk space.
    DISK_SAMPLES 143 "disk_samples";
    /// Since when the server watches for missing snapshots.
    SNAPSHOT_WATCH 144 "snapshot_watch";
    /// The release that last opened the store.
    RELEASE 145 "release";
    /// When the path to the disk was last probed.
    PROBE 124 "probe";
    /// Tenant and event number → a link of the tenant's audit chain.
    AUDIT_RECORDS 180 "audit_records";
    /// Tenant and number of the last signed record → the signature.
    AUDIT_CHECKPOINTS 181 "audit_checkpoints";
    /// Tenant → the signed end of its audit chain.
    AUDIT_HEADS 182 "audit_heads";
    /// Tenant → its events today, its records and their bytes.
    TENANT_USAGE 214 "tenant_usage";
    /// Table, segment and tenant → number of records and bytes.
    SEGMENT_USAGE 215 "segment_usage";
    /// Tenant → limits that the operator has set for it.
    TENANT_QUOTAS 216 "tenant_quotas";
    /// Tenant and quota → the level of the last warning sent to the tenant.
    QUOTA_WARNINGS 217 "quota_warnings";
    /// Named secrets of the tenants.
    SECRETS 210 "secrets";
    /// Tenant and name → secret.
    SECRETS_BY_NAME 211 "secrets_by_name";
    /// Secret → when it was last sent.
    SECRET_USES 212 "secret_uses";
    /// Staff that an identity provider provisions → what it said about them.
    PROVISIONED 230 "provisioned";
    /// Tenant and external id or user name → provisioned person.
    PROVISIONED_BY_NAME 231 "provisioned_by_name";
    /// Groups that identity providers provision.
    PROVISIONED_GROUPS 232 "provisioned_groups";
    /// Tenant and name → provisioned group.
    PROVISIONED_GROUPS_BY_NAME 233 "provisioned_groups_by_name";
    /// Group and user → membership.
    PROVISIONED_MEMBERS 234 "provisioned_members";
    /// Tenant and user → membership.
    PROVISIONED_MEMBERS_BY_USER 235 "provisioned_members_by_user";
    /// Tenant → the roles that groups give.
    PROVISIONING_RULES 236 "provisioning_rules";
    /// People whose role is still to be given again.
    PROVISIONING_PENDING 237 "provisioning_pending";
    /// Rounds of reading the whole store: the last one, and the one in progress.
    SCRUB 148 "scrub";
}

/// A code that no table has. The engine stores its own entries under it.
pub const ENGINE_CODE: u8 = 0;

/// Names and codes that were used once and must not be used again.
pub const RETIRED: &[(&str, u8)] = &[];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_codes_are_unique() {
        let used = ALL.iter().map(|table| (table.name(), table.code())).chain(RETIRED.iter().copied());
        let (mut names, mut codes): (Vec<&str>, Vec<u8>) = used.unzip();
        names.sort_unstable();
        names.dedup();
        codes.sort_unstable();
        codes.dedup();
        assert_eq!((names.len(), codes.len()), (COUNT + RETIRED.len(), COUNT + RETIRED.len()));
        assert!(!codes.contains(&ENGINE_CODE));
        assert!(ALL.iter().enumerate().all(|(place, table)| table.index() == place && by_code(table.code()) == Some(*table)));
    }
}
