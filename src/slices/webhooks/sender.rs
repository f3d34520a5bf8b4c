//! Sends one event to one endpoint, once: builds the request, signs it, and turns what came back into the record of an attempt. The
//! same path for deliveries, retries and tests.

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, header};

use super::{
    delivery::{AttemptError, Directive, Durations, MAX_BODY_KEPT, Sent},
    signature::sign_all,
    subscriptions::Target,
};
use crate::kernel::{
    clock::Clock,
    egress::{Egress, EgressError, Request, Timings},
    id::EventId,
};

const WEBHOOK_ID: HeaderName = HeaderName::from_static("webhook-id");
const WEBHOOK_TIMESTAMP: HeaderName = HeaderName::from_static("webhook-timestamp");
const WEBHOOK_SIGNATURE: HeaderName = HeaderName::from_static("webhook-signature");
const WEBHOOK_DELIVERY: HeaderName = HeaderName::from_static("webhook-delivery");
/// What stands in a kept answer for the value of a custom header. A shorter value is no secret, and would be found everywhere.
const CONCEALED: &[u8] = b"[concealed]";
const SHORTEST_SECRET: usize = 4;

#[derive(Clone, Debug)]
pub(super) struct Sender {
    pub(super) egress: Egress,
    pub(super) clock: Clock,
}

impl Sender {
    pub(super) async fn send(&self, target: &Target, event: EventId, body: Bytes, timeout: std::time::Duration) -> Sent {
        let started_at = self.clock.now();
        let id = event.to_string();
        let timestamp = started_at.as_seconds().to_string();
        let signature = sign_all(&target.signing_keys, &id, &timestamp, &body, started_at);
        let mut headers = target.headers.clone();
        for (name, value) in [(WEBHOOK_ID, &id), (WEBHOOK_TIMESTAMP, &timestamp), (WEBHOOK_SIGNATURE, &signature)] {
            if let Ok(value) = HeaderValue::from_str(value) {
                headers.insert(name, value);
            }
        }
        let exchange = self
            .egress
            .send(Request {
                method: Method::POST,
                url: target.url.clone(),
                headers,
                body,
                timeout,
                audience: target.audience,
                ca_pem: target.ca_pem.clone(),
                repeatable: true,
            })
            .await;
        let mut sent = Sent {
            durations: durations(exchange.timings),
            remote_ip: exchange.remote_ip,
            ..Sent::failed(started_at, AttemptError::Interrupted)
        };
        match exchange.outcome {
            Err(error) => sent.result = Err(attempt_error(&error)),
            Ok(response) => {
                sent.result = Ok(response.status.as_u16());
                sent.body = conceal(&response.body, &target.headers);
                sent.body.truncate(MAX_BODY_KEPT);
                sent.body_truncated = response.truncated || response.body.len() > MAX_BODY_KEPT;
                sent.retry_after = text(&response.headers, header::RETRY_AFTER).map(str::to_owned);
                sent.directive = text(&response.headers, WEBHOOK_DELIVERY).and_then(directive);
            }
        }
        sent
    }
}

/// The body without the values of custom headers, which a receiver may repeat: they are not for whoever reads the attempt.
fn conceal(body: &[u8], headers: &HeaderMap) -> Vec<u8> {
    let secrets = headers.values().filter(|value| value.is_sensitive() && value.len() >= SHORTEST_SECRET);
    secrets.fold(body.to_vec(), |body, secret| replace_all(&body, secret.as_bytes()))
}

fn replace_all(body: &[u8], secret: &[u8]) -> Vec<u8> {
    let (mut shown, mut rest) = (Vec::with_capacity(body.len()), body);
    while let Some(at) = rest.windows(secret.len()).position(|window| window == secret) {
        let (before, after) = rest.split_at(at);
        shown.extend_from_slice(before);
        shown.extend_from_slice(CONCEALED);
        rest = after.get(secret.len()..).unwrap_or_default();
    }
    shown.extend_from_slice(rest);
    shown
}

fn text(headers: &HeaderMap, name: HeaderName) -> Option<&str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

fn directive(text: &str) -> Option<Directive> {
    match text.trim() {
        "disable" => Some(Directive::DisableEndpoint),
        "abort-message" => Some(Directive::AbortMessage),
        _ => None,
    }
}

fn attempt_error(error: &EgressError) -> AttemptError {
    match error {
        EgressError::Dns(_) => AttemptError::Dns,
        EgressError::Blocked(_) => AttemptError::Blocked,
        EgressError::Connect(_) => AttemptError::Connect,
        EgressError::Tls(_) => AttemptError::Tls,
        EgressError::Timeout => AttemptError::Timeout,
        EgressError::Reset => AttemptError::Reset,
        EgressError::Protocol(_) => AttemptError::Protocol,
    }
}

fn durations(timings: Timings) -> Durations {
    let millis = |span: std::time::Duration| u32::try_from(span.as_millis()).unwrap_or(u32::MAX);
    Durations {
        dns: millis(timings.dns),
        connect: millis(timings.connect),
        tls: millis(timings.tls),
        first_byte: millis(timings.first_byte),
        total: millis(timings.total),
    }
}
