//! Streamed answers. They are sent piece by piece while they are produced, because they are too long to be held.
//!
//! The producer of an answer waits for the client, but not forever: a client that reads nothing for a while loses the rest.
//! **Invariants:** at most [`PIECES`] pieces of an answer are in memory, and none after the answer is abandoned. An incomplete
//! answer breaks off on the wire, so that no client mistakes it for a complete one. Its [`StreamHandle`] ends once the connection
//! has taken its last piece, or once nobody produces it any more. The edge checks the caller's rights before every piece, so an
//! answer ends soon after they do.

use std::{
    collections::HashMap,
    io,
    marker::PhantomData,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use http::{HeaderValue, StatusCode, header};
use poem::{Body, IntoResponse, Response};
use poem_openapi::{
    ApiResponse,
    registry::{MetaMediaType, MetaResponses, MetaSchema, MetaSchemaRef, Registry},
    types::Type,
};
use serde::Serialize;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

use tenantd_base::{config::Limits, id::TenantId, quotas::Quota};
use tenantd_store::{Store, StoreError};

use super::{
    CSV, LINES,
    page::Page,
    problem::{Code, Problem},
    reply::{LINK_HEADER, Rendered, response},
};

/// When all usual places are taken, this many times as many tenants can have one place each.
const FIRST_PLACES: usize = 4;

/// Pieces of an answer that wait for the client to read them.
const PIECES: usize = 4;

/// Places for answers of one kind.
#[derive(Clone, Debug)]
pub struct Streams {
    /// The name of these answers in error messages.
    kind: &'static str,
    places: Arc<Semaphore>,
    /// For tenants without a place, when all places are taken.
    first_places: Arc<Semaphore>,
    /// How many places each tenant has taken.
    taken: Arc<Mutex<HashMap<TenantId, usize>>>,
    store: Store,
    idle: Duration,
}

/// A place that a tenant has taken. Dropping it frees the place.
#[derive(Debug)]
struct Place {
    taken: Arc<Mutex<HashMap<TenantId, usize>>>,
    tenant: TenantId,
    _permit: OwnedSemaphorePermit,
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = taken.get_mut(&self.tenant) {
            *count -= 1;
            if *count == 0 {
                taken.remove(&self.tenant);
            }
        }
    }
}

impl Streams {
    /// `store` knows how many places each tenant may take.
    pub fn new(kind: &'static str, limits: &Limits, store: &Store) -> Self {
        let idle = Duration::from_secs(limits.stream_idle_seconds);
        let places = Arc::new(Semaphore::new(limits.streams));
        let first_places = Arc::new(Semaphore::new(limits.streams * FIRST_PLACES));
        Self { kind, places, first_places, taken: Arc::default(), store: store.clone(), idle }
    }

    /// Takes a place for the tenant, from all places and from its own share.
    fn place(&self, tenant: TenantId) -> Result<Place, Problem> {
        let limit = self.store.quotas_of(tenant)?.streams;
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let own = taken.get(&tenant).copied().unwrap_or_default();
        if own as u64 >= limit {
            let quota = Quota::Streams;
            let detail = format!(
                "Your tenant has {own} {} in progress, and its quota `{}` is {limit}. {}",
                self.kind,
                quota.name(),
                quota.advice()
            );
            let problem =
                Problem::new(Code::RateLimited, detail).with("quota", quota.name()).with("limit", limit).with("used", own as u64);
            return Err(problem.retry_after(5));
        }
        let busy = || Problem::unavailable(format!("Too many {} are in progress.", self.kind), 5);
        let first = || if own == 0 { self.first_places.clone().try_acquire_owned().ok() } else { None };
        let place = self.places.clone().try_acquire_owned().ok().or_else(first).ok_or_else(busy)?;
        taken.insert(tenant, own + 1);
        Ok(Place { taken: self.taken.clone(), tenant, _permit: place })
    }

    /// Starts `make`, whose pieces become the answer. Fails while all places, or those of the tenant, are taken.
    pub fn start<F>(
        &self,
        tenant: TenantId,
        media_type: &'static str,
        make: impl FnOnce(Outgoing) -> F,
    ) -> Result<Streamed, Problem>
    where
        F: Future<Output = Result<(), StreamError>> + Send + 'static,
    {
        let place = self.place(tenant)?;
        let (sender, pieces) = mpsc::channel(PIECES);
        let (out, pieces) = (Outgoing { pieces: sender, idle: self.idle }, Pieces(Arc::new(Mutex::new(pieces))));
        let handle = StreamHandle::default();
        handle.at_end(move |_| drop(place));
        let guard = ProducerGuard { handle: handle.clone(), pieces: pieces.clone() };
        let (made, shares) = (make(out.clone()), self.store.shares().clone());
        tokio::spawn(async move {
            let _guard = guard;
            let sent = match shares.work_for(tenant, made).await {
                Ok(()) => out.end().await,
                Err(broken) => Err(broken),
            };
            match sent {
                Ok(()) => {}
                Err(StreamError::Unwanted) => tracing::debug!("a client did not read a streamed answer to its end"),
                Err(StreamError::Failed(reason)) => tracing::error!(reason, "a streamed answer was aborted"),
            }
        });
        Ok(Streamed { media_type, file_name: None, pieces: PieceReceiver(pieces, handle.rights.clone()), handle })
    }
}

#[derive(Debug)]
enum Piece {
    Bytes(Bytes),
    /// The pieces before this one are the whole answer.
    End,
}

/// Why an answer is incomplete.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StreamError {
    /// The client is gone, or has not read its answer for too long.
    #[error("the client does not read the answer")]
    Unwanted,
    #[error("{0}")]
    Failed(String),
}

impl StreamError {
    pub fn failed(reason: impl ToString) -> Self {
        Self::Failed(reason.to_string())
    }
}

impl From<StoreError> for StreamError {
    fn from(error: StoreError) -> Self {
        Self::failed(error)
    }
}

/// Receives the pieces of an answer while it is produced.
#[derive(Clone, Debug)]
pub struct Outgoing {
    pieces: mpsc::Sender<Piece>,
    idle: Duration,
}

impl Outgoing {
    /// Waits until there is room, so the producer is no faster than the client. An empty piece only checks whether the client is
    /// still connected.
    pub async fn send(&self, piece: impl Into<Bytes>) -> Result<(), StreamError> {
        let piece = piece.into();
        if piece.is_empty() {
            return if self.pieces.is_closed() { Err(StreamError::Unwanted) } else { Ok(()) };
        }
        self.put(Piece::Bytes(piece)).await
    }

    /// The same on a thread that may block.
    pub fn send_blocking(&self, piece: impl Into<Bytes>) -> Result<(), StreamError> {
        tokio::runtime::Handle::current().block_on(self.send(piece))
    }

    async fn put(&self, piece: Piece) -> Result<(), StreamError> {
        self.pieces.send_timeout(piece, self.idle).await.map_err(|_| StreamError::Unwanted)
    }

    /// Marks the answer as complete, and waits until the connection has taken it.
    async fn end(&self) -> Result<(), StreamError> {
        self.put(Piece::End).await?;
        for free in 1..=PIECES {
            match tokio::time::timeout(self.idle, self.pieces.reserve_many(free)).await {
                Ok(Ok(_)) => {}
                // A receiver that has taken the end, or is gone, takes nothing more.
                Ok(Err(_)) => return Ok(()),
                Err(_) => return Err(StreamError::Unwanted),
            }
        }
        self.pieces.closed().await;
        Ok(())
    }
}

/// The waiting pieces. Both sides share them, because the pieces of an abandoned answer must be freed even if the connection is
/// stuck and does not ask for more.
#[derive(Clone, Debug)]
struct Pieces(Arc<Mutex<mpsc::Receiver<Piece>>>);

impl Pieces {
    fn lock(&self) -> MutexGuard<'_, mpsc::Receiver<Piece>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn discard(&self) {
        let mut pieces = self.lock();
        pieces.close();
        while pieces.try_recv().is_ok() {}
    }
}

/// Returns whether the caller may have the next piece.
type ContinueCheck = Box<dyn Fn() -> bool + Send + Sync>;

/// The sending side of an answer. Dropping it tells the producer that nothing more is read.
struct PieceReceiver(Pieces, Arc<OnceLock<ContinueCheck>>);

impl std::fmt::Debug for PieceReceiver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("PieceReceiver")
    }
}

impl PieceReceiver {
    fn into_body(self) -> Body {
        Body::from_bytes_stream(futures_util::stream::unfold(Some(self), async |receiver| {
            let receiver = receiver?;
            let piece = std::future::poll_fn(|context| receiver.0.lock().poll_recv(context)).await;
            let may_have_more = receiver.1.get().is_none_or(|may_have_more| may_have_more());
            match piece {
                Some(_) if !may_have_more => Some((Err(io::Error::other("the caller has lost their rights")), None)),
                Some(Piece::Bytes(bytes)) => Some((Ok(bytes), Some(receiver))),
                Some(Piece::End) => None,
                None => Some((Err(io::Error::other("the answer was aborted")), None)),
            }
        }))
    }
}

impl Drop for PieceReceiver {
    fn drop(&mut self) {
        self.0.discard();
    }
}

/// How an answer ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The connection has released the answer: it has taken everything, or is gone, or the client wanted no body.
    Taken,
    /// The connection still holds the answer, and nothing more comes.
    Stuck,
}

type AtEnd = Box<dyn FnOnce(Outcome) + Send>;

enum Progress {
    Running(Vec<AtEnd>),
    Over(Outcome),
}

/// Stored in the extensions of a streamed answer. Reports when the answer ends, and lets the edge check the caller's rights.
#[derive(Clone)]
pub struct StreamHandle {
    progress: Arc<Mutex<Progress>>,
    rights: Arc<OnceLock<ContinueCheck>>,
}

impl Default for StreamHandle {
    fn default() -> Self {
        Self { progress: Arc::new(Mutex::new(Progress::Running(Vec::new()))), rights: Arc::default() }
    }
}

impl StreamHandle {
    fn lock(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Calls `may_have_more` before every piece and before the end. The answer breaks off when it returns `false`. Only the first
    /// call of `watch` has an effect.
    pub fn watch(&self, may_have_more: impl Fn() -> bool + Send + Sync + 'static) {
        self.rights.get_or_init(|| Box::new(may_have_more));
    }

    /// Runs `act` when the answer ends, or immediately if it has ended.
    pub fn at_end(&self, act: impl FnOnce(Outcome) + Send + 'static) {
        let mut progress = self.lock();
        match &mut *progress {
            Progress::Running(acts) => acts.push(Box::new(act)),
            Progress::Over(outcome) => {
                let outcome = *outcome;
                drop(progress);
                act(outcome);
            }
        }
    }

    fn end(&self, outcome: Outcome) {
        let before = std::mem::replace(&mut *self.lock(), Progress::Over(outcome));
        if let Progress::Running(acts) = before {
            for act in acts {
                act(outcome);
            }
        }
    }
}

impl std::fmt::Debug for StreamHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("StreamHandle")
    }
}

/// Held by the producer of an answer, so that the answer also ends if the producer panics or is dropped.
struct ProducerGuard {
    handle: StreamHandle,
    pieces: Pieces,
}

impl Drop for ProducerGuard {
    fn drop(&mut self) {
        let outcome = if self.pieces.lock().is_closed() { Outcome::Taken } else { Outcome::Stuck };
        self.pieces.discard();
        self.handle.end(outcome);
    }
}

/// An answer that is being produced.
#[derive(Debug)]
pub struct Streamed {
    media_type: &'static str,
    file_name: Option<&'static str>,
    pieces: PieceReceiver,
    handle: StreamHandle,
}

impl Streamed {
    /// Sets the name under which clients save it.
    pub fn named(mut self, file_name: &'static str) -> Self {
        self.file_name = Some(file_name);
        self
    }
}

impl IntoResponse for Streamed {
    fn into_response(self) -> Response {
        // Without a charset a browser would guess. JSON is UTF-8 by definition.
        let charset = if self.media_type.starts_with("text/") { "; charset=utf-8" } else { "" };
        let content_type = format!("{}{charset}", self.media_type);
        let mut response = Response::builder().content_type(&content_type).body(self.pieces.into_body());
        if let Some(value) = self.file_name.and_then(|name| HeaderValue::try_from(format!("attachment; filename=\"{name}\"")).ok())
        {
            response.headers_mut().insert(header::CONTENT_DISPOSITION, value);
        }
        response.extensions_mut().insert(self.handle);
        response
    }
}

/// 200 with values that look like `T`, one per line.
#[derive(Debug)]
pub struct StreamedLines<T>(Streamed, PhantomData<fn() -> T>);

impl<T> StreamedLines<T> {
    pub fn start<F>(streams: &Streams, tenant: TenantId, make: impl FnOnce(Outgoing) -> F) -> Result<Self, Problem>
    where
        F: Future<Output = Result<(), StreamError>> + Send + 'static,
    {
        Ok(Self(streams.start(tenant, LINES, make)?, PhantomData))
    }
}

impl<T: Send> IntoResponse for StreamedLines<T> {
    fn into_response(self) -> Response {
        let mut response = self.0.into_response();
        response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        response
    }
}

impl<T: Type> ApiResponse for StreamedLines<T> {
    fn meta() -> MetaResponses {
        let mut lines = response(200, "", None, &[]);
        lines.content.push(MetaMediaType { content_type: LINES, schema: T::schema_ref() });
        MetaResponses { responses: vec![lines] }
    }

    fn register(registry: &mut Registry) {
        T::register(registry);
    }
}

/// A page of a list whose rows are also available as a stream.
pub trait Exported: Type {
    const CSV_EXAMPLE: &'static str;
    const LINES_EXAMPLE: &'static str;
}

/// A list as a page, or all of it as a stream of rows. `L` is the type of the page.
#[derive(Debug)]
pub enum ListOrStream<L> {
    List(Rendered, PhantomData<fn() -> L>),
    Stream(Streamed),
}

impl<L: Serialize> ListOrStream<L> {
    pub fn list(list: &L, page: &Page) -> Self {
        Self::List(Rendered::page(list, page), PhantomData)
    }

    /// A page that was rendered before.
    pub const fn rendered(page: Rendered) -> Self {
        Self::List(page, PhantomData)
    }

    /// A value that is not a page of a longer list.
    pub fn whole(value: &L) -> Self {
        Self::List(Rendered::json(StatusCode::OK, value), PhantomData)
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

impl<L: Exported> ApiResponse for ListOrStream<L> {
    fn meta() -> MetaResponses {
        let rows = |content_type, example: &str| {
            let schema = MetaSchema { example: Some(example.into()), ..MetaSchema::new("string") };
            MetaMediaType { content_type, schema: MetaSchemaRef::Inline(Box::new(schema)) }
        };
        let mut list = response(200, "", Some(L::schema_ref()), &[LINK_HEADER]);
        list.content.extend([rows(CSV, L::CSV_EXAMPLE), rows(LINES, L::LINES_EXAMPLE)]);
        MetaResponses { responses: vec![list] }
    }

    fn register(registry: &mut Registry) {
        L::register(registry);
    }
}

#[cfg(test)]
mod tests;
