//! `tenantd listen`: prints the events of a tenant as a webhook receiver gets them. It creates a webhook endpoint for its own
//! listener, verifies every signature, prints every delivery, can forward it, and deletes the endpoint on exit.

use std::{
    collections::{BTreeMap, HashMap},
    convert::Infallible,
    fmt,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use bytes::Bytes;
use clap::Args;
use http::{HeaderMap, Request, Response, StatusCode, Uri, header};
use http_body_util::{BodyExt, Full, Limited};
use hyper::{body::Incoming, service::service_fn};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};

use tenantd_base::secrets::Secret;
use tenantd_webhooks::{SIGNATURE_HEADERS, is_signed};

use super::{Common, Failure, client::Client, output, serve::Signals};

/// The maximum size of a delivery.
const MAX_BODY: usize = 1 << 20;
/// Shorter than the timeout of a delivery, which is 20 seconds.
const FORWARD_TIMEOUT: Duration = Duration::from_secs(15);
/// The maximum number of remembered deliveries. They distinguish retries from first attempts.
const MAX_SEEN: usize = 10_000;

#[derive(Debug, Args)]
pub(super) struct Listen {
    /// The id or slug of the tenant. Only an evaluation tenant can deliver to this host, unless `egress` allows its address.
    #[arg(long, default_value = "demo")]
    tenant: String,
    /// The kinds of events, such as ticket.created, ticket.* or *. Separate several with commas, or repeat this flag.
    #[arg(long = "event", visible_alias = "events", value_name = "KIND", value_delimiter = ',', default_value = "*")]
    events: Vec<String>,
    /// The address to listen on for deliveries. Port 0 picks a free port.
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:0")]
    bind: String,
    /// Forward every delivery to this http URL, return its response to the server, and print the status and the duration.
    #[arg(long, value_name = "URL")]
    forward: Option<Uri>,
    /// Exit after this number of deliveries. Default: run until Ctrl-C.
    #[arg(long, value_name = "NUMBER")]
    count: Option<u64>,
}

struct Printer {
    secret: Secret,
    json: bool,
    forward: Option<Uri>,
    /// The number of deliveries of each `webhook-id`.
    seen: Mutex<HashMap<String, u32>>,
    printed: tokio::sync::mpsc::Sender<()>,
}

impl Listen {
    pub(super) async fn run(self, common: &Common) -> Result<(), Failure> {
        if let Some(url) = &self.forward
            && (url.scheme_str() != Some("http") || url.authority().is_none())
        {
            return Err(Failure::Failed(format!("--forward {url}: must start with http:// and have a host")));
        }
        let fail = |error: std::io::Error| Failure::Failed(format!("cannot listen on {}: {error}", self.bind));
        let listener = TcpListener::bind(&self.bind).await.map_err(fail)?;
        let address = listener.local_addr().map_err(fail)?;
        let signals = Signals::take()?;
        let client = Client::new(common)?;
        let path = format!("/internal/admin/tenants/{}/webhooks", client.tenant_id(&self.tenant).await?);
        let body = json!({"name": "tenantd listen", "url": format!("http://{address}/"), "events": self.events, "retry": "fast"});
        let created = client.post(&path, Some(&body)).await?;
        let secret = Secret::new(output::text(&created, "/secret"));
        let id = output::text(&created, "/id");
        let (printed, mut prints) = tokio::sync::mpsc::channel(64);
        let url = format!("http://{address}/");
        if common.json {
            output::json(&json!({"id": id, "url": url, "events": self.events}))?;
        } else {
            output::line(&format!("{id} receives {} at {url} until Ctrl-C", self.events.join(", ")))?;
        }
        let printer = Arc::new(Printer { secret, json: common.json, forward: self.forward, seen: Mutex::default(), printed });
        let accepting = tokio::spawn(accept(listener, printer));
        let enough = async {
            let mut left = self.count.unwrap_or(u64::MAX);
            while left > 0 && prints.recv().await.is_some() {
                left -= 1;
            }
        };
        tokio::select! {
            () = enough => {}
            () = signals.stop() => {}
        }
        let removed = client.delete(&format!("{path}/{id}")).await;
        accepting.abort();
        removed.map(drop)
    }
}

async fn accept(listener: TcpListener, printer: Arc<Printer>) {
    while let Ok((stream, _)) = listener.accept().await {
        let printer = printer.clone();
        tokio::spawn(async move {
            let service = service_fn(move |request| {
                let printer = printer.clone();
                async move { Ok::<_, Infallible>(printer.answer(request).await) }
            });
            // Connection errors need no handling here, because the server retries the delivery.
            drop(hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service).await);
        });
    }
}

impl Printer {
    async fn answer(&self, request: Request<Incoming>) -> Response<Full<Bytes>> {
        let (head, body) = request.into_parts();
        let plain = |status: StatusCode| {
            let mut response = Response::new(Full::default());
            *response.status_mut() = status;
            response
        };
        let Ok(body) = Limited::new(body, MAX_BODY).collect().await else { return plain(StatusCode::PAYLOAD_TOO_LARGE) };
        let body = body.to_bytes();
        let verified = is_signed(&self.secret, &head.headers, &body);
        let attempt = self.count(&head.headers);
        let answered = self.show(&head.headers, body, verified, attempt).await;
        let response = plain(answered.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR));
        // The receiver is closed when the command is about to exit.
        if self.printed.try_send(()).is_err() {
            tracing::debug!("received a delivery after the last requested one");
        }
        response
    }

    /// The number of this attempt, from 1.
    fn count(&self, headers: &HeaderMap) -> u32 {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if seen.len() >= MAX_SEEN {
            seen.clear();
        }
        let times = seen.entry(header_text(headers, "webhook-id").to_owned()).or_default();
        *times += 1;
        *times
    }

    /// Prints a delivery, forwards it if requested, and prints the result. Returns the status of the response.
    async fn show(&self, headers: &HeaderMap, body: Bytes, verified: bool, attempt: u32) -> Result<StatusCode, Failure> {
        let event: Value = serde_json::from_slice(&body).unwrap_or_else(|_| json!(String::from_utf8_lossy(&body)));
        if !self.json {
            let verdict = if verified { "signature verified" } else { "SIGNATURE WRONG" };
            let retry = if attempt > 1 { format!("  RETRY (attempt {attempt})") } else { String::new() };
            let pretty = serde_json::to_string_pretty(&event).unwrap_or_default();
            let text = |pointer: &str| output::text(&event, pointer);
            let (kind, seq, at) = (text("/type"), text("/seq"), text("/timestamp"));
            output::line(&format!("\n{at}  {kind}  seq {seq}  {verdict}{retry}\n{pretty}"))?;
        }
        let forwarded = match &self.forward {
            Some(url) if verified => Some(Forwarded::send(url, headers, body).await),
            _ => None,
        };
        if self.json {
            let signature: BTreeMap<&str, &str> =
                SIGNATURE_HEADERS.iter().map(|name| (*name, header_text(headers, name))).collect();
            let mut shown = json!({"verified": verified, "attempt": attempt, "headers": signature, "event": event});
            if let (Some(shown), Some(forwarded)) = (shown.as_object_mut(), &forwarded) {
                shown.insert("forward".to_owned(), forwarded.to_json());
            }
            output::json(&shown)?;
        } else if let Some(forwarded) = &forwarded {
            output::line(&forwarded.to_string())?;
        }
        Ok(match forwarded {
            _ if !verified => StatusCode::UNAUTHORIZED,
            None => StatusCode::NO_CONTENT,
            Some(forwarded) => forwarded.outcome.unwrap_or(StatusCode::BAD_GATEWAY),
        })
    }
}

fn header_text<'a>(headers: &'a HeaderMap, name: &str) -> &'a str {
    headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
}

/// The result of forwarding a delivery.
struct Forwarded {
    url: Uri,
    /// The status of the response, or the error.
    outcome: Result<StatusCode, String>,
    took: Duration,
}

impl Forwarded {
    #[allow(clippy::disallowed_methods, reason = "the duration is only printed")]
    async fn send(url: &Uri, headers: &HeaderMap, body: Bytes) -> Self {
        let started = Instant::now();
        let outcome = match tokio::time::timeout(FORWARD_TIMEOUT, forward(url, headers, body)).await {
            Ok(outcome) => outcome,
            Err(_) => Err(format!("no response within {} seconds", FORWARD_TIMEOUT.as_secs())),
        };
        Self { url: url.clone(), outcome, took: started.elapsed() }
    }

    fn to_json(&self) -> Value {
        let duration_ms = u64::try_from(self.took.as_millis()).unwrap_or(u64::MAX);
        match &self.outcome {
            Ok(status) => json!({"status": status.as_u16(), "duration_ms": duration_ms}),
            Err(error) => json!({"error": error, "duration_ms": duration_ms}),
        }
    }
}

impl fmt::Display for Forwarded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (url, millis) = (&self.url, self.took.as_millis());
        match &self.outcome {
            Ok(status) if status.is_success() => write!(f, "forwarded to {url}: {status} in {millis} ms"),
            Ok(status) => write!(f, "forwarded to {url}: FAILED with {status} in {millis} ms; tenantd will retry"),
            Err(error) => write!(f, "forwarding to {url}: FAILED after {millis} ms: {error}; tenantd will retry"),
        }
    }
}

/// Forwards a delivery unchanged. Returns the status of the response.
async fn forward(url: &Uri, headers: &HeaderMap, body: Bytes) -> Result<StatusCode, String> {
    let authority = url.authority().ok_or("the URL has no host")?;
    let address = (authority.host().to_owned(), authority.port_u16().unwrap_or(80));
    let stream = TcpStream::connect(address).await.map_err(|error| error.to_string())?;
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(|error| error.to_string())?;
    let driver = tokio::spawn(connection);
    let mut request = Request::new(Full::new(body));
    *request.method_mut() = http::Method::POST;
    let path = url.path_and_query().map_or("/", http::uri::PathAndQuery::as_str);
    *request.uri_mut() = path.parse().map_err(|error: http::uri::InvalidUri| error.to_string())?;
    *request.headers_mut() = headers.clone();
    let host = authority.as_str().parse().map_err(|error: http::header::InvalidHeaderValue| error.to_string())?;
    request.headers_mut().insert(header::HOST, host);
    let answered = sender.send_request(request).await.map(|response| response.status()).map_err(|error| error.to_string());
    driver.abort();
    answered
}
