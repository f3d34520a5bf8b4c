//! Where pages for people are served, and what probes ask: life, metrics, and the OpenAPI documents. The pages themselves come from other
//! crates as [`Page`]s: the console and a few slices.

mod answer;
mod chart;
mod layout;

use std::{
    net::IpAddr,
    sync::{Arc, OnceLock},
};

use http::{Method, StatusCode, header};
use poem::{Request, Response};
use serde_json::{Value, json};

use tenantd_base::{
    access::Principal,
    secrets::{Secret, digest},
    telemetry,
};
use tenantd_store::Store;

use super::{
    context::{Client, header as header_text},
    failures,
    need::Need,
    problem::{Code, FieldError, Findings, MAX_ERRORS, Problem},
};

pub(super) use answer::problem;
pub use answer::{PageAnswer, WayOn};
pub use chart::{Chart, Mark};
pub use layout::{Html, escape};

/// A page, or several pages that belong together.
pub trait Page: Send + Sync {
    fn serves(&self, path: &str) -> bool;

    fn readers(&self) -> Readers;

    fn answer(&self, visit: &PageVisit<'_>) -> Result<Response, Problem>;
}

/// A request for a page.
#[derive(Clone, Copy, Debug)]
pub struct PageVisit<'a> {
    pub path: &'a str,
    pub query: &'a str,
    /// The `If-None-Match` header.
    pub if_none_match: Option<&'a str>,
    /// Who reads the page, if [`Page::readers`] asks for it.
    pub reader: Option<&'a Principal>,
    /// The client accepts JSON and no HTML.
    pub as_json: bool,
}

impl PageVisit<'_> {
    /// The first value of a query parameter, without surrounding spaces. Empty when it is missing.
    pub fn parameter(&self, name: &str) -> String {
        let mut pairs = form_urlencoded::parse(self.query.as_bytes());
        pairs.find(|(key, _)| key == name).map(|(_, value)| value.trim().to_owned()).unwrap_or_default()
    }
}

/// Who a page is for.
#[derive(Clone, Copy, Debug)]
pub enum Readers {
    Everyone,
    /// Everyone. An operator sees more of it.
    EveryoneAndOperators,
    /// Callers that meet the need. Each is the page's reader.
    Only(Need),
}

/// What the pages are made from.
#[allow(missing_debug_implementations, reason = "sources are seams and do not print")]
pub struct PageSources {
    pub document: Arc<Value>,
    /// The document of the API for agents and imports.
    pub internal_document: Arc<Value>,
    pub store: Store,
    pub pages: Vec<Box<dyn Page>>,
    /// Whether the server was started in safe mode, which `/metrics` shows.
    pub is_safe_mode: Box<dyn Fn() -> bool + Send + Sync>,
    /// What `/metrics` wants from clients that are not on this host.
    pub metrics_token: Option<Secret>,
}

pub struct Pages {
    sources: PageSources,
    // Made when they are first asked for.
    document: OnceLock<PublishedDocument>,
    internal_document: OnceLock<PublishedDocument>,
}

impl std::fmt::Debug for Pages {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Pages")
    }
}

/// Whether a path is asked by monitors. They are not counted against a rate limit: a monitor must not lock itself out.
pub fn is_probe(path: &str) -> bool {
    PROBES.contains(&path)
}

/// A document as it is sent.
#[derive(Debug)]
struct PublishedDocument {
    bytes: bytes::Bytes,
    etag: String,
}

impl PublishedDocument {
    fn new(document: &Value) -> Self {
        let bytes: bytes::Bytes = serde_json::to_vec(document).unwrap_or_default().into();
        let fingerprint = digest(&bytes);
        let etag = format!("\"{}\"", data_encoding::HEXLOWER.encode(fingerprint.get(..12).unwrap_or_default()));
        Self { bytes, etag }
    }

    fn answer(&self, request: &Request) -> Response {
        let known = header_text(request.headers(), "if-none-match").is_some_and(|tags| tags.contains(&self.etag));
        let response = Response::builder()
            .header(header::ETAG, &self.etag)
            .header(header::CACHE_CONTROL, "public, max-age=300")
            .header(header::ACCESS_CONTROL_ALLOW_ORIGIN, "*");
        if known {
            return response.status(StatusCode::NOT_MODIFIED).finish();
        }
        response.content_type("application/json").body(self.bytes.clone())
    }
}

fn published<'a>(kept: &'a OnceLock<PublishedDocument>, document: &Value) -> &'a PublishedDocument {
    kept.get_or_init(|| PublishedDocument::new(document))
}

/// Where the OpenAPI document of the public API is.
pub const DOCUMENT_PATH: &str = "/api/openapi.json";
/// Where the OpenAPI document for agents and imports is.
pub const INTERNAL_DOCUMENT_PATH: &str = "/internal/openapi.json";
const PATHS: [&str; 3] = ["/", DOCUMENT_PATH, INTERNAL_DOCUMENT_PATH];
/// Where `/` leads to.
const HOME: &str = "/documentation/";
const PROBES: [&str; 3] = ["/healthz", "/readyz", "/metrics"];

impl Pages {
    pub fn new(sources: PageSources) -> Self {
        Self { sources, document: OnceLock::new(), internal_document: OnceLock::new() }
    }

    fn page(&self, path: &str) -> Option<&dyn Page> {
        self.sources.pages.iter().find(|page| page.serves(path)).map(AsRef::as_ref)
    }

    /// Who the page at a path is for.
    pub fn readers(&self, path: &str) -> Readers {
        self.page(path).map_or(Readers::Everyone, Page::readers)
    }

    /// `reader` is who asks, as far as [`Pages::readers`] wants to know it.
    pub fn answer(
        &self,
        request: &Request,
        client: Client,
        base_url: &str,
        reader: Option<&Principal>,
    ) -> Result<Response, Problem> {
        let path = request.uri().path();
        let page = self.page(path);
        if page.is_none() && !PATHS.contains(&path) && !is_probe(path) {
            return self.redirect_or_missing(path);
        }
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            return Err(Problem::plain(Code::MethodNotAllowed).header(header::ALLOW, "GET, HEAD"));
        }
        if path.starts_with("/api/") || path.starts_with("/internal/") {
            refuse_parameters(request)?;
        }
        if let Some(page) = page {
            return page.answer(&PageVisit {
                path,
                query: request.uri().query().unwrap_or_default(),
                if_none_match: header_text(request.headers(), "if-none-match"),
                reader,
                as_json: wants_json(request),
            });
        }
        match path {
            "/" => Ok(Response::builder().status(StatusCode::TEMPORARY_REDIRECT).header(header::LOCATION, HOME).finish()),
            DOCUMENT_PATH => Ok(published(&self.document, &self.sources.document).answer(request)),
            INTERNAL_DOCUMENT_PATH => Ok(published(&self.internal_document, &self.sources.internal_document).answer(request)),
            "/healthz" => Ok(json_response(StatusCode::OK, &json!({"status": "alive"}))),
            "/metrics" => self.metrics(request, client),
            _ => Err(Problem::new(Code::NotFound, format!("There is nothing at {base_url}{path}."))),
        }
    }

    /// A page's path without its slash leads to the page.
    fn redirect_or_missing(&self, path: &str) -> Result<Response, Problem> {
        let with_slash = format!("{path}/");
        if self.page(&with_slash).is_some() {
            return Ok(redirect(&with_slash));
        }
        Err(Problem::new(Code::NotFound, format!("There is nothing at {path}; the API is described at /documentation/.")))
    }

    fn metrics(&self, request: &Request, client: Client) -> Result<Response, Problem> {
        let local = match client {
            Client::Local => true,
            Client::Address(address) => is_loopback(address),
        };
        let bearer = header_text(request.headers(), "authorization").and_then(|value| value.strip_prefix("Bearer "));
        let authorized = match (&self.sources.metrics_token, bearer) {
            // Comparing digests takes the same time wherever the texts differ.
            (Some(token), Some(given)) => digest(token.expose().as_bytes()) == digest(given.as_bytes()),
            _ => false,
        };
        if !(local || authorized) {
            return Err(super::credentials::missing());
        }
        let store = &self.sources.store;
        let busy = store.writer().busy().map_or(0.0, |busy| busy.elapsed.as_secs_f64());
        metrics::gauge!("tenantd_store_oldest_read_seconds").set(store.oldest_read_millis() as f64 / 1000.0);
        metrics::gauge!("tenantd_store_writer_busy_seconds").set(busy);
        metrics::gauge!("tenantd_store_writer_stalled").set(f64::from(u8::from(store.writer().stalled().is_some())));
        metrics::gauge!("tenantd_store_waiting_writes").set(store.waiting_writes() as f64);
        metrics::gauge!("tenantd_safe_mode").set(f64::from(u8::from((self.sources.is_safe_mode)())));
        let rendered = telemetry::metrics().map(metrics_exporter_prometheus::PrometheusHandle::render).unwrap_or_default();
        Ok(Response::builder().content_type("text/plain; version=0.0.4; charset=utf-8").body(rendered))
    }
}

fn is_loopback(address: IpAddr) -> bool {
    address.to_canonical().is_loopback()
}

fn wants_json(request: &Request) -> bool {
    header_text(request.headers(), "accept")
        .is_some_and(|accept| accept.contains("application/json") && !accept.contains("text/html"))
}

/// These pages have no parameters.
fn refuse_parameters(request: &Request) -> Result<(), Problem> {
    let query = request.uri().query().unwrap_or_default();
    let unknown = form_urlencoded::parse(query.as_bytes()).take(MAX_ERRORS).map(|(name, _)| {
        let message = format!("the parameter {name} does not exist here");
        FieldError::parameter(name, "unknown_parameter", message)
    });
    let errors: Vec<FieldError> = unknown.collect();
    if errors.is_empty() { Ok(()) } else { Err(failures::bad_query(Findings { errors, complete: true })) }
}

fn redirect(path: &str) -> Response {
    Response::builder().status(StatusCode::PERMANENT_REDIRECT).header(header::LOCATION, path).finish()
}

/// A page as it is sent.
pub fn html(body: String) -> Response {
    Response::builder()
        .content_type("text/html; charset=utf-8")
        .header(
            header::CONTENT_SECURITY_POLICY,
            "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; frame-ancestors 'none'",
        )
        .header(header::REFERRER_POLICY, "no-referrer")
        .body(body)
}

pub fn json_response(status: StatusCode, value: &Value) -> Response {
    Response::builder().status(status).content_type("application/json").body(value.to_string())
}
