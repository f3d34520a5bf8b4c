//! Every table of the store, named once, with the code that its keys start with on the disk. A table that is given up moves to
//! [`RETIRED`]; neither its name nor its code is ever used again.
//!
//! Tables that hold time-bounded data are segmented: the engine sees one table a segment (`events.00000012`), so that retention
//! drops whole tables instead of removing rows one by one.

/// A table of the catalogue.
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

    /// What the keys of the table start with on the disk.
    pub const fn code(self) -> u8 {
        self.code
    }

    /// The place in the catalogue of this release.
    pub const fn index(self) -> usize {
        self.index
    }
}

macro_rules! tables {
    (@at $index:expr;) => {
        /// How many tables there are.
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
    /// Format version, installation id, fingerprint of the installation key.
    META 1 "meta";
    /// Two rows: the place of the newest event in the log, and of the oldest that is still kept.
    EVENT_HEAD 2 "event_head";
    /// Segmented by place in the log: each event, and by tenant and the tenant's own number the entry that leads to it.
    EVENTS 3 "events";
    /// Consumer to the place of the last event that it has handled.
    EVENT_CURSORS 5 "event_cursors";
    /// Tenant to the number of its newest event, and of the newest that retention has removed.
    EVENT_SEQUENCES 220 "event_sequences";
    /// Tenant and the number of its first event in a segment of the log, to that segment.
    EVENT_SEGMENTS 221 "event_segments";
    /// Segmented by the day on which they expire: answers kept for `Idempotency-Key`.
    IDEMPOTENCY 6 "idempotency";
    TENANTS 8 "tenants";
    TENANTS_BY_SLUG 9 "tenants_by_slug";
    /// Tenant to the count of its events and the time of the last.
    TENANT_ACTIVITY 10 "tenant_activity";
    /// Staff and contacts of the tenants.
    USERS 11 "users";
    /// Tenant and address.
    USERS_BY_EMAIL 12 "users_by_email";
    SESSIONS 13 "sessions";
    SESSIONS_BY_USER 14 "sessions_by_user";
    SESSIONS_BY_EXPIRY 15 "sessions_by_expiry";
    /// Wrong passwords by account.
    LOGIN_FAILURES 16 "login_failures";
    LOGIN_FAILURES_BY_TIME 17 "login_failures_by_time";
    API_KEYS 18 "api_keys";
    API_KEYS_BY_HASH 19 "api_keys_by_hash";
    API_KEYS_BY_NAME 20 "api_keys_by_name";
    /// Installation-wide: when a key next changes by time alone.
    API_KEYS_BY_DUE 21 "api_keys_by_due";
    /// Tenant to the number of its live keys.
    API_KEY_COUNTS 22 "api_key_counts";
    /// Tenant and owner of the keys that are live.
    API_KEYS_BY_OWNER 23 "api_keys_by_owner";
    ORGANIZATIONS 30 "organizations";
    ORGANIZATIONS_BY_EXTERNAL_ID 31 "organizations_by_external_id";
    /// Organization to the number of its devices and contacts.
    ORGANIZATION_MEMBERS 32 "organization_members";
    DEVICES 33 "devices";
    DEVICES_BY_EXTERNAL_ID 34 "devices_by_external_id";
    /// Installation-wide: the domain of an address, the address, and the members of staff of all tenants who sign in with it.
    USERS_BY_LOGIN 35 "users_by_login";
    USERS_BY_EXTERNAL_ID 36 "users_by_external_id";
    /// The tenant's staff, who are few among its contacts.
    USERS_STAFF 37 "users_staff";
    /// User to password hash.
    CREDENTIALS 38 "credentials";
    /// Digest of a one-time token to the user who may set a password with it.
    PASSWORD_TOKENS 39 "password_tokens";
    PASSWORD_TOKENS_BY_USER 40 "password_tokens_by_user";
    PASSWORD_TOKENS_BY_EXPIRY 41 "password_tokens_by_expiry";
    /// Tenant and number.
    TICKETS 50 "tickets";
    TICKETS_BY_ID 51 "tickets_by_id";
    /// A field, one of its values, and the time of the last change: everything that tickets are filtered by.
    TICKETS_BY_FACET 52 "tickets_by_facet";
    TICKETS_BY_UPDATE 53 "tickets_by_update";
    /// Those with a due time first, then those without.
    TICKETS_BY_DUE 54 "tickets_by_due";
    /// The number of the last event.
    TICKETS_BY_SEQ 55 "tickets_by_seq";
    /// Words of the subject.
    TICKETS_BY_WORD 56 "tickets_by_word";
    /// Installation-wide: when time alone next changes a ticket.
    TICKETS_BY_TIMER 57 "tickets_by_timer";
    /// Tenant to the last number that it has given, and when.
    TICKET_NUMBERS 58 "ticket_numbers";
    /// Tenant, field and value to the number of tickets.
    TICKET_COUNTS 59 "ticket_counts";
    TICKET_COMMENTS 60 "ticket_comments";
    TICKET_TIME_ENTRIES 61 "ticket_time_entries";
    /// Tenant, number of the ticket and number of each event about it.
    TICKET_EVENTS 62 "ticket_events";
    SLA_POLICIES 63 "sla_policies";
    WEBHOOKS 70 "webhooks";
    /// Endpoint to its health and the number of its waiting deliveries.
    WEBHOOK_STATES 71 "webhook_states";
    /// Segmented as the events: tenant, endpoint and place in the log to the delivery of that event.
    WEBHOOK_DELIVERIES 72 "webhook_deliveries";
    /// Tenant, endpoint, time and place in the log of every delivery that waits for its next attempt.
    WEBHOOK_DUE 73 "webhook_due";
    /// Of endpoints that keep the order: tenant, endpoint, resource and place in the log of what is not settled.
    WEBHOOK_HELD 74 "webhook_held";
    /// Endpoint and hour to what was delivered and what failed.
    WEBHOOK_STATS 75 "webhook_stats";
    /// Replays that were asked for, with their progress.
    WEBHOOK_REPLAYS 76 "webhook_replays";
    /// Attempts that take their time.
    WEBHOOK_UNDER_WAY 77 "webhook_under_way";
    WORKFLOWS 80 "workflows";
    /// Tenant and key of those that are not archived.
    WORKFLOWS_BY_KEY 81 "workflows_by_key";
    /// Tenant and kind of event of those that start by it.
    WORKFLOWS_BY_EVENT 82 "workflows_by_event";
    /// Installation-wide: when a schedule next starts a run.
    WORKFLOWS_BY_SCHEDULE 83 "workflows_by_schedule";
    /// Workflow and version to the definition as it was then.
    WORKFLOW_VERSIONS 84 "workflow_versions";
    WORKFLOW_RUNS 85 "workflow_runs";
    WORKFLOW_RUNS_BY_WORKFLOW 86 "workflow_runs_by_workflow";
    WORKFLOW_RUNS_BY_STATUS 87 "workflow_runs_by_status";
    WORKFLOW_RUNS_BY_SUBJECT 88 "workflow_runs_by_subject";
    /// Installation-wide: when there is next something to do with a run.
    WORKFLOW_RUNS_BY_DUE 89 "workflow_runs_by_due";
    /// Tenant, kind and resource of the events that runs wait for.
    WORKFLOW_RUNS_BY_WAIT 90 "workflow_runs_by_wait";
    /// Of runs that have not ended: workflow, concurrency key if any, and whether the run still queues.
    WORKFLOW_RUNS_BY_CONCURRENCY 91 "workflow_runs_by_concurrency";
    /// Workflow and event that a run was started by.
    WORKFLOW_RUNS_BY_EVENT 92 "workflow_runs_by_event";
    /// Run to its inputs and the event that started it.
    WORKFLOW_RUN_INPUTS 93 "workflow_run_inputs";
    /// Run and path to what came of a step.
    WORKFLOW_STEPS 94 "workflow_steps";
    /// Tenant to the number of its workflows and of its runs that have not ended.
    WORKFLOW_COUNTS 95 "workflow_counts";
    /// Tenant and place in the log of each event that the tenant's workflows have still to be asked about.
    WORKFLOW_TRIGGER_QUEUE 96 "workflow_trigger_queue";
    /// Run to the run that it comes of, and of that one the number of runs and records that have come of it.
    WORKFLOW_CAUSES 97 "workflow_causes";
    CLOUD_PROVIDERS 100 "cloud_providers";
    CLOUD_PROVIDERS_BY_NAME 101 "cloud_providers_by_name";
    /// Provider to what its syncs came to.
    CLOUD_SYNCS 102 "cloud_syncs";
    /// Installation-wide: when a provider is next synced.
    CLOUD_SYNCS_BY_DUE 103 "cloud_syncs_by_due";
    /// Tenant, provider and VM.
    VMS 104 "vms";
    VMS_BY_ID 105 "vms_by_id";
    /// Tenant, provider and the provider's own id of the VM.
    VMS_BY_PROVIDER_VM 106 "vms_by_provider_vm";
    /// What goes on in the background for somebody who may ask how far it is.
    OPERATIONS 107 "operations";
    /// Installation-wide: when there is next something to do for an operation.
    OPERATIONS_BY_DUE 108 "operations_by_due";
    /// Of operations that have not ended: tenant and provider.
    OPERATIONS_BY_PROVIDER 109 "operations_by_provider";
    /// Installation-wide: when an operation that has ended is forgotten.
    OPERATIONS_BY_END 110 "operations_by_end";
    /// What was ordered from simulated clouds: it stands for somebody else's machines.
    SIMULATED_VMS 111 "simulated_vms";
    /// Tenant, issuer and subject of staff who sign in through an identity provider.
    USERS_BY_IDENTITY 170 "users_by_identity";
    IDENTITY_PROVIDERS 171 "identity_providers";
    /// Installation-wide: a domain belongs to one provider.
    IDENTITY_PROVIDERS_BY_DOMAIN 172 "identity_providers_by_domain";
    /// Digests of the states that sign-ons have come back with: each works once.
    SPENT_SIGN_ONS 173 "spent_sign_ons";
    SPENT_SIGN_ONS_BY_EXPIRY 174 "spent_sign_ons_by_expiry";
    /// What became of the last sign-ons through each identity provider.
    SIGN_ON_HISTORY 175 "sign_on_history";
    /// Tenant, series and hour to the figures of that hour.
    ANALYTICS_HOURS 150 "analytics_hours";
    /// Tenant, series and day to the figures of a day that is over.
    ANALYTICS_DAYS 151 "analytics_days";
    /// Day to how the parts of the server did.
    STATUS_DAYS 152 "status_days";
    /// What went wrong with a part, from when to when.
    STATUS_INCIDENTS 153 "status_incidents";
    /// Tenant and scope (the tenant, an organization, a device) to what it has set of its own.
    BACKUP_CONFIGS 130 "backup_configs";
    /// Segmented by the day on which they began: tenant, device and external id of each job.
    BACKUP_JOBS 131 "backup_jobs";
    /// Tenant, organization and device to how well the device is backed up.
    BACKUP_POSTURES 132 "backup_postures";
    BACKUP_POSTURES_BY_DEVICE 133 "backup_postures_by_device";
    /// Those with something wrong: tenant and organization, the worst first.
    BACKUP_POSTURES_BY_TROUBLE 134 "backup_postures_by_trouble";
    /// Installation-wide: when time alone next changes a posture.
    BACKUP_POSTURES_BY_TIMER 135 "backup_postures_by_timer";
    /// Tenant and organization to the sums over its devices and jobs.
    BACKUP_ROLLUPS 136 "backup_rollups";
    /// Devices that have still to be judged anew, by the part of the installation that they are in.
    BACKUP_SWEEPS 137 "backup_sweeps";
    /// Tenant and device to whether the device is backed up.
    DEVICE_BACKUPS 139 "device_backups";
    /// Tenant to what is still to be done with it as a whole: filled, or removed.
    TENANT_ERRANDS 117 "tenant_errands";
    /// Those that end by themselves: when.
    TENANTS_BY_EXPIRY 118 "tenants_by_expiry";
    /// Tenant to what its invented story is made from.
    EVALUATIONS 119 "evaluations";
    /// Tenants that are being imported, since when.
    TENANT_IMPORTS 122 "tenant_imports";
    /// A change of the installation key that is under way.
    KEY_ROTATION 138 "key_rotation";
    /// When a snapshot was written, or tried to be restored, to what came of it.
    SNAPSHOT_RUNS 142 "snapshot_runs";
    /// Hour to the space of the disk.
    DISK_SAMPLES 143 "disk_samples";
    /// Since when somebody looks whether there are snapshots.
    SNAPSHOT_WATCH 144 "snapshot_watch";
    /// The release that last opened the store.
    RELEASE 145 "release";
    /// When the way to the disk was last tried.
    PROBE 124 "probe";
    /// Tenant and number of the event to a link of the tenant's chain.
    AUDIT_RECORDS 180 "audit_records";
    /// Tenant and number of the last record under a signature that is kept.
    AUDIT_CHECKPOINTS 181 "audit_checkpoints";
    /// Tenant to the signed end of its chain.
    AUDIT_HEADS 182 "audit_heads";
    /// Tenant to its events of the day, its records and their bytes.
    TENANT_USAGE 214 "tenant_usage";
    /// Table, segment and tenant to the records and bytes there.
    SEGMENT_USAGE 215 "segment_usage";
    /// Tenant to the limits that the operator has set for it.
    TENANT_QUOTAS 216 "tenant_quotas";
    /// Tenant and quota to how far the tenant was warned.
    QUOTA_WARNINGS 217 "quota_warnings";
    /// Named secrets of the tenants.
    SECRETS 210 "secrets";
    /// Tenant and name.
    SECRETS_BY_NAME 211 "secrets_by_name";
    /// Secret to when it was last sent.
    SECRET_USES 212 "secret_uses";
    /// The rounds in which the whole store is read: the last one, and the one that goes on.
    SCRUB 148 "scrub";
}

/// The code that no table of ours has: the engine keeps its own entries under it.
pub const ENGINE_CODE: u8 = 0;

/// Names and codes that were in use once and must not be used again.
pub const RETIRED: &[(&str, u8)] = &[];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_codes_are_unique_and_places_match() {
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
