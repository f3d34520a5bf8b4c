//! The HTTP client of the adapters. It applies the time limit, retries reads with a growing pause, maps transport errors to
//! failures, and records how the connection was made, for verifications.
//!
//! **Invariant:** only a call that is marked as repeatable is sent twice. **Boundary:** the adapter decides what a status means.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use serde::{Serialize, de::DeserializeOwned};
use tokio::time::Instant;

use tenantd_base::clock::{Clock, Timestamp};
use tenantd_egress::{Audience, Egress, EgressError, Exchange, Request, TargetUrl};

use super::super::model::{Check, CheckName, Failure, FailureClass};

/// The maximum size of a response. A page of VMs is far smaller.
const MAX_ANSWER_BYTES: usize = 8 << 20;
/// The time limit of one exchange, within the time limit of the client.
const EXCHANGE_TIMEOUT: Duration = Duration::from_secs(20);
/// The number of attempts for a read, and the first pause.
const MAX_ATTEMPTS: u32 = 4;
const FIRST_PAUSE: Duration = Duration::from_millis(200);
/// A request is not retried if the provider asks for a longer pause. The caller decides when to retry.
const MAX_PAUSE: Duration = Duration::from_secs(5);
/// Some providers send this header instead of `Retry-After`. Its value is a Unix time.
const RATE_LIMIT_RESET: HeaderName = HeaderName::from_static("ratelimit-reset");

/// A request to a provider.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(super) method: Method,
    pub(super) url: String,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
    /// Whether the call may be sent again when its result is unknown.
    pub(super) repeatable: bool,
}

impl Call {
    /// A read, which is retried after a transient failure.
    pub(super) fn get(url: impl Into<String>) -> Self {
        let url = url.into();
        Self { method: Method::GET, url, headers: HeaderMap::new(), body: Bytes::new(), repeatable: true }
    }

    /// A POST, which is sent once. Set `repeatable` if it only reads.
    pub(super) fn post(url: impl Into<String>) -> Self {
        Self { method: Method::POST, repeatable: false, ..Self::get(url) }
    }

    pub(super) fn header(mut self, name: HeaderName, value: &str) -> Result<Self, Failure> {
        self.headers.insert(name, header_value(value)?);
        Ok(self)
    }

    /// A header with a secret. It is never printed.
    pub(super) fn secret_header(mut self, name: HeaderName, value: &str) -> Result<Self, Failure> {
        let mut value = header_value(value)?;
        value.set_sensitive(true);
        self.headers.insert(name, value);
        Ok(self)
    }

    pub(super) fn bearer(self, token: &str) -> Result<Self, Failure> {
        self.secret_header(header::AUTHORIZATION, &format!("Bearer {token}"))
    }

    pub(super) fn json(mut self, body: &impl Serialize) -> Result<Self, Failure> {
        let body = serde_json::to_vec(body).map_err(|error| unusable(&error.to_string()))?;
        self.body = body.into();
        self.headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        Ok(self)
    }

    /// Sets a form of `name=value` pairs as the body.
    pub(super) fn form(mut self, pairs: &[(&str, &str)]) -> Self {
        let body = form_urlencoded::Serializer::new(String::new()).extend_pairs(pairs).finish();
        self.body = body.into_bytes().into();
        self.headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/x-www-form-urlencoded; charset=utf-8"));
        self
    }
}

/// An invalid header value is usually a credential with a line break at its end.
fn header_value(value: &str) -> Result<HeaderValue, Failure> {
    HeaderValue::from_str(value).map_err(|_| {
        Failure::new(
            FailureClass::InvalidCredentials,
            "not_a_header",
            "the credential contains characters that are not allowed in a header: check it for line breaks",
        )
    })
}

/// A provider's response, with any status.
#[derive(Clone, Debug)]
pub(crate) struct Reply {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
    now: Timestamp,
}

impl Reply {
    pub(super) fn is_success(&self) -> bool {
        self.status.is_success()
    }

    /// Parses the body as JSON.
    pub(super) fn json<T: DeserializeOwned>(&self) -> Result<T, Failure> {
        serde_json::from_slice(&self.body).map_err(|error| unusable(&format!("the response is not the expected JSON: {error}")))
    }

    /// Parses the body as XML.
    pub(super) fn xml<T: DeserializeOwned>(&self) -> Result<T, Failure> {
        let text = std::str::from_utf8(&self.body).map_err(|error| unusable(&error.to_string()))?;
        quick_xml::de::from_str(text).map_err(|error| unusable(&format!("the response is not the expected XML: {error}")))
    }

    /// How long the provider asks to wait before a retry. It says so in `Retry-After`, as seconds or a date, or in
    /// `RateLimit-Reset`.
    pub(super) fn retry_after(&self) -> Option<Duration> {
        let Some(text) = self.headers.get(header::RETRY_AFTER) else { return self.rate_limit_reset() };
        let text = text.to_str().ok()?.trim();
        if let Ok(seconds) = text.parse() {
            return Some(Duration::from_secs(seconds));
        }
        Some(date(text)?.since(self.now))
    }

    fn rate_limit_reset(&self) -> Option<Duration> {
        let text = self.headers.get(RATE_LIMIT_RESET).filter(|_| self.status == StatusCode::TOO_MANY_REQUESTS)?;
        let seconds: i64 = text.to_str().ok()?.trim().parse().ok()?;
        Some(Timestamp::from_millis(seconds.saturating_mul(1000)).since(self.now))
    }

    /// The difference between the provider's clock and ours, from the `Date` header. Providers that sign by time refuse requests
    /// that are minutes off.
    pub(super) fn clock_skew(&self) -> Option<Duration> {
        let theirs = date(self.headers.get(header::DATE)?.to_str().ok()?)?;
        Some(theirs.since(self.now).max(self.now.since(theirs)))
    }

    /// The failure class of the status. Adapters check the body first if it is more precise.
    pub(super) fn class(&self) -> FailureClass {
        match self.status.as_u16() {
            401 => FailureClass::InvalidCredentials,
            403 => FailureClass::InsufficientPermissions,
            404 => FailureClass::NotFound,
            408 | 504 => FailureClass::Timeout,
            429 => FailureClass::RateLimited,
            400..=499 => FailureClass::InvalidRequest,
            _ => FailureClass::ProviderError,
        }
    }

    /// A failure of this class, with the provider's `retry_after`.
    pub(super) fn failure(&self, class: FailureClass, code: &str, message: &str) -> Failure {
        let code = if code.is_empty() { format!("http_{}", self.status.as_u16()) } else { code.to_owned() };
        let message = if message.is_empty() { format!("the provider answered {}", self.status) } else { message.to_owned() };
        Failure::new(class, code, message).with_retry_after(self.retry_after())
    }

    fn is_transient(&self) -> bool {
        matches!(self.status.as_u16(), 429 | 500 | 502 | 503 | 504)
    }
}

fn date(text: &str) -> Option<Timestamp> {
    let parsed = jiff::fmt::rfc2822::parse(text).ok()?;
    Some(Timestamp::from_millis(parsed.timestamp().as_millisecond()))
}

/// The failure for a response that cannot be understood.
pub(super) fn unusable(message: &str) -> Failure {
    Failure::new(FailureClass::ProviderError, "unexpected_answer", message)
}

/// The parts of a client.
#[derive(Clone, Debug)]
pub(crate) struct ClientParts {
    pub(crate) egress: Egress,
    pub(crate) clock: Clock,
    pub(crate) audience: Audience,
    pub(crate) ca_pem: Option<Arc<str>>,
    pub(crate) pinned_certificate: Option<[u8; 32]>,
}

/// An HTTP client for one provider and one piece of work.
#[derive(Debug)]
pub(crate) struct Client {
    parts: ClientParts,
    deadline: Instant,
    connection: Mutex<Option<[Check; 3]>>,
}

impl Client {
    /// A client whose calls all end within `time`.
    pub(crate) fn new(parts: ClientParts, time: Duration) -> Self {
        Self { parts, deadline: Instant::now() + time, connection: Mutex::new(None) }
    }

    pub(super) fn now(&self) -> Timestamp {
        self.parts.clock.now()
    }

    /// The remaining time.
    pub(super) fn left(&self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now())
    }

    /// The checks of name resolution, connection and TLS handshake, from the first call or from the first one that failed in them.
    pub(super) fn connection_checks(&self) -> [Check; 3] {
        let seen = self.connection.lock().unwrap_or_else(PoisonError::into_inner).clone();
        seen.unwrap_or_else(|| [CheckName::Dns, CheckName::Tcp, CheckName::Tls].map(Check::skipped))
    }

    /// Sends a call. Retries a repeatable call until the response is final.
    pub(crate) async fn send(&self, call: Call) -> Result<Reply, Failure> {
        let url = TargetUrl::parse(&call.url).map_err(|problem| {
            Failure::new(FailureClass::InvalidRequest, "bad_url", format!("the URL of the provider {problem}"))
        })?;
        let mut pause = FIRST_PAUSE;
        for _ in 1..MAX_ATTEMPTS {
            let outcome = self.exchange(&call, &url).await;
            let wanted = match &outcome {
                Ok(reply) if reply.is_transient() => reply.retry_after(),
                Err(failure) if failure.class.is_transient() => None,
                _ => return outcome,
            };
            let rest = wanted.unwrap_or(pause).max(pause);
            if !call.repeatable || rest > MAX_PAUSE || rest >= self.left() {
                return outcome;
            }
            tokio::time::sleep(rest).await;
            pause *= 2;
        }
        self.exchange(&call, &url).await
    }

    async fn exchange(&self, call: &Call, url: &TargetUrl) -> Result<Reply, Failure> {
        let exchange = self
            .parts
            .egress
            .send(Request {
                method: call.method.clone(),
                url: url.clone(),
                headers: call.headers.clone(),
                body: call.body.clone(),
                timeout: self.left().min(EXCHANGE_TIMEOUT),
                audience: self.parts.audience,
                ca_pem: self.parts.ca_pem.clone(),
                pinned_certificate: self.parts.pinned_certificate,
                max_body_bytes: MAX_ANSWER_BYTES,
                repeatable: call.repeatable,
            })
            .await;
        self.note(&exchange, url.is_https());
        let response = exchange.outcome.map_err(|error| transport_failure(&error))?;
        if response.truncated {
            return Err(unusable("the response is larger than 8 MiB"));
        }
        Ok(Reply { status: response.status, headers: response.headers, body: response.body, now: self.now() })
    }

    fn note(&self, exchange: &Exchange, secure: bool) {
        let failed = exchange.outcome.as_ref().err().is_some_and(|error| {
            matches!(error, EgressError::Dns(_) | EgressError::Blocked(_) | EgressError::Connect(_) | EgressError::Tls(_))
        });
        let mut connection = self.connection.lock().unwrap_or_else(PoisonError::into_inner);
        if connection.is_none() || failed {
            *connection = Some(connection_checks_of(exchange, secure));
        }
    }
}

fn millis(span: Duration) -> u32 {
    u32::try_from(span.as_millis()).unwrap_or(u32::MAX)
}

fn connection_checks_of(exchange: &Exchange, secure: bool) -> [Check; 3] {
    let (dns, tcp, tls) = (CheckName::Dns, CheckName::Tcp, CheckName::Tls);
    let timings = exchange.timings;
    let passed_dns = Check::passed(dns, millis(timings.dns));
    let passed_tcp = Check::passed(tcp, millis(timings.connect));
    let failed = |name: CheckName, error: &EgressError| {
        let failure = transport_failure(error);
        Check::failed(name, millis(timings.total), &failure.code, failure.class.remedy())
    };
    match &exchange.outcome {
        Err(error @ EgressError::Dns(_)) => [failed(dns, error), Check::skipped(tcp), Check::skipped(tls)],
        Err(error @ (EgressError::Blocked(_) | EgressError::Connect(_))) => [passed_dns, failed(tcp, error), Check::skipped(tls)],
        Err(error @ EgressError::Tls(_)) => [passed_dns, passed_tcp, failed(tls, error)],
        Err(EgressError::Timeout) if exchange.remote_ip.is_none() => [passed_dns, Check::skipped(tcp), Check::skipped(tls)],
        // The connection was made, but the handshake did not end.
        Err(error @ EgressError::Timeout) if secure && timings.tls.is_zero() && !timings.connect.is_zero() => {
            [passed_dns, passed_tcp, failed(tls, error)]
        }
        Ok(_) | Err(_) if secure => [passed_dns, passed_tcp, Check::passed(tls, millis(timings.tls))],
        Ok(_) | Err(_) => [passed_dns, passed_tcp, Check::skipped(tls)],
    }
}

fn transport_failure(error: &EgressError) -> Failure {
    let class = match error {
        EgressError::Dns(_) | EgressError::Connect(_) | EgressError::Reset => FailureClass::Unreachable,
        EgressError::Blocked(_) => FailureClass::TargetNotAllowed,
        EgressError::Tls(_) => FailureClass::TlsError,
        EgressError::Timeout => FailureClass::Timeout,
        EgressError::Protocol(_) => FailureClass::ProviderError,
    };
    let code = if class == FailureClass::TargetNotAllowed { "target_not_allowed" } else { error.code() };
    Failure::new(class, code, error.to_string())
}
