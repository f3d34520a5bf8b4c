//! `/api/admin/webhooks/{id}/deliveries`, redelivery, replay and metrics.

use std::{sync::Arc, time::Duration};

use poem_openapi::{Object, OpenApi, param::Path};

use tenantd_base::{
    clock::Timestamp,
    id::{DeliveryId, OperationId, WebhookId},
    vocabulary::vocabulary,
};
use tenantd_http::{
    idempotency::IdempotencyKey,
    input::{Filter, Lenient},
    need::{Allowed, WebhooksRead, WebhooksWrite},
    page::{PageQuery, PageRequest},
    problem::{FieldError, Place, Problem},
    reply::{Accepted, Answer, Listed},
    wire::word_type,
};
use tenantd_store::{Key, Read, events};

use super::{
    super::{
        Core,
        delivery::{Delivery, DeliveryStatus, Trigger, delivery_id, number_of},
        error::WebhookError,
        ledger::{self, Counted},
        listing::{self, DeliveryQuery},
        replay::{self, NewReplay},
        repo::{self, EndpointKey},
        stats::{self, Figures},
    },
    Area,
    delivery_wire::{ReplayWebhook, WebhookDelivery, WebhookDeliveryWithAttempts, WebhookFigures, WebhookReplay, WebhookStats},
    record,
};

#[derive(Debug, Object)]
struct ListDeliveries {
    /// Return only deliveries in these states.
    #[oai(validator(min_items = 1, max_items = 7))]
    status: Option<Vec<DeliveryStatus>>,
    /// Return only deliveries of these kinds of events: exact names, patterns such as `ticket.*`, or `*`.
    #[oai(rename = "type", validator(min_items = 1, max_items = 64))]
    kinds: Option<Vec<String>>,
    /// Return only deliveries of events from this time on.
    since: Option<Timestamp>,
    /// Return only deliveries of events before this time.
    until: Option<Timestamp>,
    #[oai(flatten)]
    page: PageQuery,
}

vocabulary! {
    WebhookStatsRange:
    Hour "1h", Day "24h", Week "7d", Month "30d",
}

word_type! {
    WebhookStatsRange, "WebhookStatsRange";
}

#[derive(Debug, Object)]
struct WebhookStatsQuery {
    /// The period up to now. Defaults to `24h`.
    range: Option<WebhookStatsRange>,
}

pub(crate) struct DeliveriesApi {
    pub(crate) core: Arc<Core>,
}

#[OpenApi(prefix_path = "/api/admin/webhooks", tag = "Area::Webhooks")]
impl DeliveriesApi {
    /// List deliveries
    ///
    /// Returns the deliveries of an endpoint, newest event first. A page can contain fewer than `limit` deliveries although more
    /// follow.
    #[oai(path = "/:id/deliveries", method = "get", operation_id = "list_webhook_deliveries")]
    async fn list_webhook_deliveries(
        &self,
        auth: Allowed<WebhooksRead>,
        id: Path<WebhookId>,
        query: Filter<ListDeliveries>,
    ) -> Result<Listed<WebhookDelivery>, Problem> {
        let request = PageRequest::new(&auth.context, &query.0.page)?;
        let endpoint = (auth.principal.tenant_id, id.0);
        let wanted = DeliveryQuery {
            statuses: query.0.status.unwrap_or_default(),
            patterns: self.core.patterns(&query.0.kinds.unwrap_or_default()).map_err(in_type)?,
            since: query.0.since,
            until: query.0.until,
        };
        let after = request.after.as_deref().and_then(u64::from_bytes);
        let (limit, count) = (request.limit, request.include_total);
        let found = self
            .core
            .store
            .scan_for(endpoint.0, move |tx| {
                repo::get(tx, endpoint)?.ok_or(WebhookError::NotFound)?;
                Ok::<_, WebhookError>(listing::list(tx, endpoint, &wanted, after, limit, count)?)
            })
            .await?;
        let shown: Vec<WebhookDelivery> = found.deliveries.iter().map(|delivery| WebhookDelivery::new(id.0, delivery)).collect();
        Ok(Listed::new(&shown, &request.page(found.last.map(|number| number.to_bytes()), found.total)))
    }

    /// Read a delivery
    ///
    /// Returns the delivery with its attempts.
    #[oai(path = "/:id/deliveries/:delivery_id", method = "get", operation_id = "read_webhook_delivery")]
    async fn read_webhook_delivery(
        &self,
        auth: Allowed<WebhooksRead>,
        id: Path<WebhookId>,
        delivery_id: Path<DeliveryId>,
    ) -> Result<Answer<WebhookDeliveryWithAttempts>, Problem> {
        let endpoint = (auth.principal.tenant_id, id.0);
        let (_, delivery) = self.core.store.read(|tx| find(tx, endpoint, delivery_id.0))?;
        Ok(Answer::new(&WebhookDeliveryWithAttempts::new(id.0, delivery)))
    }

    /// Deliver again
    ///
    /// Sends the event again now, regardless of the delivery's status, and restarts the retry schedule. This also works while
    /// deliveries wait because the receiver failed; a success ends that wait for all events. The event keeps its id. You need the
    /// scopes that read the event.
    #[oai(path = "/:id/deliveries/:delivery_id/redeliver", method = "post", operation_id = "redeliver_webhook_delivery")]
    async fn redeliver_webhook_delivery(
        &self,
        auth: Allowed<WebhooksWrite>,
        id: Path<WebhookId>,
        delivery_id: Path<DeliveryId>,
        idempotency_key: IdempotencyKey,
    ) -> Result<Accepted<WebhookDelivery>, Problem> {
        let (endpoint, held, service) = ((auth.principal.tenant_id, id.0), auth.principal.grants, self.core.service.clone());
        let reply = idempotency_key
            .run(auth.context.intent(&auth.principal), move |tx, act| {
                let (seq, before) = find(tx, endpoint, delivery_id.0)?;
                service.check_readable(&before.kind, held)?;
                events::read_one(tx, seq)?.ok_or(WebhookError::EventGone)?;
                let mut counted = Counted::default();
                let after = ledger::request_attempt(tx, endpoint, seq, &before, (Trigger::Manual, act.now), &mut counted)?;
                ledger::settle_counts(tx, endpoint, counted, |_| {})?;
                let location = format!("{}/deliveries/{}", record::path(id.0), delivery_id.0);
                Ok::<_, WebhookError>(Accepted::new(&WebhookDelivery::new(id.0, &after), &location))
            })
            .await?;
        if let Some(seq) = self.core.store.read(|tx| events::place_of(tx, endpoint.0, number_of(delivery_id.0)))? {
            self.core.dispatch.request_delivery(endpoint, seq);
        }
        Ok(reply)
    }

    /// Replay events
    ///
    /// Sends a range of past events to the endpoint again, in the background. It sends only events that both you and the endpoint's
    /// owner may read. Events past their retention are gone. An endpoint has at most four replays that are not finished. Poll the URL
    /// in `Location` for the progress.
    #[oai(path = "/:id/replay", method = "post", operation_id = "replay_webhook")]
    async fn replay_webhook(
        &self,
        auth: Allowed<WebhooksWrite>,
        id: Path<WebhookId>,
        idempotency_key: IdempotencyKey,
        body: Lenient<ReplayWebhook>,
    ) -> Result<Accepted<WebhookReplay>, Problem> {
        check_range(&body.0)?;
        let (endpoint, new) = ((auth.principal.tenant_id, id.0), NewReplay::from(body.0));
        let reply = idempotency_key
            .run(auth.context.intent(&auth.principal), move |tx, act| {
                repo::get(tx, endpoint)?.ok_or(WebhookError::NotFound)?;
                let (operation, replay) = replay::create(tx, act, endpoint, new)?;
                let location = format!("{}/replays/{operation}", record::path(id.0));
                Ok::<_, WebhookError>(Accepted::new(&WebhookReplay::new(id.0, operation, &replay), &location))
            })
            .await?;
        self.core.dispatch.nudge_replays();
        Ok(reply)
    }

    /// Read the progress of a replay
    ///
    /// Returns the replay. tenantd keeps the last twenty finished replays of an endpoint.
    #[oai(path = "/:id/replays/:operation_id", method = "get", operation_id = "read_webhook_replay")]
    async fn read_webhook_replay(
        &self,
        auth: Allowed<WebhooksRead>,
        id: Path<WebhookId>,
        operation_id: Path<OperationId>,
    ) -> Result<Answer<WebhookReplay>, Problem> {
        let endpoint = (auth.principal.tenant_id, id.0);
        let replay = self.core.store.read(|tx| replay::get(tx, endpoint, operation_id.0))?;
        Ok(Answer::new(&WebhookReplay::new(id.0, operation_id.0, &replay)))
    }

    /// Read the metrics of a webhook endpoint
    ///
    /// Returns how many deliveries succeeded and failed, hour by hour, with the latency of the attempts.
    #[oai(path = "/:id/stats", method = "get", operation_id = "read_webhook_stats")]
    async fn read_webhook_stats(
        &self,
        auth: Allowed<WebhooksRead>,
        id: Path<WebhookId>,
        query: Filter<WebhookStatsQuery>,
    ) -> Result<Answer<WebhookStats>, Problem> {
        let hours = match query.0.range.unwrap_or(WebhookStatsRange::Day) {
            WebhookStatsRange::Hour => 1,
            WebhookStatsRange::Day => 24,
            WebhookStatsRange::Week => 7 * 24,
            WebhookStatsRange::Month => 30 * 24,
        };
        let since = auth.context.now - Duration::from_hours(hours);
        let endpoint = (auth.principal.tenant_id, id.0);
        let found = self.core.store.read(|tx| {
            repo::get(tx, endpoint)?.ok_or(WebhookError::NotFound)?;
            Ok::<_, WebhookError>(stats::read(tx, endpoint, since)?)
        })?;
        let mut total = Figures::default();
        for (_, figures) in &found {
            total.add(figures);
        }
        let hours = found.iter().map(|(hour, figures)| WebhookFigures::new(Some(*hour), figures)).collect();
        Ok(Answer::new(&WebhookStats { since, total: WebhookFigures::new(None, &total), hours }))
    }
}

fn check_range(body: &ReplayWebhook) -> Result<(), Problem> {
    let mut errors = Vec::new();
    if body.from_seq.is_some() == body.since.is_some() {
        errors.push(FieldError::pointer("", "required", "set either `from_seq` or `since`"));
    }
    if body.to_seq.is_some() && body.until.is_some() {
        errors.push(FieldError::pointer("", "ambiguous", "set `to_seq` or `until`, not both"));
    }
    if errors.is_empty() { Ok(()) } else { Err(Problem::invalid(errors)) }
}

/// Finds the delivery with this id, and the position of its event in the log. An id must match completely.
fn find(tx: &impl Read, endpoint: EndpointKey, id: DeliveryId) -> Result<(u64, Delivery), WebhookError> {
    repo::get(tx, endpoint)?.ok_or(WebhookError::NotFound)?;
    let seq = events::place_of(tx, endpoint.0, number_of(id))?.ok_or(WebhookError::NoDelivery)?;
    let delivery = ledger::get(tx, endpoint, seq)?.ok_or(WebhookError::NoDelivery)?;
    if delivery_id(endpoint.1, delivery.event_at, delivery.number) == id {
        Ok((seq, delivery))
    } else {
        Err(WebhookError::NoDelivery)
    }
}

/// Reports an unknown kind of event at the parameter that contains it.
fn in_type(error: WebhookError) -> Problem {
    let mut problem = Problem::from(error);
    for error in &mut problem.errors {
        error.place = Place::Parameter("type".to_owned());
    }
    problem
}
