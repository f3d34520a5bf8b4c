//! `/api/admin/webhooks/{id}/deliveries` and what is made of them: redelivery, replay, figures.

use std::{sync::Arc, time::Duration};

use poem_openapi::{Object, OpenApi, param::Path};

use tenantd_base::{
    clock::Timestamp,
    id::{DeliveryId, OperationId, WebhookId},
    vocabulary::vocabulary,
};
use tenantd_http::{
    idempotency::IdempotencyKey,
    input::{Filter, Judged},
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
    /// Deliveries in one of these states.
    #[oai(validator(min_items = 1, max_items = 7))]
    status: Option<Vec<DeliveryStatus>>,
    /// Of these kinds of events: exact ones, `ticket.*`, or `*`.
    #[oai(rename = "type", validator(min_items = 1, max_items = 64))]
    kinds: Option<Vec<String>>,
    /// Of events from this time on.
    since: Option<Timestamp>,
    /// Of events before this time.
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
    /// How far back to look. A day when absent.
    range: Option<WebhookStatsRange>,
}

pub(crate) struct DeliveriesApi {
    pub(crate) core: Arc<Core>,
}

#[OpenApi(prefix_path = "/api/admin/webhooks", tag = "Area::Webhooks")]
impl DeliveriesApi {
    /// List deliveries
    ///
    /// The deliveries of an endpoint, the newest event first. A page can have fewer than `limit` and still be continued.
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
    /// Shows the delivery with its attempts.
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
    /// Sends the event again at once, whatever became of its delivery, and starts the schedule from the beginning. This also works while
    /// tenantd waits because the receiver failed; a success ends that wait for all events. The event's id stays the same. You need the scopes
    /// that read the event.
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
                let after = ledger::ask_again(tx, endpoint, seq, &before, (Trigger::Manual, act.now), &mut counted)?;
                ledger::settle_counts(tx, endpoint, counted, |_| {})?;
                let location = format!("{}/deliveries/{}", record::path(id.0), delivery_id.0);
                Ok::<_, WebhookError>(Accepted::new(&WebhookDelivery::new(id.0, &after), &location))
            })
            .await?;
        if let Some(seq) = self.core.store.read(|tx| events::place_of(tx, endpoint.0, number_of(delivery_id.0)))? {
            self.core.dispatch.ask(endpoint, seq);
        }
        Ok(reply)
    }

    /// Replay events
    ///
    /// Sends events of a range to the endpoint again, in the background: those that both you and the endpoint's owner can read. `Location`
    /// names where the progress can be read.
    #[oai(path = "/:id/replay", method = "post", operation_id = "replay_webhook")]
    async fn replay_webhook(
        &self,
        auth: Allowed<WebhooksWrite>,
        id: Path<WebhookId>,
        idempotency_key: IdempotencyKey,
        body: Judged<ReplayWebhook>,
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
    /// The last twenty replays of an endpoint that have ended stay readable.
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

    /// Read the figures of a webhook endpoint
    ///
    /// What was delivered and what failed, hour by hour, with the latency of the attempts.
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
        errors.push(FieldError::pointer("", "required", "say where to start: either from_seq or since"));
    }
    if body.to_seq.is_some() && body.until.is_some() {
        errors.push(FieldError::pointer("", "ambiguous", "say where to end: either to_seq or until"));
    }
    if errors.is_empty() { Ok(()) } else { Err(Problem::invalid(errors)) }
}

/// The delivery that an id names, and the place of its event in the log. An id that only resembles one names nothing.
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

/// An unknown kind of event is told where it was given.
fn in_type(error: WebhookError) -> Problem {
    let mut problem = Problem::from(error);
    for error in &mut problem.errors {
        error.place = Place::Parameter("type".to_owned());
    }
    problem
}
