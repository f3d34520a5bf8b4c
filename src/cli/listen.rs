//! `tenantd listen`: shows the events of a tenant as a webhook receiver would get them. Registers an endpoint at a listener of its own,
//! checks every signature, prints what comes, passes it on if asked to, and removes the endpoint when it ends.

use std::{convert::Infallible, sync::Arc};

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

/// The largest body of a delivery.
const MAX_BODY: usize = 1 << 20;

#[derive(Debug, Args)]
pub(super) struct Listen {
    /// The tenant's id or slug. Without its own network allowed, only an evaluation tenant can deliver to this machine.
    #[arg(long, default_value = "demo")]
    tenant: String,
    /// The kinds of events, such as ticket.created, ticket.* or *. Repeat for several.
    #[arg(long = "event", value_name = "KIND", default_value = "*")]
    events: Vec<String>,
    /// Where to listen for deliveries; port 0 takes a free one.
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:0")]
    bind: String,
    /// Pass every delivery on to this URL (http), and its answer back.
    #[arg(long, value_name = "URL")]
    forward: Option<Uri>,
    /// End after so many deliveries.
    #[arg(long, value_name = "NUMBER")]
    count: Option<u64>,
}

struct Printer {
    secret: Secret,
    json: bool,
    forward: Option<Uri>,
    printed: tokio::sync::mpsc::Sender<()>,
}

impl Listen {
    pub(super) async fn run(self, common: &Common) -> Result<(), Failure> {
        if let Some(url) = &self.forward
            && (url.scheme_str() != Some("http") || url.authority().is_none())
        {
            return Err(Failure::Failed(format!("--forward {url}: must start with http:// and name a host")));
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
            output::line(&format!("{id} gets {} at {url} until Ctrl-C", self.events.join(", ")))?;
        }
        let printer = Arc::new(Printer { secret, json: common.json, forward: self.forward, printed });
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
            // How a connection ends is the server's to judge: it tries again.
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
        if self.print(&head.headers, &body, verified).is_err() {
            return plain(StatusCode::INTERNAL_SERVER_ERROR);
        }
        let response = match &self.forward {
            _ if !verified => plain(StatusCode::UNAUTHORIZED),
            None => plain(StatusCode::NO_CONTENT),
            Some(url) => forward(url, &head.headers, body).await.map_or_else(|()| plain(StatusCode::BAD_GATEWAY), plain),
        };
        // Nobody counts any more when the command is about to end.
        if self.printed.try_send(()).is_err() {
            tracing::debug!("a delivery came after the last one that was asked for");
        }
        response
    }

    fn print(&self, headers: &HeaderMap, body: &[u8], verified: bool) -> Result<(), Failure> {
        let event: Value = serde_json::from_slice(body).unwrap_or_else(|_| json!(String::from_utf8_lossy(body)));
        if self.json {
            let value = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
            let headers: std::collections::BTreeMap<&str, &str> =
                SIGNATURE_HEADERS.iter().map(|name| (*name, value(name))).collect();
            return output::json(&json!({"verified": verified, "headers": headers, "event": event}));
        }
        let verdict = if verified { "signature verified" } else { "SIGNATURE WRONG" };
        let pretty = serde_json::to_string_pretty(&event).unwrap_or_default();
        let (kind, seq, at) = (output::text(&event, "/type"), output::text(&event, "/seq"), output::text(&event, "/timestamp"));
        output::line(&format!("\n{at}  {kind}  seq {seq}  {verdict}\n{pretty}"))
    }
}

/// Passes a delivery on as it came. The status of the answer.
async fn forward(url: &Uri, headers: &HeaderMap, body: Bytes) -> Result<StatusCode, ()> {
    let authority = url.authority().ok_or(())?;
    let address = (authority.host().to_owned(), authority.port_u16().unwrap_or(80));
    let stream = TcpStream::connect(address).await.map_err(drop)?;
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(drop)?;
    let driver = tokio::spawn(connection);
    let mut request = Request::new(Full::new(body));
    *request.method_mut() = http::Method::POST;
    *request.uri_mut() = url.path_and_query().map_or("/", http::uri::PathAndQuery::as_str).parse().map_err(drop)?;
    *request.headers_mut() = headers.clone();
    request.headers_mut().insert(header::HOST, authority.as_str().parse().map_err(drop)?);
    let response = sender.send_request(request).await.map_err(drop)?;
    driver.abort();
    Ok(response.status())
}
