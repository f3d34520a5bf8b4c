//! How the edge serves a page: its reader, the form that was sent to it, and the calls of the API that it makes for its reader.
//!
//! **Invariant:** a form acts only if it comes from a page of this site that was made for the same session.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use futures_util::{StreamExt, future::BoxFuture};
use http::{HeaderMap, HeaderName, HeaderValue, Method, header};
use poem::{Body, Request, Response};
use serde_json::Value;

use tenantd_base::access::Principal;

use super::{Arrival, Edge, party};
use crate::{
    FORM, body,
    context::{Client, header as header_text},
    credentials::{self, check_same_origin},
    failures, media,
    need::Need,
    operations::Route,
    pages::{self, Api, ApiAnswer, Call, FORM_TOKEN, FirstBytes, PageVisit, Readers},
    problem::{Code, Problem},
    rate::RateClass,
    visit::RequestSummary,
};

/// The most bytes of an answer that a page reads.
const MAX_ANSWER: usize = 8 << 20;

impl Edge {
    pub(super) async fn page(
        &self,
        mut request: Request,
        arrival: Arrival<'_>,
        summary: &mut RequestSummary,
    ) -> Result<Response, Problem> {
        let (method, uri, headers) = (request.method().clone(), request.uri().clone(), request.headers().clone());
        let (path, base_url) = (uri.path(), arrival.base_url.to_string());
        let sends_form = method == Method::POST && self.parts.pages.takes_forms(path);
        let admitted = self.parts.pages.check_method(path, &method);
        let reader = match admitted.and_then(|()| self.reader(&headers, self.parts.pages.readers(path), !sends_form, arrival)) {
            Ok(reader) => reader,
            Err(problem) => {
                summary.rate_limit = self.parts.rates.take(RateClass::Public, None, arrival.client)?;
                let leads_on = matches!(method, Method::GET | Method::HEAD);
                if leads_on && problem.code == Code::SecondFactorMissing {
                    return Ok(pages::see_other(pages::SECOND_FACTOR));
                }
                // The pages of staff lead a contact to theirs.
                if leads_on && problem.code == Code::PortalOnly {
                    return Ok(pages::see_other(pages::PORTAL));
                }
                return if leads_on && sign_in_helps(&headers, problem.code) { Ok(pages::to_sign_in(&uri)) } else { Err(problem) };
            }
        };
        summary.principal.clone_from(&reader);
        if !pages::is_probe(path) {
            let class = if reader.is_some() { RateClass::Read } else { RateClass::Public };
            summary.rate_limit = self.parts.rates.take(class, reader.as_deref(), arrival.client)?;
        }
        let session = credentials::session_token(&headers, arrival.peer.secure);
        let form_token = session.as_ref().map(credentials::form_token).unwrap_or_default();
        let form = if sends_form {
            check_same_origin(&headers, &base_url)?;
            let form = self.form(&mut request, reader.as_deref(), arrival).await?;
            let given = form.iter().find(|(name, _)| name == FORM_TOKEN).map_or("", |(_, value)| value.as_str());
            if reader.is_some() && (form_token.is_empty() || !credentials::is_form_token(given, &form_token)) {
                return Err(Problem::plain(Code::CsrfFailed));
            }
            Some(form)
        } else {
            None
        };
        let visit = PageVisit {
            path,
            query: uri.query().unwrap_or_default(),
            headers: &headers,
            reader: reader.as_deref(),
            as_json: pages::wants_json(&headers),
            form: form.as_deref(),
            form_token: &form_token,
            now: reader.as_ref().map_or(arrival.clocks.installation(), |reader| arrival.clocks.of(reader.tenant_id)),
            base_url: &base_url,
            secure: arrival.peer.secure,
            api: &Calls { edge: self, headers: &headers, arrival },
        };
        self.parts.pages.answer(&visit, arrival.client).await
    }

    fn reader(
        &self,
        headers: &HeaderMap,
        readers: Readers,
        only_reads: bool,
        arrival: Arrival<'_>,
    ) -> Result<Option<Arc<Principal>>, Problem> {
        let find = || match arrival.client {
            Client::Local => self.parts.local_operator.clone().ok_or_else(credentials::missing),
            Client::Address(_) => self.authenticate(headers, only_reads, arrival),
        };
        match readers {
            Readers::Everyone => Ok(None),
            Readers::EveryoneAndSignedIn => Ok(find().ok()),
            Readers::EveryoneAndOperators => Ok(find().ok().filter(|reader| Need::Operator.check(reader).is_ok())),
            Readers::Only(need) => {
                let reader = find()?;
                if reader.lacks_factor() {
                    return Err(Problem::plain(Code::SecondFactorMissing));
                }
                need.check(&reader)?;
                Ok(Some(reader))
            }
        }
    }

    async fn form(
        &self,
        request: &mut Request,
        reader: Option<&Principal>,
        arrival: Arrival<'_>,
    ) -> Result<Vec<(String, String)>, Problem> {
        let headers = request.headers().clone();
        let media_type = header_text(&headers, header::CONTENT_TYPE).unwrap_or_default();
        if !media_type.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case(FORM) {
            return Err(Problem::new(Code::UnsupportedMediaType, format!("Send the form as `Content-Type: {FORM}`.")));
        }
        media::check_encoding(&headers)?;
        let limits = &arrival.settings.limits;
        let max_bytes = if reader.is_some() { limits.body_bytes } else { limits.public_body_bytes };
        let budget = (&self.budget, party(reader, arrival.client));
        let body = body::read(&headers, request.take_body(), max_bytes, limits, budget).await?;
        Ok(form_urlencoded::parse(&body.bytes).into_owned().collect())
    }

    /// Answers a call that a page makes. It takes the same path as a request from outside.
    async fn internal_call(&self, request: Request, arrival: Arrival<'_>) -> Response {
        let (path, mut summary) = (request.uri().path().to_owned(), RequestSummary::default());
        let operation = match self.parts.operations.find(request.method(), &path) {
            Route::Operation(operation) => Some(operation.clone()),
            Route::OtherMethods(_) | Route::Unknown => None,
        };
        let outcome = match operation {
            Some(operation) => self.operate(request, operation, Arrival { from_page: true, ..arrival }, &mut summary).await,
            None => Err(Problem::internal(format!("a page called {path}, which is no operation")).into()),
        };
        match outcome {
            Ok(response) => response,
            Err(error) if error.is_from_response() => error.into_response(),
            Err(error) => {
                let problem = failures::problem(error, summary.operation.as_deref());
                failures::response(&problem, arrival.base_url, &path, arrival.request_id)
            }
        }
    }
}

/// Whether the visitor can get on by signing in. A program that sends a key is not sent to a page.
fn sign_in_helps(headers: &HeaderMap, code: Code) -> bool {
    let has_key = headers.contains_key(header::AUTHORIZATION) || headers.contains_key("x-api-key");
    !has_key && matches!(code, Code::MissingCredentials | Code::InvalidCredentials | Code::SessionExpired)
}

/// The API, as the visitor of a page may use it.
struct Calls<'a> {
    edge: &'a Edge,
    headers: &'a HeaderMap,
    arrival: Arrival<'a>,
}

impl Calls<'_> {
    fn request(&self, call: Call) -> Option<Request> {
        let mut builder = Request::builder().method(call.method).uri(call.target.parse().ok()?);
        let own = HeaderName::from_static("x-api-key");
        for name in [header::COOKIE, header::AUTHORIZATION, own, header::HOST, header::CACHE_CONTROL, header::USER_AGENT] {
            for value in self.headers.get_all(&name) {
                builder = builder.header(&name, value);
            }
        }
        builder = builder.header("sec-fetch-site", "same-origin").header(header::ACCEPT, "*/*");
        let headers =
            [("if-match", call.if_match), ("if-none-match", call.if_none_match), ("idempotency-key", call.idempotency_key)];
        for (name, value) in headers {
            if let Some(value) = value {
                builder = builder.header(name, HeaderValue::try_from(value).ok()?);
            }
        }
        Some(match call.body {
            Some(body) => builder.header(header::CONTENT_TYPE, "application/json").body(body.to_string()),
            None => builder.finish(),
        })
    }
}

impl Calls<'_> {
    async fn answer(&self, call: Call) -> Response {
        let target = call.target.clone();
        if let Some(request) = self.request(call) {
            self.edge.internal_call(request, self.arrival).await
        } else {
            let problem = Problem::new(Code::MalformedRequest, format!("{target} is not an address, or a header is not valid."));
            failures::response(&problem, self.arrival.base_url, &target, self.arrival.request_id)
        }
    }
}

impl Api for Calls<'_> {
    fn call(&self, call: Call) -> BoxFuture<'_, ApiAnswer> {
        Box::pin(async move {
            let (parts, body) = self.answer(call).await.into_parts();
            ApiAnswer { status: parts.status, headers: parts.headers, body: value(body).await }
        })
    }

    fn first_bytes(&self, call: Call, most: usize) -> BoxFuture<'_, FirstBytes> {
        Box::pin(async move {
            let (parts, body) = self.answer(call).await.into_parts();
            let (body, is_cut) = first_bytes(body, most).await;
            FirstBytes { status: parts.status, headers: parts.headers, body, is_cut }
        })
    }
}

/// At most this many bytes of a body, and whether it goes on or broke off.
async fn first_bytes(body: Body, most: usize) -> (Bytes, bool) {
    let (mut found, mut pieces) = (BytesMut::new(), std::pin::pin!(body.into_bytes_stream()));
    while let Some(piece) = pieces.next().await {
        let Ok(piece) = piece else { return (found.freeze(), true) };
        let room = most - found.len();
        found.extend_from_slice(piece.get(..room).unwrap_or(&piece));
        if piece.len() > room {
            return (found.freeze(), true);
        }
    }
    (found.freeze(), false)
}

/// The JSON of an answer; `null` if it has none.
async fn value(body: Body) -> Value {
    let bytes = body.into_bytes_limit(MAX_ANSWER).await.unwrap_or_default();
    serde_json::from_slice(&bytes).unwrap_or(Value::Null)
}
