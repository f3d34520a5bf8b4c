//! `/api/analytics`.

use poem::Request;
use poem_openapi::OpenApi;

use tenantd_base::{access::Principal, clock::Timestamp, id::TenantId};
use tenantd_http::{
    context::header,
    export::RowFormat,
    input::Filter,
    mark::{Marked, Report},
    need::{Allowed, AnalyticsRead, PlatformRead},
    outgoing::{ListOrStream, Streams},
    problem::Problem,
};
use tenantd_store::{Store, StoreError};

use super::{
    super::{
        query::Subject,
        service::{self, QueryParams},
    },
    Area, export,
    wire::{AnalyticsQuery, AnalyticsReport, Format},
};

pub(crate) struct AnalyticsApi {
    pub(crate) store: Store,
    pub(crate) exports: Streams,
    pub(crate) started_at: Timestamp,
}

#[OpenApi(prefix_path = "/api/analytics", tag = "Area::Analytics")]
impl AnalyticsApi {
    /// Report the tenant's metrics
    ///
    /// Returns metrics over time. tenantd computes them in the background, so response time does not grow with the amount of
    /// activity. Each point is one bucket in the requested time zone. Counts are 0 for an empty bucket; percentiles, shares and
    /// samples have no point there. Percentiles are accurate to within 1.6 %.
    ///
    /// Tickets: `tickets_created`, `tickets_resolved`, `ticket_backlog`, `first_response_p50_seconds`,
    /// `first_response_p90_seconds`, `resolution_p50_seconds`, `resolution_p90_seconds`, `sla_met_percent`, `reopen_rate_percent`.
    /// Workflows: `workflow_runs`, `workflow_runs_ended`, `workflow_success_percent`, `workflow_run_p95_seconds`. Devices:
    /// `devices`, `devices_online_percent`, `patch_compliance_percent`. Clouds: `vms`, `vm_provision_success_percent`. Backups:
    /// `backup_coverage_percent`, `backup_rpo_breaches`, `backup_jobs`, `backup_job_success_percent`. API: `api_requests`,
    /// `api_request_p95_ms`, `api_error_percent`, `active_users`, `active_keys`. Webhooks: `webhook_deliveries`,
    /// `webhook_failures`, `webhook_lag_p95_ms`. Storage: `stored_bytes`. Quotas, all of them as `quota_*`: `quota_events_per_day`,
    /// `quota_events_per_day_limit`, `quota_records`, `quota_records_limit`, `quota_stored_bytes`, `quota_stored_bytes_limit`,
    /// `quota_workflows`, `quota_workflows_limit`, `quota_concurrent_runs`, `quota_concurrent_runs_limit`, `quota_streams_limit`.
    ///
    /// `group_by` takes `priority` (tickets), `organization` (tickets created and resolved), `status` (backlog), `workflow` (runs),
    /// `outcome` (ended runs, backup jobs, deliveries), `state` (VMs), `key`, `route` and `status_class` (requests).
    ///
    /// Each metric also requires the scope that reads the records it counts: `tickets:read` for ticket metrics, and likewise
    /// `workflows:read`, `inventory:read`, `vms:read`, `backup:read`, `webhooks:read` and `quotas:read`. `active_users` requires
    /// `users:read`, `active_keys` requires `api_keys:read`, and `group_by=key` requires both. If you omit `metrics`, the report
    /// contains every metric that your scopes allow.
    ///
    /// `totals` cover the whole range and do not depend on `bucket`. The first and the last bucket are cut at the ends of the
    /// range, and their points are marked `partial`. Whole numbers have no decimal point.
    ///
    /// tenantd takes samples (`ticket_backlog`, devices, VMs, backup coverage, `stored_bytes`, quotas) once an hour, and within
    /// five minutes for a new tenant. The last sample of a bucket is its point; the last sample of the range is the total.
    /// `stored_bytes` is the size of the tenant's records and events as the quota counts it, without index entries and derived
    /// data. A credential that is restricted to organizations cannot read these metrics, because they cover the whole tenant.
    #[oai(path = "/tenant", method = "get", operation_id = "report_tenant_analytics")]
    async fn report_tenant_analytics(
        &self,
        auth: Allowed<AnalyticsRead>,
        _class: Marked<Report>,
        request: &Request,
        query: Filter<AnalyticsQuery>,
    ) -> Result<ListOrStream<AnalyticsReport>, Problem> {
        let format = format(&query.0, request);
        let subject = Subject::Tenant(auth.principal.tenant_id);
        let report = self.report(query.0.into_params(), (subject, &auth.principal), auth.context.now).await?;
        self.send(auth.principal.tenant_id, &report, format)
    }

    /// Report the metrics of the installation
    ///
    /// Returns the metrics of all tenants together, and metrics for the operator: `tenants` (by `kind` and `status`),
    /// `api_requests` by `tenant` (the ids of the tenants with the most load), `api_requests_per_second`, `api_request_p50_ms`,
    /// `api_request_p99_ms`, `queue_depth` (by `queue`), `oldest_undelivered_seconds`, `database_bytes`, `index_bytes` and
    /// `uptime_percent`. The report also contains the server's version and start time. It contains no tenant data: groups are
    /// predefined words or tenant ids. `stored_bytes` is the sum over all tenants; `database_bytes` is the size of the files,
    /// including indexes, the journal and free pages.
    ///
    /// Available to the operator of the installation, and to keys of the platform tenant with `platform:read`.
    #[oai(path = "/platform", method = "get", operation_id = "report_platform_analytics")]
    async fn report_platform_analytics(
        &self,
        auth: Allowed<PlatformRead>,
        _class: Marked<Report>,
        request: &Request,
        query: Filter<AnalyticsQuery>,
    ) -> Result<ListOrStream<AnalyticsReport>, Problem> {
        let format = format(&query.0, request);
        let mut report = self.report(query.0.into_params(), (Subject::Platform, &auth.principal), auth.context.now).await?;
        report.version = Some(env!("CARGO_PKG_VERSION").to_owned());
        report.started_at = Some(self.started_at);
        self.send(auth.principal.tenant_id, &report, format)
    }
}

fn format(query: &AnalyticsQuery, request: &Request) -> Option<RowFormat> {
    match query.format {
        Some(Format::Json) => None,
        Some(Format::Csv) => Some(RowFormat::Csv),
        Some(Format::Ndjson) => Some(RowFormat::Ndjson),
        None => RowFormat::accepted(header(request.headers(), "accept").unwrap_or_default()),
    }
}

impl AnalyticsApi {
    async fn report(
        &self,
        params: QueryParams,
        (subject, reader): (Subject, &Principal),
        now: Timestamp,
    ) -> Result<AnalyticsReport, Problem> {
        let question = service::validate(&params, subject, reader.grants, now)?;
        let read = self.store.scan_for(reader.tenant_id, move |tx| {
            let answer = service::answer(tx, &question)?;
            Ok::<_, StoreError>(AnalyticsReport::new(&question, answer))
        });
        Ok(read.await?)
    }

    fn send(
        &self,
        tenant: TenantId,
        report: &AnalyticsReport,
        format: Option<RowFormat>,
    ) -> Result<ListOrStream<AnalyticsReport>, Problem> {
        match format {
            Some(format) => Ok(ListOrStream::Stream(export::start(&self.exports, tenant, report, format)?)),
            None => Ok(ListOrStream::whole(report)),
        }
    }
}
