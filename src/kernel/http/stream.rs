//! Streamed operations: the body is handled while it comes in, and the answer is sent while it is made. There is no limit to the size
//! of either, so neither is ever held as a whole.
//!
//! An operation is one by having [`Streamed`] in its signature; the document then declares a body in lines, and the edge hands the
//! body on unread. The limits here are on the client's time: it may not pause for long, nor send slower than the least rate. Time
//! in which the server does not ask for more counts for nobody. **Invariant:** bytes are taken from the connection only when the
//! handler asks for them, so a client is held back by whatever the handler waits for.

use std::{
    io,
    marker::PhantomData,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use futures_util::{Stream, StreamExt};
use http::header;
use poem::{IntoResponse, Request, RequestBody, Response};
use poem_openapi::{
    ApiExtractor, ApiExtractorType, ApiResponse, ExtractParamOptions,
    registry::{MetaMediaType, MetaRequest, MetaResponse, MetaResponses, MetaSchema, MetaSchemaRef, Registry},
    types::Type,
};
use tokio::{sync::mpsc, time::Instant};

use super::{
    context::RequestContext,
    problem::{Code, Problem},
};
use crate::kernel::config::Limits;

pub const LINES: &str = "application/x-ndjson";
const JSON: &str = "application/json";

/// A body may arrive at any rate for this long.
const GRACE: Duration = Duration::from_secs(10);
/// Pieces of the answer that wait for the client to take them.
const ANSWER_PIECES: usize = 4;

/// How the values of a streamed body are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// One a line.
    Lines,
    /// Elements of one JSON array.
    Array,
}

impl Form {
    pub(super) fn of(content_type: Option<&str>) -> Result<Self, Problem> {
        let media_type = content_type.unwrap_or_default().split(';').next().unwrap_or_default().trim();
        if media_type.eq_ignore_ascii_case(LINES) {
            Ok(Self::Lines)
        } else if media_type.eq_ignore_ascii_case(JSON) {
            Ok(Self::Array)
        } else {
            let detail = format!("Send `Content-Type: {LINES}` with one value a line, or `{JSON}` with an array of values.");
            Err(Problem::new(Code::UnsupportedMediaType, detail))
        }
    }
}

type Pieces = Pin<Box<dyn Stream<Item = io::Result<Bytes>> + Send>>;

/// A body that is coming in.
pub struct Incoming {
    pieces: Pieces,
    pub form: Form,
    idle: Duration,
    bytes_per_second: usize,
    received: usize,
    /// How long the client was waited for, in all.
    waited: Duration,
    waiting_since: Option<Instant>,
}

impl std::fmt::Debug for Incoming {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Incoming").field("form", &self.form).field("received", &self.received).finish_non_exhaustive()
    }
}

impl Incoming {
    pub(super) fn new(body: poem::Body, form: Form, limits: &Limits) -> Self {
        Self {
            pieces: Box::pin(body.into_bytes_stream()),
            form,
            idle: Duration::from_secs(limits.stream_idle_seconds),
            bytes_per_second: limits.body_min_bytes_per_second.max(1),
            received: 0,
            waited: Duration::ZERO,
            waiting_since: None,
        }
    }

    /// The next bytes, or `None` at the end. May be given up and called again without loss.
    #[allow(clippy::disallowed_methods, reason = "how long a client takes is measured in monotonic time")]
    pub async fn next(&mut self) -> Result<Option<Bytes>, Problem> {
        let since = *self.waiting_since.get_or_insert_with(Instant::now);
        let earned = Duration::from_millis((self.received * 1000 / self.bytes_per_second) as u64);
        let left = (GRACE + earned).saturating_sub(self.waited);
        let next = tokio::time::timeout_at(since + left.min(self.idle), self.pieces.next()).await;
        let piece = next.map_err(|_| Problem::plain(Code::RequestTimeout))?;
        self.waited += since.elapsed();
        self.waiting_since = None;
        match piece {
            None => Ok(None),
            Some(Ok(piece)) => {
                self.received += piece.len();
                Ok(Some(piece))
            }
            Some(Err(error)) => Err(Problem::new(Code::MalformedRequest, format!("The body broke off: {error}"))),
        }
    }
}

/// A streamed body in a handler's signature, of values that look like `T`.
#[derive(Debug)]
pub struct Streamed<T> {
    pub body: Incoming,
    value: PhantomData<fn() -> T>,
}

impl<'a, T: Type> ApiExtractor<'a> for Streamed<T> {
    const TYPES: &'static [ApiExtractorType] = &[ApiExtractorType::RequestObject];
    type ParamType = ();
    type ParamRawType = ();

    fn register(registry: &mut Registry) {
        T::register(registry);
    }

    fn request_meta() -> Option<MetaRequest> {
        let array = MetaSchema { items: Some(Box::new(T::schema_ref())), ..MetaSchema::new("array") };
        let content = vec![
            MetaMediaType { content_type: LINES, schema: T::schema_ref() },
            MetaMediaType { content_type: JSON, schema: MetaSchemaRef::Inline(Box::new(array)) },
        ];
        Some(MetaRequest { description: None, content, required: true })
    }

    async fn from_request(request: &'a Request, _body: &mut RequestBody, _options: ExtractParamOptions<()>) -> poem::Result<Self> {
        let body = RequestContext::of(request)?.take_stream();
        let body = body.ok_or_else(|| Problem::internal("a streamed operation was reached without its body"))?;
        Ok(Self { body, value: PhantomData })
    }
}

/// Where the pieces of a streamed answer are put while it is made.
#[derive(Debug)]
pub struct Outgoing {
    pieces: mpsc::Sender<Bytes>,
    idle: Duration,
}

/// The client is gone, or has not taken its answer for too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("nobody takes the answer")]
pub struct Unwanted;

impl Outgoing {
    /// Waits until there is room: whoever makes the answer goes no faster than the client takes it.
    pub async fn send(&self, piece: Bytes) -> Result<(), Unwanted> {
        self.pieces.send_timeout(piece, self.idle).await.map_err(|_| Unwanted)
    }
}

/// 200 with values that look like `T`, one a line, sent while they are made.
#[derive(Debug)]
pub struct StreamedLines<T> {
    pieces: mpsc::Receiver<Bytes>,
    value: PhantomData<fn() -> T>,
}

impl<T> StreamedLines<T> {
    /// The answer, and where its lines are put. `idle` is how long the client may take none of them.
    pub fn new(idle: Duration) -> (Outgoing, Self) {
        let (sender, pieces) = mpsc::channel(ANSWER_PIECES);
        (Outgoing { pieces: sender, idle }, Self { pieces, value: PhantomData })
    }
}

impl<T: Send> IntoResponse for StreamedLines<T> {
    fn into_response(self) -> Response {
        let pieces = futures_util::stream::unfold(self.pieces, async |mut pieces| {
            let piece = pieces.recv().await?;
            Some((Ok::<_, io::Error>(piece), pieces))
        });
        let mut response = Response::builder().content_type(LINES).body(poem::Body::from_bytes_stream(pieces));
        response.headers_mut().insert(header::CACHE_CONTROL, header::HeaderValue::from_static("no-store"));
        response
    }
}

impl<T: Type> ApiResponse for StreamedLines<T> {
    fn meta() -> MetaResponses {
        let content = vec![MetaMediaType { content_type: LINES, schema: T::schema_ref() }];
        let response = MetaResponse { description: "", status: Some(200), status_range: None, content, headers: Vec::new() };
        MetaResponses { responses: vec![response] }
    }

    fn register(registry: &mut Registry) {
        T::register(registry);
    }
}

/// Marks an answer whose request is under way until the last of it is sent.
#[derive(Clone, Copy, Debug)]
pub struct UnderWay;

/// Keeps `held` until the answer is sent or given up.
pub fn hold<G: Send + Unpin + 'static>(response: &mut Response, held: G) {
    let pieces = response.take_body().into_bytes_stream();
    response.set_body(poem::Body::from_bytes_stream(Held { pieces: Box::pin(pieces), _held: held }));
}

struct Held<G> {
    pieces: Pieces,
    _held: G,
}

impl<G: Unpin> Stream for Held<G> {
    type Item = io::Result<Bytes>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.pieces.as_mut().poll_next(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn incoming(pieces: impl Stream<Item = io::Result<Bytes>> + Send + 'static) -> Incoming {
        let limits = crate::kernel::config::load(None, [], &[]).unwrap().limits;
        Incoming::new(poem::Body::from_bytes_stream(pieces), Form::Lines, &limits)
    }

    #[tokio::test]
    async fn a_client_that_pauses_for_too_long_is_given_up() {
        let pieces = futures_util::stream::iter([Ok(Bytes::from_static(b"a\n"))]).chain(futures_util::stream::pending());
        let mut body = incoming(pieces);
        body.idle = Duration::from_millis(1);
        assert_eq!(body.next().await.unwrap().unwrap(), "a\n");
        assert_eq!(body.next().await.unwrap_err().code, Code::RequestTimeout);
    }

    #[tokio::test]
    async fn what_has_come_is_taken_however_late_it_is_asked_for() {
        let mut body = incoming(futures_util::stream::iter([Ok(Bytes::from_static(b"a")), Ok(Bytes::from_static(b"b"))]));
        body.idle = Duration::ZERO;
        assert_eq!(body.next().await.unwrap().unwrap(), "a");
        assert!(body.waiting_since.is_none(), "until it is asked again, nobody waits for the client");
        assert_eq!(body.next().await.unwrap().unwrap(), "b");
        assert!(body.next().await.unwrap().is_none());
    }

    #[tokio::test]
    async fn a_client_has_as_much_time_as_it_has_earned_by_sending() {
        let mut body = incoming(futures_util::stream::pending());
        body.idle = Duration::from_hours(1);
        body.waited = GRACE;
        assert_eq!(body.next().await.unwrap_err().code, Code::RequestTimeout, "it has sent nothing in its time of grace");
        body.received = 3600 * body.bytes_per_second;
        let waiting = tokio::time::timeout(Duration::from_millis(1), body.next()).await;
        assert!(waiting.is_err(), "it is waited for on and on");
    }

    #[tokio::test]
    async fn a_client_that_takes_no_answer_is_given_up() {
        let (out, answer) = StreamedLines::<u64>::new(Duration::from_millis(1));
        for _ in 0..ANSWER_PIECES {
            out.send(Bytes::from_static(b"1\n")).await.unwrap();
        }
        assert_eq!(out.send(Bytes::from_static(b"1\n")).await, Err(Unwanted));
        drop(answer);
    }

    #[test]
    fn the_media_type_says_how_values_are_written() {
        assert_eq!(Form::of(Some("application/x-ndjson; charset=utf-8")).unwrap(), Form::Lines);
        assert_eq!(Form::of(Some("Application/JSON")).unwrap(), Form::Array);
        assert_eq!(Form::of(Some("text/csv")).unwrap_err().code, Code::UnsupportedMediaType);
        assert_eq!(Form::of(None).unwrap_err().code, Code::UnsupportedMediaType);
    }
}
