//! What the server tells people and probes outside of the API: the documentation, the rate limits, the changelog, metrics, and the
//! [`Page`]s of slices. All of it is made from the running binary, and nothing is loaded from another host.

mod answer;
mod chart;
mod keys;
mod layout;
mod reference;

use std::{
    net::IpAddr,
    sync::{Arc, OnceLock},
};

use http::{Method, StatusCode, header};
use poem::{Request, Response};
use serde_json::{Value, json};

use tenantd_base::{
    access::{Principal, Role, Scope},
    secrets::{PublicKey, Secret, digest},
    telemetry,
};
use tenantd_store::{Store, events::Kinds};

use super::{
    context::{Client, header as header_text},
    failures,
    need::Need,
    problem::{Code, FieldError, Findings, MAX_ERRORS, Problem},
    rate::{RateClass, RateLimits},
};

pub(super) use answer::problem;
pub use answer::{PageAnswer, WayOn};
pub use chart::{Chart, Mark};
pub use layout::{Html, escape};

const CHANGELOG: &str = include_str!("../../../../CHANGELOG.md");

/// A page that a slice serves.
pub trait Page: Send + Sync {
    fn path(&self) -> &'static str;

    fn readers(&self) -> Readers;

    /// `reader` is there if [`Page::readers`] asks for one.
    fn answer(&self, reader: Option<&Principal>, as_json: bool) -> Result<Response, Problem>;
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
    /// Of what is served beside the public API, for agents and imports.
    pub internal_document: Arc<Value>,
    pub kinds: Kinds,
    pub rates: Arc<RateLimits>,
    pub store: Store,
    /// The pages of slices.
    pub pages: Vec<Box<dyn Page>>,
    /// Whether the server was started in safe mode, which `/metrics` shows.
    pub is_safe_mode: Box<dyn Fn() -> bool + Send + Sync>,
    /// What `/metrics` wants from clients that are not on this host.
    pub metrics_token: Option<Secret>,
    /// What signatures that leave the installation are checked with, by what they are for.
    pub signing_keys: Vec<(&'static str, PublicKey)>,
}

pub struct Pages {
    sources: PageSources,
    // Made when they are first asked for.
    document: OnceLock<PublishedDocument>,
    internal_document: OnceLock<PublishedDocument>,
    reference: OnceLock<String>,
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

const DOCUMENT_PATH: &str = "/api/openapi.json";
const INTERNAL_DOCUMENT_PATH: &str = "/internal/openapi.json";
const PATHS: [&str; 10] = [
    "/",
    "/api/rate-limits/",
    "/documentation/",
    "/documentation/errors/",
    "/documentation/events/",
    "/documentation/scopes/",
    "/documentation/keys/",
    "/documentation/changelog/",
    DOCUMENT_PATH,
    INTERNAL_DOCUMENT_PATH,
];
/// The pages that the JSON form of `/documentation/` lists.
const CONTENTS: [(&str, &str); 8] = [
    (DOCUMENT_PATH, "The OpenAPI document of the public API"),
    (INTERNAL_DOCUMENT_PATH, "The OpenAPI document for agents and imports"),
    ("/documentation/errors/", "Error codes"),
    ("/documentation/events/", "Events"),
    ("/documentation/scopes/", "Scopes and roles"),
    ("/documentation/keys/", "Public keys of signatures"),
    ("/documentation/changelog/", "Changelog"),
    ("/api/rate-limits/", "Rate limits"),
];
const PROBES: [&str; 3] = ["/healthz", "/readyz", "/metrics"];

impl Pages {
    pub fn new(sources: PageSources) -> Self {
        Self { sources, document: OnceLock::new(), internal_document: OnceLock::new(), reference: OnceLock::new() }
    }

    fn page(&self, path: &str) -> Option<&dyn Page> {
        self.sources.pages.iter().find(|page| page.path() == path).map(AsRef::as_ref)
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
        let as_json = wants_json(request);
        if let Some(page) = page {
            return page.answer(reader, as_json);
        }
        if path.starts_with("/api/") || path.starts_with("/internal/") {
            refuse_parameters(request)?;
        }
        match path {
            "/" => Ok(redirect("/documentation/")),
            DOCUMENT_PATH => Ok(published(&self.document, &self.sources.document).answer(request)),
            INTERNAL_DOCUMENT_PATH => Ok(published(&self.internal_document, &self.sources.internal_document).answer(request)),
            "/api/rate-limits/" => Ok(self.rate_limits(as_json)),
            "/documentation/" if as_json => Ok(self.contents()),
            "/documentation/" => Ok(html(self.reference.get_or_init(|| reference::render(&self.sources.document)).clone())),
            "/documentation/errors/" => Ok(errors(as_json)),
            "/documentation/events/" => Ok(self.events(as_json)),
            "/documentation/scopes/" => Ok(scopes(as_json)),
            "/documentation/keys/" => Ok(keys::page(&self.sources.signing_keys, as_json)),
            "/documentation/changelog/" => Ok(changelog(as_json)),
            "/healthz" => Ok(json_response(StatusCode::OK, &json!({"status": "alive"}))),
            "/metrics" => self.metrics(request, client),
            _ => Err(Problem::new(Code::NotFound, format!("There is nothing at {base_url}{path}."))),
        }
    }

    /// A page's path without its slash leads to the page.
    fn redirect_or_missing(&self, path: &str) -> Result<Response, Problem> {
        let with_slash = format!("{path}/");
        if PATHS.contains(&with_slash.as_str()) || self.page(&with_slash).is_some() {
            return Ok(redirect(&with_slash));
        }
        Err(Problem::new(Code::NotFound, format!("There is nothing at {path}; the API is described at /documentation/.")))
    }

    fn rate_limits(&self, as_json: bool) -> Response {
        let settings = self.sources.rates.settings();
        let rows: Vec<(RateClass, &str, u32)> = vec![
            (RateClass::Read, "credential", settings.read.credential),
            (RateClass::Read, "tenant", settings.read.tenant),
            (RateClass::Search, "credential", settings.search.credential),
            (RateClass::Search, "tenant", settings.search.tenant),
            (RateClass::Report, "credential", settings.report.credential),
            (RateClass::Report, "tenant", settings.report.tenant),
            (RateClass::Write, "credential", settings.write.credential),
            (RateClass::Write, "tenant", settings.write.tenant),
            (RateClass::Provision, "credential", settings.provision.credential),
            (RateClass::Provision, "tenant", settings.provision.tenant),
            (RateClass::SignIn, "address", settings.sign_in_per_address),
            (RateClass::Public, "address", settings.public_per_address),
        ];
        if as_json {
            let limits: Vec<Value> = rows
                .iter()
                .map(|(class, per, limit)| json!({"class": class.name(), "per": per, "requests_per_minute": limit}))
                .collect();
            return json_response(StatusCode::OK, &json!({"enabled": settings.enabled, "limits": limits}));
        }
        let mut page = Html::new("Rate limits");
        page.paragraph(if settings.enabled {
            "Requests a minute, counted in buckets that fill evenly. Each class counts for the credential and for its whole tenant; without a credential, for the client's address. A request that finds its bucket empty gets 429 with Retry-After."
        } else {
            "Rate limits are switched off on this installation."
        });
        page.paragraph("Every answer tells where you stand: RateLimit-Policy, RateLimit, X-RateLimit-Limit, X-RateLimit-Remaining and X-RateLimit-Reset (seconds until the bucket is full).");
        page.table(
            &["class", "what", "counted per", "requests a minute"],
            rows.iter().map(|(class, per, limit)| {
                vec![class.name().to_owned(), class.description().to_owned(), (*per).to_owned(), limit.to_string()]
            }),
        );
        html(page.finish())
    }

    /// What the documentation has, for a program that looks for it.
    fn contents(&self) -> Response {
        let pages: Vec<Value> = CONTENTS.iter().map(|(path, title)| json!({"path": path, "title": title})).collect();
        let info = self.sources.document.get("info");
        json_response(StatusCode::OK, &json!({"info": info, "openapi": DOCUMENT_PATH, "data": pages}))
    }

    fn events(&self, as_json: bool) -> Response {
        if as_json {
            let kinds: Vec<Value> =
                self.sources.kinds.iter().map(|kind| json!({"type": kind.name, "summary": kind.summary})).collect();
            return json_response(StatusCode::OK, &json!({"data": kinds}));
        }
        let mut page = Html::new("Events");
        page.paragraph("Every change is an event in the tenant's feed, GET /api/events. GET /api/events/catalog has a JSON Schema and an example of each kind.");
        page.table(&["type", "when"], self.sources.kinds.iter().map(|kind| vec![kind.name.to_owned(), kind.summary.to_owned()]));
        html(page.finish())
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

fn errors(as_json: bool) -> Response {
    if as_json {
        let codes: Vec<Value> = Code::ALL
            .iter()
            .map(|code| json!({"code": code.name(), "status": code.status().as_u16(), "title": code.title(), "remedy": code.remedy()}))
            .collect();
        return json_response(StatusCode::OK, &json!({"data": codes}));
    }
    let mut page = Html::new("Error codes");
    page.paragraph("Every error is application/problem+json (RFC 9457). Decide by `code`: it is stable. The request_id names the request in the operator's logs.");
    for code in Code::ALL {
        page.raw(&format!(
            "<section id=\"{}\"><h2>{} <small>{}</small></h2><p>{}. {}</p></section>",
            code.name().replace('_', "-"),
            escape(code.name()),
            code.status().as_u16(),
            escape(code.title()),
            escape(code.remedy())
        ));
    }
    html(page.finish())
}

fn scopes(as_json: bool) -> Response {
    let held = |role: Role| -> Vec<&str> { role.grants().iter().map(Scope::name).collect() };
    if as_json {
        let scopes: Vec<Value> =
            Scope::ALL.iter().map(|scope| json!({"scope": scope.name(), "description": scope.description()})).collect();
        let roles: Vec<Value> = Role::ALL.iter().map(|role| json!({"role": role.name(), "scopes": held(*role)})).collect();
        return json_response(StatusCode::OK, &json!({"data": scopes, "roles": roles}));
    }
    let mut page = Html::new("Scopes");
    page.paragraph("An API key holds scopes. Wildcards stand for several: tickets:* for an area, *:read for an action, * for all. Nobody can give a key a scope that they lack themselves.");
    page.table(&["scope", "allows"], Scope::ALL.iter().map(|scope| vec![scope.name().to_owned(), scope.description().to_owned()]));
    page.raw("<h2>Roles</h2>");
    page.paragraph("Who signs in has the scopes of their role, within their tenant. An operator runs the installation, belongs to a tenant of its own, and sees no other tenant's content.");
    page.table(&["role", "scopes"], Role::ALL.iter().map(|role| vec![role.name().to_owned(), held(*role).join(", ")]));
    html(page.finish())
}

fn changelog(as_json: bool) -> Response {
    if as_json {
        return json_response(StatusCode::OK, &json!({"markdown": CHANGELOG}));
    }
    let mut rendered = String::new();
    pulldown_cmark::html::push_html(&mut rendered, pulldown_cmark::Parser::new(CHANGELOG));
    let mut page = Html::without_heading("Changelog");
    page.raw(&rendered);
    html(page.finish())
}
