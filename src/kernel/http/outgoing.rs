//! Streamed answers: sent while they are made, piece by piece, because they are too long to be held.
//!
//! Whoever makes an answer waits for the client, but not forever: a client that takes nothing for a while loses the rest.
//! **Invariants:** at most [`PIECES`] pieces of an answer are in memory, and none once it is given up. An answer that was not made
//! to its end breaks off on the wire, so that no client takes what it has for all of it. An answer is [`UnderWay`] until the
//! connection has taken its last piece, or nobody makes it any more. The edge asks for the caller's rights before every piece, so an answer
//! ends soon after they do.

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

/// As many tenants as this times the usual places have one when all of those are taken.
const FIRST_PLACES: usize = 4;

/// Pieces of an answer that wait for the client to take them.
const PIECES: usize = 4;

/// Places for answers of one kind.
#[derive(Clone, Debug)]
pub struct Streams {
    /// What they are called when there are too many.
    kind: &'static str,
    places: Arc<Semaphore>,
    /// For tenants that have no place, when all are taken.
    first_places: Arc<Semaphore>,
    /// How many places each tenant has taken.
    taken: Arc<Mutex<HashMap<TenantId, usize>>>,
    store: Store,
    idle: Duration,
}

/// A place that a tenant has taken.
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

    /// Takes a place for the tenant: one of all, and one of its share.
    fn place(&self, tenant: TenantId) -> Result<Place, Problem> {
        let limit = self.store.quotas_of(tenant)?.streams;
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let own = taken.get(&tenant).copied().unwrap_or_default();
        if own as u64 >= limit {
            let quota = Quota::Streams;
            let detail = format!(
                "Your tenant has {own} {} under way, and its quota `{}` is {limit}. {}",
                self.kind,
                quota.name(),
                quota.advice()
            );
            let problem =
                Problem::new(Code::RateLimited, detail).with("quota", quota.name()).with("limit", limit).with("used", own as u64);
            return Err(problem.retry_after(5));
        }
        let busy = || Problem::unavailable(format!("Too many {} are under way.", self.kind), 5);
        let first = || if own == 0 { self.first_places.clone().try_acquire_owned().ok() } else { None };
        let place = self.places.clone().try_acquire_owned().ok().or_else(first).ok_or_else(busy)?;
        taken.insert(tenant, own + 1);
        Ok(Place { taken: self.taken.clone(), tenant, _permit: place })
    }

    /// Starts `make`, whose pieces become the answer. Refused while all places, or those of the tenant, are taken.
    pub fn start<F>(
        &self,
        tenant: TenantId,
        media_type: &'static str,
        make: impl FnOnce(Outgoing) -> F,
    ) -> Result<Streamed, Problem>
    where
        F: Future<Output = Result<(), Broken>> + Send + 'static,
    {
        let place = self.place(tenant)?;
        let (sender, pieces) = mpsc::channel(PIECES);
        let (out, pieces) = (Outgoing { pieces: sender, idle: self.idle }, Pieces(Arc::new(Mutex::new(pieces))));
        let under_way = UnderWay::default();
        under_way.at_end(move |_| drop(place));
        let over = Over { under_way: under_way.clone(), pieces: pieces.clone() };
        let (made, shares) = (make(out.clone()), self.store.shares().clone());
        tokio::spawn(async move {
            let _over = over;
            let sent = match shares.work_for(tenant, made).await {
                Ok(()) => out.end().await,
                Err(broken) => Err(broken),
            };
            match sent {
                Ok(()) => {}
                Err(Broken::Unwanted) => tracing::debug!("a client did not take the whole of a streamed answer"),
                Err(Broken::Failed(reason)) => tracing::error!(reason, "a streamed answer was broken off"),
            }
        });
        Ok(Streamed { media_type, file_name: None, pieces: Taking(pieces, under_way.rights.clone()), under_way })
    }
}

#[derive(Debug)]
enum Piece {
    Bytes(Bytes),
    /// What came before is the whole answer.
    End,
}

/// Why an answer has no end.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Broken {
    /// The client is gone, or has not taken its answer for too long.
    #[error("nobody takes the answer")]
    Unwanted,
    #[error("{0}")]
    Failed(String),
}

impl Broken {
    pub fn failed(reason: impl ToString) -> Self {
        Self::Failed(reason.to_string())
    }
}

impl From<StoreError> for Broken {
    fn from(error: StoreError) -> Self {
        Self::failed(error)
    }
}

/// Where the pieces of an answer are put while it is made.
#[derive(Clone, Debug)]
pub struct Outgoing {
    pieces: mpsc::Sender<Piece>,
    idle: Duration,
}

impl Outgoing {
    /// Waits until there is room: whoever makes the answer goes no faster than the client takes it. An empty piece only asks whether
    /// the client is still there.
    pub async fn send(&self, piece: impl Into<Bytes>) -> Result<(), Broken> {
        let piece = piece.into();
        if piece.is_empty() {
            return if self.pieces.is_closed() { Err(Broken::Unwanted) } else { Ok(()) };
        }
        self.put(Piece::Bytes(piece)).await
    }

    /// The same on a thread that may block.
    pub fn send_blocking(&self, piece: impl Into<Bytes>) -> Result<(), Broken> {
        tokio::runtime::Handle::current().block_on(self.send(piece))
    }

    async fn put(&self, piece: Piece) -> Result<(), Broken> {
        self.pieces.send_timeout(piece, self.idle).await.map_err(|_| Broken::Unwanted)
    }

    /// Says that the answer is whole, and waits until the connection has taken it.
    async fn end(&self) -> Result<(), Broken> {
        self.put(Piece::End).await?;
        for free in 1..=PIECES {
            match tokio::time::timeout(self.idle, self.pieces.reserve_many(free)).await {
                Ok(Ok(_)) => {}
                // Whoever has taken the end, or is gone, takes nothing more.
                Ok(Err(_)) => return Ok(()),
                Err(_) => return Err(Broken::Unwanted),
            }
        }
        self.pieces.closed().await;
        Ok(())
    }
}

/// The pieces that wait. They are shared by both sides, for an answer that is given up must be let go although the connection is stuck
/// and does not ask for more.
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

/// Says whether the caller may have the next piece.
type MayHaveMore = Box<dyn Fn() -> bool + Send + Sync>;

/// Held by whoever sends an answer: its end lets the maker know that nothing more is taken.
struct Taking(Pieces, Arc<OnceLock<MayHaveMore>>);

impl std::fmt::Debug for Taking {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Taking")
    }
}

impl Taking {
    fn into_body(self) -> Body {
        Body::from_bytes_stream(futures_util::stream::unfold(Some(self), async |taking| {
            let taking = taking?;
            let piece = std::future::poll_fn(|context| taking.0.lock().poll_recv(context)).await;
            let may_have_more = taking.1.get().is_none_or(|may_have_more| may_have_more());
            match piece {
                Some(_) if !may_have_more => Some((Err(io::Error::other("the rights of the caller have ended")), None)),
                Some(Piece::Bytes(bytes)) => Some((Ok(bytes), Some(taking))),
                Some(Piece::End) => None,
                None => Some((Err(io::Error::other("the answer was broken off")), None)),
            }
        }))
    }
}

impl Drop for Taking {
    fn drop(&mut self) {
        self.0.discard();
    }
}

/// How an answer went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The connection has let go of it: it has taken all, or is gone, or the client wanted no body.
    Taken,
    /// The connection has not, and nothing more comes.
    Stuck,
}

type AtEnd = Box<dyn FnOnce(Outcome) + Send>;

enum Progress {
    UnderWay(Vec<AtEnd>),
    Over(Outcome),
}

/// In the extensions of a streamed answer: says when it is over, and lets the edge watch over it.
#[derive(Clone)]
pub struct UnderWay {
    progress: Arc<Mutex<Progress>>,
    rights: Arc<OnceLock<MayHaveMore>>,
}

impl Default for UnderWay {
    fn default() -> Self {
        Self { progress: Arc::new(Mutex::new(Progress::UnderWay(Vec::new()))), rights: Arc::default() }
    }
}

impl UnderWay {
    fn lock(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks `may_have_more` before every piece, and before the end. The answer breaks off when it says no. The first caller counts.
    pub fn watch(&self, may_have_more: impl Fn() -> bool + Send + Sync + 'static) {
        self.rights.get_or_init(|| Box::new(may_have_more));
    }

    /// Runs `act` when the answer is over; at once if it is.
    pub fn at_end(&self, act: impl FnOnce(Outcome) + Send + 'static) {
        let mut progress = self.lock();
        match &mut *progress {
            Progress::UnderWay(acts) => acts.push(Box::new(act)),
            Progress::Over(outcome) => {
                let outcome = *outcome;
                drop(progress);
                act(outcome);
            }
        }
    }

    fn end(&self, outcome: Outcome) {
        let before = std::mem::replace(&mut *self.lock(), Progress::Over(outcome));
        if let Progress::UnderWay(acts) = before {
            for act in acts {
                act(outcome);
            }
        }
    }
}

impl std::fmt::Debug for UnderWay {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("UnderWay")
    }
}

/// Held by whoever makes an answer, so that it is over also when that panics or is dropped.
struct Over {
    under_way: UnderWay,
    pieces: Pieces,
}

impl Drop for Over {
    fn drop(&mut self) {
        let outcome = if self.pieces.lock().is_closed() { Outcome::Taken } else { Outcome::Stuck };
        self.pieces.discard();
        self.under_way.end(outcome);
    }
}

/// An answer that is being made.
#[derive(Debug)]
pub struct Streamed {
    media_type: &'static str,
    file_name: Option<&'static str>,
    pieces: Taking,
    under_way: UnderWay,
}

impl Streamed {
    /// Clients save it under this name.
    pub fn named(mut self, file_name: &'static str) -> Self {
        self.file_name = Some(file_name);
        self
    }
}

impl IntoResponse for Streamed {
    fn into_response(self) -> Response {
        // A browser that is not told would guess; JSON is UTF-8 by its own definition.
        let charset = if self.media_type.starts_with("text/") { "; charset=utf-8" } else { "" };
        let content_type = format!("{}{charset}", self.media_type);
        let mut response = Response::builder().content_type(&content_type).body(self.pieces.into_body());
        if let Some(value) = self.file_name.and_then(|name| HeaderValue::try_from(format!("attachment; filename=\"{name}\"")).ok())
        {
            response.headers_mut().insert(header::CONTENT_DISPOSITION, value);
        }
        response.extensions_mut().insert(self.under_way);
        response
    }
}

/// 200 with values that look like `T`, one a line.
#[derive(Debug)]
pub struct StreamedLines<T>(Streamed, PhantomData<fn() -> T>);

impl<T> StreamedLines<T> {
    pub fn start<F>(streams: &Streams, tenant: TenantId, make: impl FnOnce(Outgoing) -> F) -> Result<Self, Problem>
    where
        F: Future<Output = Result<(), Broken>> + Send + 'static,
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

/// A page of a list whose rows can also be had as a stream.
pub trait Exported: Type {
    const CSV_EXAMPLE: &'static str;
    const LINES_EXAMPLE: &'static str;
}

/// A list as a page, or all of it as a stream of rows. `L` is the form of the page.
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

    /// What is no page of anything longer.
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
