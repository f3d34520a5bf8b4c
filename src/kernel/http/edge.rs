//! The path of a request through the server, before and after its handler. The edge finds the operation, checks the caller, their
//! rate and the input, and calls the handler within a time limit. It turns every failure into a problem, and reports the request to
//! logs and metrics.
//!
//! The order matters. The credential is checked before the input, so that an error reveals nothing that the caller may not see. The
//! body is read only for a caller who may send it.

mod page;
mod settings;

use std::{
    net::{IpAddr, Ipv4Addr},
    panic::AssertUnwindSafe,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use arc_swap::ArcSwap;
use futures_util::FutureExt;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Version, header};
use poem::{Request, Response, endpoint::BoxEndpoint};
use serde_json::Value;

use tenantd_base::{
    access::{Principal, TenantKind},
    clocks::{Clocks, Reading},
    entropy,
    id::RequestId,
    programs::{Full, LaneError, Party},
    secrets::digest,
    telemetry::Usage,
};
use tenantd_store::{Store, rehearse, within_reserve};

pub use settings::EdgeSettings;

use super::{
    acts,
    body::{self, BodyBudget},
    context::{BaseUrl, Client, RequestContext, header as header_text},
    cors,
    credentials::{self, Authenticator},
    failures, host,
    idempotency::Idempotency,
    incoming::{Form, Incoming},
    json, media,
    operations::{Audience, BodyMedia, Measures, Operation, Operations, Route},
    outgoing::StreamHandle,
    pages::{self, Pages},
    plain,
    problem::{Code, FieldError, Place, Problem},
    protocol::Protocols,
    rate::{RateClass, RateLimits},
    recent::{self, Recency},
    recheck::{self, Recheck},
    schema::Refusal,
    visit::{RequestSummary, Visit},
};

/// A request that takes longer than this may outlive the rights of its caller.
const RECHECK_AFTER: Duration = Duration::from_millis(50);

/// Bodies above this size are parsed on the threads of their tenant, in bytes.
const LARGE_BODY: usize = 64 << 10;

/// What the operator can do about a writer that hangs.
const LOCAL_RECOVERY: &str = " The log names the code that holds it. Stop the server. Then repeat this command with --offline, or start \
                             `tenantd serve --safe-mode` and repeat it.";

/// What a listener knows about the connection of a request.
#[derive(Clone, Copy, Debug)]
pub struct Peer {
    pub client: Client,
    pub secure: bool,
    /// The port for HTTPS, on a listener that only redirects there.
    pub https_port: Option<u16>,
}

/// The parts of the edge.
#[allow(missing_debug_implementations, reason = "it is taken apart at once; poem endpoints do not print")]
pub struct EdgeParts {
    pub api: BoxEndpoint<'static, Response>,
    /// Protocols next to the API, whose operations are in `operations` too.
    pub protocols: Protocols,
    pub operations: Operations,
    pub pages: Pages,
    pub authenticator: Arc<dyn Authenticator>,
    /// The principal for requests over the admin socket; `None` where there is none.
    pub local_operator: Option<Arc<Principal>>,
    pub rates: Arc<RateLimits>,
    /// Counts the requests of tenants.
    pub usage: Arc<Usage>,
    pub idempotency: Arc<Idempotency>,
    pub store: Store,
    pub clocks: Clocks,
    pub settings: EdgeSettings,
}

pub struct Edge {
    parts: EdgeParts,
    settings: ArcSwap<EdgeSettings>,
    budget: BodyBudget,
    /// Metrics of requests that belong to no operation.
    measures: Arc<Measures>,
}

impl std::fmt::Debug for Edge {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Edge")
    }
}

impl Edge {
    pub fn new(parts: EdgeParts) -> Self {
        let settings = ArcSwap::from_pointee(parts.settings.clone());
        let budget = BodyBudget::new(&parts.settings.limits);
        Self { parts, settings, budget, measures: Arc::default() }
    }

    pub fn reload(&self, settings: EdgeSettings) {
        self.settings.store(Arc::new(settings));
    }

    pub fn settings(&self) -> Arc<EdgeSettings> {
        self.settings.load_full()
    }

    /// Answers a request. It never fails: an error is an answer too.
    #[allow(clippy::disallowed_methods, reason = "request durations are measured in monotonic time")]
    pub async fn answer(&self, request: Request, peer: Peer) -> Response {
        let started = Instant::now();
        let clocks = self.parts.clocks.read();
        let request_id = RequestId::from_random(clocks.installation(), entropy::quick_bytes());
        let settings = self.settings.load_full();
        let client = credentials::client_address(peer.client, request.headers(), &settings.trusted_proxies);
        let host = host::find(&request);
        let base_url = BaseUrl::new(host.as_ref().ok().cloned().flatten(), peer.secure, settings.public_url.clone());
        let (method, uri, version) = (request.method().clone(), request.uri().clone(), request.version());
        let reads_html = header_text(request.headers(), header::ACCEPT).is_some_and(|accept| accept.contains("text/html"));
        let page_origin = cors::allowed(&request, &settings.cors_origins);
        let mut summary = RequestSummary::default();
        let arrival =
            Arrival { request_id, client, peer, clocks: &clocks, base_url: &base_url, settings: &settings, from_page: false };
        let outcome = match host {
            Ok(_) => AssertUnwindSafe(self.dispatch(request, arrival, &mut summary)).catch_unwind().await,
            Err(problem) => Ok(Err(problem.into())),
        };
        let outcome = outcome.unwrap_or_else(|cause| {
            let text = tenantd_base::telemetry::panic_text(cause.as_ref());
            Err(Problem::internal(format!("the request panicked: {text}")).into())
        });
        let mut response = match outcome {
            Ok(response) => response,
            Err(error) if error.is_from_response() => error.into_response(),
            Err(error) => {
                let problem = failures::problem(error, summary.operation.as_deref());
                // The redirecting listener shows no page, because it has no style sheet to go with it.
                let has_pages = peer.https_port.is_none();
                if let Some(protocol) = self.parts.protocols.serving(uri.path()) {
                    failures::log(&problem, uri.path(), request_id);
                    protocol.refusal(&problem)
                } else if reads_html && has_pages && is_for_people(uri.path(), summary.operation.as_deref()) {
                    failures::log(&problem, uri.path(), request_id);
                    self.parts.pages.problem(&problem, request_id)
                } else {
                    failures::response(&problem, &base_url, uri.path(), request_id)
                }
            }
        };
        finish(&mut response, request_id, peer, &summary);
        cors::finish(response.headers_mut(), page_origin, &settings.cors_origins);
        let is_free = client == Client::Local || pages::is_probe(uri.path());
        if !is_free && (summary.principal.is_none() || response.status().is_client_error()) {
            let waited = self.parts.store.shares().note_refusal(party(summary.principal.as_deref(), client)).await;
            if waited.is_err() && version <= Version::HTTP_11 {
                response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
            }
        }
        let (others, usage) = (self.measures.clone(), self.parts.usage.clone());
        let (status, access_log) = (response.status(), settings.access_log);
        let visit = Visit { request_id, client, method, uri, started, summary, status, access_log, others, usage };
        if let Some(handle) = response.extensions().get::<StreamHandle>() {
            handle.at_end(move |_| drop(visit));
        }
        response
    }

    async fn dispatch(&self, request: Request, arrival: Arrival<'_>, summary: &mut RequestSummary) -> poem::Result<Response> {
        if let Some(port) = arrival.peer.https_port {
            return plain::answer(&request, port).map_err(Into::into);
        }
        let operation = match self.parts.operations.find(request.method(), request.uri().path()) {
            Route::Operation(operation) => operation.clone(),
            Route::OtherMethods(methods) => {
                let asked = cors::preflight(&request, &methods, &arrival.settings.cors_origins);
                return asked.ok_or_else(|| failures::other_method(&methods).into());
            }
            Route::Unknown => return self.page(request, arrival, summary).await.map_err(Into::into),
        };
        self.operate(request, operation, arrival, summary).await
    }

    async fn operate(
        &self,
        request: Request,
        operation: Arc<Operation>,
        arrival: Arrival<'_>,
        summary: &mut RequestSummary,
    ) -> poem::Result<Response> {
        summary.operation = Some(operation.clone());
        let principal = self.admit(&request, &operation, arrival, summary)?;
        let Some(caller) = principal.clone().filter(|_| arrival.client != Client::Local) else {
            return Box::pin(self.call(request, operation, principal, arrival)).await;
        };
        let (shares, tenant) = (self.parts.store.shares(), caller.tenant_id);
        let turn = shares.turn_of_request(tenant).await.map_err(|Full| failures::lane(LaneError::Busy))?;
        if turn.was_delayed() {
            self.recheck(request.headers().clone(), caller, arrival).check()?;
        }
        shares.work_for(tenant, Box::pin(self.call(request, operation, principal, arrival))).await
    }

    /// Checks the input and calls the handler.
    async fn call(
        &self,
        mut request: Request,
        operation: Arc<Operation>,
        principal: Option<Arc<Principal>>,
        arrival: Arrival<'_>,
    ) -> poem::Result<Response> {
        // A stream of records needs disk space even if the operator of this host sends it.
        if operation.streams() || !(operation.while_full || arrival.client == Client::Local) {
            self.parts.store.ensure_room().map_err(Problem::from)?;
        }
        if operation.method != Method::GET {
            self.parts.store.ensure_reserve().map_err(Problem::from)?;
            self.ensure_writer(arrival.client)?;
        }
        media::check_accept(&request, &operation)?;
        if operation.body.is_some() || operation.streams() {
            media::check_encoding(request.headers())?;
        }
        let query = operation.query.check(&query_pairs(&request)).map_err(failures::bad_query)?;
        let wait = query.get("wait_seconds").and_then(Value::as_u64).filter(|_| operation.waits).unwrap_or(0);
        let (begin, changes) = (tokio::time::Instant::now(), operation.method != Method::GET);
        let end = begin + Duration::from_secs(arrival.settings.limits.request_seconds + wait);
        // A late body is the fault of the client. It has its own limit, with its own error.
        let (body, refusal, body_digest, _budget) = self.body(&mut request, &operation, principal.as_deref(), arrival).await?;
        let caller = principal.clone().filter(|_| arrival.client != Client::Local);
        let recheck = || caller.clone().map(|held| self.recheck(request.headers().clone(), held, arrival));
        if begin.elapsed() > RECHECK_AFTER {
            recheck().map_or(Ok(()), |recheck| recheck.check())?;
        }
        let watch = if operation.streams() { recheck() } else { None };
        let recheck = if changes && !operation.may_stream_out() { None } else { recheck() };
        if operation.streams() {
            incoming(&mut request, watch, arrival)?.attach(&mut request);
        }
        let has_session = principal.as_ref().is_some_and(|caller| caller.has_session());
        let foreign = has_session && credentials::check_same_origin(request.headers(), &arrival.base_url.to_string()).is_err();
        let now = principal.as_ref().map_or(arrival.clocks.installation(), |caller| arrival.clocks.of(caller.tenant_id));
        let context = RequestContext {
            request_id: arrival.request_id,
            operation_id: operation.id.clone(),
            principal,
            client: arrival.client,
            secure: arrival.peer.secure,
            clocks: arrival.clocks.clone(),
            recent_within: arrival.settings.recent_within,
            now,
            method: request.method().clone(),
            uri: request.uri().clone(),
            query,
            no_cache: header_text(request.headers(), header::CACHE_CONTROL).is_some_and(|value| value.contains("no-cache")),
            base_url: arrival.base_url.clone(),
            foreign,
            body: Mutex::new(body),
            body_digest,
        };
        let work = async {
            acts::operator_acts(&self.parts.store, &context).await?;
            request.extensions_mut().insert(Arc::new(context));
            request.extensions_mut().insert(self.parts.idempotency.clone());
            tokio::time::timeout_at(end, self.parts.protocols.call(&self.parts.api, request))
                .await
                .map_err(|_| failures::late(changes))?
        };
        // A request that was accepted may finish even if the disk has filled up since.
        let work = within_reserve(work);
        if let Some(refusal) = refusal {
            return Err(refusal.join(rehearse(work).await).into());
        }
        let response = work.await?;
        if let Some(recheck) = recheck {
            if !changes && (wait > 0 || begin.elapsed() > RECHECK_AFTER) {
                recheck.check()?;
            }
            if let Some(handle) = response.extensions().get::<StreamHandle>() {
                handle.watch(move || recheck.check().is_ok());
            }
        }
        Ok(response)
    }

    fn recheck(&self, headers: HeaderMap, held: Arc<Principal>, arrival: Arrival<'_>) -> Recheck {
        let (authenticator, clocks) = (self.parts.authenticator.clone(), self.parts.clocks.clone());
        Recheck { authenticator, clocks, headers, client: arrival.client, secure: arrival.peer.secure, held }
    }

    /// Refuses a change immediately while the writer is stalled. If it were queued, it would wait and its outcome would be unknown.
    fn ensure_writer(&self, client: Client) -> Result<(), Problem> {
        self.parts.store.ensure_writer().map_err(|error| {
            let mut problem = Problem::from(error);
            if client == Client::Local {
                problem.detail.push_str(LOCAL_RECOVERY);
            }
            problem
        })
    }

    /// Checks who the caller is, whether they may make the request, and whether they make too many.
    fn admit(
        &self,
        request: &Request,
        operation: &Operation,
        arrival: Arrival<'_>,
        summary: &mut RequestSummary,
    ) -> Result<Option<Arc<Principal>>, Problem> {
        let principal = match operation.need {
            None => None,
            Some(_) if arrival.client == Client::Local => self.parts.local_operator.clone(),
            Some(_) => match self.authenticate(request.headers(), operation.method == Method::GET, arrival) {
                Ok(principal) => Some(principal),
                Err(problem) => {
                    // Without a valid credential the limit of the address applies, so that guessing is limited.
                    summary.rate_limit = self.parts.rates.take(RateClass::Public, None, arrival.client)?;
                    return Err(problem);
                }
            },
        };
        summary.principal.clone_from(&principal);
        // A page counts as a read, with all records that it reads. Searches and reports are counted where they are made.
        if !(arrival.from_page && operation.class == RateClass::Read) {
            summary.rate_limit = self.parts.rates.take(operation.class, principal.as_deref(), arrival.client)?;
        }
        if !operation.marks.without_factor && principal.as_ref().is_some_and(|caller| caller.lacks_factor()) {
            return Err(Problem::plain(Code::SecondFactorMissing));
        }
        match (operation.need, &principal) {
            (Some(need), Some(principal)) => need.check(principal)?,
            (Some(_), None) => return Err(credentials::missing()),
            (None, _) => {}
        }
        if let Some(principal) = principal.as_deref().filter(|_| operation.recency == Recency::Always) {
            recent::check(principal, arrival.clocks.installation(), arrival.settings.recent_within)?;
        }
        let changes = matches!(operation.class, RateClass::Write | RateClass::Provision) && !operation.signs_out();
        if let Some(principal) = principal.as_ref().filter(|who| changes && who.tenant_kind == TenantKind::Evaluation) {
            self.parts.authenticator.check_room(principal.tenant_id)?;
        }
        Ok(principal)
    }

    fn authenticate(&self, headers: &HeaderMap, only_reads: bool, arrival: Arrival<'_>) -> Result<Arc<Principal>, Problem> {
        let from = (arrival.client, arrival.peer.secure);
        let principal = recheck::authenticate(self.parts.authenticator.as_ref(), headers, from, arrival.clocks)?;
        if !only_reads && principal.has_session() {
            credentials::check_same_origin(headers, &arrival.base_url.to_string())?;
        }
        Ok(principal)
    }

    async fn body(
        &self,
        request: &mut Request,
        operation: &Arc<Operation>,
        principal: Option<&Principal>,
        arrival: Arrival<'_>,
    ) -> Result<(Option<Value>, Option<Refusal>, Option<[u8; 32]>, Option<body::BufferedBody>), Problem> {
        let limits = &arrival.settings.limits;
        if operation.body.is_none() {
            if !operation.streams() && operation.method != Method::GET && body::is_announced(request.headers()) {
                let target = request.uri().path().rsplit('/').next().filter(|_| operation.path.ends_with('}')).map(str::to_owned);
                let budget = (&self.budget, party(principal, arrival.client));
                let headers = request.headers().clone();
                body::read_nothing(&headers, request.take_body(), target.as_deref(), limits, budget).await?;
            }
            return Ok((None, None, None, None));
        }
        let max_bytes = if principal.is_some() { limits.body_bytes } else { limits.public_body_bytes };
        let content_type = header_text(request.headers(), header::CONTENT_TYPE).unwrap_or_default().to_owned();
        let budget = (&self.budget, party(principal, arrival.client));
        let buffered = body::read(&request.headers().clone(), request.take_body(), max_bytes, limits, budget).await?;
        if buffered.bytes.is_empty() && !operation.body_required {
            return Ok((None, None, None, None));
        }
        let (operation, bytes, depth) = (operation.clone(), buffered.bytes.clone(), limits.json_depth);
        let read = move || body_value(&operation, &content_type, &bytes, depth);
        let (value, refusal) = match principal.filter(|_| buffered.bytes.len() > LARGE_BODY) {
            Some(caller) => self.parts.store.lanes().run(caller.tenant_id, read).await.map_err(failures::lane)??,
            None => read()?,
        };
        let keyed = request.headers().contains_key("idempotency-key");
        let body_digest = keyed.then(|| digest(&buffered.bytes));
        Ok((Some(value), refusal, body_digest, Some(buffered)))
    }
}

/// What is known about a request before it is examined.
#[derive(Clone, Copy)]
struct Arrival<'a> {
    request_id: RequestId,
    /// The client behind the peer, if the peer is a proxy.
    client: Client,
    peer: Peer,
    clocks: &'a Reading,
    base_url: &'a BaseUrl,
    settings: &'a EdgeSettings,
    /// A page calls an operation for its reader.
    from_page: bool,
}

/// The content security policy of answers that are not pages.
const NO_CONTENT: &str = "default-src 'none'; base-uri 'none'; frame-ancestors 'none'";

fn finish(response: &mut Response, request_id: RequestId, peer: Peer, summary: &RequestSummary) {
    const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
    /// Sent only with answers to evaluation tenants.
    const TENANT_KIND: HeaderName = HeaderName::from_static("x-tenant-kind");
    let headers = response.headers_mut();
    if let Ok(value) = HeaderValue::try_from(request_id.to_string()) {
        headers.insert(REQUEST_ID, value);
    }
    if let Some(rate_limit) = &summary.rate_limit {
        rate_limit.write(headers);
    }
    if summary.principal.as_ref().is_some_and(|principal| principal.tenant_kind == TenantKind::Evaluation) {
        headers.insert(TENANT_KIND, HeaderValue::from_static(TenantKind::Evaluation.name()));
    }
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    // An answer that a browser opens directly must not act as a page, and must not send its address to the next site.
    headers.entry(header::CONTENT_SECURITY_POLICY).or_insert(HeaderValue::from_static(NO_CONTENT));
    headers.entry(header::REFERRER_POLICY).or_insert(HeaderValue::from_static("no-referrer"));
    // The next person at the same browser must not find in its cache what a session has read. Clients with a key may keep answers
    // and compare versions.
    if summary.principal.as_ref().is_some_and(|caller| caller.has_session()) {
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    }
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-cache"));
    if peer.secure {
        headers.insert(header::STRICT_TRANSPORT_SECURITY, HeaderValue::from_static("max-age=31536000; includeSubDomains"));
    }
}

/// The value of the body, if the operation accepts it; or what remains of it for a dry run.
fn body_value(operation: &Operation, content_type: &str, bytes: &[u8], depth: usize) -> Result<(Value, Option<Refusal>), Problem> {
    let media_type = content_type.split(';').next().unwrap_or_default().trim();
    let mut value = match operation.body_media {
        BodyMedia::Json if media::is_json(media_type, operation) => json::parse(bytes, depth)
            .map_err(|error| Problem::new(Code::MalformedJson, format!("The body is not usable JSON: {error}.")))?,
        BodyMedia::Form => media::form(media_type, bytes)?,
        BodyMedia::Json | BodyMedia::Lines => return Err(Problem::plain(Code::UnsupportedMediaType)),
    };
    let Some(schema) = &operation.body else { return Ok((value, None)) };
    match schema.admit(&mut value) {
        Ok(()) => Ok((value, None)),
        Err(found) => match Some(value).filter(|_| schema.is_lenient).and_then(|value| schema.remainder(value, &found)) {
            Some((rest, refusal)) => Ok((rest, Some(refusal))),
            None => Err(found.into()),
        },
    }
}

/// Whether a person who opens the path in a browser expects a page, also in place of an error.
fn is_for_people(path: &str, operation: Option<&Operation>) -> bool {
    let is_page = || !path.starts_with("/api/") && !path.starts_with("/internal/") && !pages::is_probe(path);
    operation.map_or_else(is_page, |operation| operation.audience == Audience::People)
}

/// The party that a request is charged to.
fn party(principal: Option<&Principal>, client: Client) -> Party {
    let address = || Party::at(client.address().unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST)));
    principal.map_or_else(address, |principal| principal.tenant_id.into())
}

fn query_pairs(request: &Request) -> Vec<(String, String)> {
    let query = request.uri().query().unwrap_or_default();
    form_urlencoded::parse(query.as_bytes()).into_owned().collect()
}

fn incoming(request: &mut Request, caller: Option<Recheck>, arrival: Arrival<'_>) -> Result<Incoming, Problem> {
    let form = Form::of(header_text(request.headers(), header::CONTENT_TYPE))?;
    if request.headers().contains_key("idempotency-key") {
        let place = Place::Header("Idempotency-Key".to_owned());
        let message = "a streamed request does not accept a key; repeat it without one, because existing records stay unchanged";
        return Err(Problem::invalid(vec![FieldError::new(place, "not_allowed", message)]));
    }
    Ok(Incoming::new(request.take_body(), form, caller, &arrival.settings.limits))
}
