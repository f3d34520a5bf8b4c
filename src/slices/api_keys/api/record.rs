//! `/api/admin/api-keys/{id}`: one key. The handlers of the collection share `update` and `revoke`.

use std::time::Duration;

use poem_openapi::{Object, OpenApi, param::Path};

use tenantd_base::id::ApiKeyId;
use tenantd_http::{
    answer_cache::AnswerCache,
    idempotency::IdempotencyKey,
    input::{Lenient, OptionalBody, target},
    mark::{Marked, RecentSignIn},
    need::{Allowed, ApiKeysRead, ApiKeysWrite},
    precondition::{IfMatch, IfNoneMatch},
    problem::Problem,
    recent::RecentUnlessReducing,
    reply::{Changed, Found},
};
use tenantd_store::{Store, catalog};

use super::{
    super::{
        error::ApiKeyError,
        repo,
        service::{Caller, KeyChange, Service},
    },
    Area,
    wire::{ApiKey, ApiKeyWithSecret, RotateApiKey, UpdateApiKey},
};

/// The key to revoke.
#[derive(Debug, Object)]
pub(super) struct DeleteTarget {
    /// The id of the key. Required unless the query contains `id`.
    pub(super) id: Option<ApiKeyId>,
}

const DEFAULT_OVERLAP_SECONDS: u32 = 86_400;

pub(super) fn path(id: ApiKeyId) -> String {
    format!("/api/admin/api-keys/{id}")
}

pub(crate) struct KeyApi {
    service: Service,
    store: Store,
    /// Cached responses, with the version of each key.
    records: AnswerCache<(u64, Found<ApiKey>), 1>,
}

impl KeyApi {
    pub(crate) fn new(service: Service, store: Store) -> Self {
        Self { service, store, records: AnswerCache::new([catalog::API_KEYS]) }
    }
}

#[OpenApi(prefix_path = "/api/admin/api-keys", tag = "Area::ApiKeys")]
impl KeyApi {
    /// Read an API key
    ///
    /// Returns the key without its plaintext. You can read a revoked key until tenantd removes it.
    #[oai(path = "/:id", method = "get", operation_id = "read_api_key")]
    async fn read_api_key(
        &self,
        auth: Allowed<ApiKeysRead>,
        id: Path<ApiKeyId>,
        if_none_match: IfNoneMatch,
    ) -> Result<Found<ApiKey>, Problem> {
        let tenant = auth.principal.tenant_id;
        let (version, found) = self.records.get(&self.store, tenant, &auth.context, || {
            let key = self.store.read(|tx| repo::get(tx, tenant, id.0)?.ok_or(ApiKeyError::NotFound))?;
            let version = key.version;
            Ok((version, Found::new(&ApiKey::new(key, auth.context.now, &self.service.rules), version)))
        })?;
        Ok(if if_none_match.knows(version) { Found::not_modified(version) } else { found })
    }

    /// Change an API key by path
    ///
    /// Changes the key like `PUT /api/admin/api-keys?id=`. Fields that the body omits keep their values.
    #[oai(path = "/:id", method = "put", operation_id = "update_api_key_by_id")]
    async fn update_api_key_by_id(
        &self,
        auth: Allowed<ApiKeysWrite>,
        recent: RecentUnlessReducing,
        id: Path<ApiKeyId>,
        if_match: IfMatch,
        body: Lenient<UpdateApiKey>,
    ) -> Result<Changed<ApiKey>, Problem> {
        recent.check(body.0.only_disables())?;
        let id = target(Some(id.0), body.0.id)?;
        update(self.service, &self.store, &auth, id, if_match, body.0).await
    }

    /// Revoke an API key by path
    ///
    /// Revokes the key like `DELETE /api/admin/api-keys?id=`. The record stays readable with the status `revoked`.
    #[oai(path = "/:id", method = "delete", operation_id = "delete_api_key_by_id")]
    async fn delete_api_key_by_id(
        &self,
        auth: Allowed<ApiKeysWrite>,
        id: Path<ApiKeyId>,
        if_match: IfMatch,
    ) -> Result<Changed<ApiKey>, Problem> {
        revoke(self.service, &self.store, &auth, id.0, if_match).await
    }

    /// Take over an API key
    ///
    /// Makes you the owner of the key. If you are removed, disabled or lose rights that the key has, tenantd pauses the key. Your
    /// credential must cover the key: scopes, organizations, networks and lifetime. A paused key becomes active again.
    #[oai(path = "/:id/take-over", method = "post", operation_id = "take_over_api_key")]
    async fn take_over_api_key(
        &self,
        auth: Allowed<ApiKeysWrite>,
        _recent: Marked<RecentSignIn>,
        id: Path<ApiKeyId>,
        if_match: IfMatch,
        idempotency_key: IdempotencyKey,
    ) -> Result<Changed<ApiKey>, Problem> {
        let (service, caller) = (self.service, Caller::of(&auth.principal));
        idempotency_key
            .run(auth.context.intent(&auth.principal), move |tx, act| {
                let key = service.take_over(tx, act, &caller, id.0, &if_match)?;
                let version = key.version;
                Ok::<_, ApiKeyError>(Changed::new(&ApiKey::new(key, act.now, &service.rules), version))
            })
            .await
    }

    /// Rotate an API key
    ///
    /// Replaces the secret and returns the new plaintext in `key`. The plaintext is not shown again. Your credential must cover the
    /// key: scopes, organizations, networks and lifetime.
    ///
    /// The old secret keeps working for `overlap_seconds`. During that time it cannot create or change API keys, users or identity
    /// providers, and a retry with an `Idempotency-Key` does not return a secret to it. After that, a request with it fails with
    /// 401 `key_revoked`.
    #[oai(path = "/:id/rotate", method = "post", operation_id = "rotate_api_key")]
    async fn rotate_api_key(
        &self,
        auth: Allowed<ApiKeysWrite>,
        _recent: Marked<RecentSignIn>,
        id: Path<ApiKeyId>,
        if_match: IfMatch,
        idempotency_key: IdempotencyKey,
        body: OptionalBody<RotateApiKey>,
    ) -> Result<Changed<ApiKeyWithSecret>, Problem> {
        let overlap = Duration::from_secs(u64::from(body.0.overlap_seconds.unwrap_or(DEFAULT_OVERLAP_SECONDS)));
        let (service, caller) = (self.service, Caller::of(&auth.principal));
        idempotency_key
            .run(auth.context.intent(&auth.principal), move |tx, act| {
                let (key, plaintext) = service.rotate(tx, act, &caller, id.0, &if_match, overlap)?;
                let version = key.version;
                let shown = ApiKeyWithSecret::new(key, &plaintext, act.now, &service.rules);
                Ok::<_, ApiKeyError>(Changed::new(&shown, version).secret())
            })
            .await
    }
}

pub(super) async fn update(
    service: Service,
    store: &Store,
    auth: &Allowed<ApiKeysWrite>,
    id: ApiKeyId,
    if_match: IfMatch,
    body: UpdateApiKey,
) -> Result<Changed<ApiKey>, Problem> {
    let change = KeyChange::from(body);
    let caller = Caller::of(&auth.principal);
    let intent = auth.context.intent(&auth.principal);
    let now = auth.context.now;
    let key = store.write(move |tx| service.update(tx, &mut intent.begin(), &caller, id, &if_match, &change)).await?;
    let version = key.version;
    Ok(Changed::new(&ApiKey::new(key, now, &service.rules), version))
}

pub(super) async fn revoke(
    service: Service,
    store: &Store,
    auth: &Allowed<ApiKeysWrite>,
    id: ApiKeyId,
    if_match: IfMatch,
) -> Result<Changed<ApiKey>, Problem> {
    let intent = auth.context.intent(&auth.principal);
    let now = auth.context.now;
    let key = store.write(move |tx| service.revoke(tx, &mut intent.begin(), id, &if_match)).await?;
    let version = key.version;
    Ok(Changed::new(&ApiKey::new(key, now, &service.rules), version))
}
