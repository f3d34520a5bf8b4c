//! The protocol: which request is which use case, and the form of its answers and errors.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use http::{HeaderValue, StatusCode, header};
use poem::Response;
use serde_json::{Value, json};

use tenantd_auth::AuthError;
use tenantd_base::{
    access::{Identity, Principal, TenantKind},
    clock::Timestamp,
    id::TenantId,
    quotas::Allowance,
};
use tenantd_http::{
    context::RequestContext,
    openapi::Document,
    problem::{Code, Problem},
    protocol::{Protocol, ProtocolRequest},
};
use tenantd_store::{Store, events::Intent};

use super::{
    super::{
        error::{Reason, ScimError},
        model::{GroupEdit, Person, attribute::Resource, patch, set},
        service::{self, CHUNK, Service},
    },
    SCIM_TYPE, discovery,
    groups::{self, GroupBody},
    listing::ListRequest,
    people::{self, PersonChange},
    projection::Projection,
};

pub(super) const PREFIX: &str = "/scim/v2";
const MEDIA_TYPE: &str = "application/scim+json";
/// How many rounds of people get their roles before an answer. The task continues with the rest.
const ROUNDS: usize = 10_000 / CHUNK;

/// A resource in an answer.
#[derive(Debug)]
pub(super) struct Shown {
    pub(super) value: Value,
    pub(super) version: u64,
    pub(super) location: String,
}

pub(super) fn location(base: &str, resource: Resource, id: &str) -> String {
    format!("{base}{PREFIX}/{}/{id}", resource.endpoint())
}

pub(super) fn meta(base: &str, resource: Resource, id: &str, (created, modified, version): (Timestamp, Timestamp, u64)) -> Value {
    json!({
        "resourceType": resource.name(),
        "created": created,
        "lastModified": modified,
        "location": location(base, resource, id),
        "version": etag(version),
    })
}

fn etag(version: u64) -> String {
    format!("W/\"v{version}\"")
}

/// Gives roles to those who wait for one after a change. The change is stored, so what fails here does not become its answer: the
/// task does the rest.
pub(super) async fn settle(store: &Store, service: &Service, (context, principal): (&RequestContext, &Principal)) {
    if let Err(error) = settle_rounds(store, service, (context, principal)).await {
        let tenant = principal.tenant_id;
        tracing::warn!(%tenant, reason = %error, "some people wait for the role that their groups give; the task gives it to them");
    }
}

/// Each round is an act of its own. The quotas of the caller do not limit it, because the task would do the same without them.
async fn settle_rounds(
    store: &Store,
    service: &Service,
    (context, principal): (&RequestContext, &Principal),
) -> Result<(), ScimError> {
    let tenant = principal.tenant_id;
    if !store.read(|tx| service::has_waiting(tx, tenant))? {
        return Ok(());
    }
    for _ in 0..ROUNDS {
        let (service, mut intent) = (service.clone(), context.guarding_intent(principal));
        intent.allowance = Allowance::Unlimited;
        if !store.write(move |tx| service.settle_some(tx, &mut intent.begin())).await? {
            break;
        }
    }
    Ok(())
}

pub(crate) struct Scim {
    store: Store,
    service: Service,
    document: Document,
}

impl Scim {
    pub(crate) fn new(store: Store, service: Service) -> Result<Self, String> {
        Ok(Self { store, service, document: discovery::document()? })
    }

    async fn route(&self, request: ProtocolRequest) -> Result<Response, Problem> {
        let call = Call::new(self, request)?;
        match &*call.request.context.operation_id {
            "scim_read_service_provider_config" => Ok(answer(StatusCode::OK, &discovery::service_provider_config(&call.base))),
            "scim_list_resource_types" => Ok(answer(StatusCode::OK, &discovery::resource_types(&call.base))),
            "scim_read_resource_type" => found(discovery::resource_type(&call.base, call.name())),
            "scim_list_schemas" => Ok(answer(StatusCode::OK, &discovery::schemas(&call.base)?)),
            "scim_read_schema" => found(discovery::schema(&call.base, call.name())?),
            "scim_list_users" => call.list(Resource::User, call.query(Resource::User)?).await,
            "scim_search_users" => call.list(Resource::User, ListRequest::of_body(Resource::User, call.body()?)?).await,
            "scim_create_user" => call.create_user().await,
            "scim_read_user" => call.read(Resource::User),
            "scim_replace_user" => {
                let change = PersonChange::Replace(call.body()?.clone());
                call.update_user(change).await
            }
            "scim_patch_user" => {
                let change = PersonChange::Patch(patch::read(Resource::User, call.body()?)?);
                call.update_user(change).await
            }
            "scim_delete_user" => call.delete_user().await,
            "scim_list_groups" => call.list(Resource::Group, call.query(Resource::Group)?).await,
            "scim_search_groups" => call.list(Resource::Group, ListRequest::of_body(Resource::Group, call.body()?)?).await,
            "scim_create_group" => call.create_group().await,
            "scim_read_group" => call.read(Resource::Group),
            "scim_replace_group" => {
                let edits = GroupBody::read(call.body()?)?.edits();
                call.update_group(edits).await
            }
            "scim_patch_group" => {
                let edits = patch::group_edits(&patch::read(Resource::Group, call.body()?)?)?;
                call.update_group(edits).await
            }
            "scim_delete_group" => call.delete_group().await,
            "scim_search" => Ok(not_implemented("Search one type of resource: /Users/.search or /Groups/.search.")),
            "scim_bulk" => Ok(not_implemented("Bulk requests are not supported. Send one request for each change.")),
            other => Err(Problem::internal(format!("the protocol has no operation {other}"))),
        }
    }
}

impl Protocol for Scim {
    fn prefix(&self) -> &'static str {
        PREFIX
    }

    fn document(&self) -> &Document {
        &self.document
    }

    fn answer(&self, request: ProtocolRequest) -> BoxFuture<'_, Result<Response, Problem>> {
        Box::pin(self.route(request))
    }

    fn refusal(&self, problem: &Problem) -> Response {
        // RFC 7644 has no 422.
        let (status, usual) = match problem.code {
            Code::ValidationFailed => (StatusCode::BAD_REQUEST, Some(Reason::InvalidValue)),
            Code::LimitReached => (StatusCode::BAD_REQUEST, Some(Reason::TooMany)),
            Code::MalformedJson => (StatusCode::BAD_REQUEST, Some(Reason::InvalidSyntax)),
            Code::AlreadyExists => (StatusCode::CONFLICT, Some(Reason::Uniqueness)),
            code => (code.status(), None),
        };
        let scim_type = problem.extra.get(SCIM_TYPE).and_then(Value::as_str).or(usual.map(Reason::name));
        // The form of the standard has no other place for the title and the code of the error.
        let detail = match scim_type {
            Some(_) => problem.shown_detail(),
            None => format!("{} ({}): {}", problem.code.title(), problem.code.name(), problem.shown_detail()),
        };
        let mut response = error(status, scim_type, &detail);
        response.headers_mut().extend(problem.headers.clone());
        response
    }
}

fn error(status: StatusCode, scim_type: Option<&str>, detail: &str) -> Response {
    let mut body = json!({
        "schemas": ["urn:ietf:params:scim:api:messages:2.0:Error"],
        "status": status.as_u16().to_string(),
        "detail": detail,
    });
    if let Some(scim_type) = scim_type {
        set(&mut body, "scimType", scim_type);
    }
    answer(status, &body)
}

fn not_implemented(detail: &str) -> Response {
    error(StatusCode::NOT_IMPLEMENTED, None, detail)
}

fn answer(status: StatusCode, value: &Value) -> Response {
    Response::builder().status(status).content_type(MEDIA_TYPE).body(value.to_string())
}

fn found(value: Option<Value>) -> Result<Response, Problem> {
    Ok(answer(StatusCode::OK, &value.ok_or(ScimError::NotFound)?))
}

/// An answer with one resource.
fn resource(status: StatusCode, shown: &Shown) -> Response {
    let mut response = answer(status, &shown.value);
    let headers = response.headers_mut();
    for (name, text) in [(header::ETAG, etag(shown.version)), (header::LOCATION, shown.location.clone())] {
        if let Ok(value) = HeaderValue::from_str(&text) {
            headers.insert(name, value);
        }
    }
    response
}

/// A request with what all use cases need.
struct Call<'a> {
    scim: &'a Scim,
    request: ProtocolRequest,
    parts: Vec<String>,
    base: String,
    tenant: TenantId,
    principal: Arc<Principal>,
    intent: Intent,
}

impl<'a> Call<'a> {
    fn new(scim: &'a Scim, request: ProtocolRequest) -> Result<Self, ScimError> {
        let is_key = |principal: &Principal| matches!(principal.identity, Identity::ApiKey { .. });
        let principal = request.context.principal.clone().filter(|principal| is_key(principal)).ok_or(ScimError::NotAKey)?;
        if principal.tenant_kind == TenantKind::Platform {
            return Err(AuthError::NotProvisioned.into());
        }
        let (base, parts) = (request.context.base_url.to_string(), request.parts(PREFIX));
        let intent = request.context.guarding_intent(&principal);
        Ok(Self { scim, request, parts, base, tenant: principal.tenant_id, principal, intent })
    }

    /// The last part of the path.
    fn name(&self) -> &str {
        self.parts.get(1).map_or("", String::as_str)
    }

    /// The id in the path. One of a wrong form belongs to nothing.
    fn id<T: std::str::FromStr>(&self) -> Result<T, ScimError> {
        self.name().parse().map_err(|_| ScimError::NotFound)
    }

    fn body(&self) -> Result<&Value, ScimError> {
        self.request.body.as_ref().ok_or_else(|| ScimError::new(Reason::InvalidSyntax, "The request needs a body."))
    }

    fn query(&self, resource: Resource) -> Result<ListRequest, ScimError> {
        ListRequest::of_query(resource, &self.request.query())
    }

    fn projection(&self, resource: Resource) -> Result<Projection, ScimError> {
        self.query(resource).map(|request| request.projection)
    }

    fn read(&self, wanted: Resource) -> Result<Response, Problem> {
        let projection = self.projection(wanted)?;
        let with = (self.base.as_str(), &projection);
        let shown = match wanted {
            Resource::User => {
                let id = self.id()?;
                self.scim.store.read(|tx| people::read(tx, self.tenant, id, with))?
            }
            Resource::Group => {
                let id = self.id()?;
                self.scim.store.read(|tx| groups::read(tx, self.tenant, id, with))?
            }
        };
        if self.request.known.knows(shown.version) {
            let response = Response::builder().status(StatusCode::NOT_MODIFIED).header(header::ETAG, etag(shown.version));
            return Ok(response.finish());
        }
        Ok(resource(StatusCode::OK, &shown))
    }

    async fn list(&self, wanted: Resource, request: ListRequest) -> Result<Response, Problem> {
        let (tenant, base) = (self.tenant, self.base.clone());
        let found = self.scim.store.scan_for(tenant, move |tx| match wanted {
            Resource::User => people::list(tx, tenant, &base, &request),
            Resource::Group => groups::list(tx, tenant, &base, &request),
        });
        Ok(answer(StatusCode::OK, &found.await?))
    }

    async fn settle(&self) {
        settle(&self.scim.store, &self.scim.service, (&self.request.context, &self.principal)).await;
    }

    async fn create_user(&self) -> Result<Response, Problem> {
        let (person, projection) = (Person::read(self.body()?, true)?, self.projection(Resource::User)?);
        let (service, intent, base) = (self.scim.service.clone(), self.intent.clone(), self.base.clone());
        let created =
            self.scim.store.write(move |tx| people::create(&service, tx, &mut intent.begin(), &person, (&base, &projection)));
        Ok(resource(StatusCode::CREATED, &created.await?))
    }

    async fn update_user(&self, change: PersonChange) -> Result<Response, Problem> {
        let (id, projection, expected) = (self.id()?, self.projection(Resource::User)?, self.request.expected.clone());
        let (service, intent, base) = (self.scim.service.clone(), self.intent.clone(), self.base.clone());
        let changed = self
            .scim
            .store
            .write(move |tx| people::update(&service, tx, &mut intent.begin(), (id, &expected, &change), (&base, &projection)));
        Ok(resource(StatusCode::OK, &changed.await?))
    }

    async fn delete_user(&self) -> Result<Response, Problem> {
        let (id, expected) = (self.id()?, self.request.expected.clone());
        let (service, intent) = (self.scim.service.clone(), self.intent.clone());
        self.scim.store.write(move |tx| service.remove_person(tx, &mut intent.begin(), id, &expected)).await?;
        Ok(StatusCode::NO_CONTENT.into())
    }

    async fn create_group(&self) -> Result<Response, Problem> {
        let (body, projection) = (GroupBody::read(self.body()?)?, self.projection(Resource::Group)?);
        let (service, intent, base) = (self.scim.service.clone(), self.intent.clone(), self.base.clone());
        let created = self.scim.store.write(move |tx| {
            let names = (body.display_name.as_str(), body.external_id.as_deref());
            let group = service.create_group(tx, &mut intent.begin(), names, body.members.as_deref().unwrap_or_default())?;
            Ok::<_, ScimError>(groups::shown(tx, &group, &base, &projection)?)
        });
        Ok(resource(StatusCode::CREATED, &created.await?))
    }

    async fn update_group(&self, edits: Vec<GroupEdit>) -> Result<Response, Problem> {
        let (id, projection, expected) = (self.id()?, self.projection(Resource::Group)?, self.request.expected.clone());
        let (service, intent, base) = (self.scim.service.clone(), self.intent.clone(), self.base.clone());
        let changed = self.scim.store.write(move |tx| {
            let group = service.update_group(tx, &mut intent.begin(), id, &expected, &edits)?;
            Ok::<_, ScimError>(groups::shown(tx, &group, &base, &projection)?)
        });
        let shown = changed.await?;
        self.settle().await;
        Ok(resource(StatusCode::OK, &shown))
    }

    async fn delete_group(&self) -> Result<Response, Problem> {
        let (id, expected) = (self.id()?, self.request.expected.clone());
        let (service, intent) = (self.scim.service.clone(), self.intent.clone());
        self.scim.store.write(move |tx| service.remove_group(tx, &mut intent.begin(), id, &expected)).await?;
        self.settle().await;
        Ok(StatusCode::NO_CONTENT.into())
    }
}
