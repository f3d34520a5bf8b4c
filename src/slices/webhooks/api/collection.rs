//! `/api/admin/webhooks`: the collection. A change names its endpoint in the query or in the body.

use std::sync::Arc;

use poem_openapi::{Object, OpenApi};

use tenantd_base::id::WebhookId;
use tenantd_http::{
    idempotency::IdempotencyKey,
    input::{Filter, Lenient, OptionalBody, target},
    mark::{Marked, RecentSignIn},
    need::{Allowed, WebhooksRead, WebhooksWrite},
    page::{PageQuery, PageRequest},
    precondition::IfMatch,
    problem::Problem,
    recent::RecentUnlessReducing,
    reply::{Changed, Created, Empty, Listed},
};
use tenantd_store::Key;

use super::{
    super::{Core, error::WebhookError, model::NewEndpoint, repo, service::WantedStatus},
    Area,
    record::{self, DeleteWebhookTarget},
    show,
    wire::{CreateWebhook, UpdateWebhook, Webhook, WebhookWithSecret},
};

#[derive(Debug, Object)]
struct ListWebhooks {
    /// Return only endpoints in these states.
    #[oai(validator(min_items = 1, max_items = 3))]
    status: Option<Vec<WantedStatus>>,
    #[oai(flatten)]
    page: PageQuery,
}

#[derive(Debug, Object)]
struct WebhookTargetQuery {
    /// The id of the endpoint. Leave it out if the body has `id`.
    id: Option<WebhookId>,
}

pub(crate) struct WebhooksApi {
    pub(crate) core: Arc<Core>,
}

#[OpenApi(prefix_path = "/api/admin/webhooks", tag = "Area::Webhooks")]
impl WebhooksApi {
    /// List webhook endpoints
    ///
    /// Returns the tenant's endpoints, newest first, without their secrets.
    #[oai(path = "/", method = "get", operation_id = "list_webhooks")]
    async fn list_webhooks(&self, auth: Allowed<WebhooksRead>, query: Filter<ListWebhooks>) -> Result<Listed<Webhook>, Problem> {
        let request = PageRequest::new(&auth.context, &query.0.page)?;
        let (tenant, now) = (auth.principal.tenant_id, auth.context.now);
        let wanted = query.0.status.unwrap_or_default();
        let (shown, last, total) = self.core.store.read(|tx| {
            let mut endpoints = repo::list(tx, tenant)?;
            endpoints.reverse();
            let mut shown = endpoints
                .into_iter()
                .map(|endpoint| show(&self.core, tx, endpoint, now))
                .collect::<Result<Vec<Webhook>, WebhookError>>()?;
            shown.retain(|endpoint| wanted.is_empty() || wanted.contains(&endpoint.status));
            let total = request.include_total.then_some(shown.len() as u64);
            if let Some(after) = &request.after {
                shown.retain(|endpoint| endpoint.id.to_bytes() < *after);
            }
            let more = shown.len() > request.limit;
            shown.truncate(request.limit);
            let last = shown.last().filter(|_| more).map(|endpoint| endpoint.id.to_bytes());
            Ok::<_, WebhookError>((shown, last, total))
        })?;
        Ok(Listed::new(&shown, &request.page(last, total)))
    }

    /// Create a webhook endpoint
    ///
    /// Creates an endpoint that receives the events that happen from now on, as far as you may read them: an event of a ticket
    /// needs `tickets:read`. The response contains the secret that signs the deliveries. tenantd shows it only once. A session must
    /// have been proven recently, because the endpoint sends events to another server.
    #[oai(path = "/", method = "post", operation_id = "create_webhook")]
    async fn create_webhook(
        &self,
        auth: Allowed<WebhooksWrite>,
        _recent: Marked<RecentSignIn>,
        idempotency_key: IdempotencyKey,
        body: Lenient<CreateWebhook>,
    ) -> Result<Created<WebhookWithSecret>, Problem> {
        let mut new = NewEndpoint::from(body.0);
        new.faults.extend(self.core.vet(&new.url, auth.principal.tenant_kind).await);
        let (service, held) = (self.core.service.clone(), auth.principal.grants);
        idempotency_key
            .run(auth.context.intent(&auth.principal), move |tx, act| {
                let (endpoint, secret) = service.create(tx, act, held, &new)?;
                let (version, path) = (endpoint.version, record::path(endpoint.id));
                let shown = WebhookWithSecret::new(endpoint, &repo::EndpointState::default(), &secret, act.now);
                Ok::<_, WebhookError>(Created::new(&shown, version, &path).secret())
            })
            .await
    }

    /// Change a webhook endpoint
    ///
    /// Changes the endpoint that `?id=` or `id` in the body names. Fields that the body leaves out keep their values, except for
    /// custom headers. Their values are bound to the scheme, host and port of `url` and to `ca_certificate_pem`. If you change one
    /// of these without sending `headers` again, tenantd removes them, and `header_names` in the response is empty. A body with `url`
    /// or `ca_certificate_pem` needs a session that was proven recently.
    #[oai(path = "/", method = "put", operation_id = "update_webhook")]
    async fn update_webhook(
        &self,
        auth: Allowed<WebhooksWrite>,
        recent: RecentUnlessReducing,
        query: Filter<WebhookTargetQuery>,
        if_match: IfMatch,
        body: Lenient<UpdateWebhook>,
    ) -> Result<Changed<Webhook>, Problem> {
        recent.check(body.0.keeps_target())?;
        let id = target(query.0.id, body.0.id)?;
        record::update(&self.core, &auth, id, if_match, body.0).await
    }

    /// Delete a webhook endpoint
    ///
    /// Deletes the endpoint that `?id=` or `id` in the body names. Waiting deliveries are not sent.
    #[oai(path = "/", method = "delete", operation_id = "delete_webhook")]
    async fn delete_webhook(
        &self,
        auth: Allowed<WebhooksWrite>,
        query: Filter<WebhookTargetQuery>,
        if_match: IfMatch,
        body: OptionalBody<DeleteWebhookTarget>,
    ) -> Result<Empty, Problem> {
        let id = target(query.0.id, body.0.id)?;
        record::delete(&self.core, &auth, id, if_match).await
    }
}
