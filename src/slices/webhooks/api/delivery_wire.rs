//! The wire types of deliveries, attempts, replays and metrics.

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

/// The encoding of `response_body`.
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
    /// The number of the attempt, starting at 1.
    pub(super) number: u32,
    pub(super) trigger: Trigger,
    pub(super) started_at: Timestamp,
    /// The duration of the DNS lookup in milliseconds.
    pub(super) dns_ms: u32,
    /// The time to connect in milliseconds.
    pub(super) connect_ms: u32,
    /// The duration of the TLS handshake in milliseconds.
    pub(super) tls_ms: u32,
    /// The time to the first byte of the response in milliseconds.
    pub(super) first_byte_ms: u32,
    /// The duration of the whole attempt in milliseconds.
    pub(super) total_ms: u32,
    /// The IP address that tenantd connected to. Absent if it did not connect.
    pub(super) remote_ip: Option<String>,
    /// The HTTP status of the response. Absent if there was no response.
    pub(super) status: Option<u16>,
    /// Why there was no response. Absent if there was one.
    pub(super) error: Option<AttemptError>,
    /// The beginning of the response body, at most 4 KiB. Absent if it is empty.
    pub(super) response_body: Option<String>,
    /// `base64` if the body is not valid UTF-8.
    pub(super) response_body_encoding: Option<BodyEncoding>,
    /// Whether the response body was longer. Absent if it was not.
    pub(super) response_body_truncated: Option<bool>,
    /// The wait in seconds that the response requested with `Retry-After`, as far as tenantd honors it.
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

/// The result of a test.
#[derive(Debug, Object, Serialize)]
#[oai(skip_serializing_if_is_none, example)]
pub(super) struct WebhookTest {
    /// Whether the receiver accepted the event with a status from 200 to 299.
    pub(super) succeeded: bool,
    /// Describes the response of the receiver in a sentence.
    pub(super) message: String,
    #[oai(flatten)]
    #[serde(flatten)]
    pub(super) attempt: DeliveryAttempt,
}

impl WebhookTest {
    pub(super) fn new(attempt: delivery::Attempt, timeout: Duration) -> Self {
        let succeeded = attempt.decision == Decision::Delivered;
        Self { succeeded, message: describe_response(&attempt, timeout), attempt: attempt.into() }
    }
}

/// Describes the response of a receiver in a sentence.
fn describe_response(attempt: &delivery::Attempt, timeout: Duration) -> String {
    let text = match (attempt.status, attempt.error) {
        (Some(status @ 200..300), _) => return format!("The receiver answered {status}."),
        (Some(status @ 300..400), _) => {
            return format!("The receiver answered {status}. tenantd does not follow redirects. Use the URL that it redirects to.");
        }
        (Some(410), _) => "The receiver answered 410. As a response to an event, this status disables the endpoint.",
        (Some(status), _) => return format!("The receiver answered {status}. Only a status from 200 to 299 is a success."),
        (None, Some(AttemptError::Dns)) => "The host name could not be resolved.",
        (None, Some(AttemptError::Blocked)) => "The address is not allowed as a target.",
        (None, Some(AttemptError::Connect)) => "tenantd could not connect to the receiver. Check its host, port and firewall.",
        (None, Some(AttemptError::Tls)) => "The TLS handshake failed. Check the receiver's certificate and `ca_certificate_pem`.",
        (None, Some(AttemptError::Timeout)) => {
            return format!("The receiver did not answer within {} seconds.", timeout.as_secs());
        }
        (None, Some(AttemptError::Reset)) => "The receiver closed the connection before it answered.",
        (None, Some(AttemptError::Protocol)) => "The receiver's answer was not valid HTTP.",
        (None, Some(AttemptError::Interrupted) | None) => "tenantd stopped before the receiver answered.",
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

/// An event that is delivered to an endpoint.
#[skip_serializing_none]
#[derive(Debug, Object, Serialize)]
#[oai(skip_serializing_if_is_none, example)]
pub(super) struct WebhookDelivery {
    pub(super) id: DeliveryId,
    /// The endpoint that receives the event.
    pub(super) webhook_id: WebhookId,
    /// The event. Every attempt sends its id as `webhook-id`.
    pub(super) event_id: EventId,
    /// The kind of the event.
    #[oai(rename = "type")]
    #[serde(rename = "type")]
    pub(super) kind: String,
    /// The event's number in the tenant's sequence.
    pub(super) seq: u64,
    pub(super) status: DeliveryStatus,
    /// The number of attempts so far.
    pub(super) attempt_count: u32,
    /// The HTTP status of the last attempt. Absent if it got no response.
    pub(super) last_status: Option<u16>,
    /// Why the last attempt got no response. Absent if it got one.
    pub(super) last_error: Option<AttemptError>,
    pub(super) next_attempt_at: Option<Timestamp>,
    /// Why the delivery was skipped. Absent unless `status` is `skipped`.
    pub(super) skipped_reason: Option<Word<DisabledReason>>,
    /// When the event happened.
    pub(super) created_at: Timestamp,
    /// When the delivery reached its final status. Absent while it waits.
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
    /// The newest attempts in order, at most 32.
    pub(super) attempts: Vec<DeliveryAttempt>,
}

impl WebhookDeliveryWithAttempts {
    pub(super) fn new(webhook_id: WebhookId, delivery: delivery::Delivery) -> Self {
        let shown = WebhookDelivery::new(webhook_id, &delivery);
        Self { delivery: shown, attempts: delivery.attempts.into_iter().map(Into::into).collect() }
    }
}

/// The events to send again: from `from_seq` or `since` on, up to and including `to_seq` or before `until`. `from_seq` and `to_seq`
/// are `seq` values of events.
#[skip_serializing_none]
#[derive(Debug, Object, Serialize)]
#[oai(skip_serializing_if_is_none, example)]
pub(super) struct ReplayWebhook {
    /// The `seq` of the first event. Set this or `since`.
    #[oai(validator(minimum(value = "1"), maximum(value = "9007199254740991")))]
    pub(super) from_seq: Option<u64>,
    /// Start with the first event at or after this time. Set this or `from_seq`.
    pub(super) since: Option<Timestamp>,
    /// The `seq` of the last event. Defaults to the newest event.
    #[oai(validator(minimum(value = "1"), maximum(value = "9007199254740991")))]
    pub(super) to_seq: Option<u64>,
    /// End before this time. Cannot be combined with `to_seq`.
    pub(super) until: Option<Timestamp>,
    /// Which of these events to send, by the status of their deliveries.
    pub(super) only: Only,
}

/// Events that an endpoint missed while it was disabled, and the request that sends them.
#[derive(Debug, Object, Serialize)]
pub(super) struct MissedEvents {
    /// The number of events that were skipped and have not been sent since.
    pub(super) events: u64,
    /// Whether there may be more events. Only the last 5,000 deliveries are counted.
    pub(super) more: bool,
    /// When the first of these events happened.
    pub(super) since: Timestamp,
    /// The request that sends the missed events.
    pub(super) replay: ReplayOffer,
}

/// A request that sends events again.
#[derive(Debug, Object, Serialize)]
pub(super) struct ReplayOffer {
    /// The HTTP method of the request.
    pub(super) method: String,
    /// The path of the request.
    pub(super) path: String,
    /// The JSON body of the request.
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

/// A replay in progress or finished.
#[skip_serializing_none]
#[derive(Debug, Object, Serialize)]
#[oai(skip_serializing_if_is_none, example)]
pub(super) struct WebhookReplay {
    pub(super) id: OperationId,
    /// The endpoint that receives the events.
    pub(super) webhook_id: WebhookId,
    pub(super) status: ReplayStatus,
    /// How much of the range was examined, in percent.
    pub(super) progress: u64,
    /// The `seq` of the first event of the range.
    pub(super) from_seq: u64,
    /// The `seq` of the last event of the range.
    pub(super) to_seq: u64,
    /// Within the range, only events at or after this time are sent. Absent if the request did not set it.
    pub(super) since: Option<Timestamp>,
    /// Within the range, only events before this time are sent. Absent if the request did not set it.
    pub(super) until: Option<Timestamp>,
    pub(super) only: Only,
    /// The number of deliveries that the replay has queued so far.
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
            since: replay.since,
            until: replay.until,
            only: replay.only,
            queued: replay.queued,
            created_at: replay.created_at,
            updated_at: replay.updated_at,
        }
    }
}

/// The metrics of an hour, or the total.
#[skip_serializing_none]
#[derive(Debug, Object, Serialize)]
#[oai(skip_serializing_if_is_none)]
pub(super) struct WebhookFigures {
    /// The start of the hour. Absent for the total.
    pub(super) at: Option<Timestamp>,
    /// The number of attempts.
    pub(super) attempts: u64,
    /// The number of failed attempts.
    pub(super) failed_attempts: u64,
    /// The number of deliveries that succeeded.
    pub(super) delivered: u64,
    /// The number of deliveries that used up their retries.
    pub(super) exhausted: u64,
    /// The number of deliveries that the receiver asked to stop.
    pub(super) aborted: u64,
    /// The number of events that were not sent because the endpoint was disabled.
    pub(super) skipped: u64,
    /// The number of deliveries that were given up because too many waited or the event was past its retention.
    pub(super) expired: u64,
    /// The median latency of the attempts in milliseconds, rounded up to a bucket. Absent without attempts.
    pub(super) p50_ms: Option<u32>,
    /// The 95th percentile of the latency in milliseconds, rounded up to a bucket. Absent without attempts.
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

/// The metrics of an endpoint, hour by hour. Hours without activity are left out.
#[derive(Debug, Object, Serialize)]
#[oai(skip_serializing_if_is_none, example)]
pub(super) struct WebhookStats {
    /// The start of the period.
    pub(super) since: Timestamp,
    /// The metrics of the whole period.
    pub(super) total: WebhookFigures,
    /// The metrics of each hour, oldest first.
    pub(super) hours: Vec<WebhookFigures>,
}
