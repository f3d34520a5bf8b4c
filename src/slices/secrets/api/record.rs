//! `/api/admin/secrets/{id}`: one secret. Also implements the updates and deletions of the collection.

use std::sync::Arc;

use poem_openapi::{Object, OpenApi, param::Path};

use tenantd_base::{id::SecretId, secrets::Secret};
use tenantd_http::{
    idempotency::IdempotencyKey,
    input::{Lenient, target},
    mark::{Marked, RecentSignIn},
    need::{Allowed, SecretsWrite},
    precondition::{IfMatch, IfNoneMatch},
    problem::Problem,
    reply::{Changed, Empty, Found},
};
use tenantd_store::{Read, StoreError};

use super::{
    super::{
        Core,
        error::SecretError,
        model, repo,
        service::{SecretChange, Service},
    },
    Area,
    wire::{NamedSecret, RotateSecret, UpdateSecret},
};

/// The secret to delete.
#[derive(Debug, Object)]
pub(super) struct DeleteSecretTarget {
    /// The ID of the secret. Required unless the query has `id`.
    pub(super) id: Option<SecretId>,
}

pub(super) fn path(id: SecretId) -> String {
    format!("/api/admin/secrets/{id}")
}

/// Builds the wire form of a secret, with its last use.
pub(super) fn show(tx: &impl Read, secret: model::NamedSecret) -> Result<NamedSecret, StoreError> {
    let last = repo::last_use(tx, (secret.tenant_id, secret.id))?;
    Ok(NamedSecret::new(secret, last))
}

pub(crate) struct SecretApi {
    pub(crate) core: Arc<Core>,
}

#[OpenApi(prefix_path = "/api/admin/secrets", tag = "Area::Secrets")]
impl SecretApi {
    /// Read a named secret
    ///
    /// Returns the secret without its value. The `ETag` changes when the secret changes, not when a step uses it.
    #[oai(path = "/:id", method = "get", operation_id = "read_secret")]
    async fn read_secret(
        &self,
        auth: Allowed<SecretsWrite>,
        id: Path<SecretId>,
        if_none_match: IfNoneMatch,
    ) -> Result<Found<NamedSecret>, Problem> {
        let key = (auth.principal.tenant_id, id.0);
        let shown = self.core.store.read(|tx| {
            let secret = repo::get(tx, key)?.ok_or(SecretError::NotFound)?;
            Ok::<_, SecretError>(show(tx, secret)?)
        })?;
        if if_none_match.knows(shown.version) {
            return Ok(Found::not_modified(shown.version));
        }
        Ok(Found::new(&shown, shown.version))
    }

    /// Change a named secret by its path
    ///
    /// Changes the secret in the path. Works like `PUT` with `?id=`. To add a host, send `value` again.
    #[oai(path = "/:id", method = "put", operation_id = "update_secret_by_id")]
    async fn update_secret_by_id(
        &self,
        auth: Allowed<SecretsWrite>,
        _recent: Marked<RecentSignIn>,
        id: Path<SecretId>,
        if_match: IfMatch,
        body: Lenient<UpdateSecret>,
    ) -> Result<Changed<NamedSecret>, Problem> {
        let id = target(Some(id.0), body.0.id)?;
        update(&self.core, &auth, id, if_match, body.0).await
    }

    /// Delete a named secret by its path
    ///
    /// Deletes the secret in the path. Works like `DELETE` with `?id=`. Workflow steps that use it fail from now on.
    #[oai(path = "/:id", method = "delete", operation_id = "delete_secret_by_id")]
    async fn delete_secret_by_id(
        &self,
        auth: Allowed<SecretsWrite>,
        id: Path<SecretId>,
        if_match: IfMatch,
    ) -> Result<Empty, Problem> {
        delete(&self.core, &auth, id.0, if_match).await
    }

    /// Rotate the value of a named secret
    ///
    /// Replaces the value. Steps that run from now on send the new value. The old value cannot be restored.
    #[oai(path = "/:id/rotate", method = "post", operation_id = "rotate_secret")]
    async fn rotate_secret(
        &self,
        auth: Allowed<SecretsWrite>,
        _recent: Marked<RecentSignIn>,
        id: Path<SecretId>,
        if_match: IfMatch,
        idempotency_key: IdempotencyKey,
        body: Lenient<RotateSecret>,
    ) -> Result<Changed<NamedSecret>, Problem> {
        let (core, value) = (self.core.clone(), Secret::new(body.0.value));
        idempotency_key
            .run(auth.context.intent(&auth.principal), move |tx, act| {
                let secret = core.service.rotate(tx, act, id.0, &if_match, &value)?;
                let shown = show(tx, secret)?;
                Ok::<_, SecretError>(Changed::new(&shown, shown.version))
            })
            .await
    }
}

pub(super) async fn update(
    core: &Arc<Core>,
    auth: &Allowed<SecretsWrite>,
    id: SecretId,
    if_match: IfMatch,
    body: UpdateSecret,
) -> Result<Changed<NamedSecret>, Problem> {
    let change = SecretChange::try_from(body)?;
    let (intent, inner) = (auth.context.intent(&auth.principal), core.clone());
    let shown = core
        .store
        .write(move |tx| {
            let secret = inner.service.update(tx, &mut intent.begin(), id, &if_match, &change)?;
            Ok::<_, SecretError>(show(tx, secret)?)
        })
        .await?;
    Ok(Changed::new(&shown, shown.version))
}

pub(super) async fn delete(
    core: &Arc<Core>,
    auth: &Allowed<SecretsWrite>,
    id: SecretId,
    if_match: IfMatch,
) -> Result<Empty, Problem> {
    let intent = auth.context.intent(&auth.principal);
    core.store.write(move |tx| Service::delete(tx, &mut intent.begin(), id, &if_match)).await?;
    Ok(Empty::new())
}
