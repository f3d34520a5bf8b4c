//! Cross-origin resource sharing: pages of other sites that call the API with an API key. Only the sites in `listen.cors_origins`
//! may do so, and never with a session, because no answer allows browsers to send cookies.

use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use poem::{Request, Response};

use tenantd_base::config::Origin;

use super::context::header as header_text;

/// The headers that a page can send, in addition to those that browsers always allow.
const REQUEST_HEADERS: HeaderValue =
    HeaderValue::from_static("authorization, content-type, idempotency-key, if-match, if-none-match, x-api-key");
/// The headers of an answer that a page can read, in addition to those that browsers always allow.
const ANSWER_HEADERS: HeaderValue = HeaderValue::from_static(
    "content-disposition, etag, idempotency-replayed, link, location, ratelimit, ratelimit-policy, retry-after, x-quota, \
     x-ratelimit-limit, x-ratelimit-remaining, x-ratelimit-reset, x-request-id, x-tenant-kind",
);
/// How long a browser caches the answer to a preflight request, in seconds.
const MAX_AGE: HeaderValue = HeaderValue::from_static("600");

/// The paths that pages of other sites can call. HTML pages, metrics and operator endpoints are excluded.
const PATHS: &str = "/api/";

/// The origin of the page that sends the request, if it is allowed.
pub(super) fn allowed(request: &Request, origins: &[Origin]) -> Option<HeaderValue> {
    let origin = request.headers().get(header::ORIGIN).filter(|_| request.uri().path().starts_with(PATHS))?;
    origins.iter().any(|allowed| allowed.as_str().as_bytes() == origin.as_bytes()).then(|| origin.clone())
}

/// Answers a preflight request of a browser. `methods` are those of the path.
pub(super) fn preflight(request: &Request, methods: &[&Method], origins: &[Origin]) -> Option<Response> {
    allowed(request, origins)?;
    header_text(request.headers(), header::ACCESS_CONTROL_REQUEST_METHOD).filter(|_| request.method() == Method::OPTIONS)?;
    let methods: Vec<&str> = methods.iter().map(|method| method.as_str()).collect();
    let answer = Response::builder()
        .status(StatusCode::NO_CONTENT)
        .header(header::ACCESS_CONTROL_ALLOW_METHODS, methods.join(", "))
        .header(header::ACCESS_CONTROL_ALLOW_HEADERS, REQUEST_HEADERS)
        .header(header::ACCESS_CONTROL_MAX_AGE, MAX_AGE);
    Some(answer.finish())
}

/// Allows the page that sent the request to read the answer.
pub(super) fn finish(headers: &mut HeaderMap, origin: Option<HeaderValue>, origins: &[Origin]) {
    if origins.is_empty() {
        return;
    }
    headers.append(header::VARY, HeaderValue::from_static("origin"));
    if let Some(origin) = origin {
        headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
        headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, ANSWER_HEADERS);
    }
}
