//! Answers that are too long to be held: made chunk by chunk while they are sent.
//!
//! The maker waits for the client, but not forever: a client that takes nothing for a while loses the rest. **Invariant:** at most
//! [`CHUNKS`] chunks are in memory for one answer.

use std::{marker::PhantomData, time::Duration};

use bytes::Bytes;
use http::{HeaderValue, StatusCode, header};
use poem::{Body, IntoResponse, Response};
use poem_openapi::{
    ApiResponse,
    registry::{MetaHeader, MetaMediaType, MetaResponse, MetaResponses, MetaSchema, MetaSchemaRef, Registry},
    types::Type,
};
use serde::Serialize;
use tokio::sync::{mpsc, watch};

use super::{page::Page, reply::Rendered};

const CHUNKS: usize = 4;
/// How long a client may take nothing.
const PATIENCE: Duration = Duration::from_secs(30);

/// In the extensions of an answer that is still being made: tells when it is not any more.
#[derive(Clone, Debug)]
pub struct Streaming(watch::Receiver<()>);

impl Streaming {
    pub async fn ended(mut self) {
        // Nothing is ever sent: the wait ends when the other side is gone.
        while self.0.changed().await.is_ok() {}
    }
}

/// Takes the chunks of an answer.
#[derive(Debug)]
pub struct ChunkSender {
    chunks: mpsc::Sender<Result<Bytes, std::io::Error>>,
    _streaming: watch::Sender<()>,
}

/// The client is gone, or takes nothing.
#[derive(Clone, Copy, Debug)]
pub struct Gone;

impl ChunkSender {
    pub async fn send(&self, chunk: Bytes) -> Result<(), Gone> {
        let sent = tokio::time::timeout(PATIENCE, self.chunks.send(Ok(chunk))).await;
        sent.map_err(|_| Gone)?.map_err(|_| Gone)
    }

    /// Breaks the answer off, so that the client cannot take what it has for all of it.
    pub async fn fail(self, reason: String) {
        tracing::error!(reason, "a streamed answer was broken off");
        drop(tokio::time::timeout(PATIENCE, self.chunks.send(Err(std::io::Error::other(reason)))).await);
    }
}

#[derive(Debug)]
pub struct Stream {
    media_type: &'static str,
    file_name: String,
    chunks: mpsc::Receiver<Result<Bytes, std::io::Error>>,
    streaming: Streaming,
}

impl Stream {
    /// An answer, and where its chunks go.
    pub fn new(media_type: &'static str, file_name: String) -> (Self, ChunkSender) {
        let (chunks, receiver) = mpsc::channel(CHUNKS);
        let (held, streaming) = watch::channel(());
        let stream = Self { media_type, file_name, chunks: receiver, streaming: Streaming(streaming) };
        (stream, ChunkSender { chunks, _streaming: held })
    }
}

impl IntoResponse for Stream {
    fn into_response(self) -> Response {
        let Self { media_type, file_name, mut chunks, streaming } = self;
        let body = Body::from_bytes_stream(futures_util::stream::poll_fn(move |cx| chunks.poll_recv(cx)));
        let mut response = Response::builder().status(StatusCode::OK).content_type(media_type).body(body);
        if let Ok(value) = HeaderValue::try_from(format!("attachment; filename=\"{file_name}\"")) {
            response.headers_mut().insert(header::CONTENT_DISPOSITION, value);
        }
        response.extensions_mut().insert(streaming);
        response
    }
}

/// A list as a page, or all of it as a stream of rows. `L` is the form of the page.
#[derive(Debug)]
pub enum ListOrStream<L> {
    List(Rendered, PhantomData<fn() -> L>),
    Stream(Stream),
}

impl<L: Serialize> ListOrStream<L> {
    pub fn list(list: &L, page: &Page) -> Self {
        let rendered = Rendered::json(StatusCode::OK, list);
        let rendered = page.link.iter().fold(rendered, |rendered, link| rendered.header(header::LINK, link));
        Self::List(rendered, PhantomData)
    }
}

impl<L: Send> IntoResponse for ListOrStream<L> {
    fn into_response(self) -> Response {
        match self {
            Self::List(rendered, _) => rendered.into_response(),
            Self::Stream(stream) => stream.into_response(),
        }
    }
}

impl<L: Type> ApiResponse for ListOrStream<L> {
    fn meta() -> MetaResponses {
        let text = || MetaSchemaRef::Inline(Box::new(MetaSchema::new("string")));
        let media = |content_type, schema| MetaMediaType { content_type, schema };
        let rows = |example: &str| {
            MetaSchemaRef::Inline(Box::new(MetaSchema { example: Some(example.into()), ..MetaSchema::new("string") }))
        };
        let link = MetaHeader {
            name: "Link".to_owned(),
            description: Some("The next page, as `<…>; rel=\"next\"`.".to_owned()),
            required: false,
            deprecated: false,
            schema: text(),
        };
        let content = vec![
            media("application/json", L::schema_ref()),
            media("text/csv", rows("id,number\r\ntkt_01k9z7w3v5e8g9m2n4p6r8t0x1,1042\r\n")),
            media("application/x-ndjson", rows("{\"number\":1042}\n{\"_end\":true,\"count\":1}\n")),
        ];
        MetaResponses {
            responses: vec![MetaResponse { description: "", status: Some(200), status_range: None, content, headers: vec![link] }],
        }
    }

    fn register(registry: &mut Registry) {
        L::register(registry);
    }
}
