//! Connects to the server over its admin socket, or over the network with an API key. It sends the body while it reads the
//! response.

use std::{path::PathBuf, pin::Pin, sync::Arc};

use bytes::Bytes;
use futures_util::StreamExt;
use http::{Method, Request, Uri};
use http_body_util::{BodyExt, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper_util::rt::TokioIo;
use rustls::pki_types::{CertificateDer, ServerName, pem::PemObject};
use serde_json::Value;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpStream, UnixStream},
    sync::mpsc,
};

use tenantd_base::secrets::Secret;

use super::{
    super::{Failure, client},
    SHOWN_FAILURES,
};

pub(super) enum Target {
    Socket { path: PathBuf, target: String },
    Server { url: String, key: Secret, ca_file: Option<PathBuf> },
}

/// The response of the server.
#[derive(Debug, Default)]
pub(super) struct Answer {
    /// The first lines that it did not import.
    pub(super) failures: Vec<Value>,
    /// The last line. `None` if the response is incomplete.
    pub(super) end: Option<Value>,
}

trait Io: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Io for T {}

fn broken(error: impl std::fmt::Display) -> Failure {
    Failure::Failed(format!("the request to the server failed: {error}"))
}

impl Target {
    /// Sends the pieces and reads the complete response.
    pub(super) async fn send(self, pieces: mpsc::Receiver<Bytes>) -> Result<Answer, Failure> {
        let (io, request) = self.connect().await?;
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(io)).await.map_err(broken)?;
        let driver = tokio::spawn(connection);
        let frames = futures_util::stream::unfold(pieces, async |mut pieces| {
            let piece = pieces.recv().await?;
            Some((Ok::<_, std::convert::Infallible>(Frame::data(piece)), pieces))
        });
        let request =
            request.header("content-type", "application/x-ndjson").body(StreamBody::new(frames.boxed())).map_err(broken)?;
        let response = sender.send_request(request).await.map_err(broken)?;
        let status = response.status();
        let answer = if status.is_success() {
            read_answer(response.into_body()).await
        } else {
            let body = response.into_body().collect().await.map_err(broken)?.to_bytes();
            Err(client::problem_failure(status, &serde_json::from_slice(&body).unwrap_or_default()))
        };
        driver.abort();
        answer
    }

    async fn connect(self) -> Result<(Box<dyn Io>, http::request::Builder), Failure> {
        let post = Request::builder().method(Method::POST);
        match self {
            Self::Socket { path, target } => {
                let stream = UnixStream::connect(&path).await.map_err(|error| client::connect_failure(&path, &error))?;
                Ok((Box::new(stream), post.uri(target).header("host", "localhost")))
            }
            Self::Server { url, key, ca_file } => {
                let uri: Uri = url.parse().map_err(|error| Failure::Failed(format!("{url}: {error}")))?;
                let host = uri.host().ok_or_else(|| Failure::Failed(format!("{url} has no host")))?.to_owned();
                let secure = match uri.scheme_str() {
                    Some("https") => true,
                    Some("http") => false,
                    _ => return Err(Failure::Failed(format!("{url} does not start with https:// or http://"))),
                };
                let port = uri.port_u16().unwrap_or(if secure { 443 } else { 80 });
                let bare = host.trim_matches(['[', ']']);
                let unreachable = |error: std::io::Error| Failure::NotRunning(format!("cannot connect to {url}: {error}"));
                let stream = TcpStream::connect((bare, port)).await.map_err(unreachable)?;
                let io: Pin<Box<dyn Io>> = if secure { Box::pin(secured(stream, bare, ca_file).await?) } else { Box::pin(stream) };
                let authority = uri.authority().map(ToString::to_string).unwrap_or_default();
                let request = post
                    .uri("/internal/ingest?answer=errors")
                    .header("host", authority)
                    .header("authorization", format!("Bearer {}", key.expose()));
                Ok((Box::new(io), request))
            }
        }
    }
}

async fn secured(
    stream: TcpStream,
    host: &str,
    ca_file: Option<PathBuf>,
) -> Result<tokio_rustls::client::TlsStream<TcpStream>, Failure> {
    let missing = "specify with --ca-file what to trust: a certificate authority, or tls/certificate.pem of the server";
    let path = ca_file.ok_or_else(|| Failure::Failed(missing.to_owned()))?;
    let fail = |error: &dyn std::fmt::Display| Failure::Failed(format!("{}: {error}", path.display()));
    let mut roots = rustls::RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(&path).map_err(|error| fail(&error))? {
        roots.add(certificate.map_err(|error| fail(&error))?).map_err(|error| fail(&error))?;
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().map_err(broken)?;
    let config = config.with_root_certificates(roots).with_no_client_auth();
    let name = ServerName::try_from(host.to_owned()).map_err(|error| Failure::Failed(format!("{host}: {error}")))?;
    tokio_rustls::TlsConnector::from(Arc::new(config)).connect(name, stream).await.map_err(broken)
}

async fn read_answer(mut body: Incoming) -> Result<Answer, Failure> {
    let (mut answer, mut rest) = (Answer::default(), Vec::new());
    while let Some(frame) = body.frame().await {
        let Ok(piece) = frame.map_err(broken)?.into_data() else { continue };
        rest.extend_from_slice(&piece);
        while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = rest.drain(..=end).collect();
            let value: Value = serde_json::from_slice(&line).map_err(broken)?;
            if value.get("_end").is_some() {
                answer.end = Some(value);
            } else if answer.failures.len() < SHOWN_FAILURES {
                answer.failures.push(value);
            }
        }
    }
    Ok(answer)
}
