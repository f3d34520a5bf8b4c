//! `/api/platform/evaluations`: tenants with generated sample data, for people who try the product.

use std::sync::{Arc, OnceLock};

use poem_openapi::{Object, OpenApi, param::Path};
use serde::Serialize;

use tenantd_base::{access::TenantKind, clock::Timestamp, id::TenantId};
use tenantd_http::{
    idempotency::IdempotencyKey,
    input::Body,
    need::{Allowed, Operator},
    problem::Problem,
    reply::{Accepted, Created},
};

use super::{
    super::{
        admit,
        error::TenantError,
        evaluation::{Evaluation, SampleGenerator, SampleSpec},
        model::NewTenant,
        service::Tenants,
    },
    tenants::{Area, Tenant},
};

const DEFAULT_SEED: u64 = 1;
const DEFAULT_ORGANIZATIONS: u32 = 24;
const DEFAULT_DEVICES_EACH: u32 = 20;
const DEFAULT_TICKETS: u32 = 1000;
const DEFAULT_DAYS: u32 = 30;

/// An evaluation tenant to create.
#[derive(Debug, Object)]
struct CreateEvaluation {
    /// The display name of the tenant.
    #[oai(validator(min_length = 1, max_length = 100))]
    name: String,
    /// A short name for URLs and commands: lower-case letters, digits and inner hyphens, but not `platform`. Unique on the
    /// installation. When absent, tenantd derives it from the name. The email addresses in the sample data end with
    /// `<slug>.example`.
    #[oai(validator(min_length = 1, max_length = 63, pattern = "^[a-z0-9]([a-z0-9-]*[a-z0-9])?$"))]
    slug: Option<String>,
    /// The number of days until tenantd deletes the tenant. Defaults to 30.
    #[oai(validator(minimum(value = "1"), maximum(value = "365")))]
    expires_days: Option<u32>,
    /// The options for the generated data. When absent, all options have their defaults.
    sample: Option<Sample>,
}

/// The options for the generated data. The same options, slug and `at` give the same records with the same IDs.
#[derive(Debug, Default, Object)]
struct Sample {
    /// The seed of the generator. A different number gives different data. Defaults to 1.
    #[oai(validator(minimum(value = "0"), maximum(value = "4294967295")))]
    seed: Option<u64>,
    /// The number of customer organizations. Defaults to 24.
    #[oai(validator(minimum(value = "0"), maximum(value = "96")))]
    organizations: Option<u32>,
    /// The number of devices over all customers. Defaults to 20 for each customer; the maximum is 200 for each.
    #[oai(validator(minimum(value = "0"), maximum(value = "19200")))]
    devices: Option<u32>,
    /// The number of tickets. Defaults to 1,000, or to 0 without customers.
    #[oai(validator(minimum(value = "0"), maximum(value = "10000")))]
    tickets: Option<u32>,
    /// The time at which the generated history ends: now, or at most 30 days ago. Defaults to now.
    at: Option<Timestamp>,
    /// Whether tenantd starts some workflows at the end of the history. Defaults to false. These runs happen after `at`, so their
    /// results differ from tenant to tenant.
    runs: Option<bool>,
}

impl Sample {
    fn story(self, now: Timestamp) -> SampleSpec {
        let organizations = self.organizations.unwrap_or(DEFAULT_ORGANIZATIONS);
        SampleSpec {
            seed: self.seed.unwrap_or(DEFAULT_SEED),
            organizations,
            devices: self.devices.unwrap_or(organizations * DEFAULT_DEVICES_EACH),
            tickets: self.tickets.unwrap_or(if organizations == 0 { 0 } else { DEFAULT_TICKETS }),
            ends_at: self.at.unwrap_or(now),
            runs: self.runs.unwrap_or_default(),
        }
    }
}

/// A new evaluation tenant with the credentials of its visitor. No other response contains these credentials.
#[derive(Debug, Object, Serialize)]
struct EvaluationTenant {
    /// The new tenant.
    tenant: Tenant,
    /// The email address with which the visitor signs in. The user is an administrator of the tenant.
    email: String,
    /// The password of the visitor.
    password: String,
    /// An API key with all tenant scopes.
    api_key: String,
}

pub(crate) struct EvaluationsApi {
    pub(crate) tenants: Tenants,
    pub(crate) generator: Arc<OnceLock<Arc<dyn SampleGenerator>>>,
}

#[OpenApi(prefix_path = "/api/platform", tag = "Area::Platform")]
impl EvaluationsApi {
    /// Create an evaluation tenant
    ///
    /// Creates the tenant and fills it with sample data in the background: customers with their contacts and devices, three months
    /// of tickets, a month of backups, a year of metrics, and two simulated clouds. The status is first `preparing`, and the credentials
    /// do not work. It is then `filling`: the credentials can read what is there, and changes are refused with 503. When the data is
    /// complete, the status is `active`. tenantd deletes the tenant at `expires_at`.
    #[oai(path = "/evaluations", method = "post", operation_id = "create_evaluation")]
    async fn create_evaluation(
        &self,
        auth: Allowed<Operator>,
        idempotency_key: IdempotencyKey,
        body: Body<CreateEvaluation>,
    ) -> Result<Created<EvaluationTenant>, Problem> {
        let CreateEvaluation { name, slug, expires_days, sample } = body.0;
        let expires_days = Some(expires_days.unwrap_or(DEFAULT_DAYS));
        let new = NewTenant { name, slug, kind: TenantKind::Evaluation, expires_days };
        let story = sample.unwrap_or_default().story(auth.context.now);
        story.check(auth.context.now)?;
        let (access, admission) = admit(&self.generator, &new.slug()?, auth.context.now).await?;
        let (tenants, evaluation) = (self.tenants.clone(), Evaluation { story, admission });
        idempotency_key
            .run(auth.context.intent(&auth.principal), move |tx, act| {
                let tenant = tenants.create_evaluation(tx, act, &new, &evaluation)?;
                let location = format!("/api/platform/tenants/{}", tenant.id);
                let shown = EvaluationTenant {
                    tenant: Tenant::new(&tenant, None, act.now),
                    email: access.email.clone(),
                    password: access.password.expose().to_owned(),
                    api_key: access.api_key.expose().to_owned(),
                };
                Ok::<_, TenantError>(Created::new(&shown, tenant.version, &location).secret())
            })
            .await
    }

    /// Reset an evaluation tenant
    ///
    /// Restores the state after creation: removes all changes made by visitors and generates the sample data again. The credentials
    /// that its creation returned keep working. The status is `preparing` while tenantd removes data, and then `filling` until the sample data
    /// is complete.
    #[oai(path = "/tenants/:id/reset", method = "post", operation_id = "reset_tenant")]
    async fn reset_tenant(
        &self,
        auth: Allowed<Operator>,
        id: Path<TenantId>,
        idempotency_key: IdempotencyKey,
    ) -> Result<Accepted<Tenant>, Problem> {
        let tenants = self.tenants.clone();
        idempotency_key
            .run(auth.context.intent(&auth.principal), move |tx, act| {
                let tenant = tenants.begin_reset(tx, act, id.0)?;
                let location = format!("/api/platform/tenants/{}", tenant.id);
                Ok::<_, TenantError>(Accepted::new(&Tenant::new(&tenant, None, act.now), &location))
            })
            .await
    }
}
