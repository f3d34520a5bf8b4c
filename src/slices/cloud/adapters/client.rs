//! HTTP for adapters: a request within the time that is left, reads repeated with a growing pause, transport errors in our words, and a
//! note of how the way to the provider looked, which a verification shows.
//!
//! **Invariant:** only a call that is marked as repeatable is sent twice. What a status means is the adapter's to say.

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

/// How much of an answer is read. A page of a fleet is far below.
const MAX_ANSWER_BYTES: usize = 8 << 20;
/// For one exchange, within the time of the whole.
const LONGEST_EXCHANGE: Duration = Duration::from_secs(20);
/// How often a read is tried, and how long the first pause is.
const MOST_TRIES: u32 = 4;
const FIRST_PAUSE: Duration = Duration::from_millis(200);
/// A provider that wants a longer pause than this is left alone: whoever asked decides when to come back.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// What some providers send in place of `Retry-After`: a Unix time.
const RATE_LIMIT_RESET: HeaderName = HeaderName::from_static("ratelimit-reset");

/// A request to a provider.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(super) method: Method,
    pub(super) url: String,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
    /// May be sent again when nobody knows what became of it.
    pub(super) repeatable: bool,
}

impl Call {
    /// A read, which is repeated when it fails in passing.
    pub(super) fn get(url: impl Into<String>) -> Self {
        let url = url.into();
        Self { method: Method::GET, url, headers: HeaderMap::new(), body: Bytes::new(), repeatable: true }
    }

    /// A POST, which is sent once unless it is marked as repeatable because it only reads.
    pub(super) fn post(url: impl Into<String>) -> Self {
        Self { method: Method::POST, repeatable: false, ..Self::get(url) }
    }

    pub(super) fn header(mut self, name: HeaderName, value: &str) -> Result<Self, Failure> {
        self.headers.insert(name, header_value(value)?);
        Ok(self)
    }

    /// A header that says who one is: it is never printed.
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

    /// `name=value` pairs as a form has them.
    pub(super) fn form(mut self, pairs: &[(&str, &str)]) -> Self {
        let body = form_urlencoded::Serializer::new(String::new()).extend_pairs(pairs).finish();
        self.body = body.into_bytes().into();
        self.headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/x-www-form-urlencoded; charset=utf-8"));
        self
    }
}

/// A value that cannot be in a header is mostly a credential with a line break at its end.
fn header_value(value: &str) -> Result<HeaderValue, Failure> {
    HeaderValue::from_str(value).map_err(|_| {
        Failure::new(FailureClass::InvalidCredentials, "not_a_header", "the credential has characters that cannot be sent")
    })
}

/// An answer of a provider, whatever its status.
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

    /// The body in the shape that was expected.
    pub(super) fn json<T: DeserializeOwned>(&self) -> Result<T, Failure> {
        serde_json::from_slice(&self.body).map_err(|error| unusable(&format!("the answer is not what it should be: {error}")))
    }

    /// The body in the shape that was expected.
    pub(super) fn xml<T: DeserializeOwned>(&self) -> Result<T, Failure> {
        let text = std::str::from_utf8(&self.body).map_err(|error| unusable(&error.to_string()))?;
        quick_xml::de::from_str(text).map_err(|error| unusable(&format!("the answer is not what it should be: {error}")))
    }

    /// When the provider wants to be asked again: `Retry-After` in seconds or as a date, or the second at which a used-up rate begins
    /// anew.
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

    /// How far the provider's clock is from ours, by the `Date` of its answer. Providers that sign by time refuse what is minutes off.
    pub(super) fn clock_skew(&self) -> Option<Duration> {
        let theirs = date(self.headers.get(header::DATE)?.to_str().ok()?)?;
        Some(theirs.since(self.now).max(self.now.since(theirs)))
    }

    /// The class that the status alone tells. Adapters look at the body first where it says more.
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

    /// A failure of this class, with what the provider wants of a later attempt.
    pub(super) fn failure(&self, class: FailureClass, code: &str, message: &str) -> Failure {
        let code = if code.is_empty() { format!("http_{}", self.status.as_u16()) } else { code.to_owned() };
        let message = if message.is_empty() { format!("the provider answered {}", self.status) } else { message.to_owned() };
        Failure::new(class, code, message).with_retry_after(self.retry_after())
    }

    fn is_passing(&self) -> bool {
        matches!(self.status.as_u16(), 429 | 500 | 502 | 503 | 504)
    }
}

fn date(text: &str) -> Option<Timestamp> {
    let parsed = jiff::fmt::rfc2822::parse(text).ok()?;
    Some(Timestamp::from_millis(parsed.timestamp().as_millisecond()))
}

/// The provider said what we do not understand.
pub(super) fn unusable(message: &str) -> Failure {
    Failure::new(FailureClass::ProviderError, "unexpected_answer", message)
}

/// What a client is made of.
#[derive(Clone, Debug)]
pub(crate) struct ClientParts {
    pub(crate) egress: Egress,
    pub(crate) clock: Clock,
    pub(crate) audience: Audience,
    pub(crate) ca_pem: Option<Arc<str>>,
    pub(crate) pinned_certificate: Option<[u8; 32]>,
}

/// The way to a provider, for one piece of work.
#[derive(Debug)]
pub(crate) struct Client {
    parts: ClientParts,
    deadline: Instant,
    way: Mutex<Option<[Check; 3]>>,
}

impl Client {
    /// A client whose calls are all over after `time`.
    pub(crate) fn new(parts: ClientParts, time: Duration) -> Self {
        Self { parts, deadline: Instant::now() + time, way: Mutex::new(None) }
    }

    pub(super) fn now(&self) -> Timestamp {
        self.parts.clock.now()
    }

    /// The time that is left.
    pub(super) fn left(&self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now())
    }

    /// Look-up, connection and handshake as the first call found them, or the first that failed on the way.
    pub(super) fn way(&self) -> [Check; 3] {
        let seen = self.way.lock().unwrap_or_else(PoisonError::into_inner).clone();
        seen.unwrap_or_else(|| [CheckName::Dns, CheckName::Tcp, CheckName::Tls].map(Check::skipped))
    }

    /// Sends, and sends again what may be sent again, until there is an answer that repeating would not change.
    pub(crate) async fn send(&self, call: Call) -> Result<Reply, Failure> {
        let url = TargetUrl::parse(&call.url).map_err(|problem| {
            Failure::new(FailureClass::InvalidRequest, "bad_url", format!("the address of the provider {problem}"))
        })?;
        let mut pause = FIRST_PAUSE;
        for _ in 1..MOST_TRIES {
            let outcome = self.exchange(&call, &url).await;
            let wanted = match &outcome {
                Ok(reply) if reply.is_passing() => reply.retry_after(),
                Err(failure) if failure.class.is_transient() => None,
                _ => return outcome,
            };
            let rest = wanted.unwrap_or(pause).max(pause);
            if !call.repeatable || rest > LONGEST_PAUSE || rest >= self.left() {
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
                timeout: self.left().min(LONGEST_EXCHANGE),
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
            return Err(unusable("the answer is larger than 8 MiB"));
        }
        Ok(Reply { status: response.status, headers: response.headers, body: response.body, now: self.now() })
    }

    fn note(&self, exchange: &Exchange, secure: bool) {
        let failed = exchange.outcome.as_ref().err().is_some_and(|error| {
            matches!(error, EgressError::Dns(_) | EgressError::Blocked(_) | EgressError::Connect(_) | EgressError::Tls(_))
        });
        let mut way = self.way.lock().unwrap_or_else(PoisonError::into_inner);
        if way.is_none() || failed {
            *way = Some(checks_of_the_way(exchange, secure));
        }
    }
}

fn millis(span: Duration) -> u32 {
    u32::try_from(span.as_millis()).unwrap_or(u32::MAX)
}

fn checks_of_the_way(exchange: &Exchange, secure: bool) -> [Check; 3] {
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
        // The connection was made, and the handshake on it never ended.
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
