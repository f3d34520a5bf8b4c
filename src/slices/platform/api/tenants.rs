//! `/api/platform/tenants`: manages tenants. For the operator, with a session of the platform tenant or over the admin socket.

use std::time::Duration;

use poem_openapi::{Enum, Object, OpenApi, Tags, param::Path};
use serde::Serialize;
use serde_json::value::to_raw_value;
use serde_with::skip_serializing_none;

use tenantd_base::{access::TenantKind, clock::Timestamp, id::TenantId};
use tenantd_http::{
    idempotency::IdempotencyKey,
    input::{Body, Filter},
    mark::{Marked, RecentSignIn},
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
    /// The installation and its tenants. Only the operator can use these operations.
    Platform,
}

/// The kinds that a request can create.
#[derive(Clone, Copy, Debug, Enum)]
#[oai(rename_all = "snake_case")]
enum NewKind {
    Standard,
    Evaluation,
}

word_type! {
    stored: TenantStatus, "Status";
}

/// A customer of this installation, with all data that belongs to it.
#[skip_serializing_none]
#[derive(Debug, Object, Serialize)]
pub(super) struct Tenant {
    /// The ID of the tenant.
    id: TenantId,
    /// The display name of the tenant.
    #[oai(validator(min_length = 1, max_length = 100))]
    name: String,
    /// A short name for URLs and commands, unique on the installation.
    slug: String,
    /// The kind of tenant.
    kind: TenantKind,
    /// The status of the tenant.
    status: Word<TenantStatus>,
    /// When the tenant was created.
    created_at: Timestamp,
    /// When the record was last changed.
    updated_at: Timestamp,
    /// When tenantd deletes the tenant. Only for evaluation tenants.
    expires_at: Option<Timestamp>,
    /// The tenant's own clock. Only for evaluation tenants.
    clock: Option<TenantClock>,
    /// The tenant's activity, without any of its content.
    activity: Option<Activity>,
    /// The version of the record. It increases with each change.
    version: u64,
}

/// The clock of an evaluation tenant. Due times, expirations and event times in the tenant use this clock.
#[derive(Debug, Object, Serialize)]
struct TenantClock {
    /// The current time of the tenant.
    now: Timestamp,
    /// The number of seconds by which it is ahead of the installation's clock.
    #[oai(validator(minimum(value = "0")))]
    ahead_seconds: u64,
}

/// The activity of a tenant.
#[derive(Debug, Object, Serialize)]
struct Activity {
    /// The number of events since the tenant was created.
    events: u64,
    /// The time of the last event.
    last_event_at: Timestamp,
}

impl Tenant {
    /// Builds the wire form. `now` is the installation's time.
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

/// The limits for the fields of a tenant, applied to a tenant from another installation.
pub(crate) fn tenant_fields() -> Result<Shape, String> {
    Shape::fields::<CreateTenant>(&["name", "slug"])
}

/// A tenant to create.
#[derive(Debug, Object)]
struct CreateTenant {
    /// The display name of the tenant.
    #[oai(validator(min_length = 1, max_length = 100))]
    name: String,
    /// A short name for URLs and commands: lower-case letters, digits and inner hyphens, but not `platform`. When absent, tenantd
    /// derives it from the name. Required if the name contains no letter from a to z and no digit.
    #[oai(validator(min_length = 1, max_length = 63, pattern = "^[a-z0-9]([a-z0-9-]*[a-z0-9])?$"))]
    slug: Option<String>,
    /// The kind of tenant. Defaults to `standard`.
    kind: Option<NewKind>,
    /// The number of days until tenantd deletes the tenant. Only for evaluation tenants. When absent, the tenant does not expire.
    #[oai(validator(minimum(value = "1"), maximum(value = "365")))]
    expires_days: Option<u32>,
}

/// The time by which to advance a clock.
#[derive(Debug, Object)]
struct AdvanceClock {
    /// The number of seconds to advance. At most 366 days per request.
    #[oai(validator(minimum(value = "1"), maximum(value = "31622400")))]
    advance_seconds: u32,
}

#[derive(Debug, Object)]
struct ListTenants {
    /// Returns only the tenant with this slug.
    #[oai(validator(min_length = 1, max_length = 63))]
    slug: Option<String>,
    /// Returns only tenants with one of these statuses.
    #[oai(validator(min_items = 1, max_items = 4))]
    status: Option<Vec<Word<TenantStatus>>>,
    #[oai(flatten)]
    page: PageQuery,
}

#[derive(Debug, Object)]
struct DeleteTenant {
    /// The slug of the tenant, as a confirmation that you delete the right one.
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
    /// Returns the tenants that match all filters, with their activity, oldest first.
    #[oai(path = "/", method = "get", operation_id = "list_tenants")]
    async fn list_tenants(&self, auth: Allowed<Operator>, query: Filter<ListTenants>) -> Result<Listed<Tenant>, Problem> {
        let request = PageRequest::new(&auth.context, &query.0.page)?;
        let after = request.after.as_deref().and_then(<TenantId as Key>::from_bytes);
        let ListTenants { slug, status, .. } = query.0;
        let statuses: Vec<TenantStatus> = status.unwrap_or_default().into_iter().map(|word| word.0).collect();
        let tenants = self.tenants.clone();
        let (limit, count, now) = (request.limit, request.include_total, auth.context.now);
        let (data, more, total) = self
            .store
            .scan(move |tx| {
                let matches = |tenant: &model::Tenant| statuses.is_empty() || statuses.contains(&tenant.status);
                let (found, more, total) = if let Some(slug) = &slug {
                    let found: Vec<model::Tenant> = tenants.find(tx, slug)?.into_iter().filter(matches).collect();
                    let total = found.len() as u64;
                    (found, false, count.then_some(total))
                } else {
                    let (found, more) = tenants.list(tx, after, limit, matches)?;
                    (found, more, if count { Some(tenants.count(tx, matches)?) } else { None })
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
    /// Creates a tenant. It is active immediately and has no users and no API keys yet.
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
            let message = "must be absent: only an evaluation tenant can expire";
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
    /// Returns the tenant with its activity, without any of its content.
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
    /// Refuses all requests of the tenant with `tenant_suspended` until you resume it. Meanwhile webhook deliveries wait, events
    /// and schedules start no workflows, and workflow runs pause. tenantd removes nothing.
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
    /// Activates a suspended tenant again. tenantd sends waiting deliveries at once and continues paused runs within 15 minutes.
    /// Has no effect on an active tenant.
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
    /// Deletes the tenant with all of its data. This cannot be undone. The tenant stops working at once, and tenantd removes its
    /// records in the background. Until that is done, the tenant is listed with the status `deleting`. Afterwards its slug and the
    /// email addresses of its users are free again, and only the operator's own audit log still mentions it. `confirm` must be the
    /// tenant's slug.
    #[oai(path = "/:id", method = "delete", operation_id = "delete_tenant")]
    async fn delete_tenant(
        &self,
        auth: Allowed<Operator>,
        _recent: Marked<RecentSignIn>,
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
    /// Moves the tenant's clock forward. Everything in the tenant that becomes due by then happens at once: service levels are
    /// missed, keys expire, backups become late, workflow schedules and timers fire, and deliveries are retried. Other tenants are
    /// not affected. Sessions, tokens and rate limits still follow the installation's clock. You cannot set a clock back.
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
        // The clock keeper does the same a moment later. Doing it here means that the new time applies when the caller gets the
        // response.
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
