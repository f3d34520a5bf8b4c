//! The table of metrics: their names, the formula over stored series, and the supported groupings. The API reference lists them.

use tenantd_base::{
    access::{Grants, Scope},
    vocabulary::vocabulary,
};

use super::Series;

vocabulary! {
    /// The properties that a metric can be grouped by.
    GroupBy:
    Priority "priority", Organization "organization", Status "status", Workflow "workflow", State "state", Outcome "outcome",
    Key "key", Route "route", StatusClass "status_class", Tenant "tenant", Kind "kind", Queue "queue",
}

/// A part of a series: all of it, or some of its groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) series: Series,
    /// The selected groups. Empty: all.
    pub(crate) groups: &'static [&'static str],
}

/// How a metric is computed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Formula {
    /// The number of occurrences. 0 if there were none.
    Count(Part),
    /// The number of occurrences per second.
    Rate(Series),
    /// A percentile, divided by the last number to convert the unit. Absent if there is nothing to measure.
    Percentile(Series, u32, f64),
    /// The share of one count in another, in percent. Absent if the whole is 0.
    Share(Part, Part),
    /// The newest sample. Absent if there is none.
    Last(Series),
    /// The newest sample of one group.
    LastOf(Series, &'static str),
    /// The share of one newest sample in another, in percent.
    LastShare(Series, Series),
    /// The number of nonempty groups whose names have this prefix.
    Distinct(Series, &'static str),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    Number,
    Percent,
    Seconds,
    Millis,
    Bytes,
}

impl Unit {
    /// The unit as people read it; empty for a number.
    pub(crate) const fn words(self) -> &'static str {
        match self {
            Self::Number => "",
            Self::Percent => "%",
            Self::Seconds => "seconds",
            Self::Millis => "ms",
            Self::Bytes => "bytes",
        }
    }
}

/// Which reports contain a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Audience {
    Tenant,
    Platform,
    Both,
}

#[derive(Debug)]
pub(crate) struct Metric {
    pub(crate) name: &'static str,
    pub(crate) summary: &'static str,
    pub(crate) audience: Audience,
    pub(crate) unit: Unit,
    pub(crate) formula: Formula,
    /// The properties that the metric can be grouped by, each with the formula for it.
    pub(crate) groupings: &'static [(GroupBy, Formula)],
    /// The scopes that read the records it counts. A reader needs them in addition to `analytics:read`.
    pub(crate) reads: Grants,
}

const fn all(series: Series) -> Part {
    Part { series, groups: &[] }
}

const fn some(series: Series, groups: &'static [&'static str]) -> Part {
    Part { series, groups }
}

const fn count(series: Series) -> Formula {
    Formula::Count(all(series))
}

macro_rules! metrics {
    ($($reads:ident { $($audience:ident $name:literal $unit:ident $formula:expr, [$($by:ident $grouped:expr),*], $summary:literal;)* })*) => {
        pub(crate) const METRICS: &[Metric] = &[$($(Metric {
            name: $name,
            summary: $summary,
            audience: Audience::$audience,
            unit: Unit::$unit,
            formula: $formula,
            groupings: &[$((GroupBy::$by, $grouped)),*],
            reads: $reads,
        }),*),*];
    };
}

use Formula::{Distinct, Last, LastOf, LastShare, Percentile, Rate, Share};
use Series as S;

const NOTHING: Grants = Grants::NONE;
const TICKETS: Grants = Grants::of(&[Scope::TicketsRead]);
const WORKFLOWS: Grants = Grants::of(&[Scope::WorkflowsRead]);
const DEVICES: Grants = Grants::of(&[Scope::InventoryRead]);
const VMS: Grants = Grants::of(&[Scope::VmsRead]);
const BACKUPS: Grants = Grants::of(&[Scope::BackupRead]);
const WEBHOOKS: Grants = Grants::of(&[Scope::WebhooksRead]);
const USERS: Grants = Grants::of(&[Scope::UsersRead]);
const KEYS: Grants = Grants::of(&[Scope::ApiKeysRead]);
const QUOTAS: Grants = Grants::of(&[Scope::QuotasRead]);

metrics! {
    TICKETS {
    Both "tickets_created" Number count(S::TicketsCreated),
        [Priority count(S::TicketsCreated), Organization count(S::TicketsCreatedByOrganization)], "Tickets created.";
    Both "tickets_resolved" Number count(S::TicketsResolved),
        [Priority count(S::TicketsResolved), Organization count(S::TicketsResolvedByOrganization)], "Tickets resolved. A ticket that is resolved again counts again.";
    Both "ticket_backlog" Number Last(S::TicketBacklog), [Status Last(S::TicketBacklog)],
        "Unfinished tickets at the end of the bucket.";
    Both "first_response_p50_seconds" Seconds Percentile(S::FirstResponse, 50, 1.0), [Priority Percentile(S::FirstResponse, 50, 1.0)],
        "Median time from the creation of a ticket to its first response.";
    Both "first_response_p90_seconds" Seconds Percentile(S::FirstResponse, 90, 1.0), [Priority Percentile(S::FirstResponse, 90, 1.0)],
        "90th percentile of the time from the creation of a ticket to its first response.";
    Both "resolution_p50_seconds" Seconds Percentile(S::Resolution, 50, 1.0), [Priority Percentile(S::Resolution, 50, 1.0)],
        "Median time from the creation of a ticket to its resolution.";
    Both "resolution_p90_seconds" Seconds Percentile(S::Resolution, 90, 1.0), [Priority Percentile(S::Resolution, 90, 1.0)],
        "90th percentile of the time from the creation of a ticket to its resolution.";
    Both "sla_met_percent" Percent Share(all(S::SlaMet), all(S::TicketsResolved)), [Priority Share(all(S::SlaMet), all(S::TicketsResolved))],
        "Share of resolved tickets that met every SLA target.";
    Both "reopen_rate_percent" Percent Share(all(S::TicketsReopened), all(S::TicketsResolved)), [],
        "Reopened tickets as a share of resolved tickets.";
    }
    WORKFLOWS {
    Both "workflow_runs" Number count(S::RunsStarted), [Workflow count(S::RunsStartedByWorkflow)], "Workflow runs started.";
    Both "workflow_runs_ended" Number count(S::RunsEnded), [Outcome count(S::RunsEnded)], "Workflow runs ended.";
    Both "workflow_success_percent" Percent Share(some(S::RunsEnded, &["succeeded"]), all(S::RunsEnded)), [],
        "Successful runs as a share of ended runs.";
    Both "workflow_run_p95_seconds" Seconds Percentile(S::RunDuration, 95, 1000.0), [],
        "95th percentile of the time from the start of a run to its end.";
    }
    DEVICES {
    Both "devices" Number Last(S::Devices), [], "Devices at the end of the bucket.";
    Both "devices_online_percent" Percent LastShare(S::DevicesOnline, S::Devices), [], "Share of devices whose agent was online at the end of the bucket.";
    Both "patch_compliance_percent" Percent LastShare(S::DevicesPatched, S::DevicesScanned), [],
        "Fully updated devices as a share of devices with a known update status.";
    }
    VMS {
    Both "vms" Number Last(S::Vms), [State Last(S::Vms)], "VMs at the end of the bucket.";
    Both "vm_provision_success_percent" Percent Share(some(S::Provisions, &["succeeded"]), all(S::Provisions)), [],
        "Successful VM orders as a share of completed VM orders.";
    }
    BACKUPS {
    Both "backup_coverage_percent" Percent LastShare(S::BackupProtected, S::BackupEligible), [],
        "Devices with a backup as a share of devices that should have one.";
    Both "backup_rpo_breaches" Number count(S::RpoBreaches), [], "How often the newest backup of a device became too old.";
    Both "backup_jobs" Number count(S::BackupJobs), [Outcome count(S::BackupJobs)], "Backup jobs that ended or were missed.";
    Both "backup_job_success_percent" Percent Share(some(S::BackupJobs, &["succeeded"]), all(S::BackupJobs)), [],
        "Successful backup jobs as a share of jobs that ended or were missed.";
    }
    NOTHING {
    Both "api_requests" Number count(S::Requests),
        [StatusClass count(S::Requests), Route count(S::RequestsByRoute), Key count(S::RequestsByCaller), Tenant count(S::RequestsByTenant)],
        "API requests with a credential. `key` groups by API key and by user id for sessions; `tenant` is for platform reports only.";
    Both "api_request_p95_ms" Millis Percentile(S::RequestLatency, 95, 1000.0), [Route Percentile(S::RequestsByRoute, 95, 1000.0)],
        "95th percentile of the time to handle a request.";
    Platform "api_request_p50_ms" Millis Percentile(S::RequestLatency, 50, 1000.0), [Route Percentile(S::RequestsByRoute, 50, 1000.0)],
        "Median time to handle a request.";
    Platform "api_request_p99_ms" Millis Percentile(S::RequestLatency, 99, 1000.0), [Route Percentile(S::RequestsByRoute, 99, 1000.0)],
        "99th percentile of the time to handle a request.";
    Platform "api_requests_per_second" Number Rate(S::Requests), [], "Average number of requests per second in the bucket.";
    Both "api_error_percent" Percent Share(some(S::Requests, &["5xx"]), all(S::Requests)), [],
        "Share of requests that failed with a server error.";
    }
    WEBHOOKS {
    Both "webhook_deliveries" Number count(S::Deliveries), [Outcome count(S::Deliveries)], "Attempts to deliver an event to a webhook endpoint.";
    Both "webhook_failures" Number Formula::Count(some(S::Deliveries, &["failed"])), [], "Delivery attempts that failed.";
    Both "webhook_lag_p95_ms" Millis Percentile(S::DeliveryLag, 95, 1.0), [],
        "95th percentile of the time from an event to its delivery.";
    }
    USERS {
    Tenant "active_users" Number Distinct(S::RequestsByCaller, "usr_"), [], "Users with at least one request in the bucket.";
    }
    KEYS {
    Tenant "active_keys" Number Distinct(S::RequestsByCaller, "key_"), [], "API keys with at least one request in the bucket.";
    }
    NOTHING {
    Both "stored_bytes" Bytes Last(S::StoredBytes), [], "Size of records and events without index entries, of the tenant or of all tenants together.";
    }
    QUOTAS {
    Tenant "quota_events_per_day" Number LastOf(S::QuotaUsed, "events_per_day"), [], "Events since midnight UTC.";
    Tenant "quota_events_per_day_limit" Number LastOf(S::QuotaLimit, "events_per_day"), [], "The limit of events per day.";
    Tenant "quota_records" Number LastOf(S::QuotaUsed, "records"), [], "Records of all kinds.";
    Tenant "quota_records_limit" Number LastOf(S::QuotaLimit, "records"), [], "The limit of records.";
    Tenant "quota_stored_bytes" Bytes LastOf(S::QuotaUsed, "stored_bytes"), [], "Size of records and events.";
    Tenant "quota_stored_bytes_limit" Bytes LastOf(S::QuotaLimit, "stored_bytes"), [], "The limit of stored bytes.";
    Tenant "quota_workflows" Number LastOf(S::QuotaUsed, "workflows"), [], "Workflows that are not archived.";
    Tenant "quota_workflows_limit" Number LastOf(S::QuotaLimit, "workflows"), [], "The limit of workflows.";
    Tenant "quota_concurrent_runs" Number LastOf(S::QuotaUsed, "concurrent_runs"), [], "Workflow runs that have not ended.";
    Tenant "quota_concurrent_runs_limit" Number LastOf(S::QuotaLimit, "concurrent_runs"), [], "The limit of concurrent runs.";
    Tenant "quota_streams_limit" Number LastOf(S::QuotaLimit, "streams"), [], "The limit of concurrent imports, and of concurrent exports of each kind.";
    }
    NOTHING {
    Platform "tenants" Number Last(S::TenantsByKind), [Kind Last(S::TenantsByKind), Status Last(S::TenantsByStatus)], "Tenants.";
    Platform "queue_depth" Number Last(S::QueueDepth), [Queue Last(S::QueueDepth)], "Waiting deliveries, and events that log consumers have not read yet.";
    Platform "oldest_undelivered_seconds" Seconds Last(S::OldestUndelivered), [], "How long the oldest due delivery has waited.";
    Platform "database_bytes" Bytes Last(S::DatabaseBytes), [], "Size of the database on disk.";
    Platform "index_bytes" Bytes Last(S::IndexBytes), [], "Size of the search index on disk.";
    Platform "uptime_percent" Percent Share(all(S::MinutesUp), all(S::MinutesWatched)), [],
        "Minutes in which the server was up as a share of all minutes since its first start.";
    }
}

impl Formula {
    /// Returns the series that the formula reads.
    pub(crate) fn series(self) -> [Option<Series>; 2] {
        match self {
            Self::Count(part) => [Some(part.series), None],
            Self::Rate(series)
            | Self::Percentile(series, ..)
            | Self::Last(series)
            | Self::LastOf(series, _)
            | Self::Distinct(series, _) => [Some(series), None],
            Self::Share(part, whole) => [Some(part.series), Some(whole.series)],
            Self::LastShare(part, whole) => [Some(part), Some(whole)],
        }
    }
}

impl Metric {
    /// Returns the scopes that a reader needs for the metric. Grouping by `key` also requires those for API keys and users.
    pub(crate) fn reads(&self, by: Option<GroupBy>) -> Grants {
        if by == Some(GroupBy::Key) { self.reads.union(KEYS).union(USERS) } else { self.reads }
    }

    pub(crate) fn is_for(&self, platform: bool) -> bool {
        match self.audience {
            Audience::Both => true,
            Audience::Tenant => !platform,
            Audience::Platform => platform,
        }
    }

    /// Returns the formula for a grouping, or `None` if it is not supported. Groupings that show text or ids from a tenant are not
    /// available to the platform, and grouping by tenant is available to the platform only.
    pub(crate) fn grouped(&self, by: GroupBy, platform: bool) -> Option<Formula> {
        let found = self.groupings.iter().find(|(grouping, _)| *grouping == by)?;
        let private = matches!(by, GroupBy::Organization | GroupBy::Workflow | GroupBy::Key);
        let allowed = if platform { !private } else { by != GroupBy::Tenant };
        allowed.then_some(found.1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_platform_metrics_read_shared_series() {
        let mut names: Vec<&str> = METRICS.iter().map(|metric| metric.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), METRICS.len());
        for metric in METRICS.iter().filter(|metric| metric.is_for(true)) {
            let of_installation = |series: Series| series.is_shared() || series.code() >= Series::TenantsByKind.code();
            assert!(metric.formula.series().into_iter().flatten().all(of_installation), "{}", metric.name);
            for (by, _) in metric.groupings {
                let series = metric.grouped(*by, true).map(Formula::series).unwrap_or_default();
                assert!(series.into_iter().flatten().all(of_installation), "{} by {}", metric.name, by.name());
            }
        }
    }
}
