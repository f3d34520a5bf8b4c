//! `/api/admin/webhooks/{id}/…`: actions on an endpoint.

use std::{sync::Arc, time::Duration};

use poem_openapi::{OpenApi, param::Path};

use tenantd_base::{access::Grants, id::WebhookId, versions::ExpectedVersion};
use tenantd_http::{
    idempotency::IdempotencyKey,
    input::OptionalBody,
    mark::{Marked, RecentSignIn},
    need::{Allowed, WebhooksWrite},
    precondition::IfMatch,
    problem::Problem,
    reply::Changed,
};
use tenantd_store::{
    WriteTx,
    events::{self, Act},
};

use super::{
    super::{
        Core,
        body::delivery_body,
        delivery::{Decision, Delivery, DeliveryStatus, Sent, Trigger, decide},
        error::WebhookError,
        ledger::{self, Counted},
        model::{Endpoint, EndpointStatus},
        repo,
        schedule::RetrySchedule,
        service::Service,
    },
    Area,
    delivery_wire::{MissedEvents, WebhookTest},
    show,
    wire::{RotateWebhookSecret, Webhook, WebhookWithSecret},
};

const DEFAULT_GRACE_SECONDS: u32 = 86_400;
/// A test must end within the time limit of a request.
const LONGEST_TEST: Duration = Duration::from_secs(20);

type Transition = fn(&mut WriteTx, &mut Act, Grants, WebhookId, &ExpectedVersion) -> Result<Endpoint, WebhookError>;

pub(crate) struct OperationsApi {
    pub(crate) core: Arc<Core>,
}

#[OpenApi(prefix_path = "/api/admin/webhooks", tag = "Area::Webhooks")]
impl OperationsApi {
    /// Rotate the secret of a webhook endpoint
    ///
    /// Replaces the signing secret. The response contains the new secret, only once. For `grace_seconds`, deliveries are signed
    /// with both secrets, so that you can update your receivers.
    #[oai(path = "/:id/rotate-secret", method = "post", operation_id = "rotate_webhook_secret")]
    async fn rotate_webhook_secret(
        &self,
        auth: Allowed<WebhooksWrite>,
        _recent: Marked<RecentSignIn>,
        id: Path<WebhookId>,
        if_match: IfMatch,
        idempotency_key: IdempotencyKey,
        body: OptionalBody<RotateWebhookSecret>,
    ) -> Result<Changed<WebhookWithSecret>, Problem> {
        let grace = Duration::from_secs(u64::from(body.0.grace_seconds.unwrap_or(DEFAULT_GRACE_SECONDS)));
        let service = self.core.service.clone();
        idempotency_key
            .run(auth.context.intent(&auth.principal), move |tx, act| {
                let (endpoint, secret) = service.rotate_secret(tx, act, id.0, &if_match, grace)?;
                let (version, state) = (endpoint.version, repo::state(tx, (act.tenant_id, id.0))?);
                let shown = WebhookWithSecret::new(endpoint, &state, &secret, act.now);
                Ok::<_, WebhookError>(Changed::new(&shown, version).secret())
            })
            .await
    }

    /// Test a webhook endpoint
    ///
    /// Sends a `webhook.test` event now, in the same way as a delivery, and returns the attempt. `succeeded` says whether the
    /// receiver accepted it, and `message` describes the response. tenantd does not retry a test and waits at most 20 seconds. You
    /// can also test paused and disabled endpoints. A failed test does not affect the endpoint's health. A successful one does: if
    /// deliveries wait because the receiver failed, tenantd now sends those that are due.
    #[oai(path = "/:id/test", method = "post", operation_id = "test_webhook")]
    async fn test_webhook(
        &self,
        auth: Allowed<WebhooksWrite>,
        id: Path<WebhookId>,
        idempotency_key: IdempotencyKey,
    ) -> Result<Changed<WebhookTest>, Problem> {
        let key = (auth.principal.tenant_id, id.0);
        let intent = auth.context.intent(&auth.principal);
        let number = self.core.store.write(move |tx| Service::announce_test(tx, &mut intent.begin(), id.0)).await?;
        let target = self.core.subscriptions.target(key)?.ok_or(WebhookError::NotFound)?;
        let event = self.core.store.read(|tx| events::read_numbered(tx, key.0, number))?.ok_or(WebhookError::EventGone)?;
        let (seq, event_id, at, kind) = (event.seq, event.record.id, event.record.at, event.record.kind);
        let timeout = target.timeout.min(LONGEST_TEST);
        let sent = self.core.sender.send(&target, event_id, delivery_body(event.record.body, number), timeout).await;
        let delivered = sent.is_success();
        let reply = idempotency_key
            .run(auth.context.intent(&auth.principal), move |tx, act| {
                let mut delivery = Delivery::new((event_id, number), &kind, at, None);
                record_test(&mut delivery, sent.clone(), act);
                ledger::replace(tx, key, seq, None, &delivery, &mut Counted::default())?;
                if delivery.status == DeliveryStatus::Delivered && repo::get(tx, key)?.is_some() {
                    ledger::settle_counts(tx, key, Counted::default(), |state| state.health.succeeded(act.now, sent.status()))?;
                }
                let attempt = delivery.attempts.pop().ok_or(WebhookError::NoDelivery)?;
                Ok::<_, WebhookError>(Changed::unversioned(&WebhookTest::new(attempt, timeout)))
            })
            .await?;
        if delivered {
            self.core.dispatch.reset(key);
        }
        Ok(reply)
    }

    /// Pause a webhook endpoint
    ///
    /// Stops deliveries until you resume the endpoint. Events wait, up to the limit of waiting deliveries.
    #[oai(path = "/:id/pause", method = "post", operation_id = "pause_webhook")]
    async fn pause_webhook(
        &self,
        auth: Allowed<WebhooksWrite>,
        id: Path<WebhookId>,
        if_match: IfMatch,
        idempotency_key: IdempotencyKey,
    ) -> Result<Changed<Webhook>, Problem> {
        self.change(&auth, id.0, if_match, idempotency_key, Service::pause).await
    }

    /// Resume a webhook endpoint
    ///
    /// Sends the waiting events in the order in which they happened. If deliveries wait because the receiver failed, this ends the
    /// wait.
    #[oai(path = "/:id/resume", method = "post", operation_id = "resume_webhook")]
    async fn resume_webhook(
        &self,
        auth: Allowed<WebhooksWrite>,
        id: Path<WebhookId>,
        if_match: IfMatch,
        idempotency_key: IdempotencyKey,
    ) -> Result<Changed<Webhook>, Problem> {
        let reply = self.change(&auth, id.0, if_match, idempotency_key, Service::resume).await?;
        self.core.dispatch.reset((auth.principal.tenant_id, id.0));
        Ok(reply)
    }

    /// Enable a disabled webhook endpoint
    ///
    /// Enables the endpoint: it receives the events that happen from now on. `missed` in the response counts the events that were
    /// skipped in the meantime, and contains the request that sends them.
    #[oai(path = "/:id/enable", method = "post", operation_id = "enable_webhook")]
    async fn enable_webhook(
        &self,
        auth: Allowed<WebhooksWrite>,
        id: Path<WebhookId>,
        if_match: IfMatch,
        idempotency_key: IdempotencyKey,
    ) -> Result<Changed<Webhook>, Problem> {
        let key = (auth.principal.tenant_id, id.0);
        let (core, held, missed) = (self.core.clone(), auth.principal.grants, self.core.missed(key).await?);
        let reply = idempotency_key
            .run(auth.context.intent(&auth.principal), move |tx, act| {
                let was_active = repo::get(tx, key)?.is_some_and(|before| before.status == EndpointStatus::Active);
                let endpoint = Service::enable(tx, act, held, id.0, &if_match)?;
                let mut shown = show(&core, tx, endpoint, act.now)?;
                shown.missed = missed.filter(|_| !was_active).map(|missed| MissedEvents::new(id.0, &missed));
                Ok::<_, WebhookError>(Changed::new(&shown, shown.version))
            })
            .await?;
        self.core.dispatch.reset(key);
        Ok(reply)
    }
}

impl OperationsApi {
    async fn change(
        &self,
        auth: &Allowed<WebhooksWrite>,
        id: WebhookId,
        if_match: IfMatch,
        idempotency_key: IdempotencyKey,
        transition: Transition,
    ) -> Result<Changed<Webhook>, Problem> {
        let (core, held) = (self.core.clone(), auth.principal.grants);
        idempotency_key
            .run(auth.context.intent(&auth.principal), move |tx, act| {
                let endpoint = transition(tx, act, held, id, &if_match)?;
                let shown = show(&core, tx, endpoint, act.now)?;
                Ok::<_, WebhookError>(Changed::new(&shown, shown.version))
            })
            .await
    }
}

/// A test is sent once. Its result has no consequences.
fn record_test(delivery: &mut Delivery, sent: Sent, act: &mut Act) {
    let mut verdict = decide(&sent, RetrySchedule::Standard, u32::MAX, act.now, &mut act.entropy);
    if !sent.is_success() {
        verdict.decision = Decision::Failed;
    }
    verdict.disables = None;
    delivery.record(sent, Trigger::Test, verdict, act.now);
}
