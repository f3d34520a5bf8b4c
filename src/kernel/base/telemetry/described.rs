//! The descriptions of metrics, for the `# HELP` lines of `/metrics`.

use metrics::{describe_counter, describe_gauge, describe_histogram};

const COUNTERS: &[(&str, &str)] = &[
    ("tenantd_backup_failures_total", "Snapshots, drills and backups that failed."),
    ("tenantd_cloud_syncs_total", "Syncs of cloud providers, by result."),
    ("tenantd_connections_evicted_total", "Idle connections that were closed to make room for new ones."),
    ("tenantd_connections_refused_total", "Connections that were refused because too many were open."),
    ("tenantd_http_requests_total", "Requests that were answered."),
    ("tenantd_outgoing_segments_lost_total", "Segments of changes that could not be stored for the off-site backup."),
    ("tenantd_program_microseconds_total", "Run time of programs of tenants, in microseconds."),
    ("tenantd_programs_stalled_total", "Programs of tenants that ran longer than their limits should allow."),
    ("tenantd_quota_refusals_total", "Writes that were refused because of a quota."),
    ("tenantd_rate_limited_total", "Requests that were refused because of a rate limit."),
    ("tenantd_search_rebuilds_total", "Complete rebuilds of the search index."),
    ("tenantd_tenant_requests_total", "Requests with a credential, by the kind of tenant."),
    ("tenantd_turns_delayed_total", "Tasks that waited because their tenant had used up its share."),
    ("tenantd_webhook_attempts_total", "Attempts to deliver an event, by outcome."),
    ("tenantd_webhook_deliveries_shed_total", "Deliveries that were dropped because too many were waiting."),
    ("tenantd_workflow_conditions_failed_total", "Trigger conditions that could not be evaluated."),
    ("tenantd_workflow_runs_total", "Workflow runs that ended, by status."),
];

const GAUGES: &[(&str, &str)] = &[
    ("tenantd_connections_open", "Open connections."),
    ("tenantd_consumer_lag_events", "Events that a consumer of the log has not read yet."),
    ("tenantd_disk_days_to_full", "Days until the disk is full at its current growth rate."),
    ("tenantd_disk_exhausted", "1 if the disk has no space left for writes."),
    ("tenantd_disk_free_bytes", "Free space of the data directory's disk."),
    ("tenantd_disk_read_only", "1 if the server is read-only because the disk is full."),
    ("tenantd_disk_reserve_bytes", "Remaining bytes of the disk reserve."),
    ("tenantd_disk_total_bytes", "Size of the data directory's disk."),
    ("tenantd_last_offsite_backup_age_seconds", "Seconds since the last successful off-site backup."),
    ("tenantd_last_restore_drill_age_seconds", "Seconds since the last successful restore drill."),
    ("tenantd_last_verified_backup_age_seconds", "Seconds since the last verified snapshot."),
    ("tenantd_offsite_commits_age_seconds", "Seconds since all changes were stored off-site."),
    ("tenantd_quota_highest_percent", "The highest use of a quota among all tenants."),
    ("tenantd_safe_mode", "1 if the server runs in safe mode."),
    ("tenantd_scrub_duration_seconds", "Duration of the last complete scrub of the store, in seconds."),
    ("tenantd_scrub_last_success_timestamp_seconds", "Time at which the last scrub without problems ended."),
    ("tenantd_scrub_problems", "Problems that the scrub of the store found."),
    ("tenantd_search_documents", "Documents in the search index."),
    ("tenantd_search_lag_events", "Events that the search index has not processed yet."),
    ("tenantd_store_oldest_read_seconds", "Age of the oldest read in progress, in seconds."),
    ("tenantd_store_waiting_writes", "Writes that are waiting for the writer."),
    ("tenantd_store_writer_busy_seconds", "Seconds that the writer has been busy with the current write."),
    ("tenantd_store_writer_stalled", "1 if the writer has been busy with one write for too long."),
    ("tenantd_webhook_in_flight", "Deliveries that are being sent."),
    ("tenantd_webhook_oldest_due_seconds", "Seconds since the oldest waiting delivery became due."),
    ("tenantd_webhook_queue_depth", "Deliveries that are waiting."),
    ("tenantd_workflow_runs_in_flight", "Workflow runs in progress."),
];

const HISTOGRAMS: &[(&str, &str)] = &[
    ("tenantd_http_request_seconds", "Time to answer a request, in seconds."),
    ("tenantd_store_batch_size", "Number of writes in one commit."),
];

pub(super) fn describe() {
    for (name, text) in COUNTERS {
        describe_counter!(*name, *text);
    }
    for (name, text) in GAUGES {
        describe_gauge!(*name, *text);
    }
    for (name, text) in HISTOGRAMS {
        describe_histogram!(*name, *text);
    }
}
