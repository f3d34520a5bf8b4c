//! `/api/auth/own-keys`: the personal keys of the signed-in person.

use poem_openapi::{Object, OpenApi, param::Path};

use tenantd_base::id::ApiKeyId;
use tenantd_http::{
    idempotency::IdempotencyKey,
    input::{Filter, Lenient},
    mark::{Marked, RecentSignIn},
    need::{Allowed, SignedIn},
    page::{PageQuery, PageRequest},
    precondition::{IfMatch, IfNoneMatch},
    problem::Problem,
    reply::{Changed, Created, Found, Listed},
};
use tenantd_store::{Key, Store};

use super::{
    super::{
        error::ApiKeyError,
        model::NewApiKey,
        personal::{person_of, personal_key, personal_keys},
        service::{Caller, Service},
    },
    Area,
    wire::{ApiKey, ApiKeyWithSecret, CreateOwnKey},
};

#[derive(Debug, Object)]
struct ListOwnKeys {
    #[oai(flatten)]
    page: PageQuery,
}

pub(crate) struct OwnKeysApi {
    pub(crate) service: Service,
    pub(crate) store: Store,
}

#[OpenApi(prefix_path = "/api/auth/own-keys", tag = "Area::ApiKeys")]
impl OwnKeysApi {
    /// List your personal API keys
    ///
    /// Returns your personal keys without their plaintext, newest first. Expired and revoked keys stay listed for 90 days by default.
    /// Needs a session: an API key is refused with 403 `insufficient_authority`.
    #[oai(path = "/", method = "get", operation_id = "list_own_keys")]
    async fn list_own_keys(&self, auth: Allowed<SignedIn>, query: Filter<ListOwnKeys>) -> Result<Listed<ApiKey>, Problem> {
        let (person, tenant) = (person_of(&auth.principal)?, auth.principal.tenant_id);
        let request = PageRequest::new(&auth.context, &query.0.page)?;
        let mut found = self.store.read(|tx| personal_keys(tx, tenant, person))?;
        let total = request.include_total.then_some(found.len() as u64);
        if let Some(after) = &request.after {
            found.retain(|key| key.id.to_bytes() < *after);
        }
        let more = found.len() > request.limit;
        found.truncate(request.limit);
        let last = found.last().filter(|_| more).map(|key| key.id.to_bytes());
        let (now, rules) = (auth.context.now, &self.service.rules);
        let data: Vec<ApiKey> = found.into_iter().map(|key| ApiKey::new(key, now, rules)).collect();
        Ok(Listed::new(&data, &request.page(last, total)))
    }

    /// Create a personal API key
    ///
    /// Creates a key that acts for you, and returns its plaintext in `key`. The plaintext is not shown again. You can give it only scopes
    /// that you have. At every use it has only what both its list and you have then: when your role or your organizations change, it
    /// changes at once. It stops when your account is disabled, and is revoked when your account is removed.
    ///
    /// A personal key cannot have `api_keys:write`, `users:write` and `provisioning:write`; wildcards do not include them. Your tenant can forbid personal keys
    /// in its sign-in policy. You can have 20 live ones, by default. You must have signed in within the last 15 minutes. Needs a session:
    /// an API key is refused with 403 `insufficient_authority`.
    #[oai(path = "/", method = "post", operation_id = "create_own_key")]
    async fn create_own_key(
        &self,
        auth: Allowed<SignedIn>,
        _recent: Marked<RecentSignIn>,
        idempotency_key: IdempotencyKey,
        body: Lenient<CreateOwnKey>,
    ) -> Result<Created<ApiKeyWithSecret>, Problem> {
        let (person, caller) = (person_of(&auth.principal)?, Caller::of(&auth.principal));
        let (new, service) = (NewApiKey::from(body.0), self.service);
        idempotency_key
            .run(auth.context.intent(&auth.principal), move |tx, act| {
                let (key, plaintext) = service.create_personal(tx, act, (person, &caller), &new)?;
                let (version, path) = (key.version, format!("/api/auth/own-keys/{}", key.id));
                let shown = ApiKeyWithSecret::new(key, &plaintext, act.now, &service.rules);
                Ok::<_, ApiKeyError>(Created::new(&shown, version, &path).secret())
            })
            .await
    }

    /// Read one of your personal API keys
    ///
    /// Returns the key without its plaintext. Needs a session: an API key is refused with 403 `insufficient_authority`.
    #[oai(path = "/:id", method = "get", operation_id = "read_own_key")]
    async fn read_own_key(
        &self,
        auth: Allowed<SignedIn>,
        id: Path<ApiKeyId>,
        if_none_match: IfNoneMatch,
    ) -> Result<Found<ApiKey>, Problem> {
        let (person, tenant) = (person_of(&auth.principal)?, auth.principal.tenant_id);
        let key = self.store.read(|tx| personal_key(tx, tenant, person, id.0))?;
        let version = key.version;
        if if_none_match.knows(version) {
            return Ok(Found::not_modified(version));
        }
        Ok(Found::new(&ApiKey::new(key, auth.context.now, &self.service.rules), version))
    }

    /// Revoke one of your personal API keys
    ///
    /// Revokes the key: the next request with it is refused. If the key is already revoked, the request succeeds. Needs a session: an API
    /// key is refused with 403 `insufficient_authority`.
    #[oai(path = "/:id", method = "delete", operation_id = "delete_own_key")]
    async fn delete_own_key(
        &self,
        auth: Allowed<SignedIn>,
        id: Path<ApiKeyId>,
        if_match: IfMatch,
    ) -> Result<Changed<ApiKey>, Problem> {
        let person = person_of(&auth.principal)?;
        let (service, intent) = (self.service, auth.context.intent(&auth.principal));
        let now = auth.context.now;
        let key = self.store.write(move |tx| service.revoke_personal(tx, &mut intent.begin(), person, id.0, &if_match)).await?;
        let version = key.version;
        Ok(Changed::new(&ApiKey::new(key, now, &service.rules), version))
    }
}
