//! Sends one event to one endpoint once: builds the request, signs it, and converts the response into an attempt. Deliveries,
//! retries and tests use the same path.

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, header};

use tenantd_base::{clocks::Clocks, id::EventId};
use tenantd_egress::{Egress, EgressError, MAX_BODY_BYTES, Request, Timings};

use super::{
    delivery::{AttemptError, Directive, Durations, MAX_BODY_KEPT, Sent},
    signature::sign_all,
    subscriptions::Target,
};

const WEBHOOK_ID: HeaderName = HeaderName::from_static("webhook-id");
const WEBHOOK_TIMESTAMP: HeaderName = HeaderName::from_static("webhook-timestamp");
const WEBHOOK_SIGNATURE: HeaderName = HeaderName::from_static("webhook-signature");
const WEBHOOK_DELIVERY: HeaderName = HeaderName::from_static("webhook-delivery");
/// Replaces the values of custom headers in stored responses. Shorter values are not masked: they are not secrets and would match
/// everywhere.
const MASK: u8 = b'*';
const SHORTEST_SECRET: usize = 4;

#[derive(Clone, Debug)]
pub(super) struct Sender {
    pub(super) egress: Egress,
    pub(super) clocks: Clocks,
}

impl Sender {
    pub(super) async fn send(&self, target: &Target, event: EventId, body: Bytes, timeout: std::time::Duration) -> Sent {
        let clocks = self.clocks.read();
        let started_at = clocks.of(target.key.0);
        let id = event.to_string();
        // The receiver checks the age against its own clock.
        let timestamp = clocks.installation().as_seconds().to_string();
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
                pinned_certificate: None,
                max_body_bytes: MAX_BODY_BYTES,
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

/// Masks the values of custom headers, which a receiver may echo. People who read the attempt must not see them.
fn conceal(body: &[u8], headers: &HeaderMap) -> Vec<u8> {
    let mut shown = body.to_vec();
    let secrets = headers.values().filter(|value| value.is_sensitive() && value.len() >= SHORTEST_SECRET);
    for secret in secrets.map(HeaderValue::as_bytes) {
        let mut from = 0;
        while let Some(at) = body.get(from..).and_then(|rest| rest.windows(secret.len()).position(|window| window == secret)) {
            let end = from + at + secret.len();
            if let Some(found) = shown.get_mut(from + at..end) {
                found.fill(MASK);
            }
            from = end;
        }
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn echoed_header_values_are_masked() {
        let mut headers = HeaderMap::new();
        for (name, value) in [("x-one", "hunter2"), ("x-two", "Bearer hunter2!"), ("x-short", "a")] {
            let mut value = HeaderValue::from_static(value);
            value.set_sensitive(true);
            headers.insert(name, value);
        }
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let shown = |body: &str| String::from_utf8(conceal(body.as_bytes(), &headers)).unwrap();
        assert_eq!(shown("hunter2, hunter2"), "*******, *******");
        assert_eq!(shown("a Bearer hunter2! application/json"), "a *************** application/json");
        assert_eq!(shown("hunter"), "hunter");
        assert_eq!(shown(""), "");
    }
}
