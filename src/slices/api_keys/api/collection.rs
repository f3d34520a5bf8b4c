//! `/api/admin/api-keys`: the collection. A change names its key in the query or in the body.

use std::time::Duration;

use poem_openapi::{Object, OpenApi};

use tenantd_base::{
    access::Scope,
    clock::Timestamp,
    id::ApiKeyId,
    vocabulary::{nearest, vocabulary},
};
use tenantd_http::{
    answer_cache::AnswerCache,
    idempotency::IdempotencyKey,
    input::{Filter, Lenient, OptionalBody, target},
    mark::{Marked, RecentSignIn},
    need::{Allowed, ApiKeysRead, ApiKeysWrite},
    page::{PageQuery, PageRequest},
    precondition::IfMatch,
    problem::{FieldError, Problem},
    recent::RecentUnlessReducing,
    reply::{Changed, Created, Listed},
    wire::word_type,
};
use tenantd_store::{Direction, Store, StoreError, catalog};

use super::{
    super::{
        error::ApiKeyError,
        listing::{self, KeyQuery, SortField},
        model::{KeyStatus, NewApiKey},
        service::{Caller, Service},
    },
    Area,
    record::{self, DeleteTarget},
    wire::{ApiKey, ApiKeyWithSecret, CreateApiKey, UpdateApiKey},
};

vocabulary! {
    ApiKeySort:
    Name "name", NameDescending "-name", CreatedAt "created_at", CreatedAtDescending "-created_at", ExpiresAt "expires_at",
    ExpiresAtDescending "-expires_at", LastUsedAt "last_used_at", LastUsedAtDescending "-last_used_at",
}

word_type! {
    ApiKeySort, "ApiKeySort";
}

impl ApiKeySort {
    fn parts(self) -> (SortField, Direction) {
        match self {
            Self::Name => (SortField::Name, Direction::Forward),
            Self::NameDescending => (SortField::Name, Direction::Backward),
            Self::CreatedAt => (SortField::CreatedAt, Direction::Forward),
            Self::CreatedAtDescending => (SortField::CreatedAt, Direction::Backward),
            Self::ExpiresAt => (SortField::ExpiresAt, Direction::Forward),
            Self::ExpiresAtDescending => (SortField::ExpiresAt, Direction::Backward),
            Self::LastUsedAt => (SortField::LastUsedAt, Direction::Forward),
            Self::LastUsedAtDescending => (SortField::LastUsedAt, Direction::Backward),
        }
    }
}

#[derive(Debug, Object)]
struct ListApiKeys {
    /// Returns only keys with one of these statuses.
    #[oai(validator(min_items = 1, max_items = 5))]
    status: Option<Vec<KeyStatus>>,
    /// Returns only keys that have this scope, by name or through a wildcard.
    scope: Option<String>,
    /// Returns only keys whose name or description contains this text. Ignores case.
    #[oai(validator(min_length = 1, max_length = 100))]
    q: Option<String>,
    /// Returns only keys that the user or key with this id created.
    #[oai(validator(min_length = 1, max_length = 64))]
    created_by: Option<String>,
    /// Returns only personal keys (`true`), or only others (`false`).
    personal: Option<bool>,
    /// Returns only keys that expire before this time.
    expires_before: Option<Timestamp>,
    /// Returns only keys that have not been used for this many days. For a key that was never used, its creation counts.
    #[oai(validator(minimum(value = "1"), maximum(value = "3650")))]
    unused_for_days: Option<u32>,
    /// The sort order. A leading `-` reverses it. Defaults to `-created_at` (newest first).
    sort: Option<ApiKeySort>,
    #[oai(flatten)]
    page: PageQuery,
}

impl ListApiKeys {
    fn query(&self, auth: &Allowed<ApiKeysRead>) -> Result<KeyQuery, Problem> {
        let now = auth.context.now;
        let (sort, direction) = self.sort.unwrap_or(ApiKeySort::CreatedAtDescending).parts();
        Ok(KeyQuery {
            tenant_id: auth.principal.tenant_id,
            now,
            statuses: self.status.clone().unwrap_or_default(),
            scope: self.scope.as_deref().map(parse_scope).transpose()?,
            text: self.q.as_deref().map(str::to_lowercase),
            created_by: self.created_by.clone(),
            personal: self.personal,
            expires_before: self.expires_before,
            unused_since: self.unused_for_days.map(|days| now - Duration::from_secs(u64::from(days) * 86_400)),
            sort,
            direction,
        })
    }
}

fn parse_scope(name: &str) -> Result<Scope, Problem> {
    Scope::ALL.iter().copied().find(|scope| scope.name() == name).ok_or_else(|| {
        let names = || Scope::ALL.iter().map(|scope| scope.name());
        let error = FieldError::parameter("scope", "unknown_scope", format!("the scope {name} does not exist; see allowed"))
            .with_allowed(names().map(str::to_owned).collect())
            .with_suggestion(nearest(name, names()));
        Problem::invalid(vec![error])
    })
}

#[derive(Debug, Object)]
struct TargetQuery {
    /// The id of the key. Required unless the body contains `id`.
    id: Option<ApiKeyId>,
}

pub(crate) struct KeysApi {
    service: Service,
    store: Store,
    pages: AnswerCache<Listed<ApiKey>, 1>,
}

impl KeysApi {
    pub(crate) fn new(service: Service, store: Store) -> Self {
        Self { service, store, pages: AnswerCache::new([catalog::API_KEYS]) }
    }
}

#[OpenApi(prefix_path = "/api/admin/api-keys", tag = "Area::ApiKeys")]
impl KeysApi {
    /// List API keys
    ///
    /// Returns the tenant's keys and the personal keys of its people, without their plaintext. Expired and revoked keys stay listed
    /// for 90 days by default.
    #[oai(path = "/", method = "get", operation_id = "list_api_keys")]
    async fn list_api_keys(&self, auth: Allowed<ApiKeysRead>, query: Filter<ListApiKeys>) -> Result<Listed<ApiKey>, Problem> {
        self.pages.get(&self.store, auth.principal.tenant_id, &auth.context, || {
            let request = PageRequest::new(&auth.context, &query.0.page)?;
            let key_query = query.0.query(&auth)?;
            let rules = self.service.rules;
            let found = self.store.read::<_, StoreError>(|tx| {
                listing::list(tx, &key_query, &rules, request.after.as_deref(), request.limit, request.include_total)
            })?;
            let now = auth.context.now;
            let data: Vec<ApiKey> = found.keys.into_iter().map(|key| ApiKey::new(key, now, &rules)).collect();
            Ok(Listed::new(&data, &request.page(found.last, found.total)))
        })
    }

    /// Create an API key
    ///
    /// Creates a key and returns its plaintext in `key`. The plaintext is not shown again. You cannot give a key more than your own
    /// credential has: scopes, organizations, networks and lifetime. If you omit `expires_days`, the key expires no later than your
    /// credential.
    #[oai(path = "/", method = "post", operation_id = "create_api_key")]
    async fn create_api_key(
        &self,
        auth: Allowed<ApiKeysWrite>,
        _recent: Marked<RecentSignIn>,
        idempotency_key: IdempotencyKey,
        body: Lenient<CreateApiKey>,
    ) -> Result<Created<ApiKeyWithSecret>, Problem> {
        let new = NewApiKey::from(body.0);
        let caller = Caller::of(&auth.principal);
        let service = self.service;
        idempotency_key
            .run(auth.context.intent(&auth.principal), move |tx, act| {
                let (key, plaintext) = service.create(tx, act, &caller, &new)?;
                let (version, path) = (key.version, record::path(key.id));
                let shown = ApiKeyWithSecret::new(key, &plaintext, act.now, &service.rules);
                Ok::<_, ApiKeyError>(Created::new(&shown, version, &path).secret())
            })
            .await
    }

    /// Change an API key
    ///
    /// Changes the key that `?id=` or `id` in the body names. Your credential must cover the key before and after the change:
    /// scopes, organizations, networks and lifetime. A change that only reduces the key (fewer scopes, narrower networks, an
    /// earlier end, `enabled: false`) requires only `api_keys:write`. A personal key cannot be changed, only revoked.
    ///
    /// A change that adds rights is refused with 409 `invalid_transition` if the caller that created the key, or rotated it last, does
    /// not have them now, because that caller has the secret. Rotate the key yourself with `overlap_seconds: 0`, and repeat the change. If the owner of the key
    /// does not cover it after the change, you become its owner.
    #[oai(path = "/", method = "put", operation_id = "update_api_key")]
    async fn update_api_key(
        &self,
        auth: Allowed<ApiKeysWrite>,
        recent: RecentUnlessReducing,
        query: Filter<TargetQuery>,
        if_match: IfMatch,
        body: Lenient<UpdateApiKey>,
    ) -> Result<Changed<ApiKey>, Problem> {
        recent.check(body.0.only_disables())?;
        let id = target(query.0.id, body.0.id)?;
        record::update(self.service, &self.store, &auth, id, if_match, body.0).await
    }

    /// Revoke an API key
    ///
    /// Revokes the key that `?id=` or `id` in the body names. The next request with it is refused, and tenantd pauses the keys that
    /// it owns. If the key is already revoked, the request succeeds.
    #[oai(path = "/", method = "delete", operation_id = "delete_api_key")]
    async fn delete_api_key(
        &self,
        auth: Allowed<ApiKeysWrite>,
        query: Filter<TargetQuery>,
        if_match: IfMatch,
        body: OptionalBody<DeleteTarget>,
    ) -> Result<Changed<ApiKey>, Problem> {
        let id = target(query.0.id, body.0.id)?;
        record::revoke(self.service, &self.store, &auth, id, if_match).await
    }
}
