//! `/api/platform/tenants`: for the operator, over a session of the platform tenant or the admin socket.

use std::time::Duration;

use poem_openapi::{Enum, Object, OpenApi, Tags, param::Path};
use serde::Serialize;
use serde_json::value::to_raw_value;
use serde_with::skip_serializing_none;

use tenantd_base::{access::TenantKind, clock::Timestamp, id::TenantId};
use tenantd_http::{
    idempotency::IdempotencyKey,
    input::{Body, Filter},
    need::{Allowed, Operator},
    page::{PageQuery, PageRequest},
    precondition::{IfMatch, IfNoneMatch},
    problem::Problem,
    reply::{Accepted, Changed, Created, Found, Listed},
    shape::Shape,
    wire::{Word, word_type},
};
use tenantd_store::{
    Key, Store, StoreError,
    events::{Describe, Described},
};

use super::super::{
    activity,
    error::TenantError,
    model::{self, NewTenant, TenantStatus},
    service::Tenants,
};

#[derive(Tags)]
pub(super) enum Area {
    /// The installation and its tenants. For the operator.
    Platform,
}

/// What a new tenant can be.
#[derive(Clone, Copy, Debug, Enum)]
#[oai(rename_all = "snake_case")]
enum NewKind {
    Standard,
    Evaluation,
}

word_type! {
    stored: TenantStatus, "Status";
}

/// A customer of this installation, with everything that belongs to it.
#[skip_serializing_none]
#[derive(Debug, Object, Serialize)]
pub(super) struct Tenant {
    id: TenantId,
    /// The customer's name.
    #[oai(validator(min_length = 1, max_length = 100))]
    name: String,
    /// A short name for URLs and commands, unique on the installation.
    slug: String,
    kind: TenantKind,
    status: Word<TenantStatus>,
    created_at: Timestamp,
    updated_at: Timestamp,
    /// When an evaluation tenant ends.
    expires_at: Option<Timestamp>,
    /// Only of an evaluation tenant, whose clock is its own.
    clock: Option<TenantClock>,
    /// What the tenant does, without any of its content.
    activity: Option<Activity>,
    /// Counts the changes of this record.
    version: u64,
}

/// The clock of an evaluation tenant. Its data is in this time: what is due, what expires, when its events happened.
#[derive(Debug, Object, Serialize)]
struct TenantClock {
    /// The time of the tenant.
    now: Timestamp,
    /// By how much it is ahead of the installation's.
    #[oai(validator(minimum(value = "0")))]
    ahead_seconds: u64,
}

/// How alive a tenant is.
#[derive(Debug, Object, Serialize)]
struct Activity {
    /// Events since the tenant was created.
    events: u64,
    /// When the last event happened.
    last_event_at: Timestamp,
}

impl Tenant {
    /// As it is shown at `now` of the installation.
    pub(super) fn new(tenant: &model::Tenant, activity: Option<activity::TenantActivity>, now: Timestamp) -> Self {
        let clock = || TenantClock { now: now + tenant.clock_ahead, ahead_seconds: tenant.clock_ahead.as_secs() };
        Self {
            id: tenant.id,
            name: tenant.name.clone(),
            slug: tenant.slug.clone(),
            kind: tenant.kind,
            status: tenant.status.into(),
            created_at: tenant.created_at,
            updated_at: tenant.updated_at,
            expires_at: tenant.expires_at,
            clock: tenant.id.has_own_clock().then(clock),
            activity: activity.map(|activity| Activity { events: activity.events, last_event_at: activity.last_event_at }),
            version: tenant.version,
        }
    }
}

impl Describe for model::Tenant {
    fn describe(&self, (): ()) -> Described {
        to_raw_value(&Tenant::new(self, None, self.updated_at))
    }
}

/// The bounds of a tenant's fields, for one that comes from another installation.
pub(crate) fn tenant_fields() -> Result<Shape, String> {
    Shape::fields::<CreateTenant>(&["name", "slug"])
}

/// A tenant to create.
#[derive(Debug, Object)]
struct CreateTenant {
    /// The customer's name.
    #[oai(validator(min_length = 1, max_length = 100))]
    name: String,
    /// Lower-case letters, digits and inner hyphens, but not `platform`. Made from the name when absent; a name without a letter
    /// from a to z and without a digit needs one.
    #[oai(validator(min_length = 1, max_length = 63, pattern = "^[a-z0-9]([a-z0-9-]*[a-z0-9])?$"))]
    slug: Option<String>,
    /// `standard` when absent.
    kind: Option<NewKind>,
    /// Days until an evaluation tenant ends; only for that kind.
    #[oai(validator(minimum(value = "1"), maximum(value = "365")))]
    expires_days: Option<u32>,
}

/// By how much a clock is advanced.
#[derive(Debug, Object)]
struct AdvanceClock {
    /// At most 366 days at one time.
    #[oai(validator(minimum(value = "1"), maximum(value = "31622400")))]
    advance_seconds: u32,
}

#[derive(Debug, Object)]
struct ListTenants {
    /// The tenant with this slug.
    #[oai(validator(min_length = 1, max_length = 63))]
    slug: Option<String>,
    #[oai(flatten)]
    page: PageQuery,
}

#[derive(Debug, Object)]
struct DeleteTenant {
    /// The slug of the tenant, so that it is not another one that is deleted.
    #[oai(validator(min_length = 1, max_length = 63))]
    confirm: String,
}

pub(crate) struct TenantsApi {
    pub(crate) tenants: Tenants,
    pub(crate) store: Store,
}

#[OpenApi(prefix_path = "/api/platform/tenants", tag = "Area::Platform")]
impl TenantsApi {
    /// List tenants
    ///
    /// In the order of their creation.
    #[oai(path = "/", method = "get", operation_id = "list_tenants")]
    async fn list_tenants(&self, auth: Allowed<Operator>, query: Filter<ListTenants>) -> Result<Listed<Tenant>, Problem> {
        let request = PageRequest::new(&auth.context, &query.0.page)?;
        let after = request.after.as_deref().and_then(<TenantId as Key>::from_bytes);
        let (tenants, slug) = (self.tenants.clone(), query.0.slug);
        let (limit, count, now) = (request.limit, request.include_total, auth.context.now);
        let (data, more, total) = self
            .store
            .scan(move |tx| {
                let (found, more, total) = if let Some(slug) = &slug {
                    let found: Vec<model::Tenant> = tenants.find(tx, slug)?.into_iter().collect();
                    let total = found.len() as u64;
                    (found, false, count.then_some(total))
                } else {
                    let (found, more) = tenants.list(tx, after, limit)?;
                    (found, more, if count { Some(tenants.count(tx)?) } else { None })
                };
                let mut data = Vec::with_capacity(found.len());
                for tenant in &found {
                    data.push(Tenant::new(tenant, activity::get(tx, tenant.id)?, now));
                }
                Ok::<_, StoreError>((data, more, total))
            })
            .await?;
        let last = data.last().filter(|_| more).map(|tenant| tenant.id.to_bytes());
        Ok(Listed::new(&data, &request.page(last, total)))
    }

    /// Create a tenant
    ///
    /// The tenant is active at once. It has no users and no keys yet.
    #[oai(path = "/", method = "post", operation_id = "create_tenant")]
    async fn create_tenant(
        &self,
        auth: Allowed<Operator>,
        idempotency_key: IdempotencyKey,
        body: Body<CreateTenant>,
    ) -> Result<Created<Tenant>, Problem> {
        let CreateTenant { name, slug, kind, expires_days } = body.0;
        let kind = match kind {
            None | Some(NewKind::Standard) => TenantKind::Standard,
            Some(NewKind::Evaluation) => TenantKind::Evaluation,
        };
        if expires_days.is_some() && kind != TenantKind::Evaluation {
            let message = "only an evaluation tenant ends by itself";
            let error = tenantd_http::problem::FieldError::pointer("/expires_days", "not_allowed", message);
            return Err(Problem::invalid(vec![error]));
        }
        let new = NewTenant { name, slug, kind, expires_days };
        let tenants = self.tenants.clone();
        idempotency_key
            .run(auth.context.intent(&auth.principal), move |tx, act| {
                let tenant = tenants.create(tx, act, &new)?;
                let location = format!("/api/platform/tenants/{}", tenant.id);
                Ok::<_, TenantError>(Created::new(&Tenant::new(&tenant, None, act.now), tenant.version, &location))
            })
            .await
    }

    /// Read a tenant
    ///
    /// With its activity, and without any of its content.
    #[oai(path = "/:id", method = "get", operation_id = "read_tenant")]
    async fn read_tenant(
        &self,
        auth: Allowed<Operator>,
        id: Path<TenantId>,
        if_none_match: IfNoneMatch,
    ) -> Result<Found<Tenant>, Problem> {
        let (tenant, activity) = self.store.read(|tx| {
            let tenant = self.tenants.get(tx, id.0)?;
            Ok::<_, TenantError>((tenant, activity::get(tx, id.0)?))
        })?;
        if if_none_match.knows(tenant.version) {
            return Ok(Found::not_modified(tenant.version));
        }
        Ok(Found::new(&Tenant::new(&tenant, activity, auth.context.now), tenant.version))
    }

    /// Suspend a tenant
    ///
    /// Every request of the tenant is refused with `tenant_suspended` until it is resumed. Meanwhile its deliveries wait, its events and
    /// schedules start no workflow, and its runs rest. Nothing is removed.
    #[oai(path = "/:id/suspend", method = "post", operation_id = "suspend_tenant")]
    async fn suspend_tenant(
        &self,
        auth: Allowed<Operator>,
        id: Path<TenantId>,
        idempotency_key: IdempotencyKey,
    ) -> Result<Changed<Tenant>, Problem> {
        self.set_status(auth, id.0, idempotency_key, TenantStatus::Suspended).await
    }

    /// Resume a suspended tenant
    ///
    /// The tenant works again as before: waiting deliveries are sent at once, and runs continue within 15 minutes. Nothing happens to a
    /// tenant that is active.
    #[oai(path = "/:id/resume", method = "post", operation_id = "resume_tenant")]
    async fn resume_tenant(
        &self,
        auth: Allowed<Operator>,
        id: Path<TenantId>,
        idempotency_key: IdempotencyKey,
    ) -> Result<Changed<Tenant>, Problem> {
        self.set_status(auth, id.0, idempotency_key, TenantStatus::Active).await
    }

    /// Delete a tenant
    ///
    /// For good, with everything that belongs to it. From now on nothing of it works; its records are removed in the background, and the
    /// tenant is listed as `deleting` until the last is gone. Then its slug and the addresses of its people are free, and only the
    /// operator's own history still names it. `confirm` is the tenant's slug once more.
    #[oai(path = "/:id", method = "delete", operation_id = "delete_tenant")]
    async fn delete_tenant(
        &self,
        auth: Allowed<Operator>,
        id: Path<TenantId>,
        query: Filter<DeleteTenant>,
        if_match: IfMatch,
    ) -> Result<Accepted<Tenant>, Problem> {
        let (tenants, intent, confirm) = (self.tenants.clone(), auth.context.intent(&auth.principal), query.0.confirm);
        let tenant = self.store.write(move |tx| tenants.begin_deletion(tx, &mut intent.begin(), id.0, &if_match, &confirm)).await?;
        let shown = Tenant::new(&tenant, None, auth.context.now);
        Ok(Accepted::new(&shown, &format!("/api/platform/tenants/{}", tenant.id)))
    }

    /// Advance the clock of an evaluation tenant
    ///
    /// What falls due in the tenant by then happens at once: service levels are missed, keys expire, backups are late, schedules and
    /// timers of workflows come, deliveries are tried again. Nobody else's time changes, and neither does what guards people: sessions,
    /// tokens and rate limits follow the installation's clock. A clock cannot be set back.
    #[oai(path = "/:id/clock", method = "post", operation_id = "advance_tenant_clock")]
    async fn advance_tenant_clock(
        &self,
        auth: Allowed<Operator>,
        id: Path<TenantId>,
        idempotency_key: IdempotencyKey,
        body: Body<AdvanceClock>,
    ) -> Result<Changed<Tenant>, Problem> {
        let (tenants, span) = (self.tenants.clone(), Duration::from_secs(body.0.advance_seconds.into()));
        let changed = idempotency_key
            .run(auth.context.intent(&auth.principal), move |tx, act| {
                let tenant = tenants.advance_clock(tx, act, id.0, span)?;
                Ok::<_, TenantError>(Changed::new(&Tenant::new(&tenant, None, act.now), tenant.version))
            })
            .await?;
        // The keeper of the clocks does so too, a moment later; whoever has the answer can count on it.
        self.tenants.follow_clocks()?;
        Ok(changed)
    }
}

impl TenantsApi {
    async fn set_status(
        &self,
        auth: Allowed<Operator>,
        id: TenantId,
        idempotency_key: IdempotencyKey,
        status: TenantStatus,
    ) -> Result<Changed<Tenant>, Problem> {
        let tenants = self.tenants.clone();
        idempotency_key
            .run(auth.context.intent(&auth.principal), move |tx, act| {
                let tenant = tenants.set_status(tx, act, id, status)?;
                Ok::<_, TenantError>(Changed::new(&Tenant::new(&tenant, None, act.now), tenant.version))
            })
            .await
    }
}
