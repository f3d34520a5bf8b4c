//! `/api/admin/secrets`: the collection. Updates and deletions name their target in the query or in the body.

use std::sync::Arc;

use poem_openapi::{Object, OpenApi};

use tenantd_base::id::SecretId;
use tenantd_http::{
    idempotency::IdempotencyKey,
    input::{Filter, Lenient, OptionalBody, target},
    mark::{Marked, RecentSignIn},
    need::{Allowed, SecretsWrite},
    page::{PageQuery, PageRequest},
    precondition::IfMatch,
    problem::Problem,
    reply::{Changed, Created, Empty, Listed},
};
use tenantd_store::Key;

use super::{
    super::{Core, error::SecretError, repo, service::NewSecret},
    Area,
    record::{self, DeleteSecretTarget},
    wire::{CreateSecret, NamedSecret, UpdateSecret},
};

#[derive(Debug, Object)]
struct ListSecrets {
    /// Returns only secrets whose name contains this text. Case is ignored.
    #[oai(validator(min_length = 1, max_length = 64))]
    name: Option<String>,
    #[oai(flatten)]
    page: PageQuery,
}

#[derive(Debug, Object)]
struct SecretTarget {
    /// The ID of the secret. Required unless the body has an `id`.
    id: Option<SecretId>,
}

pub(crate) struct SecretsApi {
    pub(crate) core: Arc<Core>,
}

#[OpenApi(prefix_path = "/api/admin/secrets", tag = "Area::Secrets")]
impl SecretsApi {
    /// List named secrets
    ///
    /// Returns the tenant's secrets, newest first, without their values.
    #[oai(path = "/", method = "get", operation_id = "list_secrets")]
    async fn list_secrets(&self, auth: Allowed<SecretsWrite>, query: Filter<ListSecrets>) -> Result<Listed<NamedSecret>, Problem> {
        let request = PageRequest::new(&auth.context, &query.0.page)?;
        let (tenant, part) = (auth.principal.tenant_id, query.0.name.map(|name| name.to_ascii_lowercase()));
        let (shown, last, total) = self.core.store.read(|tx| {
            let mut found = repo::list(tx, tenant)?;
            found.reverse();
            found.retain(|secret| part.as_ref().is_none_or(|part| secret.name.to_ascii_lowercase().contains(part)));
            let total = request.include_total.then_some(found.len() as u64);
            if let Some(after) = &request.after {
                found.retain(|secret| secret.id.to_bytes() < *after);
            }
            let more = found.len() > request.limit;
            found.truncate(request.limit);
            let last = found.last().filter(|_| more).map(|secret| secret.id.to_bytes());
            let shown = found.into_iter().map(|secret| record::show(tx, secret));
            Ok::<_, SecretError>((shown.collect::<Result<Vec<_>, _>>()?, last, total))
        })?;
        Ok(Listed::new(&shown, &request.page(last, total)))
    }

    /// Create a named secret
    ///
    /// Creates a secret that `http.request` steps can use as `{{ secrets.NAME }}` in headers and bodies. Steps can send it only to
    /// its `hosts`. The value never appears in a response, an event, a run or a log.
    #[oai(path = "/", method = "post", operation_id = "create_secret")]
    async fn create_secret(
        &self,
        auth: Allowed<SecretsWrite>,
        _recent: Marked<RecentSignIn>,
        idempotency_key: IdempotencyKey,
        body: Lenient<CreateSecret>,
    ) -> Result<Created<NamedSecret>, Problem> {
        let new = NewSecret::try_from(body.0)?;
        let core = self.core.clone();
        idempotency_key
            .run(auth.context.intent(&auth.principal), move |tx, act| {
                let secret = core.service.create(tx, act, &new)?;
                let (version, path) = (secret.version, record::path(secret.id));
                Ok::<_, SecretError>(Created::new(&NamedSecret::new(secret, None), version, &path))
            })
            .await
    }

    /// Change a named secret
    ///
    /// Changes a secret that you identify with `?id=` or with `id` in the body. Fields that the body omits keep their values. The
    /// value is bound to `hosts`: to add a host, send `value` again. To remove a host, you do not need to send it.
    #[oai(path = "/", method = "put", operation_id = "update_secret")]
    async fn update_secret(
        &self,
        auth: Allowed<SecretsWrite>,
        _recent: Marked<RecentSignIn>,
        query: Filter<SecretTarget>,
        if_match: IfMatch,
        body: Lenient<UpdateSecret>,
    ) -> Result<Changed<NamedSecret>, Problem> {
        let id = target(query.0.id, body.0.id)?;
        record::update(&self.core, &auth, id, if_match, body.0).await
    }

    /// Delete a named secret
    ///
    /// Deletes a secret that you identify with `?id=` or with `id` in the body. Workflow steps that use it fail from now on.
    #[oai(path = "/", method = "delete", operation_id = "delete_secret")]
    async fn delete_secret(
        &self,
        auth: Allowed<SecretsWrite>,
        query: Filter<SecretTarget>,
        if_match: IfMatch,
        body: OptionalBody<DeleteSecretTarget>,
    ) -> Result<Empty, Problem> {
        let id = target(query.0.id, body.0.id)?;
        record::delete(&self.core, &auth, id, if_match).await
    }
}
