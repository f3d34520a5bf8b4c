//! `/internal/admin/tenants/{id}/webhooks`: endpoints of any tenant, for callers of the admin socket.

use std::sync::Arc;

use poem_openapi::{OpenApi, Tags, param::Path};

use tenantd_base::{
    access::Grants,
    id::{TenantId, WebhookId},
};
use tenantd_http::{
    idempotency::IdempotencyKey,
    input::Body,
    need::{Allowed, LocalOperator},
    precondition::IfMatch,
    problem::Problem,
    reply::{Created, Empty},
};
use tenantd_platform::Tenants;

use super::{
    super::{Core, error::WebhookError, model::NewEndpoint, repo, service::Service},
    wire::{CreateWebhook, WebhookWithSecret},
};

#[derive(Tags)]
enum Area {
    /// Operations that only the admin socket serves.
    Administration,
}

pub(crate) struct AdminWebhooksApi {
    pub(crate) core: Arc<Core>,
    pub(crate) tenants: Tenants,
}

#[OpenApi(prefix_path = "/internal/admin/tenants", tag = "Area::Administration")]
impl AdminWebhooksApi {
    /// Create a webhook endpoint in a tenant
    ///
    /// Creates an endpoint. The response contains the secret. tenantd shows it only once.
    #[oai(path = "/:id/webhooks", method = "post", operation_id = "create_tenant_webhook")]
    async fn create_tenant_webhook(
        &self,
        auth: Allowed<LocalOperator>,
        id: Path<TenantId>,
        idempotency_key: IdempotencyKey,
        body: Body<CreateWebhook>,
    ) -> Result<Created<WebhookWithSecret>, Problem> {
        let mut new = NewEndpoint::from(body.0);
        let tenant = self.core.store.read(|tx| self.tenants.get(tx, id.0))?;
        new.faults.extend(self.core.vet(&new.url, tenant.kind).await);
        let service = self.core.service.clone();
        let intent = auth.context.intent_in(&auth.principal, tenant.id);
        idempotency_key
            .run(intent, move |tx, act| {
                let (endpoint, secret) = service.create(tx, act, Grants::all(), &new)?;
                let location = format!("/internal/admin/tenants/{}/webhooks/{}", endpoint.tenant_id, endpoint.id);
                let version = endpoint.version;
                let shown = WebhookWithSecret::new(endpoint, &repo::EndpointState::default(), &secret, act.now);
                Ok::<_, WebhookError>(Created::new(&shown, version, &location).secret())
            })
            .await
    }

    /// Delete a webhook endpoint of a tenant
    ///
    /// Deletes the endpoint. Waiting deliveries are not sent.
    #[oai(path = "/:id/webhooks/:webhook_id", method = "delete", operation_id = "delete_tenant_webhook")]
    async fn delete_tenant_webhook(
        &self,
        auth: Allowed<LocalOperator>,
        id: Path<TenantId>,
        webhook_id: Path<WebhookId>,
        if_match: IfMatch,
    ) -> Result<Empty, Problem> {
        let intent = auth.context.intent_in(&auth.principal, id.0);
        self.core.store.write(move |tx| Service::delete(tx, &mut intent.begin(), webhook_id.0, &if_match)).await?;
        Ok(Empty::new())
    }
}
