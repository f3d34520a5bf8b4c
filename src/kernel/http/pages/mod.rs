//! Where pages for people are served, and what probes ask: life, metrics, and the OpenAPI documents. The pages themselves come from other
//! crates as [`Page`]s: from the console, and from slices for probes.

mod answer;
mod visit;

use std::{
    net::IpAddr,
    sync::{Arc, OnceLock},
};

use futures_util::future::BoxFuture;
use http::{HeaderMap, Method, StatusCode, Uri, header, uri::PathAndQuery};
use poem::Response;
use serde_json::{Value, json};

use tenantd_base::{
    id::RequestId,
    return_path::ReturnPath,
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

pub use answer::{Notice, WayOn};
pub use visit::{Api, ApiAnswer, Call, FirstBytes, PageVisit};

/// A page, or several pages that belong together.
pub trait Page: Send + Sync {
    fn serves(&self, path: &str) -> bool;

    fn readers(&self, path: &str) -> Readers;

    /// Whether forms are sent to the path.
    fn takes_forms(&self, _path: &str) -> bool {
        false
    }

    fn answer<'a>(&'a self, visit: &'a PageVisit<'a>) -> BoxFuture<'a, Result<Response, Problem>>;
}

/// The field of a form that shows that a page of this site made it for the session.
pub const FORM_TOKEN: &str = "form_token";

/// The path of the page for signing in.
pub const SIGN_IN: &str = "/sign-in";

/// The path of the pages for contacts of customers.
pub const PORTAL: &str = "/portal";

/// The path of the page for adding and proving second factors.
pub const SECOND_FACTOR: &str = "/second-factor";

/// The way to the sign-in page, and from there back to the target.
pub(super) fn to_sign_in(target: &Uri) -> Response {
    let path = target.path_and_query().map_or("/", PathAndQuery::as_str);
    let way = if path == "/" || ReturnPath::parse(path).is_none() {
        SIGN_IN.to_owned()
    } else {
        let mut query = form_urlencoded::Serializer::new(String::new());
        format!("{SIGN_IN}?{}", query.append_pair("return_to", path).finish())
    };
    see_other(&way)
}

/// Leads on to a path of this site.
pub(super) fn see_other(way: &str) -> Response {
    Response::builder()
        .status(StatusCode::SEE_OTHER)
        .header(header::LOCATION, way)
        .header(header::CACHE_CONTROL, "no-store")
        .finish()
}

/// Who a page is for.
#[derive(Clone, Copy, Debug)]
pub enum Readers {
    Everyone,
    /// Everyone. An operator sees more of it.
    EveryoneAndOperators,
    /// Everyone. Who is signed in sees more of it.
    EveryoneAndSignedIn,
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
    /// Shows a problem to somebody who looks at it in a browser. The text is the id of the request.
    pub problem: fn(&Problem, &str) -> Response,
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

    fn answer(&self, visit: &PageVisit<'_>) -> Response {
        let known = visit.if_none_match().is_some_and(|tags| tags.contains(&self.etag));
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
const PATHS: [&str; 2] = [DOCUMENT_PATH, INTERNAL_DOCUMENT_PATH];
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
        self.page(path).map_or(Readers::Everyone, |page| page.readers(path))
    }

    pub(super) fn takes_forms(&self, path: &str) -> bool {
        self.page(path).is_some_and(|page| page.takes_forms(path))
    }

    pub(super) fn problem(&self, problem: &Problem, request_id: RequestId) -> Response {
        let mut response = (self.sources.problem)(problem, &request_id.to_string());
        response.headers_mut().extend(problem.headers.clone());
        response
    }

    /// Refuses a method that the page at a path does not have.
    pub(super) fn check_method(&self, path: &str, method: &Method) -> Result<(), Problem> {
        let (takes_forms, is_known) = (self.takes_forms(path), self.is_known(path));
        match *method {
            Method::GET | Method::HEAD => Ok(()),
            Method::POST if takes_forms => Ok(()),
            _ if !is_known => Ok(()),
            _ => {
                let allowed = if takes_forms { "GET, HEAD, POST" } else { "GET, HEAD" };
                Err(Problem::plain(Code::MethodNotAllowed).header(header::ALLOW, allowed))
            }
        }
    }

    fn is_known(&self, path: &str) -> bool {
        self.page(path).is_some() || PATHS.contains(&path) || is_probe(path)
    }

    pub(super) async fn answer(&self, visit: &PageVisit<'_>, client: Client) -> Result<Response, Problem> {
        let path = visit.path;
        if !self.is_known(path) {
            return self.redirect_or_missing(path);
        }
        if path.starts_with("/api/") || path.starts_with("/internal/") {
            refuse_parameters(visit.query)?;
        }
        if let Some(page) = self.page(path) {
            return page.answer(visit).await;
        }
        match path {
            DOCUMENT_PATH => Ok(published(&self.document, &self.sources.document).answer(visit)),
            INTERNAL_DOCUMENT_PATH => Ok(published(&self.internal_document, &self.sources.internal_document).answer(visit)),
            "/healthz" => Ok(json_response(StatusCode::OK, &json!({"status": "alive"}))),
            "/metrics" => self.metrics(visit, client),
            _ => Err(Problem::new(Code::NotFound, format!("There is nothing at {}{path}.", visit.base_url))),
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

    fn metrics(&self, visit: &PageVisit<'_>, client: Client) -> Result<Response, Problem> {
        let local = match client {
            Client::Local => true,
            Client::Address(address) => is_loopback(address),
        };
        let bearer = header_text(visit.headers, "authorization").and_then(|value| value.strip_prefix("Bearer "));
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

pub(super) fn wants_json(headers: &HeaderMap) -> bool {
    header_text(headers, "accept").is_some_and(|accept| accept.contains("application/json") && !accept.contains("text/html"))
}

/// These pages have no parameters.
fn refuse_parameters(query: &str) -> Result<(), Problem> {
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

pub fn json_response(status: StatusCode, value: &Value) -> Response {
    Response::builder().status(status).content_type("application/json").body(value.to_string())
}
