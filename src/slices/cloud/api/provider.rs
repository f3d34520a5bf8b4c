//! `/api/cloud/providers/{id}`: one provider. Also implements the updates and deletions that address the collection.

use std::sync::Arc;

use poem_openapi::{Object, OpenApi, param::Path};

use tenantd_base::id::CloudProviderId;
use tenantd_http::{
    idempotency::IdempotencyKey,
    input::{Body, target},
    need::{Allowed, ProvidersRead, ProvidersWrite},
    precondition::{IfMatch, IfNoneMatch},
    problem::Problem,
    recent::RecentUnlessReducing,
    reply::{Changed, Empty, Found},
};

use super::{
    super::{
        Core,
        error::CloudError,
        service::{Service, find_provider},
    },
    Area,
    bodies::UpdateCloudProvider,
    show_provider,
    wire::{CloudProvider, ProviderVerification},
};

/// The cloud provider to delete.
#[derive(Debug, Object)]
pub(super) struct DeleteProviderTarget {
    /// The id of the provider. Not needed if the query names it.
    pub(super) id: Option<CloudProviderId>,
}

pub(super) fn path(id: CloudProviderId) -> String {
    format!("/api/cloud/providers/{id}")
}

pub(crate) struct ProviderApi {
    pub(crate) core: Arc<Core>,
}

#[OpenApi(prefix_path = "/api/cloud/providers", tag = "Area::Cloud")]
impl ProviderApi {
    /// Read a cloud provider
    ///
    /// Returns the provider with its last verification and the state of its syncs, without its credential. The `ETag` changes when
    /// the provider is updated, not after a verification or a sync.
    #[oai(path = "/:id", method = "get", operation_id = "read_cloud_provider")]
    async fn read_cloud_provider(
        &self,
        auth: Allowed<ProvidersRead>,
        id: Path<CloudProviderId>,
        if_none_match: IfNoneMatch,
    ) -> Result<Found<CloudProvider>, Problem> {
        let act = auth.context.intent(&auth.principal).begin();
        let shown = self.core.store.read(|tx| {
            let provider = find_provider(tx, &act, &auth.principal.reach, id.0)?;
            Ok::<_, CloudError>(show_provider(tx, provider)?)
        })?;
        if if_none_match.knows(shown.version) {
            return Ok(Found::not_modified(shown.version));
        }
        Ok(Found::new(&shown, shown.version))
    }

    /// Change a cloud provider by its path
    ///
    /// Does the same as `PUT /api/cloud/providers?id=`. Fields that the body omits keep their values. To change the target of the
    /// provider, send `credential` in the same request.
    #[oai(path = "/:id", method = "put", operation_id = "update_cloud_provider_by_id")]
    async fn update_cloud_provider_by_id(
        &self,
        auth: Allowed<ProvidersWrite>,
        recent: RecentUnlessReducing,
        id: Path<CloudProviderId>,
        if_match: IfMatch,
        body: Body<UpdateCloudProvider>,
    ) -> Result<Changed<CloudProvider>, Problem> {
        recent.check(body.0.only_disables())?;
        let id = target(Some(id.0), body.0.id)?;
        update(&self.core, &auth, id, if_match, body.0).await
    }

    /// Delete a cloud provider by its path
    ///
    /// Does the same as `DELETE /api/cloud/providers?id=`. The VMs in the cloud are not affected.
    #[oai(path = "/:id", method = "delete", operation_id = "delete_cloud_provider_by_id")]
    async fn delete_cloud_provider_by_id(
        &self,
        auth: Allowed<ProvidersWrite>,
        id: Path<CloudProviderId>,
        if_match: IfMatch,
    ) -> Result<Empty, Problem> {
        delete(&self.core, &auth, id.0, if_match).await
    }

    /// Verify a cloud provider
    ///
    /// Does the same as `"action": "verify"` on the collection: verifies the stored credential now and stores the result. Takes at
    /// most 10 seconds.
    #[oai(path = "/:id/verify", method = "post", operation_id = "verify_cloud_provider")]
    async fn verify_cloud_provider(
        &self,
        auth: Allowed<ProvidersWrite>,
        id: Path<CloudProviderId>,
        idempotency_key: IdempotencyKey,
    ) -> Result<Changed<ProviderVerification>, Problem> {
        let intent = auth.context.intent(&auth.principal);
        let provider = self.core.store.read(|tx| find_provider(tx, &intent.begin(), &auth.principal.reach, id.0))?;
        let verification = self.core.verify_stored(&provider).await?;
        idempotency_key
            .run(intent, move |tx, act| {
                Service::store_verification(tx, act, &provider, &verification)?;
                Ok::<_, CloudError>(Changed::unversioned(&ProviderVerification::from(verification.clone())))
            })
            .await
    }
}

pub(super) async fn update(
    core: &Arc<Core>,
    auth: &Allowed<ProvidersWrite>,
    id: CloudProviderId,
    if_match: IfMatch,
    body: UpdateCloudProvider,
) -> Result<Changed<CloudProvider>, Problem> {
    let intent = auth.context.intent(&auth.principal);
    let reach = auth.principal.reach.clone();
    let kind = core.store.read(|tx| find_provider(tx, &intent.begin(), &reach, id))?.kind;
    let change = body.read(kind)?;
    if let Some(config) = &change.config {
        CloudError::ensure_none(core.vet(config, auth.principal.tenant_id).await)?;
    }
    let inner = core.clone();
    let shown = core
        .store
        .write(move |tx| {
            let provider = inner.service.update_provider(tx, &mut intent.begin(), &reach, id, &if_match, &change)?;
            Ok::<_, CloudError>(show_provider(tx, provider)?)
        })
        .await?;
    Ok(Changed::new(&shown, shown.version))
}

pub(super) async fn delete(
    core: &Arc<Core>,
    auth: &Allowed<ProvidersWrite>,
    id: CloudProviderId,
    if_match: IfMatch,
) -> Result<Empty, Problem> {
    let (intent, reach) = (auth.context.intent(&auth.principal), auth.principal.reach.clone());
    core.store.write(move |tx| Service::delete_provider(tx, &mut intent.begin(), &reach, id, &if_match)).await?;
    Ok(Empty::new())
}
