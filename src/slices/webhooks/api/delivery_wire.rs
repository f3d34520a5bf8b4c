//! Deliveries, attempts, replays and figures as clients see and send them.

use std::time::Duration;

use data_encoding::BASE64;
use poem_openapi::{Enum, Object};
use serde::Serialize;
use serde_with::skip_serializing_none;

use tenantd_base::{
    clock::Timestamp,
    id::{DeliveryId, EventId, OperationId, WebhookId},
};
use tenantd_http::wire::Word;

use super::super::{
    delivery::{self, AttemptError, Decision, DeliveryStatus, Trigger, delivery_id},
    model::DisabledReason,
    replay::{self, NewReplay, Only, ReplayStatus},
    stats::{Figures, start_of},
};

/// How `response_body` is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Enum, Serialize)]
#[oai(rename_all = "lowercase")]
#[serde(rename_all = "lowercase")]
pub(super) enum BodyEncoding {
    Text,
    Base64,
}

/// One attempt to deliver an event.
#[skip_serializing_none]
#[derive(Debug, Object, Serialize)]
#[oai(skip_serializing_if_is_none, example)]
pub(super) struct DeliveryAttempt {
    /// The number of the attempt, from 1.
    pub(super) number: u32,
    pub(super) trigger: Trigger,
    pub(super) started_at: Timestamp,
    /// Milliseconds to resolve the name.
    pub(super) dns_ms: u32,
    /// Milliseconds to connect.
    pub(super) connect_ms: u32,
    /// Milliseconds of the TLS handshake.
    pub(super) tls_ms: u32,
    /// Milliseconds to the first byte of the answer.
    pub(super) first_byte_ms: u32,
    /// Milliseconds of the whole attempt.
    pub(super) total_ms: u32,
    /// The address that was connected to.
    pub(super) remote_ip: Option<String>,
    /// The HTTP status of the answer.
    pub(super) status: Option<u16>,
    pub(super) error: Option<AttemptError>,
    /// The beginning of the answer's body, at most 4 KiB.
    pub(super) response_body: Option<String>,
    /// `base64` when the bytes are no text in UTF-8.
    pub(super) response_body_encoding: Option<BodyEncoding>,
    /// Whether the answer had more.
    pub(super) response_body_truncated: Option<bool>,
    /// The wait in seconds that the answer asked for, as far as it counts.
    pub(super) retry_after: Option<u32>,
    pub(super) decision: Decision,
    pub(super) next_attempt_at: Option<Timestamp>,
}

impl From<delivery::Attempt> for DeliveryAttempt {
    fn from(attempt: delivery::Attempt) -> Self {
        let (body, encoding) = show_body(&attempt.body, attempt.body_truncated);
        Self {
            number: attempt.number,
            trigger: attempt.trigger,
            started_at: attempt.started_at,
            dns_ms: attempt.durations.dns,
            connect_ms: attempt.durations.connect,
            tls_ms: attempt.durations.tls,
            first_byte_ms: attempt.durations.first_byte,
            total_ms: attempt.durations.total,
            remote_ip: attempt.remote_ip.map(|ip| ip.to_string()),
            status: attempt.status,
            error: attempt.error,
            response_body_encoding: body.is_some().then_some(encoding),
            response_body: body,
            response_body_truncated: attempt.body_truncated.then_some(true),
            retry_after: attempt.retry_after_seconds,
            decision: attempt.decision,
            next_attempt_at: attempt.next_attempt_at,
        }
    }
}

/// What came of a test.
#[derive(Debug, Object, Serialize)]
#[oai(skip_serializing_if_is_none, example)]
pub(super) struct WebhookTest {
    /// Whether the receiver took the event, so answered with a status from 200 to 299.
    pub(super) succeeded: bool,
    /// What the receiver did, in a sentence.
    pub(super) message: String,
    #[oai(flatten)]
    #[serde(flatten)]
    pub(super) attempt: DeliveryAttempt,
}

impl WebhookTest {
    pub(super) fn new(attempt: delivery::Attempt, timeout: Duration) -> Self {
        let succeeded = attempt.decision == Decision::Delivered;
        Self { succeeded, message: told(&attempt, timeout), attempt: attempt.into() }
    }
}

/// What a receiver did, in a sentence.
fn told(attempt: &delivery::Attempt, timeout: Duration) -> String {
    let text = match (attempt.status, attempt.error) {
        (Some(status @ 200..300), _) => return format!("The receiver answered {status}."),
        (Some(status @ 300..400), _) => {
            return format!("The receiver answered {status}. tenantd follows no redirects: use the URL that it redirects to.");
        }
        (Some(410), _) => "The receiver answered 410. To an event, this answer disables the endpoint.",
        (Some(status), _) => return format!("The receiver answered {status}. Only a status from 200 to 299 is a success."),
        (None, Some(AttemptError::Dns)) => "The host name could not be resolved.",
        (None, Some(AttemptError::Blocked)) => "The address is not allowed as a target.",
        (None, Some(AttemptError::Connect)) => "The receiver could not be reached: check its host, its port and its firewall.",
        (None, Some(AttemptError::Tls)) => "The TLS handshake failed: check the receiver's certificate and `ca_certificate_pem`.",
        (None, Some(AttemptError::Timeout)) => {
            return format!("The receiver did not answer within {} seconds.", timeout.as_secs());
        }
        (None, Some(AttemptError::Reset)) => "The receiver closed the connection before it had answered.",
        (None, Some(AttemptError::Protocol)) => "The receiver's answer was not valid HTTP.",
        (None, Some(AttemptError::Interrupted) | None) => "tenantd was stopped before the receiver had answered.",
    };
    text.to_owned()
}

/// A body that was cut in the middle of a character is text up to there.
fn show_body(body: &[u8], truncated: bool) -> (Option<String>, BodyEncoding) {
    if body.is_empty() {
        return (None, BodyEncoding::Text);
    }
    match std::str::from_utf8(body) {
        Ok(text) => (Some(text.to_owned()), BodyEncoding::Text),
        Err(error) if truncated && error.error_len().is_none() => {
            let whole = body.get(..error.valid_up_to()).unwrap_or_default();
            (Some(String::from_utf8_lossy(whole).into_owned()), BodyEncoding::Text)
        }
        Err(_) => (Some(BASE64.encode(body)), BodyEncoding::Base64),
    }
}

/// An event on its way to an endpoint.
#[skip_serializing_none]
#[derive(Debug, Object, Serialize)]
#[oai(skip_serializing_if_is_none, example)]
pub(super) struct WebhookDelivery {
    pub(super) id: DeliveryId,
    /// The endpoint.
    pub(super) webhook_id: WebhookId,
    /// The event, which is also the `webhook-id` of every attempt.
    pub(super) event_id: EventId,
    /// The kind of the event.
    #[oai(rename = "type")]
    #[serde(rename = "type")]
    pub(super) kind: String,
    /// The event's number in the tenant's sequence.
    pub(super) seq: u64,
    pub(super) status: DeliveryStatus,
    /// How many attempts were made.
    pub(super) attempt_count: u32,
    /// The HTTP status of the last attempt.
    pub(super) last_status: Option<u16>,
    pub(super) last_error: Option<AttemptError>,
    pub(super) next_attempt_at: Option<Timestamp>,
    pub(super) skipped_reason: Option<Word<DisabledReason>>,
    /// When the event happened.
    pub(super) created_at: Timestamp,
    /// When the delivery came to its end.
    pub(super) settled_at: Option<Timestamp>,
}

impl WebhookDelivery {
    pub(super) fn new(webhook_id: WebhookId, delivery: &delivery::Delivery) -> Self {
        let last = delivery.attempts.last();
        Self {
            id: delivery_id(webhook_id, delivery.event_at, delivery.number),
            webhook_id,
            event_id: delivery.event_id,
            kind: delivery.kind.clone(),
            seq: delivery.number,
            status: delivery.status,
            attempt_count: delivery.attempt_count,
            last_status: last.and_then(|attempt| attempt.status),
            last_error: last.and_then(|attempt| attempt.error),
            next_attempt_at: delivery.next_attempt_at,
            skipped_reason: delivery.skipped_reason.map(Into::into),
            created_at: delivery.event_at,
            settled_at: delivery.settled_at,
        }
    }
}

/// A delivery with its attempts.
#[derive(Debug, Object, Serialize)]
#[oai(skip_serializing_if_is_none, example)]
pub(super) struct WebhookDeliveryWithAttempts {
    #[oai(flatten)]
    #[serde(flatten)]
    pub(super) delivery: WebhookDelivery,
    /// The newest attempts, at most 32, in order.
    pub(super) attempts: Vec<DeliveryAttempt>,
}

impl WebhookDeliveryWithAttempts {
    pub(super) fn new(webhook_id: WebhookId, delivery: delivery::Delivery) -> Self {
        let shown = WebhookDelivery::new(webhook_id, &delivery);
        Self { delivery: shown, attempts: delivery.attempts.into_iter().map(Into::into).collect() }
    }
}

/// Which events to send again. From `from_seq` or `since` on; up to and with `to_seq`, or before `until`. `from_seq` and `to_seq` are
/// the `seq` of an event.
#[skip_serializing_none]
#[derive(Debug, Object, Serialize)]
#[oai(skip_serializing_if_is_none, example)]
pub(super) struct ReplayWebhook {
    /// The first event.
    #[oai(validator(minimum(value = "1"), maximum(value = "9007199254740991")))]
    pub(super) from_seq: Option<u64>,
    /// Events from this time on, in place of `from_seq`.
    pub(super) since: Option<Timestamp>,
    /// The last event. The newest when absent.
    #[oai(validator(minimum(value = "1"), maximum(value = "9007199254740991")))]
    pub(super) to_seq: Option<u64>,
    /// Events before this time, in place of `to_seq`.
    pub(super) until: Option<Timestamp>,
    /// Which of these events, by what became of them.
    pub(super) only: Only,
}

/// Events that an endpoint did not get while it was disabled, and the request that sends them.
#[derive(Debug, Object, Serialize)]
pub(super) struct MissedEvents {
    /// How many events were skipped and not sent since.
    pub(super) events: u64,
    /// Whether there may be more: only the last 5,000 deliveries are counted.
    pub(super) more: bool,
    /// When the first of them happened.
    pub(super) since: Timestamp,
    /// The request that sends them.
    pub(super) replay: ReplayOffer,
}

/// A request that sends events again.
#[derive(Debug, Object, Serialize)]
pub(super) struct ReplayOffer {
    /// The method of the request.
    pub(super) method: String,
    /// The path of the request.
    pub(super) path: String,
    /// The body of the request.
    pub(super) body: ReplayWebhook,
}

impl MissedEvents {
    pub(super) fn new(webhook_id: WebhookId, missed: &replay::Missed) -> Self {
        let replay::Missed { events, more, since, from_seq, to_seq } = *missed;
        let (path, only) = (format!("{}/replay", super::record::path(webhook_id)), Only::Missing);
        let body = ReplayWebhook { from_seq: Some(from_seq), since: None, to_seq: Some(to_seq), until: None, only };
        Self { events, more, since, replay: ReplayOffer { method: "POST".to_owned(), path, body } }
    }
}

impl From<ReplayWebhook> for NewReplay {
    fn from(body: ReplayWebhook) -> Self {
        let ReplayWebhook { from_seq, since, to_seq, until, only } = body;
        Self { from_seq, since, to_seq, until, only }
    }
}

/// A replay under way or done.
#[derive(Debug, Object, Serialize)]
#[oai(skip_serializing_if_is_none, example)]
pub(super) struct WebhookReplay {
    pub(super) id: OperationId,
    /// The endpoint.
    pub(super) webhook_id: WebhookId,
    pub(super) status: ReplayStatus,
    /// How much of the range was looked at, in percent.
    pub(super) progress: u64,
    /// The first number of the replay.
    pub(super) from_seq: u64,
    /// The last number of the replay.
    pub(super) to_seq: u64,
    pub(super) only: Only,
    /// Deliveries that were made due.
    pub(super) queued: u64,
    pub(super) created_at: Timestamp,
    pub(super) updated_at: Timestamp,
}

impl WebhookReplay {
    pub(super) fn new(webhook_id: WebhookId, id: OperationId, replay: &replay::Replay) -> Self {
        Self {
            id,
            webhook_id,
            status: replay.status,
            progress: replay.progress(),
            from_seq: replay.from_seq,
            to_seq: replay.to_seq,
            only: replay.only,
            queued: replay.queued,
            created_at: replay.created_at,
            updated_at: replay.updated_at,
        }
    }
}

/// What happened in an hour, or in all.
#[skip_serializing_none]
#[derive(Debug, Object, Serialize)]
#[oai(skip_serializing_if_is_none)]
pub(super) struct WebhookFigures {
    /// The start of the hour; absent for the total.
    pub(super) at: Option<Timestamp>,
    /// Attempts that were made.
    pub(super) attempts: u64,
    /// Attempts that failed.
    pub(super) failed_attempts: u64,
    /// Deliveries that succeeded.
    pub(super) delivered: u64,
    /// Deliveries whose retries are over.
    pub(super) exhausted: u64,
    /// Deliveries that the receiver asked to stop.
    pub(super) aborted: u64,
    /// Events that were not sent because the endpoint was disabled.
    pub(super) skipped: u64,
    /// Deliveries given up because too many waited, or because the event is no longer kept.
    pub(super) expired: u64,
    /// How long half of the attempts took at most, to the bucket.
    pub(super) p50_ms: Option<u32>,
    /// The time that 95 % of attempts took less than, in milliseconds.
    pub(super) p95_ms: Option<u32>,
}

impl WebhookFigures {
    pub(super) fn new(hour: Option<u32>, figures: &Figures) -> Self {
        Self {
            at: hour.map(start_of),
            attempts: figures.attempts,
            failed_attempts: figures.failed_attempts,
            delivered: figures.delivered,
            exhausted: figures.exhausted,
            aborted: figures.aborted,
            skipped: figures.skipped,
            expired: figures.expired,
            p50_ms: figures.latency_millis(50),
            p95_ms: figures.latency_millis(95),
        }
    }
}

/// The figures of an endpoint, hour by hour. Hours in which nothing happened are left out.
#[derive(Debug, Object, Serialize)]
#[oai(skip_serializing_if_is_none, example)]
pub(super) struct WebhookStats {
    /// The time that the figures begin at.
    pub(super) since: Timestamp,
    pub(super) total: WebhookFigures,
    pub(super) hours: Vec<WebhookFigures>,
}
