//! Streamed requests: the handler processes the body while it arrives. The size is not limited, so the body is never held as a
//! whole.
//!
//! An operation is streamed if its signature has [`Streamed`]. The document then declares a body of lines, and the edge passes the
//! body on unread. The limits here apply to the client's time. The client may not pause for long, send more slowly than the minimum
//! rate, or take long for one record. Time in which the server does not read does not count. **Invariant:** bytes are read from the
//! connection only when the handler asks for them, so a slow handler slows down the client.

use std::{
    io,
    marker::PhantomData,
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use futures_util::{Stream, StreamExt};
use poem::{Request, RequestBody};
use poem_openapi::{
    ApiExtractor, ApiExtractorType, ExtractParamOptions,
    registry::{MetaMediaType, MetaRequest, MetaSchema, MetaSchemaRef, Registry},
    types::Type,
};
use tokio::time::Instant;

use tenantd_base::config::Limits;

use super::{
    LINES,
    problem::{Code, Problem},
    recheck::Recheck,
};

const JSON: &str = "application/json";

/// During this time a body may arrive at any rate.
const GRACE: Duration = Duration::from_secs(10);
/// How often the rights of the caller are checked again.
const CHECK_INTERVAL: Duration = Duration::from_millis(50);
/// The longest time that one record may take.
const RECORD: Duration = Duration::from_mins(1);

/// The format of a streamed body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// One value per line.
    Lines,
    /// The elements of one JSON array.
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

/// A body that is being received.
pub struct Incoming {
    pieces: Pin<Box<dyn Stream<Item = io::Result<Bytes>> + Send>>,
    pub form: Form,
    idle: Duration,
    bytes_per_second: usize,
    received: usize,
    /// How long the server has waited for the client in total.
    waited: Duration,
    /// How long the server has waited for the client since the last complete record.
    waited_for_record: Duration,
    waiting_since: Option<Instant>,
    /// The sender of the records. Nothing is accepted from a caller who has lost their rights.
    caller: Option<Recheck>,
    checked_at: Instant,
}

impl std::fmt::Debug for Incoming {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Incoming").field("form", &self.form).field("received", &self.received).finish_non_exhaustive()
    }
}

impl Incoming {
    #[allow(clippy::disallowed_methods, reason = "how long a client takes is measured in monotonic time")]
    pub(super) fn new(body: poem::Body, form: Form, caller: Option<Recheck>, limits: &Limits) -> Self {
        Self {
            pieces: Box::pin(body.into_bytes_stream()),
            form,
            idle: Duration::from_secs(limits.stream_idle_seconds),
            bytes_per_second: limits.body_min_bytes_per_second.max(1),
            received: 0,
            waited: Duration::ZERO,
            waited_for_record: Duration::ZERO,
            waiting_since: None,
            caller,
            checked_at: Instant::now(),
        }
    }

    /// Stores the body with the request, where [`Streamed`] finds it.
    pub(super) fn attach(self, request: &mut Request) {
        request.extensions_mut().insert::<SharedIncoming>(Arc::new(Mutex::new(Some(self))));
    }

    /// Notes that a record is complete. Without this, a client that only sends bytes keeps its place for [`RECORD`] at most.
    pub fn took_record(&mut self) {
        self.waited_for_record = Duration::ZERO;
    }

    /// Checks that the caller still has the rights that the body was accepted with.
    #[allow(clippy::disallowed_methods, reason = "how long a client takes is measured in monotonic time")]
    fn check_again(&mut self) -> Result<(), Problem> {
        if self.checked_at.elapsed() < CHECK_INTERVAL {
            return Ok(());
        }
        self.checked_at = Instant::now();
        self.caller.as_ref().map_or(Ok(()), Recheck::check)
    }

    /// The next bytes, or `None` at the end. It is safe to cancel and call again.
    #[allow(clippy::disallowed_methods, reason = "how long a client takes is measured in monotonic time")]
    pub async fn next(&mut self) -> Result<Option<Bytes>, Problem> {
        let since = *self.waiting_since.get_or_insert_with(Instant::now);
        let earned = Duration::from_millis((self.received * 1000 / self.bytes_per_second) as u64);
        let left = (GRACE + earned).saturating_sub(self.waited);
        let record = RECORD.saturating_sub(self.waited_for_record);
        let next = tokio::time::timeout_at(since + left.min(self.idle).min(record), self.pieces.next()).await;
        let piece = next.map_err(|_| Problem::plain(Code::RequestTimeout))?;
        let waited = since.elapsed();
        self.waited += waited;
        self.waited_for_record += waited;
        self.waiting_since = None;
        match piece {
            None => Ok(None),
            Some(Ok(piece)) => {
                self.received += piece.len();
                self.check_again()?;
                Ok(Some(piece))
            }
            Some(Err(error)) => Err(Problem::new(Code::MalformedRequest, format!("The body broke off: {error}"))),
        }
    }
}

type SharedIncoming = Arc<Mutex<Option<Incoming>>>;

/// A streamed body in a handler's signature. Its values look like `T`.
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
        let shared = request.extensions().get::<SharedIncoming>();
        let body = shared.and_then(|body| body.lock().unwrap_or_else(PoisonError::into_inner).take());
        let body = body.ok_or_else(|| Problem::internal("a streamed operation was reached without its body"))?;
        Ok(Self { body, value: PhantomData })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn incoming(pieces: impl Stream<Item = io::Result<Bytes>> + Send + 'static) -> Incoming {
        let limits = tenantd_base::config::load(None, [], &[]).unwrap().limits;
        Incoming::new(poem::Body::from_bytes_stream(pieces), Form::Lines, None, &limits)
    }

    #[tokio::test]
    async fn a_client_that_pauses_for_too_long_times_out() {
        let pieces = futures_util::stream::iter([Ok(Bytes::from_static(b"a\n"))]).chain(futures_util::stream::pending());
        let mut body = incoming(pieces);
        body.idle = Duration::from_millis(1);
        assert_eq!(body.next().await.unwrap().unwrap(), "a\n");
        assert_eq!(body.next().await.unwrap_err().code, Code::RequestTimeout);
    }

    #[tokio::test]
    async fn bytes_that_arrived_are_read_however_late() {
        let mut body = incoming(futures_util::stream::iter([Ok(Bytes::from_static(b"a")), Ok(Bytes::from_static(b"b"))]));
        body.idle = Duration::ZERO;
        assert_eq!(body.next().await.unwrap().unwrap(), "a");
        assert!(body.waiting_since.is_none(), "nobody waits for the client between two reads");
        assert_eq!(body.next().await.unwrap().unwrap(), "b");
        assert!(body.next().await.unwrap().is_none());
    }

    #[tokio::test]
    async fn a_client_earns_time_by_sending() {
        let mut body = incoming(futures_util::stream::pending());
        body.idle = Duration::from_hours(1);
        body.waited = GRACE;
        assert_eq!(body.next().await.unwrap_err().code, Code::RequestTimeout, "it sent nothing in its grace period");
        body.received = 3600 * body.bytes_per_second;
        let waiting = tokio::time::timeout(Duration::from_millis(1), body.next()).await;
        assert!(waiting.is_err(), "the server keeps waiting for it");
    }

    #[test]
    fn the_media_type_selects_the_format() {
        assert_eq!(Form::of(Some("application/x-ndjson; charset=utf-8")).unwrap(), Form::Lines);
        assert_eq!(Form::of(Some("Application/JSON")).unwrap(), Form::Array);
        assert_eq!(Form::of(Some("text/csv")).unwrap_err().code, Code::UnsupportedMediaType);
        assert_eq!(Form::of(None).unwrap_err().code, Code::UnsupportedMediaType);
    }
}
