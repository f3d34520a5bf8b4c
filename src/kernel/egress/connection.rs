//! One open HTTP/1.1 connection with one exchange at a time. hyper implements the protocol, and the limits of the answer are set
//! here. The client follows no redirects, decodes no bodies and stores no cookies: a redirect is a status, and a body is its bytes.
//!
//! **Invariant:** a connection returns to the pool only after an answer that was read to its end. Dropping it closes it.

use std::{
    net::SocketAddr,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll},
};

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::{
    body::Incoming,
    client::conn::http1::{self, SendRequest},
};
use hyper_util::rt::TokioIo;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    task::AbortHandle,
    time::Instant,
};

use super::error::EgressError;

/// The most bytes that are read of the head of an answer.
pub const MAX_HEAD_BYTES: usize = 32 * 1024;
/// The usual limit for bodies, for callers that only need to know the result.
pub const MAX_BODY_BYTES: usize = 16 * 1024;
const MAX_HEADERS: usize = 128;

/// An answer of any status.
#[derive(Clone, Debug)]
pub struct Response {
    pub status: StatusCode,
    pub headers: HeaderMap,
    /// The body as it was received, at most as long as the request allows.
    pub body: Bytes,
    /// Whether the body was longer.
    pub truncated: bool,
}

/// A failed exchange.
#[derive(Debug)]
pub(super) struct Failure {
    pub(super) error: EgressError,
    pub(super) progress: Progress,
}

/// How far a failed exchange got. This decides whether it may be repeated on another connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    /// No byte of the request was written.
    Unsent,
    /// The request may have been read, but no byte of an answer arrived.
    Unanswered,
    Answered,
}

#[derive(Debug)]
pub(super) struct Connection {
    sender: SendRequest<Full<Bytes>>,
    answered: Arc<AtomicBool>,
    driver: AbortHandle,
    pub(super) peer: SocketAddr,
    pub(super) opened: Instant,
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

impl Connection {
    pub(super) async fn open<S>(stream: S, peer: SocketAddr) -> Result<Self, EgressError>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let answered = Arc::new(AtomicBool::new(false));
        let watched = TokioIo::new(Watched { stream, answered: answered.clone() });
        let (sender, connection) = http1::Builder::new()
            .max_buf_size(MAX_HEAD_BYTES)
            .max_header_size(MAX_HEAD_BYTES)
            .max_headers(MAX_HEADERS)
            .handshake(watched)
            .await
            .map_err(|error| failure_of(&error))?;
        // The exchange on the connection reports how it ended.
        let driver = tokio::spawn(async move { drop(connection.await) }).abort_handle();
        Ok(Self { sender, answered, driver, peer, opened: Instant::now() })
    }

    pub(super) fn is_closed(&self) -> bool {
        self.sender.is_closed()
    }

    /// Sends the request and reads the answer. Calls `on_head` when the head has arrived. Also returns whether the connection can
    /// take another request.
    pub(super) async fn exchange(
        &mut self,
        request: Request<Full<Bytes>>,
        max_body_bytes: usize,
        on_head: impl FnOnce(),
    ) -> Result<(Response, bool), Failure> {
        self.answered.store(false, Ordering::Release);
        if let Err(error) = self.sender.ready().await {
            return Err(Failure { error: failure_of(&error), progress: Progress::Unsent });
        }
        let answer = self.sender.try_send_request(request).await.map_err(|mut failed| {
            let progress = match failed.take_message() {
                Some(_) => Progress::Unsent,
                None => self.progress(),
            };
            Failure { error: failure_of(failed.error()), progress }
        })?;
        on_head();
        let (head, body) = answer.into_parts();
        let (body, truncated) = read_body(body, max_body_bytes)
            .await
            .map_err(|error| Failure { error: failure_of(&error), progress: Progress::Answered })?;
        let reusable = !truncated && head.status != StatusCode::SWITCHING_PROTOCOLS;
        Ok((Response { status: head.status, headers: head.headers, body, truncated }, reusable))
    }

    fn progress(&self) -> Progress {
        if self.answered.load(Ordering::Acquire) { Progress::Answered } else { Progress::Unanswered }
    }
}

/// The body up to the limit, and whether there was more.
async fn read_body(mut body: Incoming, limit: usize) -> Result<(Bytes, bool), hyper::Error> {
    let mut first = Bytes::new();
    let mut gathered = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let Ok(mut data) = frame?.into_data() else { continue };
        let room = limit - first.len() - gathered.len();
        let truncated = data.len() > room;
        data.truncate(room);
        // Most answers are one small piece, which needs no copy.
        if first.is_empty() {
            first = data;
        } else {
            gathered.extend_from_slice(&data);
        }
        if truncated {
            return Ok((joined(first, gathered), true));
        }
    }
    Ok((joined(first, gathered), false))
}

fn joined(first: Bytes, rest: BytesMut) -> Bytes {
    if rest.is_empty() {
        return first;
    }
    let mut whole = BytesMut::with_capacity(first.len() + rest.len());
    whole.extend_from_slice(&first);
    whole.extend_from_slice(&rest);
    whole.freeze()
}

fn failure_of(error: &hyper::Error) -> EgressError {
    if error.is_parse() || error.is_parse_too_large() || error.is_user() {
        return EgressError::Protocol(error.to_string());
    }
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        if let Some(tls) = cause.downcast_ref::<rustls::Error>() {
            return EgressError::Tls(tls.to_string());
        }
        if let Some(io) = cause.downcast_ref::<std::io::Error>() {
            // An alert that arrives with the first read, such as the demand for a client certificate, is inside an I/O error.
            let tls = io.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
            return tls.map_or(EgressError::Reset, |tls| EgressError::Tls(tls.to_string()));
        }
        source = cause.source();
    }
    if error.is_incomplete_message() || error.is_canceled() || error.is_closed() {
        return EgressError::Reset;
    }
    EgressError::Protocol(error.to_string())
}

/// A stream that notes when a byte has arrived.
struct Watched<S> {
    stream: S,
    answered: Arc<AtomicBool>,
}

impl<S: AsyncRead + Unpin> AsyncRead for Watched<S> {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<std::io::Result<()>> {
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.stream).poll_read(context, buffer);
        if buffer.filled().len() > before {
            self.answered.store(true, Ordering::Release);
        }
        polled
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Watched<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<std::io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[std::io::IoSlice<'_>],
    ) -> Poll<std::io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
