//! Counts and logs a request when it ends.

use std::{
    sync::{Arc, LazyLock},
    time::{Duration, Instant},
};

use http::{Method, StatusCode, Uri};

use tenantd_base::{
    access::{Identity, Principal, TenantKind},
    config::AccessLog,
    id::RequestId,
    telemetry::{Caller, RequestKey, StatusClass, Usage},
};

use super::{
    context::Client,
    operations::{Measures, Operation},
    rate::RateStatus,
};

/// What the edge learns about a request, for logs and metrics.
#[derive(Default)]
pub(super) struct RequestSummary {
    pub(super) operation: Option<Arc<Operation>>,
    pub(super) principal: Option<Arc<Principal>>,
    pub(super) rate_limit: Option<RateStatus>,
}

/// A request until it ends, which is when this is dropped. A streamed answer ends later than others.
pub(super) struct Visit {
    pub(super) request_id: RequestId,
    pub(super) client: Client,
    pub(super) method: Method,
    pub(super) uri: Uri,
    pub(super) started: Instant,
    pub(super) summary: RequestSummary,
    pub(super) status: StatusCode,
    pub(super) access_log: AccessLog,
    /// Counts requests that belong to no operation.
    pub(super) others: Arc<Measures>,
    pub(super) usage: Arc<Usage>,
}

/// Counts a request for the kind of its tenant, so that evaluations can be distinguished from customers.
fn count_kind(kind: TenantKind) {
    static COUNTERS: LazyLock<[(TenantKind, metrics::Counter); 3]> = LazyLock::new(|| {
        [TenantKind::Standard, TenantKind::Evaluation, TenantKind::Platform]
            .map(|kind| (kind, metrics::counter!("tenantd_tenant_requests_total", "kind" => kind.name())))
    });
    for (_, counter) in COUNTERS.iter().filter(|(known, _)| *known == kind) {
        counter.increment(1);
    }
}

/// Identifies the caller by an id that is not secret; empty without a credential.
fn caller(principal: Option<&Principal>) -> String {
    match principal.map(|principal| &principal.identity) {
        Some(Identity::User { id, .. } | Identity::Contact { id, .. }) => id.to_string(),
        Some(Identity::ApiKey { id, .. }) => id.to_string(),
        Some(Identity::LocalOperator) => "local_operator".to_owned(),
        None => String::new(),
    }
}

impl Visit {
    /// Counts the request for its tenant. Pages and probes belong to no tenant.
    fn count_usage(&self, took: Duration) {
        let Some(operation) = &self.summary.operation else { return };
        let principal = self.summary.principal.as_deref();
        let caller = match principal.map(|principal| &principal.identity) {
            Some(Identity::User { id, .. } | Identity::Contact { id, .. }) => Caller::User(*id),
            Some(Identity::ApiKey { id, .. }) => Caller::ApiKey(*id),
            Some(Identity::LocalOperator) | None => Caller::Other,
        };
        let tenant = principal.map(|principal| principal.tenant_id);
        if let Some(principal) = principal {
            count_kind(principal.tenant_kind);
        }
        let (route, class) = (operation.route(&self.usage), StatusClass::of(self.status.as_u16()));
        self.usage.request(RequestKey { tenant, caller, route, class }, took);
    }
}

impl Drop for Visit {
    /// Counts the request, and logs it if the access log includes it.
    fn drop(&mut self) {
        let (took, status) = (self.started.elapsed(), self.status);
        let (operation, measures) = match &self.summary.operation {
            Some(operation) => (&*operation.id, &operation.measures),
            None => ("none", &*self.others),
        };
        measures.record(operation, status, took);
        self.count_usage(took);
        let failed = status.is_client_error() || status.is_server_error();
        let notable = failed || self.method != Method::GET || took > Duration::from_secs(1);
        let logged = match self.access_log {
            AccessLog::All => true,
            AccessLog::Changes => notable,
            AccessLog::Errors => failed,
            AccessLog::None => false,
        };
        if logged {
            let Self { request_id, client, method, .. } = self;
            let principal = self.summary.principal.as_deref();
            let tenant = principal.map(|principal| principal.tenant_id.to_string()).unwrap_or_default();
            let caller = caller(principal);
            let millis = took.as_micros() as f64 / 1000.0;
            let (path, status) = (self.uri.path(), status.as_u16());
            tracing::info!(%request_id, %client, tenant, caller, %method, path, operation, status, millis, "request");
        }
    }
}
