//! The metrics that can be asked for: their names, how each is made of stored series, and by what it can be grouped. One table; the
//! documentation of the API lists it.

use tenantd_base::{
    access::{Grants, Scope},
    vocabulary::vocabulary,
};

use super::Series;

vocabulary! {
    /// What figures can be told apart by.
    GroupBy:
    Priority "priority", Organization "organization", Status "status", Workflow "workflow", State "state", Outcome "outcome",
    Key "key", Route "route", StatusClass "status_class", Tenant "tenant", Kind "kind", Queue "queue",
}

/// A part of a series: all of it, or some of its groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) series: Series,
    /// Empty: all.
    pub(crate) groups: &'static [&'static str],
}

/// How a figure is made.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Formula {
    /// How many there were. 0 where there were none.
    Count(Part),
    /// How many a second.
    Rate(Series),
    /// A percentile, divided by the last number to get to its unit. Absent where there is nothing to measure.
    Percentile(Series, u32, f64),
    /// The share of one count in another, in percent. Absent where the whole is none.
    Share(Part, Part),
    /// The newest value. Absent where nothing was sampled.
    Last(Series),
    /// The newest value of one group.
    LastOf(Series, &'static str),
    /// The share of one newest value in another, in percent.
    LastShare(Series, Series),
    /// How many groups whose names begin so have anything.
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

/// Who can ask for a metric.
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
    /// What it can be grouped by, and how it is made then.
    pub(crate) groupings: &'static [(GroupBy, Formula)],
    /// What reads the records that it counts. It takes more than `analytics:read`.
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
        [Priority count(S::TicketsCreated), Organization count(S::TicketsCreatedByOrganization)], "Tickets that were created.";
    Both "tickets_resolved" Number count(S::TicketsResolved),
        [Priority count(S::TicketsResolved), Organization count(S::TicketsResolvedByOrganization)], "Tickets that were resolved; each time counts.";
    Both "ticket_backlog" Number Last(S::TicketBacklog), [Status Last(S::TicketBacklog)],
        "Tickets that are not finished, at the end of the bucket.";
    Both "first_response_p50_seconds" Seconds Percentile(S::FirstResponse, 50, 1.0), [Priority Percentile(S::FirstResponse, 50, 1.0)],
        "From the creation of a ticket to its first answer, the median.";
    Both "first_response_p90_seconds" Seconds Percentile(S::FirstResponse, 90, 1.0), [Priority Percentile(S::FirstResponse, 90, 1.0)],
        "The same, which nine of ten stayed within.";
    Both "resolution_p50_seconds" Seconds Percentile(S::Resolution, 50, 1.0), [Priority Percentile(S::Resolution, 50, 1.0)],
        "From the creation of a ticket to its resolution, the median.";
    Both "resolution_p90_seconds" Seconds Percentile(S::Resolution, 90, 1.0), [Priority Percentile(S::Resolution, 90, 1.0)],
        "The same, which nine of ten stayed within.";
    Both "sla_met_percent" Percent Share(all(S::SlaMet), all(S::TicketsResolved)), [Priority Share(all(S::SlaMet), all(S::TicketsResolved))],
        "Resolved tickets with every promise kept.";
    Both "reopen_rate_percent" Percent Share(all(S::TicketsReopened), all(S::TicketsResolved)), [],
        "Tickets that were opened again, by those that were resolved.";
    }
    WORKFLOWS {
    Both "workflow_runs" Number count(S::RunsStarted), [Workflow count(S::RunsStartedByWorkflow)], "Runs of workflows that began.";
    Both "workflow_runs_ended" Number count(S::RunsEnded), [Outcome count(S::RunsEnded)], "Runs of workflows that ended.";
    Both "workflow_success_percent" Percent Share(some(S::RunsEnded, &["succeeded"]), all(S::RunsEnded)), [],
        "Runs that succeeded, by those that ended.";
    Both "workflow_run_p95_seconds" Seconds Percentile(S::RunDuration, 95, 1000.0), [],
        "From the start of a run to its end, which 95 of 100 stayed within.";
    }
    DEVICES {
    Both "devices" Number Last(S::Devices), [], "Devices, at the end of the bucket.";
    Both "devices_online_percent" Percent LastShare(S::DevicesOnline, S::Devices), [], "Devices whose agent was online then.";
    Both "patch_compliance_percent" Percent LastShare(S::DevicesPatched, S::DevicesScanned), [],
        "Devices with all updates, by those of whose updates somebody has told.";
    }
    VMS {
    Both "vms" Number Last(S::Vms), [State Last(S::Vms)], "VMs, at the end of the bucket.";
    Both "vm_provision_success_percent" Percent Share(some(S::Provisions, &["succeeded"]), all(S::Provisions)), [],
        "VMs that came to be, by those that were ordered and settled.";
    }
    BACKUPS {
    Both "backup_coverage_percent" Percent LastShare(S::BackupProtected, S::BackupEligible), [],
        "Devices with a backup, by those that should have one.";
    Both "backup_rpo_breaches" Number count(S::RpoBreaches), [], "Times that a device's newest backup became too old.";
    Both "backup_jobs" Number count(S::BackupJobs), [Outcome count(S::BackupJobs)], "Backup jobs that ended or were missed.";
    Both "backup_job_success_percent" Percent Share(some(S::BackupJobs, &["succeeded"]), all(S::BackupJobs)), [],
        "Backup jobs that succeeded, by those that ended or were missed.";
    }
    NOTHING {
    Both "api_requests" Number count(S::Requests),
        [StatusClass count(S::Requests), Route count(S::RequestsByRoute), Key count(S::RequestsByCaller), Tenant count(S::RequestsByTenant)],
        "Requests to the API with a credential. By `key` also the sessions of users, by their ids; by `tenant` on the platform.";
    Both "api_request_p95_ms" Millis Percentile(S::RequestLatency, 95, 1000.0), [Route Percentile(S::RequestsByRoute, 95, 1000.0)],
        "How long the server took for a request, which 95 of 100 stayed within.";
    Platform "api_request_p50_ms" Millis Percentile(S::RequestLatency, 50, 1000.0), [Route Percentile(S::RequestsByRoute, 50, 1000.0)],
        "The same, the median.";
    Platform "api_request_p99_ms" Millis Percentile(S::RequestLatency, 99, 1000.0), [Route Percentile(S::RequestsByRoute, 99, 1000.0)],
        "The same, which 99 of 100 stayed within.";
    Platform "api_requests_per_second" Number Rate(S::Requests), [], "Requests a second, over the bucket.";
    Both "api_error_percent" Percent Share(some(S::Requests, &["5xx"]), all(S::Requests)), [],
        "Requests that failed for a reason of the server's.";
    }
    WEBHOOKS {
    Both "webhook_deliveries" Number count(S::Deliveries), [Outcome count(S::Deliveries)], "Attempts to deliver an event to a webhook endpoint.";
    Both "webhook_failures" Number Formula::Count(some(S::Deliveries, &["failed"])), [], "Attempts that the receiver did not take.";
    Both "webhook_lag_p95_ms" Millis Percentile(S::DeliveryLag, 95, 1.0), [],
        "From an event to its delivery, which 95 of 100 stayed within.";
    }
    USERS {
    Tenant "active_users" Number Distinct(S::RequestsByCaller, "usr_"), [], "Users with at least one request in the bucket.";
    }
    KEYS {
    Tenant "active_keys" Number Distinct(S::RequestsByCaller, "key_"), [], "API keys with at least one request in the bucket.";
    }
    NOTHING {
    Both "stored_bytes" Bytes Last(S::StoredBytes), [], "What records and events take up, without index entries: of the tenant, or of all tenants together.";
    }
    QUOTAS {
    Tenant "quota_events_per_day" Number LastOf(S::QuotaUsed, "events_per_day"), [], "Events since midnight UTC.";
    Tenant "quota_events_per_day_limit" Number LastOf(S::QuotaLimit, "events_per_day"), [], "The limit of events in a day.";
    Tenant "quota_records" Number LastOf(S::QuotaUsed, "records"), [], "Records of all kinds.";
    Tenant "quota_records_limit" Number LastOf(S::QuotaLimit, "records"), [], "The limit of records.";
    Tenant "quota_stored_bytes" Bytes LastOf(S::QuotaUsed, "stored_bytes"), [], "What records and events take up.";
    Tenant "quota_stored_bytes_limit" Bytes LastOf(S::QuotaLimit, "stored_bytes"), [], "The limit of stored bytes.";
    Tenant "quota_workflows" Number LastOf(S::QuotaUsed, "workflows"), [], "Workflows that are not archived.";
    Tenant "quota_workflows_limit" Number LastOf(S::QuotaLimit, "workflows"), [], "The limit of workflows.";
    Tenant "quota_concurrent_runs" Number LastOf(S::QuotaUsed, "concurrent_runs"), [], "Runs of workflows that have not ended.";
    Tenant "quota_concurrent_runs_limit" Number LastOf(S::QuotaLimit, "concurrent_runs"), [], "The limit of concurrent runs.";
    Tenant "quota_streams_limit" Number LastOf(S::QuotaLimit, "streams"), [], "The limit of imports, and of exports of each kind.";
    }
    NOTHING {
    Platform "tenants" Number Last(S::TenantsByKind), [Kind Last(S::TenantsByKind), Status Last(S::TenantsByStatus)], "Tenants.";
    Platform "queue_depth" Number Last(S::QueueDepth), [Queue Last(S::QueueDepth)], "What waits: deliveries, and events for readers of the log.";
    Platform "oldest_undelivered_seconds" Seconds Last(S::OldestUndelivered), [], "How long the oldest event that is due for delivery has waited.";
    Platform "database_bytes" Bytes Last(S::DatabaseBytes), [], "The store on the disk.";
    Platform "index_bytes" Bytes Last(S::IndexBytes), [], "The search index on the disk.";
    Platform "uptime_percent" Percent Share(all(S::MinutesUp), all(S::MinutesWatched)), [],
        "Minutes in which the server answered and stored, by all since it was first started.";
    }
}

impl Formula {
    /// The series that it reads.
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
    /// What a reader must hold for it, grouped or not. By `key` it names keys and users.
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

    /// How it is made when it is grouped so; `None` where that has no meaning. What a tenant's own words would show in is not for the
    /// platform, and tenants are nobody else's.
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
    fn names_are_unique_and_what_is_for_the_platform_reads_only_what_is_summed_for_it() {
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
