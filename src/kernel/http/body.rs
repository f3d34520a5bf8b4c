//! Reads request bodies. A body may not exceed the size limit or arrive more slowly than the minimum rate, and all bodies together
//! may not use more memory than the budget. A sender that breaks a limit loses its request; other senders are not affected.
//!
//! **Invariant:** several bodies of one sender use at most an [eighth](PART) of the budget. A sender that has no body in memory
//! gets room for one even if others use the whole budget, until all bodies together use twice the budget.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use bytes::{Bytes, BytesMut};
use futures_util::StreamExt;
use http::{HeaderMap, header};
use tokio::time::Instant;

use tenantd_base::{config::Limits, programs::Party};

use super::problem::{Code, Problem};

/// During this time a body may arrive at any rate.
const GRACE: Duration = Duration::from_secs(5);
/// One sender can use this fraction of the budget: one part in eight.
const PART: usize = 8;
/// A body is kept in segments of this size until it is complete. A single growing buffer would leave its smaller predecessors
/// behind.
const SEGMENT: usize = 32 << 10;
/// Bytes reserved for a body that does not announce its length.
const SMALL: usize = 1024;
/// The most bytes that are read of a body that the operation does not accept.
const NOTHING: usize = 1024;

/// The memory for the bodies of all requests.
#[derive(Clone, Debug)]
pub struct BodyBudget {
    bytes: usize,
    /// The bytes that each sender uses.
    held: Arc<Mutex<HashMap<Party, usize>>>,
}

/// The part of the budget that one body uses. Dropping it returns that part.
#[derive(Debug)]
struct Held {
    budget: BodyBudget,
    party: Party,
    bytes: usize,
}

impl BodyBudget {
    pub fn new(limits: &Limits) -> Self {
        Self { bytes: limits.buffered_body_bytes, held: Arc::default() }
    }

    fn held(&self) -> MutexGuard<'_, HashMap<Party, usize>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Held {
    fn nothing(budget: &BodyBudget, party: Party) -> Self {
        Self { budget: budget.clone(), party, bytes: 0 }
    }

    /// Extends the reservation to `bytes` in total.
    fn extend(&mut self, bytes: usize) -> Result<(), Problem> {
        let more = bytes.saturating_sub(self.bytes);
        let mut held = self.budget.held();
        let (own, all) = (held.get(&self.party).copied().unwrap_or_default(), held.values().sum::<usize>());
        let is_only_one = own == self.bytes;
        let part = if is_only_one { usize::MAX } else { self.budget.bytes / PART };
        let most = if is_only_one { self.budget.bytes * 2 } else { self.budget.bytes };
        if own + more > part || all + more > most {
            return Err(Problem::unavailable("Too many large requests are in progress.", 1));
        }
        held.insert(self.party, own + more);
        self.bytes += more;
        Ok(())
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let mut held = self.budget.held();
        if let Some(own) = held.get_mut(&self.party) {
            *own -= self.bytes;
            if *own == 0 {
                held.remove(&self.party);
            }
        }
    }
}

/// A body in memory. Dropping it returns its part of the budget.
#[derive(Debug)]
pub struct BufferedBody {
    pub bytes: Bytes,
    _budget: Held,
}

/// A body that is being received.
struct Pieces {
    pieces: Vec<BytesMut>,
    length: usize,
}

impl Pieces {
    fn new(announced: Option<u64>) -> Self {
        let first = announced.map_or(SMALL, |length| usize::try_from(length).unwrap_or(SEGMENT).min(SEGMENT));
        Self { pieces: vec![BytesMut::with_capacity(first)], length: 0 }
    }

    fn push(&mut self, mut chunk: &[u8]) {
        self.length += chunk.len();
        while !chunk.is_empty() {
            let full = |piece: &BytesMut| piece.len() == piece.capacity();
            if self.pieces.last().is_none_or(full) {
                self.pieces.push(BytesMut::with_capacity(SEGMENT));
            }
            let Some(piece) = self.pieces.last_mut() else { return };
            let (fits, rest) = chunk.split_at(chunk.len().min(piece.capacity() - piece.len()));
            piece.extend_from_slice(fits);
            chunk = rest;
        }
    }

    fn join(mut self) -> Bytes {
        if self.pieces.len() > 1 {
            return self.pieces.concat().into();
        }
        self.pieces.pop().unwrap_or_default().freeze()
    }
}

/// The length that the client announces, if any.
fn announced(headers: &HeaderMap) -> Option<u64> {
    headers.get(header::CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

/// Whether the client announces a body.
pub fn is_announced(headers: &HeaderMap) -> bool {
    announced(headers).is_some_and(|length| length > 0) || headers.contains_key(header::TRANSFER_ENCODING)
}

pub async fn read(
    headers: &HeaderMap,
    body: poem::Body,
    max_bytes: usize,
    limits: &Limits,
    (budget, party): (&BodyBudget, Party),
) -> Result<BufferedBody, Problem> {
    let too_large = || Problem::new(Code::PayloadTooLarge, format!("The body is larger than {max_bytes} bytes."));
    let announced = announced(headers);
    if announced.is_some_and(|length| length > max_bytes as u64) {
        return Err(too_large());
    }
    let mut stream = Box::pin(body.into_bytes_stream());
    let started = Instant::now();
    let (mut pieces, mut held) = (Pieces::new(announced), Held::nothing(budget, party));
    loop {
        let earned = Duration::from_millis((pieces.length * 1000 / limits.body_min_bytes_per_second.max(1)) as u64);
        let deadline = (started + GRACE + earned).min(started + Duration::from_secs(limits.request_seconds));
        let chunk = tokio::time::timeout_at(deadline, stream.next()).await.map_err(|_| Problem::plain(Code::RequestTimeout))?;
        match chunk {
            None => break,
            Some(Err(error)) => return Err(Problem::new(Code::MalformedRequest, format!("The body broke off: {error}"))),
            Some(Ok(chunk)) if pieces.length + chunk.len() > max_bytes => {
                drop(chunk);
                return Err(too_large());
            }
            Some(Ok(chunk)) => {
                held.extend(pieces.length + chunk.len())?;
                pieces.push(&chunk);
            }
        }
    }
    Ok(BufferedBody { bytes: pieces.join(), _budget: held })
}

/// Reads the body of an operation that does not accept one. Many clients then send `{}`, or the `id` that the path already names.
pub async fn read_nothing(
    headers: &HeaderMap,
    body: poem::Body,
    target: Option<&str>,
    limits: &Limits,
    budget: (&BodyBudget, Party),
) -> Result<(), Problem> {
    let refused = || Problem::new(Code::MalformedRequest, "This operation does not accept a request body.");
    let unless_large = |problem: Problem| if problem.code == Code::PayloadTooLarge { refused() } else { problem };
    let body = read(headers, body, NOTHING, limits, budget).await.map_err(unless_large)?;
    if body.bytes.trim_ascii().is_empty() {
        return Ok(());
    }
    let value = super::json::parse(&body.bytes, 1).map_err(|_| refused())?;
    let members = value.as_object().ok_or_else(refused)?;
    match (members.get("id").and_then(serde_json::Value::as_str), members.len(), target) {
        (_, 0, _) => Ok(()),
        (Some(id), 1, Some(target)) if id == target => Ok(()),
        (Some(_), 1, Some(_)) => Err(Problem::plain(Code::IdMismatch)),
        _ => Err(refused()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits(buffered_body_bytes: usize) -> Limits {
        let config = tenantd_base::config::load(None, [], &[]).unwrap();
        Limits { buffered_body_bytes, ..config.limits }
    }

    fn sender(number: u8) -> Party {
        Party::at([192, 0, 2, number].into())
    }

    fn body(chunks: Vec<Vec<u8>>) -> poem::Body {
        poem::Body::from_bytes_stream(futures_util::stream::iter(chunks.into_iter().map(std::io::Result::Ok)))
    }

    #[tokio::test]
    async fn a_body_arrives_as_it_was_sent() {
        let limits = limits(1 << 20);
        let budget = BodyBudget::new(&limits);
        for length in [0, 1, SMALL, SMALL + 1, SEGMENT, 3 * SEGMENT + 7] {
            let sent: Vec<u8> = (0..=250).cycle().take(length).collect();
            for piece in [1, 1000, 50_000] {
                let chunks: Vec<Vec<u8>> = sent.chunks(piece).map(<[u8]>::to_vec).collect();
                let read = read(&HeaderMap::new(), body(chunks), 1 << 20, &limits, (&budget, sender(1))).await.unwrap();
                assert_eq!(read.bytes, sent, "{length} bytes in chunks of {piece}");
            }
        }
    }

    #[tokio::test]
    async fn a_body_in_tiny_chunks_uses_only_its_length_of_the_budget() {
        let limits = limits(16 << 10);
        let budget = BodyBudget::new(&limits);
        let held = read(&HeaderMap::new(), body(vec![b"a".to_vec(); 2048]), 1 << 20, &limits, (&budget, sender(1))).await.unwrap();
        assert_eq!(budget.held()[&sender(1)], 2048);
        drop(held);
        assert!(budget.held().is_empty());
    }

    #[tokio::test]
    async fn one_sender_cannot_use_the_share_of_others() {
        let limits = limits(8 << 10);
        let budget = BodyBudget::new(&limits);
        let send = async |number: u8, length: usize| {
            read(&HeaderMap::new(), body(vec![vec![0; length]]), 1 << 20, &limits, (&budget, sender(number))).await
        };
        let first = send(1, 1000).await.unwrap();
        let second = send(1, 24).await.unwrap();
        assert_eq!(send(1, 1).await.unwrap_err().code, Code::Unavailable, "several bodies get at most an eighth");
        let large = send(2, 7 << 10).await.unwrap();
        assert_eq!(send(2, 1).await.unwrap_err().code, Code::Unavailable, "it already uses more than an eighth");
        let another = send(3, 8 << 10).await.unwrap();
        assert_eq!(send(4, 1).await.unwrap_err().code, Code::Unavailable, "the budget is used twice");
        drop((first, second, large, another));
        assert!(budget.held().is_empty());
        send(2, 1).await.unwrap();
    }
    #[tokio::test]
    async fn an_operation_without_a_body_accepts_an_empty_object_or_its_own_id() {
        let limits = limits(1 << 20);
        let budget = BodyBudget::new(&limits);
        let send = async |text: &str, target: Option<&str>| {
            let body = body(vec![text.as_bytes().to_vec()]);
            read_nothing(&HeaderMap::new(), body, target, &limits, (&budget, sender(1))).await.map_err(|problem| problem.code)
        };
        for text in ["", " \n", "{}", " { } ", "{\"id\":\"tkt_1\"}"] {
            assert_eq!(send(text, Some("tkt_1")).await, Ok(()), "{text}");
        }
        assert_eq!(send("{\"id\":\"tkt_2\"}", Some("tkt_1")).await, Err(Code::IdMismatch));
        assert_eq!(send("{\"id\":\"tkt_1\"}", None).await, Err(Code::MalformedRequest));
        for text in ["[]", "null", "{\"a\":1}", "{\"id\":\"tkt_1\",\"a\":1}", "{", "x", &" ".repeat(2000)] {
            assert_eq!(send(text, Some("tkt_1")).await, Err(Code::MalformedRequest), "{text}");
        }
    }
}
