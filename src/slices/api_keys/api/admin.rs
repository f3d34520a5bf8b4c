//! `/internal/admin/tenants/{id}/api-keys`: keys of any tenant, for callers with access to the admin socket.

use poem_openapi::{Object, OpenApi, Tags, param::Path};
use serde::Serialize;

use tenantd_base::{
    authority::Authority,
    id::{ApiKeyId, TenantId},
};
use tenantd_http::{
    idempotency::IdempotencyKey,
    input::Body,
    need::{Allowed, LocalOperator},
    precondition::IfMatch,
    problem::Problem,
    reply::{Answer, Changed, Created},
};
use tenantd_platform::Tenants;
use tenantd_store::{Direction, Store, StoreError};

use super::{
    super::{
        error::ApiKeyError,
        listing::{self, KeyQuery, SortField},
        model::NewApiKey,
        service::{Caller, Service},
    },
    wire::{ApiKey, ApiKeyWithSecret, CreateApiKey},
};

#[derive(Tags)]
enum Area {
    /// Operations that only the admin socket serves.
    Administration,
}

const MAX_LISTED: usize = 10_000;

#[derive(Debug, Object, Serialize)]
struct ApiKeyList {
    /// The keys, oldest first.
    data: Vec<ApiKey>,
}

pub(crate) struct AdminKeysApi {
    pub(crate) service: Service,
    pub(crate) store: Store,
    pub(crate) tenants: Tenants,
}

#[OpenApi(prefix_path = "/internal/admin/tenants", tag = "Area::Administration")]
impl AdminKeysApi {
    /// Create an API key in a tenant
    ///
    /// Creates a key and returns its plaintext in `key`. The plaintext is not shown again.
    #[oai(path = "/:id/api-keys", method = "post", operation_id = "create_tenant_api_key")]
    async fn create_tenant_api_key(
        &self,
        auth: Allowed<LocalOperator>,
        id: Path<TenantId>,
        idempotency_key: IdempotencyKey,
        body: Body<CreateApiKey>,
    ) -> Result<Created<ApiKeyWithSecret>, Problem> {
        let new = NewApiKey::from(body.0);
        let tenant = self.store.read(|tx| self.tenants.get(tx, id.0))?;
        let caller = Caller { authority: Authority::everything(tenant.id), tenant_kind: tenant.kind };
        let service = self.service;
        let intent = auth.context.intent_in(&auth.principal, tenant.id);
        idempotency_key
            .run(intent, move |tx, act| {
                let (key, plaintext) = service.create(tx, act, &caller, &new)?;
                let location = format!("/internal/admin/tenants/{}/api-keys", key.tenant_id);
                let version = key.version;
                let shown = ApiKeyWithSecret::new(key, &plaintext, act.now, &service.rules);
                Ok::<_, ApiKeyError>(Created::new(&shown, version, &location).secret())
            })
            .await
    }

    /// List the API keys of a tenant
    ///
    /// Returns up to 10,000 keys, oldest first, without their plaintext.
    #[oai(path = "/:id/api-keys", method = "get", operation_id = "list_tenant_api_keys")]
    async fn list_tenant_api_keys(&self, auth: Allowed<LocalOperator>, id: Path<TenantId>) -> Result<Answer<ApiKeyList>, Problem> {
        self.store.read(|tx| self.tenants.get(tx, id.0).map(drop))?;
        let (now, rules) = (auth.context.clocks.of(id.0), self.service.rules);
        let query = KeyQuery {
            tenant_id: id.0,
            now,
            statuses: Vec::new(),
            scope: None,
            text: None,
            created_by: None,
            personal: None,
            expires_before: None,
            unused_since: None,
            sort: SortField::CreatedAt,
            direction: Direction::Forward,
        };
        let found = self.store.scan(move |tx| listing::list(tx, &query, &rules, None, MAX_LISTED, false)).await;
        let found = found.map_err(|error: StoreError| Problem::from(error))?;
        Ok(Answer::new(&ApiKeyList { data: found.keys.into_iter().map(|key| ApiKey::new(key, now, &rules)).collect() }))
    }

    /// Revoke an API key of a tenant
    ///
    /// Revokes the key immediately: the next request with it is refused. If the key is already revoked, the request succeeds.
    #[oai(path = "/:id/api-keys/:key_id", method = "delete", operation_id = "delete_tenant_api_key")]
    async fn delete_tenant_api_key(
        &self,
        auth: Allowed<LocalOperator>,
        id: Path<TenantId>,
        key_id: Path<ApiKeyId>,
        if_match: IfMatch,
    ) -> Result<Changed<ApiKey>, Problem> {
        let intent = auth.context.intent_in(&auth.principal, id.0);
        let (service, now) = (self.service, intent.now);
        let key = self.store.write(move |tx| service.revoke(tx, &mut intent.begin(), key_id.0, &if_match)).await?;
        let version = key.version;
        Ok(Changed::new(&ApiKey::new(key, now, &service.rules), version))
    }
}
