//! `/api/admin/quotas` for a tenant, and `/api/platform/tenants/{id}/quotas` for the operator.

use poem_openapi::{Object, OpenApi, Tags, param::Path};
use serde::Serialize;
use serde_json::value::to_raw_value;
use serde_with::skip_serializing_none;

use tenantd_base::{clocks::Clocks, id::TenantId, quotas::Quota};
use tenantd_http::{
    input::Body,
    need::{Allowed, Operator, QuotasRead},
    problem::Problem,
    reply::Answer,
    wire::word_type,
};
use tenantd_store::{
    Store,
    events::{Describe, Described},
};

use super::{
    model::{Level, Standing, TenantStandings},
    service::{QuotaError, Service},
};

#[derive(Tags)]
enum Area {
    /// Quotas of a tenant, and how much of them it uses.
    Quotas,
}

impl From<QuotaError> for Problem {
    fn from(error: QuotaError) -> Self {
        match error {
            QuotaError::Tenant(error) => error.into(),
            QuotaError::Event(error) => Self::internal(error),
            QuotaError::Store(error) => error.into(),
        }
    }
}

word_type! {
    Level, "QuotaStatus";
}

/// A tenant's limit and use of one quota.
#[skip_serializing_none]
#[derive(Debug, Object, Serialize)]
struct QuotaStanding {
    /// The quota.
    quota: Quota,
    /// The maximum that the tenant may use.
    limit: u64,
    /// The current use. Absent for `streams`, which tenantd counts only while they are open.
    used: Option<u64>,
    /// The used share of the limit in percent, rounded down. Absent for `streams`.
    percent: Option<u64>,
    /// How close the use is to the limit: `ok`, `near` from 80 %, or `reached`.
    status: Level,
    /// Whether the operator set this limit for the tenant. If `false`, the limit of the installation applies.
    own_limit: bool,
}

impl From<&Standing> for QuotaStanding {
    fn from(standing: &Standing) -> Self {
        Self {
            quota: standing.quota,
            limit: standing.limit,
            used: standing.used,
            percent: standing.percent(),
            status: standing.level(),
            own_limit: standing.own,
        }
    }
}

/// All quotas of a tenant.
#[derive(Debug, Object, Serialize)]
struct TenantQuotas {
    /// The id of the tenant.
    tenant_id: TenantId,
    /// One entry per quota.
    quotas: Vec<QuotaStanding>,
}

impl TenantQuotas {
    fn new(tenant_id: TenantId, standings: &[Standing]) -> Self {
        Self { tenant_id, quotas: standings.iter().map(QuotaStanding::from).collect() }
    }
}

/// The limits of one tenant. A quota that you omit gets the limit of the installation.
#[derive(Debug, Object)]
struct SetQuotas {
    /// The maximum number of events per day.
    #[oai(validator(minimum(value = "0"), maximum(value = "9007199254740991")))]
    events_per_day: Option<u64>,
    /// The maximum number of stored records.
    #[oai(validator(minimum(value = "0"), maximum(value = "9007199254740991")))]
    records: Option<u64>,
    /// The maximum number of stored bytes.
    #[oai(validator(minimum(value = "0"), maximum(value = "9007199254740991")))]
    stored_bytes: Option<u64>,
    /// The maximum number of workflows.
    #[oai(validator(minimum(value = "0"), maximum(value = "9007199254740991")))]
    workflows: Option<u64>,
    /// The maximum number of concurrent workflow runs.
    #[oai(validator(minimum(value = "0"), maximum(value = "9007199254740991")))]
    concurrent_runs: Option<u64>,
    /// The maximum number of concurrent imports, and of concurrent exports of each kind.
    #[oai(validator(minimum(value = "0"), maximum(value = "9007199254740991")))]
    streams: Option<u64>,
}

impl SetQuotas {
    fn own(&self) -> Vec<(Quota, u64)> {
        let limit = |quota| match quota {
            Quota::EventsPerDay => self.events_per_day,
            Quota::Records => self.records,
            Quota::StoredBytes => self.stored_bytes,
            Quota::Workflows => self.workflows,
            Quota::ConcurrentRuns => self.concurrent_runs,
            Quota::Streams => self.streams,
        };
        Quota::ALL.iter().filter_map(|quota| Some((*quota, limit(*quota)?))).collect()
    }
}

impl Describe for Standing {
    fn describe(&self, (): ()) -> Described {
        to_raw_value(&QuotaStanding::from(self))
    }
}

impl Describe for TenantStandings<'_> {
    fn describe(&self, (): ()) -> Described {
        to_raw_value(&TenantQuotas::new(self.tenant_id, self.standings))
    }
}

pub(super) struct QuotasApi {
    pub(super) store: Store,
    pub(super) service: Service,
}

#[OpenApi(prefix_path = "/api/admin/quotas", tag = "Area::Quotas")]
impl QuotasApi {
    /// Read the quotas of your tenant
    ///
    /// Returns the limit and the current use of each quota. At the limit, requests that create something fail with
    /// `quota_exceeded`. Changes work for another 10 %, and deletions always work. tenantd sends the event `quota.warning` at 80 %.
    /// The metrics `quota_*` of `/api/analytics/tenant` show the use over time.
    #[oai(path = "/", method = "get", operation_id = "read_quotas")]
    async fn read_quotas(&self, auth: Allowed<QuotasRead>) -> Result<Answer<TenantQuotas>, Problem> {
        let tenant = auth.principal.tenant_id;
        let standings = self.store.read(|tx| self.service.standings(tx, tenant, auth.context.now))?;
        Ok(Answer::new(&TenantQuotas::new(tenant, &standings)))
    }
}

pub(super) struct TenantQuotasApi {
    pub(super) store: Store,
    pub(super) service: Service,
    pub(super) clocks: Clocks,
}

#[OpenApi(prefix_path = "/api/platform/tenants", tag = "Area::Quotas")]
impl TenantQuotasApi {
    /// Read the quotas of a tenant
    ///
    /// Returns the limit and the current use of each quota. The response contains no data of the tenant.
    #[oai(path = "/:id/quotas", method = "get", operation_id = "read_tenant_quotas")]
    async fn read_tenant_quotas(&self, _auth: Allowed<Operator>, id: Path<TenantId>) -> Result<Answer<TenantQuotas>, Problem> {
        let standings = self.store.read(|tx| {
            self.service.tenants.get(tx, id.0)?;
            Ok::<_, QuotaError>(self.service.standings(tx, id.0, self.clocks.now(id.0))?)
        })?;
        Ok(Answer::new(&TenantQuotas::new(id.0, &standings)))
    }

    /// Set the quotas of a tenant
    ///
    /// Replaces all limits that were set for the tenant. A quota that the request omits gets the limit of the installation. If a
    /// limit is below the current use, tenantd refuses requests that increase the use, but removes nothing.
    #[oai(path = "/:id/quotas", method = "put", operation_id = "set_tenant_quotas")]
    async fn set_tenant_quotas(
        &self,
        auth: Allowed<Operator>,
        id: Path<TenantId>,
        body: Body<SetQuotas>,
    ) -> Result<Answer<TenantQuotas>, Problem> {
        let (service, own, tenant_now) = (self.service.clone(), body.0.own(), self.clocks.now(id.0));
        let intent = auth.context.intent(&auth.principal);
        let set = self.store.write(move |tx| service.set(tx, &mut intent.begin(), id.0, own.clone(), tenant_now));
        Ok(Answer::new(&TenantQuotas::new(id.0, &set.await?)))
    }
}
