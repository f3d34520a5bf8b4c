//! `/api/platform/evaluations`: tenants with an invented story, for whoever tries the product.

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
        evaluation::{Evaluation, Story, Storyteller},
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
    /// The name of the tenant.
    #[oai(validator(min_length = 1, max_length = 100))]
    name: String,
    /// Lower-case letters, digits and inner hyphens, but not `platform`. Made from the name when absent. The addresses of the story's
    /// staff come of it.
    #[oai(validator(min_length = 1, max_length = 63, pattern = "^[a-z0-9]([a-z0-9-]*[a-z0-9])?$"))]
    slug: Option<String>,
    /// Days until the tenant removes itself; 30 when absent.
    #[oai(validator(minimum(value = "1"), maximum(value = "365")))]
    expires_days: Option<u32>,
    sample: Option<Sample>,
}

/// What the invented story is made from. The same sample, slug and `at` give the same records with the same ids.
#[derive(Debug, Default, Object)]
struct Sample {
    /// Another number tells another story; 1 when absent.
    #[oai(validator(minimum(value = "0"), maximum(value = "4294967295")))]
    seed: Option<u64>,
    /// Customers; 24 when absent.
    #[oai(validator(minimum(value = "0"), maximum(value = "96")))]
    organizations: Option<u32>,
    /// Devices of all customers; 20 for each when absent, and at most 200 for each.
    #[oai(validator(minimum(value = "0"), maximum(value = "19200")))]
    devices: Option<u32>,
    /// Tickets; 1,000 when absent.
    #[oai(validator(minimum(value = "0"), maximum(value = "10000")))]
    tickets: Option<u32>,
    /// When the story ends: at most 30 days ago; now when absent.
    at: Option<Timestamp>,
    /// Whether some workflows are started at its end; false when absent. What they do takes place after the story, and is not the same
    /// twice.
    runs: Option<bool>,
}

impl Sample {
    fn story(self, now: Timestamp) -> Story {
        let organizations = self.organizations.unwrap_or(DEFAULT_ORGANIZATIONS);
        Story {
            seed: self.seed.unwrap_or(DEFAULT_SEED),
            organizations,
            devices: self.devices.unwrap_or(organizations * DEFAULT_DEVICES_EACH),
            tickets: self.tickets.unwrap_or(if organizations == 0 { 0 } else { DEFAULT_TICKETS }),
            ends_at: self.at.unwrap_or(now),
            runs: self.runs.unwrap_or_default(),
        }
    }
}

/// A new evaluation tenant, and what its visitor gets in with: it is told this once.
#[derive(Debug, Object, Serialize)]
struct EvaluationTenant {
    tenant: Tenant,
    /// Whom the visitor signs in as, an administrator of the tenant.
    email: String,
    password: String,
    /// An API key with every scope of the tenant.
    api_key: String,
}

pub(crate) struct EvaluationsApi {
    pub(crate) tenants: Tenants,
    pub(crate) storyteller: Arc<OnceLock<Arc<dyn Storyteller>>>,
}

#[OpenApi(prefix_path = "/api/platform", tag = "Area::Platform")]
impl EvaluationsApi {
    /// Create an evaluation tenant
    ///
    /// It is filled with an invented story in the background: customers, their people and devices, a quarter of a year of tickets, a month of
    /// backups, a year of figures, and two simulated clouds. Until that is done, its status is `preparing` and its credentials do not work
    /// yet. It removes itself when its days are over.
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
        let (access, admission) = admit(&self.storyteller, &new.slug()?, auth.context.now).await?;
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
    /// Everything in it becomes what it was after its creation: what visitors did is gone, and its story is told anew. The sign-in and the
    /// API key that its creation told go on working. Meanwhile its status is `preparing`.
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
