//! `/api/admin/webhooks/{id}`: one endpoint. The changes of the collection are implemented here too.

use std::sync::Arc;

use poem_openapi::{Object, OpenApi, param::Path};

use tenantd_base::id::WebhookId;
use tenantd_http::{
    input::{Lenient, target},
    need::{Allowed, WebhooksRead, WebhooksWrite},
    precondition::{IfMatch, IfNoneMatch},
    problem::Problem,
    recent::RecentUnlessReducing,
    reply::{Changed, Empty, Found},
};

use super::{
    super::{
        Core,
        error::WebhookError,
        repo,
        service::{EndpointChange, Service, WantedStatus},
    },
    Area,
    delivery_wire::MissedEvents,
    show,
    wire::{UpdateWebhook, Webhook},
};

/// The endpoint to delete.
#[derive(Debug, Object)]
pub(super) struct DeleteWebhookTarget {
    /// The id of the endpoint. Leave it out if the query has `id`.
    pub(super) id: Option<WebhookId>,
}

pub(super) fn path(id: WebhookId) -> String {
    format!("/api/admin/webhooks/{id}")
}

pub(crate) struct WebhookApi {
    pub(crate) core: Arc<Core>,
}

#[OpenApi(prefix_path = "/api/admin/webhooks", tag = "Area::Webhooks")]
impl WebhookApi {
    /// Read a webhook endpoint
    ///
    /// Returns the endpoint and its health, without its secret. The `ETag` changes with the endpoint, not with its health.
    #[oai(path = "/:id", method = "get", operation_id = "read_webhook")]
    async fn read_webhook(
        &self,
        auth: Allowed<WebhooksRead>,
        id: Path<WebhookId>,
        if_none_match: IfNoneMatch,
    ) -> Result<Found<Webhook>, Problem> {
        let (key, now) = ((auth.principal.tenant_id, id.0), auth.context.now);
        let shown = self.core.store.read(|tx| {
            let endpoint = repo::get(tx, key)?.ok_or(WebhookError::NotFound)?;
            show(&self.core, tx, endpoint, now)
        })?;
        if if_none_match.knows(shown.version) {
            return Ok(Found::not_modified(shown.version));
        }
        Ok(Found::new(&shown, shown.version))
    }

    /// Change a webhook endpoint by its path
    ///
    /// Works like the change with `?id=`: fields that the body leaves out keep their values. If you change the scheme, host or port
    /// of `url`, or `ca_certificate_pem`, without sending `headers` again, tenantd removes the custom headers. A body with `url` or
    /// `ca_certificate_pem` needs a session that was proven recently.
    #[oai(path = "/:id", method = "put", operation_id = "update_webhook_by_id")]
    async fn update_webhook_by_id(
        &self,
        auth: Allowed<WebhooksWrite>,
        recent: RecentUnlessReducing,
        id: Path<WebhookId>,
        if_match: IfMatch,
        body: Lenient<UpdateWebhook>,
    ) -> Result<Changed<Webhook>, Problem> {
        recent.check(body.0.keeps_target())?;
        let id = target(Some(id.0), body.0.id)?;
        update(&self.core, &auth, id, if_match, body.0).await
    }

    /// Delete a webhook endpoint by its path
    ///
    /// Works like the deletion with `?id=`. Waiting deliveries are not sent.
    #[oai(path = "/:id", method = "delete", operation_id = "delete_webhook_by_id")]
    async fn delete_webhook_by_id(
        &self,
        auth: Allowed<WebhooksWrite>,
        id: Path<WebhookId>,
        if_match: IfMatch,
    ) -> Result<Empty, Problem> {
        delete(&self.core, &auth, id.0, if_match).await
    }
}

pub(super) async fn update(
    core: &Arc<Core>,
    auth: &Allowed<WebhooksWrite>,
    id: WebhookId,
    if_match: IfMatch,
    body: UpdateWebhook,
) -> Result<Changed<Webhook>, Problem> {
    let mut change = EndpointChange::from(body);
    if let Some(url) = &change.url {
        change.faults.extend(core.vet(url, auth.principal.tenant_kind).await);
    }
    let missed = match change.status {
        Some(WantedStatus::Active) => core.missed((auth.principal.tenant_id, id)).await?,
        _ => None,
    };
    let (intent, inner, held) = (auth.context.intent(&auth.principal), core.clone(), auth.principal.grants);
    let (shown, reset) = core
        .store
        .write(move |tx| {
            let mut act = intent.begin();
            let updated = inner.service.update(tx, &mut act, held, id, &if_match, &change)?;
            let mut shown = show(&inner, tx, updated.endpoint, act.now)?;
            shown.missed = missed.filter(|_| updated.enabled).map(|missed| MissedEvents::new(id, &missed));
            Ok::<_, WebhookError>((shown, updated.reset))
        })
        .await?;
    if reset {
        core.dispatch.reset((auth.principal.tenant_id, id));
    }
    Ok(Changed::new(&shown, shown.version))
}

pub(super) async fn delete(
    core: &Arc<Core>,
    auth: &Allowed<WebhooksWrite>,
    id: WebhookId,
    if_match: IfMatch,
) -> Result<Empty, Problem> {
    let intent = auth.context.intent(&auth.principal);
    core.store.write(move |tx| Service::delete(tx, &mut intent.begin(), id, &if_match)).await?;
    Ok(Empty::new())
}
